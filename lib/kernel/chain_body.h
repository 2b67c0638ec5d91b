/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of chain_loops.h. Their file defines TARGET (the attribute that names its instruction
 * set), WIDE (floats in a register) and ROOT(v) (their square roots), then includes this once.
 *
 * Vectors are spelled out since compilers keep the branches of choices between floating-point
 * operations, and find no vectors in loops over patterns. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/chain_loops.h"

typedef float vec __attribute__((vector_size(4 * WIDE)));
typedef float loose_vec __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * WIDE)));

enum { PARTS = TMK_CHAIN_LANES / WIDE };

#define LOAD(at) (*(const loose_vec *)(at))
#define STORE(at, v) (*(loose_vec *)(at) = (v))
#define PICK(mask, a, b) ((vec)(((mask) & (ints)(a)) | (~(mask) & (ints)(b))))
#define EACH(v) ((vec){0} + (v)) /* not for -0 */

/* The last lanes, which may overlap those before, are computed first: y may be x or p. */
#define LOOP(name, varies, has_p, has_q, expr)                                                     \
    TARGET static void name(size_t n, const float *px, const float *pp, const float *pq,           \
                            float *py) {                                                           \
        vec fixed_p[PARTS] = {{0}}, fixed_q[PARTS] = {{0}}, last[PARTS] = {{0}};                   \
        if (n < TMK_CHAIN_LANES) {                                                                 \
            float x[TMK_CHAIN_LANES] = {0}, p[TMK_CHAIN_LANES] = {0}, q[TMK_CHAIN_LANES] = {0};    \
            memcpy(x, px, n * sizeof *x);                                                          \
            if (has_p)                                                                             \
                memcpy(p, pp, (varies ? n : TMK_CHAIN_LANES) * sizeof *p);                         \
            if (has_q)                                                                             \
                memcpy(q, pq, (varies ? n : TMK_CHAIN_LANES) * sizeof *q);                         \
            name(TMK_CHAIN_LANES, x, p, q, x);                                                     \
            memcpy(py, x, n * sizeof *x);                                                          \
            return;                                                                                \
        }                                                                                          \
        for (int k = 0; k < PARTS && !varies; k++) {                                               \
            if (has_p)                                                                             \
                fixed_p[k] = LOAD(pp + k * WIDE);                                                  \
            if (has_q)                                                                             \
                fixed_q[k] = LOAD(pq + k * WIDE);                                                  \
        }                                                                                          \
        size_t rest = n % TMK_CHAIN_LANES, whole = n - rest;                                       \
        for (int k = 0; k < PARTS && rest; k++) {                                                  \
            size_t at = n - TMK_CHAIN_LANES + (size_t)(k * WIDE);                                  \
            vec x = LOAD(px + at), p = fixed_p[k], q = fixed_q[k];                                 \
            if (has_p && varies)                                                                   \
                p = LOAD(pp + at);                                                                 \
            if (has_q && varies)                                                                   \
                q = LOAD(pq + at);                                                                 \
            (void)p, (void)q;                                                                      \
            last[k] = (expr);                                                                      \
        }                                                                                          \
        for (size_t i = 0; i < whole; i += TMK_CHAIN_LANES)                                        \
            for (int k = 0; k < PARTS; k++) {                                                      \
                size_t at = i + (size_t)(k * WIDE);                                                \
                vec x = LOAD(px + at), p = fixed_p[k], q = fixed_q[k];                             \
                if (has_p && varies)                                                               \
                    p = LOAD(pp + at);                                                             \
                if (has_q && varies)                                                               \
                    q = LOAD(pq + at);                                                             \
                (void)p, (void)q;                                                                  \
                STORE(py + at, (expr));                                                            \
            }                                                                                      \
        for (int k = 0; k < PARTS && rest; k++)                                                    \
            STORE(py + n - TMK_CHAIN_LANES + k * WIDE, last[k]);                                   \
    }
#define LOOP1(name, expr) LOOP(name##_lanes, 0, 0, 0, expr)
#define LOOP2(name, expr)                                                                          \
    LOOP(name##_lanes, 0, 1, 0, expr)                                                              \
    LOOP(name##_vary, 1, 1, 0, expr)
#define LOOP3(name, expr)                                                                          \
    LOOP(name##_lanes, 0, 1, 1, expr)                                                              \
    LOOP(name##_vary, 1, 1, 1, expr)

#define NEGATIVE(v) ((ints)(v) >> 31) /* by the sign bit */
#define UNIT(v) PICK((v) < EACH(0.0f), EACH(0.0f), PICK((v) > EACH(1.0f), EACH(1.0f), v))
#define AT_LEAST(v, low) PICK((v) <= (low), low, v)
#define AT_MOST(v, high) PICK((v) >= (high), high, v)

LOOP1(relu, AT_LEAST(x, EACH(0.0f)))
LOOP3(clip, AT_MOST(AT_LEAST(x, p), q))
LOOP2(leaky, (vec)(~NEGATIVE(x) & (ints)x) + p * (vec)(NEGATIVE(x) & (ints)x))
LOOP2(prelu, PICK(x < EACH(0.0f), x *p, x))
LOOP3(affine, x *p + q)
LOOP2(add, x + p)
LOOP2(mul, x *p)
LOOP2(sub, x - p)
LOOP2(sub_from, p - x)
LOOP2(div, x / p)
LOOP2(div_into, p / x)
LOOP2(min, PICK((x < p) | (x != x), x, p))
LOOP2(min_of, PICK((p < x) | (p != p), p, x))
LOOP2(max, PICK((x > p) | (x != x), x, p))
LOOP2(max_of, PICK((p > x) | (p != p), p, x))
LOOP3(hard_sigmoid, UNIT(p *x + q))
LOOP1(hard_swish, UNIT(x *EACH(1.0f / 6.0f) + EACH(0.5f)) * x)
LOOP1(square, x *x)
LOOP1(root, ROOT(x))
/* pow(-0, 0.5) is 0, pow(-infinity, 0.5) is infinity */
LOOP1(power_half, PICK(x == EACH(-INFINITY), EACH(INFINITY), ROOT(x + EACH(0.0f))))
LOOP1(neg, (vec)((ints)x ^ ((ints){0} + INT32_MIN)))
LOOP1(absolute, (vec)((ints)x & ~((ints){0} + INT32_MIN)))
LOOP1(reciprocal, EACH(1.0f) / x)

#define INTS(v) ((ints){0} + (v)) /* in all lanes */
#define MAGNITUDE(v) ((ints)(v)&INTS(INT32_MAX))
#define SIGNED_AS(x, magnitude) ((vec)(((ints)(x)&INTS(INT32_MIN)) | (magnitude)))
/* At a bit of the mantissa, ties to even; a carry goes to the exponent. */
#define NEAREST(m, bit)                                                                            \
    (((m) + INTS((1 << ((bit)-1)) - 1) + (((m) >> (bit)) & 1)) & INTS(-(1 << (bit))))
#define CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))
/* From 2^-14 on 10 bits of mantissa, below it multiples of 2^-24, which is the last bit of a number
 * in [0.5, 1); from 65520 on infinity. */
#define HALF_OR_INFINITY(n) CHOOSE((n) >= INTS(0x47800000), INTS(0x7f800000), n)
#define SUBNORMAL(m) ((ints)(((vec)(m) + EACH(0.5f)) - EACH(0.5f)))
#define FLOAT16(m) CHOOSE((m) < INTS(0x38800000), SUBNORMAL(m), HALF_OR_INFINITY(NEAREST(m, 13)))
LOOP1(float16, PICK(x != x, x, SIGNED_AS(x, FLOAT16(MAGNITUDE(x)))))
LOOP1(bfloat16, PICK(x != x, x, SIGNED_AS(x, NEAREST(MAGNITUDE(x), 16))))

LOOP2(mask, (vec)((ints)x &(ints)p))

#define ONE(KIND, name) [TMK_CHAIN_##KIND] = name##_lanes,
#define SOME(X)                                                                                    \
    X(CLIP, clip)                                                                                  \
    X(LEAKY, leaky)                                                                                \
    X(PRELU, prelu)                                                                                \
    X(AFFINE, affine)                                                                              \
    X(ADD, add)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(SUB, sub)                                                                                    \
    X(SUB_FROM, sub_from)                                                                          \
    X(DIV, div)                                                                                    \
    X(DIV_INTO, div_into)                                                                          \
    X(MIN, min)                                                                                    \
    X(MIN_OF, min_of)                                                                              \
    X(MAX, max)                                                                                    \
    X(MAX_OF, max_of)                                                                              \
    X(HARD_SIGMOID, hard_sigmoid)                                                                  \
    X(MASK, mask)
#define VARY(KIND, name) [TMK_CHAIN_##KIND] = name##_vary,
#define TABLE(title)                                                                               \
    {                                                                                              \
        .name = title,                                                                             \
        .lanes = {SOME(ONE) ONE(RELU, relu) ONE(HARD_SWISH, hard_swish) ONE(SQUARE, square)        \
                      ONE(SQRT, root) ONE(POWER_HALF, power_half) ONE(NEG, neg) ONE(ABS, absolute) \
                          ONE(RECIPROCAL, reciprocal) ONE(FLOAT16, float16)                        \
                              ONE(BFLOAT16, bfloat16)},                                            \
        .vary = {SOME(VARY)},                                                                      \
    }
