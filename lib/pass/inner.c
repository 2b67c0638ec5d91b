/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "ops/ops.h"

struct showing {
    struct tmk_map names; /* of all values; only where some node has something to show */
    struct tmk_node **nodes;
    size_t n, size;
    int64_t next_id;
    bool failed;
};

static struct tmk_value *first_output(const struct tmk_node *node) {
    uint32_t i = 0;
    while (i < node->n_outputs && !node->outputs[i])
        i++;
    return i < node->n_outputs ? node->outputs[i] : NULL;
}

static void list_nodes(struct tmk_graph *graph, void *context) {
    struct showing *s = context;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]) && graph->values[i]->profile_id >= s->next_id)
            s->next_id = graph->values[i]->profile_id + 1;
    for (struct tmk_node *node = graph->first; node && !s->failed; node = node->next) {
        const struct tmk_value *first = first_output(node);
        if (!node->row || !node->row->inner || !first || first->profile_id < 0)
            continue;
        s->failed = !TMK_GROW(s->nodes, s->n, s->size);
        if (!s->failed)
            s->nodes[s->n++] = node;
    }
}

static void list_names(struct tmk_graph *graph, void *context) {
    struct showing *s = context;
    for (uint32_t i = 0; i < graph->n_values && !s->failed; i++)
        s->failed = !tmk_map_put(&s->names, graph->values[i]->name, graph->values[i]);
}

static int by_id(const void *a, const void *b) {
    const int64_t x = first_output(*(struct tmk_node *const *)a)->profile_id,
                  y = first_output(*(struct tmk_node *const *)b)->profile_id;
    return TMK_ORDER(x, y);
}

static enum tmk_status show_one(struct showing *s, struct tmk_node *node,
                                const struct tmk_inner_rule *rule, struct tmk_diag *diag) {
    const struct tmk_value *first = first_output(node);
    const size_t length = strlen(rule->name),
                 size = strlen(node->name) + strlen(first->name) + length + 16;
    struct tmk_value *value;
    char *name = malloc(size);
    TMK_TRY_ALLOC(name, diag);
    snprintf(name, size, "%s/%s", *node->name ? node->name : first->name, rule->name);
    if (tmk_map_get(&s->names, name)) /* nodes may share a name, values do not */
        snprintf(name, size, "%s/%s", first->name, rule->name);
    for (unsigned i = 2; tmk_map_get(&s->names, name); i++)
        snprintf(name, size, "%s/%s_%u", first->name, rule->name, i);
    enum tmk_status status = tmk_node_add_output(node, rule->output, name, &value, diag);
    free(name);
    TMK_TRY(status);
    value->inner = true;
    value->type.dtype = value->type.origin = TMK_FLOAT32;
    value->profile_id = s->next_id++;
    value->fingerprint = tmk_hash64(rule->name, length, first->fingerprint);
    value->content = tmk_hash64(rule->name, length, first->content);
    value->ordinal = first->ordinal;
    return tmk_map_put(&s->names, value->name, value) ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status show_node(struct showing *s, struct tmk_node *node, struct tmk_diag *diag) {
    const struct tmk_op *row = node->row;
    const char *at = row->inner;
    struct tmk_inner_rule rule;
    while (tmk_inner_rule_next(&at, &rule))
        if ((rule.output >= node->n_outputs || !node->outputs[rule.output]) &&
            (!row->has_inner || row->has_inner(node, rule.output)))
            TMK_TRY(show_one(s, node, &rule, diag));
    return TMK_OK;
}

enum tmk_status tmk_show_inner(struct tmk_graph *graph, struct tmk_diag *diag) {
    struct showing s = {0};
    tmk_graph_each(graph, list_nodes, &s);
    if (s.n)
        tmk_graph_each(graph, list_names, &s);
    enum tmk_status status = s.failed ? tmk_nomem(diag) : TMK_OK;
    if (status == TMK_OK && s.n)
        qsort(s.nodes, s.n, sizeof(struct tmk_node *), by_id);
    for (size_t i = 0; status == TMK_OK && i < s.n; i++)
        status = show_node(&s, s.nodes[i], diag);
    tmk_map_finish(&s.names);
    free(s.nodes);
    return status;
}
