/* SPDX-License-Identifier: Apache-2.0 */
/* Values inside operators, as edges that can be observed. */
#ifndef TMK_PASS_INNER_H
#define TMK_PASS_INNER_H

#include "graph/graph.h"

/* Gives the nodes of a bound, identified graph, sub-graphs included, an output for each of their
 * inner values (ops/ops.h). Its name is NODE/WHAT, or OUTPUT/WHAT where the node has no name of its
 * own, and longer where a value has that. Its ID follows those of the graph's own values, in the
 * order of the nodes' first outputs; fingerprint and content are those of that output and WHAT.
 * Such a graph can be run, and is no model to be written. */
TMK_NODISCARD enum tmk_status tmk_show_inner(struct tmk_graph *graph, struct tmk_diag *diag);

#endif
