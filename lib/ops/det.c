/* SPDX-License-Identifier: Apache-2.0 */
/* Det, and ONNX Runtime's Inverse: determinants and inverses of square matrices, by elimination
 * with row pivots in double. CDist: distances of rows. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"

static enum tmk_status want_square(struct tmk_infer *infer) {
    const struct tmk_shape *shape = &infer->in[0]->shape;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    if (shape->rank < 2 || shape->dim[shape->rank - 1] != shape->dim[shape->rank - 2])
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' is %s, no square matrices",
                        TMK_SHAPE_TEXT(shape));
    return TMK_OK;
}

static enum tmk_status infer_det(struct tmk_infer *infer) {
    TMK_TRY(want_square(infer));
    struct tmk_shape shape = infer->in[0]->shape;
    shape.rank -= 2;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* The row from k on with the largest element in column k. */
static size_t find_pivot(size_t n, const double *m, size_t k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; i++)
        if (fabs(m[i * n + k]) > fabs(m[pivot * n + k]))
            pivot = i;
    return pivot;
}

static void swap_rows(size_t n, double *m, size_t a, size_t b) {
    for (size_t j = 0; j < n && a != b; j++) {
        const double other = m[a * n + j];
        m[a * n + j] = m[b * n + j];
        m[b * n + j] = other;
    }
}

/* Overwrites m. */
static double det_in_place(size_t n, double *m) {
    double product = 1;
    for (size_t k = 0; k < n; k++) {
        const size_t pivot = find_pivot(n, m, k);
        if (m[pivot * n + k] == 0)
            return 0;
        swap_rows(n, m, k, pivot);
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

/* ---- Inverse ---- */

static enum tmk_status infer_inverse(struct tmk_infer *infer) {
    TMK_TRY(want_square(infer));
    return tmk_infer_same(infer);
}

/* Overwrites m. A singular matrix gives infinities or NaN. */
static void invert_matrix(size_t n, double *m, double *inverse) {
    for (size_t i = 0; i < n * n; i++)
        inverse[i] = i / n == i % n;
    for (size_t k = 0; k < n; k++) {
        const size_t pivot = find_pivot(n, m, k);
        swap_rows(n, m, k, pivot);
        swap_rows(n, inverse, k, pivot);
        const double divisor = m[k * n + k];
        for (size_t j = 0; j < n; j++) {
            m[k * n + j] /= divisor;
            inverse[k * n + j] /= divisor;
        }
        for (size_t i = 0; i < n; i++) {
            const double factor = i == k ? 0 : m[i * n + k];
            for (size_t j = 0; j < n && i != k; j++) {
                m[i * n + j] -= factor * m[k * n + j];
                inverse[i * n + j] -= factor * inverse[k * n + j];
            }
        }
    }
}

static enum tmk_status run_inverse(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    const size_t n = (size_t)x->shape.dim[x->shape.rank - 1], size = n * n,
                 count = tmk_tensor_count(x) / size;
    double *matrix = tmk_scratch(run, 2 * size, sizeof *matrix);
    TMK_TRY_ALLOC(matrix, run->diag);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < size; j++)
            matrix[j] = (double)((const float *)x->data)[i * size + j];
        invert_matrix(n, matrix, matrix + size);
        for (size_t j = 0; j < size; j++)
            ((float *)run->out[0]->data)[i * size + j] = (float)matrix[size + j];
    }
    return TMK_OK;
}

/* ---- CDist ---- */

static enum tmk_status infer_distances(struct tmk_infer *infer) {
    const struct tmk_shape *a = &infer->in[0]->shape, *b = &infer->in[1]->shape;
    const char *metric = tmk_node_string(infer->node, "metric", "sqeuclidean");
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "A", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_FLOAT32, "B", infer->diag));
    if (strcmp(metric, "euclidean") != 0 && strcmp(metric, "sqeuclidean") != 0)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "metric '%s' is not supported; euclidean and sqeuclidean are", metric);
    if (a->rank != 2 || b->rank != 2 || a->dim[1] != b->dim[1])
        return tmk_fail(infer->diag, TMK_SHAPE, "inputs 'A' and 'B' are no rows of one length");
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &(struct tmk_shape){2, {a->dim[0], b->dim[0]}});
}

static enum tmk_status run_distances(struct tmk_run *run) {
    const size_t rows = (size_t)run->in[0]->shape.dim[0],
                 columns = (size_t)run->in[1]->shape.dim[0], n = (size_t)run->in[0]->shape.dim[1];
    const bool squared =
        strcmp(tmk_node_string(run->node, "metric", "sqeuclidean"), "sqeuclidean") == 0;
    const float *a = run->in[0]->data, *b = run->in[1]->data;
    float *y = run->out[0]->data;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++) {
                const double apart = (double)a[i * n + k] - (double)b[j * n + k];
                sum += apart * apart;
            }
            y[i * columns + j] = (float)(squared ? sum : sqrt(sum));
        }
    return TMK_OK;
}

static double distances_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                             const struct tmk_tensor *out) {
    (void)node;
    return tmk_cost_count(out) * tmk_cost_dim(in[0], -1);
}

const struct tmk_op tmk_ops_det[] = {
    {TMK_OP_ONNX("Det", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .infer = infer_det,
     .run = run_det, .cost = det_cost},
    {TMK_OP_CONTRIB("Inverse"), TMK_OP_COUNTS(1, 1, 1, 1), .infer = infer_inverse,
     .run = run_inverse, .cost = det_cost},
    {TMK_OP_CONTRIB("CDist"), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = "metric:string",
     .infer = infer_distances, .run = run_distances, .cost = distances_cost},
    {NULL},
};
