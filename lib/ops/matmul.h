/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's rules of matrix products:
 * https://numpy.org/doc/stable/reference/generated/numpy.matmul.html */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ops/ops.h"
#include "ops/vmath.h"

/* [batch..., m, k] times [batch..., k, n], batches broadcast. */
struct tmk_matmul {
    size_t m, n, k;
    struct tmk_shape batch; /* the result's leading dimensions */
    /* matrices of A and B to skip for a step along each batch dimension; 0: broadcast */
    int64_t a_step[TMK_MAX_RANK], b_step[TMK_MAX_RANK];
};

/* TMK_SHAPE when the shapes do not fit. A 1-D operand is a row (A) or a column (B) whose axis is
 * missing in `y`. */
enum tmk_status tmk_matmul_shape(const struct tmk_shape *a, const struct tmk_shape *b,
                                 struct tmk_matmul *out, struct tmk_shape *y,
                                 struct tmk_diag *diag);
/* How many products. */
size_t tmk_matmul_count(const struct tmk_matmul *matmul);
/* Which matrices of A and of B the product number `batch` takes. */
void tmk_matmul_at(const struct tmk_matmul *matmul, size_t batch, size_t *a, size_t *b);

/* infer and run of Gemm, for operators whose inputs and attributes are Gemm's. */
enum tmk_status tmk_infer_gemm(struct tmk_infer *infer);
enum tmk_status tmk_run_gemm(struct tmk_run *run);

/* Matrix products in float32, with one fixed order of summation.
 *
 * Every element is a sum over k in ascending order within blocks of TMK_GEMM_DEPTH, the blocks'
 * sums being added in ascending order: the bits of an element depend on its row of A and its column
 * of B only, not on where it stands nor on how many there are. */

/* A panel (tmk_vpanel) holds up to COLUMNS columns and DEPTH rows of B. */
enum { TMK_GEMM_COLUMNS = 64, TMK_GEMM_DEPTH = 256 };

/* Bytes of scratch for one panel. */
#define TMK_GEMM_PANEL (sizeof(float) * TMK_GEMM_COLUMNS * TMK_GEMM_DEPTH)

/* Where column j of row k of a panel with `depth` rows lies. */
static inline size_t tmk_gemm_at(size_t depth, size_t k, size_t j) {
    return (j / TMK_VMATH_LANES * depth + k) * TMK_VMATH_LANES + j % TMK_VMATH_LANES;
}

struct tmk_gemm {
    size_t m, n, k;
    const float *a, *b;
    size_t a_row, a_depth, b_depth, b_column; /* elements from one to the next */
    float *c;                                 /* m x n, row-major, overwritten; zero where k is 0 */
};
/* `panel` is TMK_GEMM_PANEL bytes. */
void tmk_gemm(const struct tmk_gemm *gemm, float *panel);

/* The same, of row-major A [m, k] and B [k, n], whose rows are a_row and b_row apart; _transposed:
 * B is [n, k]. */
static inline void tmk_gemm_rows(size_t m, size_t n, size_t k, const float *a, size_t a_row,
                                 const float *b, size_t b_row, float *c, float *panel) {
    tmk_gemm(&(struct tmk_gemm){m, n, k, a, b, a_row, 1, b_row, 1, c}, panel);
}
static inline void tmk_gemm_transposed(size_t m, size_t n, size_t k, const float *a, size_t a_row,
                                       const float *b, size_t b_row, float *c, float *panel) {
    tmk_gemm(&(struct tmk_gemm){m, n, k, a, b, a_row, 1, 1, b_row, c}, panel);
}

/* Products of 8-bit matrices with zero points, summed in 32 bits. */

/* A zero point or scale of a matrix: one for all, one a line ([lines]), or one a line of every
 * matrix (the operand's shape with 1 on the axis that is summed). */
enum tmk_grain { TMK_GRAIN_TENSOR, TMK_GRAIN_LINE, TMK_GRAIN_MATRIX_LINE };

/* TMK_SHAPE unless `part` (may be NULL: TENSOR) is one of these of the operand whose axis `summed`
 * is summed. */
enum tmk_status tmk_grain_find(const struct tmk_tensor *part, const struct tmk_shape *operand,
                               int32_t summed, const char *what, enum tmk_grain *out,
                               struct tmk_diag *diag);
/* Where the entry of a line of a matrix stands. */
size_t tmk_grain_at(enum tmk_grain grain, size_t matrix, size_t lines, size_t line);

struct tmk_integer_operands {
    const struct tmk_tensor *a, *a_zero, *b, *b_zero; /* zero points may be NULL */
    enum tmk_grain a_grain, b_grain;
    struct tmk_matmul matmul;
    struct tmk_shape shape; /* of the result */
};

/* TMK_TYPE or TMK_SHAPE when they do not fit. */
enum tmk_status tmk_integer_find(const struct tmk_tensor *a, const struct tmk_tensor *a_zero,
                                 const struct tmk_tensor *b, const struct tmk_tensor *b_zero,
                                 struct tmk_integer_operands *out, struct tmk_diag *diag);
/* Scratch for both widened matrices: m * k and k * n. */
enum tmk_status tmk_integer_scratch(struct tmk_run *run, const struct tmk_matmul *matmul,
                                    int32_t **left, int32_t **right);
/* sums [m, n] = the product of matrices number `at` of A and `bt` of B. */
void tmk_integer_product(const struct tmk_integer_operands *o, size_t at, size_t bt, int32_t *left,
                         int32_t *right, int32_t *sums);
