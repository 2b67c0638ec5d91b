/* SPDX-License-Identifier: Apache-2.0 */
/* Asking graphs. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "graph/graph.h"

const struct tmk_attr *tmk_node_attr(const struct tmk_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

static const struct tmk_attr *of_kind(const struct tmk_node *node, const char *name,
                                      enum tmk_attr_kind kind) {
    const struct tmk_attr *attr = tmk_node_attr(node, name);
    return attr && attr->kind == kind ? attr : NULL;
}

int64_t tmk_node_int(const struct tmk_node *node, const char *name, int64_t otherwise) {
    const struct tmk_attr *attr = of_kind(node, name, TMK_ATTR_INT);
    return attr ? attr->i : otherwise;
}

float tmk_node_float(const struct tmk_node *node, const char *name, float otherwise) {
    const struct tmk_attr *attr = of_kind(node, name, TMK_ATTR_FLOAT);
    return attr ? attr->f : otherwise;
}

const char *tmk_node_string(const struct tmk_node *node, const char *name, const char *otherwise) {
    const struct tmk_attr *attr = of_kind(node, name, TMK_ATTR_STRING);
    return attr ? attr->s : otherwise;
}

const int64_t *tmk_node_ints(const struct tmk_node *node, const char *name, size_t *n) {
    const struct tmk_attr *attr = of_kind(node, name, TMK_ATTR_INTS);
    *n = attr ? attr->n : 0;
    return attr ? attr->ints : NULL;
}

const float *tmk_node_floats(const struct tmk_node *node, const char *name, size_t *n) {
    const struct tmk_attr *attr = of_kind(node, name, TMK_ATTR_FLOATS);
    *n = attr ? attr->n : 0;
    return attr ? attr->floats : NULL;
}

int32_t tmk_graph_input_named(const struct tmk_graph *graph, const char *name, size_t len) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (strlen(graph->inputs[i]->name) == len && memcmp(graph->inputs[i]->name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

bool tmk_node_is(const struct tmk_node *node, const char *domain, const char *op) {
    return strcmp(node->op, op) == 0 && strcmp(node->domain, domain) == 0;
}

bool tmk_node_is_observer(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_TIDEMARK, TMK_OP_OBSERVER);
}

const char *tmk_value_label(const struct tmk_value *value) {
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (tmk_node_is_observer(value->uses[i].node))
            return tmk_node_string(value->uses[i].node, "tensor_name", value->name);
    return value->name;
}

const char *tmk_node_label(const struct tmk_node *node, char *out, size_t size) {
    if (node->name[0]) {
        tmk_print_cut(out, size, "%s '%s'", node->op, node->name);
        return out;
    }
    uint32_t position = 0;
    for (const struct tmk_node *p = node->prev; p; p = p->prev)
        position += !tmk_node_is_observer(p);
    const char *result = "";
    for (uint32_t i = 0; i < node->n_outputs && !result[0]; i++)
        if (node->outputs[i])
            result = tmk_value_label(node->outputs[i]);
    tmk_print_cut(out, size, "%s #%u (makes '%s')", node->op, position, result);
    return out;
}

const struct tmk_value *tmk_value_source(const struct tmk_value *value) {
    while (value->producer && tmk_node_is_observer(value->producer) &&
           value->producer->n_inputs == 1 && value->producer->inputs[0])
        value = value->producer->inputs[0];
    return value;
}

struct tmk_graph *tmk_graph_root(const struct tmk_graph *graph) {
    while (graph->parent)
        graph = graph->parent;
    return (struct tmk_graph *)(uintptr_t)graph;
}

/* The attribute of the node that holds the graph, or NULL. */
static const struct tmk_attr *attribute_of_graph(const struct tmk_node *node,
                                                 const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (graph->place < tmk_attr_graphs(&node->attrs[i]) &&
            node->attrs[i].graphs[graph->place] == graph)
            return &node->attrs[i];
    return NULL;
}

struct tmk_graph *tmk_node_next_graph(const struct tmk_node *node, const struct tmk_graph *graph) {
    const struct tmk_attr *of = NULL, *next = NULL;
    if (graph) {
        of = attribute_of_graph(node, graph);
        if (!of)
            return NULL;
        if (graph->place + 1 < of->n)
            return of->graphs[graph->place + 1];
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) { /* they are few */
        const struct tmk_attr *attr = &node->attrs[i];
        if (tmk_attr_graphs(attr) && (!of || strcmp(attr->name, of->name) > 0) &&
            (!next || strcmp(attr->name, next->name) < 0))
            next = attr;
    }
    return next ? next->graphs[0] : NULL;
}

struct tmk_graph *tmk_graph_next(const struct tmk_graph *top, const struct tmk_graph *graph) {
    const struct tmk_graph *seen = NULL;
    const struct tmk_node *node = graph->first;
    for (;;) {
        for (; node; node = node->next, seen = NULL) {
            struct tmk_graph *below = tmk_node_next_graph(node, seen);
            if (below)
                return below;
        }
        if (graph == top)
            return NULL;
        node = graph->owner;
        seen = graph;
        graph = graph->parent;
    }
}

bool tmk_value_alive(const struct tmk_value *value) {
    return value->graph && (value->kind != TMK_VALUE_RESULT || !value->producer->removed);
}

static void number_values(struct tmk_graph *graph, uint32_t *next) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        graph->inputs[i]->index = (*next)++;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            graph->values[i]->index = (*next)++;
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            number_values(g, next);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                node->outputs[i]->index = (*next)++;
    }
}

uint32_t tmk_graph_number(struct tmk_graph *graph) {
    uint32_t next = 0;
    number_values(graph, &next);
    return next;
}

/* ---- by profile ID ---- */

enum tmk_status tmk_by_id_init(struct tmk_by_id *by_id, const struct tmk_graph *graph,
                               struct tmk_diag *diag) {
    *by_id = (struct tmk_by_id){0};
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]) && g->values[i]->profile_id >= (int64_t)by_id->n)
                by_id->n = (size_t)g->values[i]->profile_id + 1;
    by_id->values = calloc(by_id->n + 1, sizeof(struct tmk_value *));
    TMK_TRY_ALLOC(by_id->values, diag);
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]) && g->values[i]->profile_id >= 0)
                by_id->values[g->values[i]->profile_id] = g->values[i];
    return TMK_OK;
}

void tmk_by_id_finish(struct tmk_by_id *by_id) {
    free(by_id->values);
    *by_id = (struct tmk_by_id){0};
}

struct tmk_value *tmk_by_id_get(const struct tmk_by_id *by_id, uint32_t id) {
    return id < by_id->n ? by_id->values[id] : NULL;
}
