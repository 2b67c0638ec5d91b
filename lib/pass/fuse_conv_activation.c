/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-conv-activation: a convolution and the activation behind it become one operator,
 * com.microsoft::FusedConv, as ONNX Runtime's own optimiser writes it.
 *
 * Relu(Conv(x, W, b)) becomes FusedConv(x, W, b) {activation="Relu"}. The activation's original is
 * then the fused result; the convolution's own is absorbed: it exists inside the fused node only. A
 * convolution with another reader, or that is an output, stays as it is. */
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "pass/pass.h"

#define DOMAIN "com.microsoft"

/* Activations that FusedConv supports, and their parameters in its order. */
struct activation {
    const char *op;
    uint32_t n;
    const char *names[2];
    float defaults[2];
};

static const struct activation activations[] = {
    {"Relu", 0, {NULL, NULL}, {0, 0}},
    {"Sigmoid", 0, {NULL, NULL}, {0, 0}},
    {"Tanh", 0, {NULL, NULL}, {0, 0}},
    {"LeakyRelu", 1, {"alpha", NULL}, {0.01f, 0}},
    {"HardSigmoid", 2, {"alpha", "beta"}, {0.2f, 0.5f}},
    {"Clip", 2, {"min", "max"}, {0, 0}},
};

static const struct activation *activation_of(const struct tmk_node *node) {
    for (size_t i = 0; i < TMK_COUNT(activations); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, activations[i].op))
            return &activations[i];
    return NULL;
}

/* Clip's limits are operands since operator set 11; both must be known. */
static bool limit_of(const struct tmk_node *node, uint32_t input, const char *attr, float *out) {
    if (node->version < 11) {
        const struct tmk_attr *found = tmk_node_attr(node, attr);
        if (found)
            *out = found->f;
        return found != NULL;
    }
    const struct tmk_tensor *limit =
        input < node->n_inputs ? tmk_value_constant(node->inputs[input]) : NULL;
    if (!limit || limit->dtype != TMK_FLOAT32 || tmk_tensor_count(limit) != 1)
        return false;
    *out = *(const float *)limit->data;
    return true;
}

static bool parameters_of(const struct tmk_node *node, const struct activation *activation,
                          float out[2]) {
    if (strcmp(activation->op, "Clip") == 0)
        return limit_of(node, 1, "min", &out[0]) && limit_of(node, 2, "max", &out[1]);
    for (uint32_t i = 0; i < activation->n; i++)
        out[i] = tmk_node_float(node, activation->names[i], activation->defaults[i]);
    return true;
}

static enum tmk_status build_fused(struct tmk_rewrite *rw, struct tmk_node *node,
                                   struct tmk_node *conv, const struct activation *activation,
                                   const float *parameters, struct tmk_node **out) {
    TMK_TRY(tmk_rewrite_node(rw, node, DOMAIN, "FusedConv", conv->name, 1, conv->inputs,
                             conv->n_inputs, out));
    TMK_TRY(tmk_node_copy_attrs(*out, conv, NULL, rw->diag));
    TMK_TRY(tmk_node_set_text(*out, "activation", activation->op, rw->diag));
    if (!activation->n)
        return TMK_OK;
    const struct tmk_attr numbers = {.name = "activation_params",
                                     .kind = TMK_ATTR_FLOATS,
                                     .n = activation->n,
                                     .floats = parameters};
    return tmk_node_set_attr(*out, &numbers, rw->diag);
}

static enum tmk_status fuse_activation(struct tmk_rewrite *rw, struct tmk_node *node) {
    const struct activation *activation = activation_of(node);
    struct tmk_value *inner = activation && node->inputs[0] ? node->inputs[0] : NULL;
    struct tmk_node *conv = inner ? inner->producer : NULL, *fused = NULL;
    float parameters[2] = {0};
    if (!conv || !tmk_node_is(conv, TMK_DOMAIN_ONNX, "Conv") ||
        !tmk_rewrite_is_interior(rw, inner) || !parameters_of(node, activation, parameters))
        return TMK_OK;
    TMK_TRY(build_fused(rw, node, conv, activation, parameters, &fused));
    TMK_TRY(tmk_rewrite_replace(rw, node->outputs[0], fused->outputs[0], NULL));
    tmk_rewrite_absorb(rw, inner, fused->outputs[0]);
    tmk_rewrite_remove(rw, node);
    tmk_rewrite_remove(rw, conv);
    return TMK_OK;
}

static enum tmk_status fuse_activations(struct tmk_rewrite *rw) {
    return tmk_rewrite_each(rw, fuse_activation);
}

const struct tmk_pass tmk_pass_fuse_conv_activation = {
    "fuse-conv-activation", "makes one operator of a convolution and the activation behind it",
    fuse_activations, true};
