/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations without learnt parameters: LpNormalization, MeanVarianceNormalization, LRN. */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/sums.h"
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
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), shape->rank, &axis, run->diag));
    size_t outer = tmk_shape_product(shape, 0, axis), n = (size_t)shape->dim[axis],
           inner = tmk_shape_product(shape, axis + 1, shape->rank);
    double *norm = run->scratch(run->context, inner * sizeof *norm);
    TMK_TRY_ALLOC(norm, run->diag);
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
    TMK_TRY(moment_strides(run->node, shape, stride, &moments, run->diag));
    size_t count = tmk_tensor_count(run->in[0]),
           kept = tmk_shape_product(&moments, 0, moments.rank),
           width = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1,
           step = shape->rank ? (size_t)stride[shape->rank - 1] : 0, each = count / kept;
    double *mean = run->scratch(run->context, 2 * kept * sizeof *mean), n = (double)each;
    TMK_TRY_ALLOC(mean, run->diag);
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
    TMK_TRY(tmk_want_rank(x, 2, infer->diag));
    if (size < 1 || size > INT32_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'size' is %lld", (long long)size);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

static enum tmk_status run_lrn(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    int64_t size = tmk_node_int(run->node, "size", 1), channels = shape->dim[1];
    double alpha = (double)tmk_node_float(run->node, "alpha", 1e-4f) / (double)size,
           beta = (double)tmk_node_float(run->node, "beta", 0.75f),
           bias = (double)tmk_node_float(run->node, "bias", 1);
    size_t area = tmk_shape_product(shape, 2, shape->rank);
    double *sum = run->scratch(run->context, area * sizeof *sum);
    float *power = run->scratch(run->context, area * sizeof *power);
    TMK_TRY_ALLOC(sum && power, run->diag);
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

/* BatchNormalization.
 *
 * Per channel, y = x * a + b with a = 1 / sqrt(var + epsilon) * scale and b = bias - mean * a,
 * every step rounded to float32. A wider computation would be nearer to the real numbers, but not
 * to ONNX Runtime, which rounds like this and is what users compare with: so the bits agree.
 *
 * Up to operator set 13 the number of outputs states whether a node is for training; `is_test` of
 * operator sets 1 and 6 has no other effect. Training is done from operator set 14 on, where it is
 * well defined. */

struct sizes {
    size_t batch, channels, area; /* x is [batch, channels, area] */
    bool spatial;                 /* else statistics are per element of [channels, area] */
};

static struct sizes sizes_of(const struct tmk_node *node, const struct tmk_shape *x) {
    struct sizes s = {.batch = (size_t)x->dim[0], .channels = 1, .area = 1};
    if (x->rank > 1) { /* rank 1 is a batch of one channel */
        s.channels = (size_t)x->dim[1];
        s.area = tmk_shape_product(x, 2, x->rank);
    }
    s.spatial = node->row->since >= 9 || tmk_node_int(node, "spatial", 1) != 0;
    return s;
}

static bool is_training(const struct tmk_node *node) {
    return node->row->since >= 14 && tmk_node_int(node, "training_mode", 0) != 0;
}

static enum tmk_status infer_batch_norm(struct tmk_infer *infer) {
    static const char *const names[] = {"X", "scale", "B", "mean", "var"};
    const struct tmk_shape *x = &infer->in[0]->shape;
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        TMK_TRY(tmk_want_dtype(infer->in[i], TMK_FLOAT32, names[i], infer->diag));
    TMK_TRY(tmk_want_rank(x, 1, infer->diag));
    bool spatial = sizes_of(infer->node, x).spatial;
    struct tmk_shape wanted = {1, {x->rank > 1 ? x->dim[1] : 1}};
    if (!spatial) {
        wanted.rank = x->rank > 1 ? x->rank - 1 : 1;
        for (int32_t i = 1; i < x->rank; i++)
            wanted.dim[i - 1] = x->dim[i];
    }
    for (size_t i = 1; i < TMK_COUNT(names); i++)
        if (!tmk_shape_equal(&infer->in[i]->shape, &wanted))
            return tmk_fail(infer->diag, TMK_SHAPE, "input '%s' is %s, not %s", names[i],
                            TMK_SHAPE_TEXT(&infer->in[i]->shape), TMK_SHAPE_TEXT(&wanted));
    for (uint32_t i = 1; i < infer->n_out && !is_training(infer->node); i++)
        if (infer->node->outputs[i])
            return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                            "output %u is made in training only; this node is run for inference",
                            i);
    tmk_infer_put(infer, 0, TMK_FLOAT32, x);
    tmk_infer_put(infer, 1, TMK_FLOAT32, &wanted);
    return tmk_infer_set(infer, 2, TMK_FLOAT32, &wanted);
}

/* Mean and variance of each channel over the batch. */
static void batch_moments(const struct sizes *s, const float *x, float *mean, float *variance) {
    double n = (double)s->batch * (double)s->area;
    for (size_t c = 0; c < s->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < s->batch; i++)
            sum += tmk_sum(x + (i * s->channels + c) * s->area, s->area);
        for (size_t i = 0; i < s->batch; i++)
            squares += tmk_sum_power(x + (i * s->channels + c) * s->area, s->area, sum / n, 2);
        mean[c] = (float)(sum / n);
        variance[c] = (float)(squares / n);
    }
}

static void blend_statistics(struct tmk_tensor *out, const float *old, const float *now, size_t n,
                             float momentum) {
    for (size_t i = 0; out && i < n; i++)
        ((float *)out->data)[i] = old[i] * momentum + now[i] * (1 - momentum);
}

static enum tmk_status run_batch_norm(struct tmk_run *run) {
    struct sizes s = sizes_of(run->node, &run->in[0]->shape);
    size_t n = s.spatial ? s.channels : s.channels * s.area;
    float *factor = run->scratch(run->context, n * sizeof *factor),
          *offset = run->scratch(run->context, n * sizeof *offset);
    TMK_TRY_ALLOC(factor && offset, run->diag);
    const float *x = run->in[0]->data, *scale = run->in[1]->data, *bias = run->in[2]->data,
                *mean = run->in[3]->data, *variance = run->in[4]->data;
    if (is_training(run->node)) {
        float *now = run->scratch(run->context, 2 * n * sizeof *now);
        TMK_TRY_ALLOC(now, run->diag);
        batch_moments(&s, x, now, now + n);
        float momentum = tmk_node_float(run->node, "momentum", 0.9f);
        blend_statistics(tmk_run_out(run, 1), mean, now, n, momentum);
        blend_statistics(tmk_run_out(run, 2), variance, now + n, n, momentum);
        mean = now;
        variance = now + n;
    }
    float epsilon = tmk_node_float(run->node, "epsilon", 1e-5f);
    for (size_t i = 0; i < n; i++) {
        factor[i] = 1 / sqrtf(variance[i] + epsilon) * scale[i];
        offset[i] = bias[i] - mean[i] * factor[i];
    }
    float *y = run->out[0] ? run->out[0]->data : NULL;
    for (size_t i = 0; y && i < s.batch * s.channels; i++, x += s.area, y += s.area) {
        size_t c = i % s.channels;
        if (s.spatial)
            for (size_t j = 0; j < s.area; j++)
                y[j] = x[j] * factor[c] + offset[c];
        else
            for (size_t j = 0; j < s.area; j++)
                y[j] = x[j] * factor[c * s.area + j] + offset[c * s.area + j];
    }
    return TMK_OK;
}

#define TMK_BATCH_NORM_ATTRS "epsilon:float momentum:float"

/* InstanceNormalization and GroupNormalization: statistics of each sample over the elements of some
 * channels. */

/* TMK_SHAPE unless scale and bias are [n]. */
static enum tmk_status want_vectors(const struct tmk_infer *infer, int64_t n) {
    const struct tmk_shape shape = {1, {n}};
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[1], TMK_FLOAT32, "scale", &shape, infer->diag));
    return tmk_want_shape(infer->in[2], TMK_FLOAT32, "bias", &shape, infer->diag);
}

static enum tmk_status infer_instance_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    TMK_TRY(tmk_want_rank(x, 2, infer->diag));
    TMK_TRY(want_vectors(infer, x->dim[1]));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

static enum tmk_status infer_group_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int64_t groups = tmk_node_int(infer->node, "num_groups", 1);
    TMK_TRY(tmk_want_rank(x, 2, infer->diag));
    if (groups < 1 || x->dim[1] % groups != 0)
        return tmk_fail(infer->diag, TMK_RANGE,
                        "attribute 'num_groups' is %lld, which does not divide %lld channels",
                        (long long)groups, (long long)x->dim[1]);
    if (infer->node->row->since < 21)
        TMK_TRY(want_vectors(infer, groups));
    else
        TMK_TRY(want_vectors(infer, x->dim[1]));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

/* Each `width` channels of a sample together; scale and bias one a channel, or one a group
 * (`shared`). */
static enum tmk_status normalize_groups(struct tmk_run *run, size_t width, bool shared) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    size_t batch = (size_t)shape->dim[0], channels = (size_t)shape->dim[1],
           area = tmk_shape_product(shape, 2, shape->rank);
    const float *x = run->in[0]->data, *scale = run->in[1]->data, *bias = run->in[2]->data;
    double epsilon = (double)tmk_node_float(run->node, "epsilon", 1e-5f);
    float *y = run->out[0]->data;
    for (size_t i = 0; i < batch * channels; i += width) {
        size_t n = width * area;
        double exact_mean = tmk_vsum(x + i * area, n) / (double)n;
        double variance = tmk_vsum_deviations(x + i * area, exact_mean, n) / (double)n;
        float mean = (float)exact_mean;
        for (size_t c = i; c < i + width; c++) {
            size_t at = c % channels / (shared ? width : 1);
            float factor = (float)((double)scale[at] / sqrt(variance + epsilon));
            const float *from = x + c * area;
            float *to = y + c * area;
            for (size_t j = 0; j < area; j++)
                to[j] = (from[j] - mean) * factor + bias[at];
        }
    }
    return TMK_OK;
}

static enum tmk_status run_instance_norm(struct tmk_run *run) {
    return normalize_groups(run, 1, false);
}

static enum tmk_status run_group_norm(struct tmk_run *run) {
    int64_t groups = tmk_node_int(run->node, "num_groups", 1);
    return normalize_groups(run, (size_t)(run->in[0]->shape.dim[1] / groups),
                            run->node->row->since < 21);
}

static const char group_attrs[] = "epsilon:float num_groups:int! stash_type:int";

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
    {TMK_OP_ONNX("BatchNormalization", 1, 8), TMK_OP_COUNTS(5, 5, 1, 5), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_BATCH_NORM_ATTRS " consumed_inputs:ints is_test:int spatial:int",
     .infer = infer_batch_norm, .run = run_batch_norm},
    {TMK_OP_ONNX("BatchNormalization", 9, 13), TMK_OP_COUNTS(5, 5, 1, 5), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_BATCH_NORM_ATTRS, .infer = infer_batch_norm,
     .run = run_batch_norm},
    {TMK_OP_ONNX("BatchNormalization", 14, INT32_MAX), TMK_OP_COUNTS(5, 5, 1, 3),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_BATCH_NORM_ATTRS " training_mode:int", .infer = infer_batch_norm,
     .run = run_batch_norm},
    {TMK_OP_ONNX("InstanceNormalization", 1, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_AXIS1,
     .attrs = "consumed_inputs:ints epsilon:float", .infer = infer_instance_norm,
     .run = run_instance_norm},
    {TMK_OP_ONNX("GroupNormalization", 18, 20), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_AXIS1, .attrs = group_attrs, .infer = infer_group_norm,
     .run = run_group_norm},
    {TMK_OP_ONNX("GroupNormalization", 21, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_AXIS1, .attrs = group_attrs,
     .infer = infer_group_norm, .run = run_group_norm},
    {NULL}};
