/* SPDX-License-Identifier: Apache-2.0 */
/* e^x and its kin in plain float arithmetic, so that compilers turn loops over them into vector
 * code and every machine gives the same bits. Choices are made on the bits of the floats: a
 * compiler may not compute both sides of a choice between floating-point operations, and would keep
 * the branch.
 *
 * e^x = 2^n e^r with n = x / ln 2 rounded and |r| <= ln 2 / 2, where the Taylor series of (e^r - 1)
 * / r up to r^6 is off by less than 2^-25. Every function is within 3 units in the last place of
 * the true value (measured). */
#ifndef TMK_OPS_EXP_H
#define TMK_OPS_EXP_H

#include <stdint.h>

#include "base/bits.h"

static inline int32_t tmk_float_bits(float v) {
    return (int32_t)tmk_bits_of_float(v);
}
static inline float tmk_bits_float(int32_t bits) {
    return tmk_float_of_bits((uint32_t)bits);
}

/* x where its sign bit is set, else 0; and the other way round. A NaN is in one of them. */
static inline float tmk_below_zero(float x) {
    int32_t bits = tmk_float_bits(x);
    return tmk_bits_float(bits & (bits >> 31));
}
static inline float tmk_above_zero(float x) {
    int32_t bits = tmk_float_bits(x);
    return tmk_bits_float(bits & ~(bits >> 31));
}
/* |x| <= most, the sign kept; NaN stays. */
static inline float tmk_limit(float x, float most) {
    const int32_t infinity = 0x7f800000;
    int32_t bits = tmk_float_bits(x), magnitude = bits & INT32_MAX, limit = tmk_float_bits(most);
    limit = magnitude > infinity ? magnitude : limit;
    magnitude = magnitude < limit ? magnitude : limit;
    return tmk_bits_float((bits & INT32_MIN) | magnitude);
}

struct tmk_exp_parts {
    int32_t n;
    float rest; /* e^r - 1 */
};

/* |x| <= 105, or NaN: then `rest` is NaN and n anything. */
static inline struct tmk_exp_parts tmk_exp_split(float x) {
    const float shift = 0x1.8p23f; /* adding it leaves the rounded integer in the low bits */
    float shifted = x * 0x1.715476p0f + shift, n = shifted - shift;
    uint32_t bits = (uint32_t)tmk_float_bits(shifted), base = (uint32_t)tmk_float_bits(shift);
    /* ln 2 in two parts; n times the first is exact */
    float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    float q = 1.0f / 5040;
    q = q * r + 1.0f / 720;
    q = q * r + 1.0f / 120;
    q = q * r + 1.0f / 24;
    q = q * r + 1.0f / 6;
    q = q * r + 0.5f;
    return (struct tmk_exp_parts){(int32_t)(bits - base), r * r * q + r};
}

/* 2^n for -126 <= n <= 127 */
static inline float tmk_power_of_two(int32_t n) {
    return tmk_bits_float((int32_t)(((uint32_t)n + 127u) << 23));
}

static inline float tmk_expf(float x) {
    struct tmk_exp_parts p = tmk_exp_split(tmk_limit(x, 105.0f));
    /* in two steps, for results below and beyond the normal range */
    int32_t half = p.n >> 1;
    return (p.rest + 1.0f) * tmk_power_of_two(half) * tmk_power_of_two(p.n - half);
}

/* e^x - 1 for x <= 80 */
static inline float tmk_expm1f(float x) {
    struct tmk_exp_parts p = tmk_exp_split(tmk_limit(x, 80.0f));
    float s = tmk_power_of_two(p.n);
    return p.rest * s + (s - 1.0f);
}

static inline float tmk_tanhf(float x) {
    int32_t sign = tmk_float_bits(x) & INT32_MIN;
    float v = tmk_bits_float(tmk_float_bits(tmk_limit(x, 10.0f)) & INT32_MAX);
    float e = tmk_expm1f(v + v);
    return tmk_bits_float(tmk_float_bits(e / (e + 2.0f)) | sign);
}

/* 1 / (1 + e^-x) */
static inline float tmk_sigmoidf(float x) {
    int32_t bits = tmk_float_bits(x), negative = bits >> 31;
    float t = tmk_expf(tmk_bits_float(bits | INT32_MIN));
    float top = tmk_bits_float((tmk_float_bits(t) & negative) | (tmk_float_bits(1.0f) & ~negative));
    return top / (1.0f + t);
}

#endif
