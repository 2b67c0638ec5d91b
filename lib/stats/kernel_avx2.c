/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "stats/kernel.h"

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))

/* orders[m]: the positions of m's set bits, lowest first, a byte each: the permutation that packs
 * those lanes. */
#define BIT(m, b)                                                                                  \
    ((uint64_t)((m) >> (b)&1) * ((uint64_t)(b) << 8 * __builtin_popcount((m) & ((1 << (b)) - 1))))
#define ORDER(m)                                                                                   \
    (BIT(m, 0) | BIT(m, 1) | BIT(m, 2) | BIT(m, 3) | BIT(m, 4) | BIT(m, 5) | BIT(m, 6) | BIT(m, 7))
#define ORDERS4(m) ORDER(m), ORDER((m) + 1), ORDER((m) + 2), ORDER((m) + 3)
#define ORDERS16(m) ORDERS4(m), ORDERS4((m) + 4), ORDERS4((m) + 8), ORDERS4((m) + 12)
#define ORDERS64(m) ORDERS16(m), ORDERS16((m) + 16), ORDERS16((m) + 32), ORDERS16((m) + 48)
static const uint64_t orders[256] = {ORDERS64(0), ORDERS64(64), ORDERS64(128), ORDERS64(192)};

struct minmax {
    __m256i signed_max[2], unsigned_max[2], zeros;
};

TARGET static inline void minmax_init(struct minmax *g) {
    g->signed_max[0] = g->signed_max[1] = _mm256_set1_epi32(INT32_MIN);
    g->unsigned_max[0] = g->unsigned_max[1] = g->zeros = _mm256_setzero_si256();
}

TARGET static inline void minmax_add_half(struct minmax *g, int half, const tmk_loose_bits *x) {
    __m256i v = _mm256_loadu_si256((const __m256i *)x);
    __m256i zero = _mm256_cmpeq_epi32(_mm256_add_epi32(v, v), _mm256_setzero_si256());
    g->signed_max[half] = _mm256_max_epi32(g->signed_max[half], v);
    g->unsigned_max[half] = _mm256_max_epu32(g->unsigned_max[half], v);
    g->zeros = _mm256_sub_epi32(g->zeros, zero);
}

TARGET static inline void minmax_add(struct minmax *g, const tmk_loose_bits *x) {
    minmax_add_half(g, 0, x);
    minmax_add_half(g, 1, x + 8);
}

/* All ones in the first n lanes. */
TARGET static inline __m256i first_lanes(size_t n) {
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), number);
}

TARGET static inline void minmax_add_some(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    int half = 0;
    if (n >= 8) {
        minmax_add_half(g, half++, x);
        x += 8;
        n -= 8;
    }
    if (n == 0)
        return;
    __m256i some = first_lanes(n), v = _mm256_maskload_epi32((const int *)(const void *)x, some);
    __m256i zero = _mm256_cmpeq_epi32(_mm256_add_epi32(v, v), _mm256_setzero_si256());
    __m256i low = _mm256_blendv_epi8(_mm256_set1_epi32(INT32_MIN), v, some);
    g->signed_max[half] = _mm256_max_epi32(g->signed_max[half], low);
    g->unsigned_max[half] = _mm256_max_epu32(g->unsigned_max[half], v);
    g->zeros = _mm256_sub_epi32(g->zeros, _mm256_and_si256(zero, some));
}

TARGET static inline void minmax_reduce(const struct minmax *g, struct tmk_tile_summary *summary) {
    __m256i s = _mm256_max_epi32(g->signed_max[0], g->signed_max[1]);
    __m256i u = _mm256_max_epu32(g->unsigned_max[0], g->unsigned_max[1]);
    __m128i a = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    __m128i b = _mm_max_epu32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
    __m128i z =
        _mm_add_epi32(_mm256_castsi256_si128(g->zeros), _mm256_extracti128_si256(g->zeros, 1));
    a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    b = _mm_max_epu32(b, _mm_shuffle_epi32(b, 0x4e));
    z = _mm_add_epi32(z, _mm_shuffle_epi32(z, 0x4e));
    summary->signed_max = _mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
    summary->unsigned_max =
        (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(b, _mm_shuffle_epi32(b, 0xb1)));
    summary->zeros = (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(z, _mm_shuffle_epi32(z, 0xb1)));
}

TARGET static inline void minmax_columns(const struct minmax *g, int32_t *signed_max,
                                         uint32_t *unsigned_max) {
    for (int half = 0; half < 2; half++) {
        _mm256_storeu_si256((__m256i *)(void *)(signed_max + 8 * half), g->signed_max[half]);
        _mm256_storeu_si256((__m256i *)(void *)(unsigned_max + 8 * half), g->unsigned_max[half]);
    }
}

TARGET static uint32_t min_unsigned(const tmk_loose_bits *x, size_t n, uint32_t *columns) {
    __m256i min[2] = {_mm256_set1_epi32(-1), _mm256_set1_epi32(-1)};
    size_t i = 0;
    for (; i + TMK_LANES <= n; i += TMK_LANES)
        for (int half = 0; half < 2; half++)
            min[half] = _mm256_min_epu32(min[half],
                                         _mm256_loadu_si256((const __m256i *)(x + i + 8 * half)));
    _mm256_storeu_si256((__m256i *)(void *)columns, min[0]);
    _mm256_storeu_si256((__m256i *)(void *)(columns + 8), min[1]);
    for (size_t lane = 0; i < n; i++, lane++)
        columns[lane] = x[i] < columns[lane] ? x[i] : columns[lane];
    uint32_t all = UINT32_MAX;
    for (size_t lane = 0; lane < TMK_LANES; lane++)
        all = columns[lane] < all ? columns[lane] : all;
    return all;
}

TARGET static inline size_t pack_half(const tmk_loose_bits *x, uint32_t *out) {
    __m256i v = _mm256_loadu_si256((const __m256i *)x);
    __m256i zero = _mm256_cmpeq_epi32(_mm256_add_epi32(v, v), _mm256_setzero_si256());
    unsigned keep = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(zero)) & 255u;
    __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&orders[keep]));
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(v, order));
    return (unsigned)__builtin_popcount(keep);
}

TARGET static inline size_t pack_nonzero(const tmk_loose_bits *x, uint32_t *out) {
    size_t kept = pack_half(x, out);
    return kept + pack_half(x + 8, out + kept);
}

#include "stats/kernel_body.h"

const struct tmk_stats_kernel tmk_stats_kernel_avx2 = {
    "avx2",         scan_elements,  add_tile, scatter_elements, count_sign_bits, columns,
    finite_columns, update_columns, sum,      sum_window};
