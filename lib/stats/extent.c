/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/extent.h"

#include <math.h>

struct tmk_extent tmk_extent_empty(void) {
    return (struct tmk_extent){INFINITY, -INFINITY, false, false};
}

static void widen(struct tmk_extent *extent, int32_t min, int32_t max) {
    if (min < tmk_key_of_float(extent->min))
        extent->min = tmk_float_of_key(min);
    if (max > tmk_key_of_float(extent->max))
        extent->max = tmk_float_of_key(max);
}

void tmk_extent_widen(struct tmk_extent *extent, const struct tmk_extent *other) {
    widen(extent, tmk_key_of_float(other->min), tmk_key_of_float(other->max));
    extent->neginf |= other->neginf;
    extent->posinf |= other->posinf;
}

void tmk_extent_clamp(struct tmk_extent *extent, const struct tmk_clamp *clamp) {
    const struct tmk_extent x = *extent;
    const int32_t low = tmk_key_of_float(clamp->lo), high = tmk_key_of_float(clamp->hi);
    *extent = tmk_extent_empty();
    if (x.min <= x.max) {
        extent->min = x.min <= clamp->lo ? clamp->lo : x.min >= clamp->hi ? clamp->hi : x.min;
        extent->max = x.max <= clamp->lo ? clamp->lo : x.max >= clamp->hi ? clamp->hi : x.max;
    }
    if (x.neginf && tmk_key_is_finite(low))
        widen(extent, low, low);
    if (x.posinf && tmk_key_is_finite(high))
        widen(extent, high, high);
    extent->neginf = x.neginf && !tmk_key_is_finite(low);
    extent->posinf = x.posinf && !tmk_key_is_finite(high);
}

void tmk_stats_each(struct tmk_stats_pass *pass, struct tmk_extent *each) {
    pass->each = each;
    pass->dull_low = TMK_KEY_POSINF;
    pass->dull_high = TMK_KEY_NEGINF;
}

void tmk_stats_each_beyond(struct tmk_stats_pass *pass, struct tmk_extent *each,
                           const struct tmk_tops *tops) {
    tmk_stats_each(pass, each);
    if (tops->n < TMK_TOPS)
        return;
    pass->dull_low = tmk_key_of_float(tops->min[TMK_TOPS - 1].value);
    pass->dull_high = tmk_key_of_float(tops->max[TMK_TOPS - 1].value);
}

struct tmk_extent tmk_stats_span(const struct tmk_stats_pass *pass) {
    struct tmk_extent extent = tmk_extent_empty();
    widen(&extent, pass->least, pass->greatest);
    return extent;
}

static void take(struct tmk_extent *extent, uint32_t bits) {
    int32_t key = tmk_key_of_bits(bits);
    if (tmk_key_is_finite(key))
        widen(extent, key, key);
    extent->neginf |= key == TMK_KEY_NEGINF;
    extent->posinf |= key == TMK_KEY_POSINF;
}

static void take_all(struct tmk_extent *extent, const struct tmk_facts *facts,
                     const tmk_loose_bits *x, size_t n) {
    if (tmk_facts_all_finite(facts))
        widen(extent, tmk_facts_min(facts), tmk_facts_max(facts));
    else
        for (size_t i = 0; i < n; i++)
            take(extent, x[i]);
}

/* A tile of several samples, row-major. */
static void take_samples(const struct tmk_stats_pass *pass, const struct tmk_tile *tile) {
    struct tmk_extent *extent = &pass->each[tile->first / pass->part];
    size_t left = pass->part - tile->first % pass->part;
    for (size_t done = 0, n; done < tile->n; done += n, left = pass->part, extent++) {
        struct tmk_facts facts;
        n = left < tile->n - done ? left : tile->n - done;
        pass->stats->kernel->survey(tile->x + done, n, NULL, &facts);
        take_all(extent, &facts, tile->x + done, n);
    }
}

void tmk_extents_take(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                      const struct tmk_facts *facts) {
    if (tmk_facts_all_finite(facts) && tmk_facts_min(facts) > pass->dull_low &&
        tmk_facts_max(facts) < pass->dull_high)
        return;
    bool cut = pass->part < pass->elements;
    /* a tile of a tensor in blocks is of one index of the first axis */
    size_t first = tile->first / pass->part,
           last = tile->width == 1 ? (tile->first + tile->n - 1) / pass->part : first;
    if (first < last) {
        take_samples(pass, tile);
        return;
    }
    struct tmk_extent all = tmk_extent_empty();
    take_all(&all, facts, tile->x, tile->n);
    for (uint64_t s = cut ? first : 0, end = cut ? first + 1 : pass->at.samples; s < end; s++)
        tmk_extent_widen(&pass->each[s], &all);
}
