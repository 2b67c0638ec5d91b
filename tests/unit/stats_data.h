/* SPDX-License-Identifier: Apache-2.0 */
/* Data for the tests of the statistics, and short spellings. */
#pragma once

#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stats.h>

#include "base/size.h"
#include "base/text.h"
#include "stats/state.h"

static const enum tmk_stats_level levels[] = {TMK_STATS_RANGE, TMK_STATS_HISTOGRAM};

__extension__ typedef __int128 wide;

static uint64_t random_state = 88172645463325252u;

static inline uint64_t next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1du;
}

static inline double uniform(void) {
    return (double)(next() >> 11) * 0x1p-53;
}

static inline double normal(void) {
    return sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
}

static inline float bits(uint32_t b) {
    return tmk_float_of_bits(b);
}

/* Families of data that have shown errors. */
static inline float family_gauss(void) {
    return (float)normal();
}
static inline float family_relu(void) {
    double x = normal();
    return x > 0 ? (float)x : 0.0f;
}
static inline float family_masked(void) {
    double x = normal();
    return x > 0 ? (float)x : -0.0f;
}
static inline float family_any_bits(void) {
    return bits((uint32_t)(next() >> 20));
}
static inline float family_denormal(void) {
    return bits((uint32_t)(next() >> 20) & 0x807fffffu);
}
static inline float family_infinite(void) {
    uint64_t r = next() >> 20;
    return bits(((uint32_t)r & 0x80000000u) | 0x7f800000u |
                (r >> 32 & 3 ? 0 : (uint32_t)r & 0x1ffffu)); /* and NaN of low payload */
}
static inline float family_constant(void) {
    return -1.1f;
}
static inline float family_wide(void) {
    return (float)exp(12 * normal());
}
static inline float family_sparse(void) {
    return next() >> 60 ? 0.0f : (float)normal();
}
static inline float family_tiny(void) {
    uint64_t r = next() >> 20;
    return r % 3 == 0 ? -0.0f
                      : bits((uint32_t)(r >> 8) % 2 ? 1 + ((uint32_t)(r >> 12) & 0xffffu) : 0);
}
static inline float family_negative(void) {
    return -fabsf((float)normal()) - 1e-30f;
}
static inline float family_largest(void) {
    return bits(0x7f7fffffu ^ ((uint32_t)(next() >> 20) & 0x80000001u));
}
static inline float family_few(void) {
    static const float few[] = {-0.0f, 0.0f, 1, -1, 3.5f, INFINITY};
    return few[(next() >> 33) % TMK_COUNT(few)];
}

static float (*const families[])(void) = {
    family_gauss,    family_relu,     family_masked, family_any_bits, family_denormal,
    family_infinite, family_constant, family_wide,   family_sparse,   family_tiny,
    family_negative, family_largest,  family_few};
#define each_family(f)                                                                             \
    size_t f = 0;                                                                                  \
    f < TMK_COUNT(families);                                                                       \
    f++

static inline float *data_of(size_t f, size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = families[f]();
    return x;
}

static inline struct tmk_shape flat(size_t n) {
    return (struct tmk_shape){1, {(int64_t)n}};
}

static inline struct tmk_stats *empty(enum tmk_stats_level level) {
    struct tmk_stats *stats = NULL;
    must(tmk_stats_create(level, &stats, DIAG));
    return stats;
}

static inline void observe(struct tmk_stats *stats, const float *x, size_t n, uint64_t sample) {
    struct tmk_shape shape = flat(n);
    struct tmk_stats_at at = {sample, 1, -1, false, 0};
    must(tmk_stats_update(stats, x, &shape, &at, DIAG));
}

static inline struct tmk_stats *state_of(enum tmk_stats_level level, const float *x, size_t n) {
    struct tmk_stats *stats = empty(level);
    observe(stats, x, n, 0);
    return stats;
}

static inline struct tmk_text bytes_of(const struct tmk_stats *stats) {
    struct tmk_text text = {0};
    tmk_stats_encode(stats, &text);
    assert_false(text.failed);
    return text;
}

static inline bool equal(const struct tmk_stats *a, const struct tmk_stats *b) {
    struct tmk_text x = bytes_of(a), y = bytes_of(b);
    bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    tmk_text_finish(&x);
    tmk_text_finish(&y);
    return same;
}

static inline void reencode(struct tmk_stats **stats) {
    struct tmk_text text = bytes_of(*stats);
    struct tmk_stats *back = NULL;
    must(tmk_stats_decode(text.data, text.len, &back, DIAG));
    assert_true(equal(*stats, back));
    tmk_text_finish(&text);
    tmk_stats_destroy(stats);
    *stats = back;
}

static inline void merge(struct tmk_stats *dst, const struct tmk_stats *src) {
    must(tmk_stats_merge(dst, src, DIAG));
}

static inline void shuffle(size_t *order, size_t n) {
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = next() % i, t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}
