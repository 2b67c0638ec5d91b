/* SPDX-License-Identifier: Apache-2.0 */
/* ai.tidemark::Requantize: integers under one scale become codes under another, without a float in
 * between.
 *
 * y = clamp(multiply(x - x_zero_point) + zero_point, lowest, highest), where multiply is that of
 * tensor/fixed.h. Inputs: x; the multipliers and shifts, int32; the same as float32 numbers, by
 * which float_rne multiplies; zero_point, whose type is the result's; x_zero_point, of x's type
 * (absent: 0). Multipliers, shifts, numbers and zero_point have one element, or one an index of
 * `axis`.
 */
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/quantized.h"
#include "ops/rows.h"
#include "tensor/fixed.h"

enum { X, MULTIPLIER, SHIFT, REAL, ZERO, X_ZERO };
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
    const struct tmk_shape *shape = &in[X]->shape;
    const char *rounding = tmk_node_string(node, "rounding", "");
    struct terms t = {.outer = 1, .n = 1, .inner = tmk_tensor_count(in[X])};
    bool vary = false;
    int32_t axis = 0;
    if (!tmk_rounding_by_name(rounding, &t.rounding))
        return tmk_fail(diag, TMK_UNSUPPORTED, "there is no rounding '%s'", rounding);
    TMK_TRY(find_ends(node, in[ZERO]->dtype, &t, diag));
    for (int i = MULTIPLIER; i <= ZERO; i++)
        vary |= t.vary[i] = in[i]->shape.rank == 1 && tmk_tensor_count(in[i]) != 1;
    if (vary) {
        TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 1), shape->rank, &axis, diag));
        t.outer = tmk_shape_product(shape, 0, axis);
        t.n = (size_t)shape->dim[axis];
        t.inner = tmk_shape_product(shape, axis + 1, shape->rank);
    }
    for (int i = MULTIPLIER; i <= ZERO; i++)
        if (tmk_tensor_count(in[i]) != (t.vary[i] ? t.n : 1))
            return tmk_fail(diag, TMK_SHAPE,
                            "%s has %zu elements, and must have 1 or, along axis %d, %zu", what[i],
                            tmk_tensor_count(in[i]), axis, t.n);
    *out = t;
    return TMK_OK;
}

static enum tmk_status infer_requantize(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[X], *x_zero = tmk_infer_in(infer, X_ZERO);
    struct terms terms;
    int64_t lowest, highest;
    if (!ends_of(x->dtype, &lowest, &highest))
        return tmk_fail(infer->diag, TMK_TYPE, "input 0 is of type %s", tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_want_dtype(infer->in[MULTIPLIER], TMK_INT32, "the multiplier", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[SHIFT], TMK_INT32, "the shift", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[REAL], TMK_FLOAT32, "the real multiplier", infer->diag));
    TMK_TRY(tmk_want_scalar(x_zero, x->dtype, "x_zero_point", infer->diag));
    TMK_TRY(find_terms(infer->node, infer->in, &terms, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[ZERO]->dtype, &x->shape);
}

/* A multiplier and its shift are elements, which infer does not see. */
static enum tmk_status check_multipliers(const struct tmk_run *run) {
    const struct tmk_tensor *multiplier = run->in[MULTIPLIER], *shift = run->in[SHIFT];
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
    const int32_t q = ((const int32_t *)run->in[MULTIPLIER]->data)[t->vary[MULTIPLIER] ? k : 0],
                  shift = ((const int32_t *)run->in[SHIFT]->data)[t->vary[SHIFT] ? k : 0],
                  zero = tmk_quantized_at(run->in[ZERO], t->vary[ZERO] ? k : 0),
                  x_zero = tmk_quantized_at(tmk_run_in(run, X_ZERO), 0);
    const double real = ((const float *)run->in[REAL]->data)[t->vary[REAL] ? k : 0];
    int32_t block[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t step = n - i < BLOCK ? n - i : BLOCK;
        tmk_quantized_widen(run->in[X], first + i, step, x_zero, block);
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
    if (!tmk_run_out(run, 0) || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    TMK_TRY(find_terms(run->node, run->in, &t, run->diag));
    TMK_TRY(check_multipliers(run));
    for (size_t o = 0; o < t.outer; o++)
        for (size_t k = 0; k < t.n; k++)
            requantize_row(run, &t, k, (o * t.n + k) * t.inner, t.inner);
    return TMK_OK;
}

const struct tmk_op tmk_ops_requantize[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "Requantize", 1, INT32_MAX), TMK_OP_COUNTS(5, 6, 1, 1),
     .channel = TMK_CHANNEL_INHERIT, .attrs = "axis:int highest:int lowest:int rounding:string!",
     .infer = infer_requantize, .run = run_requantize},
    {NULL}};
