/* SPDX-License-Identifier: Apache-2.0 */
/* Merging keeps what is asked for: a sample that is among the furthest of the whole is so in each
 * part that has it, with its furthest value in one of them; and what a part left out is outrun by
 * as many samples as are kept. */
#include <string.h>

#include "stats/state.h"

/* The order of an end: `flip` is 0 where the greatest comes first, -1 where the least does. */
static bool comes_first(struct tmk_top a, struct tmk_top b, int32_t flip) {
    int32_t x = tmk_key_of_float(a.value) ^ flip, y = tmk_key_of_float(b.value) ^ flip;
    return x > y || (x == y && a.sample < b.sample);
}

/* Answers how many there are then. */
static uint32_t insert(struct tmk_top *list, uint32_t n, struct tmk_top top, int32_t flip) {
    uint32_t at = 0, end;
    if (n == TMK_TOPS && !comes_first(top, list[n - 1], flip))
        return n;
    for (; at < n && !comes_first(top, list[at], flip); at++)
        if (list[at].sample == top.sample)
            return n;
    for (end = at; end < n && list[end].sample != top.sample;)
        end++;
    if (end == n && n < TMK_TOPS)
        n++;
    else if (end == n)
        end--;
    memmove(&list[at + 1], &list[at], (end - at) * sizeof *list);
    list[at] = top;
    return n;
}

void tmk_tops_take(struct tmk_tops *tops, uint64_t sample, const struct tmk_extent *extent) {
    if (!(extent->min <= extent->max))
        return;
    uint32_t n = tops->n;
    (void)insert(tops->min, n, (struct tmk_top){extent->min, sample}, -1);
    tops->n = insert(tops->max, n, (struct tmk_top){extent->max, sample}, 0);
}

bool tmk_tops_without(const struct tmk_tops *tops, uint64_t sample, float *min, float *max) {
    if (tops->n < 2)
        return false;
    *min = tops->min[tops->min[0].sample == sample].value;
    *max = tops->max[tops->max[0].sample == sample].value;
    return true;
}

static bool known(const struct tmk_tops *tops, const struct tmk_stats *stats) {
    return tops->n > 0 || !stats || tmk_stats_finite(stats) == 0;
}

void tmk_tops_merge(struct tmk_tops *dst, const struct tmk_stats *of_dst,
                    const struct tmk_tops *src, const struct tmk_stats *of_src) {
    if (!known(dst, of_dst) || !known(src, of_src)) {
        *dst = (struct tmk_tops){0};
        return;
    }
    uint32_t of_min = dst->n, of_max = dst->n;
    for (uint32_t i = 0; i < src->n; i++) {
        of_min = insert(dst->min, of_min, src->min[i], -1);
        of_max = insert(dst->max, of_max, src->max[i], 0);
    }
    dst->n = of_max;
}
