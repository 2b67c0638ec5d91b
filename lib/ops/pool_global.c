/* SPDX-License-Identifier: Apache-2.0 */
/* Pools over all spatial axes: GlobalAveragePool, GlobalMaxPool, GlobalLpPool. */
#include <float.h>
#include <math.h>

#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/sums.h"

static enum tmk_status infer_global(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    struct tmk_shape shape = x->shape;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    if (shape.rank < 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "the input has rank %d, and needs 2 at least",
                        (int)shape.rank);
    for (int32_t i = 2; i < shape.rank; i++)
        shape.dim[i] = 1;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static float mean_of(const float *x, size_t n, double p) {
    (void)p;
    return (float)(tmk_sum(x, n) / (double)n);
}

/* NaN counts as the largest; the lowest finite number where there is nothing. */
static float max_of(const float *x, size_t n, double p) {
    float best = n ? x[0] : -FLT_MAX;
    (void)p;
    for (size_t i = 1; i < n; i++)
        if (!(x[i] <= best) && !isnan(best))
            best = x[i];
    return best;
}

static float norm_of(const float *x, size_t n, double p) {
    double sum = 0;
    if (p == 2)
        return (float)sqrt(tmk_sum_squares(x, n));
    for (size_t i = 0; i < n; i++)
        sum += p == 1 ? fabs((double)x[i]) : pow(fabs((double)x[i]), p);
    return (float)(p == 1 ? sum : pow(sum, 1 / p));
}

static enum tmk_status each_plane(struct tmk_run *run,
                                  float (*reduce)(const float *, size_t, double), double p) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    if (!run->out[0])
        return TMK_OK;
    size_t planes = tmk_shape_product(shape, 0, 2), area = tmk_shape_product(shape, 2, shape->rank);
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (size_t i = 0; i < planes; i++)
        y[i] = reduce(x + i * area, area, p);
    return TMK_OK;
}

static enum tmk_status run_average(struct tmk_run *run) {
    return each_plane(run, mean_of, 1);
}

static enum tmk_status run_max(struct tmk_run *run) {
    return each_plane(run, max_of, 1);
}

/* The attribute was a float in operator set 1. */
static double exponent_of(const struct tmk_node *node) {
    return node->row->since == 1 ? (double)tmk_node_float(node, "p", 2)
                                 : (double)tmk_node_int(node, "p", 2);
}

static enum tmk_status infer_lp(struct tmk_infer *infer) {
    double p = exponent_of(infer->node);
    if (!(p > 0) || !isfinite(p))
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'p' is %g", p);
    return infer_global(infer);
}

static enum tmk_status run_lp(struct tmk_run *run) {
    return each_plane(run, norm_of, exponent_of(run->node));
}

const struct tmk_op tmk_ops_pool_global[] = {
    {TMK_OP_ONNX("GlobalAveragePool", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .infer = infer_global, .run = run_average},
    {TMK_OP_ONNX("GlobalMaxPool", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .infer = infer_global, .run = run_max},
    {TMK_OP_ONNX("GlobalLpPool", 1, 1), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = "p:float", .infer = infer_lp, .run = run_lp},
    {TMK_OP_ONNX("GlobalLpPool", 2, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "p:int", .infer = infer_lp, .run = run_lp},
    {NULL}};
