/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's rules of matrix products:
 * https://numpy.org/doc/stable/reference/generated/numpy.matmul.html */
#ifndef TMK_OPS_MATMUL_H
#define TMK_OPS_MATMUL_H

#include "ops/ops.h"

/* [batch..., m, k] times [batch..., k, n], batches broadcast. */
struct tmk_matmul {
    size_t m, n, k;
    struct tmk_shape batch; /* the result's leading dimensions */
    /* matrices of A and B to skip for a step along each batch dimension; 0: broadcast */
    int64_t a_step[TMK_MAX_RANK], b_step[TMK_MAX_RANK];
};

/* TMK_SHAPE when the shapes do not fit. A 1-D operand is a row (A) or a column (B) whose axis is
 * missing in `y`. */
TMK_NODISCARD enum tmk_status tmk_matmul_shape(const struct tmk_shape *a, const struct tmk_shape *b,
                                               struct tmk_matmul *out, struct tmk_shape *y,
                                               struct tmk_diag *diag);
/* How many products. */
size_t tmk_matmul_count(const struct tmk_matmul *matmul);
/* Which matrices of A and of B the product number `batch` takes. */
void tmk_matmul_at(const struct tmk_matmul *matmul, size_t batch, size_t *a, size_t *b);

/* infer and run of Gemm, for operators whose inputs and attributes are Gemm's. */
TMK_NODISCARD enum tmk_status tmk_infer_gemm(struct tmk_infer *infer);
TMK_NODISCARD enum tmk_status tmk_run_gemm(struct tmk_run *run);

#endif
