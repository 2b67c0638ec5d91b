/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit products that end in float, and what goes with them in ONNX Runtime's own domain:
 * QuantizeLinear, DequantizeLinear, DynamicQuantizeMatMul, MatMulIntegerToFloat, QAttention. */
#include "ops/contrib.h"
#include "ops/contrib_project.h"
#include "ops/matmul_integer.h"
#include "ops/quantize.h"
#include "ops/quantized.h"
#include "ops/rows.h"

/* y = sums * a_scale * b_scale + bias */
struct scaled {
    struct tmk_integer_operands o;
    const struct tmk_tensor *a_scale, *b_scale, *bias; /* a_scale, bias: NULL or float32 */
    enum tmk_grain a_grain, b_grain;                   /* of the scales */
    float factor;                                      /* instead of a_scale */
};

/* The scales and the bias of operands that have been found. */
static enum tmk_status find_scales(const struct tmk_tensor *a_scale,
                                   const struct tmk_tensor *b_scale, const struct tmk_tensor *bias,
                                   struct scaled *out, struct tmk_diag *diag) {
    const struct tmk_shape *a = &out->o.a->shape, *b = &out->o.b->shape;
    char text[256];
    if (a_scale)
        TMK_TRY(tmk_want_dtype(a_scale, TMK_FLOAT32, "a_scale", diag));
    TMK_TRY(tmk_want_dtype(b_scale, TMK_FLOAT32, "b_scale", diag));
    TMK_TRY(tmk_grain_find(a_scale, a, a->rank - 1, "a_scale", &out->a_grain, diag));
    TMK_TRY(tmk_grain_find(b_scale, b, b->rank - 2, "b_scale", &out->b_grain, diag));
    if (bias) {
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "the bias", diag));
        if (bias->shape.rank != 1 || bias->shape.dim[0] != (int64_t)out->o.matmul.n)
            return tmk_fail(diag, TMK_SHAPE, "the bias is %s, not [%zu]",
                            tmk_shape_text(&bias->shape, text, sizeof text), out->o.matmul.n);
    }
    out->a_scale = a_scale;
    out->b_scale = b_scale;
    out->bias = bias;
    return TMK_OK;
}

/* y is not empty. */
static enum tmk_status multiply_scaled(struct tmk_run *run, const struct scaled *s, float *y) {
    size_t m = s->o.matmul.m, n = s->o.matmul.n;
    int32_t *left, *right;
    TMK_TRY(tmk_integer_scratch(run, &s->o.matmul, &left, &right));
    int32_t *sums = tmk_scratch(run, m * n, sizeof(int32_t));
    if (!sums)
        return tmk_nomem(run->diag);
    const float *a_scale = s->a_scale ? s->a_scale->data : NULL, *b_scale = s->b_scale->data,
                *bias = s->bias ? s->bias->data : NULL;
    for (size_t i = 0; i < tmk_matmul_count(&s->o.matmul); i++) {
        size_t at, bt;
        tmk_matmul_at(&s->o.matmul, i, &at, &bt);
        tmk_integer_product(&s->o, at, bt, left, right, sums);
        for (size_t r = 0; r < m; r++) {
            float row = a_scale ? a_scale[tmk_grain_at(s->a_grain, at, m, r)] : s->factor;
            for (size_t j = 0; j < n; j++)
                *y++ =
                    (float)sums[r * n + j] * (row * b_scale[tmk_grain_at(s->b_grain, bt, n, j)]) +
                    (bias ? bias[j] : 0);
        }
    }
    return TMK_OK;
}

/* ---- MatMulIntegerToFloat ---- */

/* In the order of the inputs. */
enum { TO_A, TO_B, TO_A_SCALE, TO_B_SCALE, TO_A_ZERO, TO_B_ZERO, TO_BIAS };

static enum tmk_status find_to_float(const struct tmk_tensor *const *in, uint32_t n,
                                     struct scaled *out, struct tmk_diag *diag) {
    struct scaled s = {0};
    TMK_TRY(tmk_integer_find(in[TO_A], n > TO_A_ZERO ? in[TO_A_ZERO] : NULL, in[TO_B],
                             n > TO_B_ZERO ? in[TO_B_ZERO] : NULL, &s.o, diag));
    TMK_TRY(
        find_scales(in[TO_A_SCALE], in[TO_B_SCALE], n > TO_BIAS ? in[TO_BIAS] : NULL, &s, diag));
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_to_float(struct tmk_infer *infer) {
    struct scaled s;
    TMK_TRY(find_to_float(infer->in, infer->n_in, &s, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &s.o.shape);
}

static enum tmk_status run_to_float(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct scaled s;
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    TMK_TRY(find_to_float(run->in, run->n_in, &s, run->diag));
    return multiply_scaled(run, &s, y->data);
}

/* ---- DynamicQuantizeMatMul: A is quantized to uint8 first ---- */

enum { DY_A, DY_B, DY_B_SCALE, DY_B_ZERO, DY_BIAS };

/* `a` is A quantized. */
static enum tmk_status find_dynamic(const struct tmk_tensor *a, const struct tmk_tensor *a_zero,
                                    const struct tmk_tensor *const *in, uint32_t n,
                                    struct scaled *out, struct tmk_diag *diag) {
    struct scaled s = {0};
    TMK_TRY(
        tmk_integer_find(a, a_zero, in[DY_B], n > DY_B_ZERO ? in[DY_B_ZERO] : NULL, &s.o, diag));
    TMK_TRY(find_scales(NULL, in[DY_B_SCALE], n > DY_BIAS ? in[DY_BIAS] : NULL, &s, diag));
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_dynamic(struct tmk_infer *infer) {
    struct scaled s;
    struct tmk_tensor a = {0};
    TMK_TRY(tmk_want_dtype(infer->in[DY_A], TMK_FLOAT32, "A", infer->diag));
    tmk_tensor_borrow(&a, TMK_UINT8, &infer->in[DY_A]->shape, NULL);
    TMK_TRY(find_dynamic(&a, NULL, infer->in, infer->n_in, &s, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &s.o.shape);
}

static enum tmk_status run_dynamic(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[DY_A];
    struct tmk_tensor *y = tmk_run_out(run, 0), a = {0}, a_zero = {0};
    struct scaled s;
    size_t n = tmk_tensor_count(x);
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    uint8_t *quantized = run->scratch(run->context, n + 1);
    if (!quantized)
        return tmk_nomem(run->diag);
    struct tmk_dynamic d = tmk_quantize_dynamic(n, x->data, quantized);
    uint8_t zero = (uint8_t)d.zero;
    tmk_tensor_borrow(&a, TMK_UINT8, &x->shape, quantized);
    tmk_tensor_borrow(&a_zero, TMK_UINT8, &(struct tmk_shape){0}, &zero);
    TMK_TRY(find_dynamic(&a, &a_zero, run->in, run->n_in, &s, run->diag));
    s.factor = d.scale;
    return multiply_scaled(run, &s, y->data);
}

/* ---- QAttention: Attention whose input and weights are 8-bit ---- */

enum { QA_X, QA_WEIGHTS, QA_BIAS, QA_X_SCALE, QA_SCALE, QA_MASK, QA_X_ZERO, QA_ZERO, QA_PAST };

static enum tmk_status find_attention(const struct tmk_node *node,
                                      const struct tmk_tensor *const *in, uint32_t n,
                                      struct scaled *scaled, struct tmk_project *project,
                                      struct tmk_diag *diag) {
    struct scaled s = {0};
    const struct tmk_tensor *x_zero = n > QA_X_ZERO ? in[QA_X_ZERO] : NULL;
    TMK_TRY(tmk_integer_find(in[QA_X], x_zero, in[QA_WEIGHTS], n > QA_ZERO ? in[QA_ZERO] : NULL,
                             &s.o, diag));
    TMK_TRY(tmk_want_scalar(in[QA_X_SCALE], TMK_FLOAT32, "input_scale", diag));
    TMK_TRY(tmk_want_scalar(x_zero, TMK_UNDEFINED, "input_zero_point", diag));
    TMK_TRY(find_scales(in[QA_X_SCALE], in[QA_SCALE], in[QA_BIAS], &s, diag));
    TMK_TRY(tmk_project_sizes(node, in[QA_X], in[QA_WEIGHTS], in[QA_BIAS],
                              n > QA_PAST ? in[QA_PAST] : NULL, project, diag));
    *scaled = s;
    return TMK_OK;
}

static enum tmk_status infer_attention(struct tmk_infer *infer) {
    struct scaled s;
    struct tmk_project p;
    TMK_TRY(find_attention(infer->node, infer->in, infer->n_in, &s, &p, infer->diag));
    TMK_TRY(tmk_attend_check(&p.s, tmk_infer_in(infer, QA_MASK), NULL, infer->diag));
    return tmk_project_infer(infer, &p);
}

static enum tmk_status run_attention(struct tmk_run *run) {
    struct scaled s;
    struct tmk_project p;
    float *qkv;
    TMK_TRY(find_attention(run->node, run->in, run->n_in, &s, &p, run->diag));
    TMK_TRY(tmk_scratch_floats(run, p.s.batch, p.s.queries, p.width, &qkv));
    if (p.s.batch && p.s.queries && p.width)
        TMK_TRY(multiply_scaled(run, &s, qkv));
    struct tmk_project_inputs in = {tmk_run_in(run, QA_MASK), tmk_run_in(run, QA_PAST), NULL};
    return tmk_project_run(run, &p, &in, qkv);
}

/* ---- rows ---- */

static const char axis_attrs[] = "axis:int";

const struct tmk_op tmk_ops_contrib_quantize[] = {
    {TMK_OP_CONTRIB("QuantizeLinear"), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = axis_attrs, .infer = tmk_infer_quantize, .run = tmk_run_quantize},
    {TMK_OP_CONTRIB("DequantizeLinear"), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = axis_attrs, .infer = tmk_infer_dequantize, .run = tmk_run_dequantize},
    {TMK_OP_CONTRIB("DynamicQuantizeMatMul"), TMK_OP_COUNTS(3, 5, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_dynamic, .run = run_dynamic,
     .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("MatMulIntegerToFloat"), TMK_OP_COUNTS(4, 7, 1, 1), .channel = TMK_CHANNEL_LAST,
     .infer = infer_to_float, .run = run_to_float, .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("QAttention"), TMK_OP_COUNTS(5, 9, 1, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = "do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int "
              "scale:float unidirectional:int",
     .infer = infer_attention, .run = run_attention, .cost = tmk_cost_projection},
    {NULL}};
