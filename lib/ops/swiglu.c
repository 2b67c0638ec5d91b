/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU: y = a / (1 + e^(-alpha a)) * b, shapes alike. */
#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/vmath.h"

static enum tmk_status infer_swiglu(struct tmk_infer *infer) {
    char s[128], t[128];
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1];
    TMK_TRY(tmk_want_dtype(a, TMK_FLOAT32, "input 'A'", infer->diag));
    TMK_TRY(tmk_want_dtype(b, TMK_FLOAT32, "input 'B'", infer->diag));
    if (!tmk_shape_equal(&a->shape, &b->shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "inputs of shapes %s and %s are not alike",
                        tmk_shape_text(&a->shape, s, sizeof s),
                        tmk_shape_text(&b->shape, t, sizeof t));
    return tmk_infer_same(infer);
}

static enum tmk_status run_swiglu(struct tmk_run *run) {
    const float *a = run->in[0]->data, *b = run->in[1]->data;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    float alpha = tmk_node_float(run->node, "alpha", 1), swish[256];
    float *y = out ? out->data : NULL;
    size_t n = out ? tmk_tensor_count(out) : 0;
    for (size_t i = 0; i < n; i += TMK_COUNT(swish)) {
        size_t m = n - i < TMK_COUNT(swish) ? n - i : TMK_COUNT(swish);
        tmk_vswish(a + i, alpha, swish, m);
        for (size_t j = 0; j < m; j++)
            y[i + j] = swish[j] * b[i + j];
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_swiglu[] = {
    {TMK_OP_ONNX("SwiGLU", 28, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "alpha:float", .infer = infer_swiglu,
     .run = run_swiglu},
    {NULL},
};
