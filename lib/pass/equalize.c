/* SPDX-License-Identifier: Apache-2.0 */
/* equalize: channels of a value between two convolutions get ranges of similar size, so that one
 * scale serves all of them.
 *
 * x becomes s * x for each channel: the weights and the bias of the convolution before it take the
 * factors, those of the convolution that reads it their inverses. The value's original is then
 * affine: value = s * original. Factors are powers of two, so that outputs keep their bits (unless
 * a weight leaves the normal numbers). With M the largest magnitude of the value, m that of a
 * channel, w and W those of the weights that read the channel, and of all of them:
 *
 * - the reader is depthwise, so that its weights have a scale for each channel: s = M / m / 4, not
 *   below 1. Two bits are left for samples that go beyond those that were observed.
 * - else s = sqrt(w * M / (m * W)).
 *
 * That is done where it lowers the expected noise of operand and weights by 6 dB: M^2 * sum(w^2) +
 * W^2 * sum(m^2), without the second term for a depthwise reader. Without observed ranges
 * (tmk_pass_options.ranges) nothing is changed. */
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/proposal.h"

enum { CHANNELS = 1, LARGEST = 64 }; /* the axis; a factor at most */
/* Of the range that later samples may need, and of the noise that must remain at most. */
static const double MARGIN = 0.25, GAIN = 0.25;

/* The largest magnitude of the weights that read each channel; NULL: not known. */
static double *read_weights(const struct tmk_node *node, bool depthwise, uint32_t n) {
    const struct tmk_tensor *weights = tmk_value_constant(node->inputs[1]);
    const int32_t axis = depthwise ? 0 : 1;
    size_t inner = 1;
    double *most = calloc(n, sizeof *most);
    for (int32_t i = axis + 1; i < weights->shape.rank; i++)
        inner *= (size_t)weights->shape.dim[i];
    for (size_t i = 0; most && i < tmk_tensor_count(weights); i++) {
        double *own = &most[i / inner % n];
        *own = fmax(*own, fabs((double)((const float *)weights->data)[i]));
    }
    return most;
}

/* Of operand and weights, in units of their largest magnitudes; weights that have a scale for each
 * channel lose nothing. */
static double noise_of(const float *range, const double *weight, const double *factor, uint32_t n,
                       bool depthwise) {
    double largest = 0, heaviest = 0, of_operand = 0, of_weights = 0;
    for (uint32_t c = 0; c < n; c++) {
        const double s = factor ? factor[c] : 1;
        largest = fmax(largest, s * (double)range[c]);
        heaviest = fmax(heaviest, weight[c] / s);
        of_operand += weight[c] * weight[c] / (s * s);
        of_weights += s * s * (double)range[c] * (double)range[c];
    }
    return largest * largest * of_operand + (depthwise ? 0 : heaviest * heaviest * of_weights);
}

static void choose_factors(const struct tmk_channel_ranges *r, const double *weight, bool depthwise,
                           struct tmk_scale *out) {
    double largest = 0, heaviest = 0;
    for (uint32_t c = 0; c < r->n; c++) {
        largest = fmax(largest, (double)r->most[c]);
        heaviest = fmax(heaviest, weight[c]);
    }
    for (uint32_t c = 0; c < r->n; c++) {
        const double share = (double)r->most[c] / largest, heavy = weight[c] / heaviest;
        const double wanted = depthwise ? fmax(1, MARGIN / share) : sqrt(heavy / share);
        const bool sound = isfinite(wanted) && wanted > 0;
        const double s = !sound ? 1 : fmin(LARGEST, fmax(1.0 / LARGEST, wanted));
        out->factor[c] = exp2(floor(log2(s)));
        out->inverse[c] = 1 / out->factor[c];
    }
}

static bool changes_any(const struct tmk_scale *scale) {
    for (uint32_t i = 0; i < scale->n; i++)
        if (scale->factor[i] != 1)
            return true;
    return false;
}

static enum tmk_status apply_scale(struct tmk_rewrite *rw, struct tmk_value *value,
                                   const struct tmk_scale *scale) {
    struct tmk_proposal p = {.rw = rw};
    const struct tmk_scale inverse = tmk_scale_inverse(scale);
    enum tmk_status status = TMK_OK;
    if (tmk_propose_result(&p, value, scale) && tmk_propose_readers(&p, value, &inverse))
        status = tmk_proposal_apply(&p);
    if (status == TMK_OK && p.failed)
        status = tmk_nomem(rw->diag);
    tmk_proposal_finish(&p);
    return status;
}

/* Observed ranges of the value, as it still is; NULL: there are none. */
static const struct tmk_channel_ranges *find_ranges(const struct tmk_rewrite *rw,
                                                    const struct tmk_value *value) {
    if (value->profile_id < 0 || value->profile_id >= (int64_t)rw->n_ranges)
        return NULL;
    const struct tmk_channel_ranges *r = &rw->ranges[value->profile_id];
    return r->most && r->axis == CHANNELS ? r : NULL;
}

static enum tmk_status equalize_operand(struct tmk_rewrite *rw, struct tmk_node *node) {
    const struct tmk_tensor *weights =
        node->n_inputs > 1 && node->inputs[0] ? tmk_value_constant(node->inputs[1]) : NULL;
    if (!rw->ranges || !weights || weights->dtype != TMK_FLOAT32 || weights->shape.rank < 3 ||
        tmk_node_traits(node)->product != TMK_PRODUCT_CONV)
        return TMK_OK;
    struct tmk_value *value = node->inputs[0];
    const struct tmk_channel_ranges *r = find_ranges(rw, value);
    const bool grouped = tmk_node_int(node, "group", 1) != 1;
    const bool depthwise = grouped && weights->shape.dim[1] == 1;
    if (!r || weights->shape.dim[depthwise ? 0 : 1] != (int64_t)r->n || (grouped && !depthwise))
        return TMK_OK;
    struct tmk_scale scale = {0};
    double *weight = read_weights(node, depthwise, r->n);
    if (!weight || !tmk_scale_make(r->n, CHANNELS, &scale)) {
        free(weight);
        return tmk_nomem(rw->diag);
    }
    choose_factors(r, weight, depthwise, &scale);
    const bool better = noise_of(r->most, weight, scale.factor, r->n, depthwise) <
                        GAIN * noise_of(r->most, weight, NULL, r->n, depthwise);
    free(weight);
    enum tmk_status status =
        better && changes_any(&scale) ? apply_scale(rw, value, &scale) : TMK_OK;
    tmk_scale_finish(&scale);
    return status;
}

static enum tmk_status equalize_all(struct tmk_rewrite *rw) {
    return tmk_rewrite_each(rw, equalize_operand);
}

const struct tmk_pass tmk_pass_equalize = {
    "equalize", "gives channels between two convolutions ranges of one size; takes --profile",
    equalize_all, .needs_ranges = true};
