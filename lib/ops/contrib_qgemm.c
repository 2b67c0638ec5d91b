/* SPDX-License-Identifier: Apache-2.0 */
/* QGemm of ONNX Runtime's own domain: Gemm of 8-bit matrices, plus 32-bit C, ending in 8 bits or,
 * without a scale for the result, in float. */
#include "ops/contrib.h"
#include "ops/contrib_q8.h"
#include "ops/rows.h"

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };

struct gemm {
    size_t m, n, k;
    size_t a_row, a_depth, b_depth, b_column; /* elements from one to the next */
    size_t c_row, c_column;
};

static enum tmk_status one_or_a_column(const struct tmk_tensor *tensor, size_t n, const char *what,
                                       struct tmk_diag *diag) {
    char text[128];
    const size_t count = tensor ? tmk_tensor_count(tensor) : 1;
    if (count == 1 || (tensor->shape.rank == 1 && count == n))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, neither one number nor one for each of %zu columns",
                    what, tmk_shape_text(&tensor->shape, text, sizeof text), n);
}

/* C broadcasts to [m, n]. */
static enum tmk_status find_addend(const struct tmk_tensor *c, struct gemm *g,
                                   struct tmk_diag *diag) {
    char text[128];
    if (!c)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(c, TMK_INT32, "C", diag));
    const int32_t rank = c->shape.rank;
    const int64_t columns = rank > 0 ? c->shape.dim[rank - 1] : 1;
    const int64_t rows = rank > 1 ? c->shape.dim[rank - 2] : 1;
    if (rank > 2 || (columns != 1 && columns != (int64_t)g->n) ||
        (rows != 1 && rows != (int64_t)g->m))
        return tmk_fail(diag, TMK_SHAPE, "C is %s, which does not broadcast to [%zu,%zu]",
                        tmk_shape_text(&c->shape, text, sizeof text), g->m, g->n);
    g->c_column = columns > 1;
    g->c_row = rows > 1 ? (size_t)columns : 0;
    return TMK_OK;
}

static enum tmk_status find_operands(const struct tmk_node *node,
                                     const struct tmk_tensor *const *in, uint32_t n_in,
                                     struct gemm *out, struct tmk_diag *diag) {
    const struct tmk_shape *a = &in[A]->shape, *b = &in[B]->shape;
    const bool ta = tmk_node_int(node, "transA", 0) != 0, tb = tmk_node_int(node, "transB", 0) != 0;
    char left[128], right[128];
    if (a->rank != 2 || b->rank != 2 || a->dim[ta ? 0 : 1] != b->dim[tb ? 1 : 0])
        return tmk_fail(diag, TMK_SHAPE, "A is %s and B is %s, which have no product",
                        tmk_shape_text(a, left, sizeof left),
                        tmk_shape_text(b, right, sizeof right));
    struct gemm g = {.m = (size_t)a->dim[ta ? 1 : 0],
                     .k = (size_t)a->dim[ta ? 0 : 1],
                     .n = (size_t)b->dim[tb ? 0 : 1]};
    g.a_row = ta ? 1 : g.k;
    g.a_depth = ta ? g.m : 1;
    g.b_depth = tb ? 1 : g.n;
    g.b_column = tb ? g.k : 1;
    TMK_TRY(one_or_a_column(in[B_SCALE], g.n, "b_scale", diag));
    TMK_TRY(one_or_a_column(n_in > B_ZERO ? in[B_ZERO] : NULL, g.n, "b_zero_point", diag));
    TMK_TRY(find_addend(n_in > C ? in[C] : NULL, &g, diag));
    *out = g;
    return TMK_OK;
}

static enum tmk_status infer_gemm(struct tmk_infer *infer) {
    struct gemm g;
    const struct tmk_tensor *b_zero = tmk_infer_in(infer, B_ZERO);
    TMK_TRY(tmk_q8_check(infer, A, "A"));
    TMK_TRY(tmk_contrib_need(infer, B, "B"));
    TMK_TRY(tmk_contrib_need(infer, B_SCALE, "b_scale"));
    TMK_TRY(tmk_want_quantized(infer->in[B], b_zero, "B", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[B_SCALE], TMK_FLOAT32, "b_scale", infer->diag));
    TMK_TRY(find_operands(infer->node, infer->in, infer->n_in, &g, infer->diag));
    enum tmk_dtype dtype = TMK_FLOAT32;
    if (tmk_infer_in(infer, Y_SCALE)) {
        const struct tmk_tensor *y_zero = tmk_infer_in(infer, Y_ZERO);
        dtype = y_zero ? y_zero->dtype : infer->in[A]->dtype;
        TMK_TRY(tmk_q8_check_result(infer, Y_SCALE, dtype, "Y"));
        if (dtype != TMK_INT8 && dtype != TMK_UINT8)
            return tmk_fail(infer->diag, TMK_TYPE, "y_zero_point is of type %s, not int8 or uint8",
                            tmk_dtype_name(dtype));
    }
    const struct tmk_shape shape = {.rank = 2, .dim = {(int64_t)g.m, (int64_t)g.n}};
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static int32_t sum_of(const struct tmk_run *run, const struct gemm *g, size_t i, size_t j,
                      int32_t a_zero, int32_t b_zero) {
    uint32_t sum = 0;
    for (size_t k = 0; k < g->k; k++) {
        const int32_t a = tmk_quantized_at(run->in[A], i * g->a_row + k * g->a_depth) - a_zero;
        const int32_t b = tmk_quantized_at(run->in[B], k * g->b_depth + j * g->b_column) - b_zero;
        sum += (uint32_t)(a * b);
    }
    const struct tmk_tensor *c = tmk_run_in(run, C);
    if (c)
        sum += (uint32_t)((const int32_t *)c->data)[i * g->c_row + j * g->c_column];
    return (int32_t)sum;
}

static enum tmk_status run_gemm(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct gemm g;
    if (!y)
        return TMK_OK;
    TMK_TRY(find_operands(run->node, run->in, run->n_in, &g, run->diag));
    const struct tmk_tensor *b_scale = run->in[B_SCALE], *b_zero = tmk_run_in(run, B_ZERO);
    const size_t scales = tmk_tensor_count(b_scale), zeros = b_zero ? tmk_tensor_count(b_zero) : 1;
    const struct tmk_q8 a = tmk_q8_of(run, A_SCALE);
    const bool ends_in_float = y->dtype == TMK_FLOAT32;
    const struct tmk_q8 result = ends_in_float ? (struct tmk_q8){1, 0} : tmk_q8_of(run, Y_SCALE);
    const float alpha = tmk_node_float(run->node, "alpha", 1);
    for (size_t i = 0; i < g.m; i++)
        for (size_t j = 0; j < g.n; j++) {
            const int32_t zero = tmk_quantized_at(b_zero, zeros > 1 ? j : 0);
            const int32_t sum = sum_of(run, &g, i, j, a.zero, zero);
            const float scale =
                alpha * a.scale * ((const float *)b_scale->data)[scales > 1 ? j : 0] / result.scale;
            if (ends_in_float)
                ((float *)y->data)[i * g.n + j] = (float)sum * scale;
            else
                tmk_quantized_put(y, i * g.n + j, sum, scale, result.zero);
        }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_qgemm[] = {
    {TMK_OP_CONTRIB("QGemm"), TMK_OP_COUNTS(6, 9, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "alpha:float transA:int transB:int", .infer = infer_gemm, .run = run_gemm,
     .cost = tmk_cost_product},
    {NULL}};
