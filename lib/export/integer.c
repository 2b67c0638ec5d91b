/* SPDX-License-Identifier: Apache-2.0 */
#include "export/integer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "ops/shapes.h"

/* All others that do to codes what they do to numbers are tmk_integer_move's. */
static const struct {
    const char *op;
    tmk_integer_fn *replace;
} operators[] = {
    {"Conv", tmk_integer_conv},
    {"Gemm", tmk_integer_gemm},
    {"MatMul", tmk_integer_matmul},
    {"Add", tmk_integer_add},
    {"Sub", tmk_integer_sub},
    {"Mul", tmk_integer_mul},
    {"BatchNormalization", tmk_integer_batch_norm},
    {"Relu", tmk_integer_clip},
    {"Clip", tmk_integer_clip},
    {"MaxPool", tmk_integer_max_pool},
    {"AveragePool", tmk_integer_average_pool},
    {"GlobalAveragePool", tmk_integer_global_average},
    {"ReduceMean", tmk_integer_mean},
    {"Concat", tmk_integer_concat},
    {"Pad", tmk_integer_pad},
    {"Split", tmk_integer_split},
    {"Dropout", tmk_integer_dropout},
};

/* The node's result, or operands that it reads, are to be quantized. Constants become codes
 * where they are read. */
static bool is_concerned(const struct tmk_integer *g, const struct tmk_node *node) {
    if (tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY) || tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant"))
        return false;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tmk_integer_encoding(g, node->outputs[i], NULL, 0))
            return true;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tmk_integer_encoding(g, node->inputs[i], node, i))
            return true;
    return false;
}

static enum tmk_status add_remark(struct tmk_integer *g, const struct tmk_node *node) {
    char label[256], line[600];
    if (!g->options->remark || !is_concerned(g, node))
        return TMK_OK;
    snprintf(line, sizeof line, "%s stays float: %s", tmk_node_label(node, label, sizeof label),
             g->why[0] ? g->why : "it has no form of integers");
    g->options->remark(g->options->context, line);
    return TMK_OK;
}

static enum tmk_status replace_one(struct tmk_integer *g, struct tmk_node *node) {
    tmk_integer_fn *fn = tmk_node_has(node, TMK_TRAIT_CODES) ? tmk_integer_move : NULL;
    g->at = node;
    g->why[0] = 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, operators[i].op))
            fn = operators[i].replace;
    if (fn && node->n_inputs && node->n_outputs && node->outputs[0])
        TMK_TRY(fn(g, node));
    return tmk_ptrmap_get(&g->rewritten, node) ? TMK_OK : add_remark(g, node);
}

/* ---- readers of float numbers ---- */

/* What a reader sees of the value; *out is the value itself where nothing changes. */
static enum tmk_status real_for(struct tmk_integer *g, struct tmk_value *value,
                                const struct tmk_encoding *encoding, struct tmk_value **out) {
    const struct tmk_form *form = tmk_ptrmap_get(&g->forms, value);
    *out = value;
    if (encoding && tmk_integer_carrier(encoding) != TMK_UNDEFINED)
        return tmk_integer_real_of(g, value, encoding, out);
    if (form && form->gone && form->codes)
        return tmk_integer_real_of(g, value, form->codes->encoding, out);
    if (form && form->real)
        *out = form->real;
    return TMK_OK;
}

static enum tmk_status restore_float_for_nodes(struct tmk_integer *g, struct tmk_value *value) {
    const uint32_t n = value->n_uses;
    if (!n)
        return TMK_OK;
    struct tmk_use *uses = tmk_arena_array(&g->arena, n, sizeof *uses);
    if (!uses)
        return tmk_nomem(g->diag);
    if (n)
        memcpy(uses, value->uses, n * sizeof *uses);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_use *use = &uses[i];
        struct tmk_value *real = NULL;
        if (tmk_ptrmap_get(&g->rewritten, use->node))
            continue;
        TMK_TRY(real_for(g, value, tmk_integer_encoding(g, value, use->node, use->input), &real));
        if (real != value)
            TMK_TRY(tmk_node_set_input(use->node, use->input, real, g->diag));
    }
    return TMK_OK;
}

/* The graph's output keeps its name. */
static enum tmk_status restore_float_for_outputs(struct tmk_integer *g, struct tmk_value *value) {
    struct tmk_value *real = NULL;
    struct tmk_node *quantizer = NULL;
    char name[256];
    if (!value->n_graph_outputs || value->kind != TMK_VALUE_RESULT)
        return TMK_OK;
    TMK_TRY(real_for(g, value, tmk_integer_encoding(g, value, NULL, 0), &real));
    if (real == value)
        return TMK_OK;
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (tmk_node_is(value->uses[i].node, TMK_DOMAIN_ONNX, "QuantizeLinear"))
            quantizer = value->uses[i].node;
    TMK_TRY(tmk_value_replace(value, real, quantizer, true, g->diag));
    TMK_TRY(tmk_value_rename(real, value->name, g->diag));
    snprintf(name, sizeof name, "%.200s_float", value->name);
    return tmk_value_rename(value, name, g->diag);
}

/* Values that hold no float numbers have no encodings: what was not replaced stays. */
static enum tmk_status restore_float(struct tmk_integer *g, struct tmk_value *const *values,
                                     uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!tmk_value_alive(values[i]))
            continue;
        TMK_TRY(restore_float_for_nodes(g, values[i]));
        TMK_TRY(restore_float_for_outputs(g, values[i]));
    }
    return TMK_OK;
}

static bool is_wanted(const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && (node->outputs[i]->n_uses || node->outputs[i]->n_graph_outputs))
            return true;
    return false;
}

/* Removes what was replaced, and initializers and Constants without readers. */
static void remove_replaced(struct tmk_integer *g, struct tmk_value *const *values, uint32_t n) {
    struct tmk_node *before = NULL;
    for (struct tmk_node *node = g->graph->last; node; node = before) {
        before = node->prev;
        if (!is_wanted(node) &&
            (tmk_ptrmap_get(&g->rewritten, node) || tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant")))
            tmk_node_remove(node);
    }
    for (uint32_t i = 0; i < n; i++)
        if (values[i]->kind == TMK_VALUE_INITIALIZER && !values[i]->n_uses &&
            !values[i]->n_graph_outputs && values[i]->data.data)
            tmk_graph_drop_initializer(values[i]);
}

/* ---- the whole graph ---- */

static enum tmk_status build_form(struct tmk_integer *g, struct tmk_value *const *values,
                                  uint32_t n) {
    struct tmk_node *next = NULL;
    TMK_TRY(tmk_fill_types(g->graph, g->diag));
    TMK_TRY(tmk_graph_set_opset(g->graph, TMK_DOMAIN_TIDEMARK, 1, g->diag));
    for (struct tmk_node *node = g->graph->first; node; node = next) {
        next = node->next;
        if (!tmk_ptrmap_get(&g->rewritten, node))
            TMK_TRY(replace_one(g, node));
    }
    g->at = NULL;
    TMK_TRY(restore_float(g, values, n));
    remove_replaced(g, values, n);
    TMK_TRY(tmk_graph_sort(g->graph, g->diag));
    TMK_TRY(tmk_ops_bind(g->graph, g->diag));
    return tmk_graph_verify(g->graph, g->diag);
}

static int by_id(const void *a, const void *b) {
    const uint32_t x = ((const struct tmk_quantized_value *)a)->id,
                   y = ((const struct tmk_quantized_value *)b)->id;
    return (x > y) - (x < y);
}

static bool is_read(const struct tmk_value *value) {
    return value && (value->n_uses || value->n_graph_outputs);
}

static enum tmk_status list_values(const struct tmk_integer *g, struct tmk_value *const *values,
                                   uint32_t n, struct tmk_quantized_graph *out) {
    struct tmk_quantized_value *list = calloc((size_t)n + 1, sizeof *list);
    uint32_t kept = 0;
    if (!list)
        return tmk_nomem(g->diag);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_form *form = tmk_ptrmap_get(&g->forms, values[i]);
        struct tmk_quantized_value *v = &list[kept];
        *v = (struct tmk_quantized_value){.id = (uint32_t)values[i]->profile_id};
        if (values[i]->profile_id < 0)
            continue;
        if (form && form->codes && is_read(form->codes->value)) {
            v->codes = form->codes->value;
            v->encoding = form->codes->encoding;
            v->real = is_read(form->codes->real) ? form->codes->real : NULL;
        } else if (form && form->gone) {
            v->real = is_read(form->real) ? form->real : NULL;
        } else if (tmk_value_alive(values[i])) {
            v->real = values[i];
        }
        kept += v->codes || v->real;
    }
    qsort(list, kept, sizeof *list, by_id);
    out->values = list;
    out->n = kept;
    return TMK_OK;
}

enum tmk_status tmk_quantize_integer(const struct tmk_graph *graph,
                                     const struct tmk_encodings *encodings,
                                     const struct tmk_quantize_options *options,
                                     struct tmk_quantized_graph *out, struct tmk_diag *diag) {
    struct tmk_integer g = {.encodings = encodings, .options = options, .diag = diag};
    struct tmk_quantized_graph made = {0};
    TMK_TRY(tmk_graph_clone(graph, &made.graph, diag));
    g.graph = made.graph;
    const uint32_t n = made.graph->n_values;
    struct tmk_value **values = tmk_arena_array(&g.arena, (size_t)n + 1, sizeof *values);
    enum tmk_status status = values ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; values && i < n; i++)
        values[i] = made.graph->values[i];
    if (status == TMK_OK)
        status = build_form(&g, values, n);
    if (status == TMK_OK)
        status = list_values(&g, values, n, &made);
    tmk_ptrmap_finish(&g.forms);
    tmk_ptrmap_finish(&g.rewritten);
    tmk_arena_finish(&g.arena);
    if (status == TMK_OK)
        *out = made;
    else
        tmk_quantized_finish(&made);
    return status;
}
