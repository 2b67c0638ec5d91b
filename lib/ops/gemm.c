/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm.h"

#include <string.h>

enum { ROWS = 4 };

/* gcc and clang split this into what the machine has. */
typedef float lanes __attribute__((vector_size(TMK_GEMM_LANES * sizeof(float)), may_alias));

/* ROWS x LANES sums in registers. */
static void multiply_tile(size_t depth, const float *const a[ROWS], size_t a_depth,
                          const float *panel, float out[ROWS][TMK_GEMM_LANES]) {
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, b;
    for (size_t k = 0; k < depth; k++) {
        size_t at = k * a_depth;
        memcpy(&b, panel + k * TMK_GEMM_LANES, sizeof b);
        s0 += a[0][at] * b;
        s1 += a[1][at] * b;
        s2 += a[2][at] * b;
        s3 += a[3][at] * b;
    }
    memcpy(out[0], &s0, sizeof s0);
    memcpy(out[1], &s1, sizeof s1);
    memcpy(out[2], &s2, sizeof s2);
    memcpy(out[3], &s3, sizeof s3);
}

void tmk_gemm_block(size_t rows, size_t columns, size_t depth, const float *a, size_t a_row,
                    size_t a_depth, const float *panel, float *c, size_t c_step, bool add) {
    float sums[ROWS][TMK_GEMM_LANES];
    for (size_t i = 0; i < rows; i += ROWS) {
        size_t height = rows - i < ROWS ? rows - i : ROWS;
        const float *row[ROWS];
        for (size_t r = 0; r < ROWS; r++) /* beyond the last row: the last again */
            row[r] = a + (i + (r < height ? r : height - 1)) * a_row;
        for (size_t j = 0; j < columns; j += TMK_GEMM_LANES) {
            size_t width = columns - j < TMK_GEMM_LANES ? columns - j : TMK_GEMM_LANES;
            multiply_tile(depth, row, a_depth, panel + j * depth, sums);
            for (size_t r = 0; r < height; r++) {
                float *to = c + (i + r) * c_step + j;
                for (size_t l = 0; l < width; l++)
                    to[l] = add ? to[l] + sums[r][l] : sums[r][l];
            }
        }
    }
}

static void pack_panel(const struct tmk_gemm *gemm, size_t k0, size_t depth, size_t j0,
                       size_t columns, float *panel) {
    for (size_t j = 0; j < columns; j += TMK_GEMM_LANES) {
        size_t width = columns - j < TMK_GEMM_LANES ? columns - j : TMK_GEMM_LANES;
        const float *from = gemm->b + k0 * gemm->b_depth + (j0 + j) * gemm->b_column;
        for (size_t k = 0; k < depth; k++, panel += TMK_GEMM_LANES) {
            for (size_t l = 0; l < width; l++)
                panel[l] = from[k * gemm->b_depth + l * gemm->b_column];
            for (size_t l = width; l < TMK_GEMM_LANES; l++)
                panel[l] = 0;
        }
    }
}

void tmk_gemm(const struct tmk_gemm *gemm, float *panel) {
    if (gemm->k == 0 && gemm->m && gemm->n)
        memset(gemm->c, 0, gemm->m * gemm->n * sizeof *gemm->c);
    for (size_t j = 0; j < gemm->n; j += TMK_GEMM_COLUMNS) {
        size_t columns = gemm->n - j < TMK_GEMM_COLUMNS ? gemm->n - j : TMK_GEMM_COLUMNS;
        for (size_t k = 0; k < gemm->k; k += TMK_GEMM_DEPTH) {
            size_t depth = gemm->k - k < TMK_GEMM_DEPTH ? gemm->k - k : TMK_GEMM_DEPTH;
            pack_panel(gemm, k, depth, j, columns, panel);
            tmk_gemm_block(gemm->m, columns, depth, gemm->a + k * gemm->a_depth, gemm->a_row,
                           gemm->a_depth, panel, gemm->c + j, gemm->n, k > 0);
        }
    }
}
