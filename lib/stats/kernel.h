/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that touch every element, once for each instruction set. All give the same integers. */
#ifndef TMK_STATS_KERNEL_H
#define TMK_STATS_KERNEL_H

#include <stddef.h>

#include "stats/key.h"

enum {
    TMK_TILE = 2048, /* elements a tile: 8 KiB stay in the first-level cache between its passes */
    TMK_TABLE = 1 << 16,         /* entries of the packed table */
    TMK_COUNT_SHIFT = 40,        /* entry: count in the upper 24 bits, sum of dropped bits below */
    TMK_PACK_MAX = (1 << 24) - 1 /* elements until an entry could overflow; 65535 * this < 2^40 */
};

/* What one tile or run held. From three integer reductions follow both extremes, and whether a NaN
 * or an infinity is there: the largest as signed integers (largest positive), the largest and
 * smallest as unsigned ones (most negative; smallest magnitude of the only sign present). */
struct tmk_facts {
    int32_t signed_max;
    uint32_t unsigned_max, unsigned_min;
    uint32_t zeros, negative_zeros;
};

static inline bool tmk_facts_all_finite(const struct tmk_facts *facts) {
    return facts->signed_max < 0x7f800000 && facts->unsigned_max < 0xff800000u;
}

/* For facts that are all finite, of at least one element. */
static inline int32_t tmk_facts_min(const struct tmk_facts *facts) {
    return tmk_key_of_bits(facts->unsigned_max >> 31 ? facts->unsigned_max : facts->unsigned_min);
}

static inline int32_t tmk_facts_max(const struct tmk_facts *facts) {
    return facts->signed_max >= 0 ? facts->signed_max : tmk_key_of_bits(facts->unsigned_min);
}

struct tmk_stats_kernel {
    const char *name;
    /* n <= TMK_TILE elements: adds the nonzero ones to table[TMK_TABLE], and overwrites *facts. */
    void (*tile)(const tmk_loose_bits *x, size_t n, uint64_t *table, struct tmk_facts *facts);
    /* The facts alone; n < 2^32. */
    void (*survey)(const tmk_loose_bits *x, size_t n, struct tmk_facts *facts);
    /* For each column c < width of `rows` rows (`stride` elements apart): lowers min[c], raises
     * max[c] (keys). Elements that are not finite count as TMK_KEY_POSINF for min, TMK_KEY_NEGINF
     * for max. */
    void (*columns)(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width, int32_t *min,
                    int32_t *max);
};

extern const struct tmk_stats_kernel tmk_stats_kernel_plain;
extern const struct tmk_stats_kernel tmk_stats_kernel_avx2;   /* x86-64 only */
extern const struct tmk_stats_kernel tmk_stats_kernel_avx512; /* x86-64 only */

/* The i-th kernel that this machine runs, best first; NULL after the last, which is always "plain".
 */
const struct tmk_stats_kernel *tmk_stats_kernel_at(size_t i);

#endif
