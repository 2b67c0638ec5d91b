/* SPDX-License-Identifier: Apache-2.0 */
/* The standard deviation where values lie close together, and the sums of squares that give it. */
#include "stats_data.h"

/* Of numbers that were rounded to so many bits of mantissa, as of float16 (11). */
static float rounded(double x, int bits_kept) {
    int exponent;
    const double mantissa = frexp(x, &exponent);
    return (float)ldexp(nearbyint(ldexp(mantissa, bits_kept)), exponent - bits_kept);
}

struct family {
    const char *name;
    double mean, std;             /* of a normal distribution */
    double other;                 /* with this share of the elements */
    double other_mean, other_std; /* of another */
    int bits;                     /* of mantissa */
};

static float draw(const struct family *f) {
    const bool other = uniform() < f->other;
    return rounded(other ? f->other_mean + f->other_std * normal() : f->mean + f->std * normal(),
                   f->bits);
}

static void close_to_the_reference(const struct family *f, const float *x, size_t n) {
    struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, x, n);
    struct tmk_summary s;
    long double sum = 0, squares = 0, mean;
    tmk_stats_summary(stats, &s);
    for (size_t i = 0; i < n; i++)
        sum += (long double)x[i] - x[0];
    mean = sum / (long double)n;
    for (size_t i = 0; i < n; i++) {
        const long double off = (long double)x[i] - x[0] - mean;
        squares += off * off;
    }
    const double std = (double)sqrtl(squares / (long double)n);
    const bool right = fabs(s.std - std) <= 1e-5 * std && s.std_lo <= std * (1 + 1e-12) &&
                       s.std_hi >= std * (1 - 1e-12);
    if (!right)
        print_error("%s: %zu elements: %.17g [%.17g, %.17g], not %.17g\n", f->name, n, s.std,
                    s.std_lo, s.std_hi, std);
    assert_true(right);
    assert_true(tmk_summary_std_is_close(&s) || s.std_hi - s.std_lo > 1e-5 * std);
    if (s.squares_kept)
        assert_true(s.std_hi - s.std_lo <= 0x1p-48 * s.std_hi);
    tmk_stats_destroy(&stats);
}

TEST(std_is_close_wherever_values_are) {
    enum { N = 20000 };
    static float x[N];
    static const double scales[] = {1, -1, 3.7, 1e-30, -1e-42, 1e30};
    static const size_t sizes[] = {2, 300, TMK_FEW + 1, N};
    for (size_t s = 0; s < TMK_COUNT(scales); s++)
        for (double ratio = 1; ratio <= 1e6; ratio *= sqrt(10))
            for (size_t k = 0; k < TMK_COUNT(sizes); k++) {
                struct family f = {"normal", scales[s], scales[s] / ratio, 0, 0, 0, 24};
                for (f.bits = 24; f.bits >= 11; f.bits -= 13) {
                    for (size_t i = 0; i < sizes[k]; i++)
                        x[i] = draw(&f);
                    close_to_the_reference(&f, x, sizes[k]);
                }
            }
}

TEST(std_is_close_of_mixtures) {
    enum { N = 20000 };
    static float x[N];
    static const struct family all[] = {
        {"constant", -1.1, 0, 0, 0, 0, 24},
        {"two values", 1e30, 0, 0.3, 1.00001e30, 0, 24},
        {"two values, far", 1, 0, 1e-3, -100.3, 0, 24},
        {"two narrow ones", 1, 1e-4, 0.5, 1.2, 1e-5, 24},
        {"opposite signs", -5, 1e-4, 0.1, 5, 1e-4, 24},
        {"narrow within wider", 1, 1e-4, 0.01, 1, 0.05, 24},
        {"a few far off", 1, 1e-4, 0.003, 0, 1, 24},
        {"zeros", 1, 1e-5, 0.2, 0, 0, 24},
        {"denormals", 1e-40, 1e-41, 0.2, -1e-44, 1e-45, 24},
        {"largest", 3.3e38, 1e34, 0, 0, 0, 24},
    };
    for (size_t f = 0; f < TMK_COUNT(all); f++) {
        for (size_t i = 0; i < N; i++)
            x[i] = draw(&all[f]);
        close_to_the_reference(&all[f], x, N);
    }
}

/* Data that uses about this many bins. */
static float *spread_over(size_t bins, size_t n) {
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(next() % bins % 2 ? -1 : 1) *
               bits(0x3f800000u + (uint32_t)(next() % bins << 15) + (uint32_t)(next() & 0x7fff));
    return x;
}

TEST(order_and_shards_do_not_show) {
    size_t kept = 0, rounds = 0;
    for (size_t bins = 20; bins < 300; bins += 7) {
        const size_t n = 500 + next() % 60000, shards = 1 + next() % 6;
        float *x = spread_over(bins, n);
        struct tmk_stats *whole = empty(TMK_STATS_HISTOGRAM), *merged = empty(TMK_STATS_HISTOGRAM);
        observe(whole, x, n, 0);
        size_t done = 0;
        for (size_t i = 0; i < shards; i++) {
            const size_t m = i + 1 < shards ? next() % (n - done + 1) : n - done;
            struct tmk_stats *shard = empty(TMK_STATS_HISTOGRAM);
            for (size_t from = done, one; from < done + m; from += one) {
                one = 1 + next() % 5000;
                one = one < done + m - from ? one : done + m - from;
                observe(shard, x + from, one, 0);
            }
            if (next() % 3 == 0)
                must(tmk_stats_drain(shard, DIAG));
            if (next() % 3 == 0)
                reencode(&shard);
            done += m;
            merge(shard, merged);
            tmk_stats_destroy(&merged);
            merged = shard;
        }
        struct tmk_summary a, b;
        tmk_stats_summary(whole, &a);
        tmk_stats_summary(merged, &b);
        assert_int_equal(a.squares_kept, a.bins_used <= TMK_NARROW);
        assert_int_equal(a.squares_kept, b.squares_kept);
        assert_true(a.std == b.std && a.std_lo == b.std_lo && a.std_hi == b.std_hi);
        uint64_t of_a[TMK_NARROW], of_b[TMK_NARROW];
        if (tmk_stats_squares(whole, of_a)) {
            assert_true(tmk_stats_squares(merged, of_b));
            assert_memory_equal(of_a, of_b, a.bins_used * sizeof *of_a);
        }
        kept += a.squares_kept;
        rounds++;
        tmk_stats_destroy(&whole);
        tmk_stats_destroy(&merged);
        free(x);
    }
    assert_true(kept > 5 && kept < rounds - 5);
}

TEST(sums_beyond_64_bits_are_dropped) {
    const float x[] = {bits(0x3f80ffff), bits(0x3f80fffe)};
    struct tmk_stats *one = state_of(TMK_STATS_HISTOGRAM, x, 2), *many = empty(TMK_STATS_HISTOGRAM);
    struct tmk_summary s;
    must(tmk_stats_merge_times(many, one, UINT64_C(1) << 30, DIAG));
    tmk_stats_summary(many, &s);
    assert_true(s.squares_kept);
    must(tmk_stats_merge_times(many, one, UINT64_C(1) << 32, DIAG));
    tmk_stats_summary(many, &s);
    assert_false(s.squares_kept);
    assert_true(s.std_lo <= s.std && s.std <= s.std_hi);
    reencode(&many);
    merge(many, one);
    tmk_stats_summary(many, &s);
    assert_false(s.squares_kept);
    tmk_stats_destroy(&one);
    tmk_stats_destroy(&many);
}

TEST(squares_that_were_never_there_stay_away) {
    const float x[] = {1.001f, 1.002f, 1.0035f};
    struct tmk_stats *with = state_of(TMK_STATS_HISTOGRAM, x, 3), *without = NULL;
    struct tmk_summary summary;
    uint16_t bin[3];
    uint64_t count[3], low[3], squares[3];
    tmk_stats_summary(with, &summary);
    tmk_stats_bins(with, bin, count, low);
    assert_true(tmk_stats_squares(with, squares));
    must(tmk_stats_restore(&summary, bin, count, low, &without, DIAG));
    assert_false(tmk_stats_squares(without, squares));
    for (int order = 0; order < 2; order++) {
        struct tmk_stats *both = empty(TMK_STATS_HISTOGRAM);
        merge(both, order ? with : without);
        merge(both, order ? without : with);
        assert_false(tmk_stats_squares(both, squares));
        tmk_stats_destroy(&both);
    }
    tmk_stats_destroy(&without);
    summary.squares = squares;
    for (int off = -1; off < 2; off += 2) { /* not those that one element alone can have */
        squares[summary.bins_used - 1] += (uint64_t)(off * (INT64_C(1) << 33));
        assert_int_equal(tmk_stats_restore(&summary, bin, count, low, &without, NULL), TMK_FORMAT);
        squares[summary.bins_used - 1] -= (uint64_t)(off * (INT64_C(1) << 33));
    }
    tmk_stats_destroy(&with);
}
