/* SPDX-License-Identifier: Apache-2.0 */
/* With AVX-512 and glibc's vector functions, which are declared here because math.h shows them to
 * compilers in their fast-math mode only. */
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define WIDTH 16
#define WIDE 8

typedef __m512 vec;
typedef __m512d wide;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): libmvec's own names */
TARGET vec _ZGVeN16v_expf(vec);
TARGET vec _ZGVeN16v_logf(vec);
TARGET vec _ZGVeN16v_tanhf(vec);
TARGET __m256 _ZGVdN8v_erff(__m256);
TARGET vec _ZGVeN16v_sinf(vec);
TARGET vec _ZGVeN16v_cosf(vec);
TARGET vec _ZGVeN16v_log1pf(vec);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#define MV_LOG _ZGVeN16v_logf
#define MV_TANH _ZGVeN16v_tanhf
#define MV_ERF erf_of
#define MV_SIN _ZGVeN16v_sinf
#define MV_COS _ZGVeN16v_cosf
#define MV_LOG1P _ZGVeN16v_log1pf

#define load _mm512_loadu_ps
#define store _mm512_storeu_ps
#define splat _mm512_set1_ps
#define add _mm512_add_ps
#define subtract _mm512_sub_ps
#define multiply _mm512_mul_ps
#define divide _mm512_div_ps
#define square_root _mm512_sqrt_ps
#define splat_wide _mm512_set1_pd
#define store_wide _mm512_storeu_pd
#define add_wide _mm512_add_pd
#define subtract_wide _mm512_sub_pd
#define multiply_wide _mm512_mul_pd

TARGET static inline wide load_wide(const float *x) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(x));
}

/* -|x| */
TARGET static inline vec with_sign(vec x) {
    return _mm512_or_ps(x, splat(-0.0f));
}

/* Of each lane: a where the sign bit of x is set, else b. */
TARGET static inline vec choose_negative(vec x, vec a, vec b) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), b, a);
}

/* By halves: libmvec's erff of sixteen is off by up to 4 units near -1 and 1, so that 1 + erf(x),
 * with which Gelu continues, is 0 far too often. That of eight is as fast, and off by 2 at most. */
TARGET static inline vec erf_of(vec x) {
    __m256 low = _ZGVdN8v_erff(_mm512_castps512_ps256(x)),
           high = _ZGVdN8v_erff(_mm512_extractf32x8_ps(x, 1));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

/* libmvec takes results below the normal range one by one, and masks of attention are full of them.
 * There e^x is the square of e^(x / 2), and below -104 nothing is left. */
TARGET static inline vec exp_of(vec x) {
    __mmask16 small = _mm512_cmp_ps_mask(x, splat(-87), _CMP_LT_OQ),
              nothing = _mm512_cmp_ps_mask(x, splat(-104), _CMP_LT_OQ);
    if (!small)
        return _ZGVeN16v_expf(x);
    vec half = _mm512_mask_mul_ps(x, small, x, splat(0.5f));
    vec e = _ZGVeN16v_expf(_mm512_mask_mov_ps(half, nothing, splat(0)));
    return _mm512_mask_mov_ps(_mm512_mask_mul_ps(e, small, e, e), nothing, splat(0));
}

TARGET static inline vec round_down(vec x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_FLOOR | _MM_FROUND_NO_EXC);
}

TARGET static inline vec round_up(vec x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_CEIL | _MM_FROUND_NO_EXC);
}

TARGET static inline vec round_even(vec x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* b where it is larger, else a */
TARGET static inline vec larger(vec a, vec b) {
    return _mm512_max_ps(b, a);
}

TARGET static inline bool holds_nan(vec x) {
    return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0;
}

/* The first n floats, n < WIDTH, then zeros. */
TARGET static inline vec load_first(const float *x, size_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x);
}

/* The upper half of the lanes onto the lower, until four are left. */
TARGET static inline __m128 fold_to_four(const vec v[]) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

#define DOT_ROWS 4     /* sums for so many rows and four columns are in registers */
#define PANEL_ROWS 8   /* for so many rows and LANES columns, or for one row and so */
#define PANEL_GROUPS 4 /* many times LANES columns */

#include "ops/vmath_body.h"

const struct tmk_vmath tmk_vmath_avx512 = TMK_VMATH_TABLE("avx512");
