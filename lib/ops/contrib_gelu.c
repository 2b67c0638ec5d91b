/* SPDX-License-Identifier: Apache-2.0 */
/* Gelu and its approximations, with a bias inside: Gelu, BiasGelu, FastGelu, QuickGelu. */
#include "ops/activation.h"
#include "ops/contrib.h"
#include "ops/rows.h"
#include "ops/vmath.h"

static void quick_row(size_t n, const void *x, void *y, const float *p) {
    tmk_vswish(x, p[0], y, n);
}
static const struct tmk_unary quick_gelu = {.row = {[TMK_FLOAT32] = quick_row},
                                            .param = {{"alpha", 1.702f}}};
TMK_ROW2(add_row, float, float, float, x + y)

/* Input 1 is a bias for the last axis, or absent. */
static enum tmk_status infer_biased(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *bias = tmk_infer_in(infer, 1);
    char text[256], other[256];
    TMK_TRY(tmk_infer_unary_as(infer, &tmk_gelu_exact));
    if (!bias)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "the bias", infer->diag));
    if (x->shape.rank < 1 || bias->shape.rank != 1 ||
        bias->shape.dim[0] != x->shape.dim[x->shape.rank - 1])
        return tmk_fail(infer->diag, TMK_SHAPE, "the bias is %s, which is not the last axis of %s",
                        tmk_shape_text(&bias->shape, text, sizeof text),
                        tmk_shape_text(&x->shape, other, sizeof other));
    return TMK_OK;
}

static enum tmk_status run_biased(struct tmk_run *run) {
    const struct tmk_unary *op = run->node->row->table;
    const struct tmk_tensor *x = run->in[0], *bias = tmk_run_in(run, 1);
    struct tmk_tensor *y = tmk_run_out(run, 0);
    if (!bias || !y)
        return tmk_run_unary(run);
    tmk_walk2(add_row, x, &x->shape, bias, &bias->shape, y);
    op->row[TMK_FLOAT32](tmk_tensor_count(y), y->data, y->data, NULL);
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_gelu[] = {
    {TMK_OP_CONTRIB("Gelu"), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &tmk_gelu_exact, .infer = tmk_infer_unary,
     .run = tmk_run_unary},
    {TMK_OP_CONTRIB("BiasGelu"), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &tmk_gelu_exact, .infer = infer_biased,
     .run = run_biased},
    {TMK_OP_CONTRIB("FastGelu"), TMK_OP_COUNTS(1, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &tmk_gelu_tanh, .infer = infer_biased,
     .run = run_biased},
    {TMK_OP_CONTRIB("QuickGelu"), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "alpha:float", .table = &quick_gelu,
     .infer = tmk_infer_unary, .run = tmk_run_unary},
    {NULL}};
