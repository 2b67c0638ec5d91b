/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, with the gates i (input), o (output), f (forget), c (candidate).
 *
 * i = f(x Wi + h Ri + Pi c + biases), f likewise (or 1 - i, with input_forget), candidate g(x Wc +
 * h Rc + biases); then c = f c + i candidate, o = f(x Wo + h Ro + Po c + biases) with the new c,
 * and h = o h(c). `clip` holds for the input of every function, as ONNX has it: of h(c), too, where
 * ONNX Runtime leaves it out.
 */
#include <string.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/recurrent.h"
#include "ops/rows.h"

enum { INPUT, OUTPUT, FORGET, CANDIDATE, GATES };

static void step_row(const struct tmk_recurrence *r, size_t b, bool coupled) {
    size_t n = r->hidden;
    const float *x = r->x[b], *products = r->products + b * GATES * n;
    float *gate = r->sums + b * GATES * n, *h = r->hidden_state + b * n, *c = r->cell_state + b * n;
    float *in = gate + INPUT * n, *out = gate + OUTPUT * n, *forget = gate + FORGET * n,
          *candidate = gate + CANDIDATE * n;
    const float *p = r->peephole; /* of i, o, f */
    for (size_t j = 0; j < GATES * n; j++)
        gate[j] = x[j] + (products[j] + r->recurrent_bias[j]);
    for (size_t j = 0; j < n && p; j++) {
        in[j] += p[INPUT * n + j] * c[j];
        forget[j] += p[FORGET * n + j] * c[j];
    }
    tmk_recurrent_activate(r, 0, n, in);
    if (coupled)
        for (size_t j = 0; j < n; j++)
            forget[j] = 1 - in[j];
    else
        tmk_recurrent_activate(r, 0, n, forget);
    tmk_recurrent_activate(r, 1, n, candidate);
    for (size_t j = 0; j < n; j++)
        c[j] = forget[j] * c[j] + in[j] * candidate[j];
    for (size_t j = 0; j < n && p; j++)
        out[j] += p[OUTPUT * n + j] * c[j];
    tmk_recurrent_activate(r, 0, n, out);
    memcpy(h, c, n * sizeof *h);
    tmk_recurrent_activate(r, 2, n, h);
    for (size_t j = 0; j < n; j++)
        h[j] *= out[j];
}

static void step_lstm(struct tmk_recurrence *r) {
    bool coupled = tmk_node_int(r->node, "input_forget", 0) != 0;
    for (size_t g = 0; g < GATES; g++)
        tmk_recurrent_multiply(r, g, r->hidden_state);
    for (size_t b = 0; b < r->batch; b++)
        if (r->x[b])
            step_row(r, b, coupled);
}

static const struct tmk_cell cell = {
    .gates = GATES,
    .has_cell = true,
    .n_functions = 3,
    .defaults = {TMK_ACTIVATION_SIGMOID, TMK_ACTIVATION_TANH, TMK_ACTIVATION_TANH},
    .step = step_lstm};

#define TMK_LSTM_ATTRS                                                                             \
    "activation_alpha:floats activation_beta:floats activations:strings clip:float "               \
    "direction:string hidden_size:int input_forget:int"

/* output_sequence: an older form of whether output 0 is wanted */
const struct tmk_op tmk_ops_lstm[] = {
    {TMK_OP_ONNX("LSTM", 1, 13), TMK_OP_COUNTS(3, 8, 0, 3), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_LSTM_ATTRS " output_sequence:int", .table = &cell, .infer = tmk_recurrent_infer,
     .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {TMK_OP_ONNX("LSTM", 14, INT32_MAX), TMK_OP_COUNTS(3, 8, 0, 3), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_LSTM_ATTRS " layout:int", .table = &cell, .infer = tmk_recurrent_infer,
     .run = tmk_recurrent_run, .cost = tmk_cost_recurrent},
    {NULL}};
