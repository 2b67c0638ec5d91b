/* SPDX-License-Identifier: Apache-2.0 */
/* What RNN, GRU and LSTM share: their inputs, activation functions, and the walk over the steps.
 *
 * The products of the input with W are computed for all steps at once, those of the hidden state
 * with R step by step; in between stands the cell, in which alone the three differ.
 */
#ifndef TMK_OPS_RECURRENT_H
#define TMK_OPS_RECURRENT_H

#include "ops/ops.h"

enum { TMK_RECURRENT_FUNCTIONS = 3 }; /* most activation functions of one direction */

enum tmk_activation_kind {
    TMK_ACTIVATION_AFFINE,
    TMK_ACTIVATION_ELU,
    TMK_ACTIVATION_HARD_SIGMOID,
    TMK_ACTIVATION_LEAKY_RELU,
    TMK_ACTIVATION_RELU,
    TMK_ACTIVATION_SCALED_TANH,
    TMK_ACTIVATION_SIGMOID,
    TMK_ACTIVATION_SOFTPLUS,
    TMK_ACTIVATION_SOFTSIGN,
    TMK_ACTIVATION_TANH,
    TMK_ACTIVATION_THRESHOLDED_RELU
};

struct tmk_activation {
    enum tmk_activation_kind kind;
    float alpha, beta;
};

/* One direction, at one step. G gates of H units; vectors of G * H floats hold the gates in the
 * order of W. */
struct tmk_recurrence {
    const struct tmk_node *node;
    size_t batch, hidden, gates;
    struct tmk_activation function[TMK_RECURRENT_FUNCTIONS];
    bool clipped;
    float clip;
    /* The rows of the batch at this step: input times W with W's bias, G * H floats; NULL: the
     * sequence has ended. */
    const float **x;
    float *hidden_state;         /* batch x H: from the last step, to be replaced */
    float *cell_state;           /* the same of LSTM, else NULL */
    float *products;             /* batch x G * H: products of a state with R */
    const float *recurrent_bias; /* G * H */
    const float *peephole;       /* LSTM: 3 * H, or NULL */
    float *sums;                 /* batch x G * H */
    const float *weights;        /* R: gate by gate, H x H */
};

struct tmk_cell {
    size_t gates;
    bool has_cell; /* a cell state besides the hidden state, and peepholes: LSTM */
    size_t n_functions;
    enum tmk_activation_kind defaults[TMK_RECURRENT_FUNCTIONS];
    /* One step for every row of the batch. */
    void (*step)(struct tmk_recurrence *r);
};

/* The whole of infer and run; the row's table is a struct tmk_cell. */
enum tmk_status tmk_recurrent_infer(struct tmk_infer *infer);
enum tmk_status tmk_recurrent_run(struct tmk_run *run);

/* ---- for the cells ---- */

/* products[b, gate] = state[b] times R's gate, for every row; `state` is batch x H. */
void tmk_recurrent_multiply(struct tmk_recurrence *r, size_t gate, const float *state);
/* v = function(v, clipped to +-clip), n elements. */
void tmk_recurrent_activate(const struct tmk_recurrence *r, size_t function, size_t n, float *v);

#endif
