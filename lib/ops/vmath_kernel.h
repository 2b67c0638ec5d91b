/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of vmath.h, once for each instruction set. */
#pragma once

#include "ops/vmath.h"

typedef void (*tmk_vmap)(const float *x, float *y, size_t n);

typedef void (*tmk_varithmetic)(size_t n, const float *a, bool vary_a, const float *b, bool vary_b,
                                float *y);

struct tmk_vmath {
    const char *name;
    tmk_vmap exp, log, tanh, erf, sin, cos, sqrt, floor, ceil, rint, sigmoid, softplus, gelu,
        gelu_tanh;
    float (*max)(const float *x, size_t n);
    double (*sum)(const float *x, size_t n);
    double (*sum_deviations)(const float *x, double mean, size_t n);
    double (*exp_sum)(const float *x, float shift, float *y, size_t n);
    void (*scale)(const float *x, float factor, float *y, size_t n);
    void (*normalize)(const float *x, float centre, float factor, const float *scale,
                      const float *bias, float *y, size_t n);
    tmk_varithmetic add, subtract, multiply, divide;
    void (*dots)(const struct tmk_vdots *dots);
    void (*panel)(const struct tmk_vpanel *panel);
    void (*integers)(const struct tmk_vintegers *integers);
    void (*transpose)(const void *from, size_t from_step, void *to, size_t to_step, size_t rows,
                      size_t columns);
};

extern const struct tmk_vmath tmk_vmath_plain;
extern const struct tmk_vmath tmk_vmath_avx2;   /* on x86-64 */
extern const struct tmk_vmath tmk_vmath_avx512; /* on x86-64 */

/* The i-th that this machine runs, best first; NULL after the last, which is always "plain". */
const struct tmk_vmath *tmk_vmath_at(size_t i);

/* How lanes become one; `a` is the lower one. A NaN stays. */
static inline float tmk_vmath_larger(float a, float b) {
    return ((b > a) | (b != b)) ? b : a;
}

typedef uint32_t __attribute__((may_alias)) tmk_bits32;

/* Rows r0 to r1 and columns c0 to c1 of tmk_vtranspose, one by one. */
static inline void tmk_vmath_transpose(const tmk_bits32 *from, size_t from_step, tmk_bits32 *to,
                                       size_t to_step, size_t r0, size_t r1, size_t c0, size_t c1) {
    for (size_t r = r0; r < r1; r++)
        for (size_t c = c0; c < c1; c++)
            to[r * to_step + c] = from[r + c * from_step];
}

/* The first `columns` of a row of sums to where p wants them. */
static inline void tmk_vmath_put(const struct tmk_vpanel *p, const float *sums, size_t columns,
                                 float *c) {
    for (size_t l = 0; l < columns; l++)
        c[l] = p->add ? c[l] + sums[l] : sums[l];
}

/* Columns first to end of tmk_vintegers. */
static inline void tmk_vmath_integers(const struct tmk_vintegers *p, size_t first, size_t end) {
    for (size_t i = 0; i < p->rows; i++) {
        int32_t *to = p->c + i * p->c_step;
        for (size_t j = first; !p->add && j < end; j++)
            to[j] = 0;
        for (size_t k = 0; k < p->depth; k++) {
            const uint32_t left = (uint32_t)p->a[i * p->a_step + k];
            const int32_t *right = p->b + k * p->b_step;
            for (size_t j = first; j < end; j++)
                to[j] = (int32_t)((uint32_t)to[j] + left * (uint32_t)right[j]);
        }
    }
}

static inline double tmk_vmath_join(double lane[TMK_VMATH_LANES]) {
    for (size_t half = TMK_VMATH_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static inline float tmk_vmath_join_max(float lane[TMK_VMATH_LANES]) {
    for (size_t half = TMK_VMATH_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] = tmk_vmath_larger(lane[l], lane[l + half]);
    return lane[0];
}
