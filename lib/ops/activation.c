/* SPDX-License-Identifier: Apache-2.0 */
/* Activations: Relu and its kin, and Clip. NaN stays NaN in all but ThresholdedRelu and Shrink,
 * whose formulas send it to 0. */
#include "ops/activation.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/elementwise.h"
#include "ops/functions.h"
#include "ops/kernel.h"
#include "ops/vmath.h"

/* A negative zero becomes positive, NaN passes. */
#define RELU(T, U) x <= 0 ? (T)0 : x
#define DEFINE(op, dtype, T, U) TMK_ROW1(row_##op##_##dtype, T, T, op(T, U))
TMK_EACH_FLOAT(DEFINE, RELU)
TMK_EACH_SIGNED(DEFINE, RELU)
static const struct tmk_unary relu = {
    .row = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, RELU) TMK_EACH_SIGNED(TMK_ROW_ENTRY, RELU)}};

TMK_ROW1(leaky_row, float, float, tmk_above_zerof(x) + p[0] * tmk_below_zerof(x))
TMK_ROW1(elu_row, float, float, tmk_above_zerof(x) + p[0] * tmk_expm1f(tmk_below_zerof(x)))
TMK_ROW1(selu_row, float, float, p[1] * (tmk_above_zerof(x) + p[0] * tmk_expm1f(tmk_below_zerof(x))))
TMK_ROW1(celu_row, float, float, tmk_above_zerof(x) + p[0] * tmk_expm1f(tmk_below_zerof(x) / p[0]))
TMK_ROW1_VMATH(sigmoid_row, tmk_vsigmoid)
TMK_ROW1_VMATH(tanh_row, tmk_vtanh)

static void swish_row(size_t n, const void *x, void *y, const float *p) {
    tmk_vswish(x, p[0], y, n);
}
TMK_ROW1_VMATH(softplus_row, tmk_vsoftplus)
TMK_ROW1(softsign_row, float, float, x / (1.0f + fabsf(x)))

/* tanh(softplus(x)) x, a block after the other so that x may be y */
static void mish_row(size_t n, const void *px, void *py, const float *p) {
    const float *x = px;
    float *y = py, block[256];
    (void)p;
    for (size_t i = 0; i < n; i += TMK_COUNT(block)) {
        size_t m = n - i < TMK_COUNT(block) ? n - i : TMK_COUNT(block);
        tmk_vsoftplus(x + i, block, m);
        tmk_vtanh(block, block, m);
        for (size_t j = 0; j < m; j++)
            y[i + j] = block[j] * x[i + j];
    }
}
TMK_ROW1(thresholded_row, float, float, x > p[0] ? x : 0.0f)

static inline float clamp_unit(float v) {
    return v < 0 ? 0.0f : v > 1 ? 1.0f : v;
}
TMK_ROW1(hard_sigmoid_row, float, float, clamp_unit(p[0] * x + p[1]))
TMK_ROW1(hard_swish_row, float, float, clamp_unit(x *(1.0f / 6.0f) + 0.5f) * x)

static const struct tmk_unary leaky_relu = {.row = {[TMK_FLOAT32] = leaky_row},
                                            .param = {{"alpha", 0.01f}}};
static const struct tmk_unary elu = {.row = {[TMK_FLOAT32] = elu_row}, .param = {{"alpha", 1.0f}}};
/* The constants were spelled with more digits from operator set 6 on. */
static const struct tmk_unary selu_1 = {.row = {[TMK_FLOAT32] = selu_row},
                                        .param = {{"alpha", 1.6732f}, {"gamma", 1.0507f}}};
static const struct tmk_unary selu_6 = {
    .row = {[TMK_FLOAT32] = selu_row},
    .param = {{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}};
static const struct tmk_unary celu = {.row = {[TMK_FLOAT32] = celu_row},
                                      .param = {{"alpha", 1.0f}}};
static const struct tmk_unary logistic = {.row = {[TMK_FLOAT32] = sigmoid_row}};
static const struct tmk_unary hard_sigmoid = {.row = {[TMK_FLOAT32] = hard_sigmoid_row},
                                              .param = {{"alpha", 0.2f}, {"beta", 0.5f}}};
static const struct tmk_unary hard_swish = {.row = {[TMK_FLOAT32] = hard_swish_row}};
static const struct tmk_unary hyperbolic_tangent = {.row = {[TMK_FLOAT32] = tanh_row}};
static const struct tmk_unary soft_plus = {.row = {[TMK_FLOAT32] = softplus_row}};
static const struct tmk_unary soft_sign = {.row = {[TMK_FLOAT32] = softsign_row}};
static const struct tmk_unary mish = {.row = {[TMK_FLOAT32] = mish_row}};
static const struct tmk_unary activation_swish = {.row = {[TMK_FLOAT32] = swish_row},
                                                  .param = {{"alpha", 1.0f}}};
static const struct tmk_unary thresholded = {.row = {[TMK_FLOAT32] = thresholded_row},
                                             .param = {{"alpha", 1.0f}}};

/* Shrink in float, and back to the integer type: the attributes are floats. */
static inline float shrink_element(float x, float bias, float lambda) {
    return x < -lambda ? x + bias : x > lambda ? x - bias : 0.0f;
}
#define SHRINK_FLOAT(T, U) shrink_element(x, p[0], p[1])
#define SHRINK_SIGNED(T, U) (T) tmk_to_int64(shrink_element((float)x, p[0], p[1]))
#define SHRINK_UNSIGNED(T, U) (T) tmk_to_uint64(shrink_element((float)x, p[0], p[1]))
TMK_EACH_FLOAT(DEFINE, SHRINK_FLOAT)
TMK_EACH_SIGNED(DEFINE, SHRINK_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, SHRINK_UNSIGNED)
static const struct tmk_unary shrinking = {
    .row = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, SHRINK_FLOAT) TMK_EACH_SIGNED(
        TMK_ROW_ENTRY, SHRINK_SIGNED) TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, SHRINK_UNSIGNED)},
    .param = {{"bias", 0.0f}, {"lambd", 0.5f}}};

static const char alpha_attrs[] = "alpha:float consumed_inputs:ints";
static const char selu_attrs[] = "alpha:float gamma:float consumed_inputs:ints";

/* ---- by name, for operators that end with an activation ---- */

const struct tmk_unary *tmk_activation_find(const char *name) {
    static const struct {
        const char *name;
        const struct tmk_unary *table;
    } known[] = {
        {"Celu", &celu},
        {"Elu", &elu},
        {"HardSigmoid", &hard_sigmoid},
        {"LeakyRelu", &leaky_relu},
        {"Relu", &relu},
        {"Selu", &selu_6},
        {"Sigmoid", &logistic},
        {"Softplus", &soft_plus},
        {"Softsign", &soft_sign},
        {"Tanh", &hyperbolic_tangent},
        {"ThresholdedRelu", &thresholded},
    };
    for (size_t i = 0; i < TMK_COUNT(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].table;
    return NULL;
}

/* ---- Gelu: exact, or with tanh for erf ---- */

TMK_ROW1_VMATH(gelu_exact_row, tmk_vgelu)
TMK_ROW1_VMATH(gelu_tanh_row, tmk_vgelu_tanh)
const struct tmk_unary tmk_gelu_exact = {.row = {[TMK_FLOAT32] = gelu_exact_row}};
/* 0.5 x (1 + erf(x / sqrt 2)), and its approximation with tanh; no parameters. */
static const struct tmk_unary gelu_tanh = {.row = {[TMK_FLOAT32] = gelu_tanh_row}};

static const char approximations[] = "none tanh";

static enum tmk_status infer_gelu(struct tmk_infer *infer) {
    int kind;
    TMK_TRY(tmk_choice(infer->node, "approximate", approximations, &kind, infer->diag));
    return tmk_infer_unary_as(infer, &tmk_gelu_exact);
}

static enum tmk_status run_gelu(struct tmk_run *run) {
    int kind;
    TMK_TRY(tmk_choice(run->node, "approximate", approximations, &kind, run->diag));
    return tmk_run_unary_as(run, kind ? &gelu_tanh : &tmk_gelu_exact);
}

/* Gelu and its approximations, with a bias inside: Gelu, BiasGelu, FastGelu, QuickGelu. */

static void quick_row(size_t n, const void *x, void *y, const float *p) {
    tmk_vswish(x, p[0], y, n);
}
static const struct tmk_unary quick_gelu = {.row = {[TMK_FLOAT32] = quick_row},
                                            .param = {{"alpha", 1.702f}}};
TMK_ROW2(add_row, float, float, float, x + y)

/* Input 1 is a bias for the last axis, or absent. */
static enum tmk_status infer_biased(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *bias = tmk_infer_in(infer, 1);
    TMK_TRY(tmk_infer_unary_as(infer, &tmk_gelu_exact));
    if (!bias)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "the bias", infer->diag));
    if (x->shape.rank < 1 || bias->shape.rank != 1 ||
        bias->shape.dim[0] != x->shape.dim[x->shape.rank - 1])
        return tmk_fail(infer->diag, TMK_SHAPE, "the bias is %s, which is not the last axis of %s",
                        TMK_SHAPE_TEXT(&bias->shape), TMK_SHAPE_TEXT(&x->shape));
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

/* SwiGLU: y = a / (1 + e^(-alpha a)) * b, shapes alike. */

static enum tmk_status infer_swiglu(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1];
    TMK_TRY(tmk_want_dtype(a, TMK_FLOAT32, "input 'A'", infer->diag));
    TMK_TRY(tmk_want_dtype(b, TMK_FLOAT32, "input 'B'", infer->diag));
    if (!tmk_shape_equal(&a->shape, &b->shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "inputs of shapes %s and %s are not alike",
                        TMK_SHAPE_TEXT(&a->shape), TMK_SHAPE_TEXT(&b->shape));
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

/* Clip: min(max(x, low), high), so that low above high gives high everywhere. NaN
 * passes; a zero that equals a limit gets the limit's sign, as in Relu. */

typedef void (*clip_row)(size_t n, const void *x, const void *low, const void *high, void *y);

/* low and high are one element or NULL: the type's own limits. */
#define CLIP(lowest, highest, dtype, T, U)                                                         \
    static void clip_##dtype(size_t n, const void *px, const void *plow, const void *phigh,        \
                             void *py) {                                                           \
        const T *x = px, low = plow ? *(const T *)plow : (T)(lowest),                              \
                high = phigh ? *(const T *)phigh : (T)(highest);                                   \
        T *y = py;                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            T v = x[i] <= low ? low : x[i];                                                        \
            y[i] = v >= high ? high : v;                                                           \
        }                                                                                          \
    }
#define CLIP_SIGNED(op, dtype, T, U) CLIP(dtype##_MIN, dtype##_MAX, dtype, T, U)
#define CLIP_UNSIGNED(op, dtype, T, U) CLIP(0, dtype##_MAX, dtype, T, U)
CLIP(-FLT_MAX, FLT_MAX, FLOAT32, float, float)
TMK_EACH_SIGNED(CLIP_SIGNED, )
TMK_EACH_UNSIGNED(CLIP_UNSIGNED, )

#define ENTRY(op, dtype, T, U) [TMK_##dtype] = clip_##dtype,
static const clip_row clips[TMK_DTYPES] = {TMK_EACH_NUMBER(ENTRY, )};

/* ---- up to operator set 10 the limits are attributes ---- */

static enum tmk_status infer_attributes(struct tmk_infer *infer) {
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input 0", infer->diag));
    return tmk_infer_same(infer);
}

/* Without defaults before operator set 6: an infinity stays one. */
static enum tmk_status run_attributes(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    const float most = run->node->row->since < 6 ? INFINITY : FLT_MAX,
                low = tmk_node_float(run->node, "min", -most),
                high = tmk_node_float(run->node, "max", most);
    clip_FLOAT32(tmk_tensor_count(x), x->data, &low, &high, run->out[0]->data);
    return TMK_OK;
}

/* ---- later they are inputs ---- */

static enum tmk_status want_limit(const struct tmk_infer *infer, uint32_t i, const char *what) {
    const struct tmk_tensor *limit = tmk_infer_in(infer, i);
    if (!limit)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(limit, infer->in[0]->dtype, what, infer->diag));
    if (limit->shape.rank > 1 || (limit->shape.rank == 1 && limit->shape.dim[0] != 1))
        return tmk_fail(infer->diag, TMK_SHAPE, "%s must be a scalar, but is of shape %s", what,
                        TMK_SHAPE_TEXT(&limit->shape));
    return TMK_OK;
}

static enum tmk_status infer_inputs(struct tmk_infer *infer) {
    TMK_WANT_ENTRY(clips, infer->in[0], "input 0", infer->diag);
    TMK_TRY(want_limit(infer, 1, "input 1, the minimum,"));
    TMK_TRY(want_limit(infer, 2, "input 2, the maximum,"));
    return tmk_infer_same(infer);
}

static enum tmk_status run_inputs(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *low = tmk_run_in(run, 1), *high = tmk_run_in(run, 2);
    if (tmk_run_out(run, 0))
        clips[x->dtype](tmk_tensor_count(x), x->data, low ? low->data : NULL,
                        high ? high->data : NULL, run->out[0]->data);
    return TMK_OK;
}

static const char attrs[] = "max:float min:float consumed_inputs:ints";

const struct tmk_op tmk_ops_activation[] = {
    TMK_UNARY("Relu", 1, INT32_MAX, &relu, tmk_attrs_consumed),
    TMK_UNARY("LeakyRelu", 1, INT32_MAX, &leaky_relu, alpha_attrs),
    TMK_UNARY("Elu", 1, INT32_MAX, &elu, alpha_attrs),
    TMK_UNARY("Selu", 1, 5, &selu_1, selu_attrs),
    TMK_UNARY("Selu", 6, INT32_MAX, &selu_6, selu_attrs),
    TMK_UNARY("Celu", 12, INT32_MAX, &celu, alpha_attrs),
    TMK_UNARY("Sigmoid", 1, INT32_MAX, &logistic, tmk_attrs_consumed),
    TMK_UNARY("HardSigmoid", 1, INT32_MAX, &hard_sigmoid,
              "alpha:float beta:float consumed_inputs:ints"),
    TMK_UNARY("HardSwish", 14, INT32_MAX, &hard_swish, NULL),
    TMK_UNARY("Tanh", 1, INT32_MAX, &hyperbolic_tangent, tmk_attrs_consumed),
    TMK_UNARY("Softplus", 1, INT32_MAX, &soft_plus, NULL),
    TMK_UNARY("Softsign", 1, INT32_MAX, &soft_sign, NULL),
    TMK_UNARY("Mish", 18, INT32_MAX, &mish, NULL),
    TMK_UNARY("Swish", 24, INT32_MAX, &activation_swish, alpha_attrs),
    TMK_UNARY("ThresholdedRelu", 1, INT32_MAX, &thresholded, alpha_attrs),
    TMK_UNARY("Shrink", 9, INT32_MAX, &shrinking, "bias:float lambd:float"),
    {TMK_UNARY_ROW("Gelu", 20, INT32_MAX), .attrs = "approximate:string", .infer = infer_gelu,
     .run = run_gelu},
    {TMK_OP_CONTRIB("Gelu"), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &tmk_gelu_exact, .infer = tmk_infer_unary,
     .run = tmk_run_unary},
    {TMK_OP_CONTRIB("BiasGelu"), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &tmk_gelu_exact, .infer = infer_biased,
     .run = run_biased},
    {TMK_OP_CONTRIB("FastGelu"), TMK_OP_COUNTS(1, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .table = &gelu_tanh, .infer = infer_biased, .run = run_biased},
    {TMK_OP_CONTRIB("QuickGelu"), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "alpha:float", .table = &quick_gelu,
     .infer = tmk_infer_unary, .run = tmk_run_unary},
    {TMK_OP_ONNX("SwiGLU", 28, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "alpha:float", .infer = infer_swiglu,
     .run = run_swiglu},
    {TMK_OP_ONNX("Clip", 1, 5), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = infer_attributes,
     .run = run_attributes},
    {TMK_OP_ONNX("Clip", 6, 10), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = infer_attributes,
     .run = run_attributes},
    {TMK_OP_ONNX("Clip", 11, INT32_MAX), TMK_OP_COUNTS(1, 3, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .infer = infer_inputs, .run = run_inputs},
    {NULL}};
