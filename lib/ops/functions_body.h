/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of mathematics in plain float arithmetic, without calls of libm, so that every machine
 * gives the same bits: of one float, or of a vector of them. The includer defines
 * - PROCESSOR, an attribute, and FUNCTION(name), what a function is called;
 * - types VEC, INTS and WORDS: floats, int32_t and uint32_t, one or as many;
 * - BITS(v) and FLOATS(i), which reinterpret, and TO_FLOATS(i), which converts;
 * - LESS(a, b) of INTS: all bits where a < b, else 0;
 * - LIMIT(x, most) and SCALE(v, shifted): the functions limit and scale, or as good ones.
 * All that is undefined again at the end.
 *
 * Choices are made on the bits: a compiler may not compute both sides of a choice between
 * floating-point operations, and would keep the branch. Polynomials have the least greatest error
 * over their interval, which is named; what roundings add is in tests/unit/test_vmath.c. */

#define PICK(mask, a, b) FLOATS(((mask) & BITS(a)) | (~(mask) & BITS(b)))
#define SIGN_OF(x) (BITS(x) & INT32_MIN)
#define MAGNITUDE_OF(x) (BITS(x) & INT32_MAX)
#define INFINITE 0x7f800000
#define ROUNDING 0x1.8p23f /* adding it leaves the rounded integer in the low bits */

/* x where its sign bit is set, else 0; and the other way round. A NaN is in one of them. */
PROCESSOR static inline VEC FUNCTION(below_zero)(VEC x) {
    return FLOATS(BITS(x) & (BITS(x) >> 31));
}
PROCESSOR static inline VEC FUNCTION(above_zero)(VEC x) {
    return FLOATS(BITS(x) & ~(BITS(x) >> 31));
}

/* |x| <= most, the sign kept; NaN stays. */
PROCESSOR static inline VEC FUNCTION(limit)(VEC x, float most) {
    const int32_t limit = (int32_t)tmk_bits_of_float(most);
    INTS magnitude = MAGNITUDE_OF(x);
    INTS kept = LESS(magnitude, limit) | LESS(INFINITE, magnitude);
    return FLOATS(SIGN_OF(x) | (kept & magnitude) | (~kept & limit));
}

/* e^x = 2^n e^r with n = x / ln 2 rounded and |r| <= ln 2 / 2. Sets *rest to e^r - 1 = r + r^2 p(r),
 * off by 2^-26; answers n + ROUNDING. |x| <= 105, or NaN: then *rest is NaN and n anything. */
PROCESSOR static inline VEC FUNCTION(exp_split)(VEC x, VEC *rest) {
    VEC shifted = x * 0x1.715476p0f + ROUNDING, n = shifted - ROUNDING;
    /* ln 2 in two parts; n times the first is exact */
    VEC r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    VEC p = r * 0x1.6b99dcp-10f + 0x1.12253ap-7f;
    p = p * r + 0x1.5556f4p-5f;
    p = p * r + 0x1.5554b4p-3f;
    p = p * r + 0x1.fffffep-2f;
    *rest = r * r * p + r;
    return shifted;
}

/* 2^n for -126 <= n <= 127 of n + ROUNDING */
PROCESSOR static inline VEC FUNCTION(power_of_two)(VEC shifted) {
    return FLOATS((INTS)(((WORDS)BITS(shifted) << 23) + 0x3f800000u));
}

/* v 2^n for 1/2 < v < 2, in two steps for results below and beyond the normal range. Processors take
 * long for a product that is next to nothing, which masks of attention are full of: below -150 the
 * second factor is 0. */
PROCESSOR static inline VEC FUNCTION(scale)(VEC v, VEC shifted) {
    INTS n = BITS(shifted) - (int32_t)tmk_bits_of_float(ROUNDING), half = n >> 1;
    return v * FLOATS((INTS)(((WORDS)half << 23) + 0x3f800000u)) *
           FLOATS(LESS(-151, n) & (INTS)(((WORDS)(n - half) << 23) + 0x3f800000u));
}

PROCESSOR static inline VEC FUNCTION(exp)(VEC x) {
    VEC rest, shifted = FUNCTION(exp_split)(LIMIT(x, 105.0f), &rest);
    return SCALE(rest + 1.0f, shifted);
}

/* e^x - 1 for x <= 80 */
PROCESSOR static inline VEC FUNCTION(expm1)(VEC x) {
    VEC rest, scale = FUNCTION(power_of_two)(FUNCTION(exp_split)(LIMIT(x, 80.0f), &rest));
    return rest * scale + (scale - 1.0f);
}

PROCESSOR static inline VEC FUNCTION(tanh)(VEC x) {
    VEC v = FLOATS(MAGNITUDE_OF(LIMIT(x, 10.0f))), rest;
    VEC scale = FUNCTION(power_of_two)(FUNCTION(exp_split)(v + v, &rest));
    VEC e = rest * scale + (scale - 1.0f);
    return FLOATS(BITS(e / (e + 2.0f)) | SIGN_OF(x));
}

/* 1 / (1 + e^-x); e^-|x| can't overflow */
PROCESSOR static inline VEC FUNCTION(sigmoid)(VEC x) {
    VEC e = FUNCTION(exp)(FLOATS(BITS(x) | INT32_MIN));
    INTS negative = BITS(x) >> 31;
    return FLOATS((negative & BITS(e)) | (~negative & 0x3f800000)) / (1.0f + e);
}

/* ln(1 + f) + n ln 2 for sqrt(1/2) <= 1 + f <= sqrt(2): ln(1 + f) is f - f^2 / 2 + f^3 p(f), off by
 * 2^-27. */
PROCESSOR static inline VEC FUNCTION(log_of_parts)(VEC n, VEC f) {
    VEC square = f * f, p = f * -0x1.38c9dep-4f + 0x1.055ec6p-3f;
    p = p * f - 0x1.0d8242p-3f;
    p = p * f + 0x1.22d92ep-3f;
    p = p * f - 0x1.54728ap-3f;
    p = p * f + 0x1.99a01cp-3f;
    p = p * f - 0x1.000226p-2f;
    p = p * f + 0x1.555554p-2f;
    /* ln 2 in two parts; n times the first is exact */
    return ((square * f * p + n * 0x1.7f7d1cp-20f) - square * 0.5f) + f + n * 0x1.62e4p-1f;
}

/* ln x - less ln 2 of an x that is_normal */
PROCESSOR static inline VEC FUNCTION(log_normal)(VEC x, float less) {
    INTS above = (INTS)((WORDS)BITS(x) - 0x3f3504f3u); /* sqrt(1/2) */
    VEC f = FLOATS((above & 0x007fffff) + 0x3f3504f3) - 1.0f;
    return FUNCTION(log_of_parts)(TO_FLOATS(above >> 23) - less, f);
}

/* All bits where x is positive, finite and of the normal range. */
PROCESSOR static inline INTS FUNCTION(is_normal)(VEC x) {
    return LESS(0x007fffff, BITS(x)) & LESS(BITS(x), INFINITE);
}

/* ln(1 + e^x) */
PROCESSOR static inline VEC FUNCTION(softplus)(VEC x) {
    VEC e = FUNCTION(exp)(FLOATS(BITS(x) | INT32_MIN));
    INTS halved = LESS(0x3ed413cd, BITS(e)); /* beyond sqrt(2) - 1: ln((1 + e) / 2) + ln 2 */
    VEC n = FLOATS(halved & 0x3f800000), f = PICK(halved, (e - 1.0f) * 0.5f, e);
    return FUNCTION(above_zero)(x) + FUNCTION(log_of_parts)(n, f);
}

/* Up to 1 x + x p(x^2), off by 2^-29; then 1 - e^q(|x|), off by 2^-26, and from 4 on 1. */
PROCESSOR static inline VEC FUNCTION(erf)(VEC x) {
    VEC z = x * x, p = z * 0x1.4771fcp-14f - 0x1.a3515ep-11f;
    p = p * z + 0x1.53f224p-8f;
    p = p * z - 0x1.b7f71ap-6f;
    p = p * z + 0x1.ce2ce6p-4f;
    p = p * z - 0x1.81273ep-2f;
    p = p * z + 0x1.06eba8p-3f;
    VEC small = x + x * p, v = FLOATS(MAGNITUDE_OF(LIMIT(x, 4.0f))), rest;
    VEC q = v * 0x1.14e3bap-13f - 0x1.393f6ap-9f;
    q = q * v + 0x1.3ff97ap-6f;
    q = q * v - 0x1.921210p-4f;
    q = q * v - 0x1.49b2c6p-1f;
    q = q * v - 0x1.1fa14cp0f;
    q = q * v - 0x1.3f7576p-10f;
    VEC scale = FUNCTION(power_of_two)(FUNCTION(exp_split)(q, &rest));
    VEC large = 1.0f - (rest * scale + scale);
    large = FLOATS(BITS(large) | SIGN_OF(x));
    return PICK(LESS(MAGNITUDE_OF(x), 0x3f800000), small, large);
}

/* 0.5 x (1 + erf(sqrt(1/2) x)), step by step in float */
PROCESSOR static inline VEC FUNCTION(gelu)(VEC x) {
    return 0.5f * x * (1.0f + FUNCTION(erf)(x * 0x1.6a09e6p-1f));
}

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), step by step in float */
PROCESSOR static inline VEC FUNCTION(gelu_tanh)(VEC x) {
    return 0.5f * x * (1.0f + FUNCTION(tanh)(0x1.988454p-1f * (x + 0.044715f * x * x * x)));
}

/* The sine of r + quarters pi/2 for |r| <= pi/4: r + r^3 p(r^2), off by 2^-28, and the cosine's 1 -
 * r^2 / 2 + r^4 q(r^2), off by 2^-33. */
PROCESSOR static inline VEC FUNCTION(sine_of_parts)(INTS quarters, VEC r) {
    VEC z = r * r, p = z * -0x1.9951f2p-13f + 0x1.110774p-7f;
    p = p * z - 0x1.555546p-3f;
    VEC q = z * 0x1.99e80cp-16f - 0x1.6c0c28p-10f;
    q = q * z + 0x1.55554ap-5f;
    VEC sine = r + r * z * p, cosine = 1.0f - (z * 0.5f - z * z * q);
    VEC y = PICK(-(quarters & 1), cosine, sine);
    return FLOATS(BITS(y) ^ (INTS)(((WORDS)quarters & 2u) << 30));
}

/* All bits where |x| is below what sine_near has the digits of pi for. */
PROCESSOR static inline INTS FUNCTION(is_near)(VEC x) {
    return LESS(MAGNITUDE_OF(x), 0x46000000); /* 8192 */
}

/* The sine of x + quarters pi/2, quarters 0 or 1, of an x that is_near */
PROCESSOR static inline VEC FUNCTION(sine_near)(VEC x, int32_t quarters) {
    VEC v = FLOATS(MAGNITUDE_OF(x)), shifted = v * 0x1.45f306p-1f + ROUNDING,
        n = shifted - ROUNDING;
    /* pi/2 in five parts; n times each of the first four is exact */
    VEC r = (((v - n * 0x1.92p0f) - n * 0x1.fb4p-12f) - n * 0x1.444p-24f) - n * 0x1.68cp-39f;
    r = r - n * 0x1.1a6264p-54f;
    VEC y = FUNCTION(sine_of_parts)((BITS(shifted) & 3) + quarters, r);
    return quarters ? y : FLOATS(BITS(y) ^ SIGN_OF(x));
}

#undef PICK
#undef SIGN_OF
#undef MAGNITUDE_OF
#undef INFINITE
#undef ROUNDING
#undef PROCESSOR
#undef FUNCTION
#undef VEC
#undef INTS
#undef WORDS
#undef BITS
#undef FLOATS
#undef TO_FLOATS
#undef LESS
#undef LIMIT
#undef SCALE
