/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/tile.h"

#include <math.h>

struct tmk_minmax tmk_minmax_empty(void) {
    return (struct tmk_minmax){INFINITY, -INFINITY, false, false};
}

static void merge_keys(struct tmk_minmax *range, int32_t min, int32_t max) {
    if (min < tmk_key_of_float(range->min))
        range->min = tmk_float_of_key(min);
    if (max > tmk_key_of_float(range->max))
        range->max = tmk_float_of_key(max);
}

void tmk_minmax_merge(struct tmk_minmax *range, const struct tmk_minmax *other) {
    merge_keys(range, tmk_key_of_float(other->min), tmk_key_of_float(other->max));
    range->neginf |= other->neginf;
    range->posinf |= other->posinf;
}

void tmk_minmax_clamp(struct tmk_minmax *range, const struct tmk_clamp *clamp) {
    const struct tmk_minmax x = *range;
    const int32_t low = tmk_key_of_float(clamp->lo), high = tmk_key_of_float(clamp->hi);
    *range = tmk_minmax_empty();
    if (x.min <= x.max) {
        range->min = x.min <= clamp->lo ? clamp->lo : x.min >= clamp->hi ? clamp->hi : x.min;
        range->max = x.max <= clamp->lo ? clamp->lo : x.max >= clamp->hi ? clamp->hi : x.max;
    }
    if (x.neginf && tmk_key_is_finite(low))
        merge_keys(range, low, low);
    if (x.posinf && tmk_key_is_finite(high))
        merge_keys(range, high, high);
    range->neginf = x.neginf && !tmk_key_is_finite(low);
    range->posinf = x.posinf && !tmk_key_is_finite(high);
}

void tmk_stats_each(struct tmk_stats_pass *pass, struct tmk_minmax *each) {
    pass->each = each;
    pass->skip_above = TMK_KEY_POSINF;
    pass->skip_below = TMK_KEY_NEGINF;
}

void tmk_stats_each_beyond(struct tmk_stats_pass *pass, struct tmk_minmax *each,
                           const struct tmk_topk *topk) {
    tmk_stats_each(pass, each);
    if (topk->n < TMK_TOPK)
        return;
    pass->skip_above = tmk_key_of_float(topk->min[TMK_TOPK - 1].value);
    pass->skip_below = tmk_key_of_float(topk->max[TMK_TOPK - 1].value);
}

struct tmk_minmax tmk_stats_pass_minmax(const struct tmk_stats_pass *pass) {
    struct tmk_minmax range = tmk_minmax_empty();
    merge_keys(&range, pass->min_key, pass->max_key);
    return range;
}

static void add_bits(struct tmk_minmax *range, uint32_t bits) {
    int32_t key = tmk_key_of_bits(bits);
    if (tmk_key_is_finite(key))
        merge_keys(range, key, key);
    range->neginf |= key == TMK_KEY_NEGINF;
    range->posinf |= key == TMK_KEY_POSINF;
}

static void take_all(struct tmk_minmax *range, const struct tmk_tile_summary *summary,
                     const tmk_loose_bits *x, size_t n) {
    if (tmk_tile_all_finite(summary))
        merge_keys(range, tmk_tile_min(summary), tmk_tile_max(summary));
    else
        for (size_t i = 0; i < n; i++)
            add_bits(range, x[i]);
}

/* A tile of several samples, row-major. */
static void take_samples(const struct tmk_stats_pass *pass, const struct tmk_tile *tile) {
    struct tmk_minmax *range = &pass->each[tile->first / pass->part];
    size_t left = pass->part - tile->first % pass->part;
    for (size_t done = 0, n; done < tile->n; done += n, left = pass->part, range++) {
        struct tmk_tile_summary summary;
        n = left < tile->n - done ? left : tile->n - done;
        pass->stats->kernel->scan(tile->x + done, n, NULL, &summary);
        take_all(range, &summary, tile->x + done, n);
    }
}

void tmk_minmax_add_tile(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                         const struct tmk_tile_summary *summary) {
    if (tmk_tile_all_finite(summary) && tmk_tile_min(summary) > pass->skip_above &&
        tmk_tile_max(summary) < pass->skip_below)
        return;
    bool cut = pass->part < pass->elements;
    /* a tile of a tensor in blocks is of one index of the first axis */
    size_t first = tile->first / pass->part,
           last = tile->width == 1 ? (tile->first + tile->n - 1) / pass->part : first;
    if (first < last) {
        take_samples(pass, tile);
        return;
    }
    struct tmk_minmax all = tmk_minmax_empty();
    take_all(&all, summary, tile->x, tile->n);
    for (uint64_t s = cut ? first : 0, end = cut ? first + 1 : pass->at.samples; s < end; s++)
        tmk_minmax_merge(&pass->each[s], &all);
}
