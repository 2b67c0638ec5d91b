/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm. Integers wrap around, as two's complement does. */
#include <math.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/gemm.h"
#include "ops/kernel.h"
#include "ops/matmul.h"
#include "ops/rows.h"

enum tmk_status tmk_matmul_shape(const struct tmk_shape *a, const struct tmk_shape *b,
                                 struct tmk_matmul *out, struct tmk_shape *y,
                                 struct tmk_diag *diag) {
    struct tmk_shape as = *a, bs = *b, batch_a, batch_b;
    char at[128], bt[128];
    if (as.rank < 1 || bs.rank < 1)
        return tmk_fail(diag, TMK_SHAPE, "a scalar is no matrix: A is %s, B is %s",
                        tmk_shape_text(a, at, sizeof at), tmk_shape_text(b, bt, sizeof bt));
    if (as.rank == 1)
        as = (struct tmk_shape){2, {1, a->dim[0]}};
    if (bs.rank == 1)
        bs = (struct tmk_shape){2, {b->dim[0], 1}};
    if (as.dim[as.rank - 1] != bs.dim[bs.rank - 2])
        return tmk_fail(diag, TMK_SHAPE, "the inner dimensions of A %s and B %s differ",
                        tmk_shape_text(a, at, sizeof at), tmk_shape_text(b, bt, sizeof bt));
    struct tmk_matmul matmul = {.m = (size_t)as.dim[as.rank - 2],
                                .k = (size_t)as.dim[as.rank - 1],
                                .n = (size_t)bs.dim[bs.rank - 1]};
    batch_a = as;
    batch_b = bs;
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    TMK_TRY(tmk_broadcast(&batch_a, &batch_b, &matmul.batch, diag));
    tmk_broadcast_strides(&batch_a, &matmul.batch, matmul.a_step);
    tmk_broadcast_strides(&batch_b, &matmul.batch, matmul.b_step);
    struct tmk_shape shape = matmul.batch;
    if (a->rank > 1)
        shape.dim[shape.rank++] = (int64_t)matmul.m;
    if (b->rank > 1)
        shape.dim[shape.rank++] = (int64_t)matmul.n;
    *out = matmul;
    *y = shape;
    return TMK_OK;
}

size_t tmk_matmul_count(const struct tmk_matmul *matmul) {
    return tmk_shape_product(&matmul->batch, 0, matmul->batch.rank);
}

void tmk_matmul_at(const struct tmk_matmul *matmul, size_t batch, size_t *a, size_t *b) {
    *a = *b = 0;
    for (int32_t i = matmul->batch.rank - 1; i >= 0; i--) {
        size_t dim = (size_t)matmul->batch.dim[i];
        *a += batch % dim * (size_t)matmul->a_step[i];
        *b += batch % dim * (size_t)matmul->b_step[i];
        batch /= dim;
    }
}

/* c += a * b, everything row-major but for the steps given; unsigned, so that overflow wraps. */
#define TMK_INTEGER_PRODUCT(type)                                                                  \
    static void product_##type(size_t m, size_t n, size_t k, const type *a, size_t a_row,          \
                               size_t a_depth, const type *b, size_t b_depth, size_t b_column,     \
                               type *c) {                                                          \
        for (size_t i = 0; i < m; i++)                                                             \
            for (size_t l = 0; l < k; l++) {                                                       \
                type left = a[i * a_row + l * a_depth];                                            \
                const type *right = b + l * b_depth;                                               \
                for (size_t j = 0; j < n; j++)                                                     \
                    c[i * n + j] += left * right[j * b_column];                                    \
            }                                                                                      \
    }
TMK_INTEGER_PRODUCT(uint32_t)
TMK_INTEGER_PRODUCT(uint64_t)

/* One product of any element type that infer has let through; g.a, g.b and g.c are not looked at.
 */
static void multiply_matrices(enum tmk_dtype dtype, struct tmk_gemm g, const void *a, const void *b,
                              void *c, float *panel) {
    size_t bytes = g.m * g.n * tmk_dtype_size(dtype);
    if (dtype == TMK_FLOAT32) {
        g.a = a;
        g.b = b;
        g.c = c;
        tmk_gemm(&g, panel);
        return;
    }
    if (bytes)
        memset(c, 0, bytes);
    if (tmk_dtype_size(dtype) == 4)
        product_uint32_t(g.m, g.n, g.k, a, g.a_row, g.a_depth, b, g.b_depth, g.b_column, c);
    else
        product_uint64_t(g.m, g.n, g.k, a, g.a_row, g.a_depth, b, g.b_depth, g.b_column, c);
}

static enum tmk_status check_types(const struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1], *c = tmk_infer_in(infer, 2);
    enum tmk_dtype dtype = a->dtype;
    if (dtype != TMK_FLOAT32 && dtype != TMK_INT32 && dtype != TMK_INT64 && dtype != TMK_UINT32 &&
        dtype != TMK_UINT64)
        return tmk_fail(infer->diag, TMK_TYPE, "A is of type %s", tmk_dtype_name(dtype));
    TMK_TRY(tmk_want_dtype(b, dtype, "B", infer->diag));
    return c ? tmk_want_dtype(c, dtype, "C", infer->diag) : TMK_OK;
}

static enum tmk_status infer_matmul(struct tmk_infer *infer) {
    struct tmk_matmul matmul;
    struct tmk_shape shape;
    TMK_TRY(check_types(infer));
    TMK_TRY(
        tmk_matmul_shape(&infer->in[0]->shape, &infer->in[1]->shape, &matmul, &shape, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status run_matmul(struct tmk_run *run) {
    const struct tmk_tensor *a = run->in[0], *b = run->in[1];
    struct tmk_tensor *y = run->out[0];
    struct tmk_matmul matmul;
    struct tmk_shape shape;
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    TMK_TRY(tmk_matmul_shape(&a->shape, &b->shape, &matmul, &shape, run->diag));
    size_t count = tmk_matmul_count(&matmul);
    if (b->shape.rank <= 2) { /* one matrix for all batches of A: a single, higher product */
        matmul.m *= count;
        count = 1;
    }
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    if (!panel)
        return tmk_nomem(run->diag);
    size_t size = tmk_dtype_size(a->dtype);
    struct tmk_gemm gemm = {.m = matmul.m,
                            .n = matmul.n,
                            .k = matmul.k,
                            .a_row = matmul.k,
                            .a_depth = 1,
                            .b_depth = matmul.n,
                            .b_column = 1};
    for (size_t i = 0; i < count; i++) {
        size_t at = 0, bt = 0;
        if (count > 1)
            tmk_matmul_at(&matmul, i, &at, &bt);
        multiply_matrices(a->dtype, gemm, (const char *)a->data + at * matmul.m * matmul.k * size,
                          (const char *)b->data + bt * matmul.k * matmul.n * size,
                          (char *)y->data + i * matmul.m * matmul.n * size, panel);
    }
    return TMK_OK;
}

/* ---- Gemm ---- */

struct gemm_sizes {
    bool trans_a, trans_b;
    int64_t m, n, k;
};

static enum tmk_status gemm_sizes(const struct tmk_node *node, const struct tmk_tensor *a,
                                  const struct tmk_tensor *b, struct gemm_sizes *out,
                                  struct tmk_diag *diag) {
    char at[128], bt[128];
    if (a->shape.rank != 2 || b->shape.rank != 2)
        return tmk_fail(diag, TMK_SHAPE, "A is %s and B is %s; both must have rank 2",
                        tmk_shape_text(&a->shape, at, sizeof at),
                        tmk_shape_text(&b->shape, bt, sizeof bt));
    struct gemm_sizes s = {.trans_a = tmk_node_int(node, "transA", 0) != 0,
                           .trans_b = tmk_node_int(node, "transB", 0) != 0};
    s.m = a->shape.dim[s.trans_a];
    s.k = a->shape.dim[!s.trans_a];
    s.n = b->shape.dim[!s.trans_b];
    if (s.k != b->shape.dim[s.trans_b])
        return tmk_fail(diag, TMK_SHAPE, "the inner dimensions of A %s%s and B %s%s differ",
                        tmk_shape_text(&a->shape, at, sizeof at), s.trans_a ? " (transposed)" : "",
                        tmk_shape_text(&b->shape, bt, sizeof bt), s.trans_b ? " (transposed)" : "");
    *out = s;
    return TMK_OK;
}

enum tmk_status tmk_infer_gemm(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1], *c = tmk_infer_in(infer, 2);
    struct gemm_sizes s;
    TMK_TRY(check_types(infer));
    TMK_TRY(gemm_sizes(infer->node, a, b, &s, infer->diag));
    struct tmk_shape shape = {2, {s.m, s.n}}, both;
    char text[128];
    if (c) {
        TMK_TRY(tmk_broadcast(&c->shape, &shape, &both, infer->diag));
        bool stretched = infer->node->domain[0] || infer->node->row->since > 1 ||
                         tmk_node_int(infer->node, "broadcast", 0) != 0;
        if (!tmk_shape_equal(&both, &shape) || (!stretched && !tmk_shape_equal(&c->shape, &shape)))
            return tmk_fail(infer->diag, TMK_SHAPE, "C is %s, which does not fit [%lld,%lld]%s",
                            tmk_shape_text(&c->shape, text, sizeof text), (long long)s.m,
                            (long long)s.n, stretched ? "" : " without attribute 'broadcast'");
    }
    static const char *const factors[] = {"alpha", "beta"};
    for (size_t i = 0; i < TMK_COUNT(factors) && a->dtype != TMK_FLOAT32; i++) {
        float factor = tmk_node_float(infer->node, factors[i], 1);
        if (!(fabsf(factor) < 0x1p31f) || factor != rintf(factor))
            return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                            "attribute '%s' is %g, no whole number, on type %s", factors[i],
                            (double)factor, tmk_dtype_name(a->dtype));
    }
    return tmk_infer_set(infer, 0, a->dtype, &shape);
}

/* y = alpha * y + beta * c */
#define TMK_GEMM_FINISH(name, type, factor)                                                        \
    static void finish_##name(type *y, const type *c, const int64_t step[2], size_t m, size_t n,   \
                              float alpha, float beta) {                                           \
        type scale = (type)(factor)alpha, weight = (type)(factor)beta;                             \
        for (size_t i = 0; i < m; i++)                                                             \
            for (size_t j = 0; j < n; j++) {                                                       \
                type sum = y[i * n + j] * scale;                                                   \
                if (c)                                                                             \
                    sum += weight * c[i * (size_t)step[0] + j * (size_t)step[1]];                  \
                y[i * n + j] = sum;                                                                \
            }                                                                                      \
    }
TMK_GEMM_FINISH(float, float, float)
TMK_GEMM_FINISH(uint32_t, uint32_t, int64_t)
TMK_GEMM_FINISH(uint64_t, uint64_t, int64_t)

enum tmk_status tmk_run_gemm(struct tmk_run *run) {
    const struct tmk_tensor *a = run->in[0], *b = run->in[1], *c = tmk_run_in(run, 2);
    struct tmk_tensor *y = run->out[0];
    struct gemm_sizes s;
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    TMK_TRY(gemm_sizes(run->node, a, b, &s, run->diag));
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    if (!panel)
        return tmk_nomem(run->diag);
    size_t m = (size_t)s.m, n = (size_t)s.n, k = (size_t)s.k;
    struct tmk_gemm gemm = {.m = m,
                            .n = n,
                            .k = k,
                            .a_row = s.trans_a ? 1 : k,
                            .a_depth = s.trans_a ? m : 1,
                            .b_depth = s.trans_b ? 1 : n,
                            .b_column = s.trans_b ? k : 1};
    multiply_matrices(a->dtype, gemm, a->data, b->data, y->data, panel);
    float alpha = tmk_node_float(run->node, "alpha", 1),
          beta = tmk_node_float(run->node, "beta", 1);
    int64_t step[TMK_MAX_RANK] = {0};
    if (c)
        tmk_broadcast_strides(&c->shape, &y->shape, step);
    const void *addend = c && beta != 0 ? c->data : NULL;
    if (a->dtype == TMK_FLOAT32)
        finish_float(y->data, addend, step, m, n, alpha, beta);
    else if (tmk_dtype_size(a->dtype) == 4)
        finish_uint32_t(y->data, addend, step, m, n, alpha, beta);
    else
        finish_uint64_t(y->data, addend, step, m, n, alpha, beta);
    return TMK_OK;
}

#define TMK_GEMM_ATTRS "alpha:float beta:float transA:int transB:int"

const struct tmk_op tmk_ops_matmul[] = {
    {TMK_OP_ONNX("MatMul", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_LAST,
     .infer = infer_matmul, .run = run_matmul, .cost = tmk_cost_product},
    {TMK_OP_ONNX("Gemm", 1, 6), TMK_OP_COUNTS(3, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_GEMM_ATTRS " broadcast:int", .infer = tmk_infer_gemm, .run = tmk_run_gemm,
     .cost = tmk_cost_product},
    {TMK_OP_ONNX("Gemm", 7, 10), TMK_OP_COUNTS(3, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_GEMM_ATTRS, .infer = tmk_infer_gemm, .run = tmk_run_gemm,
     .cost = tmk_cost_product},
    {TMK_OP_ONNX("Gemm", 11, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_GEMM_ATTRS, .infer = tmk_infer_gemm, .run = tmk_run_gemm,
     .cost = tmk_cost_product},
    {NULL}};
