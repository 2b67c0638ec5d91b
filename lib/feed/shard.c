/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/shard.h"

#include <stdlib.h>

#include "base/diag.h"

/* a * b / c without overflow where b <= c. */
static uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c) {
    return a / c * b + a % c * b / c;
}

enum tmk_status tmk_shard_of(const struct tmk_feed *feed, uint32_t shard, uint32_t shards,
                             struct tmk_shard *out, struct tmk_diag *diag) {
    if (!shard || shard > shards)
        return tmk_fail(diag, TMK_ARGUMENT, "there is no shard %u of %u; they are counted from 1",
                        shard, shards);
    uint64_t batches = tmk_feed_batches(feed);
    *out = (struct tmk_shard){.begin = tmk_feed_begin(feed, mul_div(batches, shard - 1, shards)),
                              .end = tmk_feed_begin(feed, mul_div(batches, shard, shards))};
    return TMK_OK;
}

static enum tmk_status next_range(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                  struct tmk_diag *diag) {
    (void)diag;
    struct tmk_shard *shard = context;
    *more = !shard->given && shard->begin < shard->end;
    *begin = shard->begin;
    *end = shard->end;
    shard->given = true;
    return TMK_OK;
}

struct tmk_work_ranges tmk_shard_ranges(struct tmk_shard *shard) {
    return (struct tmk_work_ranges){next_range, shard};
}

enum tmk_status tmk_rest_of(const struct tmk_work_ranges *all, const struct tmk_profile *done,
                            struct tmk_rest *out, struct tmk_diag *diag) {
    struct tmk_profile_range range;
    uint32_t n = 0;
    while (tmk_profile_range(done, n, &range))
        n++;
    struct tmk_profile_range *ranges = calloc((size_t)n + 1, sizeof *ranges);
    if (!ranges)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < n; i++)
        (void)tmk_profile_range(done, i, &ranges[i]);
    *out = (struct tmk_rest){.all = *all, .done = ranges, .n_done = n};
    return TMK_OK;
}

static enum tmk_status next_of_rest(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                    struct tmk_diag *diag) {
    struct tmk_rest *rest = context;
    for (;;) {
        if (rest->begin == rest->end) {
            TMK_TRY(rest->all.next(rest->all.context, &rest->begin, &rest->end, more, diag));
            if (!*more) {
                rest->begin = rest->end;
                return TMK_OK;
            }
        }
        uint32_t i = 0;
        while (i < rest->n_done && rest->done[i].end <= rest->begin)
            i++;
        const struct tmk_profile_range *done = i < rest->n_done ? &rest->done[i] : NULL;
        if (done && done->begin <= rest->begin) {
            rest->begin = done->end < rest->end ? done->end : rest->end;
            continue;
        }
        *more = true;
        *begin = rest->begin;
        *end = done && done->begin < rest->end ? done->begin : rest->end;
        rest->begin = *end;
        return TMK_OK;
    }
}

struct tmk_work_ranges tmk_rest_ranges(struct tmk_rest *rest) {
    return (struct tmk_work_ranges){next_of_rest, rest};
}
