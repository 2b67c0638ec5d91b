/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 8-bit matrices with zero points, summed in 32 bits. */
#ifndef TMK_OPS_MATMUL_INTEGER_H
#define TMK_OPS_MATMUL_INTEGER_H

#include "ops/matmul.h"

/* A zero point or scale of a matrix: one for all, one a line ([lines]), or one a line of every
 * matrix (the operand's shape with 1 on the axis that is summed). */
enum tmk_grain { TMK_GRAIN_TENSOR, TMK_GRAIN_LINE, TMK_GRAIN_MATRIX_LINE };

/* TMK_SHAPE unless `part` (may be NULL: TENSOR) is one of these of the operand whose axis `summed`
 * is summed. */
TMK_NODISCARD enum tmk_status tmk_grain_find(const struct tmk_tensor *part,
                                             const struct tmk_shape *operand, int32_t summed,
                                             const char *what, enum tmk_grain *out,
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
TMK_NODISCARD enum tmk_status
tmk_integer_find(const struct tmk_tensor *a, const struct tmk_tensor *a_zero,
                 const struct tmk_tensor *b, const struct tmk_tensor *b_zero,
                 struct tmk_integer_operands *out, struct tmk_diag *diag);
/* Scratch for both widened matrices: m * k and k * n. */
TMK_NODISCARD enum tmk_status tmk_integer_scratch(struct tmk_run *run,
                                                  const struct tmk_matmul *matmul, int32_t **left,
                                                  int32_t **right);
/* sums [m, n] = the product of matrices number `at` of A and `bt` of B. */
void tmk_integer_product(const struct tmk_integer_operands *o, size_t at, size_t bt, int32_t *left,
                         int32_t *right, int32_t *sums);

#endif
