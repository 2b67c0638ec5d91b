/* SPDX-License-Identifier: Apache-2.0 */
/* The activation functions of RNN, GRU and LSTM. */
#pragma once

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

/* The functions of every direction: attribute 'activations', or `defaults`, of which there are `n`
 * a direction. Alphas and betas go to those that take one, in order. */
enum tmk_status tmk_recurrent_functions(const struct tmk_node *node,
                                        const enum tmk_activation_kind *defaults, size_t n,
                                        size_t directions,
                                        struct tmk_activation out[2][TMK_RECURRENT_FUNCTIONS],
                                        struct tmk_diag *diag);
/* v = f(v), n elements. */
void tmk_recurrent_activate(const struct tmk_activation *f, size_t n, float *v);
