/* SPDX-License-Identifier: Apache-2.0 */
/* entropy: the threshold whose quantized histogram tells least apart from the clipped one, by
 * Kullback and Leibler's divergence: the calibration that TensorRT made known.
 *
 * Magnitudes are laid over 16 bins a level. For a threshold of i bins, P is their counts, with all
 * that is beyond in the last one; Q is the counts without that, evened out over the used bins of
 * each level. The divergence needs only sums over levels, so that a threshold costs one logarithm a
 * level.
 *
 * Single numbers that very many elements have say nothing about where to clip, but would decide:
 * the narrower the levels, the less their neighbours smear them. So zeros, which every grid has,
 * are left out, and bins that tower over those around them (a blank border behind a bias) are cut
 * down.
 *
 * The answer is unstable by nature: other bin counts, or half of the data, move it by tens of per
 * cent where mse stays. So 8 and 32 bins a level are asked, too; of all thresholds within 1 % of
 * their histogram's least divergence the one that clips least is taken, and their spread is told.
 *
 * The divergence counts elements, wherever they are, and the gaps between few elements are to it
 * what coarse levels would lose. So a threshold is raised until what it costs by squared error,
 * with clipped elements weighted as auto does, is nearer to the best than to that of the whole
 * range.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/range_cost.h"

enum {
    MOST_LEVELS = 256, /* finer grids lose nothing to speak of at any threshold */
    STRIDES = 256,
    FINALISTS = 3,
    AROUND = 16, /* bins at either side of a tower */
    TOWER = 4,   /* times their mean */
};

static const uint32_t bins_a_level[] = {8, 16, 32};
enum { VARIANTS = TMK_COUNT(bins_a_level) };

struct divergence {
    uint32_t levels, n;         /* bins */
    double *sum, *used, *plogp; /* [n + 1]: over the bins before: counts, how many are not empty,
                                   count * log(count) */
};

static double x_log_x(double x) {
    return x > 0 ? x * log(x) : 0;
}

/* counts [n] of magnitudes. */
static void count_bins(const struct tmk_excess sides[2], double most, double *counts, uint32_t n) {
    double least = most * 0x1p-1000;
    double before = tmk_excess_count(&sides[0], least) + tmk_excess_count(&sides[1], least);
    for (uint32_t i = 0; i < n; i++) {
        double end = most * (i + 1) / n;
        double beyond =
            i + 1 < n ? tmk_excess_count(&sides[0], end) + tmk_excess_count(&sides[1], end) : 0;
        counts[i] = fmax(before - beyond, 0);
        before = beyond;
    }
}

static void fill_sums(struct divergence *d, const double *counts) {
    double around = 0, used = 0;
    for (uint32_t i = 0; i < AROUND && i < d->n; i++) {
        around += counts[i];
        used += counts[i] > 0;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        if (i + AROUND < d->n) {
            around += counts[i + AROUND];
            used += counts[i + AROUND] > 0;
        }
        if (i > AROUND) {
            around -= counts[i - AROUND - 1];
            used -= counts[i - AROUND - 1] > 0;
        }
        double here = counts[i], others = used - (here > 0);
        if (others > 0)
            here = fmin(here, TOWER * fmax(around - here, 0) / others);
        d->sum[i + 1] = d->sum[i] + here;
        d->used[i + 1] = d->used[i] + (here > 0);
        d->plogp[i + 1] = d->plogp[i] + x_log_x(here);
    }
}

/* Of the first i bins, in counts times its unit (all thresholds share one total); HUGE_VAL where
 * something is beyond, but the last bin, which would take it in, is empty in Q. */
static double divergence_at(const struct divergence *d, uint32_t i) {
    double all = d->sum[d->n], kept = d->sum[i], last = kept - d->sum[i - 1];
    double beyond = all - kept, of_levels = 0;
    if (beyond > 0 && !(last > 0))
        return HUGE_VAL;
    double of_counts = d->plogp[i] - x_log_x(last) + x_log_x(last + beyond);
    for (uint32_t level = 0; level < d->levels; level++) {
        uint32_t from = (uint32_t)((uint64_t)level * i / d->levels);
        uint32_t to = (uint32_t)((uint64_t)(level + 1) * i / d->levels);
        double sum = d->sum[to] - d->sum[from];
        if (sum > 0)
            of_levels += (sum + (to == i ? beyond : 0)) * log(sum / (d->used[to] - d->used[from]));
    }
    return (of_counts - of_levels) / all + log(kept / all);
}

struct threshold {
    uint32_t bins;
    double divergence;
};

static void rank_threshold(struct threshold best[FINALISTS], struct threshold next) {
    for (int i = 0; i < FINALISTS; i++)
        if (next.divergence < best[i].divergence) {
            struct threshold out = best[i];
            best[i] = next;
            next = out;
        }
}

/* From all bins downwards, first in strides. tried[i]: what was found for i bins, or 0 bins. */
static struct threshold search_thresholds(const struct divergence *d, struct threshold *tried) {
    struct threshold best[FINALISTS];
    uint32_t stride = d->n > STRIDES ? d->n / STRIDES : 1;
    for (int i = 0; i < FINALISTS; i++)
        best[i] = (struct threshold){d->n, HUGE_VAL};
    for (uint32_t i = d->n; i >= d->levels; i -= stride) {
        tried[i] = (struct threshold){i, divergence_at(d, i)};
        rank_threshold(best, tried[i]);
    }
    struct threshold found = best[0];
    for (int b = 0; b < FINALISTS; b++)
        for (uint32_t i = best[b].bins - stride + 1; i < best[b].bins + stride; i++) {
            if (i < d->levels || i > d->n || tried[i].bins)
                continue;
            tried[i] = (struct threshold){i, divergence_at(d, i)};
            if (tried[i].divergence < found.divergence)
                found = tried[i];
        }
    return found;
}

static uint32_t levels_of(const struct tmk_grid *grid, const struct tmk_spread *spread) {
    int32_t lowest, highest;
    if (!tmk_grid_codes(grid, &lowest, &highest))
        return MOST_LEVELS / 2;
    double codes = (double)highest - lowest + 1;
    bool is_one_sided = spread->min >= 0 || spread->max <= 0;
    if (grid->symmetric || !is_one_sided)
        codes = ceil(codes / 2);
    return codes > MOST_LEVELS ? 0 : (uint32_t)codes;
}

/* Between which thresholds the divergence is as good as the least. */
struct found {
    double from, to;
};

static struct found search_variant(struct divergence *d, const struct tmk_excess sides[2],
                                   double most, double *columns, struct threshold *tried) {
    size_t n = d->n;
    d->sum = columns;
    d->used = columns + n + 1;
    d->plogp = columns + 2 * (n + 1);
    double *counts = columns + 3 * (n + 1);
    memset(columns, 0, 4 * (n + 1) * sizeof *columns);
    memset(tried, 0, (n + 1) * sizeof *tried);
    count_bins(sides, most, counts, d->n);
    fill_sums(d, counts);
    struct threshold best = search_thresholds(d, tried);
    uint32_t from = best.bins, to = best.bins;
    for (uint32_t i = d->levels; i <= d->n; i++)
        if (tried[i].bins && tried[i].divergence <= best.divergence * 1.01) {
            from = i < from ? i : from;
            to = i > to ? i : to;
        }
    return (struct found){most * from / d->n, most * to / d->n};
}

static enum tmk_status search_all(uint32_t levels, const struct tmk_excess sides[2], double most,
                                  struct found *out, struct tmk_diag *diag) {
    size_t most_bins = (size_t)levels * bins_a_level[VARIANTS - 1] + 1;
    double *columns = calloc(most_bins, 4 * sizeof *columns);
    struct threshold *tried = calloc(most_bins, sizeof *tried);
    enum tmk_status status = columns && tried ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        *out = (struct found){most, 0};
        for (int v = 0; v < VARIANTS; v++) {
            struct divergence d = {.levels = levels, .n = levels * bins_a_level[v]};
            struct found found = search_variant(&d, sides, most, columns, tried);
            out->from = fmin(out->from, found.from);
            out->to = fmax(out->to, found.to);
        }
    }
    free(columns);
    free(tried);
    return status;
}

static enum tmk_status choose_entropy(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                      double parameter, struct tmk_clip_choice *out,
                                      struct tmk_diag *diag) {
    (void)parameter;
    struct tmk_excess sides[2] = {{0}, {0}};
    uint32_t levels = spread->n ? levels_of(grid, spread) : 0;
    double most = fmax(-(double)spread->min, (double)spread->max);
    struct found found = {most, most};
    const struct tmk_range_cost cost = {.weight = tmk_clip_weight(spread->samples)};
    enum tmk_status status = TMK_OK;
    if (levels > 0) {
        status = tmk_excess_make(spread, false, &sides[0], diag);
        TMK_THEN(status, tmk_excess_make(spread, true, &sides[1], diag));
        TMK_THEN(status, search_all(levels, sides, most, &found, diag));
        TMK_THEN(status, tmk_widen_thresholds(spread, grid, &cost, sides, most, &found.from,
                                              &found.to, diag));
        tmk_excess_finish(&sides[0]);
        tmk_excess_finish(&sides[1]);
    }
    TMK_TRY(status);
    float low = (float)fmax((double)spread->min, -found.to);
    float high = (float)fmin((double)spread->max, found.to);
    *out = (struct tmk_clip_choice){.low = low,
                                    .high = high,
                                    .low_from = (double)low,
                                    .low_to = (double)low,
                                    .high_from = (double)high,
                                    .high_to = (double)high,
                                    .flat_low = found.from,
                                    .flat_high = found.to};
    out->flat = levels > 0 && found.from <= 0.95 * found.to;
    return TMK_OK;
}

const struct tmk_method tmk_method_entropy = {
    .name = "entropy",
    .help = "the threshold with the least Kullback-Leibler divergence; tells how unsure it is",
    .wants_histogram = true,
    .searches = true,
    .parameter = 0,
    .choose = choose_entropy,
};
