/* SPDX-License-Identifier: Apache-2.0 */
/* Methods, and what they promise, against the raw numbers. */
#include "stats_data.h"

#include "calib/method.h"

enum { N = 20000 };

static struct tmk_stats *observed(const float *x, size_t n) {
    struct tmk_stats *stats;
    struct tmk_diag diag = {0};
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)n}};
    struct tmk_stats_at at = {.samples = 1, .channel_axis = -1};
    assert_ok(tmk_stats_create(TMK_STATS_HISTOGRAM, &stats, &diag), &diag);
    assert_ok(tmk_stats_update(stats, x, &shape, &at, &diag), &diag);
    return stats;
}

static void spread_of(const float *x, size_t n, struct tmk_spread *spread) {
    struct tmk_diag diag = {0};
    struct tmk_stats *stats = observed(x, n);
    assert_ok(tmk_spread_make((const struct tmk_stats *const *)&stats, 1, spread, &diag), &diag);
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
    double sum = 0, most = tmk_grid_float8_most(grid->dtype);
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
    struct tmk_diag diag = {0};
    assert_ok(tmk_grid_fit(grid, (float)low, (float)high, scale, zero_point, &diag), &diag);
}

static void test_what_is_expected_holds_on_the_raw_numbers(void **state) {
    (void)state;
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
static void test_mse_is_as_good_as_brute_force(void **state) {
    (void)state;
    for (size_t d = 0; d < TMK_COUNT(draws); d++) {
        struct tmk_spread spread;
        float *x = data(draws[d], N);
        spread_of(x, N, &spread);
        for (size_t g = 0; g < TMK_COUNT(grids); g++) {
            struct tmk_choice choice;
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
            if (ours > best * 1.005 + 1e-14)
                print_message("data %zu grid %zu: %g, by brute force %g\n", d, g, ours, best);
            assert_true(ours <= best * 1.005 + 1e-14);
        }
        tmk_spread_finish(&spread);
        free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_expected_holds_on_the_raw_numbers),
        cmocka_unit_test(test_mse_is_as_good_as_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
