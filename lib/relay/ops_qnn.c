/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's quantized operators, exactly as TVM computes them: ONNX's own quantization rounds ties to
 * even and would differ, so it is used where nothing is rounded. */
#include <math.h>
#include <string.h>

#include "relay/convolve.h"
#include "tensor/fixed.h"

/* Cuts to the codes of a type, and makes them. */
static struct tmk_value *to_codes(struct tmk_relay_call *call, struct tmk_value *v,
                                  enum tmk_dtype dtype) {
    double low = 0, high = 0;
    if (!tmk_rl_is_code(dtype) || !tmk_rl_limits(dtype, &low, &high))
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "codes of type %s", tmk_dtype_name(dtype));
    if (dtype != TMK_INT32)
        v = tmk_rl_clip(call, "clipped", v, low, high);
    return tmk_rl_cast(call, NULL, v, dtype);
}

/* A constant zero point in another type; NULL where it is 0. */
static struct tmk_value *zero_point(struct tmk_relay_call *call, const char *part, uint32_t i,
                                    enum tmk_dtype dtype) {
    struct tmk_value *given = tmk_rl_in(call, i);
    size_t n;
    const double *numbers = tmk_rl_numbers(call, given, "a zero point", &n);
    bool any = false;
    for (size_t k = 0; k < n; k++)
        any |= numbers[k] != 0;
    if (!any || !numbers)
        return NULL;
    if (given->type.dtype == dtype)
        return given;
    return tmk_rl_array(call, part, dtype, &given->type.shape, numbers);
}

/* ---- to codes and back ---- */

static int32_t channel_axis(struct tmk_relay_call *call, const struct tmk_value *x) {
    int32_t rank = tmk_rl_rank(call, x);
    return rank ? tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank) : 0;
}

/* clip(round(x / scale) + zero) */
static struct tmk_value *make_quantized(struct tmk_relay_call *call, struct tmk_value *x,
                                        struct tmk_value *scale, struct tmk_value *zero,
                                        int32_t axis, enum tmk_dtype dtype) {
    int32_t rank = tmk_rl_rank(call, x);
    scale = tmk_rl_along(call, "scale", scale, axis, rank);
    struct tmk_value *codes = tmk_rl_1(call, "rounded", "ai.tidemark::RoundAway",
                                       tmk_rl_2(call, "quotient", "Div", x, scale));
    if (zero)
        codes =
            tmk_rl_2(call, "shifted", "Add", codes, tmk_rl_along(call, "zero", zero, axis, rank));
    return to_codes(call, codes, dtype);
}

static struct tmk_value *lower_quantize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t axis = channel_axis(call, x);
    struct tmk_value *zero = zero_point(call, "zero_point", 2, TMK_FLOAT32);
    return make_quantized(call, x, tmk_rl_in(call, 1), zero, axis,
                          tmk_rl_dtype_attr(call, "out_dtype", TMK_INT8));
}

/* x - zero, in int32. zero NULL: 0. */
static struct tmk_value *make_shifted(struct tmk_relay_call *call, const char *prefix,
                                      struct tmk_value *x, struct tmk_value *zero, int32_t axis) {
    struct tmk_relay_lowering *l = call->to;
    const int32_t rank = tmk_rl_rank(call, x);
    x = tmk_rl_cast(call, tmk_rl_text(l, "%s_wide", prefix), x, TMK_INT32);
    if (!zero)
        return x;
    return tmk_rl_2(call, tmk_rl_text(l, "%s_centred", prefix), "Sub", x,
                    tmk_rl_along(call, tmk_rl_text(l, "%s_zero", prefix), zero, axis, rank));
}

/* (x - zero) * scale; of int32 the difference may wrap around, as TVM's. */
static struct tmk_value *make_dequantized(struct tmk_relay_call *call, const char *part,
                                          struct tmk_value *x, struct tmk_value *scale,
                                          struct tmk_value *zero, int32_t axis) {
    int32_t rank = tmk_rl_rank(call, x);
    struct tmk_relay_lowering *l = call->to;
    const char *prefix = part ? part : "codes";
    x = make_shifted(call, prefix, x, zero, axis);
    x = tmk_rl_cast(call, tmk_rl_text(l, "%s_real", prefix), x, TMK_FLOAT32);
    return tmk_rl_2(call, part, "Mul", x,
                    tmk_rl_along(call, tmk_rl_text(l, "%s_scale", prefix), scale, axis, rank));
}

static struct tmk_value *lower_dequantize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    return make_dequantized(call, NULL, x, tmk_rl_in(call, 1),
                            zero_point(call, "zero_point", 2, TMK_INT32), channel_axis(call, x));
}

/* ---- from one scale to another ---- */

struct scales {
    const double *values;
    size_t n;
};

static struct scales scales_of(struct tmk_relay_call *call, uint32_t i) {
    struct scales s = {0};
    s.values = tmk_rl_numbers(call, tmk_rl_in(call, i), "a scale", &s.n);
    for (size_t k = 0; k < s.n; k++)
        if (!(s.values[k] > 0) || !isfinite(s.values[k]))
            tmk_rl_fail(call, TMK_RANGE, "a scale of %g", s.values[k]);
    if (call->status == TMK_OK && s.n == 0)
        tmk_rl_fail(call, TMK_SHAPE, "no scale");
    return call->status == TMK_OK ? s : (struct scales){0};
}

/* x times from / to, in fixed point. */
static struct tmk_value *make_rescaled(struct tmk_relay_call *call, const char *part,
                                       struct tmk_value *x, struct scales from, double to,
                                       int32_t axis, const char *rounding) {
    struct tmk_relay_lowering *l = call->to;
    double *multipliers = tmk_arena_array(&l->scratch, from.n + 1, sizeof *multipliers);
    double *shifts = tmk_arena_array(&l->scratch, from.n + 1, sizeof *shifts);
    bool equal = true;
    if (call->status != TMK_OK)
        return NULL;
    if (!multipliers || !shifts)
        return tmk_rl_nomem(call);
    for (size_t i = 0; i < from.n; i++) {
        int32_t multiplier, shift;
        call->status = tmk_fixed_from_real(from.values[i] / to, &multiplier, &shift, l->diag);
        if (call->status != TMK_OK)
            return NULL;
        multipliers[i] = multiplier;
        shifts[i] = shift;
        equal &= from.values[i] == to;
    }
    if (equal)
        return x;
    struct tmk_shape shape = {.rank = from.n > 1, .dim = {(int64_t)from.n}};
    struct tmk_value *in[] = {
        x,
        tmk_rl_array(call, tmk_rl_text(l, "%s_multiplier", part), TMK_INT32, &shape, multipliers),
        tmk_rl_array(call, tmk_rl_text(l, "%s_shift", part), TMK_INT32, &shape, shifts)};
    tmk_rl_set_int(call, "axis", axis);
    tmk_rl_set_text(call, "rounding", rounding);
    return tmk_rl_n(call, part, "ai.tidemark::FixedPointMultiply", in, 3);
}

/* int32 in, int32 out: (x - zero_in) * from / to + zero_out. */
static struct tmk_value *make_requantized(struct tmk_relay_call *call, const char *part,
                                          struct tmk_value *x, struct scales from,
                                          struct tmk_value *zero_in, double to,
                                          struct tmk_value *zero_out, int32_t axis,
                                          const char *rounding) {
    struct tmk_relay_lowering *l = call->to;
    x = make_shifted(call, part, x, zero_in, axis);
    x = make_rescaled(call, tmk_rl_text(l, "%s_scaled", part), x, from, to, axis, rounding);
    if (zero_out)
        x = tmk_rl_2(call, tmk_rl_text(l, "%s_shifted", part), "Add", x, zero_out);
    return x;
}

static struct tmk_value *lower_requantize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const char *rounding = tmk_rl_string(call, "rounding");
    const char *compute = tmk_rl_string(call, "compute_dtype");
    struct scales from = scales_of(call, 1), to = scales_of(call, 3);
    int32_t axis = channel_axis(call, x);
    if (strcmp(compute, "None") != 0 && strncmp(compute, "int", 3) != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "compute_dtype '%s'", compute);
    if (to.n != 1)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu scales of the result", to.n);
    struct tmk_value *zero_out = zero_point(call, "zero_out", 4, TMK_INT32);
    struct tmk_value *codes = make_requantized(
        call, "codes", x, from, zero_point(call, "zero_in", 2, TMK_INT32), to.values[0], zero_out,
        axis, strcmp(rounding, "TONEAREST") == 0 ? "single_half_away" : "single_half_up");
    return to_codes(call, codes, tmk_rl_dtype_attr(call, "out_dtype", TMK_INT8));
}

/* ---- products: exact in int32 ---- */

static struct tmk_value *lower_conv2d(struct tmk_relay_call *call) {
    struct tmk_value *x_zero =
        zero_point(call, "input_zero", 2, tmk_rl_type_of(call, tmk_rl_in(call, 0)));
    struct tmk_value *w_zero =
        zero_point(call, "weight_zero", 3, tmk_rl_type_of(call, tmk_rl_in(call, 1)));
    return tmk_rl_convolve(call, x_zero, w_zero);
}

static struct tmk_value *lower_qnn_dense(struct tmk_relay_call *call) {
    static const int64_t turned[] = {1, 0};
    struct tmk_value *x = tmk_rl_in(call, 0), *w = tmk_rl_in(call, 1);
    struct tmk_value *in[] = {x, NULL, zero_point(call, "input_zero", 2, tmk_rl_type_of(call, x)),
                              zero_point(call, "weight_zero", 3, tmk_rl_type_of(call, w))};
    in[1] = tmk_rl_transpose(call, "weight", w, turned, 2);
    return tmk_rl_n(call, NULL, "MatMulInteger", in, in[3] ? 4 : in[2] ? 3 : 2);
}

/* ---- arithmetic on codes of different scales ---- */

static bool one_scale(struct tmk_relay_call *call, const struct scales *s) {
    if (call->status == TMK_OK && s->n != 1)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu scales of an operand", s->n);
    return call->status == TMK_OK;
}

static struct tmk_value *lower_add_or_subtract(struct tmk_relay_call *call) {
    bool adds = strcmp(call->op->name, "qnn.add") == 0;
    struct scales left = scales_of(call, 2), right = scales_of(call, 4), to = scales_of(call, 6);
    enum tmk_dtype dtype = tmk_rl_type_of(call, tmk_rl_in(call, 0));
    if (!one_scale(call, &left) || !one_scale(call, &right) || !one_scale(call, &to))
        return NULL;
    struct tmk_value *zero = zero_point(call, "zero_out", 7, TMK_INT32);
    struct tmk_value *a = make_requantized(call, "left", tmk_rl_in(call, 0), left,
                                           zero_point(call, "left_zero", 3, TMK_INT32),
                                           to.values[0], zero, 0, "single_half_up");
    struct tmk_value *b = make_requantized(call, "right", tmk_rl_in(call, 1), right,
                                           zero_point(call, "right_zero", 5, TMK_INT32),
                                           to.values[0], zero, 0, "single_half_up");
    struct tmk_value *sum = tmk_rl_2(call, "sum", adds ? "Add" : "Sub", a, b);
    if (zero)
        sum = tmk_rl_2(call, "recentred", adds ? "Sub" : "Add", sum, zero);
    return to_codes(call, sum, dtype);
}

static struct tmk_value *make_centred(struct tmk_relay_call *call, const char *part,
                                      uint32_t operand, uint32_t zero_at) {
    struct tmk_relay_lowering *l = call->to;
    struct tmk_value *zero = zero_point(call, tmk_rl_text(l, "%s_zero", part), zero_at, TMK_INT32);
    struct tmk_value *wide =
        tmk_rl_cast(call, tmk_rl_text(l, "%s_wide", part), tmk_rl_in(call, operand), TMK_INT32);
    return zero ? tmk_rl_2(call, part, "Sub", wide, zero) : wide;
}

static struct tmk_value *lower_multiply(struct tmk_relay_call *call) {
    struct scales left = scales_of(call, 2), right = scales_of(call, 4), to = scales_of(call, 6);
    enum tmk_dtype dtype = tmk_rl_type_of(call, tmk_rl_in(call, 0));
    if (!one_scale(call, &left) || !one_scale(call, &right) || !one_scale(call, &to))
        return NULL;
    double both = (double)((float)left.values[0] * (float)right.values[0]);
    struct tmk_value *other = make_centred(call, "right", 1, 5);
    struct tmk_value *product =
        tmk_rl_2(call, "product", "Mul", make_centred(call, "left", 0, 3), other);
    product =
        make_requantized(call, "codes", product, (struct scales){&both, 1}, NULL, to.values[0],
                         zero_point(call, "zero_out", 7, TMK_INT32), 0, "single_half_up");
    return to_codes(call, product, dtype);
}

/* Operands: a tuple of codes, one of scales, one of zero points, the result's scale and zero. */
static struct tmk_value *lower_qnn_concatenate(struct tmk_relay_call *call) {
    uint32_t n, n_scales, n_zeros;
    struct tmk_value **parts = tmk_rl_parts(call, 0, &n);
    struct tmk_value **scales = tmk_rl_parts(call, 1, &n_scales);
    struct tmk_value **zeros = tmk_rl_parts(call, 2, &n_zeros);
    struct scales to = scales_of(call, 3);
    if (call->status != TMK_OK || n == 0 || n_scales != n || n_zeros != n || !one_scale(call, &to))
        return tmk_rl_fail(call, TMK_GRAPH, "%u parts, %u scales, %u zero points", n, n_scales,
                           n_zeros);
    enum tmk_dtype dtype = tmk_rl_type_of(call, parts[0]);
    struct tmk_value *zero_out = zero_point(call, "zero_out", 4, TMK_INT32);
    for (uint32_t i = 0; i < n; i++) {
        size_t n_zero;
        struct scales from = {0};
        from.values = tmk_rl_numbers(call, scales[i], "a scale", &from.n);
        const double *zero = tmk_rl_numbers(call, zeros[i], "a zero point", &n_zero);
        if (!one_scale(call, &from) || n_zero != 1)
            return tmk_rl_fail(call, TMK_UNSUPPORTED, "zero points by channel");
        parts[i] = make_requantized(call, tmk_rl_text(call->to, "part%u", i), parts[i], from,
                                    zero[0] != 0 ? zeros[i] : NULL, to.values[0], zero_out, 0,
                                    "single_half_up");
    }
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return to_codes(call, tmk_rl_n(call, "joined", "Concat", parts, n), dtype);
}

/* Through the reals: TVM does these by a table that it fills so. */
static struct tmk_value *lower_through_reals(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    enum tmk_dtype dtype = tmk_rl_type_of(call, x);
    struct tmk_value *real = make_dequantized(call, "real", x, tmk_rl_in(call, 1),
                                              zero_point(call, "zero_in", 2, TMK_INT32), 0);
    struct tmk_value *y =
        strcmp(call->op->name, "qnn.rsqrt") == 0
            ? tmk_rl_1(call, "result", "Reciprocal", tmk_rl_1(call, "sqrt", "Sqrt", real))
            : tmk_rl_1(call, "result", call->op->onnx, real);
    return make_quantized(call, y, tmk_rl_in(call, 3),
                          zero_point(call, "zero_real", 4, TMK_FLOAT32), 0, dtype);
}

/* ---- fixed point ---- */

static struct tmk_value *lower_fixed_point_multiply(struct tmk_relay_call *call) {
    struct tmk_value *in[] = {
        tmk_rl_in(call, 0),
        tmk_rl_scalar(call, "multiplier", TMK_INT32, (double)tmk_rl_int(call, "multiplier")),
        tmk_rl_scalar(call, "shift", TMK_INT32, (double)tmk_rl_int(call, "shift"))};
    return tmk_rl_n(call, NULL, "ai.tidemark::FixedPointMultiply", in, 3);
}

/* Operands: x, multipliers, left shifts, right shifts; of each channel one of the shifts is 0. */
static struct tmk_value *lower_per_axis(struct tmk_relay_call *call) {
    size_t n, n_left, n_right;
    const int64_t *axes = tmk_rl_ints(call, "axes", &n);
    struct tmk_value *x = tmk_rl_in(call, 0), *multiplier = tmk_rl_in(call, 1);
    const double *left = tmk_rl_numbers(call, tmk_rl_in(call, 2), "the left shift", &n_left);
    const double *right = tmk_rl_numbers(call, tmk_rl_in(call, 3), "the right shift", &n_right);
    if (call->status != TMK_OK || n != 1 || n_left != n_right || n_left == 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu axes, %zu and %zu shifts", n, n_left,
                           n_right);
    double *shift = tmk_arena_array(&call->to->scratch, n_left, sizeof *shift);
    if (!shift)
        return tmk_rl_nomem(call);
    for (size_t i = 0; i < n_left; i++) {
        if (left[i] != 0 && right[i] != 0)
            return tmk_rl_fail(call, TMK_UNSUPPORTED,
                               "shifts to the left and to the right at once");
        shift[i] = left[i] - right[i];
    }
    struct tmk_value *in[] = {
        x, multiplier,
        tmk_rl_array(call, "shift", TMK_INT32, &tmk_rl_in(call, 2)->type.shape, shift)};
    tmk_rl_set_int(call, "axis", tmk_rl_axis(call, axes[0], tmk_rl_rank(call, x)));
    return tmk_rl_n(call, NULL, "ai.tidemark::FixedPointMultiply", in, 3);
}

/* What relay.quantize runs before it has integers; kind 0 changes nothing. */
static struct tmk_value *lower_simulated_quantize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0), *scale = tmk_rl_in(call, 1);
    const char *rounding = tmk_rl_string(call, "rounding");
    if (tmk_rl_int(call, "kind") == 0)
        return tmk_rl_1(call, NULL, "Identity", x);
    const char *op = strcmp(rounding, "round") == 0   ? "ai.tidemark::RoundAway"
                     : strcmp(rounding, "floor") == 0 ? "Floor"
                     : strcmp(rounding, "ceil") == 0  ? "Ceil"
                                                      : NULL;
    if (!op)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "rounding '%s'", rounding);
    struct tmk_value *codes =
        tmk_rl_1(call, "rounded", op, tmk_rl_2(call, "quotient", "Div", x, scale));
    codes = tmk_rl_3(call, "codes", "Clip", codes, tmk_rl_in(call, 2), tmk_rl_in(call, 3));
    return tmk_rl_2(call, NULL, "Mul", codes, scale);
}

#define THROUGH_REALS(relay, onnx)                                                                 \
    { relay, 5, 5, 0, "", onnx, lower_through_reals }
static const char rescales[] = "ai.tidemark::FixedPointMultiply, Clip, Cast";
static const char sums[] = "ai.tidemark::FixedPointMultiply of both, Add or Sub, Clip, Cast";

const struct tmk_relay_op tmk_relay_ops_qnn[] = {
    {"fixed_point_multiply", 1, 1, TMK_RELAY_BROADCASTS, "multiplier:int; shift:int",
     "ai.tidemark::FixedPointMultiply", lower_fixed_point_multiply},
    {"fixed_point_multiply_per_axis", 4, 4, 0,
     "is_lshift_required=False; is_rshift_required=False; axes", "ai.tidemark::FixedPointMultiply",
     lower_per_axis},
    {"qnn.add", 8, 8, 0, "lhs_axis=-1; rhs_axis=-1", sums, lower_add_or_subtract},
    {"qnn.concatenate", 5, 5, TMK_RELAY_TAKES_TUPLE, "axis=0",
     "ai.tidemark::FixedPointMultiply of each, Concat, Clip, Cast", lower_qnn_concatenate},
    {"qnn.conv2d", 6, 6, 0, tmk_rl_conv2d_attrs, "ConvInteger", lower_conv2d},
    {"qnn.dense", 6, 6, 0, "units=None; out_dtype='int32'", "Transpose, MatMulInteger",
     lower_qnn_dense},
    {"qnn.dequantize", 3, 3, 0, "out_dtype='float32'; axis=-1", "Cast, Sub, Cast, Mul",
     lower_dequantize},
    THROUGH_REALS("qnn.erf", "Erf"),
    THROUGH_REALS("qnn.exp", "Exp"),
    {"qnn.mul", 8, 8, 0, "lhs_axis=-1; rhs_axis=-1",
     "Mul, ai.tidemark::FixedPointMultiply, Clip, Cast", lower_multiply},
    {"qnn.quantize", 3, 3, 0, "out_dtype; axis=-1", "Div, ai.tidemark::RoundAway, Add, Clip, Cast",
     lower_quantize},
    {"qnn.requantize", 5, 5, 0,
     "axis=-1; rounding='UPWARD'; compute_dtype='int64'; out_dtype='int8'", rescales,
     lower_requantize},
    THROUGH_REALS("qnn.rsqrt", "Sqrt, Reciprocal"),
    THROUGH_REALS("qnn.sigmoid", "Sigmoid"),
    THROUGH_REALS("qnn.sqrt", "Sqrt"),
    {"qnn.subtract", 8, 8, 0, "lhs_axis=-1; rhs_axis=-1", sums, lower_add_or_subtract},
    THROUGH_REALS("qnn.tanh", "Tanh"),
    {"relay.op.annotation.simulated_quantize", 4, 4, 0, "kind:int; sign=True; rounding='round'",
     "Div, ai.tidemark::RoundAway, Clip, Mul", lower_simulated_quantize},
    {0}};
