/* SPDX-License-Identifier: Apache-2.0 */
/* States as sorted bins. */
#include <math.h>
#include <stdlib.h>

#include <tidemark/profile.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/method.h"
#include "stats/state.h"

static enum tmk_status fill_columns(const struct tmk_stats *stats, const struct tmk_summary *facts,
                                    struct tmk_spread *out, struct tmk_diag *diag) {
    struct tmk_bin_walk walk = {.stats = stats}, again = walk;
    struct tmk_wide one;
    const uint32_t n = facts->bins_used;
    uint32_t negative = 0;
    out->columns = calloc(n + 1u, 4 * sizeof *out->columns);
    TMK_TRY_ALLOC(out->columns, diag);
    double *lo = out->columns, *hi = lo + n, *mean = hi + n, *count = mean + n;
    out->n = n;
    out->lo = lo, out->hi = hi, out->mean = mean, out->count = count;
    while (tmk_next_bin(&walk, &one))
        negative += one.bin >> 15;
    for (uint32_t row = 0; tmk_next_bin(&again, &one); row++) {
        /* of the bins, positive ones ascend by value, negative ones descend */
        const uint32_t at = one.bin >> 15 ? n - 1 - row : negative + row;
        tmk_bin_edges(one.bin, &lo[at], &hi[at]);
        lo[at] = fmax(lo[at], (double)facts->min);
        hi[at] = fmin(hi[at], (double)facts->max);
        mean[at] = tmk_bin_mean(one.bin, one.count, one.low);
        count[at] = (double)one.count;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double half = tmk_spread_half(out, i);
        out->square += count[i] * (mean[i] * mean[i] + half * half / 3);
    }
    out->square /= out->finite;
    return TMK_OK;
}

static enum tmk_status check_level(const struct tmk_stats *stats, struct tmk_diag *diag) {
    if (tmk_stats_level_of(stats) != TMK_STATS_HISTOGRAM)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "the profile has no histogram of this value; profile it with histograms");
    return TMK_OK;
}

static enum tmk_status of_state(const struct tmk_stats *stats, struct tmk_spread *out,
                                struct tmk_diag *diag) {
    struct tmk_summary facts;
    struct tmk_spread made = {0};
    TMK_TRY(check_level(stats, diag));
    tmk_stats_summary(stats, &facts);
    if (facts.finite == 0)
        return tmk_fail(diag, TMK_NOTFOUND, "no finite element was seen");
    made.finite = (double)facts.finite;
    made.zeros = (double)facts.zeros;
    made.min = facts.min;
    made.max = facts.max;
    TMK_TRY(fill_columns(stats, &facts, &made, diag));
    *out = made;
    return TMK_OK;
}

/* ---- thinned histograms ---- */

enum { BINS = 1 << 16, SIGN = 1 << 15 };

/* Estimates of all elements, by bin. */
struct estimate {
    double *count, *sum; /* [BINS] */
    double finite, zeros;
    float min, max;
};

/* An extreme is there, whether it was counted or not. */
static void add_extreme(struct estimate *e, float extreme) {
    const uint32_t bin = tmk_bits_of_float(extreme) >> 16;
    if (extreme == 0 || e->count[bin] > 0)
        return;
    e->count[bin] = 1;
    e->sum[bin] = (double)extreme;
}

static void add_estimate(struct estimate *e, const struct tmk_stats *stats) {
    struct tmk_summary facts;
    tmk_stats_quick_summary(stats, &facts);
    const double weight = tmk_stats_weight(stats), others = (double)(facts.finite - facts.zeros);
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    while (tmk_next_bin(&walk, &one)) {
        const double count = (double)one.count * weight;
        e->count[one.bin] += count;
        e->sum[one.bin] += count * tmk_bin_mean(one.bin, one.count, one.low);
    }
    if (facts.finite && weight == 0 && others > 0) /* nothing but zeros was counted */
        for (int end = 0; end < 2; end++) {
            const float extreme = end ? facts.max : facts.min;
            const uint32_t bin = tmk_bits_of_float(extreme) >> 16;
            const double count = facts.min == 0 || facts.max == 0 ? others : others / 2;
            e->count[bin] += extreme == 0 ? 0 : count;
            e->sum[bin] += (double)extreme * count;
        }
    e->finite += (double)facts.finite;
    e->zeros += (double)facts.zeros;
    e->min = facts.finite ? fminf(e->min, facts.min) : e->min;
    e->max = facts.finite ? fmaxf(e->max, facts.max) : e->max;
}

static enum tmk_status fill_estimated(struct estimate *e, struct tmk_spread *out,
                                      struct tmk_diag *diag) {
    uint32_t n = 0;
    add_extreme(e, e->min);
    add_extreme(e, e->max);
    for (uint32_t bin = 0; bin < BINS; bin++)
        n += e->count[bin] > 0;
    struct tmk_spread made = {
        .n = n, .finite = e->finite, .zeros = e->zeros, .min = e->min, .max = e->max};
    made.columns = calloc(n + 1u, 4 * sizeof *made.columns);
    TMK_TRY_ALLOC(made.columns, diag);
    double *lo = made.columns, *hi = lo + n, *mean = hi + n, *count = mean + n;
    made.lo = lo, made.hi = hi, made.mean = mean, made.count = count;
    for (uint32_t step = 0, i = 0; step < BINS; step++) { /* by value: the negative ones first */
        const uint32_t bin = step < SIGN ? BINS - 1 - step : step - SIGN;
        if (!(e->count[bin] > 0))
            continue;
        tmk_bin_edges((uint16_t)bin, &lo[i], &hi[i]);
        lo[i] = fmax(lo[i], (double)e->min);
        hi[i] = fmin(hi[i], (double)e->max);
        count[i] = e->count[bin];
        mean[i] = fmin(fmax(e->sum[bin] / e->count[bin], lo[i]), hi[i]);
        const double half = tmk_spread_half(&made, i);
        made.square += count[i] * (mean[i] * mean[i] + half * half / 3) / e->finite;
        i++;
    }
    *out = made;
    return TMK_OK;
}

static enum tmk_status of_thinned(const struct tmk_stats *const *stats, uint32_t n,
                                  struct tmk_spread *out, struct tmk_diag *diag) {
    struct estimate e = {.count = calloc(BINS, sizeof *e.count),
                         .sum = calloc(BINS, sizeof *e.sum),
                         .min = INFINITY,
                         .max = -INFINITY};
    enum tmk_status status = e.count && e.sum ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        status = check_level(stats[i], diag);
        if (status == TMK_OK)
            add_estimate(&e, stats[i]);
    }
    if (status == TMK_OK && e.finite == 0)
        status = tmk_fail(diag, TMK_NOTFOUND, "no finite element was seen");
    TMK_THEN(status, fill_estimated(&e, out, diag));
    free(e.count);
    free(e.sum);
    return status;
}

enum tmk_status tmk_spread_make(const struct tmk_stats *const *stats, uint32_t n,
                                struct tmk_spread *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i++)
        if (tmk_stats_is_thinned(stats[i]))
            return of_thinned(stats, n, out, diag);
    if (n == 1)
        return of_state(stats[0], out, diag);
    struct tmk_stats *all = NULL;
    enum tmk_status status = tmk_stats_create(TMK_STATS_HISTOGRAM, &all, diag);
    for (uint32_t i = 0; i < n && status == TMK_OK; i++) {
        status = check_level(stats[i], diag);
        TMK_THEN(status, tmk_stats_merge(all, stats[i], diag));
    }
    TMK_THEN(status, of_state(all, out, diag));
    tmk_stats_destroy(&all);
    return status;
}

enum tmk_status tmk_spread_take_samples(struct tmk_spread *spread, const float *min,
                                        const float *max, uint64_t n, struct tmk_diag *diag) {
    if (n == 0 || (spread->n_samples && spread->n_samples != n))
        return tmk_fail(diag, TMK_ARGUMENT, "values have extremes of other numbers of samples");
    if (!spread->sample_min) {
        size_t size;
        float *both = n <= SIZE_MAX / 2 && tmk_mul_size((size_t)n * 2, sizeof *both, &size)
                          ? malloc(size)
                          : NULL;
        TMK_TRY_ALLOC(both, diag);
        for (uint64_t i = 0; i < 2 * n; i++)
            both[i] = NAN;
        spread->sample_min = both;
        spread->sample_max = both + n;
        spread->n_samples = n;
    }
    for (uint64_t i = 0; i < n; i++) { /* of a NaN and a number these are the number */
        spread->sample_min[i] = fminf(spread->sample_min[i], min[i]);
        spread->sample_max[i] = fmaxf(spread->sample_max[i], max[i]);
    }
    return TMK_OK;
}

/* Rules that derive values return elements of their sources, or clip them. `left` values may still
 * be visited: a damaged profile may derive values in a circle. */
static bool merge_topk(const struct tmk_profile *profile, const struct tmk_profile_tensor *tensor,
                       uint32_t *left, struct tmk_topk *out) {
    if (tensor->topk.n) {
        tmk_topk_merge(out, NULL, &tensor->topk, NULL);
        return true;
    }
    bool known = tensor->n_sources > 0;
    for (uint32_t i = 0; i < tensor->n_sources && known; i++) {
        const struct tmk_profile_tensor *source = tmk_profile_by_id(profile, tensor->sources[i]);
        known = source && *left > 0 && ((*left)--, merge_topk(profile, source, left, out));
    }
    return known;
}

bool tmk_spread_take_topk(struct tmk_spread *spread, const struct tmk_profile *profile,
                          const struct tmk_profile_tensor *tensor) {
    uint32_t left = 1000;
    struct tmk_summary facts;
    if (!tensor->stats || !merge_topk(profile, tensor, &left, &spread->topk))
        return false;
    tmk_stats_quick_summary(tensor->stats, &facts);
    spread->samples = facts.samples > spread->samples ? facts.samples : spread->samples;
    return true;
}

void tmk_spread_finish(struct tmk_spread *spread) {
    free(spread->columns);
    free(spread->sample_min); /* and sample_max behind it */
    *spread = (struct tmk_spread){0};
}
