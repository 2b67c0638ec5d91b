/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "stats/kernel.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2,popcnt")))
#include "stats/kernel_body.h"

/* The register form of the compress and a full store: its memory form is microcode on Zen 4.
 * Merge-masked, since the zero-masked form waits for its destination there. */
TARGET static size_t pack(const tmk_loose_bits *x, size_t n, uint32_t *out) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    size_t kept = 0, i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i v = _mm512_loadu_si512((const void *)(x + i));
        __mmask16 keep = _mm512_test_epi32_mask(v, magnitude);
        _mm512_storeu_si512((void *)(out + kept), _mm512_mask_compress_epi32(v, keep, v));
        kept += (unsigned)__builtin_popcount(keep);
    }
    for (; i < n; i++) {
        uint32_t v = x[i];
        out[kept] = v;
        kept += (v & 0x7fffffffu) != 0;
    }
    return kept;
}

const struct tmk_stats_kernel tmk_stats_kernel_avx512 = {"avx512", tile, survey, columns};
