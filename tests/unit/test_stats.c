/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics against naive counting, and against themselves in another order. */
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stats.h>

#include "base/size.h"
#include "base/text.h"
#include "stats/state.h"

static const enum tmk_stats_level levels[] = {TMK_STATS_RANGE, TMK_STATS_HISTOGRAM};

__extension__ typedef __int128 wide;

static uint64_t random_state = 88172645463325252u;

static uint64_t next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1du;
}

static double uniform(void) {
    return (double)(next() >> 11) * 0x1p-53;
}

static double normal(void) {
    return sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
}

static float bits(uint32_t b) {
    return tmk_float_of_bits(b);
}

/* Families of data that have been a trap to somebody. */
static float family_gauss(void) {
    return (float)normal();
}
static float family_relu(void) {
    double x = normal();
    return x > 0 ? (float)x : 0.0f;
}
static float family_masked(void) {
    double x = normal();
    return x > 0 ? (float)x : -0.0f;
}
static float family_any_bits(void) {
    return bits((uint32_t)(next() >> 20));
}
static float family_denormal(void) {
    return bits((uint32_t)(next() >> 20) & 0x807fffffu);
}
static float family_infinite(void) {
    uint64_t r = next() >> 20;
    return bits(((uint32_t)r & 0x80000000u) | 0x7f800000u |
                (r >> 32 & 3 ? 0 : (uint32_t)r & 0x1ffffu)); /* and NaN of low payload */
}
static float family_constant(void) {
    return -1.1f;
}
static float family_wide(void) {
    return (float)exp(12 * normal());
}
static float family_sparse(void) {
    return next() >> 60 ? 0.0f : (float)normal();
}
static float family_tiny(void) {
    uint64_t r = next() >> 20;
    return r % 3 == 0 ? -0.0f
                      : bits((uint32_t)(r >> 8) % 2 ? 1 + ((uint32_t)(r >> 12) & 0xffffu) : 0);
}
static float family_negative(void) {
    return -fabsf((float)normal()) - 1e-30f;
}
static float family_largest(void) {
    return bits(0x7f7fffffu ^ ((uint32_t)(next() >> 20) & 0x80000001u));
}
static float family_few(void) {
    static const float few[] = {-0.0f, 0.0f, 1, -1, 3.5f, INFINITY};
    return few[(next() >> 33) % TMK_COUNT(few)];
}

static float (*const families[])(void) = {
    family_gauss,    family_relu,     family_masked, family_any_bits, family_denormal,
    family_infinite, family_constant, family_wide,   family_sparse,   family_tiny,
    family_negative, family_largest,  family_few};
#define each_family(f)                                                                             \
    size_t f = 0;                                                                                  \
    f < TMK_COUNT(families);                                                                       \
    f++

static float *data_of(size_t f, size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = families[f]();
    return x;
}

static struct tmk_shape flat(size_t n) {
    return (struct tmk_shape){1, {(int64_t)n}};
}

static struct tmk_stats *empty(enum tmk_stats_level level) {
    struct tmk_diag diag = {0};
    struct tmk_stats *stats = NULL;
    assert_ok(tmk_stats_create(level, &stats, &diag), &diag);
    return stats;
}

static void observe(struct tmk_stats *stats, const float *x, size_t n, uint64_t sample) {
    struct tmk_diag diag = {0};
    struct tmk_shape shape = flat(n);
    struct tmk_stats_at at = {sample, 1, -1};
    assert_ok(tmk_stats_update(stats, x, &shape, &at, &diag), &diag);
}

static struct tmk_stats *state_of(enum tmk_stats_level level, const float *x, size_t n) {
    struct tmk_stats *stats = empty(level);
    observe(stats, x, n, 0);
    return stats;
}

static struct tmk_text bytes_of(const struct tmk_stats *stats) {
    struct tmk_text text = {0};
    tmk_stats_encode(stats, &text);
    assert_false(text.failed);
    return text;
}

static bool equal(const struct tmk_stats *a, const struct tmk_stats *b) {
    struct tmk_text x = bytes_of(a), y = bytes_of(b);
    bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    tmk_text_finish(&x);
    tmk_text_finish(&y);
    return same;
}

static void reencode(struct tmk_stats **stats) {
    struct tmk_diag diag = {0};
    struct tmk_text text = bytes_of(*stats);
    struct tmk_stats *back = NULL;
    assert_ok(tmk_stats_decode(text.data, text.len, &back, &diag), &diag);
    assert_true(equal(*stats, back));
    tmk_text_finish(&text);
    tmk_stats_destroy(stats);
    *stats = back;
}

static void merge(struct tmk_stats *dst, const struct tmk_stats *src) {
    struct tmk_diag diag = {0};
    assert_ok(tmk_stats_merge(dst, src, &diag), &diag);
}

static void shuffle(size_t *order, size_t n) {
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = next() % i, t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

static void counts_are_those_of_naive_counting(void **state) {
    (void)state;
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

static void sums_are_exact_and_squares_bracketed(void **state) {
    (void)state;
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

static void sums_round_once_to_nearest_even(void **state) {
    (void)state;
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

static void a_constant_has_no_variance(void **state) {
    (void)state;
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

/* The pieces of a data set, each its own sample, over shards that merge in a random tree, with
 * encoding between. */
static void order_shards_and_merge_trees_do_not_show(void **state) {
    (void)state;
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

static void the_order_of_elements_shows_in_places_only(void **state) {
    (void)state;
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

static void packed_words_never_overflow(void **state) {
    (void)state;
    size_t n = ((size_t)1 << 24) + 4099;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = bits(0xbfffffffu); /* the largest sum of dropped bits */
    for (size_t l = 0; l < 2; l++) {
        struct tmk_stats *stats = state_of(levels[l], x, n);
        observe(stats, x, n, 1);
        observe(stats, x, 77, 2);
        uint64_t count, low, elements = 2 * (uint64_t)n + 77;
        uint16_t bin;
        struct tmk_summary s;
        tmk_stats_summary(stats, &s);
        assert_int_equal(s.bins_used, 1);
        tmk_stats_bins(stats, &bin, &count, &low);
        assert_int_equal(bin, levels[l] == TMK_STATS_HISTOGRAM ? 0xbfff : 0xbf80);
        assert_int_equal(count, elements);
        assert_int_equal(low, elements * (levels[l] == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff));
        assert_true(s.sum == (double)elements * (double)x[0]);
        tmk_stats_destroy(&stats);
    }
    free(x);
}

static void times_k_is_k_observations(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    enum { N = 5001, K = 9 };
    struct tmk_shape shape = {2, {N / 3, 3}};
    struct tmk_stats_at at = {4, 1, 1};
    for (each_family(f)) {
        float *x = data_of(f, N);
        struct tmk_stats *once = empty(TMK_STATS_HISTOGRAM), *many = empty(TMK_STATS_HISTOGRAM),
                         *times = empty(TMK_STATS_HISTOGRAM);
        assert_ok(tmk_stats_update(once, x, &shape, &at, &diag), &diag);
        for (int k = 0; k < K; k++)
            assert_ok(tmk_stats_update(many, x, &shape, &at, &diag), &diag);
        assert_ok(tmk_stats_merge_times(times, once, 0, &diag), &diag);
        struct tmk_summary s;
        tmk_stats_summary(times, &s);
        assert_int_equal(s.count, 0);
        assert_ok(tmk_stats_merge_times(times, once, K, &diag), &diag);
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

static void the_earliest_sample_then_the_lowest_index_wins_a_tie(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    float x[3 * 5] = {0, 7, 7, -2, 0, 7, -2, -2, 0, 7, 0, 0, NAN, 0, INFINITY};
    struct tmk_shape batch = {2, {3, 5}}, one = {2, {1, 5}};
    struct tmk_summary s;
    struct tmk_stats *stats = empty(TMK_STATS_RANGE), *backwards = empty(TMK_STATS_RANGE);
    struct tmk_stats_at at = {10, 3, -1};
    assert_ok(tmk_stats_update(stats, x, &batch, &at, &diag), &diag);
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.max_at.sample, 10);
    assert_int_equal(s.max_at.index, 1);
    assert_int_equal(s.min_at.sample, 10);
    assert_int_equal(s.min_at.index, 3);
    assert_int_equal(s.first_nonfinite.sample, 12);
    assert_int_equal(s.first_nonfinite.index, 2);
    assert_int_equal(s.samples, 3);
    for (size_t i = 3; i-- > 0;) {
        struct tmk_stats_at single = {10 + i, 1, -1};
        assert_ok(tmk_stats_update(backwards, x + 5 * i, &one, &single, &diag), &diag);
    }
    backwards->updates = stats->updates;
    assert_true(equal(stats, backwards));
    /* not cut by samples: places are flat */
    struct tmk_stats_at uncut = {3, 15, -1};
    tmk_stats_destroy(&stats);
    stats = empty(TMK_STATS_RANGE);
    assert_ok(tmk_stats_update(stats, x, &batch, &uncut, &diag), &diag);
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.first_nonfinite.sample, 3);
    assert_int_equal(s.first_nonfinite.index, 12);
    tmk_stats_destroy(&stats);
    tmk_stats_destroy(&backwards);
}

static void minus_zero_is_below_zero(void **state) {
    (void)state;
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

static void a_tensor_without_elements_counts_its_sample(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    struct tmk_stats *stats = empty(TMK_STATS_HISTOGRAM);
    struct tmk_shape none = {3, {1, 0, 4}}, bad = {1, {-1}};
    struct tmk_stats_at at = {0, 1, 1}, wraps = {UINT64_MAX, 1, -1}, axis = {0, 1, -2};
    assert_ok(tmk_stats_update(stats, NULL, &none, &at, &diag), &diag);
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

static void levels_do_not_mix(void **state) {
    (void)state;
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

static void channels_are_those_of_naive_scanning(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
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
                struct tmk_stats_at at = {0, 1, axis};
                assert_ok(tmk_stats_update(stats, x, &shapes[k], &at, &diag), &diag);
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

static void channels_that_disagree_are_dropped_in_any_order(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
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
            struct tmk_stats_at first = {0, 1, calls[a].axis}, second = {1, 1, calls[b].axis};
            assert_ok(tmk_stats_update(one, x, &calls[a].shape, &first, &diag), &diag);
            assert_ok(tmk_stats_update(two, x, &calls[b].shape, &second, &diag), &diag);
            assert_ok(tmk_stats_update(both, x, &calls[b].shape, &second, &diag), &diag);
            assert_ok(tmk_stats_update(both, x, &calls[a].shape, &first, &diag), &diag);
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

static void hostile_bytes_are_refused(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, 60);
            struct tmk_shape shape = {2, {20, 3}};
            struct tmk_stats_at at = {5, 20, 1};
            struct tmk_stats *stats = empty(levels[l]), *back = NULL;
            assert_ok(tmk_stats_update(stats, x, &shape, &at, &diag), &diag);
            struct tmk_text text = bytes_of(stats);
            for (size_t len = 0; len < text.len; len++) {
                char *cut = malloc(len + 1); /* exact, so that a checker sees reads past the end */
                assert_non_null(cut);
                memcpy(cut, text.data, len);
                assert_int_equal(tmk_stats_decode(cut, len, &back, NULL), TMK_FORMAT);
                free(cut);
            }
            for (size_t i = 0; i < text.len; i++)
                for (unsigned flip = 1; flip < 256; flip = flip * 2 + 1) {
                    text.data[i] ^= (char)flip;
                    /* what is accepted is a state: it says so itself, in the same bytes */
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
            assert_int_equal(tmk_stats_decode(text.data, text.len, &back, &diag), TMK_FORMAT);
            assert_non_null(strstr(diag.text, "malformed"));
            diag = (struct tmk_diag){0};
            tmk_text_finish(&text);
            tmk_stats_destroy(&stats);
            free(x);
        }
}

struct listing {
    struct tmk_summary facts;
    uint16_t *bin;
    uint64_t *count, *low;
};

static struct listing list(const struct tmk_stats *stats) {
    struct listing list;
    tmk_stats_summary(stats, &list.facts);
    size_t used = list.facts.bins_used + 1;
    list.bin = malloc(used * sizeof *list.bin);
    list.count = malloc(used * sizeof *list.count);
    list.low = malloc(used * sizeof *list.low);
    assert_true(list.bin && list.count && list.low);
    tmk_stats_bins(stats, list.bin, list.count, list.low);
    return list;
}

static void finish(struct listing *list) {
    free(list->bin);
    free(list->count);
    free(list->low);
}

static void a_listing_restores_its_state(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    struct tmk_shape shape = {2, {7, 300}};
    struct tmk_stats_at at = {0, 7, 1};
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, 2100);
            struct tmk_stats *stats = empty(levels[l]), *back = NULL;
            assert_ok(tmk_stats_update(stats, x, &shape, &at, &diag), &diag);
            struct listing t = list(stats);
            assert_ok(tmk_stats_restore(&t.facts, t.bin, t.count, t.low, &back, &diag), &diag);
            assert_true(equal(stats, back));
            assert_null(back->table); /* nothing was observed */
            assert_true(tmk_stats_bytes(back) > 0);
            finish(&t);
            tmk_stats_destroy(&stats);
            tmk_stats_destroy(&back);
            free(x);
        }
}

static void books_that_do_not_balance_are_refused(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    float *x = data_of(0, 500);
    struct tmk_shape shape = {2, {100, 5}};
    struct tmk_stats_at at = {0, 100, 1};
    struct tmk_stats *stats = empty(TMK_STATS_HISTOGRAM), *back = NULL;
    assert_ok(tmk_stats_update(stats, x, &shape, &at, &diag), &diag);
    struct listing t = list(stats);
    size_t last = t.facts.bins_used - 1;
#define refused(change, undo, what)                                                                \
    do {                                                                                           \
        change;                                                                                    \
        assert_int_equal(tmk_stats_restore(&t.facts, t.bin, t.count, t.low, &back, &diag),         \
                         TMK_FORMAT);                                                              \
        assert_non_null(strstr(diag.text, what));                                                  \
        tmk_diag_reset(&diag);                                                                     \
        undo;                                                                                      \
    } while (0)
    float max = t.facts.max, min = t.facts.min;
    uint16_t bin = t.bin[last];
    uint64_t low = t.low[3];
    refused(t.facts.count++, t.facts.count--, "add up");
    refused(t.facts.nan++, t.facts.nan--, "add up");
    refused(t.count[0]--, t.count[0]++, "add up");
    refused(t.facts.nan = UINT64_MAX, t.facts.nan = 0, "add up");
    refused(t.facts.negative_zeros++, t.facts.negative_zeros--, "negative zeros");
    refused(t.bin[last] = t.bin[last - 1], t.bin[last] = bin, "ascend");
    refused(t.bin[last] = 0xff80, t.bin[last] = bin, "not finite");
    refused(t.low[3] = t.count[3] * 65535 + 1, t.low[3] = low, "cannot have");
    refused(t.facts.max = 1e30f, t.facts.max = max, "extremes");
    refused(t.facts.min = NAN, t.facts.min = min, "extremes");
    refused(t.facts.max = min, t.facts.max = max, "extremes");
    refused(t.facts.channel_axis = -1, t.facts.channel_axis = 1, "axis");
    refused(t.facts.first_nonfinite.sample = 0, t.facts.first_nonfinite.sample = TMK_NOWHERE,
            "none was counted");
    float wrong[5] = {0, 0, 0, 0, 0};
    const float *channel_min = t.facts.channel_min;
    refused(t.facts.channel_min = wrong, t.facts.channel_min = channel_min, "channel");
#undef refused
    assert_ok(tmk_stats_restore(&t.facts, t.bin, t.count, t.low, &back, &diag), &diag);
    tmk_stats_destroy(&back);
    tmk_stats_destroy(&stats);
    finish(&t);
    free(x);
}

static void the_state_of_a_relu_follows_from_its_input(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    struct tmk_shape shape = {2, {2500, 4}};
    struct tmk_stats_at at = {0, 1, 1};
    for (each_family(f))
        for (size_t l = 0; l < 2; l++) {
            float *x = data_of(f, 10000), *y = malloc(10000 * sizeof *y);
            assert_non_null(y);
            bool nan = false;
            for (size_t i = 0; i < 10000; i++) {
                y[i] = x[i] > 0 ? x[i] : 0.0f;
                nan |= isnan(x[i]) != 0;
            }
            struct tmk_stats *in = empty(levels[l]), *out = empty(levels[l]), *derived = NULL;
            assert_ok(tmk_stats_update(in, x, &shape, &at, &diag), &diag);
            assert_ok(tmk_stats_update(out, y, &shape, &at, &diag), &diag);
            if (nan) {
                assert_int_equal(tmk_stats_derive_relu(in, &derived, NULL), TMK_RANGE);
            } else {
                assert_ok(tmk_stats_derive_relu(in, &derived, &diag), &diag);
                /* a place that the input does not tell is "nowhere", never a wrong one */
                if (derived->min.at.sample == TMK_NOWHERE)
                    derived->min.at = out->min.at;
                if (derived->max.at.sample == TMK_NOWHERE)
                    derived->max.at = out->max.at;
                assert_true(in->neginf > 0 || equal(out, derived));
                assert_int_equal(derived->zeros, out->zeros);
                assert_int_equal(derived->max.key, out->max.key);
                tmk_stats_destroy(&derived);
            }
            tmk_stats_destroy(&in);
            tmk_stats_destroy(&out);
            free(x);
            free(y);
        }
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void quantiles_lie_in_their_enclosure(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
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
                assert_ok(tmk_stats_quantile(stats, q, absolute, &lo, &hi, &mid, &diag), &diag);
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

static void linear_histograms_keep_every_element(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    enum { N = 50000, BINS = 128 };
    float *x = data_of(0, N);
    struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, x, N);
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    double out[BINS], naive[BINS] = {0}, total = 0;
    double lo = (double)s.min, hi = (double)s.max;
    assert_ok(tmk_stats_linear(stats, false, lo, hi, BINS, out, &diag), &diag);
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
    assert_ok(tmk_stats_linear(stats, true, 0, fmax(-lo, hi), BINS, out, &diag), &diag);
    total = 0;
    for (size_t i = 0; i < BINS; i++)
        total += out[i];
    assert_true(fabs(total - N) < 1e-6 * N);
    /* what is outside is left out */
    assert_ok(tmk_stats_linear(stats, false, 100, 200, BINS, out, &diag), &diag);
    for (size_t i = 0; i < BINS; i++)
        assert_true(out[i] == 0);
    assert_int_equal(tmk_stats_linear(stats, false, 1, 1, BINS, out, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_stats_linear(stats, false, 0, INFINITY, BINS, out, NULL), TMK_ARGUMENT);
    tmk_stats_destroy(&stats);
    const float ends[] = {0, 0, 1, 2};
    stats = state_of(TMK_STATS_HISTOGRAM, ends, 4);
    assert_ok(tmk_stats_linear(stats, false, 0, 2, 2, out, &diag), &diag);
    assert_true(out[0] == 2 && out[1] == 2);
    tmk_stats_destroy(&stats);
    free(x);
}

static void bins_tile_the_line(void **state) {
    (void)state;
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

static void integers_are_counted_with_their_places(void **state) {
    (void)state;
    struct tmk_diag diag = {0};
    struct tmk_int_stats a = {0}, b = {0}, back;
    struct tmk_shape shape = {2, {2, 3}}, none = {1, {0}};
    struct tmk_stats_at at = {8, 2, -1};
    const char bytes[] = {'?', 5, (char)-7, 0, 5, (char)-7, 0};
    assert_ok(tmk_int_stats_update(&a, TMK_INT8, bytes + 1, &shape, &at, &diag), &diag);
    assert_int_equal(a.min, -7);
    assert_int_equal(a.max, 5);
    assert_int_equal(a.zeros, 2);
    assert_int_equal(a.min_at.sample, 8);
    assert_int_equal(a.min_at.index, 1);
    const uint64_t large[] = {UINT64_MAX, 3, (uint64_t)INT64_MAX + 1, 4, 5, INT64_MAX};
    at.sample = 2;
    assert_ok(tmk_int_stats_update(&b, TMK_UINT64, large, &shape, &at, &diag), &diag);
    assert_int_equal(b.saturated, 2);
    assert_true(b.max == INT64_MAX && b.min == 3);
    struct tmk_int_stats ab = a, ba = b;
    assert_ok(tmk_int_stats_merge(&ab, &b, &diag), &diag);
    assert_ok(tmk_int_stats_merge(&ba, &a, &diag), &diag);
    struct tmk_text x = {0}, y = {0};
    tmk_int_stats_encode(&ab, &x);
    tmk_int_stats_encode(&ba, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    assert_ok(tmk_int_stats_decode(x.data, x.len, &back, &diag), &diag);
    assert_int_equal(back.count, 12);
    assert_int_equal(back.min_at.sample, 8);
    for (size_t len = 0; len < x.len; len++)
        assert_int_equal(tmk_int_stats_decode(x.data, len, &back, NULL), TMK_FORMAT);
    const bool flags[] = {true, false, false, true, false, true};
    struct tmk_int_stats c = {0};
    assert_ok(tmk_int_stats_update(&c, TMK_BOOL, flags, &shape, &at, &diag), &diag);
    assert_int_equal(c.max, 1);
    assert_int_equal(c.zeros, 3);
    assert_ok(tmk_int_stats_merge_times(&c, &c, 4, &diag), &diag);
    assert_int_equal(c.count, 30);
    assert_int_equal(c.samples, 10);
    assert_int_equal(tmk_int_stats_merge_times(&c, &a, UINT64_MAX, NULL), TMK_RANGE);
    assert_int_equal(tmk_int_stats_update(&c, TMK_FLOAT32, flags, &none, &at, NULL), TMK_TYPE);
    assert_ok(tmk_int_stats_update(&c, TMK_INT64, NULL, &none, &at, &diag), &diag);
    assert_int_equal(c.count, 30);
    tmk_text_finish(&x);
    tmk_text_finish(&y);
}

static void floating_point_modes_do_not_show(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_naive_counting),
        cmocka_unit_test(sums_are_exact_and_squares_bracketed),
        cmocka_unit_test(sums_round_once_to_nearest_even),
        cmocka_unit_test(a_constant_has_no_variance),
        cmocka_unit_test(order_shards_and_merge_trees_do_not_show),
        cmocka_unit_test(the_order_of_elements_shows_in_places_only),
        cmocka_unit_test(packed_words_never_overflow),
        cmocka_unit_test(times_k_is_k_observations),
        cmocka_unit_test(the_earliest_sample_then_the_lowest_index_wins_a_tie),
        cmocka_unit_test(minus_zero_is_below_zero),
        cmocka_unit_test(a_tensor_without_elements_counts_its_sample),
        cmocka_unit_test(levels_do_not_mix),
        cmocka_unit_test(channels_are_those_of_naive_scanning),
        cmocka_unit_test(channels_that_disagree_are_dropped_in_any_order),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(a_listing_restores_its_state),
        cmocka_unit_test(books_that_do_not_balance_are_refused),
        cmocka_unit_test(the_state_of_a_relu_follows_from_its_input),
        cmocka_unit_test(quantiles_lie_in_their_enclosure),
        cmocka_unit_test(linear_histograms_keep_every_element),
        cmocka_unit_test(bins_tile_the_line),
        cmocka_unit_test(integers_are_counted_with_their_places),
        cmocka_unit_test(floating_point_modes_do_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
