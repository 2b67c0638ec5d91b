/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of weights: the error against codes one by one, the search against brute force, and which
 * scale an element has. */
#include "stats_data.h"

#include "calib/encodings.h"
#include "calib/weights.h"

static const struct tmk_grid grids[] = {
    {TMK_INT8, true, true, false},    {TMK_INT4, true, true, false},
    {TMK_INT4, true, false, false},   {TMK_UINT4, true, false, false},
    {TMK_UINT4, false, false, false}, {TMK_INT4, false, false, false},
    {TMK_UINT8, false, false, false}, {TMK_INT16, true, true, false},
    {TMK_INT8, true, true, true},     {TMK_FLOAT8E4M3FN, true, false, false},
};
static const size_t counts[] = {1, 9, 32, 300};
enum { MOST = 300 };

static float draw_even(void) {
    return (float)(uniform() - 0.3);
}
static float draw_outlier(void) {
    return uniform() < 0.03 ? (float)(9 * normal()) : (float)normal();
}
static float draw_negative(void) {
    return -(float)fabs(normal()) - 0.1f;
}
static float draw_zero(void) {
    return 0;
}
static float draw_tiny(void) {
    return (float)(normal() * 1e-25);
}
static float (*const draws[])(void) = {family_gauss,  draw_even, draw_outlier,
                                       draw_negative, draw_zero, draw_tiny};

static void draw_numbers(size_t d, size_t n, float *x, float *low, float *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        x[i] = draws[d]();
        *low = fminf(*low, x[i]);
        *high = fmaxf(*high, x[i]);
    }
}

static double plain_error(const float *x, size_t n, const struct tmk_grid *grid, int power,
                          float low, float high) {
    int32_t lowest = 0, highest = 0, zero;
    float scale;
    double sum = 0;
    const bool integer = tmk_grid_codes(grid, &lowest, &highest);
    struct tmk_diag diag = {0};
    assert_ok(tmk_grid_fit(grid, low, high, &scale, &zero, &diag), &diag);
    for (size_t i = 0; i < n; i++) {
        const double real =
            integer ? (double)scale * (tmk_grid_code(x[i], scale, zero, lowest, highest) - zero)
                    : (double)scale *
                          tmk_grid_float8_nearest(grid->dtype, (double)x[i] / (double)scale);
        sum += pow(fabs((double)x[i] - real), power);
    }
    return sum;
}

TEST(test_the_error_is_that_of_the_codes) {
    float x[MOST], low, high;
    for (size_t d = 0; d < TMK_COUNT(draws); d++)
        for (size_t g = 0; g < TMK_COUNT(grids); g++)
            for (size_t c = 0; c < TMK_COUNT(counts); c++)
                for (int power = 2; power <= 4; power += 2) {
                    draw_numbers(d, counts[c], x, &low, &high);
                    const float part = (float)(0.2 + 0.8 * uniform());
                    const double plain =
                        plain_error(x, counts[c], &grids[g], power, part * low, part * high);
                    const double made =
                        tmk_weight_error(x, counts[c], &grids[g], power, part * low, part * high);
                    const double most = pow(fmax(fabs((double)low), fabs((double)high)), power);
                    assert_true(fabs(made - plain) <= 1e-4 * plain + 1e-9 * most);
                }
    assert_true(isinf(tmk_weight_error(x, 1, &grids[0], 2, 1, -1)));
}

/* Ends in 4,000 steps, of an asymmetric grid in 120 by 120. */
static double brute_force(const float *x, size_t n, const struct tmk_grid *grid, int power,
                          float low, float high) {
    double best = HUGE_VAL;
    low = fminf(low, 0);
    high = fmaxf(high, 0);
    if (tmk_grid_is_centred(grid)) {
        const float most = fmaxf(-low, high);
        for (int i = 1; i <= 4000; i++) {
            const float end = most * (float)i / 4000;
            best = fmin(best, tmk_weight_error(x, n, grid, power, -end, end));
        }
        return best;
    }
    for (int i = 0; i <= 120; i++)
        for (int k = 0; k <= 120; k++)
            best = fmin(best, tmk_weight_error(x, n, grid, power, low * (float)i / 120,
                                               high * (float)k / 120));
    return best;
}

TEST(test_the_search_is_nearly_as_good_as_brute_force) {
    float x[MOST], low, high;
    double sum = 0;
    size_t cases = 0;
    for (size_t d = 0; d < TMK_COUNT(draws); d++)
        for (size_t g = 0; g < TMK_COUNT(grids); g++)
            for (size_t c = 0; c < TMK_COUNT(counts); c++)
                for (int power = 2; power <= 4; power += 2) {
                    draw_numbers(d, counts[c], x, &low, &high);
                    float from = low, to = high;
                    const size_t n = counts[c];
                    const double all = tmk_weight_error(x, n, &grids[g], power, low, high);
                    const double best = brute_force(x, n, &grids[g], power, low, high);
                    tmk_weight_search(x, n, &grids[g], power, 1024, &from, &to);
                    const double made = tmk_weight_error(x, n, &grids[g], power, from, to);
                    assert_true(from <= to && made <= all);
                    if (n < 32 || !(best > 0) || !(made > 0))
                        continue; /* of few numbers a lucky range may have next to no error */
                    if (made > best * 1.25)
                        fail_msg("draw %zu grid %zu n %zu power %d: %g, brute force %g", d, g, n,
                                 power, made, best);
                    sum += log(made / best);
                    cases++;
                }
    assert_true(exp(sum / (double)cases) <= 1.02);
}

/* Of a sum of products by factors of this mean and variance. */
static double sums_error(const float *x, size_t n, const struct tmk_grid *grid, double mean,
                         double variance, float high) {
    int32_t lowest = 0, highest = 0, zero;
    float scale;
    double square = 0, sum = 0;
    struct tmk_diag diag = {0};
    assert_true(tmk_grid_codes(grid, &lowest, &highest));
    assert_ok(tmk_grid_fit(grid, -high, high, &scale, &zero, &diag), &diag);
    for (size_t i = 0; i < n; i++) {
        const double off =
            (double)scale * (tmk_grid_code(x[i], scale, zero, lowest, highest) - zero) -
            (double)x[i];
        square += off * off;
        sum += off;
    }
    return variance * square + mean * mean * sum * sum;
}

TEST(test_sums_of_products_have_less_error) {
    enum { TRIES = 60 };
    static const struct tmk_grid grid = {TMK_INT8, true, true, false};
    static const double means[] = {0, 1, -3};
    float x[MOST];
    for (size_t m = 0; m < TMK_COUNT(means); m++)
        for (size_t n = 9; n <= MOST; n += MOST - 9) {
            double all = 0, all_before = 0;
            for (int i = 0; i < TRIES; i++) {
                float low, high;
                draw_numbers(0, n, x, &low, &high);
                high = low = fmaxf(high, -low);
                tmk_weight_search_sums(x, n, &grid, means[m], 1, 256, &high);
                const double made = sums_error(x, n, &grid, means[m], 1, high),
                             before = sums_error(x, n, &grid, means[m], 1, low);
                assert_true(made <= before * 1.001);
                all += made / (double)(low * low);
                all_before += before / (double)(low * low);
            }
            /* 1 / (1 + m^2) is what the squares alone are of it */
            assert_true(all <= 1.3 * all_before / (1 + means[m] * means[m]));
        }
}

TEST(test_a_range_that_is_exact_is_kept) {
    const float x[] = {-1, 0.5f, 0.25f, 1};
    const struct tmk_grid grid = {TMK_INT8, true, true, false};
    float low = -1, high = 1;
    tmk_weight_search(x, 4, &grid, 2, 64, &low, &high);
    assert_true(tmk_weight_error(x, 4, &grid, 2, low, high) <=
                tmk_weight_error(x, 4, &grid, 2, -1, 1));
    const float zeros[3] = {0};
    low = high = 0;
    tmk_weight_search(zeros, 3, &grid, 4, 64, &low, &high);
    assert_true(low == 0 && high == 0);
}

TEST(test_each_element_has_the_scale_of_its_block) {
    const struct tmk_shape shape = {3, {2, 7, 3}};
    struct tmk_scale_layout l;
    /* blocks of 3 along the axis in the middle: 2 x 3 x 3 scales */
    struct tmk_encoding e = {.axis = 1, .block = 3, .n = 18};
    assert_true(tmk_scale_layout_init(&l, &e, &shape));
    for (size_t o = 0; o < 2; o++)
        for (size_t k = 0; k < 7; k++)
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(tmk_scale_index(&l, (o * 7 + k) * 3 + i), (o * 3 + k / 3) * 3 + i);
    e = (struct tmk_encoding){.axis = 1, .n = 7};
    assert_true(tmk_scale_layout_init(&l, &e, &shape));
    assert_int_equal(tmk_scale_index(&l, (1 * 7 + 5) * 3 + 2), 5);
    e = (struct tmk_encoding){.axis = -1, .n = 1};
    assert_true(tmk_scale_layout_init(&l, &e, &shape));
    assert_int_equal(tmk_scale_index(&l, 41), 0);
    static const struct tmk_encoding wrong[] = {
        {.axis = 1, .block = 3, .n = 17},
        {.axis = 1, .n = 6},
        {.axis = 3, .n = 7},
        {.axis = -1, .n = 2},
    };
    for (size_t i = 0; i < TMK_COUNT(wrong); i++)
        assert_false(tmk_scale_layout_init(&l, &wrong[i], &shape));
}
