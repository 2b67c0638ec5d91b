/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of floats and of 8-bit integers. */
#include "ops/matmul.h"

#include <math.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/quantized.h"

static void pack_panel(const struct tmk_gemm *gemm, size_t k0, size_t depth, size_t j0,
                       size_t columns, float *panel) {
    enum { LANES = TMK_VMATH_LANES };
    for (size_t j = 0; j < columns; j += LANES, panel += depth * LANES) {
        const size_t width = columns - j < LANES ? columns - j : LANES;
        const float *from = gemm->b + k0 * gemm->b_depth + (j0 + j) * gemm->b_column;
        if (width < LANES)
            memset(panel, 0, depth * LANES * sizeof *panel);
        if (gemm->b_depth == 1)
            tmk_vtranspose(from, gemm->b_column, panel, LANES, depth, width);
        else
            for (size_t k = 0; k < depth; k++)
                for (size_t l = 0; l < width; l++)
                    panel[k * LANES + l] = from[k * gemm->b_depth + l * gemm->b_column];
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
            tmk_vpanel(&(struct tmk_vpanel){.rows = gemm->m,
                                            .columns = columns,
                                            .depth = depth,
                                            .a = gemm->a + k * gemm->a_depth,
                                            .a_row = gemm->a_row,
                                            .a_depth = gemm->a_depth,
                                            .panel = panel,
                                            .c = gemm->c + j,
                                            .c_step = gemm->n,
                                            .add = k > 0});
        }
    }
}

/* MatMul and Gemm. Integers wrap around, as two's complement does. */

enum tmk_status tmk_matmul_shape(const struct tmk_shape *a, const struct tmk_shape *b,
                                 struct tmk_matmul *out, struct tmk_shape *y,
                                 struct tmk_diag *diag) {
    struct tmk_shape as = *a, bs = *b, batch_a, batch_b;
    if (as.rank < 1 || bs.rank < 1)
        return tmk_fail(diag, TMK_SHAPE, "a scalar is no matrix: A is %s, B is %s",
                        TMK_SHAPE_TEXT(a), TMK_SHAPE_TEXT(b));
    if (as.rank == 1)
        as = (struct tmk_shape){2, {1, a->dim[0]}};
    if (bs.rank == 1)
        bs = (struct tmk_shape){2, {b->dim[0], 1}};
    if (as.dim[as.rank - 1] != bs.dim[bs.rank - 2])
        return tmk_fail(diag, TMK_SHAPE, "the inner dimensions of A %s and B %s differ",
                        TMK_SHAPE_TEXT(a), TMK_SHAPE_TEXT(b));
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

/* One product of any element type that infer accepts; g.a, g.b and g.c are not looked at. */
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
    TMK_TRY(tmk_matmul_shape(&a->shape, &b->shape, &matmul, &shape, run->diag));
    size_t count = tmk_matmul_count(&matmul);
    if (b->shape.rank <= 2) { /* one matrix for all batches of A: a single, higher product */
        matmul.m *= count;
        count = 1;
    }
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    TMK_TRY_ALLOC(panel, run->diag);
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
    if (a->shape.rank != 2 || b->shape.rank != 2)
        return tmk_fail(diag, TMK_SHAPE, "A is %s and B is %s; both must have rank 2",
                        TMK_SHAPE_TEXT(&a->shape), TMK_SHAPE_TEXT(&b->shape));
    struct gemm_sizes s = {.trans_a = tmk_node_int(node, "transA", 0) != 0,
                           .trans_b = tmk_node_int(node, "transB", 0) != 0};
    s.m = a->shape.dim[s.trans_a];
    s.k = a->shape.dim[!s.trans_a];
    s.n = b->shape.dim[!s.trans_b];
    if (s.k != b->shape.dim[s.trans_b])
        return tmk_fail(diag, TMK_SHAPE, "the inner dimensions of A %s%s and B %s%s differ",
                        TMK_SHAPE_TEXT(&a->shape), s.trans_a ? " (transposed)" : "",
                        TMK_SHAPE_TEXT(&b->shape), s.trans_b ? " (transposed)" : "");
    *out = s;
    return TMK_OK;
}

enum tmk_status tmk_infer_gemm(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1], *c = tmk_infer_in(infer, 2);
    struct gemm_sizes s;
    TMK_TRY(check_types(infer));
    TMK_TRY(gemm_sizes(infer->node, a, b, &s, infer->diag));
    struct tmk_shape shape = {2, {s.m, s.n}}, both;
    if (c) {
        TMK_TRY(tmk_broadcast(&c->shape, &shape, &both, infer->diag));
        bool stretched = infer->node->domain[0] || infer->node->row->since > 1 ||
                         tmk_node_int(infer->node, "broadcast", 0) != 0;
        if (!tmk_shape_equal(&both, &shape) || (!stretched && !tmk_shape_equal(&c->shape, &shape)))
            return tmk_fail(infer->diag, TMK_SHAPE, "C is %s, which does not fit [%lld,%lld]%s",
                            TMK_SHAPE_TEXT(&c->shape), (long long)s.m, (long long)s.n,
                            stretched ? "" : " without attribute 'broadcast'");
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
    TMK_TRY(gemm_sizes(run->node, a, b, &s, run->diag));
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    TMK_TRY_ALLOC(panel, run->diag);
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

/* MatMulInteger and QLinearMatMul: 8-bit matrices, 32-bit sums. */

enum tmk_status tmk_grain_find(const struct tmk_tensor *part, const struct tmk_shape *operand,
                               int32_t summed, const char *what, enum tmk_grain *out,
                               struct tmk_diag *diag) {
    *out = TMK_GRAIN_TENSOR;
    if (!part || tmk_tensor_count(part) == 1)
        return TMK_OK;
    struct tmk_shape expected = *operand;
    int32_t lines = summed == operand->rank - 1 ? operand->rank - 2 : operand->rank - 1;
    if (operand->rank >= 2) {
        expected.dim[summed] = 1;
        *out = TMK_GRAIN_MATRIX_LINE;
        if (tmk_shape_equal(&part->shape, &expected))
            return TMK_OK;
        *out = TMK_GRAIN_LINE;
        if (part->shape.rank == 1 && part->shape.dim[0] == operand->dim[lines])
            return TMK_OK;
    }
    return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, which fits no operand of %s", what,
                    TMK_SHAPE_TEXT(&part->shape), TMK_SHAPE_TEXT(operand));
}

size_t tmk_grain_at(enum tmk_grain grain, size_t matrix, size_t lines, size_t line) {
    return grain == TMK_GRAIN_TENSOR ? 0 : grain == TMK_GRAIN_LINE ? line : matrix * lines + line;
}

enum tmk_status tmk_integer_find(const struct tmk_tensor *a, const struct tmk_tensor *a_zero,
                                 const struct tmk_tensor *b, const struct tmk_tensor *b_zero,
                                 struct tmk_integer_operands *out, struct tmk_diag *diag) {
    struct tmk_integer_operands o = {.a = a, .a_zero = a_zero, .b = b, .b_zero = b_zero};
    TMK_TRY(tmk_want_quantized(a, a_zero, "A", diag));
    TMK_TRY(tmk_want_quantized(b, b_zero, "B", diag));
    TMK_TRY(tmk_matmul_shape(&a->shape, &b->shape, &o.matmul, &o.shape, diag));
    TMK_TRY(tmk_grain_find(a_zero, &a->shape, a->shape.rank - 1, "a_zero_point", &o.a_grain, diag));
    TMK_TRY(tmk_grain_find(b_zero, &b->shape, b->shape.rank - 2, "b_zero_point", &o.b_grain, diag));
    *out = o;
    return TMK_OK;
}

void tmk_integer_product(const struct tmk_integer_operands *o, size_t at, size_t bt, int32_t *left,
                         int32_t *right, int32_t *sums) {
    size_t m = o->matmul.m, n = o->matmul.n, k = o->matmul.k;
    for (size_t i = 0; i < m; i++)
        tmk_quantized_widen(o->a, (at * m + i) * k, k,
                            tmk_quantized_at(o->a_zero, tmk_grain_at(o->a_grain, at, m, i)),
                            left + i * k);
    tmk_quantized_widen(o->b, bt * k * n, k * n, 0, right);
    for (size_t j = 0; j < n && o->b_zero; j++) {
        int32_t zero = tmk_quantized_at(o->b_zero, tmk_grain_at(o->b_grain, bt, n, j));
        for (size_t l = 0; zero && l < k; l++)
            right[l * n + j] -= zero;
    }
    tmk_vintegers(&(struct tmk_vintegers){m, n, k, left, right, k, n, sums, n, false});
}

enum tmk_status tmk_integer_scratch(struct tmk_run *run, const struct tmk_matmul *matmul,
                                    int32_t **left, int32_t **right) {
    *left = run->scratch(run->context, matmul->m * matmul->k * sizeof **left);
    *right = run->scratch(run->context, matmul->k * matmul->n * sizeof **right);
    return *left && *right ? TMK_OK : tmk_nomem(run->diag);
}

static enum tmk_status infer_matmul_integer(struct tmk_infer *infer) {
    struct tmk_integer_operands o;
    TMK_TRY(tmk_integer_find(infer->in[0], tmk_infer_in(infer, 2), infer->in[1],
                             tmk_infer_in(infer, 3), &o, infer->diag));
    return tmk_infer_set(infer, 0, TMK_INT32, &o.shape);
}

static enum tmk_status run_matmul_integer(struct tmk_run *run) {
    struct tmk_integer_operands o;
    struct tmk_tensor *y = run->out[0];
    int32_t *left, *right;
    TMK_TRY(tmk_integer_find(run->in[0], tmk_run_in(run, 2), run->in[1], tmk_run_in(run, 3), &o,
                             run->diag));
    TMK_TRY(tmk_integer_scratch(run, &o.matmul, &left, &right));
    for (size_t i = 0; i < tmk_matmul_count(&o.matmul); i++) {
        size_t at, bt;
        tmk_matmul_at(&o.matmul, i, &at, &bt);
        tmk_integer_product(&o, at, bt, left, right,
                            (int32_t *)y->data + i * o.matmul.m * o.matmul.n);
    }
    return TMK_OK;
}

struct scales {
    enum tmk_grain a, b;
};

/* Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. */
static enum tmk_status find_qlinear(const struct tmk_tensor *const *in,
                                    struct tmk_integer_operands *out, struct scales *scales,
                                    struct tmk_diag *diag) {
    TMK_TRY(tmk_integer_find(in[0], in[2], in[3], in[5], out, diag));
    TMK_TRY(tmk_want_dtype(in[1], TMK_FLOAT32, "a_scale", diag));
    TMK_TRY(tmk_want_dtype(in[4], TMK_FLOAT32, "b_scale", diag));
    const struct tmk_shape *a = &in[0]->shape, *b = &in[3]->shape;
    TMK_TRY(tmk_grain_find(in[1], a, a->rank - 1, "a_scale", &scales->a, diag));
    TMK_TRY(tmk_grain_find(in[4], b, b->rank - 2, "b_scale", &scales->b, diag));
    TMK_TRY(tmk_want_scalar(in[6], TMK_FLOAT32, "y_scale", diag));
    TMK_TRY(tmk_want_scalar(in[7], TMK_UNDEFINED, "y_zero_point", diag));
    return tmk_want_quantized(in[7], NULL, "y_zero_point", diag);
}

static enum tmk_status infer_qlinear_matmul(struct tmk_infer *infer) {
    struct tmk_integer_operands o;
    struct scales scales;
    TMK_TRY(find_qlinear(infer->in, &o, &scales, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[7]->dtype, &o.shape);
}

static enum tmk_status run_qlinear_matmul(struct tmk_run *run) {
    struct tmk_integer_operands o;
    struct scales scales;
    struct tmk_tensor *y = run->out[0];
    int32_t *left, *right;
    TMK_TRY(find_qlinear(run->in, &o, &scales, run->diag));
    TMK_TRY(tmk_integer_scratch(run, &o.matmul, &left, &right));
    size_t m = o.matmul.m, n = o.matmul.n;
    int32_t *sums = run->scratch(run->context, m * n * sizeof *sums);
    TMK_TRY_ALLOC(sums, run->diag);
    const float *a_scale = run->in[1]->data, *b_scale = run->in[4]->data,
                y_scale = *(const float *)run->in[6]->data;
    int32_t zero = tmk_quantized_at(run->in[7], 0);
    for (size_t i = 0; i < tmk_matmul_count(&o.matmul); i++) {
        size_t at, bt;
        tmk_matmul_at(&o.matmul, i, &at, &bt);
        tmk_integer_product(&o, at, bt, left, right, sums);
        for (size_t r = 0; r < m; r++)
            for (size_t j = 0; j < n; j++)
                tmk_quantized_put(y, (i * m + r) * n + j, sums[r * n + j],
                                  a_scale[tmk_grain_at(scales.a, at, m, r)] *
                                      b_scale[tmk_grain_at(scales.b, bt, n, j)] / y_scale,
                                  zero);
    }
    return TMK_OK;
}

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
    {TMK_OP_ONNX("MatMulInteger", 10, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_matmul_integer, .run = run_matmul_integer,
     .cost = tmk_cost_product},
    {TMK_OP_ONNX("QLinearMatMul", 10, INT32_MAX), TMK_OP_COUNTS(8, 8, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_qlinear_matmul, .run = run_qlinear_matmul,
     .cost = tmk_cost_product},
    {NULL}};
