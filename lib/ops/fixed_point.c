/* SPDX-License-Identifier: Apache-2.0 */
/* ai.tidemark::FixedPointMultiply: x * multiplier * 2^(shift - 31), rounded, in x's own type, bit
 * for bit as TVM's fixed_point_multiply makes it on processors without an instruction of that name.
 *
 * Inputs: x, int32 or int64; multiplier and shift, int32, of one element, or of one an index of
 * `axis`. Everything is computed in 64 bits, wraps around there, and keeps the result's low bits.
 * A scalar multiplier of 2^30 is a power of two, and then the shift is done in x's own type, where
 * what is added to round may wrap: also TVM's.
 */
#include <string.h>

#include <tidemark/rounding.h>

#include "ops/kernel.h"
#include "ops/rows.h"

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
    if (!tmk_run_out(run, 0) || tmk_tensor_count(x) == 0)
        return TMK_OK;
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

const struct tmk_op tmk_ops_fixed_point[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "FixedPointMultiply", 1, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = "axis:int rounding:string",
     .infer = infer_fixed, .run = run_fixed},
    {NULL}};
