/* SPDX-License-Identifier: Apache-2.0 */
/* InstanceNormalization and GroupNormalization: statistics of each sample over the elements of some
 * channels. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/vmath.h"

/* TMK_SHAPE unless scale and bias are [n]. */
static enum tmk_status want_vectors(const struct tmk_infer *infer, int64_t n, const char *of) {
    static const char *const names[] = {"X", "scale", "bias"};
    char text[128];
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        TMK_TRY(tmk_want_dtype(infer->in[i], TMK_FLOAT32, names[i], infer->diag));
    for (size_t i = 1; i < TMK_COUNT(names); i++)
        if (infer->in[i]->shape.rank != 1 || infer->in[i]->shape.dim[0] != n)
            return tmk_fail(
                infer->diag, TMK_SHAPE, "input '%s' is %s, not one element a %s: [%lld]", names[i],
                tmk_shape_text(&infer->in[i]->shape, text, sizeof text), of, (long long)n);
    return TMK_OK;
}

static enum tmk_status infer_instance_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    if (x->rank < 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "the input has rank %d, and needs 2 at least",
                        (int)x->rank);
    TMK_TRY(want_vectors(infer, x->dim[1], "channel"));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

static enum tmk_status infer_group_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int64_t groups = tmk_node_int(infer->node, "num_groups", 1);
    if (x->rank < 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "the input has rank %d, and needs 2 at least",
                        (int)x->rank);
    if (groups < 1 || x->dim[1] % groups != 0)
        return tmk_fail(infer->diag, TMK_RANGE,
                        "attribute 'num_groups' is %lld, which does not divide %lld channels",
                        (long long)groups, (long long)x->dim[1]);
    if (infer->node->row->since < 21)
        TMK_TRY(want_vectors(infer, groups, "group"));
    else
        TMK_TRY(want_vectors(infer, x->dim[1], "channel"));
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
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
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

const struct tmk_op tmk_ops_group_norm[] = {
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
