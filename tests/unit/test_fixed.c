/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-point multiplication against the same in exact arithmetic. */
#include "test.h"

#include <math.h>

#include "tensor/fixed.h"

static const double reals[] = {0.5,       0.75,    1,      0.0078125, 0.3, 1e-3,
                               0.9999999, 1.00001, 123.25, 1e-9,      1.7, 6e8};
enum { REALS = sizeof reals / sizeof *reals, NUMBERS = 20000 };

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Every other one small, where there are more ties. */
static int32_t next_number(uint64_t *state) {
    const int64_t number = (int64_t)(next_random(state) << 1) - INT32_MAX;
    return (int32_t)(next_random(state) % 2 ? number % 4096 : number);
}

static int32_t saturated(long double x) {
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

TEST(a_multiplier_is_the_nearest_of_31_bits) {
    int32_t q, shift;
    for (size_t i = 0; i < REALS; i++) {
        must(tmk_fixed_from_real(reals[i], &q, &shift, DIAG));
        assert_true(q >= INT32_C(1) << 30);
        assert_true(fabs(tmk_fixed_to_real(q, shift) - reals[i]) <= ldexp(0.5, shift - 31));
        must(tmk_fixed_from_real_pow2(reals[i], &q, &shift, DIAG));
        assert_int_equal(q, INT32_C(1) << 30);
        assert_true(fabs(log2(tmk_fixed_to_real(q, shift) / reals[i])) <= 0.5 + 1e-15);
    }
}

TEST(multipliers_at_the_ends) {
    int32_t q, shift;
    must(tmk_fixed_from_real(0x1p-32, &q, &shift, DIAG));
    assert_int_equal(q, INT32_C(1) << 30);
    assert_int_equal(shift, -31);
    must(tmk_fixed_from_real(0x1.fffp-33, &q, &shift, DIAG));
    assert_true(q == 0 && shift == 0);
    must(tmk_fixed_from_real(1 - 0x1p-40, &q, &shift, DIAG));
    assert_true(q == INT32_C(1) << 30 && shift == 1);
    assert_int_equal(tmk_fixed_from_real(0x1p30, &q, &shift, DIAG), TMK_RANGE);
    assert_int_equal(tmk_fixed_from_real(0, &q, &shift, DIAG), TMK_RANGE);
    assert_int_equal(tmk_fixed_from_real(NAN, &q, &shift, DIAG), TMK_RANGE);
    assert_int_equal(tmk_fixed_from_real_pow2(INFINITY, &q, &shift, DIAG), TMK_RANGE);
}

/* Products have 62 bits: long double holds them, and their halves, exactly where it has 64. */
TEST(single_roundings_are_exact) {
    uint64_t seed = 1;
    int32_t q, shift;
    if (sizeof(long double) == sizeof(double))
        return;
    for (size_t i = 0; i < REALS; i++) {
        must(tmk_fixed_from_real(reals[i], &q, &shift, DIAG));
        for (int k = 0; k < NUMBERS; k++) {
            const int32_t x = next_number(&seed);
            const long double exact = ldexpl((long double)((int64_t)x * q), shift - 31);
            const long double floor = floorl(exact);
            assert_int_equal(tmk_fixed_multiply(x, q, shift, 0, TMK_ROUNDING_SINGLE_HALF_UP),
                             saturated(exact - floor >= 0.5L ? floor + 1 : floor));
            assert_int_equal(tmk_fixed_multiply(x, q, shift, 0, TMK_ROUNDING_SINGLE_HALF_AWAY),
                             saturated(roundl(exact)));
            assert_int_equal(tmk_fixed_multiply(x, 0, 0, 0, TMK_ROUNDING_GEMMLOWP_DOUBLE), 0);
            const float product = (float)x * (float)reals[i];
            assert_int_equal(tmk_fixed_multiply(x, q, shift, reals[i], TMK_ROUNDING_FLOAT_RNE),
                             saturated(rintl(product)));
        }
    }
}

/* 5 * 0.49999 is below 2.5; the high half of the doubled product rounds to 5, and that half to 3.
 */
TEST(gemmlowp_rounds_twice) {
    int32_t q, shift;
    must(tmk_fixed_from_real(0.49999 / 2, &q, &shift, DIAG));
    assert_int_equal(tmk_fixed_multiply(10, q, shift, 0, TMK_ROUNDING_SINGLE_HALF_AWAY), 2);
    assert_int_equal(tmk_fixed_multiply(10, q, shift, 0, TMK_ROUNDING_GEMMLOWP_DOUBLE), 3);
    assert_int_equal(tmk_fixed_multiply(-10, q, shift, 0, TMK_ROUNDING_GEMMLOWP_DOUBLE), -3);
}

/* Ties: up, away from zero, to even. */
TEST(ties_go_where_the_name_says) {
    const int32_t q = INT32_C(1) << 30; /* with shift 0: a half */
    assert_int_equal(tmk_fixed_multiply(-5, q, 0, 0.5, TMK_ROUNDING_SINGLE_HALF_UP), -2);
    assert_int_equal(tmk_fixed_multiply(-5, q, 0, 0.5, TMK_ROUNDING_SINGLE_HALF_AWAY), -3);
    assert_int_equal(tmk_fixed_multiply(-10, q, -1, 0.25, TMK_ROUNDING_GEMMLOWP_DOUBLE), -3);
    assert_int_equal(tmk_fixed_multiply(-5, q, 0, 0.5, TMK_ROUNDING_FLOAT_RNE), -2);
    assert_int_equal(tmk_fixed_multiply(-7, q, 0, 0.5, TMK_ROUNDING_FLOAT_RNE), -4);
}

TEST(names_read_back) {
    enum tmk_rounding rounding;
    for (int i = TMK_ROUNDING_SINGLE_HALF_UP; i <= TMK_ROUNDING_FLOAT_RNE; i++) {
        assert_true(tmk_rounding_by_name(tmk_rounding_name((enum tmk_rounding)i), &rounding));
        assert_int_equal(rounding, i);
    }
    assert_false(tmk_rounding_by_name("up", &rounding));
}
