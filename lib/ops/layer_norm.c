/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNormalization and RMSNormalization: statistics over the trailing axes. `stash_type` names
 * the precision of the first stage; ours is always double. */
#include "ops/layer_norm.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/vmath.h"

enum tmk_status tmk_layer_norm_check(const struct tmk_tensor *part, const struct tmk_shape *x,
                                     const char *what, struct tmk_diag *diag) {
    struct tmk_shape both;
    char text[128], other[128];
    if (!part)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(part, TMK_FLOAT32, what, diag));
    TMK_TRY(tmk_broadcast(&part->shape, x, &both, diag));
    if (!tmk_shape_equal(&both, x))
        return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, which does not broadcast to %s", what,
                        tmk_shape_text(&part->shape, text, sizeof text),
                        tmk_shape_text(x, other, sizeof other));
    return TMK_OK;
}

static enum tmk_status infer_layer_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int32_t axis;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", -1), x->rank, &axis, infer->diag));
    TMK_TRY(tmk_layer_norm_check(infer->in[1], x, "scale", infer->diag));
    TMK_TRY(tmk_layer_norm_check(tmk_infer_in(infer, 2), x, "B", infer->diag));
    struct tmk_shape moments = *x;
    for (int32_t i = axis; i < x->rank; i++)
        moments.dim[i] = 1;
    tmk_infer_set(infer, 0, TMK_FLOAT32, x);
    tmk_infer_set(infer, 1, TMK_FLOAT32, &moments);
    return tmk_infer_set(infer, 2, TMK_FLOAT32, &moments);
}

/* A scale or bias, spread over one row of the input at a time. */
struct part {
    const float *data;
    int64_t stride[TMK_MAX_RANK];
    bool varies; /* from row to row */
    float *row;
};

static enum tmk_status part_init(struct tmk_run *run, const struct tmk_tensor *tensor,
                                 const struct tmk_shape *x, int32_t axis, struct part *part) {
    *part = (struct part){.data = tensor->data};
    tmk_broadcast_strides(&tensor->shape, x, part->stride);
    for (int32_t i = 0; i < axis; i++)
        part->varies |= part->stride[i] != 0;
    part->row = run->scratch(run->context, tmk_shape_product(x, axis, x->rank) * sizeof *part->row);
    return part->row ? TMK_OK : tmk_nomem(run->diag);
}

static void part_fill(struct part *part, const struct tmk_shape *x, int32_t axis, size_t row,
                      size_t width) {
    if (row > 0 && !part->varies)
        return;
    for (size_t j = 0; j < width; j++) {
        size_t rest = row * width + j;
        int64_t at = 0;
        for (int32_t i = x->rank - 1; i >= (part->varies ? 0 : axis); i--) {
            at += (int64_t)(rest % (size_t)x->dim[i]) * part->stride[i];
            rest /= (size_t)x->dim[i];
        }
        part->row[j] = part->data[at];
    }
}

enum tmk_status tmk_layer_norm(struct tmk_run *run, const struct tmk_layer_norm *norm) {
    const struct tmk_shape *shape = norm->shape;
    int32_t axis = norm->axis;
    size_t rows = tmk_shape_product(shape, 0, axis),
           width = tmk_shape_product(shape, axis, shape->rank);
    struct part scale, bias = {0};
    TMK_TRY(part_init(run, norm->scale, shape, axis, &scale));
    if (norm->bias)
        TMK_TRY(part_init(run, norm->bias, shape, axis, &bias));
    const float *x = norm->x;
    for (size_t r = 0; r < rows; r++, x += width) {
        double mean = 0, variance;
        if (norm->centred)
            mean = tmk_vsum(x, width) / (double)width;
        variance = tmk_vsum_deviations(x, mean, width) / (double)width;
        double inverse = 1 / sqrt(variance + norm->epsilon);
        if (norm->means)
            norm->means[r] = (float)mean;
        if (norm->inverses)
            norm->inverses[r] = (float)inverse;
        if (!norm->y)
            continue;
        float centre = (float)mean, factor = (float)inverse, *to = norm->y + r * width;
        part_fill(&scale, shape, axis, r, width);
        if (norm->bias)
            part_fill(&bias, shape, axis, r, width);
        tmk_vnormalize(x, centre, factor, scale.row, norm->bias ? bias.row : NULL, to, width);
    }
    return TMK_OK;
}

float *tmk_layer_norm_out(const struct tmk_run *run, uint32_t i) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    return out ? out->data : NULL;
}

static enum tmk_status normalize_rows(struct tmk_run *run, bool centred) {
    struct tmk_layer_norm norm = {
        .shape = &run->in[0]->shape,
        .x = run->in[0]->data,
        .scale = run->in[1],
        .bias = tmk_run_in(run, 2),
        .epsilon = (double)tmk_node_float(run->node, "epsilon", 1e-5f),
        .centred = centred,
        .y = tmk_layer_norm_out(run, 0),
        .means = tmk_layer_norm_out(run, 1),
        .inverses = tmk_layer_norm_out(run, 2),
    };
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), norm.shape->rank, &norm.axis, run->diag));
    return tmk_layer_norm(run, &norm);
}

static enum tmk_status run_layer_norm(struct tmk_run *run) {
    return normalize_rows(run, true);
}

static enum tmk_status run_rms_norm(struct tmk_run *run) {
    return normalize_rows(run, false);
}

static const char attrs[] = "axis:int epsilon:float stash_type:int";

const struct tmk_op tmk_ops_layer_norm[] = {
    {TMK_OP_ONNX("LayerNormalization", 17, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 3),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = attrs,
     .infer = infer_layer_norm, .run = run_layer_norm},
    /* ONNX Runtime writes the operator into models of older operator sets too. */
    {TMK_OP_ONNX("LayerNormalization", 1, 16), TMK_OP_COUNTS(2, 3, 1, 3), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_LAST, .attrs = attrs, .infer = infer_layer_norm, .run = run_layer_norm},
    {TMK_OP_ONNX("RMSNormalization", 23, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = attrs,
     .infer = infer_layer_norm, .run = run_rms_norm},
    {NULL}};
