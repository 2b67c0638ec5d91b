/* SPDX-License-Identifier: Apache-2.0 */
/* MatMulInteger and QLinearMatMul: 8-bit matrices, 32-bit sums. */
#include "ops/matmul_integer.h"
#include "ops/cost.h"

#include "ops/kernel.h"
#include "ops/quantized.h"
#include "ops/rows.h"

enum tmk_status tmk_grain_find(const struct tmk_tensor *part, const struct tmk_shape *operand,
                               int32_t summed, const char *what, enum tmk_grain *out,
                               struct tmk_diag *diag) {
    char text[128], other[128];
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
                    tmk_shape_text(&part->shape, text, sizeof text),
                    tmk_shape_text(operand, other, sizeof other));
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
    tmk_quantized_product(m, n, k, left, k, right, n, sums, n, false);
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
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
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
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    TMK_TRY(find_qlinear(run->in, &o, &scales, run->diag));
    TMK_TRY(tmk_integer_scratch(run, &o.matmul, &left, &right));
    size_t m = o.matmul.m, n = o.matmul.n;
    int32_t *sums = run->scratch(run->context, m * n * sizeof *sums);
    if (!sums)
        return tmk_nomem(run->diag);
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

const struct tmk_op tmk_ops_matmul_integer[] = {
    {TMK_OP_ONNX("MatMulInteger", 10, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_matmul_integer, .run = run_matmul_integer,
     .cost = tmk_cost_product},
    {TMK_OP_ONNX("QLinearMatMul", 10, INT32_MAX), TMK_OP_COUNTS(8, 8, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_qlinear_matmul, .run = run_qlinear_matmul,
     .cost = tmk_cost_product},
    {NULL}};
