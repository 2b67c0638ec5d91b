/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include <tidemark/profile.h>

#include "base/bits.h"
#include "base/size.h"
#include "stats/state.h"

/* At least so many elements, and more than one in so many. */
enum { MANY = 16, SATURATED_SHARE = 100, SPIKE_SHARE = 10 };

/* Elements in the extreme's own bin that are proven to be the extreme itself. All of them lie on
 * one side of it: their dropped bits are at most (`outer`: the extreme of greater magnitude) or at
 * least its own; if n of the bin's are equal to it, the others differ by one or more, so that the
 * sum of the dropped bits bounds n from below. */
static uint64_t equal_to(const struct tmk_stats *stats, float extreme, bool outer) {
    const uint32_t bits = tmk_bits_of_float(extreme),
                   mask = stats->level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    while (tmk_next_bin(&walk, &one)) {
        if (one.bin != (bits & ~mask) >> 16)
            continue;
        uint64_t own = one.count * (bits & mask); /* below 2^41 * 2^23, or 2^48 * 2^16 */
        uint64_t off = outer ? own - one.low : one.low - own;
        return off < one.count ? one.count - off : 0;
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
static void find_spike(const struct tmk_stats *stats, const struct tmk_summary *s, double weight,
                       struct tmk_flags *out) {
    const uint32_t mask = s->level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    struct {
        float value;
        uint64_t n;
    } most = {s->min, out->at_min};
    if (out->at_max > most.n) {
        most.value = s->max;
        most.n = out->at_max;
    }
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    while (tmk_next_bin(&walk, &one)) {
        const uint64_t off = one.count * mask - one.low, least = one.low < off ? one.low : off;
        if (least >= one.count || one.count - least <= most.n)
            continue;
        most.n = one.count - least;
        most.value = tmk_float_of_bits((uint32_t)one.bin << 16 | (one.low < off ? 0 : mask));
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
static bool is_masked(const struct tmk_stats *stats, const struct tmk_summary *s) {
    bool near = false, others = s->max > s->min / 8;
    for (double power = 1e4; power < 1e39; power *= 10)
        near |= fabs((double)s->min + power) < power / 64;
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    while (tmk_next_bin(&walk, &one)) {
        double low, high;
        if (s->level == TMK_STATS_HISTOGRAM)
            tmk_bin_edges(one.bin, &low, &high);
        else
            tmk_octave_edges(one.bin, &low, &high);
        bool own = low <= (double)s->min && (double)s->min <= high;
        near &= own || high <= (double)s->min * 15 / 16 || low >= (double)s->min / 8;
    }
    return near && others;
}

struct tmk_flags tmk_profile_flags(const struct tmk_profile_tensor *tensor) {
    const struct tmk_stats *stats = tensor->stats;
    struct tmk_flags flags = {0};
    struct tmk_summary s;
    if (!stats)
        return flags;
    tmk_stats_summary(stats, &s);
    flags.constant = tensor->status == TMK_PROFILE_DEAD;
    flags.channels = s.channels;
    for (size_t c = 0; c < s.channels; c++)
        flags.dead_channels += s.channel_min[c] == 0 && s.channel_max[c] == 0;
    if (tensor->kind == TMK_PROFILE_WEIGHT || !s.finite)
        return flags;
    flags.min_is = tmk_sentinel(s.min);
    flags.max_is = tmk_sentinel(s.max);
    if (s.bins_used == 0)
        return flags;
    const double weight = tmk_stats_weight(stats);
    flags.at_min = equal_to(stats, s.min, s.min < 0);
    flags.at_max = equal_to(stats, s.max, s.max > 0);
    if (!flags.constant)
        find_spike(stats, &s, weight, &flags);
    flags.at_min = weighted(flags.at_min, weight);
    flags.at_max = weighted(flags.at_max, weight);
    if (!flags.min_is && is_masked(stats, &s))
        flags.min_is = "close to a power of ten, with nothing between: as behind a mask";
    flags.saturated = !flags.constant && (is_many(flags.at_min, s.finite, SATURATED_SHARE) ||
                                          is_many(flags.at_max, s.finite, SATURATED_SHARE));
    return flags;
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
