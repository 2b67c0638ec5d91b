/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNormalization.
 *
 * Per channel, y = x * a + b with a = 1 / sqrt(var + epsilon) * scale and b = bias - mean * a,
 * every step rounded to float32. A wider computation would be nearer to the real numbers, but not
 * to ONNX Runtime, which rounds like this and is what users compare with: so the bits agree.
 *
 * Up to operator set 13 the number of outputs states whether a node is for training; `is_test` of
 * operator sets 1 and 6 has no other effect. Training is done from operator set 14 on, where it is
 * well defined.
 */
#include <math.h>

#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/sums.h"

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
    char text[128], other[128];
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        TMK_TRY(tmk_want_dtype(infer->in[i], TMK_FLOAT32, names[i], infer->diag));
    if (x->rank < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "the input is a scalar");
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
                            tmk_shape_text(&infer->in[i]->shape, text, sizeof text),
                            tmk_shape_text(&wanted, other, sizeof other));
    for (uint32_t i = 1; i < infer->n_out && !is_training(infer->node); i++)
        if (infer->node->outputs[i])
            return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                            "output %u is made in training only; this node is run for inference",
                            i);
    tmk_infer_set(infer, 0, TMK_FLOAT32, x);
    tmk_infer_set(infer, 1, TMK_FLOAT32, &wanted);
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
    if (!factor || !offset)
        return tmk_nomem(run->diag);
    const float *x = run->in[0]->data, *scale = run->in[1]->data, *bias = run->in[2]->data,
                *mean = run->in[3]->data, *variance = run->in[4]->data;
    if (is_training(run->node)) {
        float *now = run->scratch(run->context, 2 * n * sizeof *now);
        if (!now)
            return tmk_nomem(run->diag);
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

const struct tmk_op tmk_ops_batch_norm[] = {
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
    {NULL}};
