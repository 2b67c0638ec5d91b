/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "stats/kernel.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2,popcnt")))

struct minmax {
    __m512i signed_max, unsigned_max, zeros;
};

TARGET static inline void minmax_init(struct minmax *g) {
    g->signed_max = _mm512_set1_epi32(INT32_MIN);
    g->unsigned_max = g->zeros = _mm512_setzero_si512();
}

TARGET static inline void minmax_add(struct minmax *g, const tmk_loose_bits *x) {
    __m512i v = _mm512_loadu_si512((const void *)x);
    __mmask16 zero = _mm512_testn_epi32_mask(v, _mm512_set1_epi32(0x7fffffff));
    g->signed_max = _mm512_max_epi32(g->signed_max, v);
    g->unsigned_max = _mm512_max_epu32(g->unsigned_max, v);
    g->zeros = _mm512_mask_add_epi32(g->zeros, zero, g->zeros, _mm512_set1_epi32(1));
}

TARGET static inline void minmax_merge(struct minmax *g, const struct minmax *other) {
    g->signed_max = _mm512_max_epi32(g->signed_max, other->signed_max);
    g->unsigned_max = _mm512_max_epu32(g->unsigned_max, other->unsigned_max);
    g->zeros = _mm512_add_epi32(g->zeros, other->zeros);
}

/* With another minmax, since each vector waits for the one before. */
TARGET static inline void minmax_add_all(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    struct minmax other;
    size_t i = 0;
    minmax_init(&other);
    for (; i + 2 * TMK_LANES <= n; i += 2 * TMK_LANES) {
        minmax_add(g, x + i);
        minmax_add(&other, x + i + TMK_LANES);
    }
    if (i < n)
        minmax_add(g, x + i);
    minmax_merge(g, &other);
}

TARGET static inline void minmax_add_some(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    __mmask16 some = (__mmask16)((1u << n) - 1);
    __m512i v = _mm512_maskz_loadu_epi32(some, (const void *)x);
    __mmask16 zero = _mm512_mask_testn_epi32_mask(some, v, _mm512_set1_epi32(0x7fffffff));
    g->signed_max = _mm512_mask_max_epi32(g->signed_max, some, g->signed_max, v);
    g->unsigned_max = _mm512_mask_max_epu32(g->unsigned_max, some, g->unsigned_max, v);
    g->zeros = _mm512_mask_add_epi32(g->zeros, zero, g->zeros, _mm512_set1_epi32(1));
}

TARGET static inline void minmax_reduce(const struct minmax *g, struct tmk_tile_summary *summary) {
    summary->signed_max = _mm512_reduce_max_epi32(g->signed_max);
    summary->unsigned_max = _mm512_reduce_max_epu32(g->unsigned_max);
    summary->zeros = (uint32_t)_mm512_reduce_add_epi32(g->zeros);
}

TARGET static inline void minmax_columns(const struct minmax *g, int32_t *signed_max,
                                         uint32_t *unsigned_max) {
    _mm512_storeu_si512((void *)signed_max, g->signed_max);
    _mm512_storeu_si512((void *)unsigned_max, g->unsigned_max);
}

TARGET static uint32_t min_unsigned(const tmk_loose_bits *x, size_t n, uint32_t *columns) {
    __m512i min = _mm512_set1_epi32(-1);
    size_t i = 0;
    for (; i + TMK_LANES <= n; i += TMK_LANES)
        min = _mm512_min_epu32(min, _mm512_loadu_si512((const void *)(x + i)));
    __mmask16 some = (__mmask16)((1u << (n - i)) - 1);
    min = _mm512_mask_min_epu32(min, some, min,
                                _mm512_maskz_loadu_epi32(some, (const void *)(x + i)));
    _mm512_storeu_si512((void *)columns, min);
    return _mm512_reduce_min_epu32(min);
}

/* The register form of the compress and a full store: its memory form is microcode on Zen 4.
 * Merge-masked, since the zero-masked form waits for its destination there. */
TARGET static inline size_t pack_nonzero(const tmk_loose_bits *x, uint32_t *out) {
    __m512i v = _mm512_loadu_si512((const void *)x);
    __mmask16 keep = _mm512_test_epi32_mask(v, _mm512_set1_epi32(0x7fffffff));
    _mm512_storeu_si512((void *)out, _mm512_mask_compress_epi32(v, keep, v));
    return (unsigned)__builtin_popcount(keep);
}

/* The instruction that orders -0 before +0, as keys do. */
TARGET static inline __m512 min_vector(__m512 a, __m512 b) {
    return _mm512_range_ps(a, b, 4);
}

TARGET static inline __m512 max_vector(__m512 a, __m512 b) {
    return _mm512_range_ps(a, b, 5);
}

enum { VECTORS = 4 };

/* Of `vectors` adjacent vectors, VECTORS at most, the columns of each that `some` has. */
TARGET static inline __attribute__((always_inline)) void
widen_vectors(const tmk_loose_bits *x, size_t rows, size_t stride, size_t vectors, __mmask16 some,
              tmk_loose_bits *min, tmk_loose_bits *max) {
    __m512 low[VECTORS], high[VECTORS];
    for (size_t k = 0; k < vectors; k++) {
        low[k] = _mm512_maskz_loadu_ps(some, (const void *)(min + k * TMK_LANES));
        high[k] = _mm512_maskz_loadu_ps(some, (const void *)(max + k * TMK_LANES));
    }
    for (size_t r = 0; r < rows; r++, x += stride)
        for (size_t k = 0; k < vectors; k++) {
            __m512 v = _mm512_maskz_loadu_ps(some, (const void *)(x + k * TMK_LANES));
            low[k] = min_vector(low[k], v);
            high[k] = max_vector(high[k], v);
        }
    for (size_t k = 0; k < vectors; k++) {
        _mm512_mask_storeu_ps((void *)(min + k * TMK_LANES), some, low[k]);
        _mm512_mask_storeu_ps((void *)(max + k * TMK_LANES), some, high[k]);
    }
}

/* Several vectors at a time, since each row waits for the one before. */
TARGET static void update_columns(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,
                                  tmk_loose_bits *min, tmk_loose_bits *max) {
    size_t i = 0;
    for (; i + VECTORS * TMK_LANES <= width; i += VECTORS * TMK_LANES)
        widen_vectors(x + i, rows, stride, VECTORS, 0xffff, min + i, max + i);
    for (; i < width; i += TMK_LANES) {
        const size_t left = width - i;
        const __mmask16 some = (__mmask16)(left < TMK_LANES ? (1u << left) - 1 : 0xffffu);
        widen_vectors(x + i, rows, stride, 1, some, min + i, max + i);
    }
}

/* Sums of 16 columns. */
struct lanes {
    __m512d low, high;
};

TARGET static inline void lanes_store(const struct lanes *a, const struct lanes *b, double *sums) {
    _mm512_storeu_pd(sums, a->low);
    _mm512_storeu_pd(sums + 8, a->high);
    _mm512_storeu_pd(sums + 16, b->low);
    _mm512_storeu_pd(sums + 24, b->high);
}

TARGET static inline void lanes_add(struct lanes *l, __m256 low, __m256 high) {
    l->low = _mm512_add_pd(l->low, _mm512_cvtps_pd(low));
    l->high = _mm512_add_pd(l->high, _mm512_cvtps_pd(high));
}

/* Doubled magnitudes less 1, so that those of zeros are the largest. */
TARGET static inline __m512i least_of(__m512i least, __m512i v) {
    return _mm512_min_epu32(least, _mm512_sub_epi32(_mm512_add_epi32(v, v), _mm512_set1_epi32(1)));
}

TARGET static inline __m512i lanes_add_row(struct lanes *l, __m512i least,
                                           const tmk_loose_bits *x) {
    lanes_add(l, _mm256_loadu_ps((const void *)x), _mm256_loadu_ps((const void *)(x + 8)));
    return least_of(least, _mm512_loadu_si512((const void *)x));
}

TARGET static uint32_t sum(const tmk_loose_bits *x, size_t n, double *sums) {
    struct lanes a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    __m512i least[2] = {_mm512_set1_epi32(-1), _mm512_set1_epi32(-1)};
    size_t i = 0;
    for (; i + 2 * TMK_LANES <= n; i += 2 * TMK_LANES) {
        least[0] = lanes_add_row(&a, least[0], x + i);
        least[1] = lanes_add_row(&b, least[1], x + i + TMK_LANES);
    }
    for (int half = 0; half < 2 && i < n; half++, i += TMK_LANES) {
        const __mmask16 some = (__mmask16)(n - i < TMK_LANES ? (1u << (n - i)) - 1 : 0xffffu);
        const __m512i v = _mm512_maskz_loadu_epi32(some, (const void *)(x + i));
        const __m512 floats = _mm512_castsi512_ps(v);
        lanes_add(half ? &b : &a, _mm512_castps512_ps256(floats),
                  _mm512_extractf32x8_ps(floats, 1));
        least[half] = least_of(least[half], v);
    }
    lanes_store(&a, &b, sums);
    return (_mm512_reduce_min_epu32(_mm512_min_epu32(least[0], least[1])) + 1) / 2;
}

/* from, to - from: of each column; *below: the largest magnitudes below. */
TARGET static inline void lanes_add_window(struct lanes *l, __m512i v, __m512i from, __m512i span,
                                           __m512i *below) {
    const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 less = _mm512_cmplt_epu32_mask(magnitude, from),
                    in = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(magnitude, from), span);
    const __m512 x = _mm512_maskz_mov_ps(in, _mm512_castsi512_ps(v));
    *below = _mm512_mask_max_epu32(*below, less, *below, magnitude);
    lanes_add(l, _mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

TARGET static uint32_t sum_window(const tmk_loose_bits *x, size_t n, uint32_t from, uint32_t to,
                                  double *sums) {
    const __m512i first = _mm512_set1_epi32((int)from), span = _mm512_set1_epi32((int)(to - from));
    struct lanes a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    __m512i below = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 2 * TMK_LANES <= n; i += 2 * TMK_LANES) {
        lanes_add_window(&a, _mm512_loadu_si512((const void *)(x + i)), first, span, &below);
        lanes_add_window(&b, _mm512_loadu_si512((const void *)(x + i + TMK_LANES)), first, span,
                         &below);
    }
    for (int half = 0; half < 2 && i < n; half++, i += TMK_LANES) {
        const __mmask16 some = (__mmask16)(n - i < TMK_LANES ? (1u << (n - i)) - 1 : 0xffffu);
        lanes_add_window(half ? &b : &a, _mm512_maskz_loadu_epi32(some, (const void *)(x + i)),
                         first, span, &below);
    }
    lanes_store(&a, &b, sums);
    return _mm512_reduce_max_epu32(below);
}

#define OWN_MINMAX_ADD_ALL
#define OWN_SUM
#define OWN_UPDATE_COLUMNS
#include "stats/kernel_body.h"

const struct tmk_stats_kernel tmk_stats_kernel_avx512 = {
    "avx512",       scan_elements,  add_tile, scatter_elements, count_sign_bits, columns,
    finite_columns, update_columns, sum,      sum_window};
