/* SPDX-License-Identifier: Apache-2.0 */
/* Methods, and what they promise, against the raw numbers. */
#include "stats_data.h"

#include "calib/method.h"

enum { N = 6000 };

/* The two numbers of auto. */
#define AUTO_WEIGHT 128.0
#define AUTO_UNSEEN 0.02

static struct tmk_stats *observed(const float *x, size_t n) {
    struct tmk_stats *stats;
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)n}};
    struct tmk_stats_at at = {.samples = 1, .channel_axis = -1};
    must(tmk_stats_create(TMK_STATS_HISTOGRAM, &stats, DIAG));
    must(tmk_stats_update(stats, x, &shape, &at, DIAG));
    return stats;
}

static void spread_of(const float *x, size_t n, struct tmk_spread *spread) {
    struct tmk_stats *stats = observed(x, n);
    must(tmk_spread_make((const struct tmk_stats *const *)&stats, 1, spread, DIAG));
    tmk_stats_destroy(&stats);
}

static float *data(float (*draw)(void), size_t n) {
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = draw();
    return x;
}

static float draw_heavy(void) {
    double x = normal(), scale = uniform();
    return (float)(x / (scale + 0.02));
}
static float draw_outlier(void) {
    return uniform() < 0.001 ? 60 : (float)normal();
}
static float draw_image(void) {
    return (float)(next() % 256);
}
static float draw_coarse(void) {
    return (float)(next() % 11) * 0.37f - 1;
}
static float draw_negative(void) {
    return -(float)fabs(normal()) - 0.5f;
}
static float draw_zero(void) {
    return 0;
}
static float (*const draws[])(void) = {family_gauss, family_relu, draw_heavy,    draw_outlier,
                                       draw_image,   draw_coarse, draw_negative, draw_zero};

static const struct tmk_grid grids[] = {
    {TMK_INT8, true, true, false},          {TMK_UINT8, false, false, false},
    {TMK_INT8, false, false, false},        {TMK_UINT8, true, false, false},
    {TMK_INT4, true, false, false},         {TMK_UINT4, false, false, false},
    {TMK_UINT16, false, false, false},      {TMK_INT16, true, true, false},
    {TMK_FLOAT8E4M3FN, true, false, false}, {TMK_FLOAT8E5M2, true, false, false},
    {TMK_UINT8, false, false, true},        {TMK_INT8, true, true, true},
};

/* As an engine computes it, in float32. */
static double raw_mse(const float *x, size_t n, const struct tmk_grid *grid, float scale,
                      int32_t zero_point, double *clipped) {
    int32_t lowest = 0, highest = 0;
    bool is_integer = tmk_grid_codes(grid, &lowest, &highest);
    double sum = 0, most = tmk_grid_float8_max(grid->dtype);
    double half = 0.5 * (is_integer ? 1 : tmk_grid_float8_last_step(grid->dtype));
    *clipped = 0;
    for (size_t i = 0; i < n; i++) {
        double y, k = (double)x[i] / (double)scale;
        if (is_integer) {
            y = (double)((float)(tmk_grid_code(x[i], scale, zero_point, lowest, highest) -
                                 zero_point) *
                         scale);
            *clipped += k > highest - zero_point + half || k < lowest - zero_point - half;
        } else {
            y = (double)((float)tmk_grid_float8_nearest(grid->dtype, (double)(x[i] / scale)) *
                         scale);
            *clipped += fabs(k) > most + half;
        }
        sum += (y - (double)x[i]) * (y - (double)x[i]);
    }
    *clipped /= (double)n;
    return sum / (double)n;
}

static uint32_t codes_used(const float *x, size_t n, const struct tmk_grid *grid, float scale,
                           int32_t zero_point) {
    static bool seen[1 << 16];
    int32_t lowest, highest;
    uint32_t used = 0;
    if (!tmk_grid_codes(grid, &lowest, &highest))
        return UINT32_MAX;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < n; i++) {
        bool *cell = &seen[tmk_grid_code(x[i], scale, zero_point, lowest, highest) - lowest];
        used += !*cell;
        *cell = true;
    }
    return used;
}

static void fit(const struct tmk_grid *grid, double low, double high, float *scale,
                int32_t *zero_point) {
    must(tmk_grid_fit(grid, (float)low, (float)high, scale, zero_point, DIAG));
}

TEST(test_what_is_expected_holds_on_the_raw_numbers) {
    static const double shares[] = {1, 0.8, 0.31, 0.05};
    for (size_t d = 0; d < TMK_COUNT(draws); d++) {
        struct tmk_spread spread;
        float *x = data(draws[d], N);
        spread_of(x, N, &spread);
        for (size_t g = 0; g < TMK_COUNT(grids); g++)
            for (size_t s = 0; s < TMK_COUNT(shares); s++) {
                struct tmk_expectation expected;
                float scale;
                int32_t zero_point;
                double clipped;
                fit(&grids[g], (double)spread.min * shares[s], (double)spread.max * shares[s],
                    &scale, &zero_point);
                tmk_expect(&spread, &grids[g], scale, zero_point, &expected);
                double mse = raw_mse(x, N, &grids[g], scale, zero_point, &clipped);
                assert_true(expected.mse_low <= mse && mse <= expected.mse_high);
                assert_true(expected.mse_low <= expected.mse && expected.mse <= expected.mse_high);
                assert_true(expected.clipped_low <= clipped + 1e-12);
                assert_true(expected.clipped_high >= clipped - 1e-12);
                assert_true(expected.clipped_low <= expected.clipped + 1e-12);
                assert_true(expected.clipped_high >= expected.clipped - 1e-12);
                assert_true(expected.codes <= codes_used(x, N, &grids[g], scale, zero_point));
                assert_true(expected.codes >= 1);
                assert_true(expected.mse ==
                            tmk_expect_mse(&spread, &grids[g], (double)scale, zero_point));
            }
        tmk_spread_finish(&spread);
        free(x);
    }
}

/* No range in a fine sweep does better on the raw numbers than the bins' uncertainty allows. */
TEST(test_mse_is_as_good_as_brute_force) {
    for (size_t d = 0; d < TMK_COUNT(draws); d++) {
        struct tmk_spread spread;
        float *x = data(draws[d], N);
        spread_of(x, N, &spread);
        for (size_t g = 0; g < TMK_COUNT(grids); g++) {
            struct tmk_clip_choice choice;
            struct tmk_diag diag = {0};
            float scale;
            int32_t zero_point;
            double clipped, best = HUGE_VAL, most = fmax(-(double)spread.min, (double)spread.max);
            assert_ok(tmk_method_find("mse")->choose(&spread, &grids[g], 0, &choice, &diag), &diag);
            fit(&grids[g], (double)choice.low, (double)choice.high, &scale, &zero_point);
            double ours = raw_mse(x, N, &grids[g], scale, zero_point, &clipped);
            for (int i = 1; i <= 300; i++) {
                double low = fmax((double)spread.min, -most * i / 300);
                double high = fmin((double)spread.max, most * i / 300);
                if (low > high)
                    continue;
                fit(&grids[g], low, high, &scale, &zero_point);
                best = fmin(best, raw_mse(x, N, &grids[g], scale, zero_point, &clipped));
            }
            if (ours > best * 1.02 + 1e-14)
                print_message("data %zu grid %zu: %g, by brute force %g\n", d, g, ours, best);
            assert_true(ours <= best * 1.02 + 1e-14);
        }
        tmk_spread_finish(&spread);
        free(x);
    }
}

static struct tmk_clip_choice chosen(const char *method, const struct tmk_spread *spread,
                                     const struct tmk_grid *grid, double parameter) {
    struct tmk_clip_choice choice = {0};
    struct tmk_diag diag = {0};
    assert_ok(tmk_method_find(method)->choose(spread, grid, parameter, &choice, &diag), &diag);
    assert_true(choice.low <= choice.high);
    return choice;
}

/* What auto minimises, on the raw numbers: docs/calibration.md. */
static double auto_cost(const float *x, const struct tmk_spread *spread,
                        const struct tmk_grid *grid, double low, double high, double tail) {
    float scale;
    int32_t zero_point, lowest = 0, highest = 0;
    double clipped, samples = (double)spread->samples, ends[2];
    fit(grid, low, high, &scale, &zero_point);
    assert_true(tmk_grid_codes(grid, &lowest, &highest));
    ends[0] = (double)scale * (highest - zero_point);
    ends[1] = (double)scale * (zero_point - lowest);
    double cost = raw_mse(x, N, grid, scale, zero_point, &clipped) * N;
    for (size_t i = 0; i < N; i++) {
        double beyond = fmax((double)x[i] - ends[0], -(double)x[i] - ends[1]);
        cost += AUTO_WEIGHT / samples * fmax(0, beyond) * fmax(0, beyond);
    }
    for (int end = 0; end < 2; end++) {
        double most = end ? -(double)spread->min : (double)spread->max, inside = most - ends[end];
        if (most > 0)
            cost += AUTO_UNSEEN * samples / (samples + 1) *
                    (inside > 0 ? 2 * tail * tail + 2 * tail * inside + inside * inside
                                : 2 * tail * tail * exp(inside / tail));
    }
    return cost;
}

/* Four samples whose extremes are 1.5 steps apart: the mean distance from the smallest is 3. */
static void put_topk(struct tmk_spread *spread, double step, uint64_t samples) {
    spread->samples = samples;
    spread->topk.n = TMK_TOPK;
    for (uint32_t i = 0; i < TMK_TOPK; i++) {
        spread->topk.min[i].value = (float)((double)spread->min + 1.5 * i * step);
        spread->topk.max[i].value = (float)((double)spread->max - 1.5 * i * step);
    }
}

TEST(test_auto_is_as_good_as_brute_force) {
    for (size_t d = 0; d < TMK_COUNT(draws); d++) {
        struct tmk_spread spread;
        float *x = data(draws[d], N);
        spread_of(x, N, &spread);
        double most = fmax(-(double)spread.min, (double)spread.max), step = most / 64;
        put_topk(&spread, step, 8);
        for (size_t g = 0; g < TMK_COUNT(grids); g++) {
            struct tmk_clip_choice choice = {0};
            struct tmk_diag diag = {0};
            /* of few different numbers the cost has narrow minima, where codes coincide with them
             */
            if (draws[d] == draw_coarse || draws[d] == draw_image || grids[g].pow2 ||
                !tmk_grid_codes(&grids[g], &(int32_t){0}, &(int32_t){0}))
                continue;
            assert_ok(tmk_method_find("auto")->choose(&spread, &grids[g], 0, &choice, &diag),
                      &diag);
            double ours =
                auto_cost(x, &spread, &grids[g], (double)choice.low, (double)choice.high, 3 * step);
            double best = HUGE_VAL;
            for (int i = 1; i <= 400 && most > 0; i++) {
                double low = spread.min < 0 ? -most * i / 200 : 0;
                double high = spread.max > 0 ? most * i / 200 : 0;
                best = fmin(best, auto_cost(x, &spread, &grids[g], low, high, 3 * step));
            }
            if (ours > best * 1.04 + 1e-10)
                print_message("data %zu grid %zu: %g, by brute force %g\n", d, g, ours, best);
            assert_true(ours <= best * 1.04 + 1e-10);
        }
        tmk_spread_finish(&spread);
        free(x);
    }
}

/* Samples that differ in their extremes leave room for others; the more so the less it costs. */
TEST(test_auto_leaves_room_for_other_samples) {
    enum { FEW = 64 };
    static const struct tmk_grid of8 = {TMK_UINT8, false, false, false};
    static const struct tmk_grid of16 = {TMK_UINT16, false, false, false};
    static const struct tmk_grid pow2 = {TMK_UINT8, false, false, true};
    struct tmk_spread few, many;
    float *x = data(family_gauss, N);
    spread_of(x, FEW, &few);
    put_topk(&few, (double)few.max / 32, 4);
    struct tmk_clip_choice at8 = chosen("auto", &few, &of8, 0);
    struct tmk_clip_choice at16 = chosen("auto", &few, &of16, 0);
    assert_true(at8.high > few.max * 1.02f && at8.low < few.min * 1.02f);
    assert_true(at16.high > at8.high * 1.1f && at16.low < at8.low * 1.1f);
    assert_true(chosen("auto", &few, &pow2, 0).high >= few.max);
    put_topk(&few, 0, 4); /* all samples reach equally far, as pixels do */
    at8 = chosen("auto", &few, &of8, 0);
    assert_true(at8.high <= few.max * 1.01f && at8.low >= few.min * 1.01f);
    few.topk.n = 0; /* not known */
    at8 = chosen("auto", &few, &of8, 0);
    assert_true(at8.high <= few.max * 1.01f && at8.low >= few.min * 1.01f);
    tmk_spread_finish(&few);
    spread_of(x, N, &many);
    put_topk(&many, (double)many.max / 256, 1000);
    at8 = chosen("auto", &many, &of8, 0);
    assert_true(at8.high <= many.max * 1.01f && at8.low >= many.min * 1.01f);
    at16 = chosen("auto", &many, &of16, 0);
    assert_true(at16.high >= many.max && at16.low <= many.min);
    tmk_spread_finish(&many);
    free(x);
}

/* Less is clipped the fewer samples were seen. */
TEST(test_auto_clips_less_of_few_samples) {
    static const struct tmk_grid of4 = {TMK_UINT4, false, false, false};
    static const uint64_t counts[] = {0, 4, 64, 100000};
    struct tmk_spread spread;
    float *x = data(family_gauss, N), before = 0;
    spread_of(x, N, &spread);
    for (size_t i = 0; i < TMK_COUNT(counts); i++) {
        spread.samples = counts[i];
        struct tmk_clip_choice choice = chosen("auto", &spread, &of4, 0);
        assert_true(i < 2 || choice.high - choice.low < before * 0.99f);
        before = choice.high - choice.low;
    }
    /* of very many it is the squared error alone */
    struct tmk_clip_choice mse = chosen("mse", &spread, &of4, 0);
    assert_true(fabsf(before - (mse.high - mse.low)) < 0.02f * before);
    tmk_spread_finish(&spread);
    free(x);
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(test_percentiles_hold_the_elements) {
    static const double percents[] = {100, 99.999, 99.99, 99, 90, 50, 1};
    static const struct tmk_grid symmetric = {TMK_INT8, true, true, false},
                                 asymmetric = {TMK_UINT8, false, false, false};
    for (size_t d = 0; d < TMK_COUNT(draws); d++) {
        struct tmk_spread spread;
        float *x = data(draws[d], N), *magnitudes = data(family_gauss, N);
        spread_of(x, N, &spread);
        for (size_t i = 0; i < N; i++)
            magnitudes[i] = fabsf(x[i]);
        qsort(x, N, sizeof *x, ascending);
        qsort(magnitudes, N, sizeof *magnitudes, ascending);
        for (size_t p = 0; p < TMK_COUNT(percents); p++) {
            struct tmk_clip_choice choice = chosen("percentile", &spread, &asymmetric, percents[p]);
            double one_side = 1 - (1 - percents[p] / 100) / 2;
            size_t rank = (size_t)ceil(one_side * N) - 1;
            double high = (double)x[rank], low = (double)x[N - 1 - rank];
            assert_true(choice.high_from <= high && high <= choice.high_to);
            assert_true(choice.low_from <= low && low <= choice.low_to);
            assert_true(fabs((double)choice.high - high) <= 0.0039 * fabs(high));
            assert_true(fabs((double)choice.low - low) <= 0.0039 * fabs(low));
            choice = chosen("percentile", &spread, &symmetric, percents[p]);
            double at = (double)magnitudes[(size_t)ceil(percents[p] / 100 * N) - 1];
            double made = fmax(-(double)choice.low, (double)choice.high);
            assert_true(fabs(made - at) <= 0.0039 * at);
            assert_true(fmax(choice.high_to, -choice.low_from) >= at);
            if (percents[p] == 100)
                assert_true(made == at);
        }
        tmk_spread_finish(&spread);
        free(magnitudes);
        free(x);
    }
}

TEST(test_parameters_out_of_range) {
    struct tmk_diag diag = {0};
    struct tmk_clip_choice choice;
    struct tmk_spread spread = {.min = -1, .max = 1};
    static const struct tmk_grid grid = {TMK_INT8, true, true, false};
    static const double wrong[] = {0, -1, 101, NAN};
    for (size_t i = 0; i < TMK_COUNT(wrong); i++) {
        assert_int_equal(
            tmk_method_find("percentile")->choose(&spread, &grid, wrong[i], &choice, &diag),
            TMK_ARGUMENT);
        assert_int_equal(
            tmk_method_find("moving-average")->choose(&spread, &grid, wrong[i], &choice, &diag),
            TMK_ARGUMENT);
    }
    assert_null(tmk_method_find("magic"));
}

/* A bell is hardly clipped, and little less with a blank border behind a bias; few elements that
 * are far out are kept. */
TEST(test_entropy) {
    enum { MANY = 40000 };
    static const struct tmk_grid grid = {TMK_INT8, true, true, false};
    struct tmk_spread spread;
    float *x = data(family_gauss, MANY);
    spread_of(x, MANY / 2, &spread);
    struct tmk_clip_choice plain = chosen("entropy", &spread, &grid, 0);
    assert_true(plain.high > 2.5f && plain.high <= spread.max);
    double reach = fmax(-(double)plain.low, (double)plain.high);
    assert_true(plain.flat_low <= 1.00001 * reach && plain.flat_high >= 0.99999 * reach);
    tmk_spread_finish(&spread);
    for (size_t i = MANY / 2; i < MANY; i++)
        x[i] = 0.3f;
    spread_of(x, MANY, &spread);
    struct tmk_clip_choice spiked = chosen("entropy", &spread, &grid, 0);
    assert_true(fabsf(spiked.high - plain.high) < 0.4f * plain.high);
    tmk_spread_finish(&spread);
    free(x);
    x = data(draw_outlier, MANY);
    spread_of(x, MANY, &spread);
    struct tmk_clip_choice kept = chosen("entropy", &spread, &grid, 0);
    assert_true(kept.high >= 0.98f * spread.max);
    tmk_spread_finish(&spread);
    free(x);
}

/* Of few or odd numbers, too: what the divergence alone would clip costs no more than the range of
 * all. */
TEST(test_entropy_loses_nothing_to_the_whole_range) {
    static const size_t sizes[] = {5, 40, 300, N};
    for (size_t d = 0; d < TMK_COUNT(draws); d++)
        for (size_t n = 0; n < TMK_COUNT(sizes); n++) {
            struct tmk_spread spread;
            float *x = data(draws[d], sizes[n]);
            spread_of(x, sizes[n], &spread);
            for (size_t g = 0; g < TMK_COUNT(grids); g++) {
                struct tmk_clip_choice choice = chosen("entropy", &spread, &grids[g], 0);
                float scale;
                int32_t zero_point;
                fit(&grids[g], (double)choice.low, (double)choice.high, &scale, &zero_point);
                double clipped = tmk_expect_mse(&spread, &grids[g], (double)scale, zero_point);
                fit(&grids[g], (double)spread.min, (double)spread.max, &scale, &zero_point);
                double whole = tmk_expect_mse(&spread, &grids[g], (double)scale, zero_point);
                if (clipped > whole)
                    print_message("data %zu of %zu, grid %zu: %g, whole %g\n", d, sizes[n], g,
                                  clipped, whole);
                assert_true(clipped <= whole);
                assert_true(choice.flat_low <= choice.flat_high);
            }
            tmk_spread_finish(&spread);
            free(x);
        }
}

TEST(test_moving_average_follows_the_samples) {
    static const float min[] = {-1, NAN, -3, -2}, max[] = {1, NAN, 2, 8};
    static const struct tmk_grid grid = {TMK_INT8, true, true, false};
    struct tmk_spread spread = {.min = -3, .max = 8};
    struct tmk_clip_choice choice;
    struct tmk_diag diag = {0};
    const struct tmk_method *method = tmk_method_find("moving-average");
    assert_int_equal(method->choose(&spread, &grid, 0.5, &choice, &diag), TMK_UNSUPPORTED);
    assert_ok(tmk_spread_take_samples(&spread, min, max, TMK_COUNT(min), &diag), &diag);
    choice = chosen("moving-average", &spread, &grid, 0.5);
    assert_true(choice.low == -2 && choice.high == 4.75f);
    /* of two values that share a scale, each sample's extremes are those of both */
    static const float more_min[] = {0, -5, NAN, -4}, more_max[] = {3, 6, NAN, 4};
    assert_ok(tmk_spread_take_samples(&spread, more_min, more_max, TMK_COUNT(min), &diag), &diag);
    choice = chosen("moving-average", &spread, &grid, 0.5);
    assert_true(choice.low == -3.5f && choice.high == 5.625f);
    assert_int_equal(tmk_spread_take_samples(&spread, min, max, 1, &diag), TMK_ARGUMENT);
    tmk_spread_finish(&spread);
    spread = (struct tmk_spread){.min = -3, .max = 8};
    assert_ok(tmk_spread_take_samples(&spread, min + 1, max + 1, 1, &diag), &diag);
    assert_int_equal(method->choose(&spread, &grid, 0.5, &choice, &diag), TMK_NOTFOUND);
    tmk_spread_finish(&spread);
}

/* All that several states hold is what one state of all of it holds. */
TEST(test_spreads_of_several_states) {
    float *x = data(draw_heavy, N);
    struct tmk_stats *parts[2] = {observed(x, N / 3), observed(x + N / 3, N - N / 3)}, *none;
    struct tmk_spread whole, merged;
    spread_of(x, N, &whole);
    must(tmk_spread_make((const struct tmk_stats *const *)parts, 2, &merged, DIAG));
    assert_int_equal(whole.n, merged.n);
    assert_memory_equal(whole.lo, merged.lo, 4 * whole.n * sizeof *whole.lo);
    assert_true(whole.square == merged.square && whole.finite == N);
    tmk_spread_finish(&whole);
    tmk_spread_finish(&merged);
    tmk_stats_destroy(&parts[1]);
    parts[1] = observed(x, 0);
    assert_int_equal(tmk_spread_make((const struct tmk_stats *const *)&parts[1], 1, &merged, DIAG),
                     TMK_NOTFOUND);
    must(tmk_stats_create(TMK_STATS_RANGE, &none, DIAG));
    struct tmk_stats *mixed[2] = {parts[0], none};
    assert_int_equal(tmk_spread_make((const struct tmk_stats *const *)mixed, 2, &merged, NULL),
                     TMK_UNSUPPORTED);
    tmk_stats_destroy(&none);
    tmk_stats_destroy(&parts[0]);
    tmk_stats_destroy(&parts[1]);
    free(x);
}

/* At the ends of what is said to be flat the error is within 1 % of the least. */
TEST(test_flat_optima_are_told) {
    static const struct tmk_grid grid = {TMK_INT4, true, false, false};
    struct tmk_spread spread;
    float *x = data(draw_heavy, N);
    spread_of(x, N, &spread);
    for (int bits = 4; bits <= 8; bits += 4) {
        struct tmk_grid of = grid;
        of.dtype = bits == 8 ? TMK_INT8 : TMK_INT4;
        struct tmk_clip_choice choice = chosen("mse", &spread, &of, 0);
        double ends[2] = {choice.flat_low, choice.flat_high};
        int32_t lowest = 0, highest = 0, zero_point;
        float scale;
        fit(&of, (double)choice.low, (double)choice.high, &scale, &zero_point);
        assert_true(tmk_grid_codes(&of, &lowest, &highest));
        assert_true(ends[0] <= -lowest * (double)scale * 1.000001);
        assert_true(ends[1] >= -lowest * (double)scale * 0.999999);
        double best = tmk_expect_mse(&spread, &of, (double)scale, zero_point);
        for (int end = 0; end < 2; end++) {
            double made = tmk_expect_mse(&spread, &of, ends[end] / -(double)lowest, zero_point);
            assert_true(made <= best * 1.0101);
        }
    }
    tmk_spread_finish(&spread);
    free(x);
}
