/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <tidemark/profile.h>

#include "base/diag.h"

enum { SATURATED_LEAST = 16, SATURATED_SHARE = 100 };

/* Elements in the extreme's own bin that are proven to be the extreme itself. All of them lie on
 * one side of it: their dropped bits are at most (`outer`: the extreme of greater magnitude) or at
 * least its own; if n of the bin's are equal to it, the others differ by one or more, so that the
 * sum of the dropped bits bounds n from below. */
static uint64_t equal_to(float extreme, bool outer, enum tmk_stats_level level,
                         const uint16_t *bins, const uint64_t *counts, const uint64_t *lows,
                         uint32_t n) {
    uint32_t bits, mask = level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    memcpy(&bits, &extreme, sizeof bits);
    for (uint32_t i = 0; i < n; i++) {
        if (bins[i] != (bits & ~mask) >> 16)
            continue;
        uint64_t own = counts[i] * (bits & mask); /* below 2^41 * 2^23, or 2^48 * 2^16 */
        uint64_t off = outer ? own - lows[i] : lows[i] - own;
        return off < counts[i] ? counts[i] - off : 0;
    }
    return 0;
}

static enum tmk_status count_equal(const struct tmk_stats *stats, const struct tmk_summary *s,
                                   struct tmk_flags *out, struct tmk_diag *diag) {
    uint16_t *bins = malloc((s->bins_used + 1u) * sizeof *bins);
    uint64_t *counts = malloc((s->bins_used + 1u) * sizeof *counts),
             *lows = malloc((s->bins_used + 1u) * sizeof *lows);
    bool ok = bins && counts && lows;
    if (ok) {
        tmk_stats_bins(stats, bins, counts, lows);
        out->at_min = equal_to(s->min, s->min < 0, s->level, bins, counts, lows, s->bins_used);
        out->at_max = equal_to(s->max, s->max > 0, s->level, bins, counts, lows, s->bins_used);
    }
    free(bins);
    free(counts);
    free(lows);
    return ok ? TMK_OK : tmk_nomem(diag);
}

static bool is_many(uint64_t n, uint64_t all) {
    return n >= SATURATED_LEAST && n > all / SATURATED_SHARE;
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
    if (tensor->kind == TMK_PROFILE_WEIGHT || !s.finite || s.bins_used == 0)
        return TMK_OK;
    TMK_TRY(count_equal(tensor->stats, &s, out, diag));
    out->saturated =
        !out->constant && (is_many(out->at_min, s.finite) || is_many(out->at_max, s.finite));
    return TMK_OK;
}
