/* SPDX-License-Identifier: Apache-2.0 */
/* Clip: min(max(x, low), high), so that low above high gives high everywhere. NaN
 * passes; a zero that equals a limit gets the limit's sign, as in Relu. */
#include <float.h>
#include <math.h>

#include "ops/elementwise.h"

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

static enum tmk_status clip_between(struct tmk_run *run, float low, float high) {
    const struct tmk_tensor *x = run->in[0];
    low = tmk_node_float(run->node, "min", low);
    high = tmk_node_float(run->node, "max", high);
    if (tmk_run_out(run, 0))
        clip_FLOAT32(tmk_tensor_count(x), x->data, &low, &high, run->out[0]->data);
    return TMK_OK;
}

/* Without defaults at first: an infinity stays one. */
static enum tmk_status run_1(struct tmk_run *run) {
    return clip_between(run, -INFINITY, INFINITY);
}

static enum tmk_status run_6(struct tmk_run *run) {
    return clip_between(run, -FLT_MAX, FLT_MAX);
}

/* ---- later they are inputs ---- */

static enum tmk_status want_limit(const struct tmk_infer *infer, uint32_t i, const char *what) {
    const struct tmk_tensor *limit = tmk_infer_in(infer, i);
    char text[256];
    if (!limit)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(limit, infer->in[0]->dtype, what, infer->diag));
    if (limit->shape.rank > 1 || (limit->shape.rank == 1 && limit->shape.dim[0] != 1))
        return tmk_fail(infer->diag, TMK_SHAPE, "%s must be a scalar, but is of shape %s", what,
                        tmk_shape_text(&limit->shape, text, sizeof text));
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

const struct tmk_op tmk_ops_clip[] = {
    {TMK_OP_ONNX("Clip", 1, 5), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = infer_attributes, .run = run_1},
    {TMK_OP_ONNX("Clip", 6, 10), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = infer_attributes, .run = run_6},
    {TMK_OP_ONNX("Clip", 11, INT32_MAX), TMK_OP_COUNTS(1, 3, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .infer = infer_inputs, .run = run_inputs},
    {NULL}};
