/* SPDX-License-Identifier: Apache-2.0 */
/* Making graphs: inputs, initializers, nodes, attributes. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "graph/edit.h"

/* Arena arrays grow by doubling; the old copy stays behind until the graph goes. */
static void *grow_array(struct tmk_arena *arena, void *old, uint32_t used, uint32_t *size,
                        size_t element) {
    if (used < *size)
        return old;
    uint32_t larger = *size ? *size * 2 : 4;
    void *array = larger > *size ? tmk_arena_array(arena, larger, element) : NULL;
    if (!array)
        return NULL;
    if (used)
        memcpy(array, old, used * element);
    *size = larger;
    return array;
}

#define GROW(graph, array, used, size)                                                             \
    grow_array((graph)->arena, array, used, &(size), sizeof *(array))

enum tmk_status tmk_graph_create(const char *name, struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_arena *arena = calloc(1, sizeof *arena);
    struct tmk_graph *graph = arena ? tmk_arena_alloc(arena, sizeof *graph) : NULL;
    if (graph) {
        graph->arena = arena;
        graph->name = tmk_arena_strdup(arena, name);
        graph->producer_name = "";
    }
    if (!graph || !graph->name) {
        if (arena)
            tmk_arena_finish(arena);
        free(arena);
        return tmk_nomem(diag);
    }
    *out = graph;
    return TMK_OK;
}

enum tmk_status tmk_graph_create_sub(struct tmk_graph *parent, const char *name,
                                     struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_graph *graph = tmk_arena_alloc(parent->arena, sizeof *graph);
    char *copy = tmk_arena_strdup(parent->arena, name);
    TMK_TRY_ALLOC(graph && copy, diag);
    graph->arena = parent->arena;
    graph->parent = parent;
    graph->name = copy;
    struct tmk_graph *root = tmk_graph_root(parent);
    graph->made = root->made;
    root->made = graph;
    graph->producer_name = "";
    *out = graph;
    return TMK_OK;
}

static void drop_attr(struct tmk_attr *attr);

static void drop_tensors(struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        tmk_tensor_finish(&graph->values[i]->data);
    for (struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_attrs; i++)
            drop_attr(&node->attrs[i]);
}

static void drop_attr(struct tmk_attr *attr) {
    if (attr->kind == TMK_ATTR_TENSOR || attr->kind == TMK_ATTR_TENSORS)
        for (size_t i = 0; i < attr->n; i++)
            tmk_tensor_finish(&attr->tensors[i]);
    for (size_t i = 0; i < tmk_attr_graphs(attr); i++)
        drop_tensors(attr->graphs[i]);
}

void tmk_node_drop_attrs(struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        drop_attr(&node->attrs[i]);
    node->n_attrs = 0;
}

void tmk_graph_destroy(struct tmk_graph **slot) {
    struct tmk_graph *graph = slot ? *slot : NULL;
    if (!graph)
        return;
    *slot = NULL;
    drop_tensors(graph);
    /* also those that an error kept from becoming a node's */
    for (struct tmk_graph *sub = graph->made; sub; sub = sub->made)
        drop_tensors(sub);
    struct tmk_arena *arena = graph->arena;
    tmk_arena_finish(arena);
    free(arena);
}

enum tmk_status tmk_graph_set_opset(struct tmk_graph *graph, const char *domain, int64_t version,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < graph->n_opsets; i++)
        if (strcmp(graph->opsets[i].domain, domain) == 0) {
            graph->opsets[i].version = version;
            return TMK_OK;
        }
    struct tmk_opset *opsets = GROW(graph, graph->opsets, graph->n_opsets, graph->opsets_size);
    char *copy = tmk_arena_strdup(graph->arena, domain);
    TMK_TRY_ALLOC(opsets && copy, diag);
    graph->opsets = opsets;
    graph->opsets[graph->n_opsets++] = (struct tmk_opset){copy, version};
    return TMK_OK;
}

int64_t tmk_graph_opset(const struct tmk_graph *graph, const char *domain) {
    const struct tmk_graph *root = tmk_graph_root(graph);
    for (uint32_t i = 0; i < root->n_opsets; i++)
        if (strcmp(root->opsets[i].domain, domain) == 0)
            return root->opsets[i].version;
    return 0;
}

/* Exporters write "?" for what has no name. */
static bool is_symbol(const char *symbol) {
    return symbol && *symbol && strcmp(symbol, "?") != 0;
}

static enum tmk_status copy_type(struct tmk_graph *graph, const struct tmk_type *from,
                                 struct tmk_type *to, struct tmk_diag *diag) {
    *to = *from;
    for (int i = 0; i < TMK_MAX_RANK; i++) {
        to->symbol[i] = NULL;
        if (from->has_shape && i < from->shape.rank && is_symbol(from->symbol[i])) {
            to->symbol[i] = tmk_arena_strdup(graph->arena, from->symbol[i]);
            TMK_TRY_ALLOC(to->symbol[i], diag);
        }
    }
    return TMK_OK;
}

static enum tmk_status add_value(struct tmk_graph *graph, const char *name,
                                 enum tmk_value_kind kind, struct tmk_value **out,
                                 struct tmk_diag *diag) {
    struct tmk_value **values = GROW(graph, graph->values, graph->n_values, graph->values_size);
    struct tmk_value *value = tmk_arena_alloc(graph->arena, sizeof *value);
    char *copy = tmk_arena_strdup(graph->arena, name);
    TMK_TRY_ALLOC(values && value && copy, diag);
    graph->values = values;
    value->graph = graph;
    value->name = copy;
    value->kind = kind;
    value->profile_id = -1;
    graph->values[graph->n_values++] = value;
    *out = value;
    return TMK_OK;
}

enum tmk_status tmk_graph_add_input(struct tmk_graph *graph, const char *name,
                                    const struct tmk_type *type, struct tmk_value **out,
                                    struct tmk_diag *diag) {
    struct tmk_value **inputs = GROW(graph, graph->inputs, graph->n_inputs, graph->inputs_size);
    struct tmk_type copy;
    struct tmk_value *value = NULL;
    TMK_TRY_ALLOC(inputs, diag);
    graph->inputs = inputs;
    TMK_TRY(copy_type(graph, type, &copy, diag));
    TMK_TRY(add_value(graph, name, TMK_VALUE_INPUT, &value, diag));
    value->type = copy;
    graph->inputs[graph->n_inputs++] = value;
    *out = value;
    return TMK_OK;
}

enum tmk_status tmk_graph_add_initializer(struct tmk_graph *graph, const char *name,
                                          const struct tmk_tensor *data, struct tmk_value **out,
                                          struct tmk_diag *diag) {
    struct tmk_value *value = NULL;
    TMK_TRY(add_value(graph, name, TMK_VALUE_INITIALIZER, &value, diag));
    tmk_tensor_share(&value->data, data);
    value->type.dtype = data->dtype;
    value->type.origin = data->origin;
    value->type.has_shape = true;
    value->type.shape = data->shape;
    *out = value;
    return TMK_OK;
}

enum tmk_status tmk_graph_add_output(struct tmk_graph *graph, struct tmk_value *value,
                                     struct tmk_diag *diag) {
    struct tmk_value **outputs = GROW(graph, graph->outputs, graph->n_outputs, graph->outputs_size);
    TMK_TRY_ALLOC(outputs, diag);
    graph->outputs = outputs;
    value->output_at = graph->n_outputs;
    graph->outputs[graph->n_outputs++] = value;
    value->n_graph_outputs++;
    return TMK_OK;
}

enum tmk_status tmk_value_set_type(struct tmk_value *value, const struct tmk_type *type,
                                   struct tmk_diag *diag) {
    struct tmk_type copy;
    TMK_TRY(copy_type(value->graph, type, &copy, diag));
    value->type = copy;
    return TMK_OK;
}

enum tmk_status tmk_value_rename(struct tmk_value *value, const char *name, struct tmk_diag *diag) {
    char *copy = tmk_arena_strdup(value->graph->arena, name);
    TMK_TRY_ALLOC(copy, diag);
    value->name = copy;
    return TMK_OK;
}

enum tmk_status tmk_use_add(struct tmk_value *value, struct tmk_node *node, uint32_t input,
                            struct tmk_diag *diag) {
    struct tmk_use *uses = GROW(value->graph, value->uses, value->n_uses, value->uses_size);
    TMK_TRY_ALLOC(uses, diag);
    value->uses = uses;
    node->use_at[input] = value->n_uses;
    value->uses[value->n_uses++] = (struct tmk_use){node, input};
    return TMK_OK;
}

static enum tmk_status make_output(struct tmk_node *node, uint32_t i, const char *name,
                                   struct tmk_diag *diag) {
    TMK_TRY(add_value(node->graph, name, TMK_VALUE_RESULT, &node->outputs[i], diag));
    node->outputs[i]->producer = node;
    node->outputs[i]->output = i;
    return TMK_OK;
}

enum tmk_status tmk_node_add_output(struct tmk_node *node, uint32_t output, const char *name,
                                    struct tmk_value **out, struct tmk_diag *diag) {
    if (output >= node->n_outputs) {
        struct tmk_value **outputs =
            tmk_arena_array(node->graph->arena, output + 1u, sizeof(struct tmk_value *));
        TMK_TRY_ALLOC(outputs, diag);
        if (node->n_outputs)
            memcpy(outputs, node->outputs, node->n_outputs * sizeof(struct tmk_value *));
        node->outputs = outputs;
        node->n_outputs = output + 1;
    }
    TMK_TRY(make_output(node, output, name, diag));
    *out = node->outputs[output];
    return TMK_OK;
}

enum tmk_status tmk_graph_add_node(struct tmk_graph *graph, struct tmk_node *before,
                                   const struct tmk_node_spec *spec, struct tmk_node **out,
                                   struct tmk_diag *diag) {
    struct tmk_arena *arena = graph->arena;
    struct tmk_node *node = tmk_arena_alloc(arena, sizeof *node);
    TMK_TRY_ALLOC(node, diag);
    node->graph = graph;
    node->domain = tmk_arena_strdup(arena, spec->domain);
    node->op = tmk_arena_strdup(arena, spec->op);
    node->name = tmk_arena_strdup(arena, spec->name);
    node->version = spec->version;
    node->inputs = tmk_arena_array(arena, spec->n_inputs, sizeof *node->inputs);
    node->use_at = tmk_arena_array(arena, spec->n_inputs, sizeof *node->use_at);
    node->outputs = tmk_arena_array(arena, spec->n_outputs, sizeof *node->outputs);
    TMK_TRY_ALLOC(node->domain && node->op && node->name && node->inputs && node->use_at &&
                      node->outputs,
                  diag);
    node->n_inputs = spec->n_inputs;
    node->n_outputs = spec->n_outputs;
    for (uint32_t i = 0; i < spec->n_outputs; i++)
        if (spec->outputs[i])
            TMK_TRY(make_output(node, i, spec->outputs[i], diag));
    for (uint32_t i = 0; i < spec->n_inputs; i++) {
        if (!spec->inputs[i])
            continue;
        TMK_TRY(tmk_use_add(spec->inputs[i], node, i, diag));
        node->inputs[i] = spec->inputs[i];
    }
    node->next = before;
    node->prev = before ? before->prev : graph->last;
    *(node->prev ? &node->prev->next : &graph->first) = node;
    *(before ? &before->prev : &graph->last) = node;
    graph->n_nodes++;
    if (out)
        *out = node;
    return TMK_OK;
}

static void *copy_array(struct tmk_arena *arena, const void *from, size_t n, size_t size) {
    void *to = tmk_arena_array(arena, n, size);
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

static enum tmk_status copy_attr(struct tmk_graph *graph, const struct tmk_attr *from,
                                 struct tmk_attr *to, struct tmk_diag *diag) {
    struct tmk_arena *arena = graph->arena;
    *to = *from;
    to->name = tmk_arena_strdup(arena, from->name);
    bool ok = to->name != NULL;
    switch (from->kind) {
    case TMK_ATTR_INT:
    case TMK_ATTR_FLOAT:
        break;
    case TMK_ATTR_STRING:
        ok = ok && (to->s = tmk_arena_strndup(arena, from->s, from->n));
        break;
    case TMK_ATTR_INTS:
        to->ints = copy_array(arena, from->ints, from->n, sizeof *from->ints);
        ok = ok && to->ints;
        break;
    case TMK_ATTR_FLOATS:
        to->floats = copy_array(arena, from->floats, from->n, sizeof *from->floats);
        ok = ok && to->floats;
        break;
    case TMK_ATTR_STRINGS: {
        const char **strings = tmk_arena_array(arena, from->n, sizeof *strings);
        for (size_t i = 0; strings && ok && i < from->n; i++)
            ok = (strings[i] = tmk_arena_strdup(arena, from->strings[i])) != NULL;
        to->strings = strings;
        ok = ok && strings;
        break;
    }
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        to->n = from->kind == TMK_ATTR_TENSOR ? 1 : from->n;
        to->tensors = tmk_arena_array(arena, to->n, sizeof *to->tensors);
        ok = ok && to->tensors;
        for (size_t i = 0; ok && i < to->n; i++)
            tmk_tensor_share(&to->tensors[i], &from->tensors[i]);
        break;
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        to->n = from->kind == TMK_ATTR_GRAPH ? 1 : from->n;
        to->graphs = tmk_arena_array(arena, to->n, sizeof(struct tmk_graph *));
        ok = ok && to->graphs;
        for (size_t i = 0; ok && i < to->n; i++)
            to->graphs[i] = from->graphs[i];
        break;
    case TMK_ATTR_TYPE: {
        struct tmk_type *type = tmk_arena_alloc(arena, sizeof *type);
        if (type)
            TMK_TRY(copy_type(graph, from->type, type, diag));
        to->type = type;
        ok = ok && type;
        break;
    }
    }
    return ok ? TMK_OK : tmk_nomem(diag);
}

static bool refers_to(const struct tmk_attr *attr, const struct tmk_graph *graph) {
    for (size_t i = 0; i < tmk_attr_graphs(attr); i++)
        if (attr->graphs[i] == graph)
            return true;
    return false;
}

/* Ends an attribute whose place `now` takes; graphs may stay. */
static void retire_attr(struct tmk_attr *old, const struct tmk_attr *now) {
    if (!tmk_attr_graphs(old)) {
        drop_attr(old);
        return;
    }
    for (size_t i = 0; i < old->n; i++)
        if (!refers_to(now, old->graphs[i])) {
            tmk_graph_detach(old->graphs[i]);
            drop_tensors(old->graphs[i]);
        }
}

enum tmk_status tmk_node_set_attr(struct tmk_node *node, const struct tmk_attr *attr,
                                  struct tmk_diag *diag) {
    struct tmk_attr copy;
    struct tmk_attr *attrs = GROW(node->graph, node->attrs, node->n_attrs, node->attrs_size);
    TMK_TRY_ALLOC(attrs, diag);
    node->attrs = attrs;
    TMK_TRY(copy_attr(node->graph, attr, &copy, diag));
    for (size_t i = 0; i < tmk_attr_graphs(&copy); i++) {
        copy.graphs[i]->owner = node;
        copy.graphs[i]->place = i;
    }
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, attr->name) == 0) {
            retire_attr(&node->attrs[i], &copy);
            node->attrs[i] = copy;
            return TMK_OK;
        }
    node->attrs[node->n_attrs++] = copy;
    return TMK_OK;
}

struct tmk_attr tmk_attr_int(const char *name, int64_t value) {
    return (struct tmk_attr){.name = name, .kind = TMK_ATTR_INT, .n = 1, .i = value};
}

struct tmk_attr tmk_attr_text(const char *name, const char *value) {
    return (struct tmk_attr){.name = name, .kind = TMK_ATTR_STRING, .n = strlen(value), .s = value};
}

enum tmk_status tmk_node_set_int(struct tmk_node *node, const char *name, int64_t value,
                                 struct tmk_diag *diag) {
    const struct tmk_attr attr = tmk_attr_int(name, value);
    return tmk_node_set_attr(node, &attr, diag);
}

enum tmk_status tmk_node_set_text(struct tmk_node *node, const char *name, const char *value,
                                  struct tmk_diag *diag) {
    const struct tmk_attr attr = tmk_attr_text(name, value);
    return tmk_node_set_attr(node, &attr, diag);
}

static bool is_named(const char *name, const char *const *names) {
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

enum tmk_status tmk_node_copy_attrs(struct tmk_node *node, const struct tmk_node *from,
                                    const char *const *but, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < from->n_attrs; i++)
        if (!is_named(from->attrs[i].name, but))
            TMK_TRY(tmk_node_set_attr(node, &from->attrs[i], diag));
    return TMK_OK;
}
