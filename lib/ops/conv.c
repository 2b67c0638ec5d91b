/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution as a matrix product: for a block of outputs, a panel of the input elements under each
 * tap is gathered and multiplied with the weights. For a block, one table has the position of each
 * tap's element; it serves all channels, groups and samples. */
#include "ops/conv.h"

#include <math.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/gemm.h"
#include "ops/kernel.h"
#include "ops/rows.h"

enum tmk_status tmk_conv_check_bias(const struct tmk_tensor *bias, int64_t channels,
                                    struct tmk_diag *diag) {
    if (!bias)
        return TMK_OK;
    char text[128];
    if (bias->shape.rank != 1 || bias->shape.dim[0] != channels)
        return tmk_fail(diag, TMK_SHAPE, "the bias is %s, not [%lld]",
                        tmk_shape_text(&bias->shape, text, sizeof text), (long long)channels);
    return TMK_OK;
}

/* Rows [k0, k0 + depth) of the matrix of input elements; row k is (channel, tap). */
static void gather_panel(const float *x, size_t plane, const int64_t *table, size_t taps, size_t k0,
                         size_t depth, size_t n, float *panel) {
    size_t channel = k0 / taps, tap = k0 % taps;
    for (size_t k = 0; k < depth; k++) {
        const int64_t *at = table + tap * n;
        const float *from = x + channel * plane;
        for (size_t j = 0; j < n; j++)
            panel[tmk_gemm_at(depth, k, j)] = at[j] < 0 ? 0 : from[at[j]];
        for (size_t j = n; j % TMK_GEMM_LANES != 0; j++)
            panel[tmk_gemm_at(depth, k, j)] = 0;
        if (++tap == taps) {
            tap = 0;
            channel++;
        }
    }
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Outputs [j, j + n) of one group where a transposed window leaves taps without an element: those
 * add nothing, not even the NaN that 0 times an infinite weight is. */
static void leave_out_taps(const struct tmk_conv *conv, const float *x, const float *w, float *y,
                           const int64_t *table, size_t n, size_t sum) {
    size_t taps = tmk_window_taps(&conv->window), plane = tmk_window_in(&conv->window),
           area = tmk_window_out(&conv->window);
    for (size_t o = 0; o < conv->out; o++)
        for (size_t j = 0; j < n; j++) {
            float total = 0;
            for (size_t k = 0; k < sum; k++) {
                int64_t at = table[k % taps * n + j];
                if (at >= 0)
                    total += w[o * sum + k] * x[k / taps * plane + (size_t)at];
            }
            y[o * area + j] = total;
        }
}

static void add_bias(const struct tmk_conv *conv, size_t area) {
    size_t channels = conv->group * conv->out;
    for (size_t i = 0; i < conv->batch * channels; i++)
        for (size_t j = 0; j < area; j++)
            conv->y[i * area + j] += conv->bias[i % channels];
}

enum tmk_status tmk_convolve(const struct tmk_conv *conv, struct tmk_run *run) {
    const struct tmk_window *window = &conv->window;
    size_t area = tmk_window_out(window), taps = tmk_window_taps(window),
           plane = tmk_window_in(window), sum = conv->in * taps;
    if (sum == 0)
        memset(conv->y, 0, conv->batch * conv->group * conv->out * area * sizeof *conv->y);
    int64_t *table = sum ? tmk_scratch(run, taps, TMK_WINDOW_BLOCK * sizeof *table) : NULL;
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    if ((sum && !table) || !panel)
        return tmk_nomem(run->diag);
    const bool by_hand = window->transposed && !all_finite(conv->w, conv->group * conv->out * sum);
    for (size_t j = 0; sum && j < area; j += TMK_WINDOW_BLOCK) {
        size_t n = area - j < TMK_WINDOW_BLOCK ? area - j : TMK_WINDOW_BLOCK;
        tmk_window_gather(window, j, n, table);
        for (size_t i = 0; i < conv->batch * conv->group; i++) {
            const float *x = conv->x + i * conv->in * plane,
                        *w = conv->w + i % conv->group * conv->out * sum;
            float *y = conv->y + i * conv->out * area + j;
            if (by_hand)
                leave_out_taps(conv, x, w, y, table, n, sum);
            for (size_t k = 0; k < sum && !by_hand; k += TMK_GEMM_DEPTH) {
                size_t depth = sum - k < TMK_GEMM_DEPTH ? sum - k : TMK_GEMM_DEPTH;
                gather_panel(x, plane, table, taps, k, depth, n, panel);
                tmk_gemm_block(conv->out, n, depth, w + k, sum, 1, panel, y, area, k > 0);
            }
        }
    }
    if (conv->bias)
        add_bias(conv, area);
    return TMK_OK;
}

enum tmk_status tmk_infer_conv(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *w = infer->in[1], *bias = tmk_infer_in(infer, 2);
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_dtype(w, TMK_FLOAT32, "W", infer->diag));
    if (bias)
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "B", infer->diag));
    struct tmk_window window;
    TMK_TRY(tmk_window_conv(infer->node, &x->shape, &w->shape, &window, infer->diag));
    TMK_TRY(tmk_conv_check_bias(bias, w->shape.dim[0], infer->diag));
    struct tmk_shape shape;
    tmk_window_shape(&window, x->shape.dim[0], w->shape.dim[0], &shape);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

enum tmk_status tmk_run_conv(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *w = run->in[1], *bias = tmk_run_in(run, 2);
    size_t group = (size_t)tmk_node_int(run->node, "group", 1);
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    struct tmk_conv conv = {
        .batch = (size_t)x->shape.dim[0],
        .group = group,
        .in = (size_t)w->shape.dim[1],
        .out = (size_t)w->shape.dim[0] / group,
        .x = x->data,
        .w = w->data,
        .bias = bias ? bias->data : NULL,
        .y = run->out[0]->data,
    };
    TMK_TRY(tmk_window_conv(run->node, &x->shape, &w->shape, &conv.window, run->diag));
    return tmk_convolve(&conv, run);
}

const struct tmk_op tmk_ops_conv[] = {
    {TMK_OP_ONNX("Conv", 1, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_CONV_ATTRS, .infer = tmk_infer_conv, .run = tmk_run_conv, .cost = tmk_cost_conv},
    {NULL}};
