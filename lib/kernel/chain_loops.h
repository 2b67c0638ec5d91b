/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of a chain's members over one tile, once for each instruction set. All give the same
 * bits. */
#pragma once

#include <stddef.h>

/* x is the first operand, p and q are the others. */
enum tmk_chain_kind {
    TMK_CHAIN_COPY, /* has no loop */
    TMK_CHAIN_RELU,
    TMK_CHAIN_CLIP,   /* between p and q */
    TMK_CHAIN_LEAKY,  /* p: the slope below 0 */
    TMK_CHAIN_PRELU,  /* p: the slope below 0 */
    TMK_CHAIN_AFFINE, /* x p + q */
    TMK_CHAIN_ADD,
    TMK_CHAIN_MUL,
    TMK_CHAIN_SUB,
    TMK_CHAIN_SUB_FROM, /* p - x */
    TMK_CHAIN_DIV,
    TMK_CHAIN_DIV_INTO, /* p / x */
    TMK_CHAIN_MIN,
    TMK_CHAIN_MIN_OF, /* of p and x */
    TMK_CHAIN_MAX,
    TMK_CHAIN_MAX_OF,
    TMK_CHAIN_HARD_SIGMOID, /* x p + q within [0, 1] */
    TMK_CHAIN_HARD_SWISH,
    TMK_CHAIN_SQUARE,
    TMK_CHAIN_SQRT,
    TMK_CHAIN_POWER_HALF,
    TMK_CHAIN_NEG,
    TMK_CHAIN_ABS,
    TMK_CHAIN_RECIPROCAL,
    TMK_CHAIN_FLOAT16, /* rounded to such numbers, ties to even */
    TMK_CHAIN_BFLOAT16,
    TMK_CHAIN_MASK,  /* the bits of x and p */
    TMK_CHAIN_LOOPS, /* those from here on are functions of chain_math.h */
    TMK_CHAIN_CUBE = TMK_CHAIN_LOOPS,
    TMK_CHAIN_EXP,
    TMK_CHAIN_LOG,
    TMK_CHAIN_ERF,
    TMK_CHAIN_TANH,
    TMK_CHAIN_SIGMOID,
    TMK_CHAIN_SWISH, /* x sigmoid(p x) */
    TMK_CHAIN_SOFTPLUS,
    TMK_CHAIN_ELU,
    TMK_CHAIN_GELU,
    TMK_CHAIN_GELU_TANH,
    TMK_CHAIN_KINDS
};

/* Floats in a pattern. */
enum { TMK_CHAIN_LANES = 16 };

/* y may be x or p. */
typedef void (*tmk_chain_loop)(size_t n, const float *x, const float *p, const float *q, float *y);

struct tmk_chain_loops {
    const char *name;
    /* p and q are patterns of TMK_CHAIN_LANES floats that repeat; n is a multiple of the pattern's
     * own period. Kinds without p are here. */
    tmk_chain_loop lanes[TMK_CHAIN_LOOPS];
    tmk_chain_loop vary[TMK_CHAIN_LOOPS]; /* p and q have n elements; NULL for kinds without p */
};

extern const struct tmk_chain_loops tmk_chain_loops_plain;
extern const struct tmk_chain_loops tmk_chain_loops_avx2;   /* x86-64 only */
extern const struct tmk_chain_loops tmk_chain_loops_avx512; /* x86-64 only */
extern const struct tmk_chain_loops tmk_chain_loops_neon;   /* AArch64 only */

/* The i-th that this machine runs, best first; NULL after the last, which is always "plain". */
const struct tmk_chain_loops *tmk_chain_loops_at(size_t i);
