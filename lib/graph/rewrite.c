/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/rewrite.h"

#include <assert.h>
#include <stdlib.h>

#include "base/diag.h"
#include "tensor/elements.h"

/* ---- names ---- */

/* `name`, or with a number behind it where that is taken. Lives as long as the graph. */
static const char *unique_name(struct tmk_rewrite *rw, const char *name) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, name[0] ? name : "value");
    const size_t len = text.len;
    for (unsigned i = 1; !text.failed && tmk_map_get(&rw->names, text.data); i++) {
        text.len = len;
        tmk_text_printf(&text, "_%u", i);
    }
    const char *copy = text.failed ? NULL : tmk_arena_strdup(rw->graph->arena, text.data);
    tmk_text_finish(&text);
    return copy && tmk_map_put(&rw->names, copy, rw) ? copy : NULL;
}

enum tmk_status tmk_rewrite_begin(struct tmk_rewrite *rw) {
    for (const struct tmk_graph *g = rw->graph; g; g = tmk_graph_next(rw->graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (g->values[i]->name[0])
                TMK_TRY_ALLOC(tmk_map_put(&rw->names, g->values[i]->name, rw), rw->diag);
    return TMK_OK;
}

void tmk_rewrite_finish(struct tmk_rewrite *rw) {
    tmk_map_finish(&rw->names);
    tmk_ptrmap_finish(&rw->pinned);
}

enum tmk_status tmk_rewrite_pin(struct tmk_rewrite *rw, struct tmk_value *value) {
    return tmk_ptrmap_put(&rw->pinned, value, value) ? TMK_OK : tmk_nomem(rw->diag);
}

/* ---- walking ---- */

static enum tmk_status rewrite_nodes(struct tmk_rewrite *rw, struct tmk_graph *graph,
                                     enum tmk_status (*fn)(struct tmk_rewrite *rw,
                                                           struct tmk_node *node)) {
    size_t n = 0;
    struct tmk_node **nodes = calloc((size_t)graph->n_nodes + 1, sizeof(struct tmk_node *));
    TMK_TRY_ALLOC(nodes, rw->diag);
    for (struct tmk_node *node = graph->first; node; node = node->next)
        nodes[n++] = node;
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < n && status == TMK_OK; i++)
        if (!nodes[i]->removed)
            status = fn(rw, nodes[i]);
    free(nodes);
    return status;
}

enum tmk_status tmk_rewrite_each(struct tmk_rewrite *rw,
                                 enum tmk_status (*fn)(struct tmk_rewrite *rw,
                                                       struct tmk_node *node)) {
    for (struct tmk_graph *g = rw->graph; g; g = tmk_graph_next(rw->graph, g))
        TMK_TRY(rewrite_nodes(rw, g, fn));
    return TMK_OK;
}

/* ---- asking ---- */

const struct tmk_tensor *tmk_value_constant(const struct tmk_value *value) {
    if (!value)
        return NULL;
    if (value->kind == TMK_VALUE_INITIALIZER)
        return tmk_tensor_has_elements(&value->data) ? &value->data : NULL;
    if (!value->producer || !tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant"))
        return NULL;
    const struct tmk_attr *attr = tmk_node_attr(value->producer, "value");
    return attr && attr->kind == TMK_ATTR_TENSOR && attr->tensors->data ? attr->tensors : NULL;
}

static bool is_pinned(const struct tmk_rewrite *rw, const struct tmk_value *value) {
    return tmk_ptrmap_get(&rw->pinned, value) != NULL;
}

bool tmk_rewrite_is_needed(const struct tmk_rewrite *rw, const struct tmk_value *value) {
    return value->n_uses || value->n_graph_outputs || is_pinned(rw, value);
}

bool tmk_rewrite_may_change(const struct tmk_rewrite *rw, const struct tmk_value *value) {
    return value->kind != TMK_VALUE_INPUT && !value->n_graph_outputs && !is_pinned(rw, value);
}

bool tmk_rewrite_is_interior(const struct tmk_rewrite *rw, const struct tmk_value *value) {
    return value->kind == TMK_VALUE_RESULT && value->n_uses == 1 &&
           value->uses[0].node->graph == value->graph && tmk_rewrite_may_change(rw, value);
}

bool tmk_rewrite_can_replace(const struct tmk_rewrite *rw, const struct tmk_value *from,
                             const struct tmk_value *to, bool equal) {
    if (from == to || (!equal && (is_pinned(rw, from) || from->n_graph_outputs)))
        return false;
    /* Two pinned values can't both keep an edge of their own. */
    if (is_pinned(rw, from) && is_pinned(rw, to))
        return false;
    return !from->n_graph_outputs || (to->kind == TMK_VALUE_RESULT && !to->n_graph_outputs &&
                                      to->graph == from->graph && !is_pinned(rw, to));
}

/* ---- making ---- */

enum tmk_status tmk_rewrite_node(struct tmk_rewrite *rw, struct tmk_node *before,
                                 const char *domain, const char *op, const char *name,
                                 int64_t version, struct tmk_value *const *inputs,
                                 uint32_t n_inputs, struct tmk_node **out) {
    int64_t imported = tmk_graph_opset(rw->graph, domain);
    if (!imported)
        TMK_TRY(tmk_graph_set_opset(rw->graph, domain, version ? version : 1, rw->diag));
    if (!version)
        version = imported ? imported : 1;
    const char *result = unique_name(rw, name);
    TMK_TRY_ALLOC(result, rw->diag);
    return tmk_graph_add_node(
        before->graph, before,
        &(struct tmk_node_spec){domain, op, name, version, inputs, n_inputs, &result, 1}, out,
        rw->diag);
}

enum tmk_status tmk_rewrite_initializer(struct tmk_rewrite *rw, struct tmk_graph *graph,
                                        const char *name, const struct tmk_tensor *tensor,
                                        struct tmk_value **out) {
    const char *own = unique_name(rw, name);
    TMK_TRY_ALLOC(own, rw->diag);
    return tmk_graph_add_initializer(graph, own, tensor, out, rw->diag);
}

/* ---- verdicts ---- */

static enum tmk_status swap_names(struct tmk_value *a, struct tmk_value *b, struct tmk_diag *diag) {
    const char *name = a->name;
    TMK_TRY(tmk_value_rename(a, b->name, diag));
    return tmk_value_rename(b, name, diag);
}

static bool knows_more(const struct tmk_type *a, const struct tmk_type *b) {
    return a->dtype && (!b->dtype || (a->has_shape && !b->has_shape));
}

enum tmk_status tmk_rewrite_replace(struct tmk_rewrite *rw, struct tmk_value *from,
                                    struct tmk_value *to, const struct tmk_relation *how) {
    assert(tmk_rewrite_can_replace(rw, from, to, !how));
    rw->progress = true;
    if (from->n_graph_outputs) {
        TMK_TRY(swap_names(from, to, rw->diag));
        TMK_TRY(tmk_value_set_type(to, &from->type, rw->diag));
    } else if (!how && to->kind == TMK_VALUE_RESULT && knows_more(&from->type, &to->type)) {
        TMK_TRY(tmk_value_set_type(to, &from->type, rw->diag));
    }
    if (is_pinned(rw, from))
        TMK_TRY(tmk_rewrite_pin(rw, to));
    TMK_TRY(tmk_value_replace(from, to, NULL, true, rw->diag));
    return tmk_lineage_move(rw->lineage, from, to, how, rw->pass, rw->diag);
}

enum tmk_status tmk_rewrite_rescale(struct tmk_rewrite *rw, struct tmk_value *value,
                                    const struct tmk_relation *how) {
    assert(tmk_rewrite_may_change(rw, value));
    rw->progress = true;
    return tmk_lineage_move(rw->lineage, value, value, how, rw->pass, rw->diag);
}

enum tmk_status tmk_rewrite_set_input(struct tmk_rewrite *rw, struct tmk_node *node, uint32_t input,
                                      struct tmk_value *value, const struct tmk_relation *how) {
    struct tmk_value *old = node->inputs[input];
    rw->progress = true;
    TMK_TRY(tmk_node_set_input(node, input, value, rw->diag));
    if (!old || old == value || old->n_uses || !tmk_rewrite_may_change(rw, old))
        return TMK_OK;
    TMK_TRY(tmk_lineage_move(rw->lineage, old, value, how, rw->pass, rw->diag));
    if (old->kind == TMK_VALUE_INITIALIZER)
        tmk_rewrite_drop(rw, old);
    return TMK_OK;
}

void tmk_rewrite_absorb(struct tmk_rewrite *rw, struct tmk_value *value, struct tmk_value *into) {
    rw->progress = true;
    tmk_lineage_absorb(rw->lineage, value, into, rw->pass);
}

enum tmk_status tmk_rewrite_fold(struct tmk_rewrite *rw, struct tmk_value *value,
                                 const struct tmk_tensor *tensor) {
    struct tmk_value *initializer = NULL;
    assert(!value->n_graph_outputs);
    TMK_TRY(tmk_rewrite_initializer(rw, value->graph, value->name, tensor, &initializer));
    rw->progress = true;
    TMK_TRY(swap_names(value, initializer, rw->diag));
    if (is_pinned(rw, value))
        TMK_TRY(tmk_rewrite_pin(rw, initializer));
    TMK_TRY(tmk_value_replace(value, initializer, NULL, false, rw->diag));
    tmk_lineage_fold(rw->lineage, value, initializer, rw->pass);
    return TMK_OK;
}

void tmk_rewrite_remove(struct tmk_rewrite *rw, struct tmk_node *node) {
    rw->progress = true;
    for (struct tmk_graph *top = NULL; (top = tmk_node_next_graph(node, top));)
        for (const struct tmk_graph *g = top; g; g = tmk_graph_next(top, g))
            for (uint32_t i = 0; i < g->n_values; i++)
                tmk_lineage_end(rw->lineage, g->values[i], rw->pass);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i]) {
            assert(!node->outputs[i]->n_uses && !node->outputs[i]->n_graph_outputs);
            tmk_lineage_end(rw->lineage, node->outputs[i], rw->pass);
        }
    tmk_node_remove(node);
}

void tmk_rewrite_drop(struct tmk_rewrite *rw, struct tmk_value *initializer) {
    assert(initializer->kind == TMK_VALUE_INITIALIZER && !initializer->n_uses);
    rw->progress = true;
    tmk_lineage_end(rw->lineage, initializer, rw->pass);
    tmk_graph_drop_initializer(initializer);
}
