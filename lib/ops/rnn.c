/* SPDX-License-Identifier: Apache-2.0 */
/* RNN and GRU: cells with one state. */
#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/recurrent.h"
#include "ops/rows.h"

/* ---- RNN: h = f(x W + h R + biases) ---- */

static void step_rnn(struct tmk_recurrence *r) {
    tmk_recurrent_multiply(r, 0, r->hidden_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *x = r->x[b], *products = r->products + b * r->hidden;
        float *h = r->hidden_state + b * r->hidden;
        if (!x)
            continue;
        for (size_t j = 0; j < r->hidden; j++)
            h[j] = x[j] + (products[j] + r->recurrent_bias[j]);
        tmk_recurrent_activate(r, 0, r->hidden, h);
    }
}

static const struct tmk_cell rnn_cell = {
    .gates = 1, .n_functions = 1, .defaults = {TMK_ACTIVATION_TANH}, .step = step_rnn};

/* ---- GRU, with the gates z (update), r (reset), h (candidate) ----
 *
 * z = f(x Wz + h Rz + biases), r likewise; candidate c = g(x Wh + (r h) Rh + biases), or, with
 * linear_before_reset, g(x Wh + bias + r (h Rh + bias)); h = (1 - z) c + z h. */

enum { UPDATE, RESET, CANDIDATE, GRU_GATES };

static void step_gru(struct tmk_recurrence *r) {
    size_t n = r->hidden, wide = GRU_GATES * n;
    bool reset_last = tmk_node_int(r->node, "linear_before_reset", 0) != 0;
    const float *bias = r->recurrent_bias;
    /* `sums`: for every row its two gates, then for every row r h */
    float *reset_state = r->sums + r->batch * (CANDIDATE * n);
    tmk_recurrent_multiply(r, UPDATE, r->hidden_state);
    tmk_recurrent_multiply(r, RESET, r->hidden_state);
    if (reset_last)
        tmk_recurrent_multiply(r, CANDIDATE, r->hidden_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *x = r->x[b], *products = r->products + b * wide;
        float *gate = r->sums + b * (CANDIDATE * n), *reset = reset_state + b * n;
        for (size_t j = 0; j < n; j++)
            reset[j] = 0;
        if (!x)
            continue;
        for (size_t j = 0; j < CANDIDATE * n; j++)
            gate[j] = x[j] + (products[j] + bias[j]);
        tmk_recurrent_activate(r, 0, CANDIDATE * n, gate);
        for (size_t j = 0; j < n; j++)
            reset[j] = gate[RESET * n + j] * r->hidden_state[b * n + j];
    }
    if (!reset_last)
        tmk_recurrent_multiply(r, CANDIDATE, reset_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *products = r->products + b * wide + CANDIDATE * n;
        float *update = r->sums + b * (CANDIDATE * n), *candidate = update + RESET * n,
              *h = r->hidden_state + b * n;
        if (!r->x[b])
            continue;
        const float *x = r->x[b] + CANDIDATE * n;
        for (size_t j = 0; j < n; j++) {
            float product = products[j] + bias[CANDIDATE * n + j];
            candidate[j] = x[j] + (reset_last ? candidate[j] * product : product);
        }
        tmk_recurrent_activate(r, 1, n, candidate);
        for (size_t j = 0; j < n; j++)
            h[j] = (1 - update[j]) * candidate[j] + update[j] * h[j];
    }
}

static const struct tmk_cell gru_cell = {.gates = GRU_GATES,
                                         .n_functions = 2,
                                         .defaults = {TMK_ACTIVATION_SIGMOID, TMK_ACTIVATION_TANH},
                                         .step = step_gru};

/* ---- rows ---- */

#define TMK_RNN_ATTRS                                                                              \
    "activation_alpha:floats activation_beta:floats activations:strings clip:float "               \
    "direction:string hidden_size:int"

/* output_sequence: an older form of whether output 0 is wanted */
const struct tmk_op tmk_ops_rnn[] = {
    {TMK_OP_ONNX("RNN", 1, 13), TMK_OP_COUNTS(3, 6, 0, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_RNN_ATTRS " output_sequence:int", .table = &rnn_cell,
     .infer = tmk_recurrent_infer, .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {TMK_OP_ONNX("RNN", 14, INT32_MAX), TMK_OP_COUNTS(3, 6, 0, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_RNN_ATTRS " layout:int", .table = &rnn_cell, .infer = tmk_recurrent_infer,
     .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {TMK_OP_ONNX("GRU", 1, 13), TMK_OP_COUNTS(3, 6, 0, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_RNN_ATTRS " linear_before_reset:int output_sequence:int", .table = &gru_cell,
     .infer = tmk_recurrent_infer, .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {TMK_OP_ONNX("GRU", 14, INT32_MAX), TMK_OP_COUNTS(3, 6, 0, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_RNN_ATTRS " layout:int linear_before_reset:int", .table = &gru_cell,
     .infer = tmk_recurrent_infer, .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {NULL}};
