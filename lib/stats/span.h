/* SPDX-License-Identifier: Apache-2.0 */
/* Bins as intervals of float bits. A bin's magnitude bits are head .. head + mask; an element's
 * magnitude is (base + dropped bits) * 2^(shift - 149), as IEEE 754 binary32 has it. */
#pragma once

#include "stats/exact.h"
#include "stats/state.h"

struct tmk_span {
    bool negative;
    uint32_t head; /* magnitude bits with all dropped bits 0 */
    uint32_t base; /* the significand that belongs to head */
    unsigned shift;
    uint32_t first, last;       /* the dropped bits that an element can have: first <= last */
    bool first_seen, last_seen; /* an extreme of the state is the element with these dropped bits */
};

/* The bin as narrowed by the extremes of the state; false when nothing is left of it. */
bool tmk_span_of(enum tmk_stats_level level, uint16_t bin, const struct tmk_extreme *min,
                 const struct tmk_extreme *max, struct tmk_span *out);

/* The smallest and largest sum of dropped bits that `count` > 0 elements can have; false when they
 * contradict the extremes. */
bool tmk_span_lows(const struct tmk_span *span, uint64_t count, uint64_t *smallest,
                   uint64_t *largest);

/* The smallest and largest sum of squares of the l of `count` > 0 elements, which are the dropped
 * bits less span->first and add up to `l`. */
static inline void tmk_span_squares(const struct tmk_span *span, uint64_t count, uint64_t l,
                                    tmk_u128 *smallest, tmk_u128 *largest) {
    const uint64_t width = span->last - span->first, each = l / count, more = l % count;
    const uint64_t full = width ? l / width : 0, left = width ? l % width : 0;
    *smallest = (tmk_u128)each * ((tmk_u128)l + more) + more;
    *largest = (tmk_u128)full * width * width + (tmk_u128)left * left;
}

/* Can elements whose dropped bits add up to a possible `low` have these squares' sum? */
bool tmk_span_has_squares(const struct tmk_span *span, uint64_t count, uint64_t low,
                          uint64_t squares);
