/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/cost.h"

static double elements_of(const struct tmk_profile_tensor *t) {
    struct tmk_summary summary;
    if (!t->stats)
        return 0;
    tmk_stats_quick_summary(t->stats, &summary);
    return (double)summary.count;
}

/* Terms of each sum: the last dimension of a matrix product's first operand, a convolution's
 * weights by output channel. */
static double terms_of_product(const struct tmk_net *net, uint32_t node,
                               const struct tmk_traits *traits) {
    const uint32_t w = tmk_net_input(net, node, 1), x = tmk_net_input(net, node, 0);
    if (w == TMK_NET_NONE || x == TMK_NET_NONE)
        return 0;
    const struct tmk_profile_tensor *weights = tmk_net_tensor(net, w),
                                    *data = tmk_net_tensor(net, x);
    const struct tmk_shape *shape = data->n_runs ? &data->runs[0].shape : &data->shape;
    if (traits->product == TMK_PRODUCT_MATRIX)
        return shape->rank > 0 && shape->dim[shape->rank - 1] > 0
                   ? (double)shape->dim[shape->rank - 1]
                   : 0;
    return weights->has_shape && weights->shape.rank > 0 && weights->shape.dim[0] > 0
               ? elements_of(weights) / (double)weights->shape.dim[0]
               : 0;
}

static bool has_8_bits(const struct tmk_net *net, const struct tmk_encodings *encodings,
                       uint32_t node, uint32_t input) {
    const uint32_t v = tmk_net_input(net, node, input);
    const struct tmk_encoding *e = v == TMK_NET_NONE
                                       ? NULL
                                       : tmk_encodings_find(encodings, tmk_net_tensor(net, v)->id,
                                                            net->nodes[node].name, input);
    return e && tmk_dtype_bits(e->dtype) <= 8;
}

double tmk_products_of(const struct tmk_net *net, uint32_t node) {
    const struct tmk_traits *traits = net->nodes[node].traits;
    const uint32_t y = tmk_net_output(net, node, 0);
    return traits->class == TMK_OP_MACC && tmk_net_varies(net, y)
               ? elements_of(tmk_net_tensor(net, y)) * terms_of_product(net, node, traits)
               : 0;
}

bool tmk_is_8_bit_product(const struct tmk_net *net, const struct tmk_encodings *encodings,
                          uint32_t node) {
    return has_8_bits(net, encodings, node, 0) && has_8_bits(net, encodings, node, 1);
}

static double share_of(const struct tmk_net *net, const struct tmk_encodings *encodings) {
    double all = 0, small = 0;
    for (uint32_t i = 0; i < net->n_nodes; i++) {
        const double products = tmk_products_of(net, i);
        all += products;
        if (tmk_is_8_bit_product(net, encodings, i))
            small += products;
    }
    return all > 0 ? small / all : 1;
}

static double bytes_of(const struct tmk_profile *profile, const struct tmk_encodings *encodings) {
    double bytes = 0;
    for (uint32_t v = 0; v < profile->n_tensors; v++) {
        const struct tmk_profile_tensor *t = &profile->tensors[v];
        if (t->kind != TMK_PROFILE_WEIGHT)
            continue;
        const struct tmk_encoding *e = tmk_encodings_find(encodings, t->id, NULL, 0);
        bytes += elements_of(t) * (e ? tmk_dtype_bits(e->dtype) / 8.0 : 4);
    }
    return bytes;
}

enum tmk_status tmk_cost_of(const struct tmk_profile *profile,
                            const struct tmk_encodings *encodings, struct tmk_cost *out,
                            struct tmk_diag *diag) {
    struct tmk_net net;
    const enum tmk_status status = tmk_net_init(&net, profile, diag);
    if (status == TMK_OK)
        *out = (struct tmk_cost){bytes_of(profile, encodings), share_of(&net, encodings)};
    tmk_net_finish(&net);
    return status;
}
