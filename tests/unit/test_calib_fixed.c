/* SPDX-License-Identifier: Apache-2.0 */
/* How far fixed-point multiplication may be off. */
#include "test.h"

#include <math.h>

#include "base/size.h"
#include "calib/make.h"

static const double reals[] = {1,      0.5,    0x1p-7,   0.75,    0.0018843, 1e-6,     1.7,
                               1000.3, 0x1p29, 0x1.8p-7, 0x1p-32, 0.9999999, 1.0000001};

static const enum tmk_rounding roundings[] = {TMK_ROUNDING_SINGLE_HALF_UP,
                                              TMK_ROUNDING_SINGLE_HALF_AWAY,
                                              TMK_ROUNDING_GEMMLOWP_DOUBLE, TMK_ROUNDING_FLOAT_RNE};

/* What occurs for accumulators that give codes, near the ends and in between, at ties too. */
static double worst(double real, int32_t q, int32_t shift, enum tmk_rounding rounding,
                    int32_t lowest, int32_t highest) {
    double most = 0, reach = fmin((highest + 1.5) / real, 0x1p31 - 1);
    for (int i = -20000; i <= 20000; i++) {
        int32_t x = (int32_t)(reach * i / 20000),
                y = tmk_fixed_multiply(x, q, shift, real, rounding);
        if (y >= lowest && y <= highest)
            most = fmax(most, fabs((double)y - x * real));
    }
    for (int32_t code = lowest; code < highest; code++)
        for (int off = -1; off <= 1; off++) {
            double tie = fmin(fmax((code + 0.5) / real + off, -0x1p31), 0x1p31 - 1);
            int32_t x = (int32_t)rint(tie), y = tmk_fixed_multiply(x, q, shift, real, rounding);
            if (y >= lowest && y <= highest)
                most = fmax(most, fabs((double)y - x * real));
        }
    return most;
}

TEST(test_the_error_is_bounded_and_near) {
    struct tmk_diag diag = {0};
    for (size_t i = 0; i < TMK_COUNT(reals); i++)
        for (size_t r = 0; r < TMK_COUNT(roundings); r++)
            for (int pow2 = 0; pow2 < 2; pow2++) {
                int32_t q, shift, lowest = r % 2 ? -128 : -32768, highest = r % 2 ? 127 : 32767;
                assert_ok((pow2 ? tmk_fixed_from_real_pow2 : tmk_fixed_from_real)(reals[i], &q,
                                                                                  &shift, &diag),
                          &diag);
                double bound = tmk_fixed_error(q, shift, reals[i], roundings[r], lowest, highest);
                double seen = worst(reals[i], q, shift, roundings[r], lowest, highest);
                assert_true(seen <= bound);
                if (reals[i] < 0.01 && reals[i] > 1e-5) /* enough accumulators a code */
                    assert_true(seen >= 0.9 * bound - 0.05);
            }
}
