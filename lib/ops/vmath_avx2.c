/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx2")))
#define WIDTH 8
#define WIDE 4

typedef __m256 vec;
typedef int32_t ints __attribute__((vector_size(4 * WIDTH)));
typedef __m256d wide;

#define load _mm256_loadu_ps
#define store _mm256_storeu_ps
#define splat _mm256_set1_ps
#define add _mm256_add_ps
#define subtract _mm256_sub_ps
#define multiply _mm256_mul_ps
#define divide _mm256_div_ps
#define square_root _mm256_sqrt_ps
#define splat_wide _mm256_set1_pd
#define store_wide _mm256_storeu_pd
#define add_wide _mm256_add_pd
#define subtract_wide _mm256_sub_pd
#define multiply_wide _mm256_mul_pd

TARGET static inline bool is_all(ints mask) {
    return _mm256_movemask_ps(_mm256_castsi256_ps((__m256i)mask)) == 0xff;
}

/* of NaN the second operand */
TARGET static inline vec limit_vec(vec x, float most) {
    return _mm256_max_ps(splat(-most), _mm256_min_ps(splat(most), x));
}

#define scale_vec scale_of

TARGET static inline wide load_wide(const float *x) {
    return _mm256_cvtps_pd(_mm_loadu_ps(x));
}

TARGET static inline vec round_down(vec x) {
    return _mm256_round_ps(x, _MM_FROUND_FLOOR | _MM_FROUND_NO_EXC);
}

TARGET static inline vec round_up(vec x) {
    return _mm256_round_ps(x, _MM_FROUND_CEIL | _MM_FROUND_NO_EXC);
}

TARGET static inline vec round_even(vec x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* b where it is larger, else a */
TARGET static inline vec larger(vec a, vec b) {
    return _mm256_max_ps(b, a);
}

TARGET static inline bool holds_nan(vec x) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0;
}

/* The first n floats, n < WIDTH, then zeros. */
TARGET static inline vec load_first(const float *x, size_t n) {
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(x, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), places));
}

/* The upper half of the lanes onto the lower, until four are left. */
TARGET static inline __m128 fold_to_four(const vec v[]) {
    __m256 eight = _mm256_add_ps(v[0], v[1]);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

#define DOT_ROWS 1     /* sums for so many rows and four columns are in registers */
#define PANEL_ROWS 4   /* for so many rows and LANES columns, or for one row and so */
#define PANEL_GROUPS 4 /* many times LANES columns */

#include "ops/vmath_body.h"

const struct tmk_vmath tmk_vmath_avx2 = TMK_VMATH_TABLE("avx2");
