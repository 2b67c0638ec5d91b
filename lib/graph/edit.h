/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to this module. */
#pragma once

#include "graph/graph.h"

/* Records that node->inputs[input] is `value`; the caller sets the input itself. */
enum tmk_status tmk_use_add(struct tmk_value *value, struct tmk_node *node, uint32_t input,
                            struct tmk_diag *diag);
/* Takes back every use and output that the graph and those below it make of values: it is to be no
 * more. */
void tmk_graph_detach(struct tmk_graph *graph);
/* Drops the tensors that the node's attributes hold, sub-graphs included, and the attributes. */
void tmk_node_drop_attrs(struct tmk_node *node);
