/* SPDX-License-Identifier: Apache-2.0 */
/* Work cut into ranges. */
#include "test.h"

#include "dist/share.h"

/* Every batch once, ranges that never grow; how many. */
static uint32_t take_all(uint64_t batches, uint32_t ranks) {
    struct tmk_share share = tmk_share_of(batches, NULL, 0, ranks);
    uint64_t at = 0, begin, end, longest = UINT64_MAX;
    uint32_t n = 0;
    while (tmk_share_next(&share, &begin, &end)) {
        assert_true(begin == at && begin < end && end <= batches && end - begin <= longest);
        longest = end - begin;
        at = end;
        n++;
    }
    assert_true(at == batches);
    assert_false(tmk_share_next(&share, &begin, &end));
    return n;
}

TEST(every_batch_is_handed_out_once) {
    for (uint64_t batches = 0; batches < 1000; batches++)
        for (uint32_t ranks = 1; ranks < 40; ranks += 3)
            take_all(batches, ranks);
}

TEST(ranges_shrink_to_one_batch_and_are_few) {
    struct tmk_share share = tmk_share_of(1000000, NULL, 0, 8);
    uint64_t begin, end, last = 0;
    while (tmk_share_next(&share, &begin, &end))
        last = end - begin;
    assert_int_equal(last, 1);
    uint32_t n = take_all(1000000, 8);
    assert_true(n >= 16 * 8 && n < 70 * 8);
}

TEST(the_largest_numbers_do_not_overflow) {
    take_all(UINT64_MAX, 1);
    take_all(UINT64_MAX, 4096);
}

TEST(what_was_done_is_left_out) {
    const struct tmk_batches done[] = {{0, 3}, {10, 11}, {11, 400}, {700, 1000}};
    for (uint32_t ranks = 1; ranks < 9; ranks++) {
        struct tmk_share share = tmk_share_of(1000, done, 4, ranks);
        uint64_t at = 3, begin, end;
        while (tmk_share_next(&share, &begin, &end)) {
            at = at == 10 ? 400 : at;
            assert_true(begin == at && begin < end && (end <= 10 || begin >= 400) && end <= 700);
            at = end;
        }
        assert_true(at == 700);
        assert_false(tmk_share_next(&share, &begin, &end));
    }
}

TEST(nothing_is_left_of_what_was_done) {
    const struct tmk_batches done[] = {{0, 5}};
    struct tmk_share share = tmk_share_of(5, done, 1, 2);
    uint64_t begin, end;
    assert_false(tmk_share_next(&share, &begin, &end));
}
