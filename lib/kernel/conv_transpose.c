/* SPDX-License-Identifier: Apache-2.0 */
/* ConvTranspose, oneDNN's deconvolution. ONNX stores the weights as [C, M / group, kernel...];
 * oneDNN calls the same bytes [M, C, ...] with the two channel axes' strides exchanged. */
#include "kernel/onednn.h"

#include <string.h>

static bool matches_transposed(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "ConvTranspose");
}

static enum tmk_status read_transposed(const struct tmk_request *r, struct tmk_convolution *out,
                                       bool *fits) {
    const struct tmk_shape *x = &r->in[0]->shape, *w = &r->in[1]->shape;
    int64_t group = tmk_node_int(r->node, "group", 1);
    struct tmk_window window;
    TMK_TRY(tmk_window_conv_transpose(r->node, x, w, &window, r->diag));
    struct tmk_convolution c = {.transposed = true,
                                .batch = x->dim[0],
                                .in = x->dim[1],
                                .out = r->result->shape.dim[1],
                                .group = group,
                                .candidates = {{TMK_ANY, TMK_ANY}, {0, 0}},
                                .n_candidates = 2};
    *fits = tmk_spatial_of(&window, &c.spatial);
    if (!*fits)
        return TMK_OK;
    int rank = c.spatial.rank, leading = group > 1, channels = leading;
    c.weights[0] = group;
    c.weights[channels] = c.out / group;
    c.weights[channels + 1] = c.in / group;
    memcpy(c.weights + leading + 2, c.spatial.sliding.kernel, (size_t)rank * sizeof *c.weights);
    c.weights_rank = leading + 2 + rank;
    int64_t taps = 1;
    for (int i = c.weights_rank - 1; i >= leading + 2; taps *= c.weights[i--])
        c.weight_strides[i] = taps;
    c.weight_strides[channels] = taps;
    c.weight_strides[channels + 1] = taps * c.weights[channels];
    if (leading)
        c.weight_strides[0] = c.weight_strides[2] * c.weights[2];
    *out = c;
    return TMK_OK;
}

static struct tmk_accel_layout preferred_layout(const struct tmk_request *r, uint32_t have) {
    return tmk_convolution_preferred_layout(r, have, read_transposed);
}

static enum tmk_status make_transposed(const struct tmk_dn_request *r, struct tmk_dn **out) {
    return tmk_convolution_create(r, read_transposed, out);
}

static enum tmk_status create_transposed(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_transposed, out);
}

const struct tmk_family tmk_family_conv_transpose = {matches_transposed, preferred_layout,
                                                     create_transposed,  tmk_convolution_run,
                                                     tmk_dn_destroy,     true};
