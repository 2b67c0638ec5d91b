/* SPDX-License-Identifier: Apache-2.0 */
/* The algebra: sums of states. */
#include <stdlib.h>

#include "base/diag.h"
#include "stats/state.h"

static bool is_empty(const struct tmk_stats *stats) {
    return stats->count == 0 && stats->updates == 0;
}

static enum tmk_status check_mergeable(const struct tmk_stats *dst, const struct tmk_stats *src,
                                       uint64_t times, struct tmk_diag *diag) {
    uint64_t count, samples, updates;
    if (dst->level != src->level)
        return tmk_fail(diag, TMK_MISMATCH, "statistics of different levels do not add up");
    if (dst->share != src->share && !is_empty(dst) && !is_empty(src))
        return tmk_fail(diag, TMK_MISMATCH,
                        "one histogram counts 1/%u of the elements, the other 1/%u",
                        (unsigned)dst->share, (unsigned)src->share);
    if (__builtin_mul_overflow(src->count, times, &count) ||
        __builtin_mul_overflow(src->samples, times, &samples) ||
        __builtin_mul_overflow(src->updates, times, &updates) ||
        __builtin_add_overflow(dst->samples, samples, &samples) ||
        __builtin_add_overflow(dst->updates, updates, &updates) ||
        count > tmk_stats_limit(dst->level) - dst->count)
        return tmk_fail(diag, TMK_RANGE, "more elements than statistics can count");
    return TMK_OK;
}

/* Has the sum the wide counters of what is added? n: bins of that one's table. */
static bool shares_bins(const struct tmk_stats *dst, size_t n, uint64_t times) {
    return !dst->n_wide && !n && times == 1;
}

/* Memory first: space for counters, and channels without elements, change no state. */
static enum tmk_status reserve_counters(struct tmk_stats *dst, const struct tmk_stats *src,
                                        const struct tmk_wide *packed, size_t n, uint64_t times,
                                        struct tmk_diag *diag) {
    const struct tmk_channels *channels = &src->channels;
    const size_t fresh =
        (size_t)tmk_stats_fresh(dst, src->wide, src->n_wide) + tmk_stats_fresh(dst, packed, n);
    if (!shares_bins(dst, n, times))
        TMK_TRY_ALLOC(tmk_stats_reserve(dst, fresh), diag);
    return src->count > 0 ? tmk_channels_join(&dst->channels, dst->count, channels->kind,
                                              channels->axis, channels->count, diag)
                          : TMK_OK;
}

static void add_state(struct tmk_stats *dst, const struct tmk_stats *src,
                      const struct tmk_wide *packed, size_t n, uint64_t times) {
    const uint64_t before = tmk_stats_outside(dst);
    if (is_empty(dst) && !is_empty(src))
        tmk_stats_thin_as(dst, src);
    tmk_exact_add_times(&dst->sum, &src->sum, times);
    if (shares_bins(dst, n, times)) {
        tmk_stats_share_bins(dst, src);
    } else { /* there is space */
        (void)tmk_stats_add_bins(dst, src->wide, src->n_wide, times);
        (void)tmk_stats_add_bins(dst, packed, n, times);
    }
    if (src->coarse && src->n_wide + n > 0)
        tmk_stats_coarsen(dst);
    if (src->count > 0 && dst->channels.kind == TMK_CHANNELS_KNOWN)
        tmk_channels_merge(&dst->channels, &src->channels);
    dst->count += src->count * times;
    dst->nan += src->nan * times;
    dst->posinf += src->posinf * times;
    dst->neginf += src->neginf * times;
    dst->excluded += src->excluded * times;
    dst->padding += src->padding * times;
    dst->zeros += src->zeros * times;
    dst->negative_zeros += src->negative_zeros * times;
    dst->outside += tmk_stats_outside(dst) - before;
    dst->samples += src->samples * times;
    dst->updates += src->updates * times;
    tmk_extreme_lower(&dst->min, src->min);
    tmk_extreme_update(&dst->max, src->max);
    tmk_where_earlier(&dst->first_nonfinite, src->first_nonfinite);
}

enum tmk_status tmk_stats_merge_times(struct tmk_stats *dst, const struct tmk_stats *src,
                                      uint64_t times, struct tmk_diag *diag) {
    struct tmk_wide *packed = NULL;
    size_t n = 0;
    TMK_TRY(check_mergeable(dst, src, times, diag));
    if (times == 0)
        return TMK_OK;
    if (src->in_table)
        TMK_TRY(tmk_stats_list(src, &packed, &n, diag));
    enum tmk_status status = reserve_counters(dst, src, packed, n, times, diag);
    if (status == TMK_OK)
        add_state(dst, src, packed, n, times);
    free(packed);
    return status;
}

enum tmk_status tmk_stats_merge(struct tmk_stats *dst, const struct tmk_stats *src,
                                struct tmk_diag *diag) {
    return tmk_stats_merge_times(dst, src, 1, diag);
}
