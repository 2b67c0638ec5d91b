/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/model.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "ops/ops.h"

bool tmk_is_weight(const struct tmk_value *value) {
    return value->kind == TMK_VALUE_INITIALIZER ||
           (value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant"));
}

enum tmk_profile_kind tmk_value_kind_of(const struct tmk_value *value) {
    if (value->kind == TMK_VALUE_INPUT)
        return TMK_PROFILE_INPUT;
    if (tmk_is_weight(value))
        return TMK_PROFILE_WEIGHT;
    return value->n_graph_outputs && !value->graph->parent ? TMK_PROFILE_OUTPUT
                                                           : TMK_PROFILE_ACTIVATION;
}

void tmk_graph_path(const struct tmk_graph *graph, char path[TMK_GRAPH_PATH]) {
    path[0] = '\0';
    for (; graph->owner; graph = graph->parent) {
        char longer[TMK_GRAPH_PATH];
        const char *attr = "";
        for (uint32_t i = 0; i < graph->owner->n_attrs; i++) {
            const struct tmk_attr *a = &graph->owner->attrs[i];
            if (a->kind == TMK_ATTR_GRAPH && a->graphs[0] == graph)
                attr = a->name;
        }
        int n = snprintf(longer, sizeof longer, "%s/%s%s%s", TMK_NODE_LABEL(graph->owner), attr,
                         path[0] ? "/" : "", path);
        if (n > 0 && n < TMK_GRAPH_PATH)
            memcpy(path, longer, (size_t)n + 1);
    }
}

static bool is_text(const char *name) {
    return !name || tmk_utf8_valid(name, strlen(name));
}

static enum tmk_status check_names(const struct tmk_graph *graph, struct tmk_diag *diag) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (!is_text(node->name) || !is_text(node->op) || !is_text(node->domain))
            return tmk_fail(diag, TMK_FORMAT, "node %s has a name that is not UTF-8",
                            TMK_NODE_LABEL(node));
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        bool text = is_text(value->name);
        for (int k = 0; k < value->type.shape.rank && value->type.has_shape; k++)
            text = text && is_text(value->type.symbol[k]);
        if (!text)
            return tmk_fail(diag, TMK_FORMAT,
                            "value '%s', or an axis of it, has a name that is not UTF-8",
                            tmk_value_label(value));
    }
    return TMK_OK;
}

enum tmk_status tmk_check_names(struct tmk_graph *graph, struct tmk_diag *diag) {
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        TMK_TRY(check_names(g, diag));
    return TMK_OK;
}
