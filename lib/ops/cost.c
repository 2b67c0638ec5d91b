/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cost.h"

#include <stdatomic.h>

#include "base/diag.h"

/* The process's, as is the memory limit. */
static _Atomic double limit = TMK_MAX_OPERATIONS;

void tmk_operations_set_limit(double operations) {
    atomic_store(&limit, operations);
}

double tmk_operations_limit(void) {
    return atomic_load(&limit);
}

double tmk_cost_count(const struct tmk_tensor *tensor) {
    double count = 1;
    if (!tensor)
        return 0;
    for (int32_t i = 0; i < tensor->shape.rank; i++)
        count *= (double)tensor->shape.dim[i];
    return count;
}

double tmk_cost_dim(const struct tmk_tensor *tensor, int32_t axis) {
    if (!tensor)
        return 1;
    axis += axis < 0 ? tensor->shape.rank : 0;
    return axis >= 0 && axis < tensor->shape.rank ? (double)tensor->shape.dim[axis] : 1;
}

double tmk_op_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                   const struct tmk_infer_result *results) {
    struct tmk_tensor first = {0};
    const struct tmk_tensor *out = NULL;
    if (node->n_outputs && results[0].known) {
        tmk_tensor_borrow(&first, results[0].dtype, &results[0].shape, NULL);
        out = &first;
    }
    double cost = node->row->cost ? node->row->cost(node, in, out) : 0;
    const bool reads = !tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY);
    for (uint32_t i = 0; reads && i < node->n_inputs; i++)
        cost += tmk_cost_count(in[i]);
    return cost + tmk_cost_count(out) * node->n_outputs;
}

enum tmk_status tmk_cost_check(double own, double sum, struct tmk_diag *diag) {
    const double most = tmk_operations_limit();
    if (!most || sum <= most)
        return TMK_OK;
    return tmk_fail(diag, TMK_LIMIT,
                    "takes about %.2g operations, %.2g with all before it, and the limit is %.2g "
                    "(--max-operations)",
                    own, sum, most);
}

/* ---- what rows share ---- */

double tmk_cost_product(const struct tmk_node *node, const struct tmk_tensor *const *in,
                        const struct tmk_tensor *out) {
    return tmk_cost_count(out) * tmk_cost_dim(in[0], tmk_node_int(node, "transA", 0) ? -2 : -1);
}

/* Each result is a sum over one output channel's weights. */
static double conv_cost(const struct tmk_tensor *weights, const struct tmk_tensor *out) {
    const double channels = tmk_cost_dim(weights, 0);
    return channels ? tmk_cost_count(out) * tmk_cost_count(weights) / channels : 0;
}

double tmk_cost_conv(const struct tmk_node *node, const struct tmk_tensor *const *in,
                     const struct tmk_tensor *out) {
    (void)node;
    return conv_cost(in[1], out);
}

double tmk_cost_conv_quantized(const struct tmk_node *node, const struct tmk_tensor *const *in,
                               const struct tmk_tensor *out) {
    (void)node;
    return conv_cost(in[3], out);
}

/* Here the weights' first axis has the input's channels. */
double tmk_cost_conv_transpose(const struct tmk_node *node, const struct tmk_tensor *const *in,
                               const struct tmk_tensor *out) {
    (void)node;
    (void)out;
    return conv_cost(in[1], in[0]);
}

double tmk_cost_window(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    (void)in;
    const struct tmk_attr *kernel = tmk_node_attr(node, "kernel_shape");
    double cost = tmk_cost_count(out);
    for (size_t i = 0; kernel && kernel->kind == TMK_ATTR_INTS && i < kernel->n; i++)
        cost *= (double)kernel->ints[i];
    return cost;
}

double tmk_cost_recurrent(const struct tmk_node *node, const struct tmk_tensor *const *in,
                          const struct tmk_tensor *out) {
    (void)node;
    (void)out;
    return tmk_cost_dim(in[0], 0) * tmk_cost_dim(in[0], 1) *
           (tmk_cost_count(in[1]) + tmk_cost_count(in[2]));
}

double tmk_cost_attention(const struct tmk_node *node, const struct tmk_tensor *const *in,
                          const struct tmk_tensor *out) {
    double keys = tmk_cost_dim(in[0], -2), past = 0;
    for (uint32_t i = 1; i < node->n_inputs; i++)
        if (in[i] && in[i]->shape.rank == 3 && tmk_cost_dim(in[i], -2) > keys)
            keys = tmk_cost_dim(in[i], -2);
        else if (in[i] && in[i]->shape.rank > 3 && tmk_cost_dim(in[i], -2) > past)
            past = tmk_cost_dim(in[i], -2);
    return (tmk_cost_count(in[0]) + tmk_cost_count(out)) * (keys + past);
}

double tmk_cost_projection(const struct tmk_node *node, const struct tmk_tensor *const *in,
                           const struct tmk_tensor *out) {
    return tmk_cost_attention(node, in, out) + tmk_cost_count(in[0]) * tmk_cost_dim(in[1], -1);
}
