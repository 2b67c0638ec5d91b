/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of one instruction set. The includer defines
 * - TARGET; types `vec` (WIDTH floats) and `wide` (WIDE doubles);
 * - load, store, splat and the arithmetic on `vec`; load_wide, which widens WIDE floats, and so on
 *   for `wide`; the small functions named below. */
#include <math.h>
#include <string.h>

#include "ops/vmath_kernel.h"

enum { LANES = TMK_VMATH_LANES, PARTS = LANES / WIDTH, WIDES = LANES / WIDE };

TARGET static float max(const float *x, size_t n) {
    float lane[LANES], rest[LANES];
    vec most[PARTS], last;
    bool nan = false;
    size_t i = 0;
    for (size_t k = 0; k < PARTS; k++)
        most[k] = splat(-INFINITY);
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < PARTS; k++) {
            vec v = load(x + i + k * WIDTH);
            nan |= holds_nan(v);
            most[k] = larger(most[k], v);
        }
    for (size_t l = 0; l < LANES; l++)
        rest[l] = -INFINITY;
    memcpy(rest, x + i, (n - i) * sizeof *x);
    for (size_t k = 0; k < PARTS; k++) {
        last = load(rest + k * WIDTH);
        nan |= holds_nan(last);
        store(lane + k * WIDTH, larger(most[k], last));
    }
    return nan ? NAN : tmk_vmath_join_max(lane);
}

TARGET static double sum(const float *x, size_t n) {
    double lane[LANES];
    float rest[LANES] = {0};
    wide acc[WIDES];
    size_t i = 0;
    for (size_t k = 0; k < WIDES; k++)
        acc[k] = splat_wide(0);
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < WIDES; k++)
            acc[k] = add_wide(acc[k], load_wide(x + i + k * WIDE));
    memcpy(rest, x + i, (n - i) * sizeof *x);
    for (size_t k = 0; k < WIDES; k++)
        store_wide(lane + k * WIDE, add_wide(acc[k], load_wide(rest + k * WIDE)));
    return tmk_vmath_join(lane);
}

TARGET static double sum_deviations(const float *x, double mean, size_t n) {
    double lane[LANES];
    wide acc[WIDES], centre = splat_wide(mean);
    size_t i = 0;
    for (size_t k = 0; k < WIDES; k++)
        acc[k] = splat_wide(0);
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < WIDES; k++) {
            wide d = subtract_wide(load_wide(x + i + k * WIDE), centre);
            acc[k] = add_wide(acc[k], multiply_wide(d, d));
        }
    for (size_t k = 0; k < WIDES; k++)
        store_wide(lane + k * WIDE, acc[k]);
    for (size_t l = 0; i + l < n; l++) {
        double d = (double)x[i + l] - mean;
        lane[l] += d * d;
    }
    return tmk_vmath_join(lane);
}

#include "ops/vmath_maps.h"

TARGET static void scale(const float *x, float factor, float *y, size_t n) {
    vec f = splat(factor);
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store(y + i, multiply(load(x + i), f));
    for (; i < n; i++)
        y[i] = x[i] * factor;
}

TARGET static void normalize(const float *x, float centre, float factor, const float *scale_by,
                             const float *bias, float *y, size_t n) {
    vec c = splat(centre), f = splat(factor);
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vec v = multiply(multiply(subtract(load(x + i), c), f), load(scale_by + i));
        store(y + i, bias ? add(v, load(bias + i)) : v);
    }
    for (; i < n; i++) {
        float v = (x[i] - centre) * factor * scale_by[i];
        y[i] = bias ? v + bias[i] : v;
    }
}

/* Products of `rows` rows of a with four of b, whose sums stay in registers. */
TARGET static inline __attribute__((always_inline)) void
dot_block(size_t rows, const float *a, size_t a_step, const float *const b[4], size_t depth,
          float *c, size_t c_step, size_t columns) {
    vec sums[DOT_ROWS][4][PARTS];
    size_t k = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 4; j++)
            for (size_t p = 0; p < PARTS; p++)
                sums[i][j][p] = splat(0);
    for (; k + LANES <= depth; k += LANES)
        for (size_t p = 0; p < PARTS; p++)
            for (size_t j = 0; j < 4; j++) {
                vec right = load(b[j] + k + p * WIDTH);
                for (size_t i = 0; i < rows; i++)
                    sums[i][j][p] =
                        add(sums[i][j][p], multiply(load(a + i * a_step + k + p * WIDTH), right));
            }
    for (size_t p = 0; p < PARTS && k < depth; p++, k += WIDTH) {
        size_t n = depth - k;
        for (size_t j = 0; j < 4; j++) {
            vec right = n < WIDTH ? load_first(b[j] + k, n) : load(b[j] + k);
            for (size_t i = 0; i < rows; i++) {
                const float *left = a + i * a_step + k;
                sums[i][j][p] = add(sums[i][j][p],
                                    multiply(n < WIDTH ? load_first(left, n) : load(left), right));
            }
        }
    }
    for (size_t i = 0; i < rows; i++) {
        __m128 lane0 = fold_to_four(sums[i][0]), lane1 = fold_to_four(sums[i][1]),
               lane2 = fold_to_four(sums[i][2]), lane3 = fold_to_four(sums[i][3]);
        _MM_TRANSPOSE4_PS(lane0, lane1, lane2, lane3);
        float out[4];
        _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(lane0, lane2), _mm_add_ps(lane1, lane3)));
        memcpy(c + i * c_step, out, columns * sizeof *out);
    }
}

/* A few rows at a time: what they write stays in the first-level cache, even where the rows of c
 * lie a power of two apart. */
TARGET static void dots(const struct tmk_vdots *d) {
    enum { FEW = 8 };
    for (size_t first = 0; first < d->rows; first += FEW) {
        size_t end = d->rows - first < FEW ? d->rows : first + FEW;
        for (size_t j = 0; j < d->columns; j += 4) {
            size_t columns = d->columns - j < 4 ? d->columns - j : 4, i = first;
            const float *b[4];
            for (size_t q = 0; q < 4; q++) /* beyond the last column: the last again */
                b[q] = d->b + (j + (q < columns ? q : columns - 1)) * d->b_step;
            for (; i + DOT_ROWS <= end; i += DOT_ROWS)
                dot_block(DOT_ROWS, d->a + i * d->a_step, d->a_step, b, d->depth,
                          d->c + i * d->c_step + j, d->c_step, columns);
            for (; i < end; i++)
                dot_block(1, d->a + i * d->a_step, d->a_step, b, d->depth, d->c + i * d->c_step + j,
                          d->c_step, columns);
        }
    }
}

/* Rows i to i + rows of a with `groups` groups of columns from j on; the sums stay in registers. */
TARGET static inline __attribute__((always_inline)) void
panel_block(const struct tmk_vpanel *p, size_t i, size_t rows, size_t j, size_t groups) {
    enum { MOST = PANEL_ROWS > PANEL_GROUPS ? PANEL_ROWS : PANEL_GROUPS };
    const float *a = p->a + i * p->a_row, *b = p->panel + j * p->depth;
    vec sums[MOST][PARTS];
    for (size_t s = 0; s < rows * groups; s++)
        for (size_t q = 0; q < PARTS; q++)
            sums[s][q] = splat(0);
    for (size_t k = 0; k < p->depth; k++, a += p->a_depth, b += LANES)
        for (size_t g = 0; g < groups; g++) {
            vec right[PARTS];
            for (size_t q = 0; q < PARTS; q++)
                right[q] = load(b + g * p->depth * LANES + q * WIDTH);
            for (size_t r = 0; r < rows; r++) {
                const vec left = splat(a[r * p->a_row]);
                for (size_t q = 0; q < PARTS; q++)
                    sums[r * groups + g][q] =
                        add(sums[r * groups + g][q], multiply(left, right[q]));
            }
        }
    for (size_t s = 0; s < rows * groups; s++) {
        const size_t first = j + s % groups * LANES, left = p->columns - first;
        float out[LANES];
        for (size_t q = 0; q < PARTS; q++)
            store(out + q * WIDTH, sums[s][q]);
        tmk_vmath_put(p, out, left < LANES ? left : LANES,
                      p->c + (i + s / groups) * p->c_step + first);
    }
}

/* What is left of the rows, one at a time with several groups. */
TARGET static void panel(const struct tmk_vpanel *p) {
    enum { SEVERAL = PANEL_GROUPS * LANES };
    const size_t end = p->rows - p->rows % PANEL_ROWS;
    for (size_t j = 0; j < p->columns; j += LANES)
        for (size_t i = 0; i < end; i += PANEL_ROWS)
            panel_block(p, i, PANEL_ROWS, j, 1);
    for (size_t i = end; i < p->rows; i++) {
        size_t j = 0;
        for (; j + SEVERAL - LANES < p->columns; j += SEVERAL)
            panel_block(p, i, 1, j, PANEL_GROUPS);
        for (; j < p->columns; j += LANES)
            panel_block(p, i, 1, j, 1);
    }
}

typedef uint32_t loose_words __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
#define WORDS_AT(from, q) (((loose_words *)(void *)(from))[q])

/* Rows i to i + rows and two vectors of columns from j on; the sums stay in registers. */
TARGET static inline __attribute__((always_inline)) void
integer_block(const struct tmk_vintegers *p, size_t i, size_t rows, size_t j) {
    loose_words sums[4][2];
    for (size_t r = 0; r < rows; r++)
        for (size_t q = 0; q < 2; q++)
            sums[r][q] = p->add ? WORDS_AT(p->c + (i + r) * p->c_step + j, q) : (loose_words){0};
    for (size_t k = 0; k < p->depth; k++) {
        const int32_t *b = p->b + k * p->b_step + j;
        const loose_words right[2] = {WORDS_AT(b, 0), WORDS_AT(b, 1)};
        for (size_t r = 0; r < rows; r++)
            for (size_t q = 0; q < 2; q++)
                sums[r][q] += (uint32_t)p->a[(i + r) * p->a_step + k] * right[q];
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t q = 0; q < 2; q++)
            WORDS_AT(p->c + (i + r) * p->c_step + j, q) = sums[r][q];
}

TARGET static void integers(const struct tmk_vintegers *p) {
    size_t j = 0;
    for (; j + 2 * WIDTH <= p->columns; j += 2 * WIDTH) {
        size_t i = 0;
        for (; i + 4 <= p->rows; i += 4)
            integer_block(p, i, 4, j);
        for (; i < p->rows; i++)
            integer_block(p, i, 1, j);
    }
    tmk_vmath_integers(p, j, p->columns);
}

#define ARITHMETIC(name, function, op)                                                             \
    TARGET static void name(size_t n, const float *a, bool vary_a, const float *b, bool vary_b,    \
                            float *y) {                                                            \
        const float u = n ? a[0] : 0, v = n ? b[0] : 0;                                            \
        const vec us = splat(u), vs = splat(v);                                                    \
        size_t i = 0;                                                                              \
        if (vary_a && vary_b)                                                                      \
            for (; i + WIDTH <= n; i += WIDTH)                                                     \
                store(y + i, function(load(a + i), load(b + i)));                                  \
        else if (vary_a)                                                                           \
            for (; i + WIDTH <= n; i += WIDTH)                                                     \
                store(y + i, function(load(a + i), vs));                                           \
        else                                                                                       \
            for (; i + WIDTH <= n; i += WIDTH)                                                     \
                store(y + i, function(us, vary_b ? load(b + i) : vs));                             \
        for (; i < n; i++)                                                                         \
            y[i] = (vary_a ? a[i] : u)op(vary_b ? b[i] : v);                                       \
    }
ARITHMETIC(add_rows, add, +)
ARITHMETIC(subtract_rows, subtract, -)
ARITHMETIC(multiply_rows, multiply, *)
ARITHMETIC(divide_rows, divide, /)

/* A square of 8 x 8. */
TARGET static inline void transpose_square(const float *from, size_t from_step, float *to,
                                           size_t to_step) {
    __m256 column[8], pair[8], four[8];
    for (size_t c = 0; c < 8; c++)
        column[c] = _mm256_loadu_ps(from + c * from_step);
    for (size_t c = 0; c < 8; c += 2) {
        pair[c] = _mm256_unpacklo_ps(column[c], column[c + 1]);
        pair[c + 1] = _mm256_unpackhi_ps(column[c], column[c + 1]);
    }
    /* four[q], q < 4: row q of columns 0 to 3, then row q + 4; after them columns 4 to 7 */
    for (size_t c = 0; c < 8; c += 4)
        for (size_t q = 0; q < 2; q++) {
            four[c + 2 * q] =
                _mm256_shuffle_ps(pair[c + q], pair[c + 2 + q], _MM_SHUFFLE(1, 0, 1, 0));
            four[c + 2 * q + 1] =
                _mm256_shuffle_ps(pair[c + q], pair[c + 2 + q], _MM_SHUFFLE(3, 2, 3, 2));
        }
    for (size_t q = 0; q < 4; q++) {
        _mm256_storeu_ps(to + q * to_step, _mm256_permute2f128_ps(four[q], four[q + 4], 0x20));
        _mm256_storeu_ps(to + (q + 4) * to_step,
                         _mm256_permute2f128_ps(four[q], four[q + 4], 0x31));
    }
}

/* In tiles of 16 x 16, so that whole lines of the cache are read and written at a time. */
TARGET static void transpose(const void *from, size_t from_step, void *to, size_t to_step,
                             size_t rows, size_t columns) {
    for (size_t r0 = 0; r0 < rows; r0 += LANES)
        for (size_t c0 = 0; c0 < columns; c0 += LANES) {
            size_t r1 = rows - r0 < LANES ? rows : r0 + LANES,
                   c1 = columns - c0 < LANES ? columns : c0 + LANES;
            size_t r8 = r0 + (r1 - r0) / 8 * 8, c8 = c0 + (c1 - c0) / 8 * 8;
            for (size_t r = r0; r < r8; r += 8)
                for (size_t c = c0; c < c8; c += 8)
                    transpose_square((const float *)from + r + c * from_step, from_step,
                                     (float *)to + r * to_step + c, to_step);
            tmk_vmath_transpose(from, from_step, to, to_step, r0, r8, c8, c1);
            tmk_vmath_transpose(from, from_step, to, to_step, r8, r1, c0, c1);
        }
}

#define TMK_VMATH_TABLE(name)                                                                      \
    {                                                                                              \
        name, map_exp, map_log, map_tanh, map_erf, map_sin, map_cos, map_sqrt, map_floor,          \
            map_ceil, map_rint, map_sigmoid, map_softplus, map_gelu, map_gelu_tanh, max, sum,      \
            sum_deviations, exp_sum, scale, normalize, add_rows, subtract_rows, multiply_rows,     \
            divide_rows, dots, panel, integers, transpose                                          \
    }
