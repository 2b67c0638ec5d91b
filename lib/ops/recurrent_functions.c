/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <strings.h>

#include "ops/functions.h"
#include "ops/kernel.h"
#include "ops/recurrent.h"
#include "ops/vmath.h"

/* alpha and beta: what they are when the node does not set them. */
static const struct {
    const char *name;
    bool takes_alpha, takes_beta;
    float alpha, beta;
} activations[] = {
    [TMK_ACTIVATION_AFFINE] = {"Affine", true, true, 1, 0},
    [TMK_ACTIVATION_ELU] = {"Elu", true, false, 1, 0},
    [TMK_ACTIVATION_HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2f, 0.5f},
    [TMK_ACTIVATION_LEAKY_RELU] = {"LeakyRelu", true, false, 0.01f, 0},
    [TMK_ACTIVATION_RELU] = {"Relu", false, false, 0, 0},
    [TMK_ACTIVATION_SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [TMK_ACTIVATION_SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [TMK_ACTIVATION_SOFTPLUS] = {"Softplus", false, false, 0, 0},
    [TMK_ACTIVATION_SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [TMK_ACTIVATION_TANH] = {"Tanh", false, false, 0, 0},
    [TMK_ACTIVATION_THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
};

/* Names are compared without regard to case: the first operator sets spell them either way. */
static enum tmk_status find_activation(const char *name, enum tmk_activation_kind *out,
                                       struct tmk_diag *diag) {
    for (size_t i = 0; i < TMK_COUNT(activations); i++)
        if (strcasecmp(name, activations[i].name) == 0) {
            *out = (enum tmk_activation_kind)i;
            return TMK_OK;
        }
    return tmk_fail(diag, TMK_RANGE, "attribute 'activations' names '%s', which is no function",
                    name);
}

enum tmk_status tmk_recurrent_functions(const struct tmk_node *node,
                                        const enum tmk_activation_kind *defaults, size_t n,
                                        size_t directions,
                                        struct tmk_activation out[2][TMK_RECURRENT_FUNCTIONS],
                                        struct tmk_diag *diag) {
    const struct tmk_attr *names = tmk_node_attr(node, "activations");
    size_t n_alpha, n_beta, alpha = 0, beta = 0;
    const float *alphas = tmk_node_floats(node, "activation_alpha", &n_alpha),
                *betas = tmk_node_floats(node, "activation_beta", &n_beta);
    if (names && names->n != directions * n)
        return tmk_fail(diag, TMK_RANGE, "attribute 'activations' has %zu entries, not %zu",
                        names->n, directions * n);
    for (size_t i = 0; i < directions * n; i++) {
        struct tmk_activation *f = &out[i / n][i % n];
        f->kind = defaults[i % n];
        if (names)
            TMK_TRY(find_activation(names->strings[i], &f->kind, diag));
        f->alpha = activations[f->kind].alpha;
        f->beta = activations[f->kind].beta;
        if (activations[f->kind].takes_alpha && alpha < n_alpha)
            f->alpha = alphas[alpha++];
        if (activations[f->kind].takes_beta && beta < n_beta)
            f->beta = betas[beta++];
    }
    return TMK_OK;
}

/* Cut to [0, 1]; NaN stays. */
static float to_unit(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

void tmk_recurrent_activate(const struct tmk_activation *f, size_t n, float *v) {
    float alpha = f->alpha, beta = f->beta;
#define TMK_EACH(expression)                                                                       \
    for (size_t i = 0; i < n; i++) {                                                               \
        float x = v[i];                                                                            \
        v[i] = expression;                                                                         \
    }                                                                                              \
    return
    switch (f->kind) {
    case TMK_ACTIVATION_AFFINE:
        TMK_EACH(alpha * x + beta);
    case TMK_ACTIVATION_ELU:
        TMK_EACH(x >= 0 ? x : alpha * tmk_expm1f(x));
    case TMK_ACTIVATION_HARD_SIGMOID:
        TMK_EACH(to_unit(alpha * x + beta));
    case TMK_ACTIVATION_LEAKY_RELU:
        TMK_EACH(x >= 0 ? x : alpha * x);
    case TMK_ACTIVATION_RELU:
        TMK_EACH(x <= 0 ? 0 : x);
    case TMK_ACTIVATION_SCALED_TANH:
        TMK_EACH(alpha * tmk_tanhf(beta * x));
    case TMK_ACTIVATION_SIGMOID:
        tmk_vsigmoid(v, v, n);
        return;
    case TMK_ACTIVATION_SOFTPLUS:
        tmk_vsoftplus(v, v, n);
        return;
    case TMK_ACTIVATION_SOFTSIGN:
        TMK_EACH(x / (1 + fabsf(x)));
    case TMK_ACTIVATION_TANH:
        tmk_vtanh(v, v, n);
        return;
    case TMK_ACTIVATION_THRESHOLDED_RELU:
        TMK_EACH(x <= alpha ? 0 : x);
    }
#undef TMK_EACH
}
