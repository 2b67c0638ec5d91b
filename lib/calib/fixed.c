/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/fixed.h"

#include <math.h>

double tmk_fixed_error(int32_t q, int32_t shift, double real, enum tmk_rounding rounding,
                       int32_t lowest, int32_t highest) {
    /* |x| <= 2^31 times the real multiplier, of which the result is always 0 */
    if (rounding != TMK_ROUNDING_FLOAT_RNE && q == 0)
        return 0x1p31 * real;
    double most = fmax(fabs((double)lowest), fabs((double)highest)), made, round_off = 0.5;
    if (rounding == TMK_ROUNDING_FLOAT_RNE) {
        made = (double)(float)real;
        /* x and the product are rounded to float32: each at most 2^-24 of itself off. Products
         * below float32's normals are no further off than half of 2^-149. */
        double twice = 0x1.000002p-23;
        double off = (1 + fabs(made - real) / real) * (1 + twice) - 1;
        double reach = fmin((most + 0.5) / (made * (1 - twice)), 0x1p31);
        return round_off + reach * real * off + 0x1p-150;
    }
    made = tmk_fixed_to_real(q, shift);
    if (rounding == TMK_ROUNDING_GEMMLOWP_DOUBLE && shift < 0)
        round_off += ldexp(0.5, shift); /* rounded before the shift, too */
    double reach = fmin((most + round_off) / made, 0x1p31);
    return round_off + reach * fabs(made - real);
}
