/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations without learnt parameters: LpNormalization, MeanVarianceNormalization, LRN. */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/vmath.h"

/* ---- LpNormalization ---- */

static enum tmk_status infer_lp_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int64_t p = tmk_node_int(infer->node, "p", 2);
    int32_t axis;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input", infer->diag));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", -1), x->rank, &axis, infer->diag));
    if (p != 1 && p != 2)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'p' is %lld, neither 1 nor 2",
                        (long long)p);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

/* Where the norm is 0, so is the output. */
static enum tmk_status run_lp_norm(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    bool squared = tmk_node_int(run->node, "p", 2) == 2;
    int32_t axis;
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), shape->rank, &axis, run->diag));
    size_t outer = tmk_shape_product(shape, 0, axis), n = (size_t)shape->dim[axis],
           inner = tmk_shape_product(shape, axis + 1, shape->rank);
    double *norm = run->scratch(run->context, inner * sizeof *norm);
    if (!norm)
        return tmk_nomem(run->diag);
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (size_t o = 0; o < outer; o++, x += n * inner, y += n * inner) {
        for (size_t j = 0; j < inner; j++)
            norm[j] = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < inner; j++) {
                double value = (double)x[i * inner + j];
                norm[j] += squared ? value * value : fabs(value);
            }
        for (size_t j = 0; j < inner; j++)
            norm[j] = squared ? sqrt(norm[j]) : norm[j];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < inner; j++)
                y[i * inner + j] = norm[j] == 0 ? 0 : (float)((double)x[i * inner + j] / norm[j]);
    }
    return TMK_OK;
}

/* ---- MeanVarianceNormalization ---- */

/* Element strides into the statistics: 0 along the normalised axes. */
static enum tmk_status moment_strides(const struct tmk_node *node, const struct tmk_shape *x,
                                      int64_t stride[TMK_MAX_RANK], struct tmk_shape *moments,
                                      struct tmk_diag *diag) {
    static const int64_t usual[] = {0, 2, 3, 1}; /* the last one: before operator set 9, if asked */
    size_t n;
    const int64_t *axes = tmk_node_ints(node, "axes", &n);
    if (!axes) {
        axes = usual;
        n = tmk_node_int(node, "across_channels", 0) ? 4 : 3;
    }
    *moments = *x;
    for (size_t i = 0; i < n; i++) {
        int32_t axis;
        TMK_TRY(tmk_axis(axes[i], x->rank, &axis, diag));
        moments->dim[axis] = 1;
    }
    tmk_broadcast_strides(moments, x, stride);
    return TMK_OK;
}

static enum tmk_status infer_mvn(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int64_t stride[TMK_MAX_RANK];
    struct tmk_shape moments;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(moment_strides(infer->node, x, stride, &moments, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

/* The statistic that row `row` of the input (the last axis) begins with. */
static size_t moment_at(const struct tmk_shape *x, const int64_t *stride, size_t row) {
    size_t at = 0;
    for (int32_t i = x->rank - 2; i >= 0; i--) {
        at += row % (size_t)x->dim[i] * (size_t)stride[i];
        row /= (size_t)x->dim[i];
    }
    return at;
}

static enum tmk_status run_mvn(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    int64_t stride[TMK_MAX_RANK] = {0};
    struct tmk_shape moments;
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    TMK_TRY(moment_strides(run->node, shape, stride, &moments, run->diag));
    size_t count = tmk_tensor_count(run->in[0]),
           kept = tmk_shape_product(&moments, 0, moments.rank),
           width = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1,
           step = shape->rank ? (size_t)stride[shape->rank - 1] : 0, each = count / kept;
    double *mean = run->scratch(run->context, 2 * kept * sizeof *mean), n = (double)each;
    if (!mean)
        return tmk_nomem(run->diag);
    double *deviation = mean + kept;
    const bool scaled = tmk_node_int(run->node, "normalize_variance", 1) != 0;
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (size_t i = 0; i < 2 * kept; i++)
        mean[i] = 0;
    for (size_t r = 0; r < count / width; r++) {
        double *sum = mean + moment_at(shape, stride, r);
        for (size_t j = 0; j < width; j++)
            sum[j * step] += (double)x[r * width + j];
    }
    for (size_t i = 0; i < kept; i++)
        mean[i] /= n;
    for (size_t r = 0; r < count / width; r++) {
        size_t at = moment_at(shape, stride, r);
        for (size_t j = 0; j < width; j++) {
            double d = (double)x[r * width + j] - mean[at + j * step];
            deviation[at + j * step] += d * d;
        }
    }
    for (size_t i = 0; i < kept; i++)
        deviation[i] = scaled ? sqrt(deviation[i] / n) + 1e-9 : 1;
    for (size_t r = 0; r < count / width; r++) {
        size_t at = moment_at(shape, stride, r);
        for (size_t j = 0; j < width; j++)
            y[r * width + j] = (float)(((double)x[r * width + j] - mean[at + j * step]) /
                                       deviation[at + j * step]);
    }
    return TMK_OK;
}

/* ---- LRN ---- */

static enum tmk_status infer_lrn(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int64_t size = tmk_node_int(infer->node, "size", 0);
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    if (x->rank < 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "the input has rank %d, and needs 2 at least",
                        (int)x->rank);
    if (size < 1 || size > INT32_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'size' is %lld", (long long)size);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

static enum tmk_status run_lrn(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    int64_t size = tmk_node_int(run->node, "size", 1), channels = shape->dim[1];
    double alpha = (double)tmk_node_float(run->node, "alpha", 1e-4f) / (double)size,
           beta = (double)tmk_node_float(run->node, "beta", 0.75f),
           bias = (double)tmk_node_float(run->node, "bias", 1);
    size_t area = tmk_shape_product(shape, 2, shape->rank);
    double *sum = run->scratch(run->context, area * sizeof *sum);
    float *power = run->scratch(run->context, area * sizeof *power);
    if (!sum || !power)
        return tmk_nomem(run->diag);
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (int64_t i = 0; i < shape->dim[0] * channels; i++, y += area) {
        int64_t c = i % channels, from = c - (size - 1) / 2, to = c + size / 2;
        for (size_t j = 0; j < area; j++)
            sum[j] = 0;
        for (int64_t k = from < 0 ? 0 : from; k <= to && k < channels; k++) {
            const float *other = x + (size_t)(i - c + k) * area;
            for (size_t j = 0; j < area; j++)
                sum[j] += (double)other[j] * (double)other[j];
        }
        const float *own = x + (size_t)i * area;
        if (beta == 0.75) { /* as nearly everywhere: a square root times its square root */
            for (size_t j = 0; j < area; j++)
                y[j] = (float)(bias + alpha * sum[j]);
            tmk_vsqrt(y, power, area);
            tmk_vsqrt(power, y, area);
            for (size_t j = 0; j < area; j++)
                y[j] = own[j] / (power[j] * y[j]);
            continue;
        }
        for (size_t j = 0; j < area; j++)
            y[j] = (float)((double)own[j] / pow(bias + alpha * sum[j], beta));
    }
    return TMK_OK;
}

/* ---- rows ---- */

/* A sum over `size` channels for each element. */
static double lrn_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    const double size = (double)tmk_node_int(node, "size", 0), channels = tmk_cost_dim(in[0], 1);
    return tmk_cost_count(out) * (size < 0 ? 0 : size < channels ? size : channels);
}

const struct tmk_op tmk_ops_normalize[] = {
    {TMK_OP_ONNX("LpNormalization", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = "axis:int p:int",
     .infer = infer_lp_norm, .run = run_lp_norm},
    {TMK_OP_ONNX("MeanVarianceNormalization", 1, 8), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_AXIS1,
     .attrs = "across_channels:int normalize_variance:int", .infer = infer_mvn, .run = run_mvn},
    {TMK_OP_ONNX("MeanVarianceNormalization", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_AXIS1, .attrs = "axes:ints",
     .infer = infer_mvn, .run = run_mvn},
    {TMK_OP_ONNX("LRN", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = "alpha:float beta:float bias:float size:int!", .infer = infer_lrn, .run = run_lrn,
     .cost = lrn_cost},
    {NULL}};
