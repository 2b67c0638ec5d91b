/* SPDX-License-Identifier: Apache-2.0 */
/* Merging keeps what is asked for: a sample that is among the top-k of the whole is so in each part
 * that has it, with its extreme value in one of them; and what a part left out is outrun by as many
 * samples as are kept. */
#include <string.h>

#include "stats/state.h"

/* The order of an end: `flip` is 0 where the largest comes first, -1 where the smallest does. */
static bool comes_first(struct tmk_topk_entry a, struct tmk_topk_entry b, int32_t flip) {
    int32_t x = tmk_key_of_float(a.value) ^ flip, y = tmk_key_of_float(b.value) ^ flip;
    return x > y || (x == y && a.sample < b.sample);
}

/* Answers how many there are then. */
static uint32_t insert_entry(struct tmk_topk_entry *list, uint32_t n, struct tmk_topk_entry top,
                             int32_t flip) {
    uint32_t at = 0, end;
    if (n == TMK_TOPK && !comes_first(top, list[n - 1], flip))
        return n;
    for (; at < n && !comes_first(top, list[at], flip); at++)
        if (list[at].sample == top.sample)
            return n;
    for (end = at; end < n && list[end].sample != top.sample;)
        end++;
    if (end == n && n < TMK_TOPK)
        n++;
    else if (end == n)
        end--;
    memmove(&list[at + 1], &list[at], (end - at) * sizeof *list);
    list[at] = top;
    return n;
}

void tmk_topk_add(struct tmk_topk *topk, uint64_t sample, const struct tmk_minmax *range) {
    if (!(range->min <= range->max))
        return;
    uint32_t n = topk->n;
    (void)insert_entry(topk->min, n, (struct tmk_topk_entry){range->min, sample}, -1);
    topk->n = insert_entry(topk->max, n, (struct tmk_topk_entry){range->max, sample}, 0);
}

bool tmk_topk_without(const struct tmk_topk *topk, uint64_t sample, float *min, float *max) {
    if (topk->n < 2)
        return false;
    *min = topk->min[topk->min[0].sample == sample].value;
    *max = topk->max[topk->max[0].sample == sample].value;
    return true;
}

static bool is_known(const struct tmk_topk *topk, const struct tmk_stats *stats) {
    return topk->n > 0 || !stats || tmk_stats_finite(stats) == 0;
}

void tmk_topk_merge(struct tmk_topk *dst, const struct tmk_stats *of_dst,
                    const struct tmk_topk *src, const struct tmk_stats *of_src) {
    if (!is_known(dst, of_dst) || !is_known(src, of_src)) {
        *dst = (struct tmk_topk){0};
        return;
    }
    uint32_t of_min = dst->n, of_max = dst->n;
    for (uint32_t i = 0; i < src->n; i++) {
        of_min = insert_entry(dst->min, of_min, src->min[i], -1);
        of_max = insert_entry(dst->max, of_max, src->max[i], 0);
    }
    dst->n = of_max;
}
