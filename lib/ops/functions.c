/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/functions.h"

#include <math.h>

/* Bits of 2/pi from bit (first) behind the binary point on, most significant first; those before
 * the point are 0. */
static uint32_t two_by_pi(int first) {
    static const uint32_t digits[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                      0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    const int at = first + 31, word = at / 32, shift = at % 32;
    return shift ? digits[word] << shift | digits[word + 1] >> (32 - shift) : digits[word];
}

/* x is a whole number, fraction 2^exponent, so x 2/pi in quarters of a turn is a sum of products
 * with digits of 2/pi. Of those, the ones that give whole turns are left out. */
static float sine_far(float x, int32_t quarters) {
    const uint32_t bits = tmk_bits_of_float(x);
    const int exponent = (int)(bits >> 23 & 255) - 150;
    const uint64_t fraction = (bits & 0x7fffff) | 0x800000;
    const uint64_t high = (uint64_t)two_by_pi(exponent - 1) << 32 | two_by_pi(exponent + 31);
    /* in units of 2^-62 quarters, wrapping at 4 of them */
    uint64_t turn = fraction * high + (fraction * two_by_pi(exponent + 63) >> 32);
    const uint64_t nearest = (turn + (UINT64_C(1) << 61)) >> 62;
    turn -= nearest << 62;
    const double r = (double)(int64_t)turn * (0x1.921fb54442d18p0 * 0x1p-62);
    const float y = tmk_sine_of_partsf((int32_t)nearest + quarters, (float)r);
    return quarters || x > 0 ? y : -y;
}

float tmk_sinef(float x, int32_t quarters) {
    return tmk_is_nearf(x) ? tmk_sine_nearf(x, quarters)
         : isfinite(x)     ? sine_far(x, quarters)
                           : NAN;
}

float tmk_logf(float x) {
    if (tmk_is_normalf(x))
        return tmk_log_normalf(x, 0);
    return x == 0  ? -INFINITY
           : x < 0 ? NAN
           : x < 1 ? tmk_log_normalf(x * 0x1p23f, 23)
                   : x;
}
