/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are looked at together, and where they stand in the tensor. */
#pragma once

#include "stats/state.h"

/* Elements in rows of `width`: element k is `k % width * stride + k / width` behind `first` in the
 * tensor, row-major, with k / width < stride: so `first` is the lowest of them. A row-major tile
 * has width 1. */
struct tmk_tile {
    const tmk_loose_bits *x;
    size_t n, first, width, stride;
};

static inline size_t tmk_tile_logical(const struct tmk_tile *tile, size_t k) {
    return tile->width == 1 ? tile->first + k
                            : tile->first + k % tile->width * tile->stride + k / tile->width;
}

/* The place of an element of the tensor, row-major. */
static inline struct tmk_where tmk_tile_where(const struct tmk_stats_pass *pass, size_t element) {
    return (struct tmk_where){pass->at.sample + element / pass->part, element % pass->part};
}

/* Of a place in memory, which may lie in blocks: that of the element, row-major; SIZE_MAX: it fills
 * up the last block. */
static inline size_t tmk_place_of(const struct tmk_stats_pass *pass, size_t place) {
    const size_t block = pass->at.block;
    if (block <= 1)
        return place;
    const size_t lane = place % block, at = place / block % pass->rows,
                 row = place / block / pass->rows, blocks = (pass->blocked + block - 1) / block,
                 channel = row % blocks * block + lane;
    if (channel >= pass->blocked)
        return SIZE_MAX;
    return (row / blocks * pass->blocked + channel) * pass->rows + at;
}

/* Extremes of each sample: a tile was observed, after its state took it in; pass->each is there. */
void tmk_minmax_add_tile(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                         const struct tmk_tile_summary *summary);

/* Thinned histograms: one run of TMK_RUN elements in `share` is counted, and the sum of all
 * elements is kept apart, since the bins do not give it.
 *
 * A sample's part of the tensor, row-major, is cut into groups of `share` runs. In group g, the run
 * of the number floor(h * share / 2^32) is counted, where h is the upper half of
 *     mix(mix(mix(key) + sample) + g)
 * and mix is SplitMix64's output function of its argument plus 0x9e3779b97f4a7c15. A part of at
 * most one group is counted whole: small values would have too few elements otherwise. */

/* Copies the tile's elements that are to be counted, which may be zeros, and no NaN or infinity, to
 * kept[TMK_TILE]; how many. */
size_t tmk_thin_gather(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                       const struct tmk_tile_summary *summary, uint32_t *kept);

/* Adds the tile's finite elements to the state's sum. */
void tmk_thin_sum(struct tmk_stats *stats, const struct tmk_tile *tile,
                  const struct tmk_tile_summary *summary);
