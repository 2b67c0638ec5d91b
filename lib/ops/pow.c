/* SPDX-License-Identifier: Apache-2.0 */
/* Pow: the base decides the type of the result, the exponent may be of any type. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/rows.h"
#include "ops/vmath.h"

/* Exponents other than float are widened to int64 first, so these loops do. Nearly every exponent
 * in a model is a constant 2, 3 or 1/2, which need no powf. */
TMK_ROW2(pow_row, float, float, float, powf(x, y))
static void pow_float_float(size_t n, const void *a, bool vary_a, const void *b, bool vary_b,
                            void *out) {
    const float *x = a;
    float *r = out;
    float y = n && vary_a && !vary_b ? *(const float *)b : 0;
    if (y == 2) {
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] * x[i];
    } else if (y == 3) {
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] * x[i] * x[i];
    } else if (y == 0.5f) {
        /* unlike the square root, the power is 0 of -0, and infinite of -infinity */
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] == -INFINITY ? INFINITY : x[i] + 0.0f;
        tmk_vsqrt(r, r, n);
    } else {
        pow_row(n, a, vary_a, b, vary_b, out);
    }
}
TMK_ROW2(pow_float_int, float, int64_t, float, (float)pow((double)x, (double)y))

/* x^y in the ring of 64-bit integers, whose low half is the ring of 32-bit ones. Negative exponents
 * truncate 1 / x^-y towards zero; a base of 0 has been refused. */
static inline int64_t int_pow(int64_t x, int64_t y) {
    uint64_t r = 1, base = (uint64_t)x;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (; y; y >>= 1) {
        if (y & 1)
            r *= base;
        base *= base;
    }
    return (int64_t)r;
}
TMK_ROW2(pow_int32_int, int32_t, int64_t, int32_t, (int32_t)(uint32_t)int_pow(x, y))
TMK_ROW2(pow_int64_int, int64_t, int64_t, int64_t, int_pow(x, y))

TMK_ROW2(pow_int32_float, int32_t, float, int32_t, tmk_to_int32(pow((double)x, (double)y)))
TMK_ROW2(pow_int64_float, int64_t, float, int64_t, tmk_to_int64(pow((double)x, (double)y)))

static tmk_row2 pow_loop(enum tmk_dtype base, bool float_exponent) {
    switch (base) {
    case TMK_FLOAT32:
        return float_exponent ? pow_float_float : pow_float_int;
    case TMK_INT32:
        return float_exponent ? pow_int32_float : pow_int32_int;
    case TMK_INT64:
        return float_exponent ? pow_int64_float : pow_int64_int;
    default:
        return NULL;
    }
}

#define WIDEN(op, dtype, T, U)                                                                     \
    case TMK_##dtype:                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (int64_t)((const T *)from->data)[i];                                           \
        break;
static void widen_integers(const struct tmk_tensor *from, size_t n, int64_t *to) {
    switch (from->dtype) {
        TMK_EACH_INTEGER(WIDEN, )
    default:
        break;
    }
}

/* A zero that meets a negative exponent; broadcasting makes asking for any of both too strict, so
 * only where they meet. */
static bool divides_by_zero(const struct tmk_tensor *base, const struct tmk_tensor *exponent,
                            const struct tmk_shape *shape_b, const struct tmk_shape *out) {
    struct tmk_walk walk;
    tmk_walk_init(&walk, out, 2, (const struct tmk_shape *const[]){&base->shape, shape_b});
    const int64_t *y = exponent->data;
    for (; walk.rows; tmk_walk_next(&walk))
        for (size_t i = 0; i < walk.n; i++) {
            size_t at = walk.offset[0] + (walk.vary[0] ? i : 0);
            bool zero = base->dtype == TMK_INT32 ? ((const int32_t *)base->data)[at] == 0
                                                 : ((const int64_t *)base->data)[at] == 0;
            if (zero && y[walk.offset[1] + (walk.vary[1] ? i : 0)] < 0)
                return true;
        }
    return false;
}

static enum tmk_status run_pow(struct tmk_run *run, const struct tmk_shape *shape_b) {
    const struct tmk_tensor *base = run->in[0], *exponent = run->in[1];
    struct tmk_tensor wide = *exponent, *out = tmk_run_out(run, 0);
    bool is_float = exponent->dtype == TMK_FLOAT32;
    if (!out)
        return TMK_OK;
    if (!is_float) {
        size_t n = tmk_tensor_count(exponent);
        wide.dtype = TMK_INT64;
        wide.data = tmk_scratch(run, n, sizeof(int64_t));
        if (!wide.data)
            return tmk_nomem(run->diag);
        widen_integers(exponent, n, wide.data);
        if (base->dtype != TMK_FLOAT32 && divides_by_zero(base, &wide, shape_b, &out->shape))
            return tmk_fail(run->diag, TMK_RANGE, "an integer zero meets a negative exponent");
    }
    tmk_walk2(pow_loop(base->dtype, is_float), base, &base->shape, &wide, shape_b, out);
    return TMK_OK;
}

static enum tmk_status want_types(const struct tmk_infer *infer) {
    const struct tmk_tensor *base = infer->in[0], *exponent = infer->in[1];
    if (!pow_loop(base->dtype, true))
        return tmk_fail(infer->diag, TMK_TYPE, "a base of type %s is not float32, int32 or int64",
                        tmk_dtype_name(base->dtype));
    if (exponent->dtype != TMK_FLOAT32 &&
        (!tmk_dtype_is_integer(exponent->dtype) || tmk_dtype_bits(exponent->dtype) < 8))
        return tmk_fail(infer->diag, TMK_TYPE, "an exponent of type %s is not a number's",
                        tmk_dtype_name(exponent->dtype));
    return TMK_OK;
}

static enum tmk_status infer_pow_1(struct tmk_infer *infer) {
    struct tmk_shape shape_b;
    TMK_TRY(want_types(infer));
    TMK_TRY(tmk_align_legacy(infer->node, &infer->in[0]->shape, &infer->in[1]->shape, &shape_b,
                             infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status run_pow_1(struct tmk_run *run) {
    struct tmk_shape shape_b;
    TMK_TRY(
        tmk_align_legacy(run->node, &run->in[0]->shape, &run->in[1]->shape, &shape_b, run->diag));
    return run_pow(run, &shape_b);
}

static enum tmk_status infer_pow_7(struct tmk_infer *infer) {
    struct tmk_shape shape;
    TMK_TRY(want_types(infer));
    TMK_TRY(tmk_broadcast(&infer->in[0]->shape, &infer->in[1]->shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status run_pow_7(struct tmk_run *run) {
    return run_pow(run, &run->in[1]->shape);
}

const struct tmk_op tmk_ops_pow[] = {
    {TMK_BINARY_ROW("Pow", 1, 6), .attrs = tmk_attrs_legacy, .infer = infer_pow_1,
     .run = run_pow_1},
    {TMK_BINARY_ROW("Pow", 7, INT32_MAX), .infer = infer_pow_7, .run = run_pow_7},
    {NULL}};
