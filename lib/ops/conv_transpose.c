/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution, run as a convolution whose window gathers (see ops/window.h), after the
 * weights' two channel axes have been exchanged. */
#include "ops/conv.h"
#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/rows.h"

static enum tmk_status infer_conv_transpose(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *w = infer->in[1], *bias = tmk_infer_in(infer, 2);
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_dtype(w, TMK_FLOAT32, "W", infer->diag));
    if (bias)
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "B", infer->diag));
    struct tmk_window window;
    TMK_TRY(tmk_window_conv_transpose(infer->node, &x->shape, &w->shape, &window, infer->diag));
    int64_t channels;
    if (!tmk_mul_i64(w->shape.dim[1], tmk_node_int(infer->node, "group", 1), &channels))
        return tmk_fail(infer->diag, TMK_RANGE, "too many output channels");
    TMK_TRY(tmk_conv_check_bias(bias, channels, infer->diag));
    struct tmk_shape shape;
    tmk_window_shape(&window, x->shape.dim[0], channels, &shape);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* [group * in, out, taps] becomes [group * out, in, taps]. */
static void swap_channels(const float *w, size_t group, size_t in, size_t out, size_t taps,
                          float *to) {
    for (size_t g = 0; g < group; g++, w += in * out * taps)
        for (size_t o = 0; o < out; o++)
            for (size_t i = 0; i < in; i++)
                for (size_t t = 0; t < taps; t++)
                    *to++ = w[(i * out + o) * taps + t];
}

static enum tmk_status run_conv_transpose(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *w = run->in[1], *bias = tmk_run_in(run, 2);
    size_t group = (size_t)tmk_node_int(run->node, "group", 1);
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    float *weights = run->scratch(run->context, tmk_tensor_bytes(w));
    if (!weights && tmk_tensor_count(w))
        return tmk_nomem(run->diag);
    struct tmk_conv conv = {
        .batch = (size_t)x->shape.dim[0],
        .group = group,
        .in = (size_t)w->shape.dim[0] / group,
        .out = (size_t)w->shape.dim[1],
        .x = x->data,
        .w = weights,
        .bias = bias ? bias->data : NULL,
        .y = run->out[0]->data,
    };
    TMK_TRY(tmk_window_conv_transpose(run->node, &x->shape, &w->shape, &conv.window, run->diag));
    swap_channels(w->data, group, conv.in, conv.out, tmk_window_taps(&conv.window), weights);
    return tmk_convolve(&conv, run);
}

const struct tmk_op tmk_ops_conv_transpose[] = {
    {TMK_OP_ONNX("ConvTranspose", 1, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS " output_padding:ints output_shape:ints",
     .infer = infer_conv_transpose, .run = run_conv_transpose, .cost = tmk_cost_conv_transpose},
    {NULL}};
