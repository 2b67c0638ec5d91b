/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as text: for people, and for tests, which read it back (tests/graph_text).
 *
 * One line a node:
 *
 *     graph "name" opset 17 "com.microsoft" 1 ir 8 producer "pytorch" {
 *       input %x : f32["N",3,8,?] "image" @p0
 *       init %w : f32[2,2] = {1, 0.5, -0x1p-3, nan} "conv1.weight" @p1
 *       init %b : f32<f16>[512] = ...
 *       %y, %m = Dropout.13(%x, _, %b) {ratio=0.5f, mode="x"} "node" : f32[?,3] @p2, bool "mask"
 *       %z = Some(%y) {axis=-1, pads=[0,1], to=:i64[3], value=f32[2]{1,2}, body=graph "g" {
 *         %t = Relu(%w)
 *         output %t
 *       }}
 *       output %z
 *     }
 *
 * Graph: its name; of a root also the operator sets (without a string: ONNX's own), the file's IR
 * version and producer, each where there is one. Inputs and outputs stand in their order.
 * Everything is defined above its use. Blanks and line breaks mean nothing; // begins a comment.
 *
 * Values are %identifiers (letters, digits, _ and .), visible from the next line on and in the
 * graphs below, where they may not be defined again; in print, %N by tmk_graph_number's index.
 * After a node's ':' stands, for each output: its type, then its own name in the model as a string,
 * then its profile ID. Without a name it is the identifier's; without an ID it has none; without
 * ':' no type is known either. `_` is an absent input or output, there too.
 *
 * Nodes: "com.microsoft::Gelu" is an operator of another domain; ".13" the operator set version of
 * the node, left out where it is the graph's; the string after inputs and attributes is the node's
 * name, left out when empty. Operators, domains and attributes whose names are no words stand as
 * strings.
 *
 * Types: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool str c64 c128 i4 u4 f4e2m1 f8e4m3fn
 * f8e4m3fnuz f8e5m2 f8e5m2fnuz, ? for not known; f32<f16> was f16 in the file. A shape holds
 * numbers, "symbols", "symbols"=numbers and ?; without brackets the rank is not known.
 * sequence(...) and optional(...) hold one such type, optional(sequence(...)) too.
 *
 * Attributes by their form: 1 is an int, 1f a float, "a" a string, :f32[2] a type, f32[1]{1} a
 * tensor, graph "g" {} a graph, [1,2] a list of one of these but types. Empty lists: [] of ints,
 * floats[] strings[] tensors[] graphs[].
 *
 * Elements of tensors: {1, 2} in row-major order; complex ones are pairs (1,2), bool is 0 or 1, the
 * 8- and 4-bit floats are bits like 0x7f. Beyond a limit `...`, which cannot be read back. Floats
 * read back to the same bits; NaN other than the usual quiet one shows its bits: nan:0xffc00001.
 *
 * Strings hold UTF-8; \" \\ \n and \xHH stand for what would not print, and for bytes that are no
 * UTF-8. */
#pragma once

#include "base/text.h"
#include "graph/graph.h"
#include "graph/lineage.h"

enum { TMK_INLINE_LIMIT = 8 }; /* elements of a tensor that people are shown */

/* Appends the text form (of a sub-graph too, but only a root's reads back) with the elements of
 * tensors that have no more than `inline_limit`, and numbers the values anew. With a lineage (NULL:
 * none), for people: what each value stands for in the place of its ID, tmk_lineage_put. */
void tmk_graph_print(struct tmk_graph *graph, size_t inline_limit,
                     const struct tmk_lineage *lineage, struct tmk_text *text);

enum { TMK_DOT_NOTE = 64 };
/* A line more in the boxes of some nodes, which are filled. */
struct tmk_dot_notes {
    bool (*note)(const void *context, const struct tmk_node *node, char out[TMK_DOT_NOTE]);
    const void *context;
};
/* Appends the graph in Graphviz's dot language: a box a node, an edge a use, labelled with ID and
 * shape; a cluster a sub-graph. notes may be NULL. Numbers the values anew and uses the nodes'
 * marks. */
void tmk_graph_dot(struct tmk_graph *graph, const struct tmk_dot_notes *notes,
                   struct tmk_text *text);
