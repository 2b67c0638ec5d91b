/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of ai.tidemark for integers in fixed point. */
#include <math.h>

#include <tidemark/rounding.h>

#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/quantized.h"
#include "ops/unary.h"
#include "tensor/fixed.h"

/* ai.tidemark::FixedPointMultiply: x * multiplier * 2^(shift - 31), rounded, in x's own type, bit
 * for bit as TVM's fixed_point_multiply makes it on processors without an instruction of that name.
 *
 * Inputs: x, int32 or int64; multiplier and shift, int32, of one element, or of one an index of
 * `axis`. Everything is computed in 64 bits, wraps around there, and keeps the result's low bits.
 * A scalar multiplier of 2^30 is a power of two, and then the shift is done in x's own type, where
 * what is added to round may wrap: also TVM's. */

enum { X, MULTIPLIER, SHIFT };
enum { POWER_OF_TWO = 1 << 30, MAX_SHIFT = 31 };

struct layout {
    size_t outer, n, inner; /* x as [outer, n, inner]; terms differ along n */
    bool nearest;           /* ties away from zero, else up */
};

static enum tmk_status find_layout(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                   struct layout *out, struct tmk_diag *diag) {
    enum tmk_rounding rounding;
    const char *name = tmk_node_string(node, "rounding", "single_half_up");
    const struct tmk_shape *shape = &in[X]->shape;
    struct layout l = {.outer = 1, .n = 1, .inner = tmk_tensor_count(in[X])};
    int32_t axis = 0;
    if (!tmk_rounding_by_name(name, &rounding) ||
        (rounding != TMK_ROUNDING_SINGLE_HALF_UP && rounding != TMK_ROUNDING_SINGLE_HALF_AWAY))
        return tmk_fail(diag, TMK_UNSUPPORTED, "rounding '%s'", name);
    l.nearest = rounding == TMK_ROUNDING_SINGLE_HALF_AWAY;
    if (tmk_tensor_count(in[MULTIPLIER]) != 1 || tmk_tensor_count(in[SHIFT]) != 1) {
        TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 1), shape->rank, &axis, diag));
        l.outer = tmk_shape_product(shape, 0, axis);
        l.n = (size_t)shape->dim[axis];
        l.inner = tmk_shape_product(shape, axis + 1, shape->rank);
    }
    for (int i = MULTIPLIER; i <= SHIFT; i++)
        if (tmk_tensor_count(in[i]) != l.n)
            return tmk_fail(diag, TMK_SHAPE, "input %d has %zu elements; wanted %zu", i,
                            tmk_tensor_count(in[i]), l.n);
    *out = l;
    return TMK_OK;
}

static enum tmk_status infer_fixed(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[X];
    struct layout layout;
    if (x->dtype != TMK_INT32 && x->dtype != TMK_INT64)
        return tmk_fail(infer->diag, TMK_TYPE, "input 0 is of type %s, not int32 or int64",
                        tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_want_dtype(infer->in[MULTIPLIER], TMK_INT32, "the multiplier", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[SHIFT], TMK_INT32, "the shift", infer->diag));
    TMK_TRY(find_layout(infer->node, infer->in, &layout, infer->diag));
    return tmk_infer_set(infer, 0, x->dtype, &x->shape);
}

/* Towards minus infinity, for any sign. */
static inline int64_t shifted_right(int64_t v, int32_t by) {
    return v < 0 ? ~(~v >> by) : v >> by;
}

static inline int64_t wrap_integer(enum tmk_dtype dtype, uint64_t v) {
    return dtype == TMK_INT32 ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v;
}

static inline int64_t times_power(enum tmk_dtype dtype, int64_t x, int32_t exponent) {
    if (exponent >= 0)
        return wrap_integer(dtype, (uint64_t)x << exponent);
    int64_t sum = wrap_integer(dtype, (uint64_t)x + (UINT64_C(1) << (-exponent - 1)));
    return shifted_right(sum, -exponent);
}

static inline int64_t multiply_shift(int64_t x, int32_t multiplier, int32_t shift, bool nearest) {
    int32_t left = shift > 0 ? shift : 0, right = 31 + (shift < 0 ? -shift : 0);
    uint64_t product = ((uint64_t)x << left) * (uint64_t)(int64_t)multiplier;
    uint64_t half = UINT64_C(1) << (right - 1);
    if (nearest && (int64_t)product < 0)
        half--;
    return shifted_right((int64_t)(product + half), right);
}

static void run_row(const struct tmk_tensor *x, struct tmk_tensor *y, size_t first, size_t n,
                    int32_t multiplier, int32_t shift, bool nearest, bool power) {
    enum tmk_dtype dtype = x->dtype;
    for (size_t i = first; i < first + n; i++) {
        int64_t v =
            dtype == TMK_INT32 ? ((const int32_t *)x->data)[i] : ((const int64_t *)x->data)[i];
        int64_t r = power ? times_power(dtype, v, shift - 1)
                          : multiply_shift(v, multiplier, shift, nearest);
        if (dtype == TMK_INT32)
            ((int32_t *)y->data)[i] = (int32_t)(uint32_t)(uint64_t)r;
        else
            ((int64_t *)y->data)[i] = r;
    }
}

static enum tmk_status run_fixed(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[X];
    struct layout l;
    TMK_TRY(find_layout(run->node, run->in, &l, run->diag));
    const int32_t *multiplier = run->in[MULTIPLIER]->data, *shift = run->in[SHIFT]->data;
    for (size_t k = 0; k < l.n; k++)
        if (shift[k] < -MAX_SHIFT || shift[k] > MAX_SHIFT)
            return tmk_fail(run->diag, TMK_RANGE, "shift %d is not between -%d and %d", shift[k],
                            MAX_SHIFT, MAX_SHIFT);
    bool scalar = run->in[MULTIPLIER]->shape.rank == 0;
    for (size_t o = 0; o < l.outer; o++)
        for (size_t k = 0; k < l.n; k++)
            run_row(x, run->out[0], (o * l.n + k) * l.inner, l.inner, multiplier[k], shift[k],
                    l.nearest, scalar && !l.nearest && multiplier[k] == POWER_OF_TWO);
    return TMK_OK;
}

/* ai.tidemark::Requantize: integers under one scale become codes under another, without a float in
 * between.
 *
 * y = clamp(multiply(x - x_zero_point) + zero_point, lowest, highest), where multiply is that of
 * tensor/fixed.h. Inputs: x; the multipliers and shifts, int32; the same as float32 numbers, by
 * which float_rne multiplies; zero_point, whose type is the result's; x_zero_point, of x's type
 * (absent: 0). Multipliers, shifts, numbers and zero_point have one element, or one an index of
 * `axis`. */

enum { REQUANTIZE_X, REQUANTIZE_MULTIPLIER, REQUANTIZE_SHIFT, REAL, ZERO, X_ZERO };
enum { BLOCK = 256 }; /* elements at a time */

struct terms {
    size_t outer, n, inner; /* x as [outer, n, inner]: terms differ along n */
    bool vary[ZERO + 1];    /* that input has one an index of the axis */
    enum tmk_rounding rounding;
    int64_t lowest, highest;
};

static bool ends_of(enum tmk_dtype dtype, int64_t *lowest, int64_t *highest) {
    static const struct {
        int64_t lowest, highest;
    } ends[TMK_DTYPES] = {
        [TMK_INT4] = {-8, 7},
        [TMK_UINT4] = {0, 15},
        [TMK_INT8] = {-128, 127},
        [TMK_UINT8] = {0, 255},
        [TMK_INT16] = {-32768, 32767},
        [TMK_UINT16] = {0, 65535},
        [TMK_INT32] = {INT32_MIN, INT32_MAX},
    };
    if ((unsigned)dtype >= TMK_DTYPES || !ends[dtype].highest)
        return false;
    *lowest = ends[dtype].lowest;
    *highest = ends[dtype].highest;
    return true;
}

static enum tmk_status find_ends(const struct tmk_node *node, enum tmk_dtype dtype,
                                 struct terms *terms, struct tmk_diag *diag) {
    int64_t lowest, highest;
    if (!ends_of(dtype, &lowest, &highest))
        return tmk_fail(diag, TMK_TYPE, "input 4, the zero point, is of type %s",
                        tmk_dtype_name(dtype));
    terms->lowest = tmk_node_int(node, "lowest", lowest);
    terms->highest = tmk_node_int(node, "highest", highest);
    if (terms->lowest < lowest || terms->highest > highest || terms->lowest > terms->highest)
        return tmk_fail(diag, TMK_RANGE, "codes from %lld to %lld are no range of %s",
                        (long long)terms->lowest, (long long)terms->highest, tmk_dtype_name(dtype));
    return TMK_OK;
}

static enum tmk_status find_terms(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  struct terms *out, struct tmk_diag *diag) {
    static const char *const what[] = {"x", "the multiplier", "the shift", "the real multiplier",
                                       "the zero point"};
    const struct tmk_shape *shape = &in[REQUANTIZE_X]->shape;
    const char *rounding = tmk_node_string(node, "rounding", "");
    struct terms t = {.outer = 1, .n = 1, .inner = tmk_tensor_count(in[REQUANTIZE_X])};
    bool vary = false;
    int32_t axis = 0;
    if (!tmk_rounding_by_name(rounding, &t.rounding))
        return tmk_fail(diag, TMK_UNSUPPORTED, "there is no rounding '%s'", rounding);
    TMK_TRY(find_ends(node, in[ZERO]->dtype, &t, diag));
    for (int i = REQUANTIZE_MULTIPLIER; i <= ZERO; i++)
        vary |= t.vary[i] = in[i]->shape.rank == 1 && tmk_tensor_count(in[i]) != 1;
    if (vary) {
        TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 1), shape->rank, &axis, diag));
        t.outer = tmk_shape_product(shape, 0, axis);
        t.n = (size_t)shape->dim[axis];
        t.inner = tmk_shape_product(shape, axis + 1, shape->rank);
    }
    for (int i = REQUANTIZE_MULTIPLIER; i <= ZERO; i++)
        if (tmk_tensor_count(in[i]) != (t.vary[i] ? t.n : 1))
            return tmk_fail(diag, TMK_SHAPE,
                            "%s has %zu elements, and must have 1 or, along axis %d, %zu", what[i],
                            tmk_tensor_count(in[i]), axis, t.n);
    *out = t;
    return TMK_OK;
}

static enum tmk_status infer_requantize(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[REQUANTIZE_X], *x_zero = tmk_infer_in(infer, X_ZERO);
    struct terms terms;
    int64_t lowest, highest;
    if (!ends_of(x->dtype, &lowest, &highest))
        return tmk_fail(infer->diag, TMK_TYPE, "input 0 is of type %s", tmk_dtype_name(x->dtype));
    TMK_TRY(
        tmk_want_dtype(infer->in[REQUANTIZE_MULTIPLIER], TMK_INT32, "the multiplier", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[REQUANTIZE_SHIFT], TMK_INT32, "the shift", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[REAL], TMK_FLOAT32, "the real multiplier", infer->diag));
    TMK_TRY(tmk_want_scalar(x_zero, x->dtype, "x_zero_point", infer->diag));
    TMK_TRY(find_terms(infer->node, infer->in, &terms, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[ZERO]->dtype, &x->shape);
}

/* A multiplier and its shift are elements, which infer does not see. */
static enum tmk_status check_multipliers(const struct tmk_run *run) {
    const struct tmk_tensor *multiplier = run->in[REQUANTIZE_MULTIPLIER],
                            *shift = run->in[REQUANTIZE_SHIFT];
    for (size_t i = 0; i < tmk_tensor_count(multiplier); i++)
        if (((const int32_t *)multiplier->data)[i] < 0)
            return tmk_fail(run->diag, TMK_RANGE, "multiplier %d is below 0",
                            ((const int32_t *)multiplier->data)[i]);
    for (size_t i = 0; i < tmk_tensor_count(shift); i++) {
        const int32_t s = ((const int32_t *)shift->data)[i];
        if (s < -31 || s > 30)
            return tmk_fail(run->diag, TMK_RANGE, "shift %d is not between -31 and 30", s);
    }
    return TMK_OK;
}

static void requantize_row(const struct tmk_run *run, const struct terms *t, size_t k, size_t first,
                           size_t n) {
    const int32_t q = ((const int32_t *)run->in[REQUANTIZE_MULTIPLIER]
                           ->data)[t->vary[REQUANTIZE_MULTIPLIER] ? k : 0],
                  shift = ((const int32_t *)run->in[REQUANTIZE_SHIFT]
                               ->data)[t->vary[REQUANTIZE_SHIFT] ? k : 0],
                  zero = tmk_quantized_at(run->in[ZERO], t->vary[ZERO] ? k : 0),
                  x_zero = tmk_quantized_at(tmk_run_in(run, X_ZERO), 0);
    const double real = ((const float *)run->in[REAL]->data)[t->vary[REAL] ? k : 0];
    int32_t block[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t step = n - i < BLOCK ? n - i : BLOCK;
        tmk_quantized_widen(run->in[REQUANTIZE_X], first + i, step, x_zero, block);
        for (size_t j = 0; j < step; j++) {
            int64_t code =
                (int64_t)tmk_fixed_multiply(block[j], q, shift, real, t->rounding) + zero;
            code = code < t->lowest ? t->lowest : code;
            block[j] = (int32_t)(code > t->highest ? t->highest : code);
        }
        tmk_quantized_narrow(block, step, run->out[0], first + i);
    }
}

static enum tmk_status run_requantize(struct tmk_run *run) {
    struct terms t;
    TMK_TRY(find_terms(run->node, run->in, &t, run->diag));
    TMK_TRY(check_multipliers(run));
    for (size_t o = 0; o < t.outer; o++)
        for (size_t k = 0; k < t.n; k++)
            requantize_row(run, &t, k, (o * t.n + k) * t.inner, t.inner);
    return TMK_OK;
}

/* ai.tidemark::RoundAway: to the nearest integer, ties away from zero, as C's round; ONNX's Round
 * takes ties to even. */

TMK_ROW1(round_away_row, float, float, roundf(x))
static const struct tmk_unary round_away = {.row = {[TMK_FLOAT32] = round_away_row}};

const struct tmk_op tmk_ops_fixed_point[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "FixedPointMultiply", 1, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_INPLACE | TMK_OP_CHECKS, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "axis:int rounding:string", .infer = infer_fixed, .run = run_fixed},
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "Requantize", 1, INT32_MAX), TMK_OP_COUNTS(5, 6, 1, 1),
     .flags = TMK_OP_CHECKS, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "axis:int highest:int lowest:int rounding:string!", .infer = infer_requantize,
     .run = run_requantize},
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "RoundAway", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .table = &round_away,
     .infer = tmk_infer_unary, .run = tmk_run_unary},
    {NULL}};
