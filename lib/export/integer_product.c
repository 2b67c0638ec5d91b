/* SPDX-License-Identifier: Apache-2.0 */
/* Conv, Gemm and MatMul: a product of codes in 32 bits, the bias added to it as int32 under the
 * product of the scales, then one Requantize that a Relu or Clip is part of.
 *
 * The sum over k products of 8-bit numbers stays below 2^31 for k < 2^31 / (255 * 255). */
#include <string.h>

#include "base/diag.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "graph/rewrite.h"

enum { MOST_DEPTH = 33025 }; /* products in a sum */

struct product {
    struct tmk_node *node;
    const struct tmk_encoding *x, *w;
    int32_t rank;      /* of the result; 0: not known, channels are on the last axis */
    int32_t axis;      /* of the result, on which its channels are */
    uint32_t channels; /* 0: not known (a weight that is no constant) */
    float alpha, beta; /* of Gemm */
    const float *bias; /* [channels], the sum of all; NULL: none */
    struct tmk_value *result;
};

/* ---- matching ---- */

static bool is_float(const struct tmk_tensor *tensor) {
    return tensor && tensor->dtype == TMK_FLOAT32;
}

/* A constant that is added to each channel: everything but its channel axis, counted from the back
 * of the result, is 1. */
static bool is_by_channel(const struct product *p, const struct tmk_tensor *t) {
    const int32_t behind = p->rank ? p->rank - 1 - p->axis : 0;
    const int32_t at = t->shape.rank - 1 - behind;
    if (!is_float(t) || (p->rank && t->shape.rank > p->rank))
        return false;
    for (int32_t i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] != 1 && (i != at || t->shape.dim[i] != (int64_t)p->channels))
            return false;
    return true;
}

static enum tmk_status add_bias(struct tmk_integer *g, struct product *p,
                                const struct tmk_tensor *t, float factor) {
    float *sum = tmk_arena_array(&g->arena, p->channels, sizeof *sum);
    const float *from = t->data;
    TMK_TRY_ALLOC(sum, g->diag);
    for (uint32_t i = 0; i < p->channels; i++)
        sum[i] = from[tmk_tensor_count(t) == 1 ? 0 : i] * factor + (p->bias ? p->bias[i] : 0);
    p->bias = sum;
    return TMK_OK;
}

static const struct tmk_tensor *plain_constant(const struct tmk_value *value) {
    while (value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Identity"))
        value = value->producer->inputs[0];
    return tmk_value_constant(value);
}

/* A constant, or one that was given axes of 1, as Relay's nn.bias_add requires; `reshaped` may hold
 * the answer. */
static const struct tmk_tensor *constant_of(const struct tmk_value *value,
                                            struct tmk_tensor *reshaped) {
    const struct tmk_tensor *t = plain_constant(value);
    size_t count;
    if (t || !value->producer || !tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Unsqueeze"))
        return t;
    t = plain_constant(value->producer->inputs[0]);
    if (!t || !value->type.has_shape || !tmk_shape_count(&value->type.shape, &count) ||
        count != tmk_tensor_count(t))
        return NULL;
    tmk_tensor_borrow(reshaped, t->dtype, &value->type.shape, t->data);
    return reshaped;
}

/* An Add behind the product whose other operand is a bias is taken along, unless the product itself
 * is to have codes. */
static enum tmk_status take_addition(struct tmk_integer *g, struct product *p) {
    struct tmk_node *next = tmk_integer_only_reader(p->result);
    if (!next || !tmk_node_is(next, TMK_DOMAIN_ONNX, "Add") || !next->outputs[0] || !p->channels ||
        tmk_integer_encoding(g, p->result, NULL, 0))
        return TMK_OK;
    const uint32_t other = next->inputs[0] == p->result;
    struct tmk_tensor reshaped;
    const struct tmk_tensor *bias = constant_of(next->inputs[other], &reshaped);
    const struct tmk_encoding *sum = tmk_integer_encoding(g, next->outputs[0], NULL, 0);
    if (!bias || !is_by_channel(p, bias) || (sum && sum->n != 1))
        return TMK_OK;
    TMK_TRY(add_bias(g, p, bias, 1));
    p->result = next->outputs[0];
    return tmk_integer_replaced(g, next);
}

/* ---- making ---- */

/* The scale of the accumulator: that of ONNX Runtime, a product in float. */
static enum tmk_status scales_of(struct tmk_integer *g, const struct product *p, float **out) {
    float *scale = tmk_arena_array(&g->arena, p->w->n, sizeof *scale);
    TMK_TRY_ALLOC(scale, g->diag);
    for (uint32_t i = 0; i < p->w->n; i++)
        scale[i] = p->x->scale[0] * p->w->scale[i] * p->alpha;
    *out = scale;
    return TMK_OK;
}

static enum tmk_status add_bias_codes(struct tmk_integer *g, const struct product *p,
                                      const float *scale, struct tmk_value **sum) {
    struct tmk_shape shape = {.rank = 1, .dim = {p->channels}};
    struct tmk_tensor real, codes = {0};
    struct tmk_value *bias = NULL;
    if (!p->bias)
        return TMK_OK;
    for (; p->rank && shape.rank < p->rank - p->axis; shape.rank++)
        shape.dim[shape.rank] = 1;
    tmk_tensor_borrow(&real, TMK_FLOAT32, &shape, (void *)(uintptr_t)p->bias);
    TMK_TRY(tmk_qdq_bias_codes(&real, 1, scale, p->w->n, &codes, g->diag));
    enum tmk_status status =
        tmk_integer_constant(g, TMK_INT32, &shape, codes.data, p->result->name, "_bias", &bias);
    tmk_tensor_finish(&codes);
    TMK_TRY(status);
    return tmk_integer_plain_node(g, "Add", *sum, bias, p->result->name, "_biased", sum);
}

static enum tmk_status finish_product(struct tmk_integer *g, struct product *p,
                                      struct tmk_value *sum) {
    const uint32_t n = p->w->n;
    struct tmk_tail tail;
    float *scale = NULL, *rne = tmk_arena_array(&g->arena, n, sizeof *rne);
    double *real = tmk_arena_array(&g->arena, n, sizeof *real);
    TMK_TRY_ALLOC(rne && real, g->diag);
    TMK_TRY(scales_of(g, p, &scale));
    TMK_TRY(take_addition(g, p));
    TMK_TRY(add_bias_codes(g, p, scale, &sum));
    TMK_TRY(tmk_integer_tail(g, p->result, &tail));
    TMK_TRY(tmk_integer_replaced(g, p->node));
    if (!tail.encoding) {
        TMK_TRY(tmk_integer_dequantize(g, sum, n, scale, p->axis, NULL, tail.result->name, &sum));
        return tmk_integer_made_real(g, tail.result, sum);
    }
    for (uint32_t i = 0; i < n; i++) {
        rne[i] = scale[i] / tail.encoding->scale[0];
        real[i] = (double)p->x->scale[0] * (double)p->w->scale[i] * (double)p->alpha /
                  (double)tail.encoding->scale[0];
    }
    const struct tmk_rescale rescale = {.n = n, .real = real, .rne = rne, .axis = p->axis};
    TMK_TRY(tmk_integer_requantize(g, sum, &rescale, tail.encoding, tail.lowest, tail.highest,
                                   tail.result->name, "_quantized", &sum));
    return tmk_integer_made(g, tail.result, sum, tail.encoding);
}

/* ---- operators ---- */

/* Operands 0 and 1 and what there is of a bias; weights may have a scale a channel, on `axis`. */
static bool match_product(struct tmk_integer *g, struct tmk_node *node, int32_t axis,
                          struct product *p) {
    const struct tmk_encoding *y = tmk_integer_encoding(g, node->outputs[0], NULL, 0);
    p->node = node;
    p->result = node->outputs[0];
    p->x = tmk_integer_plain(g, node->inputs[0], node, 0, 8, "its input");
    if (!p->x)
        return false;
    p->w = tmk_integer_encoding(g, node->inputs[1], node, 1);
    if (!p->w || p->w->n == 1 || p->w->block || p->w->axis != axis)
        p->w = tmk_integer_plain(g, node->inputs[1], node, 1, 8, "its weight");
    else if (tmk_integer_carrier(p->w) != TMK_INT8 && tmk_integer_carrier(p->w) != TMK_UINT8)
        return (void)tmk_integer_stays(g, "its weight is %s", tmk_dtype_name(p->w->dtype)), false;
    if (p->w && y && y->n != 1)
        return (void)tmk_integer_stays(g, "its result has a scale a channel"), false;
    return p->w != NULL;
}

/* Input 2. False: it is no constant of one number a channel. */
static enum tmk_status take_bias(struct tmk_integer *g, struct product *p, bool *fits) {
    struct tmk_value *value = p->node->n_inputs > 2 ? p->node->inputs[2] : NULL;
    const struct tmk_tensor *bias = value ? plain_constant(value) : NULL;
    *fits = true;
    if (!value)
        return TMK_OK;
    *fits = bias && p->channels && is_float(bias) &&
            (tmk_tensor_count(bias) == p->channels || tmk_tensor_count(bias) == 1) &&
            (bias->shape.rank == 0 ||
             bias->shape.dim[bias->shape.rank - 1] == (int64_t)tmk_tensor_count(bias));
    return *fits ? add_bias(g, p, bias, p->beta)
                 : tmk_integer_stays(g, "its bias is no constant of one number a channel");
}

static bool is_zero(const struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        if (e->zero_point[i])
            return false;
    return true;
}

static enum tmk_status convert_product(struct tmk_integer *g, struct product *p, const char *op,
                                       struct tmk_value *w) {
    struct tmk_value *inputs[4] = {[1] = w};
    const char *name = p->result->name;
    struct tmk_node *made = NULL;
    TMK_TRY(tmk_integer_codes_of(g, p->node->inputs[0], p->x, &inputs[0]));
    TMK_TRY(tmk_integer_zero(g, p->x, p->node->inputs[0]->name, &inputs[2]));
    if (!is_zero(p->w))
        TMK_TRY(tmk_integer_zero(g, p->w, p->node->inputs[1]->name, &inputs[3]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, op, 10, inputs, inputs[3] ? 4 : 3, name, "_sum",
                             &made));
    if (strcmp(op, "ConvInteger") == 0)
        TMK_TRY(tmk_node_copy_attrs(made, p->node, NULL, g->diag));
    return finish_product(g, p, made->outputs[0]);
}

enum tmk_status tmk_integer_conv(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_tensor *w = plain_constant(node->inputs[1]);
    struct product p = {.axis = 1, .alpha = 1, .beta = 1};
    struct tmk_value *codes = NULL;
    bool fits;
    if (!match_product(g, node, 0, &p))
        return TMK_OK;
    if (!is_float(w) || w->shape.rank < 3)
        return tmk_integer_stays(g, "its weight is no constant");
    p.rank = w->shape.rank;
    p.channels = (uint32_t)w->shape.dim[0];
    if (!p.channels || tmk_tensor_count(w) / p.channels > MOST_DEPTH)
        return tmk_integer_stays(g, "its sums may leave 32 bits");
    TMK_TRY(take_bias(g, &p, &fits));
    if (!fits)
        return TMK_OK;
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[1], p.w, &codes));
    return convert_product(g, &p, "ConvInteger", codes);
}

/* The sum's depth, and the channels of a weight that is [k, n], or [n, k]. */
static bool measure_depth(struct tmk_integer *g, struct product *p, bool transposed) {
    const struct tmk_tensor *w = plain_constant(p->node->inputs[1]);
    const struct tmk_type *type = &p->node->inputs[1]->type;
    const struct tmk_shape *shape = w ? &w->shape : type->has_shape ? &type->shape : NULL;
    int64_t depth = -1;
    if (shape && shape->rank >= 2)
        depth = shape->dim[shape->rank - (transposed ? 1 : 2)];
    if (shape && shape->rank == 2 && shape->dim[!transposed] > 0)
        p->channels = (uint32_t)shape->dim[!transposed];
    if (depth >= 0 && depth <= MOST_DEPTH)
        return true;
    return (void)tmk_integer_stays(g, depth < 0 ? "how many numbers it sums is not known"
                                                : "its sums may leave 32 bits"),
           false;
}

enum tmk_status tmk_integer_gemm(struct tmk_integer *g, struct tmk_node *node) {
    const bool transposed = tmk_node_int(node, "transB", 0) != 0;
    struct product p = {.axis = 1,
                        .rank = 2,
                        .alpha = tmk_node_float(node, "alpha", 1),
                        .beta = tmk_node_float(node, "beta", 1)};
    struct tmk_value *codes = NULL;
    bool fits;
    if (!match_product(g, node, transposed ? 0 : 1, &p) || !measure_depth(g, &p, transposed))
        return TMK_OK;
    if (tmk_node_int(node, "transA", 0) || !(p.alpha > 0))
        return tmk_integer_stays(g, p.alpha > 0 ? "transA is set" : "alpha is not above 0");
    TMK_TRY(take_bias(g, &p, &fits));
    if (!fits)
        return TMK_OK;
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[1], p.w, &codes));
    if (transposed) {
        static const int64_t order[] = {1, 0};
        struct tmk_node *transpose = NULL;
        TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "Transpose", 13, &codes, 1,
                                 node->inputs[1]->name, "_transposed", &transpose));
        TMK_TRY(tmk_integer_set_ints(g, transpose, "perm", order, 2));
        codes = transpose->outputs[0];
    }
    return convert_product(g, &p, "MatMulInteger", codes);
}

enum tmk_status tmk_integer_matmul(struct tmk_integer *g, struct tmk_node *node) {
    struct product p = {.axis = -1, .alpha = 1, .beta = 1};
    struct tmk_value *codes = NULL;
    if (!match_product(g, node, 1, &p) || !measure_depth(g, &p, false))
        return TMK_OK;
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[1], p.w, &codes));
    return convert_product(g, &p, "MatMulInteger", codes);
}
