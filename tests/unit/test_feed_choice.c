/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <string.h>

#include "feed/internal.h"

enum { MOST = 40 };

/* Which samples are chosen, sample by sample, and how many of them lie in whole batches. */
static struct feed_total by_hand(const struct feed_choice *choice, bool chosen[MOST]) {
    struct feed_total total = {0};
    uint64_t first = choice->skip / choice->batch, in_batch[MOST] = {0};
    for (uint64_t s = choice->skip; s < choice->end; s++) {
        uint64_t batch = s / choice->batch;
        chosen[s] = (batch - first) % choice->every == 0 && total.samples < choice->limit;
        total.samples += chosen[s];
        in_batch[batch] += chosen[s];
    }
    for (uint64_t b = 0; b < MOST; b++)
        if (in_batch[b] == choice->batch)
            total.in_full_batches += choice->batch;
    return total;
}

static void check(const struct feed_choice *choice) {
    bool want[MOST] = {false}, got[MOST] = {false};
    struct feed_total total = by_hand(choice, want), seen = tmk_feed_choice_total(choice);
    uint64_t from, until, last = 0;
    for (uint64_t i = 0; tmk_feed_choice_batch(choice, i, &from, &until); i++) {
        assert_true(from < until && until <= choice->end && from >= last);
        assert_int_equal(from / choice->batch, (until - 1) / choice->batch);
        for (uint64_t s = from; s < until; s++)
            got[s] = true;
        last = until;
    }
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(seen.samples, total.samples);
    assert_int_equal(seen.in_full_batches, total.in_full_batches);
}

TEST(batches_are_those_counted_by_hand) {
    static const uint64_t limits[] = {1, 2, 3, 7, 20, UINT64_MAX};
    for (uint64_t end = 1; end < MOST; end += 3)
        for (uint64_t skip = 0; skip < end; skip += 2)
            for (uint64_t batch = 1; batch < 8; batch++)
                for (uint64_t every = 1; every < 5; every++)
                    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
                        check(&(struct feed_choice){skip, end, limits[l], batch, every});
}

TEST(nothing_overflows) {
    uint64_t from, until;
    struct feed_choice choice = {UINT64_MAX - 2, UINT64_MAX, UINT64_MAX, 7, UINT64_MAX};
    assert_true(tmk_feed_choice_batch(&choice, 0, &from, &until));
    assert_true(from == UINT64_MAX - 2 && until == UINT64_MAX - 1); /* a multiple of 7 */
    assert_false(tmk_feed_choice_batch(&choice, 1, &from, &until));
    choice = (struct feed_choice){0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1};
    assert_true(tmk_feed_choice_batch(&choice, 0, &from, &until));
    assert_false(tmk_feed_choice_batch(&choice, 1, &from, &until));
    assert_false(tmk_feed_choice_batch(&choice, UINT64_MAX, &from, &until));
}
