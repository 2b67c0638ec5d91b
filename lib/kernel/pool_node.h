/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes the pooling nodes of this module are for. */
#pragma once

#include "graph/graph.h"

static inline bool tmk_is_max_pool(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "MaxPool");
}

/* AveragePool, and MaxPool whose indices are not wanted. */
static inline bool tmk_is_pool(const struct tmk_node *node) {
    if (tmk_is_max_pool(node))
        return node->n_outputs == 1 || !node->outputs[1];
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "AveragePool");
}
