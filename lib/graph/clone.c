/* SPDX-License-Identifier: Apache-2.0 */
/* A compact copy, and the equality of types, weights and attributes. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "graph/graph.h"
#include "tensor/elements.h"

/* ---- clone ---- */

struct cloning {
    struct tmk_ptrmap values; /* old -> new */
    struct tmk_diag *diag;
    bool lazy;
};

static enum tmk_status remember_value(struct cloning *c, const struct tmk_value *from,
                                      struct tmk_value *to) {
    to->profile_id = from->profile_id;
    to->fingerprint = from->fingerprint;
    to->content = from->content;
    to->ordinal = from->ordinal;
    to->inner = from->inner;
    return tmk_ptrmap_put(&c->values, from, to) ? TMK_OK : tmk_nomem(c->diag);
}

static enum tmk_status clone_into(struct cloning *c, const struct tmk_graph *from,
                                  struct tmk_graph *to);

static enum tmk_status clone_attr(struct cloning *c, const struct tmk_attr *attr,
                                  struct tmk_node *node) {
    struct tmk_attr copy = *attr;
    if (!tmk_attr_graphs(attr))
        return tmk_node_set_attr(node, &copy, c->diag);
    copy.graphs = tmk_arena_array(node->graph->arena, attr->n, sizeof(struct tmk_graph *));
    TMK_TRY_ALLOC(copy.graphs, c->diag);
    for (size_t i = 0; i < attr->n; i++) {
        TMK_TRY(tmk_graph_create_sub(node->graph, attr->graphs[i]->name, &copy.graphs[i], c->diag));
        TMK_TRY(clone_into(c, attr->graphs[i], copy.graphs[i]));
    }
    return tmk_node_set_attr(node, &copy, c->diag);
}

static enum tmk_status clone_node(struct cloning *c, const struct tmk_node *from,
                                  struct tmk_graph *to) {
    struct tmk_value **inputs = calloc(from->n_inputs + 1, sizeof(struct tmk_value *));
    const char **names = calloc(from->n_outputs + 1, sizeof(char *));
    struct tmk_node *node = NULL;
    enum tmk_status status = inputs && names ? TMK_OK : tmk_nomem(c->diag);
    if (status == TMK_OK) {
        for (uint32_t i = 0; i < from->n_inputs; i++)
            inputs[i] = tmk_ptrmap_get(&c->values, from->inputs[i]);
        for (uint32_t i = 0; i < from->n_outputs; i++)
            names[i] = from->outputs[i] ? from->outputs[i]->name : NULL;
        status = tmk_graph_add_node(to, NULL,
                                    &(struct tmk_node_spec){from->domain, from->op, from->name,
                                                            from->version, inputs, from->n_inputs,
                                                            names, from->n_outputs},
                                    &node, c->diag);
    }
    free(inputs);
    free(names);
    TMK_TRY(status);
    node->row = from->row;
    for (uint32_t i = 0; i < from->n_attrs; i++)
        TMK_TRY(clone_attr(c, &from->attrs[i], node));
    for (uint32_t i = 0; i < from->n_outputs; i++)
        if (from->outputs[i]) {
            TMK_TRY(tmk_value_set_type(node->outputs[i], &from->outputs[i]->type, c->diag));
            TMK_TRY(remember_value(c, from->outputs[i], node->outputs[i]));
        }
    return TMK_OK;
}

static enum tmk_status clone_into(struct cloning *c, const struct tmk_graph *from,
                                  struct tmk_graph *to) {
    struct tmk_value *value;
    for (uint32_t i = 0; i < from->n_inputs; i++) {
        TMK_TRY(tmk_graph_add_input(to, from->inputs[i]->name, &from->inputs[i]->type, &value,
                                    c->diag));
        TMK_TRY(remember_value(c, from->inputs[i], value));
    }
    for (uint32_t i = 0; i < from->n_values; i++) {
        const struct tmk_value *old = from->values[i];
        if (old->kind != TMK_VALUE_INITIALIZER)
            continue;
        struct tmk_tensor data;
        if (c->lazy)
            tmk_tensor_share(&data, &old->data);
        else
            TMK_TRY(tmk_tensor_open(&old->data, &data, c->diag));
        enum tmk_status status = tmk_graph_add_initializer(to, old->name, &data, &value, c->diag);
        tmk_tensor_finish(&data);
        TMK_TRY(status);
        TMK_TRY(remember_value(c, old, value));
    }
    for (const struct tmk_node *node = from->first; node; node = node->next)
        TMK_TRY(clone_node(c, node, to));
    for (uint32_t i = 0; i < from->n_outputs; i++)
        TMK_TRY(tmk_graph_add_output(to, tmk_ptrmap_get(&c->values, from->outputs[i]), c->diag));
    return TMK_OK;
}

static enum tmk_status clone_graph(const struct tmk_graph *graph, bool lazy, struct tmk_graph **out,
                                   struct tmk_diag *diag) {
    struct cloning c = {.diag = diag, .lazy = lazy};
    struct tmk_graph *copy = NULL;
    enum tmk_status status = tmk_graph_create(graph->name, &copy, diag);
    for (uint32_t i = 0; status == TMK_OK && i < graph->n_opsets; i++)
        status = tmk_graph_set_opset(copy, graph->opsets[i].domain, graph->opsets[i].version, diag);
    if (status == TMK_OK) {
        copy->lazy = lazy;
        copy->structure_only = graph->structure_only;
        copy->ir_version = graph->ir_version;
        copy->producer_name = tmk_arena_strdup(copy->arena, graph->producer_name);
        status = copy->producer_name ? clone_into(&c, graph, copy) : tmk_nomem(diag);
    }
    tmk_ptrmap_finish(&c.values);
    if (status == TMK_OK)
        *out = copy;
    else
        tmk_graph_destroy(&copy);
    return status;
}

enum tmk_status tmk_graph_clone(const struct tmk_graph *graph, struct tmk_graph **out,
                                struct tmk_diag *diag) {
    return clone_graph(graph, graph->lazy, out, diag);
}

enum tmk_status tmk_graph_clone_lazy(const struct tmk_graph *graph, struct tmk_graph **out,
                                     struct tmk_diag *diag) {
    return clone_graph(graph, true, out, diag);
}

/* ---- equality ---- */

static bool same_symbol(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool tmk_type_equal(const struct tmk_type *a, const struct tmk_type *b) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->origin != b->origin ||
        a->has_shape != b->has_shape)
        return false;
    if (!a->has_shape)
        return true;
    if (!tmk_shape_equal(&a->shape, &b->shape))
        return false;
    for (int32_t i = 0; i < a->shape.rank; i++)
        if (!same_symbol(a->symbol[i], b->symbol[i]))
            return false;
    return true;
}

static bool same_elements(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    enum { BLOCK = 2048 };
    double x[BLOCK], y[BLOCK]; /* as large as an element that is lazy may be */
    const size_t count = tmk_tensor_count(a), size = tmk_dtype_size(a->dtype);
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : (size_t)BLOCK;
        if (memcmp(tmk_elements(a, first, n, x), tmk_elements(b, first, n, y), n * size) != 0)
            return false;
    }
    return true;
}

bool tmk_weight_equal(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    return a->dtype == b->dtype && a->origin == b->origin &&
           tmk_shape_equal(&a->shape, &b->shape) &&
           (tmk_elements_address(a) == tmk_elements_address(b) || tmk_tensor_bytes(a) == 0 ||
            same_elements(a, b));
}

bool tmk_attr_equal(const struct tmk_attr *a, const struct tmk_attr *b) {
    if (a->kind != b->kind)
        return false;
    bool plural = a->kind != TMK_ATTR_INT && a->kind != TMK_ATTR_FLOAT && a->kind != TMK_ATTR_TYPE;
    if (plural && a->n != b->n)
        return false;
    switch (a->kind) {
    case TMK_ATTR_INT:
        return a->i == b->i;
    case TMK_ATTR_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case TMK_ATTR_STRING:
        return memcmp(a->s, b->s, a->n) == 0;
    case TMK_ATTR_INTS:
        return !a->n || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case TMK_ATTR_FLOATS:
        return !a->n || memcmp(a->floats, b->floats, a->n * sizeof *a->floats) == 0;
    case TMK_ATTR_TYPE:
        return tmk_type_equal(a->type, b->type);
    case TMK_ATTR_STRINGS:
        for (size_t i = 0; i < a->n; i++)
            if (strcmp(a->strings[i], b->strings[i]) != 0)
                return false;
        return true;
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        for (size_t i = 0; i < a->n; i++)
            if (!tmk_weight_equal(&a->tensors[i], &b->tensors[i]))
                return false;
        return true;
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        break;
    }
    return false;
}
