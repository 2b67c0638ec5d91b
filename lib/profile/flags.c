/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/profile.h>

#include "base/bits.h"
#include "base/diag.h"
#include "base/size.h"

/* At least so many elements, and more than one in so many. */
enum { MANY = 16, SATURATED_SHARE = 100, SPIKE_SHARE = 10 };

/* Elements in the extreme's own bin that are proven to be the extreme itself. All of them lie on
 * one side of it: their dropped bits are at most (`outer`: the extreme of greater magnitude) or at
 * least its own; if n of the bin's are equal to it, the others differ by one or more, so that the
 * sum of the dropped bits bounds n from below. */
static uint64_t equal_to(float extreme, bool outer, enum tmk_stats_level level,
                         const uint16_t *bins, const uint64_t *counts, const uint64_t *lows,
                         uint32_t n) {
    const uint32_t bits = tmk_bits_of_float(extreme),
                   mask = level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    for (uint32_t i = 0; i < n; i++) {
        if (bins[i] != (bits & ~mask) >> 16)
            continue;
        uint64_t own = counts[i] * (bits & mask); /* below 2^41 * 2^23, or 2^48 * 2^16 */
        uint64_t off = outer ? own - lows[i] : lows[i] - own;
        return off < counts[i] ? counts[i] - off : 0;
    }
    return 0;
}

static bool is_many(uint64_t n, uint64_t all, uint64_t share) {
    return n >= MANY && n > all / share;
}

/* Of all elements, as far as those that were counted tell. */
static uint64_t weighted(uint64_t n, double weight) {
    return weight == 1 ? n : (uint64_t)((double)n * weight);
}

/* The number that most elements are proven to be. In a bin, n of c elements that are its first
 * number leave at most c - n that add one or more to the sum of the dropped bits; the same from its
 * last number. */
static void find_spike(const struct tmk_summary *s, const uint16_t *bins, const uint64_t *counts,
                       const uint64_t *lows, double weight, struct tmk_flags *out) {
    uint32_t mask = s->level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    struct {
        float value;
        uint64_t n;
    } most = {s->min, out->at_min};
    if (out->at_max > most.n) {
        most.value = s->max;
        most.n = out->at_max;
    }
    for (uint32_t i = 0; i < s->bins_used; i++) {
        uint64_t off = counts[i] * mask - lows[i], least = lows[i] < off ? lows[i] : off;
        if (least >= counts[i] || counts[i] - least <= most.n)
            continue;
        most.n = counts[i] - least;
        most.value = tmk_float_of_bits((uint32_t)bins[i] << 16 | (lows[i] < off ? 0 : mask));
    }
    const uint64_t n = weighted(most.n, weight);
    if (!is_many(n, s->finite, SPIKE_SHARE))
        return;
    out->spike = most.value;
    out->at_spike = n;
}

const char *tmk_sentinel(float value) {
    static const struct {
        uint32_t bits; /* but the sign */
        const char *what;
    } ends[] = {{0x7f7fffff, "the end of float32"},
                {0x7f7f0000, "the end of bfloat16"},
                {0x477fe000, "the end of float16"}};
    const uint32_t bits = tmk_bits_of_float(value);
    for (size_t i = 0; i < TMK_COUNT(ends); i++)
        if ((bits & 0x7fffffffu) == ends[i].bits)
            return ends[i].what;
    for (double power = 1e4; power < 1e39; power *= 10)
        if (value == -(float)power)
            return "a power of ten, as in masks";
    return NULL;
}

/* Is the minimum a constant that was added to numbers that are small compared to it? It is near
 * one, and between it and an eighth of it there is nothing. */
static bool is_masked(const struct tmk_summary *s, const uint16_t *bins) {
    bool near = false, others = s->max > s->min / 8;
    for (double power = 1e4; power < 1e39; power *= 10)
        near |= fabs((double)s->min + power) < power / 64;
    for (uint32_t i = 0; i < s->bins_used; i++) {
        double low, high;
        if (s->level == TMK_STATS_HISTOGRAM)
            tmk_bin_edges(bins[i], &low, &high);
        else
            tmk_octave_edges(bins[i], &low, &high);
        bool own = low <= (double)s->min && (double)s->min <= high;
        near &= own || high <= (double)s->min * 15 / 16 || low >= (double)s->min / 8;
    }
    return near && others;
}

enum tmk_status tmk_profile_flags(const struct tmk_profile_tensor *tensor, struct tmk_flags *out,
                                  struct tmk_diag *diag) {
    struct tmk_summary s;
    *out = (struct tmk_flags){0};
    if (!tensor->stats)
        return TMK_OK;
    tmk_stats_summary(tensor->stats, &s);
    out->constant = tensor->status == TMK_PROFILE_DEAD;
    out->channels = s.channels;
    for (size_t c = 0; c < s.channels; c++)
        out->dead_channels += s.channel_min[c] == 0 && s.channel_max[c] == 0;
    if (tensor->kind == TMK_PROFILE_WEIGHT || !s.finite)
        return TMK_OK;
    out->min_is = tmk_sentinel(s.min);
    out->max_is = tmk_sentinel(s.max);
    if (s.bins_used == 0)
        return TMK_OK;
    uint16_t *bins = malloc((s.bins_used + 1u) * sizeof *bins);
    uint64_t *counts = malloc((s.bins_used + 1u) * sizeof *counts),
             *lows = malloc((s.bins_used + 1u) * sizeof *lows);
    const double weight = tmk_stats_weight(tensor->stats);
    bool ok = bins && counts && lows;
    if (ok) {
        tmk_stats_bins(tensor->stats, bins, counts, lows);
        out->at_min = equal_to(s.min, s.min < 0, s.level, bins, counts, lows, s.bins_used);
        out->at_max = equal_to(s.max, s.max > 0, s.level, bins, counts, lows, s.bins_used);
        if (!out->constant)
            find_spike(&s, bins, counts, lows, weight, out);
        out->at_min = weighted(out->at_min, weight);
        out->at_max = weighted(out->at_max, weight);
        if (!out->min_is && is_masked(&s, bins))
            out->min_is = "close to a power of ten, with nothing between: as behind a mask";
    }
    free(bins);
    free(counts);
    free(lows);
    TMK_TRY_ALLOC(ok, diag);
    out->saturated = !out->constant && (is_many(out->at_min, s.finite, SATURATED_SHARE) ||
                                        is_many(out->at_max, s.finite, SATURATED_SHARE));
    return TMK_OK;
}

bool tmk_profile_thinned(const struct tmk_profile *profile, char *out, size_t size) {
    const double confidence = 0.99;
    double error = -1, by_runs = 0;
    uint32_t share = 0, id = 0;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        struct tmk_summary s = {0};
        if (t->stats)
            tmk_stats_quick_summary(t->stats, &s);
        const double of_value = s.share ? tmk_stats_rank_error(t->stats, confidence, false) : -1;
        if (of_value <= error)
            continue;
        error = of_value;
        by_runs = tmk_stats_rank_error(t->stats, confidence, true);
        share = s.share;
        id = t->id;
    }
    if (size)
        out[0] = '\0';
    if (share)
        (void)snprintf(
            out, size,
            "histograms count one run of 64 elements in %u: with 99 %% confidence their "
            "quantiles are off by at most %.2g in rank if elements are independent, %.2g "
            "if those of a run are the same (p%u, the least counted); extremes, counts, "
            "zeros and sums are of all elements",
            (unsigned)share, error, by_runs, (unsigned)id);
    return share != 0;
}
