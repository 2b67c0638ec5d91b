/* SPDX-License-Identifier: Apache-2.0 */
/* CausalConvWithState: each channel is convolved along its length with a kernel of its own that
 * sees the past only; what came before the first element is the state (zeros when absent), and the
 * last elements seen are the next one. Sums are in double. ONNX Runtime's operator of this name may
 * leave out elements between taps (dilation), and may have its channels last. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/exp.h"

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
    const char *name = tmk_node_string(node, "activation", "none");
    const int64_t dilation = tmk_node_int(node, "dilation", 1);
    struct causal c = {.silu = strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0,
                       .last = tmk_node_int(node, "channels_last", 0) != 0};
    if (!c.silu && strcmp(name, "none") != 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'activation' is '%s', not none, silu or swish",
                        name);
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
    const struct tmk_tensor *bias = tmk_infer_in(infer, IN_BIAS),
                            *past = tmk_infer_in(infer, IN_PAST);
    TMK_TRY(check_attributes(infer->node, diag));
    if (!tmk_shape_count(x, &count))
        return tmk_fail(diag, TMK_RANGE, "the input is too large");
    TMK_TRY(read_causal(infer->node, x, &infer->in[IN_WEIGHTS]->shape, &c, diag));
    struct tmk_shape state = *x;
    state.dim[c.last ? 1 : 2] = (int64_t)kept_of(&c);
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != (int64_t)c.channels))
        return tmk_fail(diag, TMK_SHAPE, "a bias of shape %s for %zu channels",
                        TMK_SHAPE_TEXT(&bias->shape), c.channels);
    if (past && !tmk_shape_equal(&past->shape, &state))
        return tmk_fail(diag, TMK_SHAPE, "past_state has shape %s instead of %s",
                        TMK_SHAPE_TEXT(&past->shape), TMK_SHAPE_TEXT(&state));
    tmk_infer_set(infer, OUT_Y, TMK_FLOAT32, x);
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

const struct tmk_op tmk_ops_causal_conv[] = {
    {TMK_OP_ONNX("CausalConvWithState", 27, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 2),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "activation:string", .infer = infer_causal,
     .run = run_causal, .cost = tmk_cost_conv},
    {TMK_OP_CONTRIB("CausalConvWithState"), TMK_OP_COUNTS(2, 4, 2, 2),
     .attrs = "activation:string channels_last:int dilation:int input_channel_offset:int "
              "input_channels:int ndim:int state_channels_last:int state_length:int "
              "state_update_capacity:int state_window:int",
     .infer = infer_causal, .run = run_causal, .cost = tmk_cost_conv},
    {NULL}};
