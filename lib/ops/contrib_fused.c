/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and matrix products with what follows them inside: FusedConv, FusedGemm,
 * FusedMatMul, and BiasSoftmax. */
#include <string.h>

#include "ops/activation.h"
#include "ops/contrib.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

TMK_ROW2(add_row, float, float, float, x + y)
TMK_ROW1(clip_row, float, float, x<p[0] ? p[0] : x> p[1] ? p[1] : x)
TMK_ROW1(scale_row, float, float, p[0] * x)

/* ---- FusedConv: Conv, plus Z, then an activation ---- */

/* The loop of attribute 'activation' (NULL: absent) and its parameters. */
static enum tmk_status conv_activation(const struct tmk_node *node, tmk_row1 *row, const float **p,
                                       struct tmk_diag *diag) {
    static const struct {
        const char *name;
        size_t params;
    } known[] = {{"Clip", 2}, {"HardSigmoid", 2}, {"LeakyRelu", 1},
                 {"Relu", 0}, {"Sigmoid", 0},     {"Tanh", 0}};
    const char *name = tmk_node_string(node, "activation", "");
    size_t n;
    *p = tmk_node_floats(node, "activation_params", &n);
    *row = NULL;
    if (!name[0])
        return TMK_OK;
    for (size_t i = 0; i < TMK_COUNT(known); i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        if (known[i].params && n != known[i].params)
            return tmk_fail(diag, TMK_RANGE,
                            "attribute 'activation_params' has %zu numbers; %s takes %zu", n, name,
                            known[i].params);
        *row = i ? tmk_activation_find(name)->row[TMK_FLOAT32] : clip_row;
        return TMK_OK;
    }
    return tmk_fail(diag, TMK_UNSUPPORTED, "activation '%s' is not known in a convolution", name);
}

static enum tmk_status infer_fused_conv(struct tmk_infer *infer) {
    const struct tmk_tensor *z = tmk_infer_in(infer, 3);
    tmk_row1 row;
    const float *p;
    TMK_TRY(tmk_infer_conv(infer));
    TMK_TRY(conv_activation(infer->node, &row, &p, infer->diag));
    if (!z)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(z, TMK_FLOAT32, "Z", infer->diag));
    if (!tmk_shape_equal(&z->shape, &infer->out[0].shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "Z is %s, but the output %s",
                        TMK_SHAPE_TEXT(&z->shape), TMK_SHAPE_TEXT(&infer->out[0].shape));
    return TMK_OK;
}

static enum tmk_status run_fused_conv(struct tmk_run *run) {
    const struct tmk_tensor *z = tmk_run_in(run, 3);
    struct tmk_tensor *y = tmk_run_out(run, 0);
    tmk_row1 row;
    const float *p;
    TMK_TRY(tmk_run_conv(run));
    TMK_TRY(conv_activation(run->node, &row, &p, run->diag));
    size_t n = tmk_tensor_count(y);
    if (z)
        add_row(n, y->data, true, z->data, true, y->data);
    if (row)
        row(n, y->data, y->data, p);
    return TMK_OK;
}

/* ---- FusedGemm: Gemm, then an activation ---- */

static enum tmk_status gemm_activation(const struct tmk_node *node, tmk_row1 *row,
                                       float p[TMK_UNARY_PARAMS], struct tmk_diag *diag) {
    const char *name = tmk_node_string(node, "activation", "");
    const struct tmk_unary *found = tmk_activation_find(name);
    *row = NULL;
    if (!name[0])
        return TMK_OK;
    if (!found)
        return tmk_fail(diag, TMK_UNSUPPORTED, "activation '%s' is not known", name);
    for (size_t i = 0; i < TMK_UNARY_PARAMS && found->param[i].name; i++) {
        const char *attr = strcmp(found->param[i].name, "alpha") == 0  ? "activation_alpha"
                           : strcmp(found->param[i].name, "beta") == 0 ? "activation_beta"
                                                                       : "activation_gamma";
        p[i] = tmk_node_float(node, attr, found->param[i].otherwise);
    }
    *row = found->row[TMK_FLOAT32];
    return TMK_OK;
}

static enum tmk_status infer_fused_gemm(struct tmk_infer *infer) {
    tmk_row1 row;
    float p[TMK_UNARY_PARAMS];
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "A", infer->diag));
    TMK_TRY(gemm_activation(infer->node, &row, p, infer->diag));
    return tmk_infer_gemm(infer);
}

static enum tmk_status run_fused_gemm(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    tmk_row1 row;
    float p[TMK_UNARY_PARAMS] = {0};
    TMK_TRY(tmk_run_gemm(run));
    TMK_TRY(gemm_activation(run->node, &row, p, run->diag));
    if (row)
        row(tmk_tensor_count(y), y->data, y->data, p);
    return TMK_OK;
}

/* ---- FusedMatMul: operands transposed, the product scaled ---- */

/* How an operand's matrices lie. transBatch* moves the first axis behind the batch axes, so that
 * [rows, batch..., columns] is seen as [batch..., rows, columns]; trans* swaps the last two. */
struct view {
    struct tmk_shape shape;     /* as MatMul sees it */
    size_t matrix, row, column; /* elements from one to the next */
};

static struct view view_of(const struct tmk_node *node, const struct tmk_shape *shape,
                           const char *trans, const char *trans_batch) {
    struct view v = {.shape = *shape, .row = 1, .column = 1};
    int32_t last = shape->rank - 1;
    if (last < 1)
        return v;
    v.row = (size_t)shape->dim[last];
    v.matrix = tmk_shape_product(shape, last - 1, last + 1);
    if (tmk_node_int(node, trans_batch, 0)) {
        v.matrix = v.row;
        v.row = tmk_shape_product(shape, 1, last + 1);
        for (int32_t i = 0; i < last - 1; i++)
            v.shape.dim[i] = shape->dim[i + 1];
        v.shape.dim[last - 1] = shape->dim[0];
    }
    if (tmk_node_int(node, trans, 0)) {
        int64_t rows = v.shape.dim[last - 1];
        v.shape.dim[last - 1] = v.shape.dim[last];
        v.shape.dim[last] = rows;
        v.column = v.row;
        v.row = 1;
    }
    return v;
}

static enum tmk_status infer_fused_matmul(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1];
    struct tmk_matmul matmul;
    struct tmk_shape shape;
    size_t count;
    TMK_TRY(tmk_want_dtype(a, TMK_FLOAT32, "A", infer->diag));
    TMK_TRY(tmk_want_dtype(b, TMK_FLOAT32, "B", infer->diag));
    if (!tmk_shape_count(&a->shape, &count) || !tmk_shape_count(&b->shape, &count))
        return tmk_fail(infer->diag, TMK_RANGE, "a shape is too large");
    struct view left = view_of(infer->node, &a->shape, "transA", "transBatchA"),
                right = view_of(infer->node, &b->shape, "transB", "transBatchB");
    TMK_TRY(tmk_matmul_shape(&left.shape, &right.shape, &matmul, &shape, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static enum tmk_status run_fused_matmul(struct tmk_run *run) {
    const struct tmk_tensor *a = run->in[0], *b = run->in[1];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct tmk_matmul matmul;
    struct tmk_shape shape;
    struct view left = view_of(run->node, &a->shape, "transA", "transBatchA"),
                right = view_of(run->node, &b->shape, "transB", "transBatchB");
    TMK_TRY(tmk_matmul_shape(&left.shape, &right.shape, &matmul, &shape, run->diag));
    size_t count = tmk_matmul_count(&matmul);
    if (b->shape.rank <= 2 && left.column == 1 && left.matrix == matmul.m * left.row) {
        matmul.m *= count; /* one matrix for all batches of A: a single, higher product */
        count = 1;
    }
    float *panel = run->scratch(run->context, TMK_GEMM_PANEL);
    TMK_TRY_ALLOC(panel, run->diag);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0, bt = 0;
        if (count > 1)
            tmk_matmul_at(&matmul, i, &at, &bt);
        struct tmk_gemm gemm = {.m = matmul.m,
                                .n = matmul.n,
                                .k = matmul.k,
                                .a = (const float *)a->data + at * left.matrix,
                                .b = (const float *)b->data + bt * right.matrix,
                                .a_row = left.row,
                                .a_depth = left.column,
                                .b_depth = right.row,
                                .b_column = right.column,
                                .c = (float *)y->data + i * matmul.m * matmul.n};
        tmk_gemm(&gemm, panel);
    }
    float alpha = tmk_node_float(run->node, "alpha", 1);
    if (alpha != 1)
        scale_row(tmk_tensor_count(y), y->data, y->data, &alpha);
    return TMK_OK;
}

/* ---- BiasSoftmax: softmax over everything from an axis on, of the sum of two tensors ---- */

/* The bias broadcasts to the data, one way or another: attribute 'is_inner_broadcast' states which,
 * and so do the shapes. */
static enum tmk_status infer_bias_softmax(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *bias = infer->in[1];
    struct tmk_shape both;
    int32_t axis;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "data", infer->diag));
    TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "bias", infer->diag));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", 1), x->shape.rank, &axis, infer->diag));
    TMK_TRY(tmk_broadcast(&x->shape, &bias->shape, &both, infer->diag));
    if (!tmk_shape_equal(&both, &x->shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "the bias is %s, which does not broadcast to %s",
                        TMK_SHAPE_TEXT(&bias->shape), TMK_SHAPE_TEXT(&x->shape));
    return tmk_infer_same(infer);
}

static enum tmk_status run_bias_softmax(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *bias = run->in[1];
    const struct tmk_shape *shape = &x->shape;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int32_t axis;
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", 1), shape->rank, &axis, run->diag));
    tmk_walk2(add_row, x, shape, bias, &bias->shape, y);
    struct tmk_extents e = {tmk_shape_product(shape, 0, axis),
                            tmk_shape_product(shape, axis, shape->rank), 1};
    return tmk_softmax(run, &e, y->data, y->data);
}

const struct tmk_op tmk_ops_contrib_fused[] = {
    {TMK_OP_CONTRIB("FusedConv"), TMK_OP_COUNTS(2, 4, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_CONV_ATTRS " activation:string activation_params:floats",
     .infer = infer_fused_conv, .run = run_fused_conv, .cost = tmk_cost_conv},
    {TMK_OP_CONTRIB("FusedGemm"), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "activation:string activation_alpha:float activation_beta:float "
              "activation_gamma:float alpha:float beta:float transA:int transB:int",
     .infer = infer_fused_gemm, .run = run_fused_gemm, .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("FusedMatMul"), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "alpha:float transA:int transB:int transBatchA:int transBatchB:int",
     .infer = infer_fused_matmul, .run = run_fused_matmul, .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("TransposeMatMul"), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "alpha:float transA:int transB:int", .infer = infer_fused_matmul,
     .run = run_fused_matmul, .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("BiasSoftmax"), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = "axis:int is_inner_broadcast:int!", .infer = infer_bias_softmax,
     .run = run_bias_softmax},
    {NULL}};
