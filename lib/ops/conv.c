/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: plain, transposed, causal, and of 8-bit integers. */
#include "ops/conv.h"

#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/cost.h"
#include "ops/functions.h"
#include "ops/kernel.h"
#include "ops/matmul.h"
#include "ops/quantized.h"

/* Convolution as a matrix product: for a block of outputs, a panel of the input elements under each
 * tap is gathered and multiplied with the weights. For a block, one table has the position of each
 * tap's element; it serves all channels, groups and samples. */

enum tmk_status tmk_conv_check_bias(const struct tmk_tensor *bias, int64_t channels,
                                    struct tmk_diag *diag) {
    return bias ? tmk_want_shape(bias, bias->dtype, "B", &(struct tmk_shape){1, {channels}}, diag)
                : TMK_OK;
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
        for (size_t j = n; j % TMK_VMATH_LANES != 0; j++)
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

/* y = the convolution, each element a sum over (input channel, tap) in the order of tmk_gemm,
 * the bias added last. Scratch from `run`. */
static enum tmk_status tmk_convolve(const struct tmk_conv *conv, struct tmk_run *run) {
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
                tmk_vpanel(&(struct tmk_vpanel){.rows = conv->out,
                                                .columns = n,
                                                .depth = depth,
                                                .a = w + k,
                                                .a_row = sum,
                                                .a_depth = 1,
                                                .panel = panel,
                                                .c = y,
                                                .c_step = area,
                                                .add = k > 0});
            }
        }
    }
    if (conv->bias)
        add_bias(conv, area);
    return TMK_OK;
}

static enum tmk_status want_floats(struct tmk_infer *infer) {
    const struct tmk_tensor *bias = tmk_infer_in(infer, 2);
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_FLOAT32, "W", infer->diag));
    return bias ? tmk_want_dtype(bias, TMK_FLOAT32, "B", infer->diag) : TMK_OK;
}

enum tmk_status tmk_infer_conv(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *w = infer->in[1], *bias = tmk_infer_in(infer, 2);
    TMK_TRY(want_floats(infer));
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

/* Transposed convolution, run as a convolution whose window gathers (see ops/window.h), after the
 * weights' two channel axes have been exchanged. */

static enum tmk_status infer_conv_transpose(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *w = infer->in[1], *bias = tmk_infer_in(infer, 2);
    TMK_TRY(want_floats(infer));
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

/* ConvInteger and QLinearConv: 8-bit inputs, 32-bit sums. The padding holds the zero point, so that
 * it adds 0. */

enum { DEPTH = 256 }; /* rows gathered at a time */

struct operands {
    const struct tmk_tensor *x, *x_zero, *w, *w_zero;
    struct tmk_window window;
    struct tmk_shape shape; /* of the result */
};

/* TMK_SHAPE unless `part` (may be NULL) has one element, or one an output channel. */
static enum tmk_status want_channels(const struct tmk_tensor *part, int64_t channels,
                                     const char *what, struct tmk_diag *diag) {
    if (!part || tmk_tensor_count(part) == 1 ||
        (part->shape.rank == 1 && part->shape.dim[0] == channels))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, and must have 1 or %lld elements", what,
                    TMK_SHAPE_TEXT(&part->shape), (long long)channels);
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

static void gather_panel_integer(const int32_t *x, size_t plane, const int64_t *table, size_t taps,
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
    TMK_TRY_ALLOC(table && x && w && panel, run->diag);
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
                gather_panel_integer(x, plane, table, taps, k, step, n, panel);
                tmk_vintegers(&(struct tmk_vintegers){.rows = out,
                                                      .columns = n,
                                                      .depth = step,
                                                      .a = w + i % group * out * depth + k,
                                                      .a_step = depth,
                                                      .b = panel,
                                                      .b_step = n,
                                                      .c = sums + i * out * area + j,
                                                      .c_step = area,
                                                      .add = k > 0});
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

enum tmk_status tmk_infer_qlinear_conv(struct tmk_infer *infer) {
    struct operands o;
    TMK_TRY(find_qlinear(infer->node, infer->in, tmk_infer_in(infer, 8), &o, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[7]->dtype, &o.shape);
}

enum tmk_status tmk_run_qlinear_conv(struct tmk_run *run) {
    struct operands o;
    const struct tmk_tensor *bias = tmk_run_in(run, 8), *w_scale = run->in[4];
    struct tmk_tensor *y = run->out[0];
    TMK_TRY(find_qlinear(run->node, run->in, bias, &o, run->diag));
    size_t count = tmk_tensor_count(y), channels = (size_t)o.shape.dim[1],
           area = tmk_window_out(&o.window);
    int32_t *sums = run->scratch(run->context, count * sizeof *sums);
    TMK_TRY_ALLOC(sums, run->diag);
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

/* CausalConvWithState: each channel is convolved along its length with a kernel of its own that
 * sees the past only; what came before the first element is the state (zeros when absent), and the
 * last elements seen are the next one. Sums are in double. ONNX Runtime's operator of this name may
 * leave out elements between taps (dilation), and may have its channels last. */

enum { IN_X, IN_WEIGHTS, IN_BIAS, IN_PAST };
enum { OUT_Y, OUT_PRESENT };

struct causal {
    bool silu, last; /* last: [batch, length, channels...], else [batch, channels, length] */
    size_t batch, channels, length, taps, dilation;
};

static enum tmk_status check_attributes(const struct tmk_node *node, struct tmk_diag *diag) {
    static const char *const zero[] = {"input_channel_offset", "input_channels", "state_length",
                                       "state_update_capacity", "state_window"};
    for (size_t i = 0; i < TMK_COUNT(zero); i++)
        if (tmk_node_int(node, zero[i], 0) != 0)
            return tmk_fail(diag, TMK_UNSUPPORTED, "attribute '%s' is not supported", zero[i]);
    if (tmk_node_int(node, "ndim", 1) != 1 || tmk_node_int(node, "state_channels_last", -1) != -1)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'ndim' and 'state_channels_last' are supported with their "
                        "default values only");
    return TMK_OK;
}

static enum tmk_status read_causal(const struct tmk_node *node, const struct tmk_shape *x,
                                   const struct tmk_shape *w, struct causal *out,
                                   struct tmk_diag *diag) {
    const int64_t dilation = tmk_node_int(node, "dilation", 1);
    int activation;
    TMK_TRY(tmk_choice(node, "activation", "none silu swish", &activation, diag));
    struct causal c = {.silu = activation != 0,
                       .last = tmk_node_int(node, "channels_last", 0) != 0};
    if (dilation < 1 || dilation > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attribute 'dilation' is %lld", (long long)dilation);
    const bool ranks = c.last ? x->rank >= 3 : x->rank == 3;
    const int64_t channels =
        ranks ? (int64_t)tmk_shape_product(x, c.last ? 2 : 1, c.last ? x->rank : 2) : 0;
    if (!ranks || w->rank != 3 || w->dim[0] != channels || w->dim[1] != 1 || w->dim[2] < 1 ||
        w->dim[2] > INT32_MAX)
        return tmk_fail(diag, TMK_SHAPE, "weights of shape %s do not fit an input of shape %s",
                        TMK_SHAPE_TEXT(w), TMK_SHAPE_TEXT(x));
    c.batch = (size_t)x->dim[0];
    c.channels = (size_t)channels;
    c.length = (size_t)x->dim[c.last ? 1 : 2];
    c.taps = (size_t)w->dim[2];
    c.dilation = (size_t)dilation;
    *out = c;
    return TMK_OK;
}

static size_t kept_of(const struct causal *c) {
    return (c->taps - 1) * c->dilation;
}

static enum tmk_status infer_causal(struct tmk_infer *infer) {
    static const char *const names[] = {"input", "weight", "bias", "past_state"};
    struct tmk_diag *diag = infer->diag;
    struct causal c;
    size_t count;
    for (uint32_t i = 0; i < TMK_COUNT(names); i++)
        if (tmk_infer_in(infer, i))
            TMK_TRY(tmk_want_dtype(infer->in[i], TMK_FLOAT32, names[i], diag));
    const struct tmk_shape *x = &infer->in[IN_X]->shape;
    TMK_TRY(check_attributes(infer->node, diag));
    if (!tmk_shape_count(x, &count))
        return tmk_fail(diag, TMK_RANGE, "the input is too large");
    TMK_TRY(read_causal(infer->node, x, &infer->in[IN_WEIGHTS]->shape, &c, diag));
    struct tmk_shape state = *x;
    state.dim[c.last ? 1 : 2] = (int64_t)kept_of(&c);
    TMK_TRY(tmk_conv_check_bias(tmk_infer_in(infer, IN_BIAS), (int64_t)c.channels, diag));
    TMK_TRY(tmk_want_shape(tmk_infer_in(infer, IN_PAST), TMK_FLOAT32, "past_state", &state, diag));
    tmk_infer_put(infer, OUT_Y, TMK_FLOAT32, x);
    return tmk_infer_set(infer, OUT_PRESENT, TMK_FLOAT32, &state);
}

/* Where step t of channel i, counted through all samples, stands among `length` steps. */
static size_t place_of(const struct causal *c, size_t length, size_t i, size_t t) {
    return c->last ? (i / c->channels * length + t) * c->channels + i % c->channels
                   : i * length + t;
}

/* `seen` is the state, then the input, of channel i. */
static void run_channel(const struct causal *c, const float *kernel, double shift,
                        const float *seen, size_t i, float *y) {
    for (size_t t = 0; t < c->length; t++) {
        double sum = 0;
        for (size_t k = 0; k < c->taps; k++)
            sum += (double)kernel[k] * (double)seen[t + k * c->dilation];
        const float v = (float)(sum + shift);
        y[place_of(c, c->length, i, t)] = c->silu ? v * tmk_sigmoidf(v) : v;
    }
}

static enum tmk_status run_causal(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[IN_X], *w = run->in[IN_WEIGHTS],
                            *bias = tmk_run_in(run, IN_BIAS), *past = tmk_run_in(run, IN_PAST);
    struct tmk_tensor *y = tmk_run_out(run, OUT_Y), *present = tmk_run_out(run, OUT_PRESENT);
    struct causal c;
    size_t all;
    TMK_TRY(read_causal(run->node, &x->shape, &w->shape, &c, run->diag));
    const size_t kept = kept_of(&c);
    float *seen = tmk_add_size(kept, c.length, &all) ? tmk_scratch(run, all, sizeof *seen) : NULL;
    TMK_TRY_ALLOC(seen, run->diag);
    for (size_t i = 0; i < c.batch * c.channels; i++) {
        const size_t channel = i % c.channels;
        for (size_t t = 0; t < kept; t++)
            seen[t] = past ? ((const float *)past->data)[place_of(&c, kept, i, t)] : 0;
        for (size_t t = 0; t < c.length; t++)
            seen[kept + t] = ((const float *)x->data)[place_of(&c, c.length, i, t)];
        if (y)
            run_channel(&c, (const float *)w->data + channel * c.taps,
                        bias ? (double)((const float *)bias->data)[channel] : 0, seen, i, y->data);
        for (size_t t = 0; t < kept && present; t++)
            ((float *)present->data)[place_of(&c, kept, i, t)] = seen[c.length + t];
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_conv[] = {
    {TMK_OP_ONNX("Conv", 1, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_CONV_ATTRS, .infer = tmk_infer_conv, .run = tmk_run_conv, .cost = tmk_cost_conv},
    {TMK_OP_ONNX("ConvTranspose", 1, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS " output_padding:ints output_shape:ints",
     .infer = infer_conv_transpose, .run = run_conv_transpose, .cost = tmk_cost_conv_transpose},
    {TMK_OP_ONNX("ConvInteger", 10, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS, .infer = infer_conv_integer,
     .run = run_conv_integer, .cost = tmk_cost_conv},
    {TMK_OP_ONNX("QLinearConv", 10, INT32_MAX), TMK_OP_COUNTS(8, 9, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_CONV_ATTRS, .infer = tmk_infer_qlinear_conv,
     .run = tmk_run_qlinear_conv, .cost = tmk_cost_conv_quantized},
    {TMK_OP_ONNX("CausalConvWithState", 27, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 2),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "activation:string", .infer = infer_causal,
     .run = run_causal, .cost = tmk_cost_conv},
    {TMK_OP_CONTRIB("CausalConvWithState"), TMK_OP_COUNTS(2, 4, 2, 2),
     .attrs = "activation:string channels_last:int dilation:int input_channel_offset:int "
              "input_channels:int ndim:int state_channels_last:int state_length:int "
              "state_update_capacity:int state_window:int",
     .infer = infer_causal, .run = run_causal, .cost = tmk_cost_conv},
    {NULL}};
