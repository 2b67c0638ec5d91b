/* SPDX-License-Identifier: Apache-2.0 */
/* Codes: quantizing, dequantizing, sums of products of integers, and requantizing.
 *
 * Integer operators become Relay's plain ones (nn.conv2d and nn.dense with out_dtype int32, shifts,
 * additions of int64): every version of TVM has them and they mean the same numbers everywhere.
 */
#include <string.h>

#include "model/relay_raise.h"
#include "model/relay_window.h"

#define SAY (&r->say)

static struct tmk_relay_expr *wide(struct tmk_raising *r, int64_t value) {
    return tmk_say_scalar(SAY, TMK_INT64, (double)value);
}

/* ---- to codes and back ---- */

/* Scale and zero point as scalars; as they are where they have one a channel. */
static struct tmk_relay_expr *scale_of(struct tmk_raising *r, const struct tmk_node *node,
                                       double *one) {
    return tmk_raise_number(r, node, 1, one) ? tmk_say_scalar(SAY, TMK_FLOAT32, *one)
                                             : tmk_raise_operand(r, node, 1);
}

static struct tmk_relay_expr *zero_of(struct tmk_raising *r, const struct tmk_node *node,
                                      double *one) {
    if (!tmk_raise_has(node, 2))
        return tmk_say_scalar(SAY, TMK_INT32, *one = 0);
    return tmk_raise_number(r, node, 2, one)
               ? tmk_say_scalar(SAY, TMK_INT32, *one)
               : tmk_say_cast(SAY, tmk_raise_operand(r, node, 2), TMK_INT32);
}

static bool has_codes(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8 || dtype == TMK_INT16 || dtype == TMK_UINT16;
}

static int64_t lowest_of(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 ? INT8_MIN : dtype == TMK_INT16 ? INT16_MIN : 0;
}

static int64_t highest_of(enum tmk_dtype dtype) {
    switch (dtype) {
    case TMK_INT8:
        return INT8_MAX;
    case TMK_UINT8:
        return UINT8_MAX;
    case TMK_INT16:
        return INT16_MAX;
    default:
        return UINT16_MAX;
    }
}

static struct tmk_relay_expr *clipped(struct tmk_raising *r, struct tmk_relay_expr *x,
                                      int64_t lowest, int64_t highest) {
    struct tmk_say_attrs a = {0};
    tmk_say_set_real(SAY, &a, "a_min", (float)lowest);
    tmk_say_set_real(SAY, &a, "a_max", (float)highest);
    return tmk_say_call(SAY, "clip", &x, 1, &a);
}

static const char *say_qnn_quantize(struct tmk_raising *r, const struct tmk_node *node,
                                    struct tmk_relay_expr *x, double scale, double zero,
                                    enum tmk_dtype dtype) {
    struct tmk_relay_expr *args[] = {x, tmk_say_scalar(SAY, TMK_FLOAT32, scale),
                                     tmk_say_scalar(SAY, TMK_INT32, zero)};
    struct tmk_say_attrs a = {0};
    tmk_say_set_string(SAY, &a, "out_dtype", tmk_dtype_name(dtype));
    return tmk_raise_done(r, node, tmk_say_call(SAY, "qnn.quantize", args, 3, &a));
}

/* qnn.quantize rounds ties away from zero, ONNX to the even code, and data has ties: 8 of 0 ... 16
 * under a scale of 16 / 255 is one. Adding 3 * 2^22 leaves a float32 no bits behind the point, so
 * that the addition rounds, to even, as all of IEEE 754 does. The clip before keeps the sum in the
 * one power of two where that holds. */
static const char *raise_quantize(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_value *y = node->outputs[0];
    const enum tmk_dtype dtype = y->type.dtype;
    struct tmk_relay_expr *x = tmk_raise_operand(r, node, 0);
    double scale, zero = 0;
    if (!tmk_raise_number(r, node, 1, &scale) ||
        (tmk_raise_has(node, 2) && !tmk_raise_number(r, node, 2, &zero)))
        return "it quantizes by channel, or by a computed scale";
    if (!has_codes(dtype) || tmk_raise_dtype(node, 0) != TMK_FLOAT32)
        return "only float32 to 8 and 16 bits can be said";
    if (r->options.qnn)
        return say_qnn_quantize(r, node, x, scale, zero, dtype);
    const int64_t lowest = lowest_of(dtype), highest = highest_of(dtype);
    struct tmk_relay_expr *magic = tmk_say_scalar(SAY, TMK_FLOAT32, 12582912);
    x = tmk_say_call2(SAY, "divide", x, tmk_say_scalar(SAY, TMK_FLOAT32, scale));
    x = clipped(r, x, lowest - (int64_t)zero, highest - (int64_t)zero);
    x = tmk_say_call2(SAY, "subtract", tmk_say_call2(SAY, "add", x, magic), magic);
    x = tmk_say_cast(SAY, x, TMK_INT32);
    if (zero != 0)
        x = tmk_say_call2(SAY, "add", x, tmk_say_scalar(SAY, TMK_INT32, zero));
    return tmk_raise_done(r, node, tmk_say_cast(SAY, x, dtype));
}

static const char *raise_dequantize(struct tmk_raising *r, const struct tmk_node *node) {
    const enum tmk_dtype dtype = tmk_raise_dtype(node, 0);
    double scale, zero;
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0), scale_of(r, node, &scale),
                                     zero_of(r, node, &zero)};
    struct tmk_say_attrs a = {0};
    if (!has_codes(dtype) && dtype != TMK_INT32)
        return "only codes of 8, 16 and 32 bits can be said";
    if (tmk_node_int(node, "block_size", 0))
        return "it has a scale a block";
    const struct tmk_shape *per = tmk_raise_shape(node, 1);
    if (!per || per->rank > 1)
        return "the shape of its scale is not known";
    if (per->rank == 1 && per->dim[0] != 1)
        tmk_say_set_int(SAY, &a, "axis", tmk_node_int(node, "axis", 1));
    return tmk_raise_done(r, node, tmk_say_call(SAY, "qnn.dequantize", args, 3, &a));
}

/* ---- sums of products ---- */

/* Codes less their zero point; 16 bits hold them. As they are where that is 0 for both. `turned`:
 * the second as nn.dense wants it. */
static const char *centred(struct tmk_raising *r, const struct tmk_node *node,
                           struct tmk_relay_expr *args[2], bool turned) {
    double zeros[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        const enum tmk_dtype dtype = tmk_raise_dtype(node, i);
        const struct tmk_tensor *zero = tmk_raise_numbers(r, node, i + 2);
        args[i] = i && turned ? tmk_raise_turned(r, node, i) : tmk_raise_operand(r, node, i);
        if (dtype != TMK_INT8 && dtype != TMK_UINT8)
            return "only codes of 8 bits can be said";
        if (tmk_raise_has(node, i + 2) && !zero)
            return "its zero points are computed";
        if (zero && tmk_tensor_count(zero) > 1 &&
            memcmp(zero->data, (const char *)zero->data + 1, tmk_tensor_count(zero) - 1) != 0)
            return "it has different zero points by channel";
        if (zero && tmk_tensor_count(zero))
            zeros[i] =
                dtype == TMK_INT8 ? *(const int8_t *)zero->data : *(const uint8_t *)zero->data;
    }
    if (zeros[0] == 0 && zeros[1] == 0 && tmk_raise_dtype(node, 0) == tmk_raise_dtype(node, 1))
        return NULL;
    for (int i = 0; i < 2; i++) {
        args[i] = tmk_say_cast(SAY, args[i], TMK_INT16);
        if (zeros[i] != 0)
            args[i] =
                tmk_say_call2(SAY, "subtract", args[i], tmk_say_scalar(SAY, TMK_INT16, zeros[i]));
    }
    return NULL;
}

static const char *raise_conv_integer(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *args[2];
    struct tmk_say_attrs a = {0};
    const char *op = NULL, *why = centred(r, node, args, false);
    if (!why)
        why = tmk_say_conv(r, node, &a, &op);
    if (why)
        return why;
    tmk_say_set_string(SAY, &a, "out_dtype", "int32");
    return tmk_raise_done(r, node, tmk_say_call(SAY, op, args, 2, &a));
}

static const char *raise_matmul_integer(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *a = tmk_raise_shape(node, 0), *w = tmk_raise_shape(node, 1);
    struct tmk_relay_expr *args[2];
    struct tmk_say_attrs attrs = {0};
    const bool batch = w && w->rank > 2;
    const char *why = centred(r, node, args, !batch);
    if (why)
        return why;
    if (!a || !w || a->rank < 2 || w->rank < 2 || (w->rank == 2 && w->dim[1] < 0))
        return "the shapes of its operands are not known, or one is a vector";
    if (batch)
        return tmk_say_batch_matmul(r, node, args, "int32");
    tmk_say_set_int(SAY, &attrs, "units", w->dim[1]);
    tmk_say_set_string(SAY, &attrs, "out_dtype", "int32");
    return tmk_raise_done(r, node, tmk_say_call(SAY, "nn.dense", args, 2, &attrs));
}

/* ---- requantizing ---- */

/* The integers of an input, one or one a channel. */
struct terms {
    const int32_t *q, *shift;
    size_t n_q, n_shift, n;
    bool away;
};

static int32_t q_at(const struct terms *t, size_t i) {
    return t->q[t->n_q == 1 ? 0 : i];
}

static int32_t shift_at(const struct terms *t, size_t i) {
    return t->shift[t->n_shift == 1 ? 0 : i];
}

/* A constant of int64 that broadcasts along `axis` of a tensor of that rank. */
static struct tmk_relay_expr *by_channel(struct tmk_raising *r, const struct tmk_node *node,
                                         const char *what, const int64_t *values, size_t n,
                                         int64_t axis, int32_t rank) {
    struct tmk_shape shape = {.rank = rank - (int32_t)axis};
    struct tmk_tensor tensor;
    if (n == 1)
        return wide(r, values[0]);
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i ? 1 : (int64_t)n;
    if (tmk_tensor_init(&tensor, TMK_INT64, &shape, r->diag) != TMK_OK) {
        SAY->nomem = true;
        return NULL;
    }
    memcpy(tensor.data, values, n * sizeof *values);
    struct tmk_relay_expr *made = tmk_raise_constant(r, node, what, &tensor);
    tmk_tensor_finish(&tensor);
    return made;
}

static bool all_pow2(const struct terms *t) {
    for (size_t i = 0; i < t->n; i++)
        if (q_at(t, i) != 1 << 30)
            return false;
    return true;
}

/* (x * q + rounder) >> (31 - shift), ties up; where they go away from zero, one less is added to
 * what is below it. A q of 2^30 is a shift alone. */
static struct tmk_relay_expr *multiplied(struct tmk_raising *r, const struct tmk_node *node,
                                         const struct terms *t, struct tmk_relay_expr *x,
                                         int64_t axis, int32_t rank) {
    const bool pow2 = all_pow2(t);
    int64_t *lists = tmk_arena_array(SAY->arena, t->n, 3 * sizeof *lists);
    if (!lists) {
        SAY->nomem = true;
        return NULL;
    }
    int64_t *factor = lists, *rounder = lists + t->n, *right = lists + 2 * t->n;
    bool grows = false;
    for (size_t i = 0; i < t->n; i++) {
        const int64_t by = (pow2 ? 1 : 31) - shift_at(t, i), more = by < 1 ? 1 - by : 0;
        factor[i] = (pow2 ? 1 : q_at(t, i)) * ((int64_t)1 << more);
        right[i] = by + more;
        rounder[i] = (int64_t)1 << (right[i] - 1);
        grows |= factor[i] != 1;
    }
    struct tmk_relay_expr *y = tmk_say_cast(SAY, x, TMK_INT64);
    if (grows)
        y = tmk_say_call2(SAY, "multiply", y,
                          by_channel(r, node, "multiplier", factor, t->n, axis, rank));
    struct tmk_relay_expr *rounded =
        tmk_say_call2(SAY, "add", y, by_channel(r, node, "rounder", rounder, t->n, axis, rank));
    if (t->away)
        rounded =
            tmk_say_call2(SAY, "add", rounded, tmk_say_call2(SAY, "right_shift", y, wide(r, 63)));
    return tmk_say_call2(SAY, "right_shift", rounded,
                         by_channel(r, node, "shift", right, t->n, axis, rank));
}

static const char *read_terms(struct tmk_raising *r, const struct tmk_node *node, struct terms *t) {
    const char *rounding = tmk_node_string(node, "rounding", "");
    const struct tmk_tensor *q = tmk_raise_numbers(r, node, 1), *s = tmk_raise_numbers(r, node, 2);
    t->away = strcmp(rounding, "single_half_away") == 0;
    if (!t->away && strcmp(rounding, "single_half_up") != 0)
        return "only the roundings single_half_up and single_half_away can be said in integers";
    if (!q || !s || q->dtype != TMK_INT32 || s->dtype != TMK_INT32)
        return "its multipliers are computed";
    t->q = q->data;
    t->shift = s->data;
    t->n_q = tmk_tensor_count(q);
    t->n_shift = tmk_tensor_count(s);
    t->n = t->n_q > t->n_shift ? t->n_q : t->n_shift;
    if (!t->n || (t->n_q != 1 && t->n_q != t->n) || (t->n_shift != 1 && t->n_shift != t->n))
        return "its multipliers and shifts are not of one number";
    for (size_t i = 0; i < t->n_shift; i++)
        if (t->shift[i] < -31 || t->shift[i] > 30)
            return "its shifts make no sense";
    return NULL;
}

/* The codes' zero point, limits and type. */
static const char *finish_codes(struct tmk_raising *r, const struct tmk_node *node,
                                struct tmk_relay_expr *x) {
    const struct tmk_tensor *zero = tmk_raise_numbers(r, node, 4);
    double z;
    if (!zero || !tmk_raise_number(r, node, 4, &z))
        return "its zero points differ by channel, or are computed";
    if (!has_codes(zero->dtype) && zero->dtype != TMK_INT32)
        return "only codes of 8, 16 and 32 bits can be said";
    if (z != 0)
        x = tmk_say_call2(SAY, "add", x, wide(r, (int64_t)z));
    if (zero->dtype == TMK_INT32) { /* a float, as clip has it, does not end where int32 does */
        x = tmk_say_call2(SAY, "maximum", x, wide(r, tmk_node_int(node, "lowest", INT32_MIN)));
        x = tmk_say_call2(SAY, "minimum", x, wide(r, tmk_node_int(node, "highest", INT32_MAX)));
        return tmk_raise_done(r, node, tmk_say_cast(SAY, x, TMK_INT32));
    }
    x = clipped(r, x, tmk_node_int(node, "lowest", lowest_of(zero->dtype)),
                tmk_node_int(node, "highest", highest_of(zero->dtype)));
    return tmk_raise_done(r, node, tmk_say_cast(SAY, x, zero->dtype));
}

static const char *raise_requantize(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *shape = tmk_raise_shape(node, 0);
    struct tmk_relay_expr *x = tmk_raise_operand(r, node, 0);
    struct terms t;
    double x_zero = 0;
    const char *why = read_terms(r, node, &t);
    if (why)
        return why;
    if (!shape)
        return "the rank of its input is not known";
    if (tmk_raise_has(node, 5) && !tmk_raise_number(r, node, 5, &x_zero))
        return "the zero point of its input is computed";
    if (tmk_raise_dtype(node, 0) != TMK_INT32)
        x = tmk_say_cast(SAY, x, TMK_INT32);
    if (x_zero != 0)
        x = tmk_say_call2(SAY, "subtract", x, tmk_say_scalar(SAY, TMK_INT32, x_zero));
    const int64_t axis = tmk_raise_axis(tmk_node_int(node, "axis", 1), shape->rank);
    if (t.n > 1 && (axis < 0 || (shape->dim[axis] >= 0 && shape->dim[axis] != (int64_t)t.n)))
        return "its multipliers do not fit its axis";
    /* TVM's own operator rounds half up too; beyond 2^31 it wraps around, and 1 does not compile */
    if (t.n == 1 && !t.away && q_at(&t, 0) > 1 << 30 && shift_at(&t, 0) <= 0) {
        struct tmk_say_attrs a = {0};
        tmk_say_set_int(SAY, &a, "multiplier", q_at(&t, 0));
        tmk_say_set_int(SAY, &a, "shift", shift_at(&t, 0));
        x = tmk_say_cast(SAY, x, TMK_INT64);
        x = tmk_say_call(SAY, "fixed_point_multiply", &x, 1, &a);
    } else {
        x = multiplied(r, node, &t, x, axis, shape->rank);
    }
    return finish_codes(r, node, x);
}

const struct tmk_raise_row tmk_raise_quantized[] = {
    {TMK_DOMAIN_ONNX, "QuantizeLinear", raise_quantize, 1u << 1 | 1u << 2, ""},
    {TMK_DOMAIN_ONNX, "DequantizeLinear", raise_dequantize, 1u << 1 | 1u << 2, ""},
    {TMK_DOMAIN_ONNX, "ConvInteger", raise_conv_integer, 1u << 2 | 1u << 3, ""},
    {TMK_DOMAIN_ONNX, "MatMulInteger", raise_matmul_integer, 1u << 2 | 1u << 3, ""},
    {TMK_DOMAIN_TIDEMARK, "Requantize", raise_requantize, 0x3e, ""},
    {0},
};
