/* SPDX-License-Identifier: Apache-2.0 */
/* Puts QuantizeLinear and DequantizeLinear where marks are, under ONNX Runtime's names: of a value
 * `t` `t_scale`, `t_zero_point`, `t_QuantizeLinear_Output`, `t_DequantizeLinear_Output`; of an
 * initializer `t_quantized` too. Readers of some other encoding than most get theirs behind the
 * codes of most ("_convert"), as it is where an engine changes types. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "export/qdq.h"
#include "ops/quantized.h"

#define MICROSOFT "com.microsoft"

/* One use, noted before it moves. */
struct reader {
    struct tmk_node *node;
    uint32_t input;
    const struct tmk_encoding *encoding;
};

struct readers {
    struct reader *list;
    uint32_t n;
    const struct tmk_encoding **other; /* encodings that are not the one of most, each once */
    uint32_t n_other;
    bool general; /* some see the encoding of most, or the graph returns the value */
};

/* ---- names ---- */

static const char *join_name(struct tmk_qdq *q, const char *a, const char *b, const char *c) {
    const size_t la = strlen(a), lb = strlen(b), lc = strlen(c);
    char *text = tmk_arena_alloc(&q->arena, la + lb + lc + 1);
    if (!text)
        return NULL;
    memcpy(text, a, la);
    memcpy(text + la, b, lb);
    memcpy(text + la + lb, c, lc);
    return text;
}

/* "", "_convert", "_convert2", ... */
static const char *suffix_of(struct tmk_qdq *q, uint32_t i) {
    char number[16];
    if (i < 2)
        return i ? "_convert" : "";
    snprintf(number, sizeof number, "%u", i);
    return join_name(q, "_convert", number, "");
}

/* ---- parts ---- */

static enum tmk_status add_initializer(struct tmk_qdq *q, const char *name,
                                       const struct tmk_tensor *data, struct tmk_value **out) {
    TMK_TRY_ALLOC(name, q->diag);
    return tmk_graph_add_initializer(q->graph, name, data, out, q->diag);
}

static enum tmk_status add_scale(struct tmk_qdq *q, const char *name, const float *scale,
                                 uint32_t n, const struct tmk_shape *shape,
                                 struct tmk_value **out) {
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, TMK_FLOAT32, shape, q->diag));
    memcpy(tensor.data, scale, n * sizeof *scale);
    enum tmk_status status = add_initializer(q, name, &tensor, out);
    tmk_tensor_finish(&tensor);
    return status;
}

/* zero NULL: zeros. */
static enum tmk_status add_zero(struct tmk_qdq *q, const char *name, const int32_t *zero,
                                uint32_t n, enum tmk_dtype dtype, const struct tmk_shape *shape,
                                struct tmk_value **out) {
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, dtype, shape, q->diag));
    if (zero)
        tmk_quantized_narrow(zero, n, &tensor, 0);
    enum tmk_status status = add_initializer(q, name, &tensor, out);
    tmk_tensor_finish(&tensor);
    return status;
}

/* `of` is the shape of what has blocks; NULL: it has none. */
static enum tmk_status add_parameters(struct tmk_qdq *q, const char *name, const char *suffix,
                                      const struct tmk_encoding *e, const float *scale,
                                      const struct tmk_shape *of, struct tmk_value **out_scale,
                                      struct tmk_value **out_zero) {
    struct tmk_shape shape = {e->axis >= 0, {e->n}};
    if (of && e->block) {
        shape = *of;
        shape.dim[e->axis] = (of->dim[e->axis] + e->block - 1) / e->block;
    }
    TMK_TRY(add_zero(q, join_name(q, name, "_zero_point", suffix), e->zero_point, e->n, e->dtype,
                     &shape, out_zero));
    return add_scale(q, join_name(q, name, "_scale", suffix), scale, e->n, &shape, out_scale);
}

/* QuantizeLinear or DequantizeLinear; axis < 0: none; block 0: none. */
static enum tmk_status add_node(struct tmk_qdq *q, const char *op, const char *name,
                                struct tmk_value *from, struct tmk_value *scale,
                                struct tmk_value *zero, int32_t axis, uint32_t block,
                                enum tmk_dtype codes, const char *result, struct tmk_value **out) {
    struct tmk_value *inputs[] = {from, scale, zero};
    struct tmk_node *node = NULL;
    const int64_t min =
                      tmk_dtype_bits(codes) == 16 || tmk_dtype_bits(codes) == 4 || block ? 21 : 13,
                  opset = tmk_graph_opset(q->graph, TMK_DOMAIN_ONNX);
    const bool microsoft = q->options->microsoft;
    TMK_TRY_ALLOC(name && result, q->diag);
    TMK_TRY(tmk_graph_add_node(q->graph, NULL,
                               &(struct tmk_node_spec){microsoft ? MICROSOFT : TMK_DOMAIN_ONNX, op,
                                                       name,
                                                       microsoft     ? 1
                                                       : opset > min ? opset
                                                                     : min,
                                                       inputs, 3, &result, 1},
                               &node, q->diag));
    if (axis >= 0)
        TMK_TRY(tmk_node_set_int(node, "axis", axis, q->diag));
    if (block)
        TMK_TRY(tmk_node_set_int(node, "block_size", block, q->diag));
    *out = node->outputs[0];
    return TMK_OK;
}

/* What stands between the two has the shape of `like`, which a file may declare wrongly: a reader
 * infers it. */
static enum tmk_status set_type(struct tmk_qdq *q, struct tmk_value *value,
                                const struct tmk_type *like, enum tmk_dtype dtype) {
    struct tmk_type type = *like;
    type.dtype = type.origin = dtype;
    type.unsure = true;
    return tmk_value_set_type(value, &type, q->diag);
}

static enum tmk_status add_quantize(struct tmk_qdq *q, const char *name, const char *suffix,
                                    struct tmk_value *from, const struct tmk_encoding *e,
                                    struct tmk_value *scale, struct tmk_value *zero,
                                    struct tmk_value **out) {
    const char *base = join_name(q, name, suffix, "");
    TMK_TRY_ALLOC(base, q->diag);
    TMK_TRY(add_node(q, "QuantizeLinear", join_name(q, base, "_QuantizeLinear", ""), from, scale,
                     zero, e->axis, 0, e->dtype, join_name(q, base, "_QuantizeLinear_Output", ""),
                     out));
    return set_type(q, *out, &from->type, e->dtype);
}

/* `result` NULL: its usual name. */
static enum tmk_status add_dequantize(struct tmk_qdq *q, const char *name, const char *suffix,
                                      struct tmk_value *codes, const struct tmk_encoding *e,
                                      struct tmk_value *scale, struct tmk_value *zero,
                                      const char *result, struct tmk_value **out) {
    const char *base = join_name(q, name, suffix, "");
    TMK_TRY_ALLOC(base, q->diag);
    TMK_TRY(add_node(q, "DequantizeLinear", join_name(q, base, "_DequantizeLinear", ""), codes,
                     scale, zero, e->axis, e->block, e->dtype,
                     result ? result : join_name(q, base, "_DequantizeLinear_Output", ""), out));
    return set_type(q, *out, &codes->type, TMK_FLOAT32);
}

/* ---- who reads ---- */

static enum tmk_status find_readers(struct tmk_qdq *q, const struct tmk_qdq_mark *mark,
                                    const struct tmk_encoding *general, struct readers *out) {
    const struct tmk_value *value = mark->value;
    struct readers r = {.general = general && value->n_graph_outputs};
    r.list = tmk_arena_array(&q->arena, value->n_uses, sizeof *r.list);
    r.other = tmk_arena_array(&q->arena, value->n_uses, sizeof *r.other);
    TMK_TRY_ALLOC(r.list && r.other, q->diag);
    for (uint32_t i = 0; i < value->n_uses; i++) {
        struct reader *one = &r.list[r.n++];
        one->node = value->uses[i].node;
        one->input = value->uses[i].input;
        one->encoding = tmk_qdq_encoding(q, mark, one->node, one->input);
        uint32_t k = 0;
        while (k < r.n_other && r.other[k] != one->encoding)
            k++;
        if (one->encoding == general)
            r.general = r.general || general;
        else if (one->encoding && k == r.n_other)
            r.other[r.n_other++] = one->encoding;
    }
    *out = r;
    return TMK_OK;
}

static enum tmk_status hand_out(struct tmk_qdq *q, const struct readers *r,
                                const struct tmk_encoding *encoding, struct tmk_value *real) {
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].encoding == encoding)
            TMK_TRY(tmk_node_set_input(r->list[i].node, r->list[i].input, real, q->diag));
    return TMK_OK;
}

/* The dimension along which scales differ has as many indices as there are scales. */
static enum tmk_status check_axis(struct tmk_qdq *q, const struct tmk_value *value,
                                  const struct tmk_encoding *e) {
    const struct tmk_type *type = &value->type;
    const struct tmk_shape *shape =
        value->kind == TMK_VALUE_INITIALIZER ? &value->data.shape : &type->shape;
    if (e->block && value->kind != TMK_VALUE_INITIALIZER)
        return tmk_fail(q->diag, TMK_MISMATCH,
                        "the encoding of '%s' has blocks, which only constants have", value->name);
    if (e->axis < 0 || (value->kind != TMK_VALUE_INITIALIZER && !type->has_shape))
        return TMK_OK;
    if (e->axis >= shape->rank ||
        (!e->block && shape->dim[e->axis] >= 0 && shape->dim[e->axis] != e->n))
        return tmk_fail(q->diag, TMK_MISMATCH,
                        "the encoding of '%s' has %u scales along axis %d, which the value has not",
                        value->name, e->n, e->axis);
    return TMK_OK;
}

/* ---- values that are computed ---- */

/* The mark whose scale and zero point this one's are; NULL: they are its own. */
static const struct tmk_qdq_mark *shared_with(const struct tmk_qdq *q,
                                              const struct tmk_qdq_mark *mark) {
    const struct tmk_qdq_mark *from = tmk_qdq_marked(q, mark->provider);
    const struct tmk_encoding *own = tmk_qdq_encoding(q, mark, NULL, 0);
    if (!from || !own || own->axis >= 0 ||
        tmk_qdq_encoding(q, from, mark->provided, 0) != tmk_qdq_encoding(q, from, NULL, 0))
        return NULL;
    const struct tmk_encoding *theirs = tmk_qdq_encoding(q, from, NULL, 0);
    return theirs && theirs->axis < 0 && tmk_encoding_same_codes(own, theirs) ? from : NULL;
}

/* Readers that see another encoding than most, behind `codes` of most. */
static enum tmk_status convert_codes(struct tmk_qdq *q, struct tmk_qdq_mark *mark, const char *name,
                                     const struct readers *r) {
    for (uint32_t i = 0; i < r->n_other; i++) {
        const struct tmk_encoding *e = r->other[i];
        const char *suffix = suffix_of(q, i + 1);
        struct tmk_value *from = mark->real, *scale, *zero, *codes, *real;
        TMK_TRY_ALLOC(suffix, q->diag);
        if (r->general) {
            const char *base = join_name(q, name, suffix, ""),
                       *clone = base ? join_name(q, base, "_clone", "") : NULL,
                       *result = base ? join_name(q, base, "_QuantizeLinear_Input", "") : NULL;
            TMK_TRY_ALLOC(clone && result, q->diag);
            TMK_TRY(add_dequantize(q, clone, "", mark->codes, mark->encoding, mark->scale,
                                   mark->zero, result, &from));
        }
        TMK_TRY(tmk_qdq_report(q, e, NULL));
        TMK_TRY(add_parameters(q, name, suffix, e, e->scale, NULL, &scale, &zero));
        TMK_TRY(add_quantize(q, name, suffix, from, e, scale, zero, &codes));
        TMK_TRY(add_dequantize(q, name, suffix, codes, e, scale, zero, NULL, &real));
        TMK_TRY(hand_out(q, r, e, real));
    }
    return TMK_OK;
}

static enum tmk_status place_for_most(struct tmk_qdq *q, struct tmk_qdq_mark *mark,
                                      const struct tmk_encoding *e, const struct readers *r) {
    struct tmk_value *value = mark->value;
    const char *name = value->name;
    const struct tmk_qdq_mark *shared = shared_with(q, mark);
    /* An input that the model also returns stays what it is. */
    const bool returned = value->n_graph_outputs && value->kind == TMK_VALUE_RESULT;
    if (shared && shared->placed) {
        mark->scale = shared->scale;
        mark->zero = shared->zero;
    } else {
        TMK_TRY(add_parameters(q, name, "", e, e->scale, NULL, &mark->scale, &mark->zero));
    }
    if (returned) {
        const char *before = join_name(q, name, "_QuantizeLinear_Input", "");
        TMK_TRY_ALLOC(before, q->diag);
        TMK_TRY(tmk_value_rename(value, before, q->diag));
    }
    TMK_TRY(add_quantize(q, name, "", value, e, mark->scale, mark->zero, &mark->codes));
    TMK_TRY(add_dequantize(q, name, "", mark->codes, e, mark->scale, mark->zero,
                           returned ? name : NULL, &mark->real));
    if (returned)
        mark->real->type.origin = value->type.origin;
    mark->encoding = e;
    mark->placed = true;
    TMK_TRY(tmk_qdq_report(q, e, NULL));
    TMK_TRY(tmk_value_replace(value, mark->real, mark->codes->producer, returned, q->diag));
    TMK_TRY(hand_out(q, r, NULL, value));
    return convert_codes(q, mark, name, r);
}

/* Some readers see codes, each their own; the others the float value. */
static enum tmk_status place_for_some(struct tmk_qdq *q, struct tmk_qdq_mark *mark,
                                      const struct readers *r) {
    for (uint32_t i = 0; i < r->n_other; i++) {
        const struct tmk_encoding *e = r->other[i];
        const char *name = mark->value->name, *suffix = suffix_of(q, i);
        struct tmk_value *scale, *zero, *codes, *real;
        TMK_TRY_ALLOC(suffix, q->diag);
        TMK_TRY(tmk_qdq_report(q, e, NULL));
        TMK_TRY(add_parameters(q, name, suffix, e, e->scale, NULL, &scale, &zero));
        TMK_TRY(add_quantize(q, name, suffix, mark->value, e, scale, zero, &codes));
        TMK_TRY(add_dequantize(q, name, suffix, codes, e, scale, zero, NULL, &real));
        TMK_TRY(hand_out(q, r, e, real));
    }
    return TMK_OK;
}

static enum tmk_status place_computed(struct tmk_qdq *q, struct tmk_qdq_mark *mark) {
    const struct tmk_encoding *e = tmk_qdq_encoding(q, mark, NULL, 0);
    struct readers readers = {0};
    TMK_TRY(find_readers(q, mark, e, &readers));
    if (e)
        TMK_TRY(check_axis(q, mark->value, e));
    for (uint32_t i = 0; i < readers.n_other; i++)
        TMK_TRY(check_axis(q, mark->value, readers.other[i]));
    return e ? place_for_most(q, mark, e, &readers) : place_for_some(q, mark, &readers);
}

/* ---- initializers ---- */

static enum tmk_status place_codes(struct tmk_qdq *q, struct tmk_qdq_mark *mark,
                                   const struct tmk_encoding *e, const char *suffix,
                                   struct tmk_qdq_mark *out) {
    const char *name = mark->value->name;
    const float *scale = tmk_qdq_scales_of(q, mark->value, e);
    struct tmk_tensor codes = {0};
    TMK_TRY(tmk_quantize_goes_on(q->options, q->diag));
    TMK_TRY(check_axis(q, mark->value, e));
    TMK_TRY(tmk_qdq_codes(&mark->value->data, e, scale, &codes, q->diag));
    enum tmk_status status = add_parameters(q, name, suffix, e, scale, &mark->value->data.shape,
                                            &out->scale, &out->zero);
    TMK_THEN(status,
             add_initializer(q, join_name(q, name, "_quantized", suffix), &codes, &out->codes));
    tmk_tensor_finish(&codes);
    TMK_TRY(status);
    out->encoding = e;
    out->placed = true;
    TMK_TRY(tmk_qdq_report(q, e, NULL));
    return add_dequantize(q, name, suffix, out->codes, e, out->scale, out->zero, NULL, &out->real);
}

static enum tmk_status place_constant(struct tmk_qdq *q, struct tmk_qdq_mark *mark) {
    const struct tmk_encoding *e = tmk_qdq_encoding(q, mark, NULL, 0);
    struct readers readers = {0};
    TMK_TRY(find_readers(q, mark, e, &readers));
    if (e) {
        TMK_TRY(place_codes(q, mark, e, "", mark));
        TMK_TRY(tmk_value_replace(mark->value, mark->real, NULL, false, q->diag));
        TMK_TRY(hand_out(q, &readers, NULL, mark->value));
    }
    for (uint32_t i = 0; i < readers.n_other; i++) {
        struct tmk_qdq_mark made = {0};
        const char *suffix = suffix_of(q, e ? i + 1 : i);
        TMK_TRY_ALLOC(suffix, q->diag);
        TMK_TRY(place_codes(q, mark, readers.other[i], suffix, &made));
        TMK_TRY(hand_out(q, &readers, readers.other[i], made.real));
    }
    tmk_graph_drop_if_unused(mark->value);
    return TMK_OK;
}

/* ---- biases ---- */

/* NULL, or why the bias stays float. */
static const char *bias_obstacle(const struct tmk_qdq_mark *bias, const struct tmk_encoding *x,
                                 const struct tmk_encoding *w) {
    const struct tmk_shape *shape = &bias->value->data.shape;
    if (!x || !w)
        return "an operand of its operator is not quantized";
    if (x->n != 1)
        return "the input has several scales";
    if (w->block)
        return "its weight has scales by block";
    if (w->n > 1 && (shape->rank < 1 || shape->dim[shape->rank - 1] != w->n))
        return "it has not one element for each scale of the weights";
    return NULL;
}

/* Codes under scale * beta, with beta out of the operator: it would be lost on engines that add the
 * codes to the sums. */
static enum tmk_status take_beta(struct tmk_qdq *q, struct tmk_node *node, float *out) {
    const struct tmk_attr one = {.name = "beta", .kind = TMK_ATTR_FLOAT, .n = 1, .f = 1};
    *out = tmk_node_is(node, TMK_DOMAIN_ONNX, "Gemm") ? tmk_node_float(node, "beta", 1) : 1;
    return *out == 1 ? TMK_OK : tmk_node_set_attr(node, &one, q->diag);
}

static enum tmk_status place_bias_codes(struct tmk_qdq *q, struct tmk_qdq_mark *bias,
                                        const float *scale, uint32_t n) {
    struct tmk_value *value = bias->value;
    const char *name = value->name, *codes_name = join_name(q, name, "_quantized", "");
    const struct tmk_type type = value->type;
    struct tmk_tensor codes = {0};
    float beta = 1;
    TMK_TRY_ALLOC(codes_name, q->diag);
    TMK_TRY(take_beta(q, bias->node, &beta));
    TMK_TRY(tmk_qdq_bias_codes(&value->data, beta, scale, n, &codes, q->diag));
    const int32_t axis = n > 1 ? codes.shape.rank - 1 : -1;
    enum tmk_status status = add_initializer(q, codes_name, &codes, &bias->codes);
    tmk_tensor_finish(&codes);
    TMK_TRY(status);
    const struct tmk_shape list = {1, {n}}, one = {0};
    TMK_TRY(add_scale(q, join_name(q, codes_name, "_scale", ""), scale, n, &list, &bias->scale));
    TMK_TRY(add_zero(q, join_name(q, codes_name, "_zero_point", ""), NULL, n, TMK_INT32,
                     n == 1 ? &one : &list, &bias->zero));
    TMK_TRY(add_node(q, "DequantizeLinear", join_name(q, name, "_DequantizeLinear", ""),
                     bias->codes, bias->scale, bias->zero, axis, 0, TMK_INT32, name, &bias->real));
    TMK_TRY(set_type(q, bias->real, &type, TMK_FLOAT32));
    bias->placed = beta == 1; /* else the original's numbers are nowhere */
    TMK_TRY(tmk_value_replace(value, bias->real, NULL, false, q->diag));
    tmk_graph_drop_if_unused(value);
    return TMK_OK;
}

static float max_abs(const struct tmk_value *bias) {
    const float *x = bias->data.data;
    float most = 0;
    for (size_t i = 0; i < tmk_tensor_count(&bias->data); i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

static enum tmk_status place_bias(struct tmk_qdq *q, struct tmk_qdq_mark *bias) {
    const struct tmk_qdq_mark *input = tmk_qdq_marked(q, bias->input),
                              *weight = tmk_qdq_marked(q, bias->weight);
    if (tmk_qdq_marked(q, bias->value))
        return TMK_OK;
    const struct tmk_encoding *x = input ? tmk_qdq_encoding(q, input, bias->node, 0) : NULL,
                              *w = weight ? tmk_qdq_encoding(q, weight, bias->node, 1) : NULL;
    const char *why = bias_obstacle(bias, x, w);
    /* no scale of codes that the model has is enlarged (qdq_constant.c) */
    const float most = weight && weight->has_codes ? max_abs(bias->value) : 0;
    float *scale = why ? NULL : tmk_arena_array(&q->arena, w->n, sizeof *scale);
    if (!why && !scale)
        return tmk_nomem(q->diag);
    for (uint32_t i = 0; !why && i < w->n; i++) {
        scale[i] = x->scale[0] * tmk_qdq_scales_of(q, weight->value, w)[i];
        if (!(scale[i] > 0) || !isfinite(scale[i]))
            why = "the product of its operands' scales is beyond float32";
        else if (most / scale[i] > (float)INT32_MAX)
            why = "int32 does not hold it under the scale of the weight's codes";
    }
    bias->encoding = tmk_qdq_encoding(q, bias, bias->node, 2);
    TMK_TRY(tmk_qdq_report(q, bias->encoding, why));
    return why ? TMK_OK : place_bias_codes(q, bias, scale, w->n);
}

/* ---- int8 codes of operator set 21 ---- */

/* Optimised ONNX Runtime (1.32) lets codes pass these operators, by a pair of its own behind them.
 */
static bool lets_codes_pass(const struct tmk_node *node) {
    static const char *const ops[] = {"MaxPool", "Reshape",   "Slice",
                                      "Squeeze", "Transpose", "Unsqueeze"};
    for (size_t i = 0; i < TMK_COUNT(ops); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, ops[i]))
            return true;
    return false;
}

static bool is_int8(const struct tmk_value *value) {
    return (value->kind == TMK_VALUE_INITIALIZER ? value->data.dtype : value->type.dtype) ==
           TMK_INT8;
}

/* A pair that changes no number, behind an operator that moves codes to float readers, or to
 * the outputs of the model. */
static enum tmk_status place_behind(struct tmk_qdq *q, const struct tmk_node *node) {
    const struct tmk_encoding grid = {.dtype = TMK_INT8, .axis = -1, .n = 1};
    const struct tmk_node *from = node->inputs[0] ? node->inputs[0]->producer : NULL;
    struct tmk_value *moved = node->outputs[0], *codes, *real;
    const char *name = moved->name, *before = join_name(q, name, "_QuantizeLinear_Input", "");
    const bool returned = moved->n_graph_outputs;
    bool read = returned;
    TMK_TRY_ALLOC(before, q->diag);
    if (!from || !tmk_node_is(from, TMK_DOMAIN_ONNX, "DequantizeLinear") || from->n_inputs < 3 ||
        !from->inputs[2] || !is_int8(from->inputs[0]) ||
        from->inputs[1]->kind != TMK_VALUE_INITIALIZER || from->inputs[1]->data.shape.rank)
        return TMK_OK;
    for (uint32_t i = 0; i < moved->n_uses; i++)
        read = read || strcmp(moved->uses[i].node->op, "QuantizeLinear") != 0;
    if (!read)
        return TMK_OK;
    if (returned)
        TMK_TRY(tmk_value_rename(moved, before, q->diag));
    TMK_TRY(
        add_quantize(q, name, "_moved", moved, &grid, from->inputs[1], from->inputs[2], &codes));
    TMK_TRY(add_dequantize(q, name, "_moved", codes, &grid, from->inputs[1], from->inputs[2],
                           returned ? name : NULL, &real));
    if (returned)
        real->type.origin = moved->type.origin;
    return tmk_value_replace(moved, real, codes->producer, returned, q->diag);
}

/* The pair that ONNX Runtime would place there declares int8, and from operator set 21 on the file
 * does not load after it has changed the codes to uint8, as it does on x86. */
static enum tmk_status place_behind_all(struct tmk_qdq *q) {
    if (q->options->microsoft || tmk_graph_opset(q->graph, TMK_DOMAIN_ONNX) < 21)
        return TMK_OK;
    for (struct tmk_node *node = q->graph->first, *next; node; node = next) {
        next = node->next;
        if (lets_codes_pass(node))
            TMK_TRY(place_behind(q, node));
    }
    return TMK_OK;
}

/* ---- all ---- */

static bool is_constant(const struct tmk_qdq_mark *mark) {
    return mark->value->kind == TMK_VALUE_INITIALIZER;
}

enum tmk_status tmk_qdq_place_all(struct tmk_qdq *q) {
    for (uint32_t i = 0; i < q->n_marks; i++) {
        struct tmk_qdq_mark *mark = q->marks[i];
        if (mark->value && !mark->is_bias && is_constant(mark) && !mark->has_codes)
            TMK_TRY(place_constant(q, mark));
    }
    /* A provider's mark stands before those that share its scale. */
    for (uint32_t i = 0; i < q->n_marks; i++) {
        struct tmk_qdq_mark *mark = q->marks[i];
        if (mark->value && !mark->is_bias && !mark->placed && !is_constant(mark) &&
            !mark->has_codes)
            TMK_TRY(place_computed(q, mark));
    }
    for (uint32_t i = 0; i < q->n_marks; i++)
        if (q->marks[i]->is_bias)
            TMK_TRY(place_bias(q, q->marks[i]));
    return place_behind_all(q);
}
