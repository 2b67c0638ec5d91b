/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the values whose types a file does not declare, found by running shape inference over
 * the graph, so that passes may ask `value->type` for ranks and channel counts.
 *
 * Free dimensions are given sizes, several times over: a dimension that comes out the same however
 * they were chosen is a number, one that does not is -1, a rank that does not is not known. This is
 * evidence and no proof: a graph that pads to 4096 elements what was shorter looks as if it always
 * made 4096. A pass that a wrong size would make wrong calls tmk_infer_certain. */
#pragma once

#include "graph/graph.h"

/* Fills in what is not known yet of the types of nodes' results, sub-graphs' too: dtype, rank,
 * sizes of dimensions (the names of those that turn out to be numbers go). Where a file declares
 * another shape than is found, the found one stays. Types of inputs, initializers and the declared
 * shapes of graph outputs, which are the model's signature, are left as they are.
 *
 * Small computations on constants and on shapes are followed by number. What an operator refuses,
 * what depends on elements, and bodies of loops as far as they depend on what is carried, stay
 * unknown: the only failure is TMK_NOMEM. The graph is sorted, and bound as far as its operators
 * are known; its values are numbered anew. */
enum tmk_status tmk_fill_types(struct tmk_graph *graph, struct tmk_diag *diag);

/* What inference found of a graph's values. */
struct tmk_inferred {
    uint32_t n;
    /* By the value's index; dtype TMK_UNDEFINED: its type is not known; data NULL: its elements are
     * not. Those of weights, and few others', are there. */
    struct tmk_tensor *tensors;
};
/* Of every run: follows the same computations from weights and from inputs whose shapes are
 * declared in full, taking nothing else on trust. As above; end with tmk_inferred_finish. */
enum tmk_status tmk_infer_certain(struct tmk_graph *graph, struct tmk_inferred *out,
                                  struct tmk_diag *diag);
/* Of a run with these inputs, graph inputs in order (data NULL: not known; inputs NULL: of every
 * run, as tmk_infer_certain): also what the file declares of results, with free dimensions as
 * inputs have them that share their names. `n` is what tmk_graph_number returned; the graph is only
 * read. Not certain where a declaration is wrong. */
enum tmk_status tmk_infer_run(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                              uint32_t n, struct tmk_inferred *out, struct tmk_diag *diag);
void tmk_inferred_finish(struct tmk_inferred *inferred);
