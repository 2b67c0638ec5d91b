/* SPDX-License-Identifier: Apache-2.0 */
/* ConvInteger and QLinearConv: 8-bit inputs, 32-bit sums. The padding holds the zero point, so that
 * it adds 0. */
#include <string.h>

#include "ops/conv.h"
#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/quantized.h"
#include "ops/rows.h"

enum { DEPTH = 256 }; /* rows gathered at a time */

struct operands {
    const struct tmk_tensor *x, *x_zero, *w, *w_zero;
    struct tmk_window window;
    struct tmk_shape shape; /* of the result */
};

/* TMK_SHAPE unless `part` (may be NULL) has one element, or one an output channel. */
static enum tmk_status want_channels(const struct tmk_tensor *part, int64_t channels,
                                     const char *what, struct tmk_diag *diag) {
    char text[128];
    if (!part || tmk_tensor_count(part) == 1 ||
        (part->shape.rank == 1 && part->shape.dim[0] == channels))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, and must have 1 or %lld elements", what,
                    tmk_shape_text(&part->shape, text, sizeof text), (long long)channels);
}

static enum tmk_status find_operands(const struct tmk_node *node, const struct tmk_tensor *x,
                                     const struct tmk_tensor *x_zero, const struct tmk_tensor *w,
                                     const struct tmk_tensor *w_zero, struct operands *out,
                                     struct tmk_diag *diag) {
    struct operands o = {.x = x, .x_zero = x_zero, .w = w, .w_zero = w_zero};
    TMK_TRY(tmk_want_quantized(x, x_zero, "x", diag));
    TMK_TRY(tmk_want_quantized(w, w_zero, "w", diag));
    TMK_TRY(tmk_window_conv(node, &x->shape, &w->shape, &o.window, diag));
    TMK_TRY(tmk_want_scalar(x_zero, TMK_UNDEFINED, "x_zero_point", diag));
    TMK_TRY(want_channels(w_zero, w->shape.dim[0], "w_zero_point", diag));
    tmk_window_shape(&o.window, x->shape.dim[0], w->shape.dim[0], &o.shape);
    *out = o;
    return TMK_OK;
}

/* One element for all channels, or one a channel. */
static size_t channel_at(const struct tmk_tensor *part, size_t channel) {
    return part && tmk_tensor_count(part) > 1 ? channel : 0;
}

static void gather_panel(const int32_t *x, size_t plane, const int64_t *table, size_t taps,
                         size_t k0, size_t depth, size_t n, int32_t *panel) {
    for (size_t k = 0; k < depth; k++) {
        const int64_t *at = table + (k0 + k) % taps * n;
        const int32_t *from = x + (k0 + k) / taps * plane;
        for (size_t j = 0; j < n; j++)
            panel[k * n + j] = at[j] < 0 ? 0 : from[at[j]];
    }
}

/* sums [batch, channels, out...] = the convolution of x - x_zero with w - w_zero; not empty. */
static enum tmk_status convolve_integers(const struct operands *o, struct tmk_run *run,
                                         int32_t *sums) {
    size_t channels = (size_t)o->w->shape.dim[0], in = (size_t)o->w->shape.dim[1],
           group = (size_t)tmk_node_int(run->node, "group", 1), batch = (size_t)o->x->shape.dim[0];
    size_t area = tmk_window_out(&o->window), taps = tmk_window_taps(&o->window),
           plane = tmk_window_in(&o->window), depth = in * taps, out = channels / group;
    if (depth == 0) {
        memset(sums, 0, batch * channels * area * sizeof *sums);
        return TMK_OK;
    }
    int64_t *table = tmk_scratch(run, taps, TMK_WINDOW_BLOCK * sizeof(int64_t));
    int32_t *x = run->scratch(run->context, in * plane * sizeof *x),
            *w = run->scratch(run->context, channels * depth * sizeof *w),
            *panel = run->scratch(run->context, DEPTH * TMK_WINDOW_BLOCK * sizeof *panel);
    if (!table || !x || !w || !panel)
        return tmk_nomem(run->diag);
    for (size_t c = 0; c < channels; c++)
        tmk_quantized_widen(o->w, c * depth, depth,
                            tmk_quantized_at(o->w_zero, channel_at(o->w_zero, c)), w + c * depth);
    for (size_t i = 0; i < batch * group; i++) {
        tmk_quantized_widen(o->x, i * in * plane, in * plane, tmk_quantized_at(o->x_zero, 0), x);
        for (size_t j = 0; j < area; j += TMK_WINDOW_BLOCK) {
            size_t n = area - j < TMK_WINDOW_BLOCK ? area - j : TMK_WINDOW_BLOCK;
            tmk_window_gather(&o->window, j, n, table);
            for (size_t k = 0; k < depth; k += DEPTH) {
                size_t step = depth - k < DEPTH ? depth - k : DEPTH;
                gather_panel(x, plane, table, taps, k, step, n, panel);
                tmk_quantized_product(out, n, step, w + i % group * out * depth + k, depth, panel,
                                      n, sums + i * out * area + j, area, k > 0);
            }
        }
    }
    return TMK_OK;
}

static enum tmk_status infer_conv_integer(struct tmk_infer *infer) {
    struct operands o;
    TMK_TRY(find_operands(infer->node, infer->in[0], tmk_infer_in(infer, 2), infer->in[1],
                          tmk_infer_in(infer, 3), &o, infer->diag));
    return tmk_infer_set(infer, 0, TMK_INT32, &o.shape);
}

static enum tmk_status run_conv_integer(struct tmk_run *run) {
    struct operands o;
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    TMK_TRY(find_operands(run->node, run->in[0], tmk_run_in(run, 2), run->in[1], tmk_run_in(run, 3),
                          &o, run->diag));
    return convolve_integers(&o, run, run->out[0]->data);
}

/* Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B. */
static enum tmk_status find_qlinear(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    const struct tmk_tensor *bias, struct operands *out,
                                    struct tmk_diag *diag) {
    TMK_TRY(find_operands(node, in[0], in[2], in[3], in[5], out, diag));
    TMK_TRY(tmk_want_scalar(in[1], TMK_FLOAT32, "x_scale", diag));
    TMK_TRY(tmk_want_dtype(in[4], TMK_FLOAT32, "w_scale", diag));
    TMK_TRY(want_channels(in[4], in[3]->shape.dim[0], "w_scale", diag));
    TMK_TRY(tmk_want_scalar(in[6], TMK_FLOAT32, "y_scale", diag));
    TMK_TRY(tmk_want_scalar(in[7], TMK_UNDEFINED, "y_zero_point", diag));
    TMK_TRY(tmk_want_quantized(in[7], NULL, "y_zero_point", diag));
    if (bias)
        TMK_TRY(tmk_want_dtype(bias, TMK_INT32, "B", diag));
    return tmk_conv_check_bias(bias, in[3]->shape.dim[0], diag);
}

static enum tmk_status infer_qlinear_conv(struct tmk_infer *infer) {
    struct operands o;
    TMK_TRY(find_qlinear(infer->node, infer->in, tmk_infer_in(infer, 8), &o, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[7]->dtype, &o.shape);
}

static enum tmk_status run_qlinear_conv(struct tmk_run *run) {
    struct operands o;
    const struct tmk_tensor *bias = tmk_run_in(run, 8), *w_scale = run->in[4];
    struct tmk_tensor *y = run->out[0];
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    TMK_TRY(find_qlinear(run->node, run->in, bias, &o, run->diag));
    size_t count = tmk_tensor_count(y), channels = (size_t)o.shape.dim[1],
           area = tmk_window_out(&o.window);
    int32_t *sums = run->scratch(run->context, count * sizeof *sums);
    if (!sums)
        return tmk_nomem(run->diag);
    TMK_TRY(convolve_integers(&o, run, sums));
    float x_scale = *(const float *)run->in[1]->data, y_scale = *(const float *)run->in[6]->data;
    int32_t zero = tmk_quantized_at(run->in[7], 0);
    for (size_t i = 0; i < count; i++) {
        size_t c = i / area % channels;
        uint32_t sum = (uint32_t)sums[i];
        if (bias)
            sum += (uint32_t)((const int32_t *)bias->data)[c];
        float scale = x_scale * ((const float *)w_scale->data)[channel_at(w_scale, c)] / y_scale;
        tmk_quantized_put(y, i, (int32_t)sum, scale, zero);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_conv_integer[] = {
    {TMK_OP_ONNX("ConvInteger", 10, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS, .infer = infer_conv_integer,
     .run = run_conv_integer, .cost = tmk_cost_conv},
    {TMK_OP_ONNX("QLinearConv", 10, INT32_MAX), TMK_OP_COUNTS(8, 9, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS, .infer = infer_qlinear_conv,
     .run = run_qlinear_conv, .cost = tmk_cost_conv_quantized},
    {NULL}};
