/* SPDX-License-Identifier: Apache-2.0 */
/* Thinned histograms, against elements that are chosen and added up one by one. */
#include "stats_data.h"

#include "stats/exact.h"

enum { RUN = 64 };

/* The formula of stats/tile.h, once more. */
static uint64_t mixed(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool is_counted(uint64_t key, uint32_t share, uint64_t sample, size_t index, size_t part) {
    const size_t run = index / RUN, group = run / share;
    const uint64_t h = mixed(mixed(mixed(key) + sample) + group) >> 32;
    return part <= (size_t)share * RUN || run % share == (size_t)(h * share >> 32);
}

static void add_exactly(struct tmk_exact *sum, uint32_t v) {
    const uint32_t exponent = v >> 23 & 0xff;
    if (exponent < 0xff)
        tmk_exact_add(sum, (v & 0x7fffffu) | (exponent ? 0x800000u : 0),
                      exponent ? exponent - 1 : 0, v >> 31);
}

static struct tmk_stats *thinned(uint32_t share, uint64_t key,
                                 const struct tmk_stats_kernel *kernel) {
    struct tmk_stats *stats = NULL;
    must(tmk_stats_create_with(TMK_STATS_HISTOGRAM, kernel, &stats, DIAG));
    must(tmk_stats_thin(stats, share, key, DIAG));
    return stats;
}

/* What a whole state has but the bins, and those of the chosen elements. */
static struct tmk_stats *chosen_of(uint32_t share, uint64_t key, const float *x,
                                   const struct tmk_shape *shape, const struct tmk_stats_at *at) {
    struct tmk_stats *stats = thinned(share, key, &tmk_stats_kernel_plain),
                     *whole = empty(TMK_STATS_MINMAX);
    size_t n;
    assert_true(tmk_shape_count(shape, &n));
    const bool divides = at->samples > 1 && n % at->samples == 0 && !at->whole;
    const size_t part = divides ? n / (size_t)at->samples : n;
    must(tmk_stats_update(whole, x, shape, at, DIAG));
    for (size_t i = 0; i < n; i++) {
        const uint32_t v = tmk_bits_of_float(x[i]), low = v & 0xffffu;
        const struct tmk_wide one = {1, low, 0, (uint16_t)(v >> 16)};
        add_exactly(&stats->sum, v);
        assert_true(tmk_stats_reserve(stats, 1));
        if ((v & 0x7fffffffu) != 0 && (v & 0x7f800000u) != 0x7f800000u &&
            is_counted(key, share, at->sample + i / part, i % part, part))
            tmk_stats_add_bin(stats, &one);
    }
    stats->count = whole->count;
    stats->nan = whole->nan, stats->posinf = whole->posinf, stats->neginf = whole->neginf;
    stats->zeros = whole->zeros, stats->negative_zeros = whole->negative_zeros;
    stats->min = whole->min, stats->max = whole->max;
    stats->first_nonfinite = whole->first_nonfinite;
    stats->samples = whole->samples, stats->updates = whole->updates;
    stats->channels = whole->channels;
    whole->channels = (struct tmk_channels){0};
    tmk_stats_destroy(&whole);
    return stats;
}

static void fill_blocks(const float *x, size_t outer, size_t channels, size_t inner, size_t block,
                        float *y) {
    const size_t padded = (channels + block - 1) / block * block;
    for (size_t o = 0; o < outer; o++)
        for (size_t c = 0; c < padded; c++)
            for (size_t i = 0; i < inner; i++)
                y[(o * padded + c / block * block) * inner + i * block + c % block] =
                    c < channels ? x[(o * channels + c) * inner + i] : 1e30f;
}

TEST(kernels_layouts_and_pieces_choose_the_same) {
    static const uint32_t shares[] = {2, 3, 8, 64}, blocks[] = {0, 4, 8, 16, 32};
    for (int round = 0; round < 250; round++) {
        const uint32_t share = shares[next() % TMK_COUNT(shares)];
        const uint64_t key = next() % 3, samples = 1 + next() % 3;
        const size_t channels = 1 + next() % 40, inner = 1 + next() % 300;
        const size_t block = blocks[next() % TMK_COUNT(blocks)];
        const struct tmk_shape shape = {3, {(int64_t)samples, (int64_t)channels, (int64_t)inner}};
        const size_t n = (size_t)samples * channels * inner,
                     places =
                         block ? (size_t)samples * ((channels + block - 1) / block * block) * inner
                               : n;
        struct tmk_stats_at at = {next() % 50, samples, (int32_t)(next() % 4) - 1, false, 0};
        float *x = data_of(next() % TMK_COUNT(families), n), *y = malloc(places * sizeof *y);
        assert_non_null(y);
        if (block)
            fill_blocks(x, (size_t)samples, channels, inner, block, y);
        else
            memcpy(y, x, n * sizeof *y);
        struct tmk_stats *truth = chosen_of(share, key, x, &shape, &at);
        at.block = (uint32_t)block;
        for (size_t k = 0; tmk_stats_kernel_at(k); k++) {
            struct tmk_stats *stats = thinned(share, key, tmk_stats_kernel_at(k));
            struct tmk_stats_pass pass;
            must(tmk_stats_begin(stats, &shape, &at, NULL, &pass, DIAG));
            for (size_t done = 0, m; done < places; done += m) {
                m = 1 + next() % 3000;
                m = m < places - done ? m : places - done;
                must(tmk_stats_piece(&pass, y + done, done, m, DIAG));
            }
            must(tmk_stats_end(&pass, DIAG));
            assert_true(equal(truth, stats));
            reencode(&stats);
            must(tmk_stats_finalize(stats, DIAG));
            assert_true(equal(truth, stats));
            tmk_stats_destroy(&stats);
        }
        tmk_stats_destroy(&truth);
        free(x);
        free(y);
    }
}

/* As one batch, sample by sample, and in two states that are merged. Rows of [samples * heads, n]
 * belong to their samples. */
TEST(batches_and_shards_do_not_show) {
    enum { SAMPLES = 6, HEADS = 3, N = 1100 };
    for (int round = 0; round < 60; round++) {
        const size_t family = next() % TMK_COUNT(families), rows = round % 2 ? HEADS : 1;
        float *x = data_of(family, SAMPLES * rows * N);
        struct tmk_shape all = {2, {(int64_t)(SAMPLES * rows), N}}, one = {2, {(int64_t)rows, N}};
        struct tmk_stats *together = thinned(8, 5, tmk_stats_kernel_at(0)),
                         *apart[2] = {thinned(8, 5, tmk_stats_kernel_at(0)),
                                      thinned(8, 5, tmk_stats_kernel_at(0))};
        const struct tmk_stats_at at = {0, SAMPLES, -1, false, 0};
        size_t order[SAMPLES];
        shuffle(order, SAMPLES);
        must(tmk_stats_update(together, x, &all, &at, DIAG));
        for (size_t i = 0; i < SAMPLES; i++) {
            const struct tmk_stats_at here = {order[i], 1, -1, false, 0};
            must(tmk_stats_update(apart[next() % 2], x + order[i] * rows * N, &one, &here, DIAG));
        }
        merge(apart[0], apart[1]);
        apart[0]->updates = together->updates; /* so many calls, */
        if (rows > 1) { /* and places of the whole batch, are all that shows */
            apart[0]->min.at = together->min.at;
            apart[0]->max.at = together->max.at;
            apart[0]->first_nonfinite = together->first_nonfinite;
        }
        assert_true(equal(together, apart[0]));
        tmk_stats_destroy(&together);
        tmk_stats_destroy(&apart[0]);
        tmk_stats_destroy(&apart[1]);
        free(x);
    }
}

TEST(every_group_has_one_run) {
    enum { SHARE = 8, GROUPS = 300, N = SHARE * RUN * GROUPS };
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (size_t g = 0; g < GROUPS; g++) /* a number, and so a bin, a group */
        for (size_t i = 0; i < SHARE * RUN; i++)
            x[g * SHARE * RUN + i] = tmk_float_of_bits((uint32_t)(0x3f80 + g) << 16);
    struct tmk_stats *stats = thinned(SHARE, 1, tmk_stats_kernel_at(0));
    uint16_t bin[GROUPS];
    uint64_t count[GROUPS], low[GROUPS];
    struct tmk_summary s;
    observe(stats, x, N, 7);
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.bins_used, GROUPS);
    assert_int_equal(s.counted, GROUPS * RUN);
    assert_int_equal(s.share, SHARE);
    tmk_stats_bins(stats, bin, count, low);
    for (size_t g = 0; g < GROUPS; g++)
        assert_int_equal(count[g], RUN);
    assert_true(tmk_stats_weight(stats) == SHARE);
    tmk_stats_destroy(&stats);
    free(x);
}

TEST(what_differs_does_not_merge) {
    float *x = data_of(0, 5000);
    struct tmk_stats *a = thinned(8, 1, tmk_stats_kernel_at(0)),
                     *b = thinned(4, 1, tmk_stats_kernel_at(0)),
                     *whole = empty(TMK_STATS_HISTOGRAM), *nothing = empty(TMK_STATS_HISTOGRAM),
                     *coarse = empty(TMK_STATS_RANGE);
    struct tmk_diag diag = {0};
    observe(a, x, 5000, 0);
    observe(b, x, 5000, 1);
    observe(whole, x, 5000, 2);
    assert_int_equal(tmk_stats_merge(a, b, &diag), TMK_MISMATCH);
    assert_string_equal(diag.text, "one histogram counts 1/8 of the elements, the other 1/4");
    assert_int_equal(tmk_stats_merge(whole, a, NULL), TMK_MISMATCH);
    merge(nothing, a); /* becomes as a is */
    assert_true(equal(nothing, a));
    must(tmk_stats_merge_times(nothing, a, 3, DIAG));
    for (int i = 0; i < 3; i++) {
        struct tmk_stats *more = thinned(8, 1, tmk_stats_kernel_at(0));
        observe(more, x, 5000, 0);
        merge(a, more);
        tmk_stats_destroy(&more);
    }
    assert_true(equal(nothing, a));
    assert_int_equal(tmk_stats_thin(a, 8, 1, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_stats_thin(coarse, 8, 1, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_stats_thin(coarse, 65, 1, NULL), TMK_ARGUMENT);
    tmk_stats_destroy(&a);
    tmk_stats_destroy(&b);
    tmk_stats_destroy(&whole);
    tmk_stats_destroy(&nothing);
    tmk_stats_destroy(&coarse);
    free(x);
}

static void check_estimates(const struct tmk_stats *whole, const struct tmk_stats *some) {
    const double error = tmk_stats_rank_error(some, 1 - 1e-9, false);
    struct tmk_summary a, b;
    tmk_stats_summary(whole, &a);
    tmk_stats_summary(some, &b);
    assert_true(error > 0 && error < 0.05);
    assert_true(tmk_stats_rank_error(some, 1 - 1e-9, true) > 7.9 * error);
    assert_true(tmk_stats_rank_error(whole, 0.99, true) == 0);
    assert_true(a.sum == b.sum && a.mean == b.mean && a.zeros == b.zeros && a.min == b.min);
    assert_true(b.std_lo <= a.std && a.std <= b.std_hi);
    assert_true(b.sumsq_lo <= a.sumsq_lo && a.sumsq_hi <= b.sumsq_hi);
    assert_true(fabs(b.std - a.std) <= 0.05 * a.std);
    for (int absolute = 0; absolute < 2; absolute++)
        for (double q = 0; q <= 1; q += 0.01) {
            double lo, hi, mid, least, least_hi, most, other;
            const double below = fmax(0, q - error), above = fmin(1, q + error);
            must(tmk_stats_quantile(some, q, absolute, &lo, &hi, &mid, DIAG));
            must(tmk_stats_quantile(whole, below, absolute, &least, &least_hi, &other, DIAG));
            must(tmk_stats_quantile(whole, above, absolute, &least_hi, &most, &other, DIAG));
            assert_true(lo >= least && hi <= most);
        }
    double lo, hi, mid;
    must(tmk_stats_quantile(some, 1, false, &lo, &hi, &mid, DIAG));
    assert_true(lo == (double)a.max && hi == (double)a.max);
    must(tmk_stats_quantile(some, 0, false, &lo, &hi, &mid, DIAG));
    assert_true(lo == (double)a.min && hi == (double)a.min);
}

TEST(quantiles_keep_the_bound) {
    enum { N = 200000 };
    static const size_t independent[] = {0, 1, 7, 8, 10}; /* families with a spread */
    for (size_t f = 0; f < TMK_COUNT(independent); f++) {
        float *x = data_of(independent[f], N);
        struct tmk_stats *whole = state_of(TMK_STATS_HISTOGRAM, x, N),
                         *some = thinned(8, f, tmk_stats_kernel_at(0));
        double parts[2][10], sum[2] = {0}, distance;
        observe(some, x, N, 0);
        if (independent[f] != 7) /* whose spread is that of its largest few */
            check_estimates(whole, some);
        must(tmk_stats_linear(whole, false, -4, 4, 10, parts[0], DIAG));
        must(tmk_stats_linear(some, false, -4, 4, 10, parts[1], DIAG));
        for (int i = 0; i < 10; i++)
            sum[0] += parts[0][i], sum[1] += parts[1][i];
        assert_true(fabs(sum[0] - sum[1]) <= 0.01 * sum[0]);
        must(tmk_stats_distance(whole, some, &distance, DIAG));
        assert_true(distance < 0.35);
        tmk_stats_destroy(&whole);
        tmk_stats_destroy(&some);
        free(x);
    }
}

/* Nothing but zeros was counted: then extremes are all that is known. */
TEST(what_was_never_counted_is_between_the_extremes) {
    enum { N = 4096 };
    static float x[N];
    struct tmk_stats *stats = thinned(64, 0, tmk_stats_kernel_at(0));
    struct tmk_summary s;
    double lo, hi, mid;
    size_t at = 0;
    while (is_counted(0, 64, 0, at, 2 * N))
        at++;
    const struct tmk_shape shape = flat(2 * N);
    struct tmk_stats_pass pass;
    const struct tmk_stats_at where = {0, 1, -1, false, 0};
    must(tmk_stats_begin(stats, &shape, &where, NULL, &pass, DIAG));
    x[at] = 5;
    must(tmk_stats_piece(&pass, x, 0, N, DIAG));
    x[at] = 0;
    must(tmk_stats_piece(&pass, x, N, N, DIAG));
    must(tmk_stats_end(&pass, DIAG));
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.counted, 0);
    assert_true(s.max == 5 && s.sum == 5 && tmk_stats_weight(stats) == 0);
    assert_true(s.std_lo <= s.std && s.std <= s.std_hi && isfinite(s.std));
    assert_true(tmk_stats_rank_error(stats, 0.99, false) == 1);
    must(tmk_stats_quantile(stats, 0.5, false, &lo, &hi, &mid, DIAG));
    assert_true(lo == 0 && hi == 0);
    must(tmk_stats_quantile(stats, 0.99999, false, &lo, &hi, &mid, DIAG));
    assert_true(hi == 5);
    reencode(&stats);
    tmk_stats_destroy(&stats);
}

TEST(impossible_sums_are_refused) {
    float *x = data_of(0, 3000);
    struct tmk_stats *stats = thinned(8, 0, tmk_stats_kernel_at(0)), *back = NULL;
    struct tmk_summary s;
    observe(stats, x, 3000, 0);
    tmk_stats_summary(stats, &s);
    uint16_t *bin = calloc(s.bins_used, sizeof *bin);
    uint64_t *count = calloc(s.bins_used, sizeof *count), *low = calloc(s.bins_used, sizeof *low);
    assert_true(bin && count && low);
    tmk_stats_bins(stats, bin, count, low);
    must(tmk_stats_restore(&s, bin, count, low, &back, DIAG));
    assert_true(equal(stats, back));
    tmk_stats_destroy(&back);
    struct tmk_summary wrong = s;
    wrong.exact_sum[3] += 1;
    assert_int_equal(tmk_stats_restore(&wrong, bin, count, low, &back, NULL), TMK_FORMAT);
    wrong = s;
    wrong.exact_sum[TMK_STATS_SUM_WORDS - 1] = UINT64_C(1) << 63;
    assert_int_equal(tmk_stats_restore(&wrong, bin, count, low, &back, NULL), TMK_FORMAT);
    wrong = s;
    wrong.share = 65;
    assert_int_equal(tmk_stats_restore(&wrong, bin, count, low, &back, NULL), TMK_ARGUMENT);
    count[0] += 3000;
    assert_int_equal(tmk_stats_restore(&s, bin, count, low, &back, NULL), TMK_FORMAT);
    tmk_stats_destroy(&stats);
    free(bin);
    free(count);
    free(low);
    free(x);
}
