/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges to scales and zero points. (test_calib_numbers.py holds them against ONNX Runtime's.) */
#include "test.h"

#include <float.h>
#include <math.h>

#include "base/size.h"
#include "calib/grid.h"

static const enum tmk_dtype integers[] = {TMK_INT4,  TMK_UINT4, TMK_INT8,
                                          TMK_UINT8, TMK_INT16, TMK_UINT16};

static void fit(const struct tmk_grid *grid, float low, float high, float *scale,
                int32_t *zero_point) {
    must(tmk_grid_fit(grid, low, high, scale, zero_point, DIAG));
}

TEST(test_zero_is_a_number_of_every_grid) {
    static const float ranges[][2] = {{-1, 2}, {0, 6}, {3, 6}, {-5, -2}, {-1e-30f, 1e30f}};
    for (size_t t = 0; t < TMK_COUNT(integers); t++)
        for (size_t r = 0; r < TMK_COUNT(ranges); r++)
            for (int pow2 = 0; pow2 < 2; pow2++) {
                struct tmk_grid grid = {integers[t], false, false, pow2};
                int32_t lowest, highest, zero_point;
                float scale;
                fit(&grid, ranges[r][0], ranges[r][1], &scale, &zero_point);
                assert_true(tmk_grid_codes(&grid, &lowest, &highest));
                assert_in_range(zero_point - lowest, 0, highest - lowest);
                assert_int_equal(tmk_grid_code(0, scale, zero_point, lowest, highest), zero_point);
                /* the ends are no more than half a step away from a number of the grid */
                double min = (double)scale * (lowest - zero_point);
                double most = (double)scale * (highest - zero_point);
                assert_true(min <= (double)fminf(ranges[r][0], 0) + 0.501 * (double)scale);
                assert_true(most >= (double)fmaxf(ranges[r][1], 0) - 0.501 * (double)scale);
            }
}

TEST(test_pow2_is_the_least_that_covers) {
    struct tmk_grid plain = {TMK_INT8, true, true, false}, pow2 = {TMK_INT8, true, true, true};
    static const float highs[] = {127, 127.5f, 128, 1, 0.3f, 1e-20f, 1e20f};
    for (size_t i = 0; i < TMK_COUNT(highs); i++) {
        float wanted, made;
        int32_t zero_point, exponent;
        fit(&plain, -highs[i], highs[i], &wanted, &zero_point);
        fit(&pow2, -highs[i], highs[i], &made, &zero_point);
        assert_true(frexpf(made, &exponent) == 0.5f);
        assert_true(made >= wanted && made < 2 * wanted);
        assert_int_equal(zero_point, 0);
    }
}

TEST(test_nothing_gets_scale_one) {
    for (size_t t = 0; t < TMK_COUNT(integers); t++) {
        struct tmk_grid grid = {integers[t], false, false, false};
        float scale;
        int32_t zero_point;
        fit(&grid, 0, 0, &scale, &zero_point);
        assert_true(scale == 1 && zero_point == 0);
        fit(&grid, -FLT_MIN, FLT_MIN, &scale, &zero_point); /* too little for a normal scale */
        assert_true(scale == 1 && zero_point == 0);
    }
    struct tmk_grid weight = {TMK_INT8, true, true, false};
    float scale;
    int32_t zero_point;
    fit(&weight, 0, 0, &scale, &zero_point);
    assert_true(scale == 1);
    fit(&weight, -254, 254, &scale, &zero_point);
    assert_true(scale == 2);
    struct tmk_grid unsigned_one = {TMK_UINT8, true, false, false};
    fit(&unsigned_one, 0, 0, &scale, &zero_point);
    assert_true(scale == 1 && zero_point == 128);
}

TEST(test_what_is_no_range) {
    struct tmk_grid grid = {TMK_INT8, false, false, false},
                    real = {TMK_FLOAT32, false, false, false};
    float scale = 7;
    int32_t zero_point = 7;
    assert_int_equal(tmk_grid_fit(&grid, 1, -1, &scale, &zero_point, DIAG), TMK_ARGUMENT);
    assert_int_equal(tmk_grid_fit(&grid, NAN, 1, &scale, &zero_point, DIAG), TMK_ARGUMENT);
    assert_int_equal(tmk_grid_fit(&grid, 0, INFINITY, &scale, &zero_point, DIAG), TMK_ARGUMENT);
    assert_int_equal(tmk_grid_fit(&real, 0, 1, &scale, &zero_point, DIAG), TMK_ARGUMENT);
    assert_true(scale == 7 && zero_point == 7);
}

TEST(test_codes_round_to_even_and_saturate) {
    assert_int_equal(tmk_grid_code(0.5f, 1, 3, 0, 255), 3);
    assert_int_equal(tmk_grid_code(1.5f, 1, 3, 0, 255), 5);
    assert_int_equal(tmk_grid_code(-3.5f, 1, 3, 0, 255), 0);
    assert_int_equal(tmk_grid_code(1e30f, 1, 3, 0, 255), 255);
    assert_int_equal(tmk_grid_code(-INFINITY, 1, 3, 0, 255), 0);
    assert_int_equal(tmk_grid_code(INFINITY, 1, 3, 0, 255), 255);
    assert_int_equal(tmk_grid_code(NAN, 1, 3, 0, 255), 3);
    assert_int_equal(tmk_grid_code(3e9f, 1, 0, INT32_MIN, INT32_MAX), INT32_MAX);
}

/* The numbers of a float8 type, from the meaning of its bits. */
static double float8_number(int code, int mantissa, int bias) {
    int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    if (exponent == 0)
        return ldexp(fraction, 1 - bias - mantissa);
    return ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

static void check_float8(enum tmk_dtype dtype, int mantissa, int bias, int last) {
    assert_true(tmk_grid_float8_max(dtype) == float8_number(last, mantissa, bias));
    assert_true(tmk_grid_float8_last_step(dtype) ==
                float8_number(last, mantissa, bias) - float8_number(last - 1, mantissa, bias));
    for (int code = 0; code < last; code++) {
        double a = float8_number(code, mantissa, bias), b = float8_number(code + 1, mantissa, bias);
        double middle = (a + b) / 2, even = code % 2 ? b : a;
        assert_true(tmk_grid_float8_nearest(dtype, a) == a);
        assert_true(tmk_grid_float8_nearest(dtype, -b) == -b);
        assert_true(tmk_grid_float8_nearest(dtype, middle) == even);
        assert_true(tmk_grid_float8_nearest(dtype, nextafter(middle, a)) == a);
        assert_true(tmk_grid_float8_nearest(dtype, nextafter(middle, b)) == b);
    }
    assert_true(tmk_grid_float8_nearest(dtype, 1e9) == tmk_grid_float8_max(dtype));
}

TEST(test_float8) {
    check_float8(TMK_FLOAT8E4M3FN, 3, 7, 0x7e);
    check_float8(TMK_FLOAT8E4M3FNUZ, 3, 8, 0x7f);
    check_float8(TMK_FLOAT8E5M2, 2, 15, 0x7b);
    check_float8(TMK_FLOAT8E5M2FNUZ, 2, 16, 0x7f);
    struct tmk_grid grid = {TMK_FLOAT8E4M3FN, true, false, false};
    float scale;
    int32_t zero_point;
    fit(&grid, -896, 3, &scale, &zero_point);
    assert_true(scale == 2 && zero_point == 0);
}
