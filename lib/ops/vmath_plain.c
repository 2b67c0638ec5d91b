/* SPDX-License-Identifier: Apache-2.0 */
/* For any processor. */
#include <math.h>
#include <string.h>

#include "ops/vmath_kernel.h"

enum { LANES = TMK_VMATH_LANES };

static float max_plain(const float *x, size_t n) {
    float lane[LANES];
    size_t i = 0;
    for (size_t l = 0; l < LANES; l++)
        lane[l] = x[l < n ? l : 0];
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = tmk_vmath_larger(lane[l], x[i + l]);
    for (size_t l = 0; i + l < n; l++)
        lane[l] = tmk_vmath_larger(lane[l], x[i + l]);
    return tmk_vmath_join_max(lane);
}

#define SUM(expr)                                                                                  \
    double lane[LANES] = {0};                                                                      \
    size_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (size_t l = 0; l < LANES; l++) {                                                       \
            const double v = (double)x[i + l];                                                     \
            lane[l] += (expr);                                                                     \
        }                                                                                          \
    for (size_t l = 0; i + l < n; l++) {                                                           \
        const double v = (double)x[i + l];                                                         \
        lane[l] += (expr);                                                                         \
    }                                                                                              \
    return tmk_vmath_join(lane);

static double sum(const float *x, size_t n) {
    SUM(v)
}

static double sum_deviations(const float *x, double mean, size_t n) {
    SUM((v - mean) * (v - mean))
}

#define TARGET
#define WIDTH 4

/* gcc and clang split this into what the machine has. */
typedef float vec __attribute__((vector_size(WIDTH * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(WIDTH * sizeof(int32_t))));

static inline vec load(const float *x) {
    vec v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline void store(float *y, vec v) {
    memcpy(y, &v, sizeof v);
}

#define EACH(name, function)                                                                       \
    static inline vec name(vec x) {                                                                \
        return (vec){function(x[0]), function(x[1]), function(x[2]), function(x[3])};              \
    }
EACH(square_root, sqrtf)
EACH(round_down, floorf)
EACH(round_up, ceilf)
EACH(round_even, rintf)

static inline bool is_all(const ints mask) {
    return (mask[0] & mask[1] & mask[2] & mask[3]) != 0;
}

#define limit_vec limit_of
#define scale_vec scale_of

#include "ops/vmath_maps.h"

static void scale_plain(const float *x, float factor, float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

static void normalize_plain(const float *x, float centre, float factor, const float *scale_by,
                            const float *bias, float *y, size_t n) {
    if (bias)
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - centre) * factor * scale_by[i] + bias[i];
    else
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - centre) * factor * scale_by[i];
}

static float dot_plain(const float *a, const float *b, size_t n) {
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (size_t l = 0; i + l < n; l++)
        lane[l] += a[i + l] * b[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void dots_plain(const struct tmk_vdots *d) {
    for (size_t j = 0; j < d->columns; j++)
        for (size_t i = 0; i < d->rows; i++)
            d->c[i * d->c_step + j] =
                dot_plain(d->a + i * d->a_step, d->b + j * d->b_step, d->depth);
}

enum { ROWS = 4, PART = LANES / 2 };

/* gcc and clang split this into what the machine has. */
typedef float part __attribute__((vector_size(PART * sizeof(float)), may_alias));

/* ROWS x PART sums in registers; beyond the last row, the last again. */
static void panel_block(const struct tmk_vpanel *p, size_t i, size_t j, const float *group) {
    const size_t rows = p->rows - i < ROWS ? p->rows - i : ROWS,
                 columns = p->columns - j < PART ? p->columns - j : PART;
    const float *a[ROWS];
    part s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, b;
    for (size_t r = 0; r < ROWS; r++)
        a[r] = p->a + (i + (r < rows ? r : rows - 1)) * p->a_row;
    for (size_t k = 0; k < p->depth; k++) {
        const size_t at = k * p->a_depth;
        memcpy(&b, group + k * LANES, sizeof b);
        s0 += a[0][at] * b;
        s1 += a[1][at] * b;
        s2 += a[2][at] * b;
        s3 += a[3][at] * b;
    }
    const part sums[ROWS] = {s0, s1, s2, s3};
    for (size_t r = 0; r < rows; r++)
        tmk_vmath_put(p, (const float *)&sums[r], columns, p->c + (i + r) * p->c_step + j);
}

static void panel_plain(const struct tmk_vpanel *p) {
    for (size_t i = 0; i < p->rows; i += ROWS)
        for (size_t j = 0; j < p->columns; j += PART)
            panel_block(p, i, j, p->panel + j / LANES * LANES * p->depth + j % LANES);
}

static void integers_plain(const struct tmk_vintegers *p) {
    tmk_vmath_integers(p, 0, p->columns);
}

#define ARITHMETIC(name, op)                                                                       \
    static void name(size_t n, const float *a, bool vary_a, const float *b, bool vary_b,           \
                     float *y) {                                                                   \
        const float u = n ? a[0] : 0, v = n ? b[0] : 0;                                            \
        for (size_t i = 0; i < n && vary_a && vary_b; i++)                                         \
            y[i] = a[i] op b[i];                                                                   \
        for (size_t i = 0; i < n && vary_a && !vary_b; i++)                                        \
            y[i] = a[i] op v;                                                                      \
        for (size_t i = 0; i < n && !vary_a; i++)                                                  \
            y[i] = u op(vary_b ? b[i] : v);                                                        \
    }
ARITHMETIC(add, +)
ARITHMETIC(subtract, -)
ARITHMETIC(multiply, *)
ARITHMETIC(divide, /)

static void transpose_plain(const void *from, size_t from_step, void *to, size_t to_step,
                            size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r += LANES)
        for (size_t c = 0; c < columns; c += LANES)
            tmk_vmath_transpose(from, from_step, to, to_step, r,
                                rows - r < LANES ? rows : r + LANES, c,
                                columns - c < LANES ? columns : c + LANES);
}

const struct tmk_vmath tmk_vmath_plain = {
    "plain",         map_exp,     map_log,        map_tanh,       map_erf,
    map_sin,         map_cos,     map_sqrt,       map_floor,      map_ceil,
    map_rint,        map_sigmoid, map_softplus,   map_gelu,       map_gelu_tanh,
    max_plain,       sum,   sum_deviations, exp_sum,        scale_plain,
    normalize_plain, add,         subtract,       multiply,       divide,
    dots_plain,      panel_plain, integers_plain, transpose_plain};
