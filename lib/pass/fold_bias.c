/* SPDX-License-Identifier: Apache-2.0 */
/* fold-bias: a constant for each channel that is added to a convolution's or a Gemm's result
 * becomes part of its bias.
 *
 * Add(Conv(x, W, b), t) becomes Conv(x, W, b + t). The sum's original is then the new result, and
 * the convolution's own is affine: value = original + t. Together with fold-scale-axis this is what
 * becomes of a batch normalisation behind a convolution. A result that another node reads, or that
 * is an output, stays. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/proposal.h"

struct bias {
    struct tmk_tensor sum; /* [channels] */
    uint32_t n;            /* channels */
    double *ones, *addend; /* n each, one block */
};

static void finish_bias(struct bias *bias) {
    tmk_tensor_finish(&bias->sum);
    free(bias->ones);
}

/* Channels of the result, or 0: this pass has no rule for a bias of the node. */
static uint32_t channels_of(const struct tmk_node *node) {
    const struct tmk_tensor *weights =
        node->n_inputs > 1 ? tmk_value_constant(node->inputs[1]) : NULL;
    if (!weights || weights->shape.rank < 2 || weights->dtype != TMK_FLOAT32)
        return 0;
    const struct tmk_traits *traits = tmk_node_traits(node);
    if (!tmk_op_is_product(node) || !traits->bias || tmk_node_float(node, "beta", 1) != 1)
        return 0;
    int64_t n = weights->shape.dim[tmk_op_weight_axis(node)];
    if (traits->product == TMK_PRODUCT_CONV_TRANSPOSED)
        n *= tmk_node_int(node, "group", 1);
    return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}

/* Element for a channel of a constant that has one for all, or one for each along `axis`. */
static bool one_a_channel(const struct tmk_tensor *tensor, int32_t axis, uint32_t n) {
    const size_t count = tmk_tensor_count(tensor);
    return tensor->dtype == TMK_FLOAT32 &&
           (count == 1 || (count == n && axis >= 0 && axis < tensor->shape.rank &&
                           tensor->shape.dim[axis] == (int64_t)n));
}

static double bias_element(const struct tmk_tensor *tensor, uint32_t channel) {
    return (double)((const float *)tensor->data)[tmk_tensor_count(tensor) == 1 ? 0 : channel];
}

/* False: impossible, or out of memory (see *status). */
static bool add_up(const struct tmk_node *node, const struct tmk_tensor *addend, struct bias *bias,
                   enum tmk_status *status, struct tmk_diag *diag) {
    const struct tmk_tensor *own =
        node->n_inputs > 2 && node->inputs[2] ? tmk_value_constant(node->inputs[2]) : NULL;
    if (node->n_inputs > 2 && node->inputs[2] &&
        (!own || !one_a_channel(own, own->shape.rank - 1, bias->n)))
        return false;
    bias->ones = calloc((size_t)bias->n * 2, sizeof *bias->ones);
    if (!bias->ones) {
        *status = tmk_nomem(diag);
        return false;
    }
    bias->addend = bias->ones + bias->n;
    const struct tmk_shape shape = {.rank = 1, .dim = {bias->n}};
    *status = tmk_tensor_init(&bias->sum, TMK_FLOAT32, &shape, diag);
    bool finite = *status == TMK_OK;
    for (uint32_t i = 0; finite && i < bias->n; i++) {
        bias->ones[i] = 1;
        bias->addend[i] = bias_element(addend, i);
        const double sum = bias->addend[i] + (own ? bias_element(own, i) : 0);
        ((float *)bias->sum.data)[i] = (float)sum;
        finite = isfinite((float)sum);
    }
    return finite;
}

/* The same node with another bias: operators' inputs are positions, so it is made anew. */
static enum tmk_status rebuild_node(struct tmk_rewrite *rw, struct tmk_node *node,
                                    struct tmk_value *bias, struct tmk_node **out) {
    struct tmk_value *inputs[] = {node->inputs[0], node->inputs[1], bias};
    TMK_TRY(tmk_rewrite_node(rw, node, node->domain, node->op, node->name, node->version, inputs, 3,
                             out));
    TMK_TRY(tmk_node_copy_attrs(*out, node, NULL, rw->diag));
    return tmk_value_set_type((*out)->outputs[0], &node->outputs[0]->type, rw->diag);
}

/* The bias that there was is part of the new one. */
static enum tmk_status replace_bias(struct tmk_rewrite *rw, struct tmk_node *node,
                                    struct tmk_value *fresh, const struct bias *bias) {
    struct tmk_value *old = node->n_inputs > 2 ? node->inputs[2] : NULL;
    struct tmk_relation how = {.affine = {bias->n, 0, bias->ones, bias->addend}};
    if (!old)
        return TMK_OK;
    const struct tmk_tensor *was = tmk_value_constant(old);
    if (!was || was->shape.rank != 1 || tmk_tensor_count(was) != bias->n)
        return tmk_node_set_input(node, 2, NULL, rw->diag);
    return tmk_rewrite_set_input(rw, node, 2, fresh, &how);
}

static enum tmk_status fold_sum(struct tmk_rewrite *rw, struct tmk_node *sum, struct tmk_node *node,
                                const struct bias *bias) {
    struct tmk_value *fresh = NULL, *result = node->outputs[0];
    struct tmk_node *made = NULL;
    char name[256];
    const struct tmk_value *old = node->n_inputs > 2 ? node->inputs[2] : NULL;
    snprintf(name, sizeof name, "%s/bias", node->inputs[1]->name);
    TMK_TRY(tmk_rewrite_initializer(rw, sum->graph, old ? old->name : name, &bias->sum, &fresh));
    TMK_TRY(rebuild_node(rw, node, fresh, &made));
    TMK_TRY(replace_bias(rw, node, fresh, bias));
    const struct tmk_relation how = {.affine = {bias->n, 1, bias->ones, bias->addend}};
    TMK_TRY(tmk_rewrite_replace(rw, result, made->outputs[0], &how));
    TMK_TRY(tmk_rewrite_replace(rw, sum->outputs[0], made->outputs[0], NULL));
    tmk_rewrite_remove(rw, sum);
    tmk_rewrite_remove(rw, node);
    return TMK_OK;
}

static enum tmk_status fold_bias_of(struct tmk_rewrite *rw, struct tmk_node *sum) {
    if (!tmk_node_is(sum, TMK_DOMAIN_ONNX, "Add") || sum->n_inputs != 2)
        return TMK_OK;
    const uint32_t which = tmk_value_constant(sum->inputs[1]) ? 1 : 0;
    const struct tmk_tensor *addend = tmk_value_constant(sum->inputs[which]);
    struct tmk_value *result = sum->inputs[1 - which];
    struct tmk_node *node = result->producer;
    if (!addend || !node || result->output != 0 || !tmk_rewrite_is_interior(rw, result))
        return TMK_OK;
    struct bias bias = {.n = channels_of(node)};
    const int32_t rank = tmk_value_rank(sum->outputs[0]);
    enum tmk_status status = TMK_OK;
    if (bias.n && rank >= 2 && tmk_value_rank(result) == rank &&
        one_a_channel(addend, 1 - (rank - addend->shape.rank), bias.n) &&
        add_up(node, addend, &bias, &status, rw->diag))
        status = fold_sum(rw, sum, node, &bias);
    finish_bias(&bias);
    return status;
}

static enum tmk_status fold_biases(struct tmk_rewrite *rw) {
    return tmk_rewrite_each(rw, fold_bias_of);
}

const struct tmk_pass tmk_pass_fold_bias = {
    "fold-bias", "adds constants behind convolutions and Gemms to their biases", fold_biases};
