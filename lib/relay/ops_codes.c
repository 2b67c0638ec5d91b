/* SPDX-License-Identifier: Apache-2.0 */
/* Codes: quantizing, dequantizing, sums of products of integers, and requantizing.
 *
 * Integer operators become Relay's plain ones (nn.conv2d and nn.dense with out_dtype int32, shifts,
 * additions of int64): every version of TVM has them and they mean the same numbers everywhere. */
#include <string.h>

#include "relay/convolve.h"

static struct tmk_relay_expr *int64_scalar(struct tmk_relay_emit *e, int64_t value) {
    return tmk_rb_scalar(e->b, TMK_INT64, (double)value);
}

/* ---- to codes and back ---- */

/* Scale and zero point as scalars; as they are where they have one a channel. */
static struct tmk_relay_expr *scale_of(struct tmk_relay_emit *e, double *one) {
    return tmk_re_number(e, 1, one) ? tmk_rb_scalar(e->b, TMK_FLOAT32, *one) : tmk_re_in(e, 1);
}

static struct tmk_relay_expr *zero_of(struct tmk_relay_emit *e, double *one) {
    const struct tmk_tensor *given = tmk_re_tensor(e, 2);
    struct tmk_tensor zeros;
    if (!tmk_re_has(e, 2))
        return tmk_rb_scalar(e->b, TMK_INT32, *one = 0);
    if (tmk_re_number(e, 2, one))
        return tmk_rb_scalar(e->b, TMK_INT32, *one);
    if (!given)
        return tmk_rb_cast(e->b, tmk_re_in(e, 2), TMK_INT32);
    if (tmk_tensor_init(&zeros, TMK_INT32, &given->shape, NULL) != TMK_OK)
        return tmk_re_nomem(e);
    for (size_t i = 0; i < tmk_tensor_count(given); i++) {
        double zero = 0;
        (void)tmk_rl_element(given, i, &zero); /* codes */
        ((int32_t *)zeros.data)[i] = (int32_t)zero;
    }
    struct tmk_relay_expr *made = tmk_re_constant(e, "zero_point", &zeros);
    tmk_tensor_finish(&zeros);
    return made;
}

/* Types of codes that a float32 holds. */
static bool is_narrow(enum tmk_dtype dtype) {
    return tmk_rl_is_code(dtype) && dtype != TMK_INT32;
}

/* qnn.quantize rounds ties away from zero, ONNX to the even code, and data has ties: 8 of 0 ... 16
 * under a scale of 16 / 255 is one. Adding 3 * 2^22 leaves a float32 no bits behind the point, so
 * that the addition rounds, to even, as all of IEEE 754 does. The clip before keeps the sum in the
 * one power of two where that holds. */
static struct tmk_relay_expr *emit_quantize(struct tmk_relay_emit *e) {
    const struct tmk_value *y = e->node->outputs[0];
    const enum tmk_dtype dtype = y->type.dtype;
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    double scale, zero = 0;
    if (!tmk_re_number(e, 1, &scale) || (tmk_re_has(e, 2) && !tmk_re_number(e, 2, &zero)))
        return tmk_re_fail(e, "it quantizes by channel, or by a computed scale");
    if (!is_narrow(dtype) || tmk_re_dtype(e, 0) != TMK_FLOAT32)
        return tmk_re_fail(e, "only float32 to 8 and 16 bits can be written");
    if (e->qnn) {
        struct tmk_relay_expr *args[] = {x, tmk_rb_scalar(e->b, TMK_FLOAT32, scale),
                                         tmk_rb_scalar(e->b, TMK_INT32, zero)};
        tmk_rb_set_string(e->b, "out_dtype", tmk_dtype_name(dtype));
        return tmk_re_n(e, "qnn.quantize", args, 3);
    }
    double lowest = 0, highest = 0;
    tmk_rl_limits(dtype, &lowest, &highest);
    struct tmk_relay_expr *magic = tmk_rb_scalar(e->b, TMK_FLOAT32, 12582912);
    x = tmk_re_2(e, "divide", x, tmk_rb_scalar(e->b, TMK_FLOAT32, scale));
    x = tmk_re_clip(e, x, lowest - zero, highest - zero);
    x = tmk_re_2(e, "subtract", tmk_re_2(e, "add", x, magic), magic);
    x = tmk_rb_cast(e->b, x, TMK_INT32);
    if (zero != 0)
        x = tmk_re_2(e, "add", x, tmk_rb_scalar(e->b, TMK_INT32, zero));
    return tmk_rb_cast(e->b, x, dtype);
}

static struct tmk_relay_expr *emit_dequantize(struct tmk_relay_emit *e) {
    const enum tmk_dtype dtype = tmk_re_dtype(e, 0);
    double scale, zero;
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), scale_of(e, &scale), zero_of(e, &zero)};
    if (!tmk_rl_is_code(dtype))
        return tmk_re_fail(e, "only codes of 8, 16 and 32 bits can be written");
    if (tmk_node_int(e->node, "block_size", 0))
        return tmk_re_fail(e, "it has a scale a block");
    const struct tmk_shape *per = tmk_re_shape(e, 1);
    if (!per || per->rank > 1)
        return tmk_re_fail(e, "the shape of its scale is not known");
    if (per->rank == 1 && per->dim[0] != 1)
        tmk_rb_set_int(e->b, "axis", tmk_node_int(e->node, "axis", 1));
    return tmk_re_n(e, "qnn.dequantize", args, 3);
}

/* ---- sums of products ---- */

/* Codes less their zero point; 16 bits hold them. As they are where that is 0 for both. `turned`:
 * the second as nn.dense wants it. */
static bool centre_operands(struct tmk_relay_emit *e, struct tmk_relay_expr *args[2], bool turned) {
    double zeros[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        const enum tmk_dtype dtype = tmk_re_dtype(e, i);
        const struct tmk_tensor *zero = tmk_re_tensor(e, i + 2);
        args[i] = i && turned ? tmk_re_transposed(e, i) : tmk_re_in(e, i);
        if (dtype != TMK_INT8 && dtype != TMK_UINT8)
            return tmk_re_fail(e, "only codes of 8 bits can be written");
        if (tmk_re_has(e, i + 2) && !zero)
            return tmk_re_fail(e, "its zero points are computed");
        if (zero && tmk_tensor_count(zero) > 1 &&
            memcmp(zero->data, (const char *)zero->data + 1, tmk_tensor_count(zero) - 1) != 0)
            return tmk_re_fail(e, "it has different zero points by channel");
        if (zero && tmk_tensor_count(zero))
            zeros[i] =
                dtype == TMK_INT8 ? *(const int8_t *)zero->data : *(const uint8_t *)zero->data;
    }
    if (zeros[0] == 0 && zeros[1] == 0 && tmk_re_dtype(e, 0) == tmk_re_dtype(e, 1))
        return true;
    for (int i = 0; i < 2; i++) {
        args[i] = tmk_rb_cast(e->b, args[i], TMK_INT16);
        if (zeros[i] != 0)
            args[i] = tmk_re_2(e, "subtract", args[i], tmk_rb_scalar(e->b, TMK_INT16, zeros[i]));
    }
    return true;
}

static struct tmk_relay_expr *emit_conv_integer(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[2];
    const char *op = centre_operands(e, args, false) ? tmk_re_conv(e) : NULL;
    if (!op)
        return NULL;
    tmk_rb_set_string(e->b, "out_dtype", "int32");
    return tmk_re_n(e, op, args, 2);
}

static struct tmk_relay_expr *emit_matmul_integer(struct tmk_relay_emit *e) {
    const struct tmk_shape *a = tmk_re_shape(e, 0), *w = tmk_re_shape(e, 1);
    struct tmk_relay_expr *args[2];
    const bool batch = w && w->rank > 2;
    if (!centre_operands(e, args, !batch))
        return NULL;
    if (!a || !w || a->rank < 2 || w->rank < 2 || (w->rank == 2 && w->dim[1] < 0))
        return tmk_re_fail(e, "the shapes of its operands are not known, or one is a vector");
    if (batch)
        return tmk_re_batch_matmul(e, args, "int32");
    tmk_rb_set_int(e->b, "units", w->dim[1]);
    tmk_rb_set_string(e->b, "out_dtype", "int32");
    return tmk_re_n(e, "nn.dense", args, 2);
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
static struct tmk_relay_expr *constant_by_channel(struct tmk_relay_emit *e, const char *what,
                                                  const int64_t *values, size_t n, int64_t axis,
                                                  int32_t rank) {
    struct tmk_shape shape = {.rank = rank - (int32_t)axis};
    struct tmk_tensor tensor;
    if (n == 1)
        return int64_scalar(e, values[0]);
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i ? 1 : (int64_t)n;
    if (tmk_tensor_init(&tensor, TMK_INT64, &shape, NULL) != TMK_OK)
        return tmk_re_nomem(e);
    memcpy(tensor.data, values, n * sizeof *values);
    struct tmk_relay_expr *made = tmk_re_constant(e, what, &tensor);
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
static struct tmk_relay_expr *emit_multiplied(struct tmk_relay_emit *e, const struct terms *t,
                                              struct tmk_relay_expr *x, int64_t axis,
                                              int32_t rank) {
    const bool pow2 = all_pow2(t);
    int64_t *lists = tmk_arena_array(e->b->arena, t->n, 3 * sizeof *lists);
    if (!lists)
        return tmk_re_nomem(e);
    int64_t *factor = lists, *rounder = lists + t->n, *right = lists + 2 * t->n;
    bool grows = false;
    for (size_t i = 0; i < t->n; i++) {
        const int64_t by = (pow2 ? 1 : 31) - shift_at(t, i), more = by < 1 ? 1 - by : 0;
        factor[i] = (pow2 ? 1 : q_at(t, i)) * ((int64_t)1 << more);
        right[i] = by + more;
        rounder[i] = (int64_t)1 << (right[i] - 1);
        grows |= factor[i] != 1;
    }
    struct tmk_relay_expr *y = tmk_rb_cast(e->b, x, TMK_INT64);
    if (grows)
        y = tmk_re_2(e, "multiply", y,
                     constant_by_channel(e, "multiplier", factor, t->n, axis, rank));
    struct tmk_relay_expr *rounded =
        tmk_re_2(e, "add", y, constant_by_channel(e, "rounder", rounder, t->n, axis, rank));
    if (t->away)
        rounded = tmk_re_2(e, "add", rounded, tmk_re_2(e, "right_shift", y, int64_scalar(e, 63)));
    return tmk_re_2(e, "right_shift", rounded,
                    constant_by_channel(e, "shift", right, t->n, axis, rank));
}

static bool read_terms(struct tmk_relay_emit *e, struct terms *t) {
    const char *rounding = tmk_node_string(e->node, "rounding", "");
    const struct tmk_tensor *q = tmk_re_tensor(e, 1), *s = tmk_re_tensor(e, 2);
    t->away = strcmp(rounding, "single_half_away") == 0;
    if (!t->away && strcmp(rounding, "single_half_up") != 0)
        return tmk_re_fail(
            e, "only the roundings single_half_up and single_half_away can be written in integers");
    if (!q || !s || q->dtype != TMK_INT32 || s->dtype != TMK_INT32)
        return tmk_re_fail(e, "its multipliers are computed");
    t->q = q->data;
    t->shift = s->data;
    t->n_q = tmk_tensor_count(q);
    t->n_shift = tmk_tensor_count(s);
    t->n = t->n_q > t->n_shift ? t->n_q : t->n_shift;
    if (!t->n || (t->n_q != 1 && t->n_q != t->n) || (t->n_shift != 1 && t->n_shift != t->n))
        return tmk_re_fail(e, "its multipliers and shifts are not of one number");
    for (size_t i = 0; i < t->n_shift; i++)
        if (t->shift[i] < -31 || t->shift[i] > 30)
            return tmk_re_fail(e, "its shifts make no sense");
    return true;
}

static struct tmk_relay_expr *emit_requantize(struct tmk_relay_emit *e) {
    const struct tmk_shape *shape = tmk_re_shape(e, 0);
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    struct terms t = {0};
    double x_zero = 0;
    if (!read_terms(e, &t))
        return NULL;
    if (!shape)
        return tmk_re_fail(e, "the rank of its input is not known");
    if (tmk_re_has(e, 5) && !tmk_re_number(e, 5, &x_zero))
        return tmk_re_fail(e, "the zero point of its input is computed");
    if (tmk_re_dtype(e, 0) != TMK_INT32)
        x = tmk_rb_cast(e->b, x, TMK_INT32);
    if (x_zero != 0)
        x = tmk_re_2(e, "subtract", x, tmk_rb_scalar(e->b, TMK_INT32, x_zero));
    const int64_t axis = tmk_re_axis(tmk_node_int(e->node, "axis", 1), shape->rank);
    if (t.n > 1 && (axis < 0 || (shape->dim[axis] >= 0 && shape->dim[axis] != (int64_t)t.n)))
        return tmk_re_fail(e, "its multipliers do not fit its axis");
    /* TVM's own operator rounds half up too; beyond 2^31 it wraps around, and 1 does not compile */
    if (t.n == 1 && !t.away && q_at(&t, 0) > 1 << 30 && shift_at(&t, 0) <= 0) {
        tmk_rb_set_int(e->b, "multiplier", q_at(&t, 0));
        tmk_rb_set_int(e->b, "shift", shift_at(&t, 0));
        x = tmk_rb_cast(e->b, x, TMK_INT64);
        x = tmk_re_1(e, "fixed_point_multiply", x);
    } else {
        x = emit_multiplied(e, &t, x, axis, shape->rank);
    }
    /* The codes' zero point, limits and type. */
    const struct tmk_tensor *zero = tmk_re_tensor(e, 4);
    double z;
    if (!zero || !tmk_re_number(e, 4, &z))
        return tmk_re_fail(e, "its zero points differ by channel, or are computed");
    if (!tmk_rl_is_code(zero->dtype))
        return tmk_re_fail(e, "only codes of 8, 16 and 32 bits can be written");
    if (z != 0)
        x = tmk_re_2(e, "add", x, int64_scalar(e, (int64_t)z));
    if (zero->dtype == TMK_INT32) { /* a float, as clip has it, does not end where int32 does */
        x = tmk_re_2(e, "maximum", x, int64_scalar(e, tmk_node_int(e->node, "lowest", INT32_MIN)));
        x = tmk_re_2(e, "minimum", x, int64_scalar(e, tmk_node_int(e->node, "highest", INT32_MAX)));
        return tmk_rb_cast(e->b, x, TMK_INT32);
    }
    double lowest = 0, highest = 0;
    tmk_rl_limits(zero->dtype, &lowest, &highest);
    x = tmk_re_clip(e, x, (double)tmk_node_int(e->node, "lowest", (int64_t)lowest),
                    (double)tmk_node_int(e->node, "highest", (int64_t)highest));
    return tmk_rb_cast(e->b, x, zero->dtype);
}

#define WRITE_CODES(onnx, emit, read)                                                              \
    { "", 0, 0, 0, "", onnx, NULL, emit, read }

const struct tmk_relay_op tmk_relay_ops_codes[] = {
    WRITE_CODES("QuantizeLinear", emit_quantize, 1u << 1 | 1u << 2),
    WRITE_CODES("DequantizeLinear", emit_dequantize, 1u << 1 | 1u << 2),
    WRITE_CODES("ConvInteger", emit_conv_integer, 1u << 2 | 1u << 3),
    WRITE_CODES("MatMulInteger", emit_matmul_integer, 1u << 2 | 1u << 3),
    WRITE_CODES("ai.tidemark::Requantize", emit_requantize, 0x3e),
    {0}};
