/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of arrays, for each instruction set that this machine runs: near to libm in double over
 * all floats, the same wherever an element stands, and sums with one set of bits. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/vmath_kernel.h"

enum { CAPACITY = 4096 };

static uint64_t random_state = 1;

static uint32_t next(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static float of_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double gelu(double x) {
    return 0.5 * x * (1 + erf(sqrt(0.5) * x));
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* ulps: allowed error. Gelu loses digits where 1 and erf or tanh cancel, or where the cube leaves
 * the range of floats, and is looked at by absolute error. */
static const struct function {
    const char *name;
    size_t offset;
    double (*truth)(double);
    double ulps;
} functions[] = {
    {"exp", offsetof(struct tmk_vmath, exp), exp, 4},
    {"log", offsetof(struct tmk_vmath, log), log, 4},
    {"tanh", offsetof(struct tmk_vmath, tanh), tanh, 4},
    {"erf", offsetof(struct tmk_vmath, erf), erf, 2},
    {"sin", offsetof(struct tmk_vmath, sin), sin, 4},
    {"cos", offsetof(struct tmk_vmath, cos), cos, 4},
    {"sqrt", offsetof(struct tmk_vmath, sqrt), sqrt, 0.5},
    {"floor", offsetof(struct tmk_vmath, floor), floor, 0.5},
    {"ceil", offsetof(struct tmk_vmath, ceil), ceil, 0.5},
    {"rint", offsetof(struct tmk_vmath, rint), rint, 0.5},
    {"softplus", offsetof(struct tmk_vmath, softplus), softplus, 4},
    {"sigmoid", offsetof(struct tmk_vmath, sigmoid), logistic, 4},
    {"gelu", offsetof(struct tmk_vmath, gelu), gelu, 0},
    {"gelu_tanh", offsetof(struct tmk_vmath, gelu_tanh), gelu_tanh, 0},
};

static tmk_vmap map_of(const struct tmk_vmath *v, const struct function *f) {
    tmk_vmap map;
    memcpy(&map, (const char *)v + f->offset, sizeof map);
    return map;
}

static void check_value(const struct tmk_vmath *v, const struct function *f, float x, float y) {
    double truth = f->truth((double)x);
    float rounded = (float)truth;
    if (f->ulps == 0) {
        if (isinf(x) || x != x || fabsf(x) > 1e12f)
            return;
        if (!(fabs((double)y - truth) <= 1e-6 * fmax(1, fabs((double)x))))
            fail_msg("%s %s(%a) is %a, not %a", v->name, f->name, (double)x, (double)y, truth);
        return;
    }
    if (truth != truth ? y == y
        : isinf(rounded) || isinf(y) || y != y || rounded == 0
            ? y != rounded && fabs((double)y - truth) > 0x1p-149
            : signbit(y) != signbit(rounded))
        fail_msg("%s %s(%a) is %a, not %a", v->name, f->name, (double)x, (double)y, truth);
    if (truth != truth || isinf(rounded))
        return;
    int exponent = rounded == 0 ? -126 : ilogb((double)rounded);
    double unit = ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
    if (fabs((double)y - truth) > f->ulps * unit)
        fail_msg("%s %s(%a) is %a, not %a: off by %g units", v->name, f->name, (double)x, (double)y,
                 truth, fabs((double)y - truth) / unit);
}

TEST(functions_are_near_libm_over_all_floats) {
    static float x[CAPACITY], y[CAPACITY];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t f = 0; f < TMK_COUNT(functions); f++) {
            size_t n = 0;
            for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 8191) {
                x[n++] = of_bits((uint32_t)bits);
                if (n < CAPACITY && bits + 8191 <= UINT32_MAX)
                    continue;
                map_of(v, &functions[f])(x, y, n);
                for (size_t i = 0; i < n; i++)
                    check_value(v, &functions[f], x[i], y[i]);
                n = 0;
            }
            for (n = 0; n < CAPACITY; n++) /* where e^x leaves the normal range */
                x[n] = -86 - (float)n * (19.0f / CAPACITY);
            map_of(v, &functions[f])(x, y, n);
            for (size_t i = 0; i < n; i++)
                check_value(v, &functions[f], x[i], y[i]);
            /* where networks have their values */
            for (n = 0; n < CAPACITY; n++)
                x[n] = ((float)n - 0.5f * CAPACITY) * (20.0f / CAPACITY);
            map_of(v, &functions[f])(x, y, n);
            for (size_t i = 0; i < n; i++)
                check_value(v, &functions[f], x[i], y[i]);
        }
}

/* And so every machine gives the same profile. */
TEST(functions_have_one_set_of_bits) {
    static float x[CAPACITY], y[CAPACITY], want[CAPACITY];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t f = 0; f < TMK_COUNT(functions); f++)
            for (size_t round = 0; round < 64; round++) {
                for (size_t i = 0; i < CAPACITY; i++)
                    x[i] = round % 2 ? of_bits(next()) : (float)(int32_t)next() * 0x1p-27f;
                map_of(v, &functions[f])(x, y, CAPACITY);
                map_of(&tmk_vmath_plain, &functions[f])(x, want, CAPACITY);
                for (size_t i = 0; i < CAPACITY; i++)
                    if (bits_of(y[i]) != bits_of(want[i]) && (y[i] == y[i] || want[i] == want[i]))
                        fail_msg("%s %s(%a) is %a, elsewhere %a", v->name, functions[f].name,
                                 (double)x[i], (double)y[i], (double)want[i]);
            }
}

TEST(special_values_are_libms) {
    const float x[] = {0.0f,      -0.0f,   INFINITY, -INFINITY, NAN,     0x1p-149f, -0x1p-149f,
                       0x1p-126f, 3.4e38f, -3.4e38f, 88.8f,     -104.0f, 1.0f,      -1.0f,
                       100.0f,    -100.0f, 10.0f,    -10.0f,    4.0f,    -4.0f};
    float y[TMK_COUNT(x)];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++) {
        for (size_t f = 0; f < TMK_COUNT(functions); f++) {
            map_of(v, &functions[f])(x, y, TMK_COUNT(x));
            for (size_t i = 0; i < TMK_COUNT(x); i++)
                check_value(v, &functions[f], x[i], y[i]);
            assert_true(y[4] != y[4]);
        }
        v->exp(x, y, 2);
        assert_true(y[0] == 1 && y[1] == 1);
        for (size_t i = 0; i < TMK_COUNT(x); i++) {
            float t, e, s;
            v->tanh(x + i, &t, 1);
            v->erf(x + i, &e, 1);
            v->sigmoid(x + i, &s, 1);
            assert_true(i == 4 || (fabsf(t) <= 1 && fabsf(e) <= 1 && s >= 0 && s <= 1));
        }
        v->tanh(x, y, 2);
        assert_true(!signbit(y[0]) && signbit(y[1]));
        v->sigmoid(x, y, 4);
        assert_true(y[0] == 0.5f && y[2] == 1 && y[3] == 0);
        v->gelu(x, y, 3);
        assert_true(y[0] == 0 && y[2] == INFINITY);
    }
}

TEST(erf_reaches_one_where_libm_does) {
    static float x[CAPACITY], y[CAPACITY];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++) {
        size_t ours = 0, libms = 0;
        for (size_t i = 0; i < CAPACITY; i++)
            x[i] = -3.5f - (float)i * (0.5f / CAPACITY);
        v->erf(x, y, CAPACITY);
        for (size_t i = 0; i < CAPACITY; i++) {
            ours += y[i] == -1;
            libms += (float)erf((double)x[i]) == -1;
        }
        assert_true(fabs((double)ours - (double)libms) < 0.05 * (double)libms);
    }
}

TEST(erf_and_tanh_stay_within_one) {
    static float x[CAPACITY], y[CAPACITY];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (uint32_t first = bits_of(2.5f); first < bits_of(12.0f); first += CAPACITY * 3) {
            for (size_t i = 0; i < CAPACITY; i++)
                x[i] = of_bits((first + 3 * (uint32_t)i) | (i & 1 ? 0x80000000u : 0));
            v->erf(x, y, CAPACITY);
            for (size_t i = 0; i < CAPACITY; i++)
                assert_true(fabsf(y[i]) <= 1);
            v->tanh(x, y, CAPACITY);
            for (size_t i = 0; i < CAPACITY; i++)
                assert_true(fabsf(y[i]) <= 1);
        }
}

static float element(void) {
    uint32_t r = next();
    if (r % 16 == 0)
        return of_bits(next());
    return ((float)(r >> 8) - 0x1p23f) * 0x1p-20f;
}

/* A whole number, of either sign. */
static float seventh(void) {
    const int32_t seventh = (int32_t)next() / 7;
    return (float)seventh;
}

TEST(results_depend_on_the_element_alone) {
    enum { MOST = 70 };
    float x[MOST + 3], y[MOST + 3], alone;
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t f = 0; f < TMK_COUNT(functions); f++)
            for (size_t n = 0; n < MOST; n++) {
                tmk_vmap map = map_of(v, &functions[f]);
                for (size_t i = 0; i < n + 3; i++)
                    x[i] = y[i] = element();
                map(x + 1, y + 1, n);
                assert_int_equal(bits_of(x[0]), bits_of(y[0]));
                for (size_t i = n + 1; i < n + 3; i++)
                    assert_int_equal(bits_of(x[i]), bits_of(y[i]));
                for (size_t i = 1; i <= n; i++) {
                    map(x + i, &alone, 1);
                    assert_int_equal(bits_of(alone), bits_of(y[i]));
                }
                map(x + 1, x + 1, n); /* in place */
                for (size_t i = 1; i <= n; i++)
                    assert_int_equal(bits_of(x[i]), bits_of(y[i]));
            }
}

static void same_double(double a, double b) {
    assert_true((a != a && b != b) || a == b);
}

TEST(sums_and_extremes_have_one_set_of_bits) {
    enum { MOST = 150 };
    float x[MOST], s[MOST], b[MOST], y[MOST], want[MOST];
    const struct tmk_vmath *p = &tmk_vmath_plain, *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 4 * MOST; n++) {
            size_t count = n % MOST;
            for (size_t i = 0; i < count; i++) {
                x[i] = n < 2 * MOST ? seventh() * 0x1p-20f : element();
                s[i] = (float)i;
                b[i] = element();
            }
            same_double(v->sum(x, count), p->sum(x, count));
            same_double(v->sum_deviations(x, 0.3, count), p->sum_deviations(x, 0.3, count));
            if (count > 0)
                same_double((double)v->max(x, count), (double)p->max(x, count));
            for (int biased = 0; biased < 2; biased++) {
                v->normalize(x, 0.1f, 1.7f, s, biased ? b : NULL, y, count);
                p->normalize(x, 0.1f, 1.7f, s, biased ? b : NULL, want, count);
                for (size_t i = 0; i < count; i++)
                    same_double((double)y[i], (double)want[i]);
            }
            v->scale(x, 0.3f, y, count);
            p->scale(x, 0.3f, want, count);
            for (size_t i = 0; i < count; i++)
                same_double((double)y[i], (double)want[i]);
        }
}

TEST(arithmetic_is_rounded_once) {
    enum { MOST = 40 };
    float a[MOST], b[MOST], y[MOST + 1];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 4 * MOST; n++) {
            size_t count = n % MOST;
            bool vary_a = n / MOST & 1, vary_b = n / MOST & 2;
            const tmk_varithmetic kinds[] = {v->add, v->subtract, v->multiply, v->divide};
            for (size_t kind = 0; kind < TMK_COUNT(kinds); kind++) {
                for (size_t i = 0; i < MOST; i++) {
                    a[i] = element();
                    b[i] = element();
                }
                y[count] = 1;
                kinds[kind](count, a, vary_a, b, vary_b, y);
                assert_true(y[count] == 1);
                for (size_t i = 0; i < count; i++) {
                    float p = a[vary_a ? i : 0], q = b[vary_b ? i : 0];
                    float want = kind == 0 ? p + q : kind == 1 ? p - q : kind == 2 ? p * q : p / q;
                    same_double((double)y[i], (double)want);
                }
            }
        }
}

TEST(powers_of_two_divide_as_all_numbers) {
    enum { N = 300 };
    const float divisors[] = {8,    -0.25f,   3,         0x1p-149f, 0x1p127f, 0x1p98f,  0x1p99f,
                              0.0f, INFINITY, -INFINITY, NAN,       1,        0x1p-101f};
    float x[N], y[N];
    for (size_t k = 0; k < TMK_COUNT(divisors); k++) {
        for (size_t i = 0; i < N; i++)
            x[i] = i % 3 ? of_bits(next()) : element();
        tmk_vdivide(N, x, true, &divisors[k], false, y);
        for (size_t i = 0; i < N; i++) {
            float want = x[i] / divisors[k];
            assert_true(want != want ? y[i] != y[i] : bits_of(want) == bits_of(y[i]));
        }
    }
}

TEST(sums_are_sums) {
    enum { N = 103 };
    float x[N], y[N], e[N];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++) {
        double sum = 0, deviations = 0, exponentials = 0;
        for (size_t i = 0; i < N; i++) {
            x[i] = (float)(int)(next() % 1000) * 0.125f - 50;
            sum += (double)x[i];
            deviations += ((double)x[i] - 2) * ((double)x[i] - 2);
            y[i] = x[i] - 3;
        }
        v->exp(y, e, N);
        for (size_t i = 0; i < N; i++)
            exponentials += (double)e[i];
        assert_true(v->sum(x, N) == sum);
        assert_true(v->sum_deviations(x, 2, N) == deviations);
        assert_true(fabs(v->exp_sum(x, 3, y, N) - exponentials) <= 1e-12 * exponentials);
        assert_memory_equal(y, e, sizeof y);
    }
}

TEST(dot_products_have_one_set_of_bits) {
    enum { ROWS = 9, COLUMNS = 11, DEPTH = 50 };
    static float a[ROWS * DEPTH], b[COLUMNS * DEPTH], want[ROWS * COLUMNS], c[ROWS * COLUMNS];
    const struct tmk_vmath *v;
    for (size_t i = 0; i < TMK_COUNT(a); i++)
        a[i] = seventh() * 0x1p-28f;
    for (size_t i = 0; i < TMK_COUNT(b); i++)
        b[i] = seventh() * 0x1p-28f;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 600; n++) {
            size_t rows = next() % (ROWS + 1), columns = next() % (COLUMNS + 1), depth = n % DEPTH;
            struct tmk_vdots d = {rows, columns, depth, a, b, DEPTH, DEPTH, want, COLUMNS};
            tmk_vmath_plain.dots(&d);
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < columns; j++) {
                    double sum = 0, size = 0;
                    for (size_t m = 0; m < depth; m++) {
                        double p = (double)a[i * DEPTH + m] * (double)b[j * DEPTH + m];
                        sum += p;
                        size += fabs(p);
                    }
                    assert_true(fabs((double)want[i * COLUMNS + j] - sum) <= 1e-6 * size);
                }
            memset(c, 0xff, sizeof c);
            d.c = c;
            v->dots(&d);
            for (size_t i = 0; i < ROWS; i++)
                for (size_t j = 0; j < COLUMNS; j++)
                    assert_int_equal(bits_of(c[i * COLUMNS + j]),
                                     i < rows && j < columns ? bits_of(want[i * COLUMNS + j])
                                                             : UINT32_MAX);
        }
}

/* And so have products with panels, which are sums in the order of the depth. */
TEST(products_with_panels_have_one_set_of_bits) {
    enum { ROWS = 21, COLUMNS = 70, DEPTH = 9, GROUPS = (COLUMNS + 15) / 16, LANES = 16 };
    static float a[ROWS * DEPTH], panel[GROUPS * LANES * DEPTH], c[ROWS * COLUMNS];
    const struct tmk_vmath *v;
    for (size_t i = 0; i < TMK_COUNT(a); i++)
        a[i] = seventh() * 0x1p-28f;
    for (size_t i = 0; i < TMK_COUNT(panel); i++)
        panel[i] = seventh() * 0x1p-28f;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 600; n++) {
            const size_t rows = next() % (ROWS + 1), columns = next() % (COLUMNS + 1),
                         depth = n % (DEPTH + 1);
            const bool turned = n % 3 == 0;
            const struct tmk_vpanel p = {.rows = rows,
                                         .columns = columns,
                                         .depth = depth,
                                         .a = a,
                                         .a_row = turned ? 1 : DEPTH,
                                         .a_depth = turned ? ROWS : 1,
                                         .panel = panel,
                                         .c = c,
                                         .c_step = COLUMNS,
                                         .add = n % 2 != 0};
            for (size_t i = 0; i < TMK_COUNT(c); i++)
                c[i] = 3;
            v->panel(&p);
            for (size_t i = 0; i < ROWS; i++)
                for (size_t j = 0; j < COLUMNS; j++) {
                    float sum = 0;
                    for (size_t m = 0; m < depth; m++) {
                        const float product = a[i * p.a_row + m * p.a_depth] *
                                              panel[(j / LANES * depth + m) * LANES + j % LANES];
                        sum += product;
                    }
                    if (i >= rows || j >= columns)
                        sum = 3;
                    else if (p.add)
                        sum = 3 + sum;
                    assert_int_equal(bits_of(c[i * COLUMNS + j]), bits_of(sum));
                }
        }
}

TEST(products_of_integers_wrap) {
    enum { ROWS = 9, COLUMNS = 75, DEPTH = 20 };
    static int32_t a[ROWS * DEPTH], b[DEPTH * COLUMNS], c[ROWS * COLUMNS];
    const struct tmk_vmath *v;
    for (size_t i = 0; i < TMK_COUNT(a); i++)
        a[i] = (int32_t)next();
    for (size_t i = 0; i < TMK_COUNT(b); i++)
        b[i] = (int32_t)next();
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 400; n++) {
            const size_t rows = next() % (ROWS + 1), columns = next() % (COLUMNS + 1),
                         depth = n % (DEPTH + 1);
            const struct tmk_vintegers p = {rows,  columns, depth, a,       b,
                                            DEPTH, COLUMNS, c,     COLUMNS, n % 2 != 0};
            for (size_t i = 0; i < TMK_COUNT(c); i++)
                c[i] = 3;
            v->integers(&p);
            for (size_t i = 0; i < ROWS; i++)
                for (size_t j = 0; j < COLUMNS; j++) {
                    const bool inside = i < rows && j < columns;
                    uint32_t sum = inside && !p.add ? 0 : 3;
                    for (size_t m = 0; inside && m < depth; m++)
                        sum += (uint32_t)a[i * DEPTH + m] * (uint32_t)b[m * COLUMNS + j];
                    assert_int_equal((uint32_t)c[i * COLUMNS + j], sum);
                }
        }
}

TEST(elements_are_transposed) {
    enum { MOST = 41, STEP = 45 };
    static uint32_t from[MOST * STEP], to[MOST * STEP];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 0; n < 400; n++) {
            size_t rows = next() % MOST, columns = next() % MOST;
            for (size_t i = 0; i < TMK_COUNT(from); i++)
                from[i] = next();
            memset(to, 0xff, sizeof to);
            v->transpose(from, STEP, to, STEP, rows, columns);
            for (size_t r = 0; r < MOST; r++)
                for (size_t c = 0; c < STEP; c++)
                    assert_int_equal(to[r * STEP + c],
                                     r < rows && c < columns ? from[r + c * STEP] : UINT32_MAX);
        }
}

TEST(the_largest_is_found_and_nan_passes) {
    float x[50];
    const struct tmk_vmath *v;
    for (size_t k = 0; (v = tmk_vmath_at(k)) != NULL; k++)
        for (size_t n = 1; n <= TMK_COUNT(x); n++)
            for (size_t at = 0; at < n; at++) {
                for (size_t i = 0; i < n; i++)
                    x[i] = -(float)i - 1;
                x[at] = 2;
                assert_true(v->max(x, n) == 2);
                x[at] = NAN;
                assert_true(isnan(v->max(x, n)));
                for (size_t i = 0; i < n; i++)
                    x[i] = -INFINITY;
                assert_true(v->max(x, n) == -INFINITY);
            }
}
