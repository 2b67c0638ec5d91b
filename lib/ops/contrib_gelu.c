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

static enum tmk_status infer_gelu(struct tmk_infer *infer) {
    return tmk_infer_unary(infer, &tmk_gelu_exact);
}

static enum tmk_status run_gelu(struct tmk_run *run) {
    return tmk_run_unary(run, &tmk_gelu_exact);
}

static enum tmk_status infer_quick(struct tmk_infer *infer) {
    return tmk_infer_unary(infer, &quick_gelu);
}

static enum tmk_status run_quick(struct tmk_run *run) {
    return tmk_run_unary(run, &quick_gelu);
}

/* Input 1 is a bias for the last axis, or absent. */
static enum tmk_status infer_biased(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *bias = tmk_infer_in(infer, 1);
    char text[256], other[256];
    TMK_TRY(tmk_infer_unary(infer, &tmk_gelu_exact));
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

static enum tmk_status run_biased(struct tmk_run *run, const struct tmk_unary *op) {
    const struct tmk_tensor *x = run->in[0], *bias = tmk_run_in(run, 1);
    struct tmk_tensor *y = tmk_run_out(run, 0);
    if (!bias || !y)
        return tmk_run_unary(run, op);
    tmk_walk2(add_row, x, &x->shape, bias, &bias->shape, y);
    op->row[TMK_FLOAT32](tmk_tensor_count(y), y->data, y->data, NULL);
    return TMK_OK;
}

static enum tmk_status run_bias_gelu(struct tmk_run *run) {
    return run_biased(run, &tmk_gelu_exact);
}

static enum tmk_status run_fast_gelu(struct tmk_run *run) {
    return run_biased(run, &tmk_gelu_tanh);
}

static const struct tmk_attr_rule quick_attrs[] = {{"alpha", TMK_ATTR_FLOAT, false}, {NULL}};

TMK_CONTRIB_ROW(Gelu, 1, 1, 1, TMK_OP_PURE | TMK_OP_INPLACE, TMK_CHANNEL_INHERIT, tmk_attrs_none,
                infer_gelu, run_gelu,
                "  input %x : f32[2,3,4]\n"
                "  %y = com.microsoft::Gelu(%x)\n")
TMK_CONTRIB_ROW(BiasGelu, 2, 2, 1, TMK_OP_PURE | TMK_OP_INPLACE, TMK_CHANNEL_INHERIT,
                tmk_attrs_none, infer_biased, run_bias_gelu,
                "  input %x : f32[2,3,4]\n"
                "  input %b : f32[4]\n"
                "  %y = com.microsoft::BiasGelu(%x, %b)\n")
TMK_CONTRIB_ROW(FastGelu, 1, 2, 1, TMK_OP_PURE | TMK_OP_INPLACE, TMK_CHANNEL_INHERIT,
                tmk_attrs_none, infer_biased, run_fast_gelu,
                "  input %x : f32[2,3,4]\n"
                "  input %b : f32[4]\n"
                "  %y = com.microsoft::FastGelu(%x, %b)\n")
TMK_CONTRIB_ROW(QuickGelu, 1, 1, 1, TMK_OP_PURE | TMK_OP_INPLACE, TMK_CHANNEL_INHERIT, quick_attrs,
                infer_quick, run_quick,
                "  input %x : f32[2,3,4]\n"
                "  %y = com.microsoft::QuickGelu(%x) {alpha=1.5f}\n")
