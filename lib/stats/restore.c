/* SPDX-License-Identifier: Apache-2.0 */
/* A state from numbers of a file, if they are consistent. */
#include <string.h>

#include "base/diag.h"
#include "stats/span.h"

static enum tmk_status fail_inconsistent(struct tmk_diag *diag, const char *what) {
    return tmk_fail(diag, TMK_FORMAT, "invalid statistics: %s", what);
}

static enum tmk_status check_counts(const struct tmk_summary *summary, const uint64_t *count,
                                    struct tmk_diag *diag) {
    uint64_t sum = summary->nan;
    bool fits = !__builtin_add_overflow(sum, summary->posinf, &sum) &&
                !__builtin_add_overflow(sum, summary->neginf, &sum) &&
                !__builtin_add_overflow(sum, summary->excluded, &sum) &&
                !__builtin_add_overflow(sum, summary->zeros, &sum);
    for (uint32_t i = 0; i < summary->bins_used && fits; i++)
        fits = !__builtin_add_overflow(sum, count[i], &sum);
    /* what is in no bin is counted by the rest */
    const bool apart = !tmk_stats_has_bins(summary->level) || summary->share > 1;
    if (!fits || (apart ? sum > summary->count : sum != summary->count))
        return fail_inconsistent(
            diag, "NaN, infinities, what was excluded, zeros and bins do not add up to the count");
    if (summary->padding > summary->excluded)
        return fail_inconsistent(diag, "more padding than elements that were excluded");
    if (summary->negative_zeros > summary->zeros)
        return fail_inconsistent(diag, "more negative zeros than zeros");
    if (summary->count > tmk_stats_limit(summary->level))
        return fail_inconsistent(diag, "the count is over the limit");
    return TMK_OK;
}

static enum tmk_status check_bins(const struct tmk_summary *summary, const uint16_t *bin,
                                  const uint64_t *count, struct tmk_diag *diag) {
    if (summary->bins_used > 0 && !tmk_stats_has_bins(summary->level))
        return fail_inconsistent(diag, "bins at a level without");
    if (summary->squares &&
        (summary->level != TMK_STATS_HISTOGRAM || summary->bins_used > TMK_NARROW))
        return fail_inconsistent(diag, "sums of squares of more bins than they are kept of");
    for (uint32_t i = 0; i < summary->bins_used; i++) {
        if ((bin[i] & 0x7fffu) >= 0x7f80u)
            return fail_inconsistent(diag, "a bin of values that are not finite");
        if (summary->level == TMK_STATS_RANGE && bin[i] % TMK_OCTAVE)
            return fail_inconsistent(diag, "a bin that is not an octave's first");
        if (count[i] == 0)
            return fail_inconsistent(diag, "an empty bin");
        if (i > 0 && bin[i] <= bin[i - 1])
            return fail_inconsistent(diag, "bins that do not ascend");
    }
    return TMK_OK;
}

/* An item of the value axis: keys low .. high, where something was seen. */
struct item {
    int32_t low, high;
};

static struct item item_of_bin(enum tmk_stats_level level, uint16_t bin) {
    uint32_t mask = level == TMK_STATS_HISTOGRAM ? 0xffffu : 0x7fffffu;
    int32_t head = (int32_t)((uint32_t)(bin & 0x7fffu) << 16), first = head ? head : 1,
            last = head + (int32_t)mask;
    return bin >> 15 ? (struct item){-last - 1, -first - 1} : (struct item){first, last};
}

static void update_ends(struct item *ends_low, struct item *ends_high, struct item item) {
    if (item.low < ends_low->low)
        *ends_low = item;
    if (item.high > ends_high->high)
        *ends_high = item;
}

/* Without bins: could these be the extremes of the zeros and `others` elements? */
static bool extremes_possible(const struct tmk_stats *stats, uint64_t others) {
    int32_t min = stats->min.key, max = stats->max.key;
    if (!tmk_key_is_finite(min) || !tmk_key_is_finite(max) || min > max ||
        (stats->negative_zeros && (min > -1 || max < -1)) || (stats->zeros && (min > 0 || max < 0)))
        return false;
    bool min_seen = min == 0 ? stats->zeros > 0 : min == -1 ? stats->negative_zeros > 0 : false;
    bool max_seen = max == 0 ? stats->zeros > 0 : max == -1 ? stats->negative_zeros > 0 : false;
    bool min_other = min != 0 && min != -1, max_other = max != 0 && max != -1;
    uint64_t needed = (uint64_t)min_other + (max_other && max != min);
    return (min_seen || min_other) && (max_seen || max_other) && others >= needed &&
           (others == 0 || needed > 0);
}

/* Takes away times * value. */
static void take_away(struct tmk_exact *sum, float value, uint64_t times) {
    const uint32_t bits = tmk_bits_of_float(value), exponent = bits >> 23 & 0xff;
    const uint64_t mantissa = (bits & 0x7fffffu) | (exponent ? 0x800000u : 0);
    tmk_exact_add(sum, (tmk_u128)mantissa * times, exponent ? exponent - 1 : 0, !(bits >> 31));
}

/* A thinned state: the bins are of some elements, the extremes and the sum of all. */
static enum tmk_status check_thinned(const struct tmk_stats *stats,
                                     const struct tmk_summary *summary, const uint16_t *bin,
                                     const uint64_t *count, const uint64_t *low,
                                     struct tmk_diag *diag) {
    const uint64_t n = tmk_stats_finite(stats);
    struct tmk_exact beyond_max = stats->sum, beyond_min = stats->sum;
    if (!extremes_possible(stats, n - stats->zeros - stats->negative_zeros))
        return fail_inconsistent(diag, "the extremes are not those of so many elements");
    for (uint32_t i = 0; i < summary->bins_used; i++) {
        struct tmk_span span;
        if (!tmk_span_of(summary->level, bin[i], &stats->min, &stats->max, &span) ||
            low[i] < span.first * count[i] || low[i] > span.last * count[i])
            return fail_inconsistent(diag, "a bin whose sum its elements cannot have");
    }
    take_away(&beyond_max, summary->max, n);
    take_away(&beyond_min, summary->min, n);
    tmk_exact_add(&beyond_max, 1, 0, true);
    return tmk_exact_is_negative(&beyond_max) && !tmk_exact_is_negative(&beyond_min)
               ? TMK_OK
               : fail_inconsistent(diag, "a sum that numbers between the extremes cannot have");
}

static enum tmk_status check_extremes(const struct tmk_stats *stats,
                                      const struct tmk_summary *summary, const uint16_t *bin,
                                      const uint64_t *count, const uint64_t *low,
                                      struct tmk_diag *diag) {
    if (!tmk_stats_has_bins(summary->level)) {
        uint64_t others = tmk_stats_finite(stats) - stats->zeros - stats->negative_zeros;
        return extremes_possible(stats, others)
                   ? TMK_OK
                   : fail_inconsistent(diag, "the extremes are not those of so many elements");
    }
    if (tmk_stats_is_thinned(stats))
        return check_thinned(stats, summary, bin, count, low, diag);
    struct item lowest = {INT32_MAX, INT32_MAX}, highest = {INT32_MIN, INT32_MIN};
    for (uint32_t i = 0; i < summary->bins_used; i++)
        update_ends(&lowest, &highest, item_of_bin(summary->level, bin[i]));
    if (stats->negative_zeros)
        update_ends(&lowest, &highest, (struct item){-1, -1});
    if (stats->zeros)
        update_ends(&lowest, &highest, (struct item){0, 0});
    int32_t min = stats->min.key, max = stats->max.key;
    if (min > max || min < lowest.low || min > lowest.high || max < highest.low ||
        max > highest.high)
        return fail_inconsistent(diag,
                                 "the extremes are not the ends of the lowest and highest bin");
    for (uint32_t i = 0; i < summary->bins_used; i++) {
        struct tmk_span span;
        uint64_t smallest, largest;
        if (!tmk_span_of(summary->level, bin[i], &stats->min, &stats->max, &span) ||
            !tmk_span_lows(&span, count[i], &smallest, &largest) || low[i] < smallest ||
            low[i] > largest)
            return fail_inconsistent(diag, "a bin whose sum its elements cannot have");
        if (summary->squares && !tmk_span_has_squares(&span, count[i], low[i], summary->squares[i]))
            return fail_inconsistent(diag, "a bin whose sum of squares its elements cannot have");
    }
    return TMK_OK;
}

static enum tmk_status check_channels(const struct tmk_summary *summary, struct tmk_diag *diag) {
    int32_t min = TMK_KEY_POSINF, max = TMK_KEY_NEGINF;
    if (summary->channels == 0 && summary->channel_axis == -1)
        return TMK_OK;
    if (summary->channel_conflict || summary->channels == 0 || summary->channel_axis < 0 ||
        summary->channel_axis >= TMK_MAX_RANK || summary->count == 0)
        return fail_inconsistent(diag, "the channel axis contradicts the channels");
    for (size_t c = 0; c < summary->channels; c++) {
        int32_t low = tmk_key_of_float(summary->channel_min[c]),
                high = tmk_key_of_float(summary->channel_max[c]);
        bool nothing = low == TMK_KEY_POSINF && high == TMK_KEY_NEGINF;
        if (!nothing && (low > high || !tmk_key_is_finite(low) || !tmk_key_is_finite(high)))
            return fail_inconsistent(diag, "a channel's extremes are not a range");
        min = low < min ? low : min;
        max = high > max ? high : max;
    }
    bool any =
        summary->count - summary->nan - summary->posinf - summary->neginf - summary->excluded > 0;
    if (min != (any ? tmk_key_of_float(summary->min) : TMK_KEY_POSINF) ||
        max != (any ? tmk_key_of_float(summary->max) : TMK_KEY_NEGINF))
        return fail_inconsistent(diag, "the channels' extremes are not those of the whole");
    return TMK_OK;
}

static bool is_nowhere(struct tmk_where at) {
    return at.sample == TMK_NOWHERE && at.index == TMK_NOWHERE;
}

static void restore_sum(struct tmk_stats *stats, const struct tmk_summary *summary) {
    if (!tmk_stats_is_thinned(stats))
        return;
    const uint64_t *word = summary->exact_sum;
    const uint64_t sign = word[TMK_STATS_SUM_WORDS - 1] >> 63 ? UINT64_MAX : 0;
    for (size_t i = 0; i < TMK_EXACT_WORDS; i++)
        stats->sum.word[i] = i < TMK_STATS_SUM_WORDS ? word[i] : sign;
}

static bool is_zero(const struct tmk_exact *x) {
    static const struct tmk_exact zero;
    return memcmp(x, &zero, sizeof zero) == 0;
}

static enum tmk_status fill_state(struct tmk_stats *stats, const struct tmk_summary *summary,
                                  const uint16_t *bin, const uint64_t *count, const uint64_t *low,
                                  struct tmk_diag *diag) {
    stats->count = summary->count;
    stats->nan = summary->nan;
    stats->posinf = summary->posinf;
    stats->neginf = summary->neginf;
    stats->excluded = summary->excluded;
    stats->padding = summary->padding;
    stats->zeros = summary->zeros - summary->negative_zeros;
    stats->negative_zeros = summary->negative_zeros;
    stats->samples = summary->samples;
    stats->updates = summary->updates;
    restore_sum(stats, summary);
    bool all_finite = summary->nan == 0 && summary->posinf == 0 && summary->neginf == 0;
    if (all_finite && !is_nowhere(summary->first_nonfinite))
        return fail_inconsistent(diag, "a place of NaN or infinity, but none was counted");
    stats->first_nonfinite = summary->first_nonfinite;
    if (tmk_stats_finite(stats) > 0) {
        stats->min = (struct tmk_extreme){tmk_key_of_float(summary->min), summary->min_at};
        stats->max = (struct tmk_extreme){tmk_key_of_float(summary->max), summary->max_at};
        TMK_TRY(check_extremes(stats, summary, bin, count, low, diag));
    } else if (!is_zero(&stats->sum)) {
        return fail_inconsistent(diag, "a sum of no finite element");
    }
    if (summary->bins_used && !tmk_stats_reserve(stats, summary->bins_used))
        return tmk_nomem(diag);
    if (summary->bins_used && !summary->squares)
        tmk_stats_coarsen(stats);
    for (uint32_t i = 0; i < summary->bins_used; i++)
        tmk_stats_add_bin(stats,
                          &(struct tmk_wide){count[i], low[i],
                                             summary->squares ? summary->squares[i] : 0, bin[i]});
    if (summary->channel_conflict && summary->count == 0)
        return fail_inconsistent(diag, "a channel conflict without elements");
    if (summary->channels == 0) {
        stats->channels.kind =
            summary->channel_conflict ? TMK_CHANNELS_CONFLICT : TMK_CHANNELS_NONE;
        return TMK_OK;
    }
    TMK_TRY(tmk_channels_join(&stats->channels, 0, TMK_CHANNELS_KNOWN, summary->channel_axis,
                              summary->channels, diag));
    memcpy(stats->channels.min, summary->channel_min, summary->channels * sizeof(float));
    memcpy(stats->channels.max, summary->channel_max, summary->channels * sizeof(float));
    return TMK_OK;
}

enum tmk_status tmk_stats_restore(const struct tmk_summary *summary, const uint16_t *bin,
                                  const uint64_t *count, const uint64_t *low,
                                  struct tmk_stats **out, struct tmk_diag *diag) {
    struct tmk_stats *stats;
    TMK_TRY(tmk_stats_create(summary->level, &stats, diag));
    enum tmk_status status = tmk_stats_thin(stats, summary->share ? summary->share : 1, 0, diag);
    TMK_THEN(status, check_counts(summary, count, diag));
    TMK_THEN(status, check_bins(summary, bin, count, diag));
    TMK_THEN(status, check_channels(summary, diag));
    TMK_THEN(status, fill_state(stats, summary, bin, count, low, diag));
    if (status == TMK_OK)
        *out = stats;
    else
        tmk_stats_destroy(&stats);
    return status;
}
