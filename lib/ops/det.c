/* SPDX-License-Identifier: Apache-2.0 */
/* Det: determinants of square matrices, by elimination with row pivots in double. */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/rows.h"

static enum tmk_status infer_det(struct tmk_infer *infer) {
    struct tmk_shape shape = infer->in[0]->shape;
    char text[128];
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    if (shape.rank < 2 || shape.dim[shape.rank - 1] != shape.dim[shape.rank - 2])
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' is %s, no square matrices",
                        tmk_shape_text(&shape, text, sizeof text));
    shape.rank -= 2;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* Overwrites m. */
static double det_in_place(size_t n, double *m) {
    double product = 1;
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(m[i * n + k]) > fabs(m[pivot * n + k]))
                pivot = i;
        if (m[pivot * n + k] == 0)
            return 0;
        for (size_t j = k; j < n && pivot != k; j++) {
            double other = m[k * n + j];
            m[k * n + j] = m[pivot * n + j];
            m[pivot * n + j] = other;
        }
        product *= pivot == k ? m[k * n + k] : -m[k * n + k];
        for (size_t i = k + 1; i < n; i++) {
            double factor = m[i * n + k] / m[k * n + k];
            for (size_t j = k + 1; j < n; j++)
                m[i * n + j] -= factor * m[k * n + j];
        }
    }
    return product;
}

static enum tmk_status run_det(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t count = y ? tmk_tensor_count(y) : 0, n = (size_t)shape->dim[shape->rank - 1];
    const float *x = run->in[0]->data;
    if (count == 0)
        return TMK_OK;
    double *matrix = tmk_scratch(run, n * n, sizeof *matrix);
    TMK_TRY_ALLOC(matrix, run->diag);
    for (size_t i = 0; i < count; i++, x += n * n) {
        for (size_t j = 0; j < n * n; j++)
            matrix[j] = (double)x[j];
        ((float *)y->data)[i] = (float)det_in_place(n, matrix);
    }
    return TMK_OK;
}

static double det_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    (void)node;
    (void)out;
    return tmk_cost_count(in[0]) * tmk_cost_dim(in[0], -1);
}

const struct tmk_op tmk_ops_det[] = {
    {TMK_OP_ONNX("Det", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .infer = infer_det,
     .run = run_det, .cost = det_cost},
    {NULL},
};
