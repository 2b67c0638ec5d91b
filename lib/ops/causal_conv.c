/* SPDX-License-Identifier: Apache-2.0 */
/* CausalConvWithState: each channel is convolved along its length with a kernel of its own that
 * sees the past only; what came before the first element is the state (zeros when absent), and the
 * last elements seen are the next one. Sums are in double. */
#include <string.h>

#include "ops/cost.h"
#include "ops/exp.h"
#include "ops/kernel.h"
#include "ops/rows.h"

static enum tmk_status read_activation(const struct tmk_node *node, bool *silu,
                                       struct tmk_diag *diag) {
    const char *name = tmk_node_string(node, "activation", "none");
    *silu = strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0;
    if (!*silu && strcmp(name, "none") != 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'activation' is '%s', not none, silu or swish",
                        name);
    return TMK_OK;
}

static enum tmk_status infer_causal(struct tmk_infer *infer) {
    static const char *const names[] = {"input", "weight", "bias", "past_state"};
    char a[128], b[128];
    struct tmk_diag *diag = infer->diag;
    bool silu;
    TMK_TRY(read_activation(infer->node, &silu, diag));
    for (uint32_t i = 0; i < TMK_COUNT(names); i++)
        if (tmk_infer_in(infer, i))
            TMK_TRY(tmk_want_dtype(infer->in[i], TMK_FLOAT32, names[i], diag));
    const struct tmk_shape *x = &infer->in[0]->shape, *w = &infer->in[1]->shape;
    const struct tmk_tensor *bias = tmk_infer_in(infer, 2), *past = tmk_infer_in(infer, 3);
    if (x->rank != 3 || w->rank != 3 || w->dim[0] != x->dim[1] || w->dim[1] != 1 || w->dim[2] < 1)
        return tmk_fail(diag, TMK_SHAPE, "weights of shape %s do not fit an input of shape %s",
                        tmk_shape_text(w, a, sizeof a), tmk_shape_text(x, b, sizeof b));
    struct tmk_shape state = {3, {x->dim[0], x->dim[1], w->dim[2] - 1}};
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != x->dim[1]))
        return tmk_fail(diag, TMK_SHAPE, "a bias of shape %s for %lld channels",
                        tmk_shape_text(&bias->shape, a, sizeof a), (long long)x->dim[1]);
    if (past && !tmk_shape_equal(&past->shape, &state))
        return tmk_fail(diag, TMK_SHAPE, "past_state has shape %s instead of %s",
                        tmk_shape_text(&past->shape, a, sizeof a),
                        tmk_shape_text(&state, b, sizeof b));
    tmk_infer_set(infer, 0, TMK_FLOAT32, x);
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &state);
}

static enum tmk_status run_causal(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *w = run->in[1], *bias = tmk_run_in(run, 2),
                            *past = tmk_run_in(run, 3);
    struct tmk_tensor *y = tmk_run_out(run, 0), *present = tmk_run_out(run, 1);
    size_t channels = (size_t)x->shape.dim[1], length = (size_t)x->shape.dim[2],
           taps = (size_t)w->shape.dim[2], kept = taps - 1, n = tmk_shape_product(&x->shape, 0, 2),
           all;
    bool silu, fits = tmk_add_size(kept, length, &all);
    TMK_TRY(read_activation(run->node, &silu, run->diag));
    float *seen = fits ? tmk_scratch(run, all, sizeof *seen) : NULL; /* the state, then the input */
    if (!seen)
        return tmk_nomem(run->diag);
    for (size_t i = 0; i < n; i++) {
        const float *kernel = (const float *)w->data + i % channels * taps;
        double shift = bias ? (double)((const float *)bias->data)[i % channels] : 0;
        for (size_t k = 0; k < kept; k++)
            seen[k] = past ? ((const float *)past->data)[i * kept + k] : 0;
        for (size_t k = 0; k < length; k++)
            seen[kept + k] = ((const float *)x->data)[i * length + k];
        for (size_t t = 0; t < length && y; t++) {
            double sum = 0;
            for (size_t k = 0; k < taps; k++)
                sum += (double)kernel[k] * (double)seen[t + k];
            float v = (float)(sum + shift);
            ((float *)y->data)[i * length + t] = silu ? v * tmk_sigmoidf(v) : v;
        }
        for (size_t k = 0; k < kept && present; k++)
            ((float *)present->data)[i * kept + k] = seen[length + k];
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_causal_conv[] = {
    {TMK_OP_ONNX("CausalConvWithState", 27, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 2),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "activation:string", .infer = infer_causal,
     .run = run_causal, .cost = tmk_cost_conv},
    {NULL}};
