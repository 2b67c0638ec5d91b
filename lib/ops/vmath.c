/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/vmath.h"

#include <math.h>

#include "base/size.h"
#include "ops/vmath_kernel.h"

#define MAP(name)                                                                                  \
    void tmk_v##name(const float *x, float *y, size_t n) {                                         \
        tmk_vmath_at(0)->name(x, y, n);                                                            \
    }
MAP(exp)
MAP(log)
MAP(tanh)
MAP(erf)
MAP(sin)
MAP(cos)
MAP(sqrt)
MAP(floor)
MAP(ceil)
MAP(rint)
MAP(sigmoid)
MAP(softplus)
MAP(gelu)
MAP(gelu_tanh)

#define ARITHMETIC(name)                                                                           \
    void tmk_v##name(size_t n, const float *a, bool vary_a, const float *b, bool vary_b,           \
                     float *y) {                                                                   \
        tmk_vmath_at(0)->name(n, a, vary_a, b, vary_b, y);                                         \
    }
ARITHMETIC(add)
ARITHMETIC(subtract)
ARITHMETIC(multiply)

/* Dividing by a power of two gives the bits that multiplying by its inverse gives, in a third of
 * the time; attention divides by the root of a head's size, which often is one. */
void tmk_vdivide(size_t n, const float *a, bool vary_a, const float *b, bool vary_b, float *y) {
    int exponent = 0;
    bool power = n && !vary_b && fabsf(frexpf(b[0], &exponent)) == 0.5f;
    if (power && exponent > -100 && exponent < 100) {
        const float inverse = 1 / b[0];
        tmk_vmath_at(0)->multiply(n, a, vary_a, &inverse, false, y);
    } else {
        tmk_vmath_at(0)->divide(n, a, vary_a, b, vary_b, y);
    }
}

/* A block after the other, so that y may be x. */
void tmk_vswish(const float *x, float factor, float *y, size_t n) {
    const struct tmk_vmath *v = tmk_vmath_at(0);
    float block[256];
    for (size_t i = 0; i < n; i += TMK_COUNT(block)) {
        size_t m = n - i < TMK_COUNT(block) ? n - i : TMK_COUNT(block);
        v->scale(x + i, factor, block, m);
        v->sigmoid(block, block, m);
        for (size_t j = 0; j < m; j++)
            y[i + j] = block[j] * x[i + j];
    }
}

float tmk_vmax(const float *x, size_t n) {
    return tmk_vmath_at(0)->max(x, n);
}

double tmk_vsum(const float *x, size_t n) {
    return tmk_vmath_at(0)->sum(x, n);
}

double tmk_vsum_deviations(const float *x, double mean, size_t n) {
    return tmk_vmath_at(0)->sum_deviations(x, mean, n);
}

double tmk_vexp_sum(const float *x, float shift, float *y, size_t n) {
    return tmk_vmath_at(0)->exp_sum(x, shift, y, n);
}

void tmk_vscale(const float *x, float factor, float *y, size_t n) {
    tmk_vmath_at(0)->scale(x, factor, y, n);
}

void tmk_vnormalize(const float *x, float centre, float factor, const float *scale,
                    const float *bias, float *y, size_t n) {
    tmk_vmath_at(0)->normalize(x, centre, factor, scale, bias, y, n);
}

void tmk_vtranspose(const void *from, size_t from_step, void *to, size_t to_step, size_t rows,
                    size_t columns) {
    tmk_vmath_at(0)->transpose(from, from_step, to, to_step, rows, columns);
}

void tmk_vdots(const struct tmk_vdots *dots) {
    tmk_vmath_at(0)->dots(dots);
}

void tmk_vpanel(const struct tmk_vpanel *panel) {
    tmk_vmath_at(0)->panel(panel);
}

void tmk_vintegers(const struct tmk_vintegers *integers) {
    tmk_vmath_at(0)->integers(integers);
}
