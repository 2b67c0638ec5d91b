/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics against themselves: in another order, added up, written down and read back. */
#include "stats_data.h"

/* The pieces of a data set, each its own sample, over shards that merge in a random tree, with
 * encoding between. */
TEST(order_shards_and_merge_trees_do_not_show) {
    enum { N = 20011, PIECES = 40, SHARDS = 7 };
    for (each_family(f))
        for (int round = 0; round < 4; round++) {
            enum tmk_stats_level level = levels[round % 2];
            float *x = data_of(f, N);
            size_t cut[PIECES + 1], order[PIECES];
            for (size_t i = 0; i <= PIECES; i++)
                cut[i] = i * N / PIECES;
            struct tmk_stats *whole = empty(level), *shard[SHARDS];
            for (size_t i = 0; i < PIECES; i++)
                observe(whole, x + cut[i], cut[i + 1] - cut[i], i);
            for (size_t i = 0; i < SHARDS; i++)
                shard[i] = empty(level);
            shuffle(order, PIECES);
            for (size_t k = 0; k < PIECES; k++) {
                size_t i = order[k], s = next() % SHARDS;
                observe(shard[s], x + cut[i], cut[i + 1] - cut[i], i);
                if (next() % 5 == 0)
                    reencode(&shard[s]);
            }
            for (size_t left = SHARDS; left > 1; left--) {
                size_t a = next() % left, b = (a + 1 + next() % (left - 1)) % left;
                merge(shard[a], shard[b]);
                tmk_stats_destroy(&shard[b]);
                shard[b] = shard[left - 1];
            }
            assert_true(equal(whole, shard[0]));
            tmk_stats_destroy(&whole);
            tmk_stats_destroy(&shard[0]);
            free(x);
        }
}

TEST(the_order_of_elements_shows_in_places_only) {
    enum { N = 20011 };
    for (each_family(f)) {
        float *x = data_of(f, N), *y = malloc(N * sizeof *y);
        size_t *order = malloc(N * sizeof *order);
        assert_true(y && order);
        shuffle(order, N);
        for (size_t i = 0; i < N; i++)
            y[i] = x[order[i]];
        struct tmk_stats *a = state_of(TMK_STATS_HISTOGRAM, x, N),
                         *b = state_of(TMK_STATS_HISTOGRAM, y, N);
        b->min.at = a->min.at;
        b->max.at = a->max.at;
        b->first_nonfinite = a->first_nonfinite;
        assert_true(equal(a, b));
        tmk_stats_destroy(&a);
        tmk_stats_destroy(&b);
        free(order);
        free(x);
        free(y);
    }
}

TEST(times_k_is_k_observations) {
    enum { N = 5001, K = 9 };
    struct tmk_shape shape = {2, {N / 3, 3}};
    struct tmk_stats_at at = {4, 1, 1, false, 0};
    for (each_family(f)) {
        float *x = data_of(f, N);
        struct tmk_stats *once = empty(TMK_STATS_HISTOGRAM), *many = empty(TMK_STATS_HISTOGRAM),
                         *times = empty(TMK_STATS_HISTOGRAM);
        must(tmk_stats_update(once, x, &shape, &at, DIAG));
        for (int k = 0; k < K; k++)
            must(tmk_stats_update(many, x, &shape, &at, DIAG));
        must(tmk_stats_merge_times(times, once, 0, DIAG));
        struct tmk_summary s;
        tmk_stats_summary(times, &s);
        assert_int_equal(s.count, 0);
        must(tmk_stats_merge_times(times, once, K, DIAG));
        assert_true(equal(many, times));
        assert_int_equal(tmk_stats_merge_times(times, once, UINT64_MAX / 2, NULL), TMK_RANGE);
        assert_int_equal(tmk_stats_merge_times(times, once, TMK_STATS_LIMIT_HISTOGRAM / N, NULL),
                         TMK_RANGE);
        assert_true(equal(many, times));
        tmk_stats_destroy(&once);
        tmk_stats_destroy(&many);
        tmk_stats_destroy(&times);
        free(x);
    }
}

TEST(states_that_share_bins_go_apart) {
    enum { N = 9001 };
    for (each_family(f))
        for (int level = 0; level < 2; level++) {
            float *x = data_of(f, 2 * N);
            struct tmk_stats *one = state_of(levels[level], x, N),
                             *more = state_of(levels[level], x, N),
                             *alone = state_of(levels[level], x, N), *other = empty(levels[level]);
            assert_int_equal(tmk_stats_finalize(one, NULL), TMK_OK);
            merge(other, one);
            assert_true(!one->n_wide || one->wide == other->wide);
            assert_true(equal(one, other));
            observe(other, x + N, N, 1);
            observe(more, x + N, N, 1);
            assert_true(equal(other, more));
            assert_true(equal(one, alone)); /* which saw nothing of it */
            struct tmk_stats *third = empty(levels[level]);
            merge(third, one);
            tmk_stats_destroy(&one);
            assert_true(equal(third, alone)); /* whose first owner is gone */
            merge(third, more);
            tmk_stats_destroy(&third);
            tmk_stats_destroy(&other);
            tmk_stats_destroy(&more);
            tmk_stats_destroy(&alone);
            free(x);
        }
}

TEST(levels_do_not_mix) {
    struct tmk_stats *range = empty(TMK_STATS_RANGE), *histogram = empty(TMK_STATS_HISTOGRAM);
    double out[3];
    assert_int_equal(tmk_stats_merge(range, histogram, NULL), TMK_MISMATCH);
    assert_int_equal(tmk_stats_quantile(range, 0.5, false, out, out + 1, out + 2, NULL),
                     TMK_UNSUPPORTED);
    assert_int_equal(tmk_stats_linear(range, false, 0, 1, 3, out, NULL), TMK_UNSUPPORTED);
    assert_int_equal(tmk_stats_level_of(range), TMK_STATS_RANGE);
    tmk_stats_destroy(&range);
    tmk_stats_destroy(&histogram);
    assert_int_equal(tmk_stats_create((enum tmk_stats_level)0, &range, NULL), TMK_ARGUMENT);
}

TEST(channels_that_disagree_are_dropped_in_any_order) {
    static const struct {
        struct tmk_shape shape;
        int32_t axis;
    } calls[] = {
        {{2, {2, 6}}, 1}, {{2, {3, 4}}, 1}, {{2, {2, 6}}, -1}, {{1, {12}}, 1}, {{2, {6, 2}}, 0}};
    const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (size_t a = 0; a < TMK_COUNT(calls); a++)
        for (size_t b = 0; b < TMK_COUNT(calls); b++) {
            struct tmk_stats *one = empty(TMK_STATS_RANGE), *two = empty(TMK_STATS_RANGE),
                             *both = empty(TMK_STATS_RANGE);
            struct tmk_stats_at first = {0, 1, calls[a].axis, false, 0},
                                second = {1, 1, calls[b].axis, false, 0};
            must(tmk_stats_update(one, x, &calls[a].shape, &first, DIAG));
            must(tmk_stats_update(two, x, &calls[b].shape, &second, DIAG));
            must(tmk_stats_update(both, x, &calls[b].shape, &second, DIAG));
            must(tmk_stats_update(both, x, &calls[a].shape, &first, DIAG));
            merge(one, two);
            assert_true(equal(one, both));
            struct tmk_summary s;
            tmk_stats_summary(one, &s);
            /* a rank too small for the axis is as good as no axis */
            bool none = (a == 2 || a == 3) && (b == 2 || b == 3);
            assert_int_equal(s.channel_conflict, !none && a != b);
            assert_int_equal(s.channels > 0, !none && a == b);
            reencode(&one);
            merge(one, both); /* for good */
            tmk_stats_summary(one, &s);
            assert_int_equal(s.channel_conflict, !none && a != b);
            tmk_stats_destroy(&one);
            tmk_stats_destroy(&two);
            tmk_stats_destroy(&both);
        }
}

TEST(hostile_bytes_are_refused) {
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, 60);
            struct tmk_shape shape = {2, {20, 3}};
            struct tmk_stats_at at = {5, 20, 1, false, 0};
            struct tmk_stats *stats = empty(levels[l]), *back = NULL;
            must(tmk_stats_update(stats, x, &shape, &at, DIAG));
            struct tmk_text text = bytes_of(stats);
            for (size_t len = 0; len < text.len; len++) {
                char *cut =
                    malloc(len + 1); /* exact, so that a checker reports reads past the end */
                assert_non_null(cut);
                memcpy(cut, text.data, len);
                assert_int_equal(tmk_stats_decode(cut, len, &back, NULL), TMK_FORMAT);
                free(cut);
            }
            for (size_t i = 0; i < text.len; i++)
                for (unsigned flip = 1; flip < 256; flip = flip * 2 + 1) {
                    text.data[i] ^= (char)flip;
                    /* what is accepted is a state: it encodes to the same bytes */
                    if (tmk_stats_decode(text.data, text.len, &back, NULL) == TMK_OK) {
                        struct tmk_text again = bytes_of(back);
                        assert_int_equal(again.len, text.len);
                        assert_memory_equal(again.data, text.data, text.len);
                        struct tmk_summary s;
                        tmk_stats_summary(back, &s);
                        assert_true(!(s.sumsq_lo > s.sumsq_hi));
                        tmk_text_finish(&again);
                        tmk_stats_destroy(&back);
                    }
                    text.data[i] ^= (char)flip;
                }
            tmk_text_append(&text, "", 1);
            must_fail(tmk_stats_decode(text.data, text.len, &back, DIAG), TMK_FORMAT, "malformed");
            tmk_text_finish(&text);
            tmk_stats_destroy(&stats);
            free(x);
        }
}

struct listing {
    struct tmk_summary summary;
    uint16_t *bin;
    uint64_t *count, *low, *squares;
};

static struct listing list(const struct tmk_stats *stats) {
    struct listing list;
    tmk_stats_summary(stats, &list.summary);
    size_t used = list.summary.bins_used + 1;
    list.bin = malloc(used * sizeof *list.bin);
    list.count = malloc(used * sizeof *list.count);
    list.low = malloc(used * sizeof *list.low);
    list.squares = malloc(used * sizeof *list.squares);
    assert_true(list.bin && list.count && list.low && list.squares);
    tmk_stats_bins(stats, list.bin, list.count, list.low);
    if (tmk_stats_squares(stats, list.squares))
        list.summary.squares = list.squares;
    return list;
}

static void finish(struct listing *list) {
    free(list->bin);
    free(list->count);
    free(list->low);
    free(list->squares);
}

TEST(a_listing_restores_its_state) {
    struct tmk_shape shape = {2, {7, 300}};
    struct tmk_stats_at at = {0, 7, 1, false, 0};
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, 2100);
            struct tmk_stats *stats = empty(levels[l]), *back = NULL;
            must(tmk_stats_update(stats, x, &shape, &at, DIAG));
            struct listing t = list(stats);
            must(tmk_stats_restore(&t.summary, t.bin, t.count, t.low, &back, DIAG));
            assert_true(equal(stats, back));
            assert_null(back->table); /* nothing was observed */
            assert_true(tmk_stats_bytes(back) > 0);
            finish(&t);
            tmk_stats_destroy(&stats);
            tmk_stats_destroy(&back);
            free(x);
        }
}

static bool same_bins(const struct tmk_stats *a, const struct tmk_stats *b) {
    struct listing x = list(a), y = list(b);
    size_t n = x.summary.bins_used;
    bool same = n == y.summary.bins_used && x.summary.zeros == y.summary.zeros &&
                x.summary.nan == y.summary.nan && !memcmp(x.bin, y.bin, n * sizeof *x.bin) &&
                !memcmp(x.count, y.count, n * sizeof *x.count) &&
                !memcmp(x.low, y.low, n * sizeof *x.low);
    finish(&x);
    finish(&y);
    return same;
}

/* A table is mapped once there are many, and given back when the state is settled. */
TEST(few_at_a_time_are_counted_as_many_at_once) {
    enum { N = 4 * TMK_FEW };
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, N);
            struct tmk_stats *whole = empty(levels[l]), *parts = empty(levels[l]);
            for (size_t done = 0, n; done < N; done += n) {
                struct tmk_stats_at at = {done, 1, -1, false, 0};
                n = 1 + next() % 40;
                n = n < N - done ? n : N - done;
                must(tmk_stats_update(parts, x + done, &(struct tmk_shape){1, {(int64_t)n}}, &at,
                                      DIAG));
                assert_int_equal(parts->table != NULL, done + n > TMK_FEW);
            }
            must(tmk_stats_update(whole, x, &(struct tmk_shape){1, {N}},
                                  &(struct tmk_stats_at){0, 1, -1, false, 0}, DIAG));
            assert_non_null(whole->table);
            assert_true(same_bins(whole, parts));
            must(tmk_stats_finalize(parts, DIAG));
            assert_null(parts->table);
            assert_true(same_bins(whole, parts));
            tmk_stats_destroy(&whole);
            tmk_stats_destroy(&parts);
            free(x);
        }
}

TEST(inconsistent_counts_are_refused) {
    float *x = data_of(0, 500);
    struct tmk_shape shape = {2, {100, 5}};
    struct tmk_stats_at at = {0, 100, 1, false, 0};
    struct tmk_stats *stats = empty(TMK_STATS_HISTOGRAM), *back = NULL;
    must(tmk_stats_update(stats, x, &shape, &at, DIAG));
    struct listing t = list(stats);
    size_t last = t.summary.bins_used - 1;
#define refused(change, undo, what)                                                                \
    do {                                                                                           \
        change;                                                                                    \
        assert_int_equal(tmk_stats_restore(&t.summary, t.bin, t.count, t.low, &back, DIAG),        \
                         TMK_FORMAT);                                                              \
        assert_non_null(strstr(test_diag.text, what));                                             \
        tmk_diag_reset(DIAG);                                                                      \
        undo;                                                                                      \
    } while (0)
    float max = t.summary.max, min = t.summary.min;
    uint16_t bin = t.bin[last];
    uint64_t low = t.low[3];
    refused(t.summary.count++, t.summary.count--, "add up");
    refused(t.summary.nan++, t.summary.nan--, "add up");
    refused(t.count[0]--, t.count[0]++, "add up");
    refused(t.summary.nan = UINT64_MAX, t.summary.nan = 0, "add up");
    refused(t.summary.negative_zeros++, t.summary.negative_zeros--, "negative zeros");
    refused(t.bin[last] = t.bin[last - 1], t.bin[last] = bin, "ascend");
    refused(t.bin[last] = 0xff80, t.bin[last] = bin, "not finite");
    refused(t.low[3] = t.count[3] * 65535 + 1, t.low[3] = low, "cannot have");
    refused(t.summary.max = 1e30f, t.summary.max = max, "extremes");
    refused(t.summary.min = NAN, t.summary.min = min, "extremes");
    refused(t.summary.max = min, t.summary.max = max, "extremes");
    refused(t.summary.channel_axis = -1, t.summary.channel_axis = 1, "axis");
    refused(t.summary.first_nonfinite.sample = 0, t.summary.first_nonfinite.sample = TMK_NOWHERE,
            "none was counted");
    float wrong[5] = {0, 0, 0, 0, 0};
    const float *channel_min = t.summary.channel_min;
    refused(t.summary.channel_min = wrong, t.summary.channel_min = channel_min, "channel");
#undef refused
    must(tmk_stats_restore(&t.summary, t.bin, t.count, t.low, &back, DIAG));
    tmk_stats_destroy(&back);
    tmk_stats_destroy(&stats);
    finish(&t);
    free(x);
}
