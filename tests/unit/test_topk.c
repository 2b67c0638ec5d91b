/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of the largest and smallest elements, against sorting all of them. */
#include "stats_data.h"

#include "exec/account.h"

enum { MOST = 40, WIDTH = 3 };

/* What was seen of a sample, all of it together. */
struct seen {
    struct tmk_minmax range[MOST];
};

static struct seen nothing(void) {
    struct seen seen;
    for (size_t s = 0; s < MOST; s++)
        seen.range[s] = tmk_minmax_empty();
    return seen;
}

static int32_t reach(const struct tmk_minmax *range, bool of_max) {
    return of_max ? tmk_key_of_float(range->max) : ~tmk_key_of_float(range->min);
}

static void naive_end(const struct seen *seen, bool of_max, struct tmk_topk_entry *out,
                      uint32_t *n) {
    bool taken[MOST] = {false};
    for (*n = 0; *n < TMK_TOPK; ++*n) {
        size_t best = MOST;
        for (size_t s = 0; s < MOST; s++)
            if (!taken[s] && seen->range[s].min <= seen->range[s].max &&
                (best == MOST ||
                 reach(&seen->range[s], of_max) > reach(&seen->range[best], of_max)))
                best = s;
        if (best == MOST)
            return;
        taken[best] = true;
        out[*n] =
            (struct tmk_topk_entry){of_max ? seen->range[best].max : seen->range[best].min, best};
    }
}

static void assert_tops(const struct tmk_topk *topk, const struct seen *seen) {
    struct tmk_topk_entry list[TMK_TOPK];
    for (int of_max = 0; of_max < 2; of_max++) {
        const struct tmk_topk_entry *end = of_max ? topk->max : topk->min;
        uint32_t n;
        naive_end(seen, of_max, list, &n);
        assert_int_equal(topk->n, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(end[i].sample, list[i].sample);
            assert_int_equal(tmk_bits_of_float(end[i].value), tmk_bits_of_float(list[i].value));
        }
    }
}

static struct tmk_minmax extent_of(const float *x, size_t n) {
    struct tmk_minmax range = tmk_minmax_empty();
    for (size_t i = 0; i < n; i++) {
        const struct tmk_minmax one = {x[i], x[i], false, false};
        if (isfinite(x[i]))
            tmk_minmax_merge(&range, &one);
    }
    return range;
}

/* Parts that hold any samples, some in several parts, merged as a random tree. */
TEST(order_and_grouping_do_not_show) {
    enum { PARTS = 6 };
    for (int round = 0; round < 3000; round++) {
        struct tmk_topk parts[PARTS] = {{0}};
        struct seen seen = nothing();
        size_t family = next() % TMK_COUNT(families), n = next() % 60;
        float *x = data_of(family, n + 1);
        for (size_t i = 0; i < n; i++) {
            /* few different numbers, so that many are equal */
            float value = round % 2 ? x[i] : (float)(next() % 4);
            uint64_t sample = next() % MOST;
            struct tmk_minmax one = extent_of(&value, 1);
            tmk_topk_add(&parts[next() % PARTS], sample, &one);
            tmk_minmax_merge(&seen.range[sample], &one);
        }
        for (size_t left = PARTS; left > 1; left--) {
            size_t from = next() % left, to = next() % left;
            if (from == to)
                to = (to + 1) % left;
            tmk_topk_merge(&parts[to], NULL, &parts[from], NULL);
            tmk_topk_merge(&parts[to], NULL, &parts[from], NULL); /* twice is once */
            parts[from] = parts[left - 1];
        }
        assert_tops(&parts[0], &seen);
        free(x);
    }
}

/* Batches of several samples, cut along the first axis or not, in pieces, by two workers. */
TEST(accounts_keep_the_furthest_samples) {
    for (int round = 0; round < 800; round++) {
        struct tmk_slot_config config = {.level = (enum tmk_stats_level)(1 + round % 3),
                                         .topk = true,
                                         .per_sample = next() % 4 == 0,
                                         .label = "x"};
        struct tmk_account accounts[2] = {{0}};
        struct seen seen = nothing();
        bool cut = next() % 4;
        for (uint64_t s = 0; s + 4 < MOST;) {
            uint64_t samples = 1 + next() % 4, rows = cut ? samples : 1;
            const struct tmk_shape shape = {2, {(int64_t)rows, WIDTH}};
            const struct tmk_stats_at at = {s, samples, -1, false, 0};
            float *x = data_of(next() % TMK_COUNT(families), rows * WIDTH);
            struct tmk_tensor tensor = {0};
            tmk_tensor_borrow(&tensor, TMK_FLOAT32, &shape, x);
            for (uint64_t times = 1 + next() % 2; times > 0; times--) /* as in a loop */
                must(tmk_account_look(&accounts[next() % 2], &config, &tensor, &at, DIAG));
            for (uint64_t i = 0; i < samples; i++)
                seen.range[s + i] = extent_of(x + (rows > 1 ? i * WIDTH : 0), WIDTH);
            s += samples;
            free(x);
        }
        must(tmk_account_merge(&accounts[0], &accounts[1], 1, &config, DIAG));
        assert_tops(&accounts[0].topk, &seen);
        tmk_account_finish(&accounts[0]);
        tmk_account_finish(&accounts[1]);
    }
}

static struct tmk_stats *stats_of(float x) {
    const struct tmk_shape shape = {1, {1}};
    const struct tmk_stats_at at = {0, 1, -1, false, 0};
    struct tmk_stats *stats;
    must(tmk_stats_create(TMK_STATS_MINMAX, &stats, DIAG));
    must(tmk_stats_update(stats, &x, &shape, &at, DIAG));
    return stats;
}

TEST(what_is_not_known_of_a_part_is_not_of_the_whole) {
    struct tmk_stats *number = stats_of(3), *nan = stats_of(NAN);
    const struct tmk_minmax range = {3, 3, false, false};
    struct tmk_topk some = {0}, none = {0}, dst;
    tmk_topk_add(&some, 7, &range);
    dst = some;
    tmk_topk_merge(&dst, number, &none, nan); /* no sample has finite elements */
    assert_int_equal(dst.n, 1);
    tmk_topk_merge(&dst, number, &none, number);
    assert_int_equal(dst.n, 0);
    tmk_topk_merge(&dst, number, &some, number);
    assert_int_equal(dst.n, 0);
    tmk_stats_destroy(&number);
    tmk_stats_destroy(&nan);
}

TEST(one_sample_can_be_left_out) {
    float min, max;
    struct tmk_topk topk = {0};
    static const struct tmk_minmax ranges[] = {
        {-1, 2, false, false}, {-5, 9, false, false}, {-2, 3, false, false}};
    tmk_topk_add(&topk, 0, &ranges[0]);
    assert_false(tmk_topk_without(&topk, 0, &min, &max));
    for (uint64_t s = 1; s < 3; s++)
        tmk_topk_add(&topk, s, &ranges[s]);
    assert_true(tmk_topk_without(&topk, 1, &min, &max) && min == -2 && max == 3);
    assert_true(tmk_topk_without(&topk, 0, &min, &max) && min == -5 && max == 9);
}
