/* SPDX-License-Identifier: Apache-2.0 */
#include "export/integer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "calib/grid.h"
#include "export/codes.h"
#include "graph/rewrite.h"
#include "ops/ops.h"
#include "ops/quantized.h"
#include "ops/shapes.h"
#include "tensor/fixed.h"

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
    char line[600];
    if (!g->options->remark || !is_concerned(g, node))
        return TMK_OK;
    snprintf(line, sizeof line, "%s stays float: %s", TMK_NODE_LABEL(node),
             g->why[0] ? g->why : "it has no form of integers");
    g->options->remark(g->options->context, line);
    return TMK_OK;
}

static enum tmk_status replace_one(struct tmk_integer *g, struct tmk_node *node) {
    tmk_integer_fn *fn = tmk_node_has(node, TMK_TRAIT_CODES) ? tmk_integer_move : NULL;
    g->at = node;
    g->why[0] = 0;
    for (size_t i = 0; i < TMK_COUNT(operators); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, operators[i].op))
            fn = operators[i].replace;
    if (tmk_codes_is(node, "QuantizeLinear"))
        fn = tmk_integer_quantize;
    else if (tmk_codes_is(node, "DequantizeLinear"))
        fn = tmk_integer_dequantized;
    if (fn && node->n_inputs && node->n_outputs && node->outputs[0])
        TMK_TRY(fn(g, node));
    if (tmk_ptrmap_get(&g->rewritten, node))
        return TMK_OK;
    TMK_TRY(add_remark(g, node));
    return tmk_integer_left_float(g, node);
}

/* ---- readers of float numbers ---- */

/* What a reader sees of the value; *out is the value itself where nothing changes. */
static enum tmk_status real_for(struct tmk_integer *g, struct tmk_value *value,
                                const struct tmk_encoding *encoding, struct tmk_value **out) {
    const struct tmk_form *form = tmk_ptrmap_get(&g->forms, value);
    *out = value;
    if (encoding && tmk_integer_carrier(encoding) != TMK_UNDEFINED)
        return tmk_integer_real_of(g, value, encoding, out);
    if (form && form->real)
        *out = form->real;
    else if (form && form->gone && form->codes)
        return tmk_integer_real_of(g, value, form->codes->encoding, out);
    return TMK_OK;
}

static enum tmk_status restore_float_for_nodes(struct tmk_integer *g, struct tmk_value *value) {
    const uint32_t n = value->n_uses;
    if (!n)
        return TMK_OK;
    struct tmk_use *uses = tmk_arena_array(&g->arena, n, sizeof *uses);
    TMK_TRY_ALLOC(uses, g->diag);
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
    TMK_TRY(tmk_integer_find_overrides(g));
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

static bool is_read(const struct tmk_value *value) {
    return value && (value->n_uses || value->n_graph_outputs);
}

static enum tmk_status list_values(const struct tmk_integer *g, struct tmk_value *const *values,
                                   uint32_t n, struct tmk_quantized_graph *out) {
    struct tmk_quantized_value *list = calloc((size_t)n + 1, sizeof *list);
    uint32_t kept = 0;
    TMK_TRY_ALLOC(list, g->diag);
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
    qsort(list, kept, sizeof *list, tmk_compare_u32);
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
    enum tmk_status status = tmk_codes_to_constants(made.graph, encodings, &g.overrides, diag);
    const uint32_t n = made.graph->n_values;
    struct tmk_value **values = tmk_arena_array(&g.arena, (size_t)n + 1, sizeof *values);
    if (status == TMK_OK && !values)
        status = tmk_nomem(diag);
    for (uint32_t i = 0; values && i < n; i++)
        values[i] = made.graph->values[i];
    TMK_THEN(status, build_form(&g, values, n));
    TMK_THEN(status, list_values(&g, values, n, &made));
    tmk_ptrmap_finish(&g.forms);
    tmk_ptrmap_finish(&g.rewritten);
    tmk_ptrmap_finish(&g.overrides);
    tmk_arena_finish(&g.arena);
    if (status == TMK_OK)
        *out = made;
    else
        tmk_quantized_finish(&made);
    return status;
}

/* New nodes and initializers. */

enum { NAME = 256 };

/* Joins names; longer ones are cut. */
static const char *join_name(char out[NAME], const char *name, const char *suffix) {
    const int room = NAME - 1 - (int)strlen(suffix);
    tmk_print_cut(out, (size_t)room + 1, "%s", name);
    const size_t used = strlen(out);
    snprintf(out + used, NAME - used, "%s", suffix);
    return out;
}

enum tmk_status tmk_integer_node(struct tmk_integer *g, const char *domain, const char *op,
                                 int64_t version, struct tmk_value *const *inputs,
                                 uint32_t n_inputs, const char *name, const char *suffix,
                                 struct tmk_node **out) {
    char text[NAME];
    const char *const outputs[] = {join_name(text, name, suffix)};
    TMK_TRY(tmk_graph_add_node(
        g->graph, g->at,
        &(struct tmk_node_spec){domain, op, text, version, inputs, n_inputs, outputs, 1}, out,
        g->diag));
    return tmk_ptrmap_put(&g->rewritten, *out, *out) ? TMK_OK : tmk_nomem(g->diag);
}

enum tmk_status tmk_integer_plain_node(struct tmk_integer *g, const char *op, struct tmk_value *a,
                                       struct tmk_value *b, const char *name, const char *suffix,
                                       struct tmk_value **out) {
    struct tmk_value *const inputs[] = {a, b};
    struct tmk_node *node = NULL;
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, op, 13, inputs, b ? 2 : 1, name, suffix, &node));
    *out = node->outputs[0];
    return TMK_OK;
}

enum tmk_status tmk_integer_set_ints(struct tmk_integer *g, struct tmk_node *node, const char *name,
                                     const int64_t *values, size_t n) {
    const struct tmk_attr attr = {.name = name, .kind = TMK_ATTR_INTS, .n = n, .ints = values};
    return tmk_node_set_attr(node, &attr, g->diag);
}

/* ---- initializers ---- */

static enum tmk_status add_initializer(struct tmk_integer *g, struct tmk_tensor *tensor,
                                       const char *name, const char *suffix,
                                       struct tmk_value **out) {
    char text[NAME];
    enum tmk_status status =
        tmk_graph_add_initializer(g->graph, join_name(text, name, suffix), tensor, out, g->diag);
    tmk_tensor_finish(tensor);
    return status;
}

enum tmk_status tmk_integer_constant(struct tmk_integer *g, enum tmk_dtype dtype,
                                     const struct tmk_shape *shape, const int32_t *codes,
                                     const char *name, const char *suffix, struct tmk_value **out) {
    static const struct tmk_shape scalar;
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, dtype, shape ? shape : &scalar, g->diag));
    tmk_quantized_narrow(codes, tmk_tensor_count(&tensor), &tensor, 0);
    return add_initializer(g, &tensor, name, suffix, out);
}

static struct tmk_shape line_shape(uint32_t n) {
    return (struct tmk_shape){.rank = n > 1, .dim = {n}};
}

enum tmk_status tmk_integer_floats(struct tmk_integer *g, uint32_t n, const float *values,
                                   const char *name, const char *suffix, struct tmk_value **out) {
    const struct tmk_shape shape = line_shape(n);
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, TMK_FLOAT32, &shape, g->diag));
    memcpy(tensor.data, values, n * sizeof *values);
    return add_initializer(g, &tensor, name, suffix, out);
}

enum tmk_status tmk_integer_zero(struct tmk_integer *g, const struct tmk_encoding *encoding,
                                 const char *name, struct tmk_value **out) {
    const struct tmk_shape shape = line_shape(encoding->n);
    return tmk_integer_constant(g, tmk_integer_carrier(encoding), &shape, encoding->zero_point,
                                name, "_zero_point", out);
}

/* ---- patterns ---- */

enum tmk_status tmk_integer_centred(struct tmk_integer *g, struct tmk_value *codes,
                                    const struct tmk_encoding *encoding, const char *name,
                                    struct tmk_value **out) {
    struct tmk_node *cast = NULL;
    struct tmk_value *zero = NULL;
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "Cast", 13, &codes, 1, name, "_int32", &cast));
    TMK_TRY(tmk_node_set_int(cast, "to", TMK_INT32, g->diag));
    *out = cast->outputs[0];
    if (!encoding->zero_point[0])
        return TMK_OK;
    TMK_TRY(
        tmk_integer_constant(g, TMK_INT32, NULL, encoding->zero_point, name, "_zero_int32", &zero));
    return tmk_integer_plain_node(g, "Sub", *out, zero, name, "_centred", out);
}

/* Multipliers, shifts and float numbers as inputs 1 to 3 of a Requantize. */
static enum tmk_status add_multipliers(struct tmk_integer *g, const struct tmk_rescale *rescale,
                                       const char *name, struct tmk_value **inputs) {
    const uint32_t n = rescale->n;
    const struct tmk_shape shape = line_shape(n);
    int32_t *q = tmk_arena_array(&g->arena, n, sizeof *q),
            *shift = tmk_arena_array(&g->arena, n, sizeof *shift);
    float *real = tmk_arena_array(&g->arena, n, sizeof *real);
    TMK_TRY_ALLOC(q && shift && real, g->diag);
    for (uint32_t i = 0; i < n; i++) {
        TMK_TRY(tmk_in(g->diag,
                       (g->options->pow2 ? tmk_fixed_from_real_pow2 : tmk_fixed_from_real)(
                           rescale->real[i], &q[i], &shift[i], g->diag),
                       "'%s'", name));
        real[i] = rescale->rne ? rescale->rne[i] : (float)rescale->real[i];
        if (g->options->pow2 && g->options->rounding == TMK_ROUNDING_FLOAT_RNE)
            real[i] = (float)tmk_fixed_to_real(q[i], shift[i]);
    }
    TMK_TRY(tmk_integer_constant(g, TMK_INT32, &shape, q, name, "_multiplier", &inputs[1]));
    TMK_TRY(tmk_integer_constant(g, TMK_INT32, &shape, shift, name, "_shift", &inputs[2]));
    return tmk_integer_floats(g, n, real, name, "_real_multiplier", &inputs[3]);
}

enum tmk_status tmk_integer_requantize(struct tmk_integer *g, struct tmk_value *x,
                                       const struct tmk_rescale *rescale,
                                       const struct tmk_encoding *to, int32_t lowest,
                                       int32_t highest, const char *name, const char *suffix,
                                       struct tmk_value **out) {
    static const int32_t none;
    struct tmk_value *inputs[6] = {x, [5] = rescale->x_zero};
    struct tmk_node *node = NULL;
    TMK_TRY(add_multipliers(g, rescale, name, inputs));
    TMK_TRY(
        to ? tmk_integer_zero(g, to, name, &inputs[4])
           : tmk_integer_constant(g, TMK_INT32, NULL, &none, name, "_no_zero_point", &inputs[4]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_TIDEMARK, TMK_OP_REQUANTIZE, 1, inputs,
                             rescale->x_zero ? 6 : 5, name, suffix, &node));
    TMK_TRY(tmk_node_set_text(node, "rounding", tmk_rounding_name(g->options->rounding), g->diag));
    if (rescale->n > 1 || (to && to->n > 1))
        TMK_TRY(tmk_node_set_int(node, "axis", rescale->n > 1 ? rescale->axis : to->axis, g->diag));
    if (to) {
        TMK_TRY(tmk_node_set_int(node, "lowest", lowest, g->diag));
        TMK_TRY(tmk_node_set_int(node, "highest", highest, g->diag));
    }
    *out = node->outputs[0];
    return TMK_OK;
}

enum tmk_status tmk_integer_dequantize(struct tmk_integer *g, struct tmk_value *x, uint32_t n,
                                       const float *scale, int32_t axis, struct tmk_value *zero,
                                       const char *name, struct tmk_value **out) {
    struct tmk_value *inputs[3] = {x, NULL, zero};
    struct tmk_node *node = NULL;
    TMK_TRY(tmk_integer_floats(g, n, scale, name, "_scale", &inputs[1]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "DequantizeLinear", 21, inputs, zero ? 3 : 2, name,
                             "_dequantized", &node));
    if (n > 1)
        TMK_TRY(tmk_node_set_int(node, "axis", axis, g->diag));
    *out = node->outputs[0];
    return TMK_OK;
}

/* A Relu or Clip behind a result costs nothing: the clamp to codes does it, since clamping and
 * rounding to a grid may change places. */

struct tmk_node *tmk_integer_only_reader(const struct tmk_value *value) {
    if (value->n_uses != 1 || value->n_graph_outputs || value->uses[0].node->graph != value->graph)
        return NULL;
    return value->uses[0].node;
}

/* Input `at` of a Clip; false: it depends on the data. */
static bool clip_bound(const struct tmk_node *node, uint32_t at, float *bound) {
    if (at >= node->n_inputs || !node->inputs[at])
        return true;
    const struct tmk_tensor *value = tmk_value_constant(node->inputs[at]);
    if (!value || value->dtype != TMK_FLOAT32 || tmk_tensor_count(value) != 1)
        return false;
    *bound = *(const float *)value->data;
    return true;
}

bool tmk_integer_bounds(const struct tmk_node *node, float *least, float *most) {
    *least = -INFINITY;
    *most = INFINITY;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu")) {
        *least = 0;
        return true;
    }
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Clip"))
        return false;
    if (node->version < 11) {
        *least = tmk_node_float(node, "min", *least);
        *most = tmk_node_float(node, "max", *most);
        return true;
    }
    return clip_bound(node, 1, least) && clip_bound(node, 2, most);
}

void tmk_integer_clamp(const struct tmk_encoding *e, float least, float most, int32_t *lowest,
                       int32_t *highest) {
    if (!isnan(least) && least != -INFINITY)
        *lowest = tmk_grid_code(least, e->scale[0], e->zero_point[0], *lowest, *highest);
    if (!isnan(most) && most != INFINITY)
        *highest = tmk_grid_code(most, e->scale[0], e->zero_point[0], *lowest, *highest);
}

static const struct tmk_encoding *integer_encoding(const struct tmk_integer *g,
                                                   const struct tmk_value *value) {
    const struct tmk_encoding *e = tmk_integer_encoding(g, value, NULL, 0);
    return e && tmk_integer_carrier(e) != TMK_UNDEFINED ? e : NULL;
}

enum tmk_status tmk_integer_tail(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_tail *out) {
    struct tmk_tail tail = {.result = result, .encoding = integer_encoding(g, result)};
    struct tmk_node *next = tmk_integer_only_reader(result);
    const struct tmk_encoding *behind = next ? integer_encoding(g, next->outputs[0]) : NULL;
    float least, most;
    if (tail.encoding)
        tmk_encoding_codes(tail.encoding, &tail.lowest, &tail.highest);
    if (behind && behind->n == 1 && tmk_integer_bounds(next, &least, &most) &&
        next->inputs[0] == result &&
        (!tail.encoding || tmk_integer_same_grid(tail.encoding, behind))) {
        tail.result = next->outputs[0];
        tail.encoding = behind;
        tmk_encoding_codes(behind, &tail.lowest, &tail.highest);
        tmk_integer_clamp(behind, least, most, &tail.lowest, &tail.highest);
        TMK_TRY(tmk_integer_replaced(g, next));
    }
    *out = tail;
    return TMK_OK;
}
