/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplying by a real number in integers: a multiplier and a shift, and the four roundings that
 * engines have. Pure functions; thread-safe. The multiplier is as TensorFlow Lite's
 * QuantizeMultiplier and TVM's GetFixedPointMultiplierShift make it. */
#pragma once

#include <stdint.h>

#include <tidemark/rounding.h>

/* real = q * 2^(shift - 31), 2^30 <= q < 2^31, as near as that goes. real > 0, finite; below 2^-32
 * it becomes 0, 0 (every result is 0); TMK_RANGE where shift would exceed 30. */
enum tmk_status tmk_fixed_from_real(double real, int32_t *q, int32_t *shift, struct tmk_diag *diag);
/* The nearest power of two (in the logarithm) instead: q = 2^30. */
enum tmk_status tmk_fixed_from_real_pow2(double real, int32_t *q, int32_t *shift,
                                         struct tmk_diag *diag);
double tmk_fixed_to_real(int32_t q, int32_t shift);

/* x times the multiplier (-31 <= shift <= 30), rounded so; saturates to int32. FLOAT_RNE multiplies
 * by (float)real instead. */
int32_t tmk_fixed_multiply(int32_t x, int32_t q, int32_t shift, double real,
                           enum tmk_rounding rounding);
