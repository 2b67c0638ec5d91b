/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of whole arrays of float32, in the widest vectors that the processor has.
 *
 * Functions of elements are within 4 units in the last place of the true value, and treat infinite,
 * tiny and huge elements and NaN as libm does; gelu's as its formula does. An element's result
 * depends on the element alone, not on where it is or how many there are, and has the same bits on
 * every processor. y may be x; otherwise they don't overlap.
 *
 * Sums and extremes have the same bits on every processor, since their order is fixed: element i
 * goes to lane i % TMK_VMATH_LANES, and then the upper half of the lanes is joined to the lower
 * half until one is left. Sums are kept in double. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TMK_VMATH_LANES = 16 };

void tmk_vexp(const float *x, float *y, size_t n);
void tmk_vlog(const float *x, float *y, size_t n);
void tmk_vtanh(const float *x, float *y, size_t n);
void tmk_verf(const float *x, float *y, size_t n);
void tmk_vsin(const float *x, float *y, size_t n);
void tmk_vcos(const float *x, float *y, size_t n);
void tmk_vsqrt(const float *x, float *y, size_t n);
void tmk_vfloor(const float *x, float *y, size_t n);
void tmk_vceil(const float *x, float *y, size_t n);
/* to the nearest integer, halves to the even one */
void tmk_vrint(const float *x, float *y, size_t n);
/* ln(1 + e^x) */
void tmk_vsoftplus(const float *x, float *y, size_t n);
/* 1 / (1 + e^-x) */
void tmk_vsigmoid(const float *x, float *y, size_t n);
/* x / (1 + e^(-factor x)) */
void tmk_vswish(const float *x, float factor, float *y, size_t n);
/* 0.5 x (1 + erf(sqrt(1/2) x)), step by step in float */
void tmk_vgelu(const float *x, float *y, size_t n);
/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), step by step in float */
void tmk_vgelu_tanh(const float *x, float *y, size_t n);

/* The largest element, n >= 1; NaN if one is NaN. */
float tmk_vmax(const float *x, size_t n);
/* 0 for none */
double tmk_vsum(const float *x, size_t n);
/* The sum of (x - mean)^2, the differences in double too. */
double tmk_vsum_deviations(const float *x, double mean, size_t n);
/* y = e^(x - shift); answers the sum of y. */
double tmk_vexp_sum(const float *x, float shift, float *y, size_t n);

/* y = a + b and so on, each of one rounding; an operand that does not vary is its first element. y
 * may be a or b. */
void tmk_vadd(size_t n, const float *a, bool vary_a, const float *b, bool vary_b, float *y);
void tmk_vsubtract(size_t n, const float *a, bool vary_a, const float *b, bool vary_b, float *y);
void tmk_vmultiply(size_t n, const float *a, bool vary_a, const float *b, bool vary_b, float *y);
void tmk_vdivide(size_t n, const float *a, bool vary_a, const float *b, bool vary_b, float *y);

/* y = x * factor */
void tmk_vscale(const float *x, float factor, float *y, size_t n);
/* y = (x - centre) * factor * scale + bias, rounded after each step. bias may be NULL. */
void tmk_vnormalize(const float *x, float centre, float factor, const float *scale,
                    const float *bias, float *y, size_t n);

/* to[r * to_step + c] = from[r + c * from_step] for elements of four bytes, steps in elements. */
void tmk_vtranspose(const void *from, size_t from_step, void *to, size_t to_step, size_t rows,
                    size_t columns);

/* c[i, j] = sum over k of a[i, k] b[j, k]; steps are from one row to the next. Products and sums
 * are rounded to float one by one, in lanes as above: an element has the same bits however many
 * rows and columns there are, on every processor. */
struct tmk_vdots {
    size_t rows, columns, depth;
    const float *a, *b;
    size_t a_step, b_step;
    float *c;
    size_t c_step;
};
void tmk_vdots(const struct tmk_vdots *dots);

/* c[i, j] = (add: itself +) sum over k < depth of a[i, k] panel[k, j], in ascending order of k.
 * Products and sums are rounded to float one by one: an element has the same bits wherever it
 * stands, on every processor. a[i, k] is a[i * a_row + k * a_depth]. The panel has groups of
 * TMK_VMATH_LANES columns, each [depth][TMK_VMATH_LANES]; the last group has all its columns, whose
 * products beyond `columns` are thrown away. */
struct tmk_vpanel {
    size_t rows, columns, depth;
    const float *a;
    size_t a_row, a_depth;
    const float *panel;
    float *c;
    size_t c_step; /* from one row to the next */
    bool add;
};
void tmk_vpanel(const struct tmk_vpanel *panel);

/* c[i, j] = (add: itself +) sum over k of a[i, k] b[k, j], wrapping; steps are from one row to the
 * next. */
struct tmk_vintegers {
    size_t rows, columns, depth;
    const int32_t *a, *b;
    size_t a_step, b_step;
    int32_t *c;
    size_t c_step;
    bool add;
};
void tmk_vintegers(const struct tmk_vintegers *integers);
