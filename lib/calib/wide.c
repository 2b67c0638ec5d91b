/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/select.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/cost.h"
#include "calib/range_cost.h"

/* What the verdict of `quantize` calls good; the share of multiplications that may be float. */
static const double enough_decibels = 30, most_share = 0.5;

/* Noise of evenly spaced codes between the extremes, over the mean square; no range is narrower
 * than a searched one, so that this is the most that is left. */
static double decibels_of_extremes(const struct tmk_summary *facts, const struct tmk_grid *grid) {
    int32_t lowest, highest;
    double low = fmin((double)facts->min, 0), high = fmax((double)facts->max, 0);
    if (!tmk_grid_codes(grid, &lowest, &highest) || !facts->finite || !(low < high))
        return HUGE_VAL;
    if (grid->symmetric)
        low = -fmax(-low, high), high = -low;
    const double step = (high - low) / ((double)highest - lowest);
    const double square = facts->sumsq_est / (double)facts->finite;
    return 10 * log10(12 * square / (step * step));
}

/* By the range with the least squared error. */
static enum tmk_status decibels_of_value(const struct tmk_profile_tensor *t,
                                         const struct tmk_grid *grid, double *out,
                                         struct tmk_diag *diag) {
    struct tmk_summary facts;
    struct tmk_spread spread;
    struct tmk_clip_choice choice;
    float scale;
    int32_t zero_point;
    *out = HUGE_VAL;
    if (!t->stats || tmk_stats_level_of(t->stats) != TMK_STATS_HISTOGRAM)
        return TMK_OK;
    tmk_stats_summary(t->stats, &facts);
    if (!(decibels_of_extremes(&facts, grid) < enough_decibels))
        return TMK_OK;
    const struct tmk_stats *const stats[] = {t->stats};
    TMK_TRY(tmk_spread_make(stats, 1, &spread, diag));
    enum tmk_status status = tmk_search_range(&spread, grid, NULL, &choice, diag);
    TMK_THEN(status, tmk_grid_fit(grid, choice.low, choice.high, &scale, &zero_point, diag));
    if (status == TMK_OK) {
        const double noise = tmk_expect_mse(&spread, grid, (double)scale, zero_point);
        *out = noise > 0 ? 10 * log10(spread.square / noise) : HUGE_VAL;
    }
    tmk_spread_finish(&spread);
    return status;
}

struct wide {
    uint32_t node;
    double decibels, products;
};

static int widest_first(const void *a, const void *b) {
    const struct wide *x = a, *y = b;
    return x->decibels != y->decibels ? TMK_ORDER(x->decibels, y->decibels)
                                      : TMK_ORDER(x->node, y->node);
}

/* *list: those with too few decibels; malloc'ed. *all: multiplications of all that have 8 bits by
 * default. */
static enum tmk_status list_wide(const struct tmk_net *net, const struct tmk_grid *grid,
                                 const struct tmk_patterns *patterns, struct wide **list,
                                 uint32_t *n, double *all, struct tmk_diag *diag) {
    struct wide *found = calloc((size_t)net->n_nodes + 1, sizeof *found);
    TMK_TRY_ALLOC(found, diag);
    *list = found;
    for (uint32_t i = 0; i < net->n_nodes; i++) {
        const double products = tmk_products_of(net, i);
        if (!products || patterns->of[i] != TMK_PATTERN_NONE ||
            net->nodes[i].traits->product == TMK_PRODUCT_CONV_TRANSPOSED)
            continue;
        *all += products;
        double least = HUGE_VAL;
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t x = tmk_net_input(net, i, k);
            double decibels;
            if (!tmk_net_varies(net, x))
                continue;
            TMK_TRY(decibels_of_value(tmk_net_tensor(net, x), grid, &decibels, diag));
            least = fmin(least, decibels);
        }
        if (least < enough_decibels)
            found[(*n)++] = (struct wide){i, least, products};
    }
    return TMK_OK;
}

enum tmk_status tmk_find_wide(const struct tmk_net *net, const struct tmk_config *config,
                              const struct tmk_patterns *patterns, float *decibels,
                              struct tmk_diag *diag) {
    const struct tmk_quant_settings *settings = &config->defaults[TMK_ENCODING_ACTIVATION];
    const struct tmk_grid grid = {.dtype = settings->dtype,
                                  .symmetric = settings->symmetric == TMK_YES,
                                  .pow2 = settings->pow2 == TMK_YES};
    struct wide *list = NULL;
    uint32_t n = 0;
    double all = 0, taken = 0;
    if ((config->quantize_sensitive == TMK_YES && !config->sensitive_dtype) ||
        tmk_dtype_bits(settings->dtype) > 8)
        return TMK_OK;
    const enum tmk_status status = list_wide(net, &grid, patterns, &list, &n, &all, diag);
    if (status == TMK_OK)
        qsort(list, n, sizeof *list, widest_first);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        if (taken + list[i].products > most_share * all)
            break;
        taken += list[i].products;
        decibels[list[i].node] = (float)list[i].decibels;
    }
    free(list);
    return status;
}
