/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that touch every element, once for each instruction set. All give the same integers. */
#pragma once

#include <stddef.h>

#include "stats/key.h"

enum {
    TMK_LANES = 16,    /* columns in which elements are reduced */
    TMK_COLUMNS = 512, /* that widen_columns takes in one go */
    TMK_TILE = 2048,   /* elements a tile: 8 KiB stay in the first-level cache between its passes */
    TMK_TABLE = 1 << 16, /* entries of the packed table */
    /* elements until an entry could overflow, or its sum of dropped bits reach a unit */
    TMK_PACK_MAX = (1 << 24) - (1 << 16)
};

/* What an element adds to its entry of the packed table: 2^40 and its bits as they are, since
 * taking only the dropped ones would cost an instruction more for each. So an entry is its count
 * times this unit of the bin, and the sum of dropped bits, which is less than a unit. */
static inline uint64_t tmk_pack_unit(uint32_t bin) {
    return (UINT64_C(1) << 40) + ((uint64_t)bin << 16);
}

/* What one tile or run held. From three integer reductions follow both extremes, and whether a NaN
 * or an infinity is there: the largest as signed integers (largest positive), the largest and
 * smallest as unsigned ones (most negative; smallest magnitude of the only sign present). Only
 * where that is asked is unsigned_min looked for: among finite elements of one sign; else it is 0.
 */
struct tmk_tile_summary {
    int32_t signed_max;
    uint32_t unsigned_max, unsigned_min;
    uint32_t zeros, negative_zeros;
};

static inline bool tmk_tile_all_finite(const struct tmk_tile_summary *summary) {
    return summary->signed_max < 0x7f800000 && summary->unsigned_max < 0xff800000u;
}

/* For summary that are all finite, of at least one element. */
static inline int32_t tmk_tile_min(const struct tmk_tile_summary *summary) {
    return tmk_key_of_bits(summary->unsigned_max >> 31 ? summary->unsigned_max
                                                       : summary->unsigned_min);
}

static inline int32_t tmk_tile_max(const struct tmk_tile_summary *summary) {
    return summary->signed_max >= 0 ? summary->signed_max : tmk_key_of_bits(summary->unsigned_min);
}

/* Where elements lie in rows of `width` 8 or 16: extremes to widen, [width]. When the elements are
 * all finite, min[i] and max[i] become those of what they were and of column i; else they stay. */
struct tmk_columns {
    size_t width;
    tmk_loose_bits *min, *max; /* floats; +inf and -inf: nothing so far */
};

enum {
    TMK_SUM_LANES = 32,
    TMK_SUM_OCTAVES = 24 /* of elements that a lane adds up exactly: TMK_TILE / TMK_SUM_LANES of
                            them have 24 + 23 + 6 bits, as many as a double */
};

struct tmk_stats_kernel {
    const char *name;
    /* Overwrites *summary with those of n > 0 elements, n < 2^32. columns: NULL, or n is a multiple
     * of its width. */
    void (*scan)(const tmk_loose_bits *x, size_t n, const struct tmk_columns *columns,
                 struct tmk_tile_summary *summary);
    /* The same of n <= TMK_TILE elements, and adds the nonzero ones to table[TMK_TABLE]. `sparse`:
     * many zeros are expected; only speed depends on it. */
    void (*tile)(const tmk_loose_bits *x, size_t n, bool sparse, const struct tmk_columns *columns,
                 uint64_t *table, struct tmk_tile_summary *summary);
    /* Adds to the table n <= TMK_TILE elements, whose zeros `summary` counts. */
    void (*scatter)(const tmk_loose_bits *x, size_t n, const struct tmk_tile_summary *summary,
                    uint64_t *table);
    /* Elements with the sign bit; n < 2^32. */
    uint32_t (*signs)(const tmk_loose_bits *x, size_t n);
    /* For each column c < width of `rows` rows (`stride` elements apart): lowers min[c], raises
     * max[c] (keys). Elements that are not finite count as TMK_KEY_POSINF for min, TMK_KEY_NEGINF
     * for max. */
    void (*columns)(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width, int32_t *min,
                    int32_t *max);
    /* The same where all elements are finite. */
    void (*finite_columns)(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,
                           int32_t *min, int32_t *max);
    /* The same once more, of width <= TMK_COLUMNS, on floats: +inf and -inf are nothing so far. */
    void (*update_columns)(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,
                           tmk_loose_bits *min, tmk_loose_bits *max);
    /* Adds up n <= TMK_TILE finite elements, lane by lane, and answers the least magnitude but
     * zero, by its bits; 0 or any number where all are zero. Exact where all but zeros are of
     * TMK_SUM_OCTAVES octaves, none of them denormal. sums[TMK_SUM_LANES]. */
    uint32_t (*sum)(const tmk_loose_bits *x, size_t n, double *sums);
    /* The same of those elements only whose magnitude's bits are in [from, to), which must be
     * so few octaves; answers the largest magnitude below, by its bits. */
    uint32_t (*sum_window)(const tmk_loose_bits *x, size_t n, uint32_t from, uint32_t to,
                           double *sums);
};

/* 12 % zeros: beyond it, packing costs less than the collisions of zeros in one table entry. */
static inline bool tmk_tile_sparse(const struct tmk_tile_summary *summary, size_t n) {
    return ((size_t)summary->zeros + summary->negative_zeros) * 100 > 12 * n;
}

/* Widens floats by keys, one to one. */
static inline void tmk_minmax_merge_keys(tmk_loose_bits *min, tmk_loose_bits *max,
                                         const int32_t *low, const int32_t *high, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t a = tmk_key_of_bits(min[i]), b = tmk_key_of_bits(max[i]);
        min[i] = tmk_bits_of_key(low[i] < a ? low[i] : a);
        max[i] = tmk_bits_of_key(high[i] > b ? high[i] : b);
    }
}

extern const struct tmk_stats_kernel tmk_stats_kernel_plain;
extern const struct tmk_stats_kernel tmk_stats_kernel_avx2;   /* x86-64 only */
extern const struct tmk_stats_kernel tmk_stats_kernel_avx512; /* x86-64 only */
extern const struct tmk_stats_kernel tmk_stats_kernel_neon;   /* AArch64 only */

/* The i-th kernel that this machine runs, best first; NULL after the last, which is always "plain".
 */
const struct tmk_stats_kernel *tmk_stats_kernel_at(size_t i);
