/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
 *
 * One scale for the whole tensor, one an index of an axis, or (operator set 21) one a block along
 * the axis: the input is seen as [outer, n, inner], the scales as [outer, blocks, inner] (blocked)
 * or [n]. So within a row of memory the scale either stays or moves along. */

#include "ops/contrib.h"
#include "ops/contrib_project.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/quantized.h"
#include "tensor/float8.h"

struct layout {
    size_t outer, n, inner;
    size_t block;  /* indices of the axis that share a scale; 0: not blocked */
    size_t blocks; /* scales along the axis */
};

/* ---- shapes ---- */

static enum tmk_status blocked_layout(const struct tmk_shape *x, const struct tmk_shape *scale,
                                      int32_t axis, int64_t block, struct layout *out,
                                      struct tmk_diag *diag) {
    bool fits = x->rank == scale->rank && block > 0;
    for (int32_t i = 0; i < x->rank && fits; i++)
        fits = i == axis ? scale->dim[i] == x->dim[i] / block + (x->dim[i] % block != 0)
                         : scale->dim[i] == x->dim[i];
    if (!fits)
        return tmk_fail(diag, TMK_SHAPE,
                        "a scale of %s does not fit %s in blocks of %lld on axis %d",
                        TMK_SHAPE_TEXT(scale), TMK_SHAPE_TEXT(x), (long long)block, axis);
    out->block = (size_t)block;
    out->blocks = (size_t)scale->dim[axis];
    return TMK_OK;
}

static enum tmk_status layout_of(const struct tmk_node *node, const struct tmk_tensor *x,
                                 const struct tmk_tensor *scale, struct layout *out,
                                 struct tmk_diag *diag) {
    const struct tmk_shape *shape = &x->shape;
    struct layout r = {.outer = 1, .n = 1, .inner = 1};
    size_t count, scales;
    int32_t axis = 0;
    if (!tmk_shape_count(shape, &count) || !tmk_shape_count(&scale->shape, &scales))
        return tmk_fail(diag, TMK_RANGE, "a shape is too large");
    int64_t block = tmk_node_int(node, "block_size", 0);
    if (block < 0)
        return tmk_fail(diag, TMK_RANGE, "block_size is %lld", (long long)block);
    if (scales == 1 && scale->shape.rank <= 1 && !block) {
        r.inner = count;
        *out = r;
        return TMK_OK;
    }
    if (node->row->until < 13)
        return tmk_fail(diag, TMK_SHAPE, "input 1, the scale, must be a scalar, but is of shape %s",
                        TMK_SHAPE_TEXT(&scale->shape));
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 1), shape->rank, &axis, diag));
    r.outer = tmk_shape_product(shape, 0, axis);
    r.n = (size_t)shape->dim[axis];
    r.inner = tmk_shape_product(shape, axis + 1, shape->rank);
    if (block)
        TMK_TRY(blocked_layout(shape, &scale->shape, axis, block, &r, diag));
    else if (scale->shape.rank != 1 || scales != r.n)
        return tmk_fail(diag, TMK_SHAPE,
                        "input 1, the scale, is of shape %s; axis %d wants %zu elements",
                        TMK_SHAPE_TEXT(&scale->shape), axis, r.n);
    *out = r;
    return TMK_OK;
}

static enum tmk_status want_zero_point(const struct tmk_infer *infer) {
    const struct tmk_tensor *scale = infer->in[1], *zero = tmk_infer_in(infer, 2);
    size_t zeros, scales;
    if (!zero || tmk_shape_equal(&zero->shape, &scale->shape))
        return TMK_OK;
    if (tmk_shape_count(&zero->shape, &zeros) && tmk_shape_count(&scale->shape, &scales) &&
        zeros == 1 && scales == 1 && zero->shape.rank <= 1 && scale->shape.rank <= 1)
        return TMK_OK;
    return tmk_fail(infer->diag, TMK_SHAPE, "the zero point is of shape %s, the scale of %s",
                    TMK_SHAPE_TEXT(&zero->shape), TMK_SHAPE_TEXT(&scale->shape));
}

/* ---- loops: row r of the scales and zero points belongs to a row of elements ---- */

/* `vary`: scale and zero move along with the elements. */
typedef void (*quant_row)(size_t n, const void *x, const float *scale, const int32_t *zero,
                          bool vary, void *y);

/* round(x / scale) + zero between low and high, less zero. NaN goes to the lowest value, as with
 * ONNX Runtime. The limits are integers, so that they may come before the rounding, which then is
 * an addition: at 1.5 * 2^23 floats are one apart and ties go to even. */
static inline float quantize_element(float x, float scale, float low, float high) {
    const float shift = 0x1.8p23f;
    float v = x / scale;
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (v + shift) - shift;
}

#define QUANTIZE(from, T, to, R, low, high)                                                        \
    static void quantize_##from##_##to(size_t n, const void *px, const float *scale,               \
                                       const int32_t *zero, bool vary, void *py) {                 \
        const T *x = px;                                                                           \
        R *y = py;                                                                                 \
        if (vary) {                                                                                \
            for (size_t i = 0; i < n; i++) {                                                       \
                const int32_t z = zero[i];                                                         \
                const float l = (float)((low)-z), h = (float)((high)-z);                           \
                y[i] = (R)(z + (int32_t)quantize_element((float)x[i], scale[i], l, h));            \
            }                                                                                      \
        } else {                                                                                   \
            const int32_t z = zero[0];                                                             \
            const float s = scale[0], l = (float)((low)-z), h = (float)((high)-z);                 \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = (R)(z + (int32_t)quantize_element((float)x[i], s, l, h));                   \
        }                                                                                          \
    }
#define QUANTIZE_TO(to, R, low, high)                                                              \
    QUANTIZE(FLOAT32, float, to, R, low, high)                                                     \
    QUANTIZE(INT32, int32_t, to, R, low, high)
QUANTIZE_TO(INT8, int8_t, -128, 127)
QUANTIZE_TO(UINT8, uint8_t, 0, 255)
QUANTIZE_TO(INT16, int16_t, -32768, 32767)
QUANTIZE_TO(UINT16, uint16_t, 0, 65535)
QUANTIZE_TO(INT4, int8_t, -8, 7)
QUANTIZE_TO(UINT4, uint8_t, 0, 15)

#define TO(from)                                                                                   \
    {                                                                                              \
        [TMK_INT8] = quantize_##from##_INT8, [TMK_UINT8] = quantize_##from##_UINT8,                \
        [TMK_INT16] = quantize_##from##_INT16, [TMK_UINT16] = quantize_##from##_UINT16,            \
        [TMK_INT4] = quantize_##from##_INT4, [TMK_UINT4] = quantize_##from##_UINT4,                \
    }
static const quant_row from_float[TMK_DTYPES] = TO(FLOAT32);
static const quant_row from_int[TMK_DTYPES] = TO(INT32);

/* W holds a difference of two elements. */
#define DEQUANTIZE(from, T, W)                                                                     \
    static void dequantize_##from(size_t n, const void *px, const float *scale,                    \
                                  const int32_t *zero, bool vary, void *py) {                      \
        const T *x = px;                                                                           \
        float *y = py;                                                                             \
        if (vary) {                                                                                \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = (float)((W)x[i] - (W)zero[i]) * scale[i];                                   \
        } else {                                                                                   \
            const float s = scale[0];                                                              \
            const W z = (W)zero[0];                                                                \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = (float)((W)x[i] - z) * s;                                                   \
        }                                                                                          \
    }
DEQUANTIZE(INT8, int8_t, int32_t)
DEQUANTIZE(UINT8, uint8_t, int32_t)
DEQUANTIZE(INT16, int16_t, int32_t)
DEQUANTIZE(UINT16, uint16_t, int32_t)
DEQUANTIZE(INT32, int32_t, int64_t)

/* Of floats, whose zero point is 0. */
#define QUANTIZE_FLOAT(name, type, saturate)                                                       \
    static void name##_##type(size_t n, const void *px, const float *scale, const int32_t *zero,   \
                              bool vary, void *py) {                                               \
        (void)zero;                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float x = ((const float *)px)[i] / scale[vary ? i : 0];                          \
            ((uint8_t *)py)[i] = tmk_float8_code(TMK_##type, x, saturate);                         \
        }                                                                                          \
    }
#define DEQUANTIZE_FLOAT(type)                                                                     \
    static void dequantize_##type(size_t n, const void *px, const float *scale,                    \
                                  const int32_t *zero, bool vary, void *py) {                      \
        (void)zero;                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float x = tmk_float8_value(TMK_##type, ((const uint8_t *)px)[i]);                \
            ((float *)py)[i] = x * scale[vary ? i : 0];                                            \
        }                                                                                          \
    }
#define FLOAT8_ROWS(type)                                                                          \
    QUANTIZE_FLOAT(quantize, type, true)                                                           \
    QUANTIZE_FLOAT(quantize_beyond, type, false)                                                   \
    DEQUANTIZE_FLOAT(type)
FLOAT8_ROWS(FLOAT8E4M3FN)
FLOAT8_ROWS(FLOAT8E4M3FNUZ)
FLOAT8_ROWS(FLOAT8E5M2)
FLOAT8_ROWS(FLOAT8E5M2FNUZ)
DEQUANTIZE_FLOAT(FLOAT4E2M1)

static const quant_row to_float8[][2] = {
    [TMK_FLOAT8E4M3FN] = {quantize_beyond_FLOAT8E4M3FN, quantize_FLOAT8E4M3FN},
    [TMK_FLOAT8E4M3FNUZ] = {quantize_beyond_FLOAT8E4M3FNUZ, quantize_FLOAT8E4M3FNUZ},
    [TMK_FLOAT8E5M2] = {quantize_beyond_FLOAT8E5M2, quantize_FLOAT8E5M2},
    [TMK_FLOAT8E5M2FNUZ] = {quantize_beyond_FLOAT8E5M2FNUZ, quantize_FLOAT8E5M2FNUZ},
};

static const quant_row dequantize[TMK_DTYPES] = {
    [TMK_INT8] = dequantize_INT8,
    [TMK_UINT8] = dequantize_UINT8,
    [TMK_INT16] = dequantize_INT16,
    [TMK_UINT16] = dequantize_UINT16,
    [TMK_INT4] = dequantize_INT8,
    [TMK_UINT4] = dequantize_UINT8,
    [TMK_INT2] = dequantize_INT8,
    [TMK_UINT2] = dequantize_UINT8,
    [TMK_INT32] = dequantize_INT32,
    [TMK_FLOAT8E4M3FN] = dequantize_FLOAT8E4M3FN,
    [TMK_FLOAT8E4M3FNUZ] = dequantize_FLOAT8E4M3FNUZ,
    [TMK_FLOAT8E5M2] = dequantize_FLOAT8E5M2,
    [TMK_FLOAT8E5M2FNUZ] = dequantize_FLOAT8E5M2FNUZ,
    [TMK_FLOAT4E2M1] = dequantize_FLOAT4E2M1,
};

/* Zero points as int32, zeros where there are none; scales as float (operator sets 19 and later
 * allow int32). */
static enum tmk_status read_parameters(struct tmk_run *run, const float **scale,
                                       const int32_t **zero) {
    const struct tmk_tensor *s = run->in[1], *z = tmk_run_in(run, 2);
    size_t n = tmk_tensor_count(s);
    int32_t *zeros = tmk_scratch(run, n, sizeof(int32_t));
    TMK_TRY_ALLOC(zeros, run->diag);
    for (size_t i = 0; i < n; i++)
        zeros[i] = tmk_quantized_at(z, i);
    *zero = zeros;
    *scale = s->data;
    if (s->dtype == TMK_INT32) {
        float *scales = tmk_scratch(run, n, sizeof *scales);
        TMK_TRY_ALLOC(scales, run->diag);
        for (size_t i = 0; i < n; i++)
            scales[i] = (float)((const int32_t *)s->data)[i];
        *scale = scales;
    }
    return TMK_OK;
}

static enum tmk_status run_rows(struct tmk_run *run, quant_row row) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct layout l = {0};
    const float *scale = NULL;
    const int32_t *zero = NULL;
    TMK_TRY(layout_of(run->node, x, run->in[1], &l, run->diag));
    TMK_TRY(read_parameters(run, &scale, &zero));
    const char *from = x->data;
    char *to = y->data;
    size_t size_x = tmk_dtype_size(x->dtype), size_y = tmk_dtype_size(y->dtype);
    if (!l.block && l.inner == 1) { /* the last axis: scales lie as the elements do */
        for (size_t o = 0; o < l.outer; o++)
            row(l.n, from + o * l.n * size_x, scale, zero, true, to + o * l.n * size_y);
        return TMK_OK;
    }
    for (size_t o = 0; o < l.outer; o++)
        for (size_t k = 0; k < l.n; k++) {
            size_t at = (o * l.n + k) * l.inner,
                   s = l.block ? (o * l.blocks + k / l.block) * l.inner : k;
            row(l.inner, from + at * size_x, scale + s, zero + s, l.block != 0, to + at * size_y);
        }
    return TMK_OK;
}

/* ---- QuantizeLinear ---- */

static enum tmk_status quantized_type(const struct tmk_infer *infer, enum tmk_dtype *out) {
    const struct tmk_tensor *zero = tmk_infer_in(infer, 2);
    int64_t asked = tmk_node_int(infer->node, "output_dtype", 0);
    enum tmk_dtype type = zero ? zero->dtype : asked ? (enum tmk_dtype)asked : TMK_UINT8;
    if (asked < 0 || asked >= TMK_DTYPES)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "output_dtype %lld is not supported",
                        (long long)asked);
    if (zero && asked && (enum tmk_dtype)asked != zero->dtype)
        return tmk_fail(infer->diag, TMK_TYPE, "output_dtype is %s, but the zero point is %s",
                        tmk_dtype_name((enum tmk_dtype)asked), tmk_dtype_name(zero->dtype));
    const bool to_float = infer->in[0]->dtype == TMK_FLOAT32 && tmk_float8_is_written(type);
    if ((unsigned)type >= TMK_DTYPES || (!from_float[type] && !to_float))
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "quantizing to %s is not supported",
                        tmk_dtype_name(type));
    *out = type;
    return TMK_OK;
}

static enum tmk_status want_scale(const struct tmk_infer *infer) {
    enum tmk_dtype type = infer->in[1]->dtype;
    if (type != TMK_FLOAT32 && type != TMK_INT32)
        return tmk_fail(infer->diag, TMK_TYPE, "input 1, the scale, must be float32, but is %s",
                        tmk_dtype_name(type));
    return TMK_OK;
}

/* QuantizeLinear and DequantizeLinear, of the newest operator set. */
static enum tmk_status infer_quantize(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    enum tmk_dtype type = TMK_UINT8;
    struct layout l;
    if (x->dtype != TMK_FLOAT32 && x->dtype != TMK_INT32)
        return tmk_fail(infer->diag, TMK_TYPE, "input 0 must be float32 or int32, but is %s",
                        tmk_dtype_name(x->dtype));
    TMK_TRY(want_scale(infer));
    TMK_TRY(quantized_type(infer, &type));
    TMK_TRY(want_zero_point(infer));
    TMK_TRY(layout_of(infer->node, x, infer->in[1], &l, infer->diag));
    return tmk_infer_set(infer, 0, type, &x->shape);
}

static enum tmk_status run_quantize(struct tmk_run *run) {
    const struct tmk_tensor *y = tmk_run_out(run, 0);
    if (tmk_float8_is_written(y->dtype))
        return run_rows(run, to_float8[y->dtype][tmk_node_int(run->node, "saturate", 1) != 0]);
    return run_rows(run,
                    run->in[0]->dtype == TMK_FLOAT32 ? from_float[y->dtype] : from_int[y->dtype]);
}

/* ---- DequantizeLinear ---- */

static enum tmk_status infer_dequantize(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *zero = tmk_infer_in(infer, 2);
    int64_t asked = tmk_node_int(infer->node, "output_dtype", TMK_FLOAT32);
    struct layout l;
    TMK_WANT_ENTRY(dequantize, x, "input 0", infer->diag);
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_FLOAT32, "input 1, the scale,", infer->diag));
    if (zero)
        TMK_TRY(tmk_want_dtype(zero, x->dtype, "input 2, the zero point,", infer->diag));
    if (asked != 0 && asked != TMK_FLOAT32 && asked != TMK_FLOAT16 && asked != TMK_BFLOAT16)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "output_dtype %lld is not supported",
                        (long long)asked);
    TMK_TRY(want_zero_point(infer));
    TMK_TRY(layout_of(infer->node, x, infer->in[1], &l, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &x->shape);
}

static enum tmk_status run_dequantize(struct tmk_run *run) {
    return run_rows(run, dequantize[run->in[0]->dtype]);
}

/* ---- DynamicQuantizeLinear: uint8, the range with 0 in it ---- */

static enum tmk_status infer_dynamic(struct tmk_infer *infer) {
    struct tmk_shape scalar = {0};
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input 0", infer->diag));
    tmk_infer_put(infer, 0, TMK_UINT8, &infer->in[0]->shape);
    tmk_infer_put(infer, 1, TMK_FLOAT32, &scalar);
    return tmk_infer_set(infer, 2, TMK_UINT8, &scalar);
}

struct tmk_dynamic tmk_quantize_dynamic(size_t n, const float *v, uint8_t *y) {
    float low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    struct tmk_dynamic d = {.scale = high == low ? 1.0f : (high - low) / 255.0f};
    d.zero = (int32_t)quantize_element(-low, d.scale, 0, 255);
    if (y)
        quantize_FLOAT32_UINT8(n, v, &d.scale, &d.zero, false, y);
    return d;
}

static enum tmk_status run_dynamic(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct tmk_dynamic d = tmk_quantize_dynamic(tmk_tensor_count(x), x->data, y ? y->data : NULL);
    if (tmk_run_out(run, 1))
        *(float *)run->out[1]->data = d.scale;
    if (tmk_run_out(run, 2))
        *(uint8_t *)run->out[2]->data = (uint8_t)d.zero;
    return TMK_OK;
}

static const char attrs_13[] = "axis:int saturate:int";
/* saturate speaks of 8-bit floats, precision of the 16-bit ones. */
static const char attrs_21[] =
    "axis:int saturate:int block_size:int output_dtype:int precision:int";

/* 8-bit products that end in float, and what goes with them in ONNX Runtime's own domain:
 * QuantizeLinear, DequantizeLinear, DynamicQuantizeMatMul, MatMulIntegerToFloat, QAttention. */

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
    if (a_scale)
        TMK_TRY(tmk_want_dtype(a_scale, TMK_FLOAT32, "a_scale", diag));
    TMK_TRY(tmk_want_dtype(b_scale, TMK_FLOAT32, "b_scale", diag));
    TMK_TRY(tmk_grain_find(a_scale, a, a->rank - 1, "a_scale", &out->a_grain, diag));
    TMK_TRY(tmk_grain_find(b_scale, b, b->rank - 2, "b_scale", &out->b_grain, diag));
    TMK_TRY(tmk_want_shape(bias, TMK_FLOAT32, "bias",
                           &(struct tmk_shape){1, {(int64_t)out->o.matmul.n}}, diag));
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
    TMK_TRY_ALLOC(sums, run->diag);
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
    TMK_TRY(tmk_integer_find(in[TO_A], tmk_operand(in, n, TO_A_ZERO), in[TO_B],
                             tmk_operand(in, n, TO_B_ZERO), &s.o, diag));
    TMK_TRY(find_scales(in[TO_A_SCALE], in[TO_B_SCALE], tmk_operand(in, n, TO_BIAS), &s, diag));
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
    TMK_TRY(tmk_integer_find(a, a_zero, in[DY_B], tmk_operand(in, n, DY_B_ZERO), &s.o, diag));
    TMK_TRY(find_scales(NULL, in[DY_B_SCALE], tmk_operand(in, n, DY_BIAS), &s, diag));
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_dynamic_contrib(struct tmk_infer *infer) {
    struct scaled s;
    struct tmk_tensor a = {0};
    TMK_TRY(tmk_want_dtype(infer->in[DY_A], TMK_FLOAT32, "A", infer->diag));
    tmk_tensor_borrow(&a, TMK_UINT8, &infer->in[DY_A]->shape, NULL);
    TMK_TRY(find_dynamic(&a, NULL, infer->in, infer->n_in, &s, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &s.o.shape);
}

static enum tmk_status run_dynamic_contrib(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[DY_A];
    struct tmk_tensor *y = tmk_run_out(run, 0), a = {0}, a_zero = {0};
    struct scaled s;
    size_t n = tmk_tensor_count(x);
    uint8_t *quantized = run->scratch(run->context, n + 1);
    TMK_TRY_ALLOC(quantized, run->diag);
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
    const struct tmk_tensor *x_zero = tmk_operand(in, n, QA_X_ZERO);
    TMK_TRY(tmk_integer_find(in[QA_X], x_zero, in[QA_WEIGHTS], tmk_operand(in, n, QA_ZERO), &s.o,
                             diag));
    TMK_TRY(tmk_want_scalar(in[QA_X_SCALE], TMK_FLOAT32, "input_scale", diag));
    TMK_TRY(tmk_want_scalar(x_zero, TMK_UNDEFINED, "input_zero_point", diag));
    TMK_TRY(find_scales(in[QA_X_SCALE], in[QA_SCALE], in[QA_BIAS], &s, diag));
    TMK_TRY(tmk_project_sizes(node, in[QA_X], in[QA_WEIGHTS], in[QA_BIAS],
                              tmk_operand(in, n, QA_PAST), project, diag));
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

#define LINEAR(name, since_, until_, attrs_, kind)                                                 \
    {                                                                                              \
        TMK_OP_ONNX(name, since_, until_), TMK_OP_COUNTS(2, 3, 1, 1),                              \
            .channel = TMK_CHANNEL_INHERIT, .attrs = attrs_, .infer = infer_##kind,                \
            .run = run_##kind                                                                      \
    }

const struct tmk_op tmk_ops_quantize[] = {
    LINEAR("QuantizeLinear", 10, 12, NULL, quantize),
    LINEAR("QuantizeLinear", 13, 20, attrs_13, quantize),
    LINEAR("QuantizeLinear", 21, INT32_MAX, attrs_21, quantize),
    LINEAR("DequantizeLinear", 10, 12, NULL, dequantize),
    LINEAR("DequantizeLinear", 13, 20, attrs_13, dequantize),
    LINEAR("DequantizeLinear", 21, INT32_MAX, attrs_21, dequantize),
    {TMK_OP_ONNX("DynamicQuantizeLinear", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 3),
     .channel = TMK_CHANNEL_INHERIT, .infer = infer_dynamic, .run = run_dynamic},
    {TMK_OP_CONTRIB("QuantizeLinear"), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = axis_attrs, .infer = infer_quantize, .run = run_quantize},
    {TMK_OP_CONTRIB("DequantizeLinear"), TMK_OP_COUNTS(2, 3, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = axis_attrs, .infer = infer_dequantize, .run = run_dequantize},
    {TMK_OP_CONTRIB("DynamicQuantizeMatMul"), TMK_OP_COUNTS(3, 5, 1, 1),
     .channel = TMK_CHANNEL_LAST, .infer = infer_dynamic_contrib, .run = run_dynamic_contrib,
     .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("MatMulIntegerToFloat"), TMK_OP_COUNTS(4, 7, 1, 1), .channel = TMK_CHANNEL_LAST,
     .infer = infer_to_float, .run = run_to_float, .cost = tmk_cost_product},
    {TMK_OP_CONTRIB("QAttention"), TMK_OP_COUNTS(5, 9, 1, 2), .channel = TMK_CHANNEL_LAST,
     .inner = TMK_PROJECT_INNER,
     .attrs = "do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int "
              "scale:float unidirectional:int",
     .infer = infer_attention, .run = run_attention, .cost = tmk_cost_projection},
    {NULL}};
