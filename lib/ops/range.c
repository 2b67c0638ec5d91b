/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/move.h"
#include "ops/rows.h"

/* How many numbers there are from start to limit: ceil((limit - start) / delta), at least 0. */
static enum tmk_status count_float(float start, float limit, float delta, int64_t *n,
                                   struct tmk_diag *diag) {
    double steps = ceil(((double)limit - (double)start) / (double)delta);
    if (delta == 0.0f || isnan(steps) || steps > 0x1p53)
        return tmk_fail(diag, TMK_RANGE, "a range from %g to %g by %g has no end", (double)start,
                        (double)limit, (double)delta);
    *n = steps > 0 ? (int64_t)steps : 0;
    return TMK_OK;
}

static enum tmk_status count_integer(int64_t start, int64_t limit, int64_t delta, int64_t *n,
                                     struct tmk_diag *diag) {
    if (delta == 0)
        return tmk_fail(diag, TMK_RANGE, "a range from %lld to %lld by 0 has no end",
                        (long long)start, (long long)limit);
    uint64_t way = 0, step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (delta > 0 && limit > start)
        way = (uint64_t)limit - (uint64_t)start;
    else if (delta < 0 && limit < start)
        way = (uint64_t)start - (uint64_t)limit;
    uint64_t steps = way ? (way - 1) / step + 1 : 0;
    if (steps > INT64_MAX)
        return tmk_fail(diag, TMK_RANGE, "a range from %lld to %lld is too long", (long long)start,
                        (long long)limit);
    *n = (int64_t)steps;
    return TMK_OK;
}

static int64_t integer_scalar(const struct tmk_tensor *scalar) {
    return scalar->dtype == TMK_INT16 ? *(const int16_t *)scalar->data : tmk_index_at(scalar, 0);
}

static enum tmk_status count_elements(const struct tmk_tensor *const *in, int64_t *n,
                                      struct tmk_diag *diag) {
    if (in[0]->dtype != TMK_FLOAT32)
        return count_integer(integer_scalar(in[0]), integer_scalar(in[1]), integer_scalar(in[2]), n,
                             diag);
    return count_float(*(const float *)in[0]->data, *(const float *)in[1]->data,
                       *(const float *)in[2]->data, n, diag);
}

static enum tmk_status range_infer(struct tmk_infer *infer) {
    static const char *const what[] = {"the start", "the limit", "the step"};
    enum tmk_dtype dtype = infer->in[0]->dtype;
    bool known = true;
    if (dtype != TMK_FLOAT32 && dtype != TMK_INT16 && dtype != TMK_INT32 && dtype != TMK_INT64)
        return tmk_fail(infer->diag, TMK_TYPE, "a range of %s is not possible",
                        tmk_dtype_name(dtype));
    for (uint32_t i = 0; i < 3; i++) {
        TMK_TRY(tmk_want_dtype(infer->in[i], dtype, what[i], infer->diag));
        if (tmk_tensor_count(infer->in[i]) != 1)
            return tmk_fail(infer->diag, TMK_SHAPE, "%s must be one number", what[i]);
        known &= infer->in[i]->data != NULL;
    }
    if (!known)
        return TMK_OK;
    struct tmk_shape shape = {.rank = 1};
    TMK_TRY(count_elements(infer->in, &shape.dim[0], infer->diag));
    return tmk_infer_set(infer, 0, dtype, &shape);
}

#define WRITE_RANGE(op, dtype, T, U)                                                               \
    case TMK_##dtype: {                                                                            \
        T *to = out->data;                                                                         \
        U start = (U) * (const T *)run->in[0]->data, delta = (U) * (const T *)run->in[2]->data;    \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (T)(start + (U)i * delta);                                                     \
        break;                                                                                     \
    }

static enum tmk_status range_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    size_t n = out ? tmk_tensor_count(out) : 0;
    if (n == 0)
        return TMK_OK;
    switch (out->dtype) {
        TMK_EACH_FLOAT(WRITE_RANGE, _)
        TMK_EACH_SIGNED(WRITE_RANGE, _)
    default:
        break;
    }
    return TMK_OK;
}

/* stash_type (27) states in which type 16-bit floats are counted up; ours are float32 */
const struct tmk_op tmk_ops_range[] = {
    {TMK_OP_ONNX("Range", 11, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = "stash_type:int",
     .infer = range_infer, .run = range_run},
    {NULL},
};
