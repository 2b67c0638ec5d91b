/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/shadow.h"

#include <stdlib.h>

#include "base/diag.h"

enum tmk_status tmk_stats_shadow_create(const struct tmk_clamp *clamp,
                                        struct tmk_stats_shadow **out, struct tmk_diag *diag) {
    if (clamp && !(clamp->lo < clamp->hi))
        return tmk_fail(diag, TMK_ARGUMENT, "a clamp's ends are not in order");
    struct tmk_stats_shadow *shadow = calloc(1, sizeof *shadow);
    TMK_TRY_ALLOC(shadow, diag);
    shadow->concat = !clamp;
    shadow->min = (struct tmk_extreme){TMK_KEY_POSINF, tmk_nowhere};
    shadow->max = (struct tmk_extreme){TMK_KEY_NEGINF, tmk_nowhere};
    shadow->first_nonfinite = shadow->first_low = shadow->first_high = tmk_nowhere;
    shadow->infinite.kind = TMK_CHANNELS_NONE;
    shadow->infinite.axis = -1;
    if (clamp) {
        shadow->clamp = *clamp;
        shadow->low = clamp->lo == 0 ? 0 : tmk_key_of_float(clamp->lo);
        shadow->high = clamp->hi == 0 ? -1 : tmk_key_of_float(clamp->hi);
        shadow->low_finite = tmk_key_is_finite(shadow->low);
        shadow->high_finite = tmk_key_is_finite(shadow->high);
        shadow->counts_signs = clamp->lo == 0 || clamp->hi == 0;
    }
    *out = shadow;
    return TMK_OK;
}

void tmk_stats_shadow_destroy(struct tmk_stats_shadow **shadow) {
    if (!*shadow)
        return;
    tmk_channels_finish(&(*shadow)->infinite);
    free(*shadow);
    *shadow = NULL;
}

/* Channels that disagree are dropped: those of the state are in conflict then, or will be. */
static enum tmk_status merge_channels(struct tmk_channels *infinite, int32_t axis, size_t count,
                                      struct tmk_diag *diag) {
    return tmk_channels_join(infinite, infinite->kind != TMK_CHANNELS_NONE, TMK_CHANNELS_KNOWN,
                             axis, count, diag);
}

enum tmk_status tmk_stats_shadow_merge(struct tmk_stats_shadow *dst,
                                       const struct tmk_stats_shadow *src, struct tmk_diag *diag) {
    if (dst->concat != src->concat ||
        tmk_bits_of_float(dst->clamp.lo) != tmk_bits_of_float(src->clamp.lo) ||
        tmk_bits_of_float(dst->clamp.hi) != tmk_bits_of_float(src->clamp.hi))
        return tmk_fail(diag, TMK_MISMATCH, "shadows of different operators do not add up");
    if (src->infinite.kind == TMK_CHANNELS_KNOWN) {
        TMK_TRY(merge_channels(&dst->infinite, src->infinite.axis, src->infinite.count, diag));
        if (dst->infinite.kind == TMK_CHANNELS_KNOWN)
            tmk_channels_merge(&dst->infinite, &src->infinite);
    } else if (src->infinite.kind == TMK_CHANNELS_CONFLICT) {
        tmk_channels_finish(&dst->infinite);
        dst->infinite.kind = TMK_CHANNELS_CONFLICT;
    }
    dst->negatives += src->negatives;
    tmk_where_earlier(&dst->first_low, src->first_low);
    tmk_where_earlier(&dst->first_high, src->first_high);
    tmk_where_earlier(&dst->first_nonfinite, src->first_nonfinite);
    tmk_extreme_lower(&dst->min, src->min);
    tmk_extreme_update(&dst->max, src->max);
    return TMK_OK;
}

/* The lowest element of the tensor that is in the tile with smallest <= key <= largest, if before
 * *at. */
static void find_extremes(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                          int32_t min, int32_t max, struct tmk_where *at) {
    for (size_t lane = 0; lane < tile->width; lane++)
        for (size_t k = lane; k < tile->n; k += tile->width) {
            int32_t key = tmk_key_of_bits(tile->x[k]);
            if (key >= min && key <= max) {
                tmk_where_earlier(at, tmk_tile_where(pass, tmk_tile_logical(tile, k)));
                return;
            }
        }
}

static void take_finite(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                        const struct tmk_tile_summary *summary) {
    struct tmk_stats_shadow *shadow = pass->shadow;
    bool low = shadow->low_finite && tmk_tile_min(summary) <= shadow->low;
    bool high = shadow->high_finite && tmk_tile_max(summary) >= shadow->high;
    if (!low && !high)
        return;
    /* most tiles are of a later sample, which is known without a division */
    struct tmk_where lowest = {pass->at.sample, 0};
    low = low && tmk_where_before(lowest, shadow->first_low);
    high = high && tmk_where_before(lowest, shadow->first_high);
    if (!low && !high)
        return;
    lowest = tmk_tile_where(pass, tile->first);
    if (low && tmk_where_before(lowest, shadow->first_low))
        find_extremes(pass, tile, TMK_KEY_NEGINF, shadow->low, &shadow->first_low);
    if (high && tmk_where_before(lowest, shadow->first_high))
        find_extremes(pass, tile, shadow->high, TMK_KEY_POSINF, &shadow->first_high);
}

/* Element by element. */
static enum tmk_status take_special(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                    struct tmk_diag *diag) {
    struct tmk_stats_shadow *shadow = pass->shadow;
    for (size_t k = 0; k < tile->n; k++) {
        int32_t key = tmk_key_of_bits(tile->x[k]);
        bool nan = key < TMK_KEY_NEGINF || key > TMK_KEY_POSINF;
        bool low = !nan && shadow->low_finite && key <= shadow->low;
        bool high = !nan && shadow->high_finite && key >= shadow->high;
        if (tmk_key_is_finite(key) && !low && !high)
            continue;
        size_t element = tmk_tile_logical(tile, k);
        struct tmk_where here = tmk_tile_where(pass, element);
        if (low || high)
            tmk_where_earlier(low ? &shadow->first_low : &shadow->first_high, here);
        else
            tmk_where_earlier(&shadow->first_nonfinite, here);
        if (tmk_key_is_finite(key) || !(low || high) || pass->channels == 0)
            continue;
        TMK_TRY(merge_channels(&shadow->infinite, pass->at.channel_axis, pass->channels, diag));
        int32_t end = tmk_key_of_float(low ? shadow->clamp.lo : shadow->clamp.hi);
        if (shadow->infinite.kind == TMK_CHANNELS_KNOWN)
            tmk_channels_update(&shadow->infinite, element / pass->inner % pass->channels, end,
                                end);
    }
    return TMK_OK;
}

static size_t count_signs(const struct tmk_stats *stats, const struct tmk_tile *tile,
                          const struct tmk_tile_summary *summary) {
    if (!(summary->unsigned_max >> 31))
        return 0;
    if (tmk_tile_all_finite(summary))
        return summary->signed_max < 0 ? tile->n : stats->kernel->signs(tile->x, tile->n);
    size_t count = 0;
    for (size_t k = 0; k < tile->n; k++)
        count += tile->x[k] - 0x80000000u <= 0x7f800000u; /* -0 to -infinity */
    return count;
}

enum tmk_status tmk_shadow_update(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                  const struct tmk_tile_summary *summary, struct tmk_diag *diag) {
    struct tmk_stats_shadow *shadow = pass->shadow;
    if (shadow->concat)
        return TMK_OK;
    if (shadow->counts_signs && !tmk_stats_has_bins(pass->stats->level))
        shadow->negatives += count_signs(pass->stats, tile, summary);
    if (!tmk_tile_all_finite(summary))
        return take_special(pass, tile, diag);
    take_finite(pass, tile, summary);
    return TMK_OK;
}
