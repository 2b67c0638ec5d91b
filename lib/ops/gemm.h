/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products in float32, with one fixed order of summation.
 *
 * Every element is a sum over k in ascending order within blocks of TMK_GEMM_DEPTH, the blocks'
 * sums being added in ascending order: the bits of an element depend on its row of A and its column
 * of B only, not on where it stands nor on how many there are.
 */
#ifndef TMK_OPS_GEMM_H
#define TMK_OPS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

/* A panel holds up to COLUMNS columns and DEPTH rows of B, LANES columns after LANES columns. */
enum { TMK_GEMM_LANES = 8, TMK_GEMM_COLUMNS = 64, TMK_GEMM_DEPTH = 256 };

/* Bytes of scratch for one panel. */
#define TMK_GEMM_PANEL (sizeof(float) * TMK_GEMM_COLUMNS * TMK_GEMM_DEPTH)

/* Where column j of row k of a panel with `depth` rows lies. Columns up to the next multiple of
 * LANES must be filled too (their products are thrown away). */
static inline size_t tmk_gemm_at(size_t depth, size_t k, size_t j) {
    return (j / TMK_GEMM_LANES * depth + k) * TMK_GEMM_LANES + j % TMK_GEMM_LANES;
}

/* c[i * c_step + j] = (add: itself +) sum over k < depth of a[i * a_row + k * a_depth] * panel[k,
 * j]. */
void tmk_gemm_block(size_t rows, size_t columns, size_t depth, const float *a, size_t a_row,
                    size_t a_depth, const float *panel, float *c, size_t c_step, bool add);

struct tmk_gemm {
    size_t m, n, k;
    const float *a, *b;
    size_t a_row, a_depth, b_depth, b_column; /* elements from one to the next */
    float *c;                                 /* m x n, row-major, overwritten; zero where k is 0 */
};
/* `panel` is TMK_GEMM_PANEL bytes. */
void tmk_gemm(const struct tmk_gemm *gemm, float *panel);

#endif
