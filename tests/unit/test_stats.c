/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics against naive counting. */
#include "stats_data.h"

TEST(counts_are_those_of_naive_counting) {
    enum { N = 30011 };
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, N);
            struct tmk_stats *stats = state_of(levels[l], x, N);
            struct tmk_summary s, naive = {.count = N};
            int32_t min = INT32_MAX, max = INT32_MIN;
            size_t min_at = 0, max_at = 0;
            uint64_t first = TMK_NOWHERE;
            for (size_t i = 0; i < N; i++) {
                naive.nan += isnan(x[i]) != 0;
                naive.posinf += isinf(x[i]) && x[i] > 0;
                naive.neginf += isinf(x[i]) && x[i] < 0;
                naive.zeros += x[i] == 0;
                naive.negative_zeros += x[i] == 0 && signbit(x[i]);
                naive.denormals += fpclassify(x[i]) == FP_SUBNORMAL;
                naive.negatives += isfinite(x[i]) && x[i] < 0;
                if (!isfinite(x[i])) {
                    first = first == TMK_NOWHERE ? i : first;
                    continue;
                }
                int32_t key = tmk_key_of_float(x[i]);
                min_at = key < min ? i : min_at;
                max_at = key > max ? i : max_at;
                min = key < min ? key : min;
                max = key > max ? key : max;
                naive.finite++;
            }
            tmk_stats_summary(stats, &s);
            assert_int_equal(s.count, naive.count);
            assert_int_equal(s.finite, naive.finite);
            assert_int_equal(s.nan, naive.nan);
            assert_int_equal(s.posinf, naive.posinf);
            assert_int_equal(s.neginf, naive.neginf);
            assert_int_equal(s.zeros, naive.zeros);
            assert_int_equal(s.negative_zeros, naive.negative_zeros);
            assert_int_equal(s.denormals, naive.denormals);
            assert_int_equal(s.negatives, naive.negatives);
            assert_int_equal(s.first_nonfinite.index, first);
            assert_int_equal(s.samples, 1);
            assert_int_equal(s.updates, 1);
            if (naive.finite) {
                assert_int_equal(tmk_key_of_float(s.min), min);
                assert_int_equal(tmk_key_of_float(s.max), max);
                assert_int_equal(s.min_at.index, min_at);
                assert_int_equal(s.max_at.index, max_at);
            } else {
                assert_true(isnan(s.min) && isnan(s.max) && isnan(s.mean));
            }
            tmk_stats_destroy(&stats);
            free(x);
        }
}

TEST(sums_are_exact_and_squares_bracketed) {
    enum { N = 4000 };
    for (size_t l = 0; l < 2; l++)
        for (int round = 0; round < 40; round++) {
            /* multiples of 2^-30 below 2^8: 128 bits hold their sums and their squares' sums */
            float x[N];
            wide sum = 0, squares = 0;
            for (size_t i = 0; i < N; i++) {
                int32_t m = (int32_t)(next() >> 40), e = (int32_t)(next() >> 61) * 2;
                int64_t v = (int64_t)(next() >> 63 ? m : -m) * (1 << e);
                x[i] = (float)ldexp((double)v, -30);
                sum += v;
                squares += (wide)v * v;
            }
            struct tmk_stats *stats = state_of(levels[l], x, N);
            struct tmk_summary s;
            tmk_stats_summary(stats, &s);
            assert_true(s.sum == ldexp((double)sum, -30));
            assert_true(s.mean == s.sum / N);
            double exact = ldexp((double)squares, -60);
            assert_true(s.sumsq_lo <= exact && exact <= s.sumsq_hi);
            double width = levels[l] == TMK_STATS_HISTOGRAM ? 0x1p-15 : 0.13;
            assert_true(s.sumsq_hi - s.sumsq_lo <= s.sumsq_lo * width);
            double variance = exact / N - s.mean * s.mean;
            assert_true(fabs(s.variance - variance) <= variance * width);
            tmk_stats_destroy(&stats);
        }
}

TEST(sums_round_once_to_nearest_even) {
    struct tmk_summary s;
    /* 2^53 + 1 is a tie that goes to the even 2^53; one more bit far below breaks it */
    const float tie[] = {0x1p53f, 1, 0x1p-149f};
    struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, tie, 2);
    tmk_stats_summary(stats, &s);
    assert_true(s.sum == 0x1p53);
    tmk_stats_destroy(&stats);
    stats = state_of(TMK_STATS_RANGE, tie, 3);
    tmk_stats_summary(stats, &s);
    assert_true(s.sum == 0x1p53 + 2);
    tmk_stats_destroy(&stats);
    const float cancels[] = {FLT_MAX, 0x1p-149f, -FLT_MAX, FLT_MAX, FLT_MAX, -FLT_MAX, -FLT_MAX};
    stats = state_of(TMK_STATS_HISTOGRAM, cancels, TMK_COUNT(cancels));
    tmk_stats_summary(stats, &s);
    assert_true(s.sum == 0x1p-149);
    tmk_stats_destroy(&stats);
}

TEST(a_constant_has_no_variance) {
    for (size_t l = 0; l < 2; l++) {
        float x[777];
        for (size_t i = 0; i < TMK_COUNT(x); i++)
            x[i] = 1.1f;
        struct tmk_stats *stats = state_of(levels[l], x, TMK_COUNT(x));
        struct tmk_summary s;
        tmk_stats_summary(stats, &s);
        assert_true(s.variance == 0 && s.std == 0);
        assert_true(s.sum == 777.0 * (double)1.1f);
        assert_true(s.sumsq_hi - s.sumsq_lo <= s.sumsq_lo * 0x1p-50);
        assert_true(s.mean == (double)1.1f);
        tmk_stats_destroy(&stats);
    }
}

/* The largest sum of dropped bits, in the largest words, in usual ones and in the smallest. */
TEST(packed_words_never_overflow) {
    static const uint32_t values[] = {0xff7fffffu, 0xbfffffffu, 0x0000ffffu};
    size_t n = ((size_t)1 << 24) + 4099;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (size_t i = 0; i < n; i++)
            x[i] = bits(values[v]);
        for (size_t l = 0; l < 2; l++) {
            struct tmk_stats *stats = state_of(levels[l], x, n);
            observe(stats, x, n, 1);
            observe(stats, x, 77, 2);
            const uint32_t dropped = levels[l] == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
            uint64_t count, low, elements = 2 * (uint64_t)n + 77;
            uint16_t bin;
            struct tmk_summary s;
            tmk_stats_summary(stats, &s);
            assert_int_equal(s.bins_used, 1);
            tmk_stats_bins(stats, &bin, &count, &low);
            assert_int_equal(bin, (values[v] & ~dropped) >> 16);
            assert_int_equal(count, elements);
            assert_int_equal(low, elements * (values[v] & dropped));
            assert_true(s.sum == (double)elements * (double)x[0]);
            tmk_stats_destroy(&stats);
        }
    }
    free(x);
}

TEST(the_earliest_sample_then_the_lowest_index_wins_a_tie) {
    float x[3 * 5] = {0, 7, 7, -2, 0, 7, -2, -2, 0, 7, 0, 0, NAN, 0, INFINITY};
    struct tmk_shape batch = {2, {3, 5}}, one = {2, {1, 5}};
    struct tmk_summary s;
    struct tmk_stats *stats = empty(TMK_STATS_RANGE), *backwards = empty(TMK_STATS_RANGE);
    struct tmk_stats_at at = {10, 3, -1, false, 0};
    must(tmk_stats_update(stats, x, &batch, &at, DIAG));
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.max_at.sample, 10);
    assert_int_equal(s.max_at.index, 1);
    assert_int_equal(s.min_at.sample, 10);
    assert_int_equal(s.min_at.index, 3);
    assert_int_equal(s.first_nonfinite.sample, 12);
    assert_int_equal(s.first_nonfinite.index, 2);
    assert_int_equal(s.samples, 3);
    for (size_t i = 3; i-- > 0;) {
        struct tmk_stats_at single = {10 + i, 1, -1, false, 0};
        must(tmk_stats_update(backwards, x + 5 * i, &one, &single, DIAG));
    }
    backwards->updates = stats->updates;
    assert_true(equal(stats, backwards));
    /* not cut by samples: places are flat */
    struct tmk_stats_at uncut = {3, 15, -1, false, 0};
    tmk_stats_destroy(&stats);
    stats = empty(TMK_STATS_RANGE);
    must(tmk_stats_update(stats, x, &batch, &uncut, DIAG));
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.first_nonfinite.sample, 3);
    assert_int_equal(s.first_nonfinite.index, 12);
    /* nor, as long as a batch, what belongs to all of it */
    at.whole = true;
    tmk_stats_destroy(&stats);
    stats = empty(TMK_STATS_RANGE);
    must(tmk_stats_update(stats, x, &batch, &at, DIAG));
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.first_nonfinite.sample, 10);
    assert_int_equal(s.first_nonfinite.index, 12);
    assert_int_equal(s.samples, 3);
    tmk_stats_destroy(&stats);
    tmk_stats_destroy(&backwards);
}

TEST(minus_zero_is_below_zero) {
    const float x[] = {0.0f, -0.0f, 0.0f};
    struct tmk_stats *stats = state_of(TMK_STATS_RANGE, x, 3);
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    assert_true(signbit(s.min) && !signbit(s.max));
    assert_int_equal(s.min_at.index, 1);
    assert_int_equal(s.max_at.index, 0);
    assert_int_equal(s.zeros, 3);
    assert_int_equal(s.negative_zeros, 1);
    assert_int_equal(s.bins_used, 0);
    tmk_stats_destroy(&stats);
}

TEST(a_tensor_without_elements_counts_its_sample) {
    struct tmk_stats *stats = empty(TMK_STATS_HISTOGRAM);
    struct tmk_shape none = {3, {1, 0, 4}}, bad = {1, {-1}};
    struct tmk_stats_at at = {0, 1, 1, false, 0}, wraps = {UINT64_MAX, 1, -1, false, 0},
                        axis = {0, 1, -2, false, 0};
    must(tmk_stats_update(stats, NULL, &none, &at, DIAG));
    assert_int_equal(tmk_stats_update(stats, NULL, &bad, &at, NULL), TMK_SHAPE);
    assert_int_equal(tmk_stats_update(stats, NULL, &none, &wraps, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_stats_update(stats, NULL, &none, &axis, NULL), TMK_ARGUMENT);
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.samples, 1);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.channels, 0);
    assert_false(s.channel_conflict);
    assert_true(isnan(s.min) && s.sum == 0);
    double lo, hi, mid;
    assert_int_equal(tmk_stats_quantile(stats, 0.5, false, &lo, &hi, &mid, NULL), TMK_NOTFOUND);
    reencode(&stats);
    tmk_stats_destroy(&stats);
    tmk_stats_destroy(&stats);
}

TEST(channels_are_those_of_naive_scanning) {
    static const struct tmk_shape shapes[] = {
        {4, {2, 5, 7, 9}}, {4, {1, 3, 40, 50}}, {2, {37, 3}},  {2, {3, 700}}, {3, {2, 600, 3}},
        {1, {1031}},       {2, {1, 4}},         {2, {515, 1}}, {2, {5, 130}}, {3, {4, 1, 33}},
    };
    for (each_family(f))
        for (size_t k = 0; k < TMK_COUNT(shapes); k++)
            for (int32_t axis = 0; axis < shapes[k].rank; axis++) {
                size_t n, inner = 1;
                assert_true(tmk_shape_count(&shapes[k], &n));
                for (int32_t i = axis + 1; i < shapes[k].rank; i++)
                    inner *= (size_t)shapes[k].dim[i];
                size_t channels = (size_t)shapes[k].dim[axis];
                float *x = data_of(f, n);
                struct tmk_stats *stats = empty(TMK_STATS_RANGE);
                struct tmk_stats_at at = {0, 1, axis, false, 0};
                must(tmk_stats_update(stats, x, &shapes[k], &at, DIAG));
                struct tmk_summary s;
                tmk_stats_summary(stats, &s);
                assert_int_equal(s.channels, channels);
                assert_int_equal(s.channel_axis, axis);
                for (size_t c = 0; c < channels; c++) {
                    int32_t min = TMK_KEY_POSINF, max = TMK_KEY_NEGINF;
                    for (size_t i = 0; i < n; i++)
                        if (i / inner % channels == c && isfinite(x[i])) {
                            int32_t key = tmk_key_of_float(x[i]);
                            min = key < min ? key : min;
                            max = key > max ? key : max;
                        }
                    assert_int_equal(tmk_key_of_float(s.channel_min[c]), min);
                    assert_int_equal(tmk_key_of_float(s.channel_max[c]), max);
                }
                reencode(&stats);
                tmk_stats_destroy(&stats);
                free(x);
            }
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(quantiles_lie_in_their_enclosure) {
    enum { N = 20011 };
    for (each_family(f))
        for (int absolute = 0; absolute < 2; absolute++) {
            float *x = data_of(f, N);
            struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, x, N);
            size_t finite = 0;
            for (size_t i = 0; i < N; i++)
                if (isfinite(x[i]))
                    x[finite++] = absolute ? fabsf(x[i]) : x[i];
            qsort(x, finite, sizeof *x, by_value);
            for (int i = 0; i <= 1000 && finite; i++) {
                double q = i / 1000.0, lo, hi, mid;
                size_t rank = (size_t)fmax(ceil(q * (double)finite) - 1, 0);
                must(tmk_stats_quantile(stats, q, absolute, &lo, &hi, &mid, DIAG));
                double exact = (double)x[rank];
                assert_true(lo <= exact && exact <= hi);
                assert_true(lo <= mid && mid <= hi);
                if (fabs(exact) >= 0x1p-126)
                    assert_true(fabs(mid - exact) <= 0.0039 * fabs(exact));
            }
            double lo, hi, mid;
            assert_int_equal(tmk_stats_quantile(stats, 1.5, absolute, &lo, &hi, &mid, NULL),
                             TMK_ARGUMENT);
            tmk_stats_destroy(&stats);
            free(x);
        }
}

TEST(linear_histograms_keep_every_element) {
    enum { N = 50000, BINS = 128 };
    float *x = data_of(0, N);
    struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, x, N);
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    double out[BINS], naive[BINS] = {0}, total = 0;
    double lo = (double)s.min, hi = (double)s.max;
    must(tmk_stats_linear(stats, false, lo, hi, BINS, out, DIAG));
    for (size_t i = 0; i < N; i++) {
        size_t k = (size_t)(((double)x[i] - lo) / ((hi - lo) / BINS));
        naive[k < BINS ? k : BINS - 1]++;
    }
    double moved = 0;
    for (size_t i = 0; i < BINS; i++) {
        total += out[i];
        moved += fabs(out[i] - naive[i]);
    }
    assert_true(fabs(total - N) < 1e-6 * N);
    assert_true(moved < 0.02 * N);
    /* the half of it that is above 0, by magnitude: all of it */
    must(tmk_stats_linear(stats, true, 0, fmax(-lo, hi), BINS, out, DIAG));
    total = 0;
    for (size_t i = 0; i < BINS; i++)
        total += out[i];
    assert_true(fabs(total - N) < 1e-6 * N);
    /* what is outside is left out */
    must(tmk_stats_linear(stats, false, 100, 200, BINS, out, DIAG));
    for (size_t i = 0; i < BINS; i++)
        assert_true(out[i] == 0);
    assert_int_equal(tmk_stats_linear(stats, false, 1, 1, BINS, out, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_stats_linear(stats, false, 0, INFINITY, BINS, out, NULL), TMK_ARGUMENT);
    tmk_stats_destroy(&stats);
    const float ends[] = {0, 0, 1, 2};
    stats = state_of(TMK_STATS_HISTOGRAM, ends, 4);
    must(tmk_stats_linear(stats, false, 0, 2, 2, out, DIAG));
    assert_true(out[0] == 2 && out[1] == 2);
    tmk_stats_destroy(&stats);
    free(x);
}

TEST(bins_tile_the_line) {
    double lo, hi, next_lo, next_hi;
    for (unsigned bin = 0; bin < 0x7f7f; bin++) {
        tmk_bin_edges((uint16_t)bin, &lo, &hi);
        tmk_bin_edges((uint16_t)(bin + 1), &next_lo, &next_hi);
        assert_true(lo < hi && hi == next_lo);
        tmk_bin_edges((uint16_t)(bin | 0x8000), &next_lo, &next_hi);
        assert_true(next_lo == -hi && next_hi == -lo);
    }
    tmk_bin_edges(0x7f7f, &lo, &hi);
    assert_true(hi == 0x1p128);
    tmk_bin_edges(0x7f80, &lo, &hi);
    assert_true(isnan(lo));
    tmk_octave_edges(0x3fc0, &lo, &hi);
    assert_true(lo == 1 && hi == 2);
    assert_true(tmk_bin_mean(0xbf80, 2, 65536) == -(1 + 0x1p-8));
    assert_true(tmk_bin_mean(0, 1, 1) == 0x1p-149);
}

TEST(integers_are_counted_with_their_places) {
    struct tmk_int_stats a = {0}, b = {0}, back;
    struct tmk_shape shape = {2, {2, 3}}, none = {1, {0}};
    struct tmk_stats_at at = {8, 2, -1, false, 0};
    const char bytes[] = {'?', 5, (char)-7, 0, 5, (char)-7, 0};
    must(tmk_int_stats_update(&a, TMK_INT8, bytes + 1, &shape, &at, DIAG));
    assert_int_equal(a.min, -7);
    assert_int_equal(a.max, 5);
    assert_int_equal(a.zeros, 2);
    assert_int_equal(a.min_at.sample, 8);
    assert_int_equal(a.min_at.index, 1);
    const uint64_t large[] = {UINT64_MAX, 3, (uint64_t)INT64_MAX + 1, 4, 5, INT64_MAX};
    at.sample = 2;
    must(tmk_int_stats_update(&b, TMK_UINT64, large, &shape, &at, DIAG));
    assert_int_equal(b.saturated, 2);
    assert_true(b.max == INT64_MAX && b.min == 3);
    struct tmk_int_stats ab = a, ba = b;
    must(tmk_int_stats_merge(&ab, &b, DIAG));
    must(tmk_int_stats_merge(&ba, &a, DIAG));
    struct tmk_text x = {0}, y = {0};
    tmk_int_stats_encode(&ab, &x);
    tmk_int_stats_encode(&ba, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    must(tmk_int_stats_decode(x.data, x.len, &back, DIAG));
    assert_int_equal(back.count, 12);
    assert_int_equal(back.min_at.sample, 8);
    for (size_t len = 0; len < x.len; len++)
        assert_int_equal(tmk_int_stats_decode(x.data, len, &back, NULL), TMK_FORMAT);
    const bool flags[] = {true, false, false, true, false, true};
    struct tmk_int_stats c = {0};
    must(tmk_int_stats_update(&c, TMK_BOOL, flags, &shape, &at, DIAG));
    assert_int_equal(c.max, 1);
    assert_int_equal(c.zeros, 3);
    must(tmk_int_stats_merge_times(&c, &c, 4, DIAG));
    assert_int_equal(c.count, 30);
    assert_int_equal(c.samples, 10);
    assert_int_equal(tmk_int_stats_merge_times(&c, &a, UINT64_MAX, NULL), TMK_RANGE);
    assert_int_equal(tmk_int_stats_update(&c, TMK_FLOAT32, flags, &none, &at, NULL), TMK_TYPE);
    must(tmk_int_stats_update(&c, TMK_INT64, NULL, &none, &at, DIAG));
    assert_int_equal(c.count, 30);
    tmk_text_finish(&x);
    tmk_text_finish(&y);
}

TEST(floating_point_modes_do_not_show) {
#if defined(__x86_64__)
    for (each_family(f)) {
        float *x = data_of(f, 5000);
        struct tmk_stats *a = state_of(TMK_STATS_HISTOGRAM, x, 5000);
        unsigned mode = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(mode | 0x8040u |
                               0x6000u); /* flush to zero, denormals are zero, truncate */
        struct tmk_stats *b = state_of(TMK_STATS_HISTOGRAM, x, 5000);
        __builtin_ia32_ldmxcsr(mode);
        assert_true(equal(a, b));
        tmk_stats_destroy(&a);
        tmk_stats_destroy(&b);
        free(x);
    }
#endif
}
