/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are looked at together, and where they stand in the tensor. */
#ifndef TMK_STATS_TILE_H
#define TMK_STATS_TILE_H

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

#endif
