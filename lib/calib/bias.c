/* SPDX-License-Identifier: Apache-2.0 */
/* Biases: int32 under the scale of the accumulator they are added to, input's times weight's. */
#include <float.h>
#include <math.h>

#include "base/diag.h"
#include "calib/item.h"
#include "calib/make.h"

/* The encodings of the two operands of the bias's node; false: one of them has none. */
static bool find_operands(const struct tmk_make *make, uint32_t pick, struct tmk_encoding *of[2]) {
    uint32_t macc = make->selection->picks[pick].macc;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = tmk_pick_of_input(make->selection, macc, i);
        if (p == TMK_NET_NONE || !make->items[p].n)
            return false;
        of[i] = &make->items[p];
    }
    return true;
}

/* Where the weight has a scale a channel, the other operand has one for all, and the bias an
 * element a channel, or there is no such scale. */
static const char *why_none(const struct tmk_make *make, uint32_t pick,
                            struct tmk_encoding *const of[2]) {
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    size_t elements = 0;
    if (tmk_dtype_is_float(of[0]->dtype) || tmk_dtype_is_float(of[1]->dtype))
        return "float: products of float8 numbers accumulate as floats";
    if (of[0]->n > 1 && of[1]->n > 1)
        return "float: its input has a scale a channel, and its weight, too";
    if (of[1]->block)
        return "float: its weight has scales by block";
    uint32_t n = of[0]->n > of[1]->n ? of[0]->n : of[1]->n;
    if (n > 1 && (!t->has_shape || !tmk_shape_count(&t->shape, &elements) || elements != n))
        return "float: it has not an element for each channel of the weight";
    return NULL;
}

static double max_bias(const struct tmk_make *make, uint32_t pick) {
    struct tmk_summary facts;
    tmk_stats_quick_summary(tmk_make_tensor(make, pick)->stats, &facts);
    return fmax(fabs((double)facts.min), fabs((double)facts.max));
}

/* The least scale under which the bias fits into int32, with a margin, as ONNX Runtime has it. */
static double least_scale(double magnitude) {
    return 1.0001 * (2 * magnitude) / ((double)INT32_MAX - (double)(INT32_MIN + 1));
}

/* Where the bias would overflow, the weight's scale is enlarged. */
static void make_it_fit(const struct tmk_make *make, uint32_t pick, struct tmk_encoding *of[2]) {
    double least = least_scale(max_bias(make, pick));
    struct tmk_encoding *w = of[1];
    uint32_t enlarged = 0;
    for (uint32_t i = 0; w->role == TMK_ENCODING_WEIGHT && of[0]->n == 1 && i < w->n; i++) {
        double product = (double)of[0]->scale[0] * (double)w->scale[i];
        if (product >= least || !(product > 0))
            continue;
        double scale = (double)w->scale[i] * (least / product);
        if (w->pow2)
            scale = exp2(ceil(log2(scale)));
        w->scale[i] = (float)scale;
        enlarged++;
    }
    if (!enlarged)
        return;
    w->rule = tmk_built_in_name(TMK_RULE_BIAS_FITS);
    w->expected.known = false;
    tmk_encoding_set_clip(w);
    tmk_make_remark(
        make,
        "p%u '%s': %u of its %u scales were enlarged, since a bias as large as the largest "
        "of p%u '%s' would not fit into int32",
        w->id, w->name, enlarged, w->n, tmk_make_tensor(make, pick)->id,
        tmk_make_tensor(make, pick)->name);
}

static int32_t long_axis(const struct tmk_profile_tensor *t) {
    for (int32_t i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] != 1)
            return i;
    return t->shape.rank - 1;
}

static enum tmk_status make_bias(struct tmk_make *make, uint32_t pick,
                                 struct tmk_encoding *const of[2]) {
    struct tmk_encoding *e = &make->items[pick];
    uint32_t n = of[0]->n > of[1]->n ? of[0]->n : of[1]->n;
    TMK_TRY(tmk_make_begin(make, pick, n));
    e->rule = "input-times-weight";
    e->pow2 = of[0]->pow2 && of[1]->pow2;
    e->n_sources = 2;
    for (uint32_t i = 0; i < 2; i++)
        e->sources[i] = of[i]->id;
    if (n > 1)
        e->axis = long_axis(tmk_make_tensor(make, pick));
    for (uint32_t i = 0; i < n; i++) {
        float scale = of[0]->scale[of[0]->n > 1 ? i : 0] * of[1]->scale[of[1]->n > 1 ? i : 0];
        e->scale[i] = scale >= FLT_MIN && isfinite(scale) ? scale : FLT_MIN;
        e->low[i] = e->observed_min;
        e->high[i] = e->observed_max;
    }
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

enum tmk_status tmk_make_biases(struct tmk_make *make) {
    struct tmk_encoding *of[2];
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < make->selection->n_picks; i++) {
            if (make->selection->picks[i].role != TMK_ENCODING_BIAS || make->dropped[i])
                continue;
            if (pass == 0) {
                make->dropped[i] = find_operands(make, i, of)
                                       ? why_none(make, i, of)
                                       : "float: the input or the weight of its operator is";
                if (!make->dropped[i] && make->config->built_in[TMK_RULE_BIAS_FITS])
                    make_it_fit(make, i, of);
            } else if (find_operands(make, i, of)) {
                TMK_TRY(make_bias(make, i, of));
            }
        }
    return TMK_OK;
}
