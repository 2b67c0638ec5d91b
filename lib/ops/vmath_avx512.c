/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define WIDTH 16
#define WIDE 8

typedef __m512 vec;
typedef int32_t ints __attribute__((vector_size(4 * WIDTH)));
typedef __m512d wide;

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

TARGET static inline bool is_all(ints mask) {
    return _mm512_movepi32_mask((__m512i)mask) == 0xffff;
}

/* of NaN the second operand */
TARGET static inline vec limit_vec(vec x, float most) {
    return _mm512_max_ps(splat(-most), _mm512_min_ps(splat(most), x));
}

#define scale_vec(v, shifted) _mm512_scalef_ps(v, (shifted) - 0x1.8p23f)

TARGET static inline wide load_wide(const float *x) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(x));
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
