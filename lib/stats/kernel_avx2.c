/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "stats/kernel.h"

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#include "stats/kernel_body.h"

/* lanes[m]: the positions of m's set bits, lowest first, a byte each: the permutation that packs
 * those lanes. */
#define BIT(m, b)                                                                                  \
    ((uint64_t)((m) >> (b)&1) * ((uint64_t)(b) << 8 * __builtin_popcount((m) & ((1 << (b)) - 1))))
#define LANES(m)                                                                                   \
    (BIT(m, 0) | BIT(m, 1) | BIT(m, 2) | BIT(m, 3) | BIT(m, 4) | BIT(m, 5) | BIT(m, 6) | BIT(m, 7))
#define LANES4(m) LANES(m), LANES((m) + 1), LANES((m) + 2), LANES((m) + 3)
#define LANES16(m) LANES4(m), LANES4((m) + 4), LANES4((m) + 8), LANES4((m) + 12)
#define LANES64(m) LANES16(m), LANES16((m) + 16), LANES16((m) + 32), LANES16((m) + 48)
static const uint64_t lanes[256] = {LANES64(0), LANES64(64), LANES64(128), LANES64(192)};

TARGET static size_t pack(const tmk_loose_bits *x, size_t n, uint32_t *out) {
    size_t kept = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(x + i));
        __m256i zero = _mm256_cmpeq_epi32(_mm256_add_epi32(v, v), _mm256_setzero_si256());
        unsigned keep = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(zero)) & 255u;
        __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&lanes[keep]));
        _mm256_storeu_si256((__m256i *)(out + kept), _mm256_permutevar8x32_epi32(v, order));
        kept += (unsigned)__builtin_popcount(keep);
    }
    for (; i < n; i++) {
        uint32_t v = x[i];
        out[kept] = v;
        kept += (v & 0x7fffffffu) != 0;
    }
    return kept;
}

const struct tmk_stats_kernel tmk_stats_kernel_avx2 = {"avx2", tile, survey, columns};
