/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/span.h"

bool tmk_span_of(enum tmk_stats_level level, uint16_t bin, const struct tmk_extreme *min,
                 const struct tmk_extreme *max, struct tmk_span *out) {
    uint32_t mask = level == TMK_STATS_HISTOGRAM ? 0xffffu : 0x7fffffu;
    uint32_t head = (uint32_t)(bin & 0x7fffu) << 16, exponent = head >> 23;
    struct tmk_span span = {.negative = bin >> 15,
                            .head = head,
                            .base = (head & 0x7fffffu) | (exponent ? 0x800000u : 0),
                            .shift = exponent ? exponent - 1 : 0};
    int64_t first = head ? head : 1, last = (int64_t)head + mask; /* zeros are in no bin */
    /* the extremes as magnitudes of this bin's sign: key k < 0 is magnitude -k - 1 */
    int64_t smallest = span.negative ? -(int64_t)max->key - 1 : min->key;
    int64_t largest = span.negative ? -(int64_t)min->key - 1 : max->key;
    span.first_seen = smallest >= first;
    span.last_seen = largest <= last;
    first = span.first_seen ? smallest : first;
    last = span.last_seen ? largest : last;
    if (first > last || first > (int64_t)head + mask || last < head)
        return false;
    span.first = (uint32_t)(first - head);
    span.last = (uint32_t)(last - head);
    *out = span;
    return true;
}

bool tmk_span_lows(const struct tmk_span *span, uint64_t count, uint64_t *smallest,
                   uint64_t *largest) {
    uint64_t width = span->last - span->first;
    if (count == 1 && span->first_seen && span->last_seen && width > 0)
        return false;
    *smallest = span->first * count + (span->last_seen ? width : 0);
    *largest = span->last * count - (span->first_seen ? width : 0);
    return true;
}

bool tmk_span_has_squares(const struct tmk_span *span, uint64_t count, uint64_t low,
                          uint64_t squares) {
    const uint64_t l = low - count * span->first;
    const tmk_u128 first = span->first, rest = first * (2 * (tmk_u128)l + count * first);
    tmk_u128 smallest, largest;
    tmk_span_squares(span, count, l, &smallest, &largest);
    return squares >= rest + smallest && squares <= rest + largest;
}
