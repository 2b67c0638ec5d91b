/* SPDX-License-Identifier: Apache-2.0 */
/* What a value's numbers give away, against counting. */
#include "stats_data.h"

#include <tidemark/profile.h>

static void observe_all(struct tmk_profile_tensor *t, const float *x, size_t n, size_t channels) {
    const struct tmk_shape shape = {2, {(int64_t)(n / channels), (int64_t)channels}};
    const struct tmk_stats_at at = {0, 1, channels > 1 ? 1 : -1, false, 0};
    must(tmk_stats_update(t->stats, x, &shape, &at, DIAG));
}

static struct tmk_flags flags_of(enum tmk_stats_level level, enum tmk_profile_kind kind,
                                 const float *x, size_t n, size_t channels) {
    struct tmk_profile_tensor t = {.kind = kind};
    must(tmk_stats_create(level, &t.stats, DIAG));
    observe_all(&t, x, n, channels);
    t.status = tmk_profile_status_of(&t);
    const struct tmk_flags flags = tmk_profile_flags(&t);
    tmk_stats_destroy(&t.stats);
    return flags;
}

static uint64_t count(const float *x, size_t n, float value) {
    uint64_t equal = 0;
    for (size_t i = 0; i < n; i++)
        equal += x[i] == value;
    return equal;
}

/* Clamped at any numbers: never more than there are; all of them where the clamp begins a bin of
 * its side, so that nothing else is in the bin. */
TEST(elements_at_an_extreme_are_proven) {
    enum { N = 3000 };
    static const float round_ends[] = {-4, -1, 1, 6};
    for (int round = 0; round < 400; round++) {
        float *x = data_of(next() % TMK_COUNT(families), N);
        bool is_round = round % 2;
        float a = is_round ? round_ends[next() % 2] : (float)normal() * 3,
              b = is_round ? round_ends[2 + next() % 2] : (float)normal() * 3, lo = a < b ? a : b,
              hi = a < b ? b : a, min = INFINITY, max = -INFINITY;
        for (size_t i = 0; i < N; i++) {
            x[i] = x[i] <= lo ? lo : x[i] >= hi ? hi : x[i];
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        enum tmk_stats_level level = levels[next() % 2];
        struct tmk_flags flags = flags_of(level, TMK_PROFILE_ACTIVATION, x, N, 1);
        uint64_t at_min = count(x, N, min), at_max = count(x, N, max);
        assert_true(flags.at_min <= at_min && flags.at_max <= at_max);
        if (is_round && min == lo && level == TMK_STATS_HISTOGRAM)
            assert_int_equal(flags.at_min, at_min);
        if (is_round && max == hi && level == TMK_STATS_HISTOGRAM)
            assert_int_equal(flags.at_max, at_max);
        free(x);
    }
}

TEST(saturation_wants_many_elements) {
    float x[1600];
    for (size_t i = 0; i < 1600; i++)
        x[i] = (float)(i % 1000) / 1024;
    struct tmk_flags flags = flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, 1600, 1);
    assert_false(flags.saturated);
    for (size_t i = 0; i < 16; i++)
        x[i * 100] = 1;
    assert_false(flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, 1600, 1).saturated);
    x[1] = 1;
    assert_true(flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, 1600, 1).saturated);
    assert_false(flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_WEIGHT, x, 1600, 1).saturated);
    assert_false(flags_of(TMK_STATS_MINMAX, TMK_PROFILE_ACTIVATION, x, 1600, 1).saturated);
    assert_false(flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, 10, 1).saturated);
}

TEST(zeros_are_no_saturation) {
    float x[100] = {1, 2, 3, 1e-40f};
    struct tmk_flags flags = flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, 100, 1);
    assert_false(flags.saturated);
    assert_int_equal(flags.at_min, 0);
    assert_int_equal(flags.at_max, 1);
}

TEST(dead_channels_and_constants_are_counted) {
    float x[] = {0, 1, 0, -0.0f, 0, 0, 0, 0}, one[] = {3, 3, 3, 3};
    struct tmk_flags flags = flags_of(TMK_STATS_RANGE, TMK_PROFILE_ACTIVATION, x, 8, 4);
    assert_int_equal(flags.channels, 4);
    assert_int_equal(flags.dead_channels, 3);
    assert_false(flags.constant);
    flags = flags_of(TMK_STATS_RANGE, TMK_PROFILE_ACTIVATION, one, 4, 1);
    assert_true(flags.constant);
    assert_false(flags.saturated);
    assert_int_equal(flags.channels, 0);
}

/* Any data in which some number stands often: never more than there are, and all of them where it
 * begins a bin that has nothing else. */
TEST(spikes_are_proven) {
    enum { N = 2000 };
    static const float begin_bins[] = {-7.5f, 0.25f, 1, 6};
    for (int round = 0; round < 400; round++) {
        float *x = data_of(next() % TMK_COUNT(families), N);
        float spike = round % 2 ? begin_bins[next() % 4] : (float)normal();
        size_t every = 1 + next() % 12;
        for (size_t i = 0; i < N; i++) {
            x[i] = isfinite(x[i]) ? x[i] : 0;
            if (tmk_bits_of_float(x[i]) >> 16 == tmk_bits_of_float(spike) >> 16 || i % every == 0)
                x[i] = spike;
        }
        struct tmk_flags flags = flags_of(TMK_STATS_HISTOGRAM, TMK_PROFILE_ACTIVATION, x, N, 1);
        if (flags.at_spike) {
            assert_true(flags.spike != 0 && flags.at_spike > N / 10);
            assert_true(flags.at_spike <= count(x, N, flags.spike));
        }
        uint64_t all = count(x, N, spike);
        if (round % 2 && all > N / 2 && all < N) {
            assert_true(flags.spike == spike);
            assert_int_equal(flags.at_spike, all);
        }
        free(x);
    }
}

TEST(numbers_of_masks_are_known) {
    static const float are[] = {FLT_MAX, -FLT_MAX, 65504, -65504, -1e4f, -1e9f, -1e30f, -1e38f},
                       are_not[] = {0, -1, -1e3f, 1e4f, 1e9f, -9999, 65505, 1e30f};
    for (size_t i = 0; i < TMK_COUNT(are); i++)
        assert_non_null(tmk_sentinel(are[i]));
    for (size_t i = 0; i < TMK_COUNT(are_not); i++)
        assert_null(tmk_sentinel(are_not[i]));
    const enum tmk_stats_level all[] = {TMK_STATS_RANGE, TMK_STATS_HISTOGRAM, TMK_STATS_MINMAX};
    for (size_t l = 0; l < TMK_COUNT(all); l++) {
        float x[40] = {-FLT_MAX, 3, 65504};
        struct tmk_flags flags = flags_of(all[l], TMK_PROFILE_ACTIVATION, x, 40, 1);
        assert_string_equal(flags.min_is, "the end of float32");
        assert_string_equal(flags.max_is, "the end of float16");
        flags = flags_of(all[l], TMK_PROFILE_WEIGHT, x, 40, 1);
        assert_true(!flags.min_is && !flags.max_is);
        x[0] = -10020; /* a mask of -1e4, added to something */
        flags = flags_of(all[l], TMK_PROFILE_ACTIVATION, x, 40, 1);
        assert_int_equal(flags.min_is != NULL, all[l] != TMK_STATS_MINMAX);
        x[1] = -5000; /* there is something between */
        assert_null(flags_of(all[l], TMK_PROFILE_ACTIVATION, x, 40, 1).min_is);
        x[1] = -10020;
        for (size_t i = 2; i < 40; i++)
            x[i] = -9990; /* nothing else is there */
        assert_null(flags_of(all[l], TMK_PROFILE_ACTIVATION, x, 40, 1).min_is);
    }
}
