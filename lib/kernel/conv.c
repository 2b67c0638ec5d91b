/* SPDX-License-Identifier: Apache-2.0 */
/* Conv, and what ConvTranspose shares with it.
 *
 * Layouts are chosen by shape, as measured with AVX2 and AVX-512 on the layers of ResNet-50 and
 * MobileNetV2 (tests/bench/bench_kernel.c); the first rule that fits holds:
 *
 * - 1x1 in one group, without stride or padding, on 128 places or more: plain. It is a matrix
 *   product of the bytes as they lie; reordering costs more than the blocked kernel gains. On fewer
 *   places the product is too narrow.
 * - up to 4 input channels in one group: source plain, result blocked. A blocked source would be
 *   mostly filling.
 * - depthwise, and any other 1x1: blocked. With AVX-512 oneDNN by itself takes channels last, which
 *   takes five times as long to reorder to.
 * - all others: what oneDNN likes best.
 *
 * Where the choice has no fast implementation, the others are tried.
 */
#include "kernel/onednn.h"

#include <string.h>

static bool matches(const struct tmk_node *node) {
    return strcmp(node->op, "Conv") == 0;
}

static dnnl_status_t describe(const struct tmk_request *r, const struct tmk_convolution *c,
                              const struct tmk_candidate *candidate, struct tmk_layout *weights,
                              struct tmk_layout *bias, dnnl_primitive_desc_t *out) {
    struct tmk_layout src = {0}, dst = {0};
    dnnl_dims_t src_dims, dst_dims;
    int rank = tmk_spatial_dims(&c->spatial, c->batch, c->in, c->spatial.in, src_dims);
    tmk_spatial_dims(&c->spatial, c->batch, c->out, c->spatial.out, dst_dims);
    dnnl_status_t status = tmk_layout_form(&src, rank, src_dims, candidate->src);
    if (status == dnnl_success)
        status = tmk_layout_form(&dst, rank, dst_dims, candidate->dst);
    if (status == dnnl_success) {
        struct tmk_operands operands = {&src, weights, bias, &dst};
        status = tmk_desc_convolution(r->engine, r->attr, &operands, &c->spatial.sliding,
                                      c->transposed, out);
    }
    tmk_layout_finish(&src);
    tmk_layout_finish(&dst);
    return status;
}

/* The first candidate with a fast implementation. */
static enum tmk_status choose(const struct tmk_request *r, const struct tmk_convolution *c,
                              dnnl_primitive_desc_t *out, bool *found) {
    struct tmk_layout weights = {0}, bias = {0};
    dnnl_dims_t bias_dims = {c->out};
    bool fits, biased = r->node->n_inputs > 2 && r->in[2];
    enum tmk_status status = tmk_dn_fits(
        tmk_layout_tag(&weights, c->weights_rank, c->weights, dnnl_format_tag_any), &fits, r->diag);
    if (status == TMK_OK && fits && biased)
        status = tmk_dn_fits(tmk_layout_tag(&bias, 1, bias_dims, dnnl_x), &fits, r->diag);
    *found = false;
    for (uint32_t i = 0; status == TMK_OK && fits && i < c->n_candidates && !*found; i++) {
        dnnl_primitive_desc_t desc;
        bool made;
        status =
            tmk_dn_fits(describe(r, c, &c->candidates[i], &weights, biased ? &bias : NULL, &desc),
                        &made, r->diag);
        if (status != TMK_OK || !made)
            continue;
        *found = tmk_dn_fast(desc);
        if (*found)
            *out = desc;
        else
            dnnl_primitive_desc_destroy(desc);
    }
    tmk_layout_finish(&weights);
    tmk_layout_finish(&bias);
    return status;
}

enum tmk_status tmk_convolution_create(const struct tmk_request *r, const struct tmk_convolution *c,
                                       struct tmk_accel **out) {
    dnnl_primitive_desc_t desc = NULL;
    bool found;
    TMK_TRY(choose(r, c, &desc, &found));
    if (!found)
        return TMK_OK;
    dnnl_dims_t src, dst, bias = {c->out};
    int rank = tmk_spatial_dims(&c->spatial, c->batch, c->in, c->spatial.in, src);
    tmk_spatial_dims(&c->spatial, c->batch, c->out, c->spatial.out, dst);
    struct tmk_argument a[TMK_MAX_ARGUMENTS] = {{.role = DNNL_ARG_SRC, .operand = 0},
                                                {.role = DNNL_ARG_WEIGHTS, .operand = 1}};
    uint32_t n = 2;
    dnnl_status_t status = tmk_layout_form(&a[0].plain, rank, src, TMK_FORM_PLAIN);
    if (status == dnnl_success)
        status = tmk_layout_strided(&a[1].plain, c->weights_rank, c->weights, c->weight_strides);
    if (status == dnnl_success && r->node->n_inputs > 2 && r->in[2]) {
        a[n] = (struct tmk_argument){.role = DNNL_ARG_BIAS, .operand = 2};
        status = tmk_layout_tag(&a[n++].plain, 1, bias, dnnl_x);
    }
    a[n] = (struct tmk_argument){.role = DNNL_ARG_DST, .operand = TMK_RESULT};
    if (status == dnnl_success)
        status = tmk_layout_form(&a[n].plain, rank, dst, TMK_FORM_PLAIN);
    n++;
    if (status == dnnl_success)
        return tmk_accel_build(r, sizeof(struct tmk_accel), desc, a, n, out);
    for (uint32_t i = 0; i < n; i++)
        tmk_layout_finish(&a[i].plain);
    dnnl_primitive_desc_destroy(desc);
    return tmk_dn_fits(status, &found, r->diag);
}

/* Is every window one place, and every place a window? */
static bool pointwise(const struct tmk_window *w) {
    for (int32_t i = 0; i < w->n; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->begin[i] || w->end[i])
            return false;
    return true;
}

static void rank_candidates(struct tmk_convolution *c, const struct tmk_window *w, int64_t group) {
    enum { WIDE_ENOUGH = 128, FEW_CHANNELS = 4 };
    static const struct tmk_candidate plain = {TMK_FORM_PLAIN, TMK_FORM_PLAIN},
                                      blocked = {TMK_FORM_BLOCKED, TMK_FORM_BLOCKED},
                                      image = {TMK_FORM_PLAIN, TMK_FORM_BLOCKED},
                                      any = {TMK_FORM_ANY, TMK_FORM_ANY};
    if (pointwise(w) && group == 1 && tmk_window_out(w) >= WIDE_ENOUGH)
        c->candidates[c->n_candidates++] = plain;
    else if (group == 1 && c->in <= FEW_CHANNELS)
        c->candidates[c->n_candidates++] = image;
    else if (tmk_window_taps(w) == 1 || (group > 1 && c->in == group))
        c->candidates[c->n_candidates++] = blocked;
    c->candidates[c->n_candidates++] = any;
    c->candidates[c->n_candidates++] = plain;
}

static enum tmk_status create(const struct tmk_request *r, struct tmk_accel **out) {
    const struct tmk_shape *x = &r->in[0]->shape, *w = &r->in[1]->shape;
    int64_t group = tmk_node_int(r->node, "group", 1);
    struct tmk_window window;
    TMK_TRY(tmk_window_conv(r->node, x, w, &window, r->diag));
    struct tmk_convolution c = {.batch = x->dim[0], .in = x->dim[1], .out = w->dim[0]};
    if (!tmk_spatial_of(&window, &c.spatial))
        return TMK_OK;
    int rank = c.spatial.rank, leading = group > 1;
    c.weights[0] = group;
    c.weights[leading] = c.out / group;
    c.weights[leading + 1] = c.in / group;
    memcpy(c.weights + leading + 2, c.spatial.sliding.kernel, (size_t)rank * sizeof *c.weights);
    c.weights_rank = leading + 2 + rank;
    for (int64_t step = 1, i = c.weights_rank - 1; i >= 0; step *= c.weights[i--])
        c.weight_strides[i] = step;
    rank_candidates(&c, &window, group);
    return tmk_convolution_create(r, &c, out);
}

const struct tmk_family tmk_family_conv = {matches, create, tmk_accel_run_once};
