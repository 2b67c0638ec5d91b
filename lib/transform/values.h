/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a graph by their profile IDs, and what profiles and lineages record of each. */
#ifndef TMK_TRANSFORM_VALUES_H
#define TMK_TRANSFORM_VALUES_H

#include <tidemark/profile.h>

#include "graph/graph.h"

/* The values of an identified graph, sub-graphs included, at their IDs. */
struct tmk_by_id {
    struct tmk_value **values; /* NULL: no live value has this ID */
    size_t n;
};
TMK_NODISCARD enum tmk_status tmk_by_id_init(struct tmk_by_id *by_id, struct tmk_graph *graph,
                                             struct tmk_diag *diag);
void tmk_by_id_finish(struct tmk_by_id *by_id);

/* What the value is to its network. */
enum tmk_profile_kind tmk_value_kind_of(const struct tmk_value *value);
/* "If 'if1'/then_branch" for each graph between this one and the root, outermost first; as much of
 * it as fits. */
enum { TMK_GRAPH_PATH = 1024 };
void tmk_graph_path(const struct tmk_graph *graph, char path[TMK_GRAPH_PATH]);

/* An initializer, or the value of a Constant node. */
bool tmk_is_weight(const struct tmk_value *value);

/* Names of nodes, values and axes are text in profiles and lineages: UTF-8. */
TMK_NODISCARD enum tmk_status tmk_check_names(struct tmk_graph *graph, struct tmk_diag *diag);

#endif
