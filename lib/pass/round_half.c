/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/round_half.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shapes.h"
#include "pass/instrument.h"
#include "traits/traits.h"

struct rounding {
    enum tmk_dtype *types; /* by value index: in the file; TMK_UNDEFINED: not known */
    struct tmk_value **values;
    size_t n, size;
    bool failed;
};

static bool is_half(enum tmk_dtype type) {
    return type == TMK_FLOAT16 || type == TMK_BFLOAT16;
}

static bool holds_floats(const struct tmk_value *value) {
    return (value->data.dtype != TMK_UNDEFINED ? value->data.dtype : value->type.dtype) ==
           TMK_FLOAT32;
}

/* What the file declares. */
static void take_declared(struct tmk_graph *graph, void *context) {
    struct rounding *r = context;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (!tmk_value_alive(value))
            continue;
        r->types[value->index] =
            value->kind == TMK_VALUE_INITIALIZER ? value->data.origin : value->type.origin;
    }
}

/* The body's value that output i of the node is; NULL: there is none. */
static const struct tmk_value *made_inside(const struct tmk_node *node, uint32_t i) {
    const uint32_t skipped = tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"); /* the condition */
    for (uint32_t a = 0; a < node->n_attrs; a++)
        if (node->attrs[a].kind == TMK_ATTR_GRAPH) {
            const struct tmk_graph *body = node->attrs[a].graphs[0];
            return i + skipped < body->n_outputs ? body->outputs[i + skipped] : NULL;
        }
    return NULL;
}

/* An operator's float operands are of one type, and so is its result, but for Cast and its like,
 * whose types the importer keeps, and the statistics of normalizations. */
static enum tmk_dtype type_of_result(const struct rounding *r, const struct tmk_node *node,
                                     uint32_t i) {
    if (node->row && node->row->flags & TMK_OP_RUNS_GRAPHS) {
        const struct tmk_value *made = made_inside(node, i);
        return made ? r->types[made->index] : TMK_UNDEFINED;
    }
    if (i > 0 && tmk_node_is(node, TMK_DOMAIN_ONNX, "LayerNormalization"))
        return TMK_FLOAT32;
    const struct tmk_attr *constant = tmk_node_attr(node, "value");
    if (constant && constant->kind == TMK_ATTR_TENSOR)
        return constant->tensors[0].origin;
    for (uint32_t k = tmk_node_is(node, TMK_DOMAIN_ONNX, "CastLike"); k < node->n_inputs; k++)
        if (node->inputs[k] && holds_floats(node->inputs[k]))
            return r->types[node->inputs[k]->index];
    return TMK_UNDEFINED;
}

static void append(struct rounding *r, struct tmk_value *value) {
    if (TMK_GROW(r->values, r->n, r->size))
        r->values[r->n++] = value;
    else
        r->failed = true;
}

/* Its elements may be other numbers than the type has. */
static bool needs_rounding(const struct rounding *r, const struct tmk_node *node) {
    const struct tmk_value *from = node->n_inputs ? node->inputs[0] : NULL;
    const struct tmk_traits *traits = tmk_traits_of(node->domain, node->op);
    return node->n_inputs && !(node->row && node->row->flags & TMK_OP_RUNS_GRAPHS) &&
           !(from && tmk_traits_are(traits, TMK_TRAIT_MOVES) && is_half(r->types[from->index]));
}

static void list_half(struct rounding *r, struct tmk_graph *graph) {
    for (uint32_t i = 0; !graph->parent && i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (value->kind == TMK_VALUE_INPUT && value->type.kind == TMK_TYPE_TENSOR &&
            is_half(r->types[value->index]))
            append(r, value);
    }
    for (struct tmk_node *node = graph->first; node && !r->failed; node = node->next) {
        for (uint32_t a = 0; a < node->n_attrs; a++)
            for (size_t k = 0; node->attrs[a].kind == TMK_ATTR_GRAPH && k < node->attrs[a].n; k++)
                list_half(r, node->attrs[a].graphs[k]);
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            struct tmk_value *value = node->outputs[i];
            if (!value || !holds_floats(value) || value->type.kind != TMK_TYPE_TENSOR)
                continue;
            enum tmk_dtype *type = &r->types[value->index];
            if (*type == TMK_UNDEFINED)
                *type = type_of_result(r, node, i);
            if (is_half(*type) && needs_rounding(r, node))
                append(r, value);
        }
    }
}

enum tmk_status tmk_round_half(struct tmk_graph *graph, uint32_t *n, struct tmk_diag *diag) {
    struct rounding r = {.types = calloc(tmk_graph_number(graph) + 1u, sizeof *r.types)};
    enum tmk_status status = r.types ? TMK_OK : tmk_nomem(diag);
    *n = 0;
    if (status == TMK_OK) {
        tmk_graph_each(graph, take_declared, &r);
        status = tmk_fill_types(graph, diag);
    }
    if (status == TMK_OK) {
        list_half(&r, graph);
        status =
            r.failed ? tmk_nomem(diag) : tmk_graph_set_opset(graph, TMK_DOMAIN_TIDEMARK, 1, diag);
    }
    for (size_t i = 0; status == TMK_OK && i < r.n; i++) {
        const struct tmk_attr to = {
            .name = "to", .kind = TMK_ATTR_INT, .i = r.types[r.values[i]->index]};
        const struct tmk_inserted_node inserted = {TMK_OP_ROUND_TO, "/rounded", "/exact", &to, 1};
        status = tmk_insert_behind(r.values[i], &inserted, diag);
    }
    if (status == TMK_OK)
        *n = (uint32_t)r.n;
    free(r.types);
    free(r.values);
    return status;
}
