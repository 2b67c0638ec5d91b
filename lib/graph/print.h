/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as text: for people, for tests, and for printing and parsing back between passes.
 *
 * One line a node:
 *
 *     graph "name" opset 17 "com.microsoft" 1 {
 *       input %x : f32["N",3,8,?] "image" @p0
 *       init %w : f32[2,2] = {1, 0.5, -0x1p-3, nan} "conv1.weight" @p1
 *       init %b : f32[512] = #0
 *       %y, %mask = Dropout.13(%x, _, %t) {axis=-1, ratio=0.5f, mode="x", pads=[0,1], scales=[1f,2f], to=:i64,
 *                                         value=f32[2]{1,2}, body=graph "g" { ... }} : f32[?,3], bool "node name" @p2, @p3
 *       output %y
 *     }
 *
 * Values are %identifiers: in print, %N by tmk_graph_number's index. The quoted string after a value's type is its
 * own name in the model; without one its name is the identifier. `_` is an absent input or output. Types: f32 f64
 * f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool str ...; a shape holds numbers, "symbols" and ?; no brackets: rank
 * unknown. A domain is written before the operator with "::" ("com.microsoft::Gelu"); ".13" is the operator set
 * version of the node, printed only where it differs from the graph's. Tensors are printed in full up to a limit,
 * as `#k` beyond it: entry k of a pool of tensors that print fills and parse reads.
 */
#ifndef TMK_GRAPH_PRINT_H
#define TMK_GRAPH_PRINT_H

#include "base/text.h"
#include "graph/graph.h"

/* Tensors that a text refers to by number. Zero-initialised is empty. Holds references. */
struct tmk_pool {
    struct tmk_tensor *tensors;
    size_t n, size;
};
void tmk_pool_finish(struct tmk_pool *pool);

/* Appends the text form. Tensors of more than `inline_limit` elements go to the pool; with pool NULL they print as
 * `...` (for people; such a text does not parse). text->failed tells of memory. */
void tmk_graph_print(struct tmk_graph *graph, size_t inline_limit, struct tmk_pool *pool,
                     struct tmk_text *text);

/* Reads the text form of a root. Errors are TMK_FORMAT with "line:column". The graph is verified, rows unbound. */
TMK_NODISCARD enum tmk_status tmk_graph_parse(const char *text, const struct tmk_pool *pool,
                                              struct tmk_graph **out, struct tmk_diag *diag);

/* Appends the graph in Graphviz's dot language: a box a node, an edge a use, labelled with ID and shape. */
void tmk_graph_dot(struct tmk_graph *graph, struct tmk_text *text);

#endif
