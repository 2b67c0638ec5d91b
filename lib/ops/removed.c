/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that ONNX had on trial and removed, and that ONNX Runtime still runs: what converters
 * from Core ML wrote. Affine, ParametricSoftplus, Scale, ScaledTanh, ImageScaler, Crop. */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/functions.h"
#include "ops/kernel.h"
#include "ops/unary.h"
#include "ops/vmath.h"

TMK_ROW1(affine_row, float, float, p[0] * x + p[1])
TMK_ROW1(multiple_row, float, float, p[0] * x)
TMK_ROW1(scaled_tanh_row, float, float, p[0] * tmk_tanhf(p[1] * x))

static void parametric_row(size_t n, const void *px, void *py, const float *p) {
    const float *x = px;
    float *y = py;
    for (size_t i = 0; i < n; i++)
        y[i] = p[1] * x[i];
    tmk_vsoftplus(y, y, n);
    for (size_t i = 0; i < n; i++)
        y[i] *= p[0];
}

static const struct tmk_unary affine = {.row = {[TMK_FLOAT32] = affine_row},
                                        .param = {{"alpha", 1.0f}, {"beta", 0.0f}}};
static const struct tmk_unary multiple = {.row = {[TMK_FLOAT32] = multiple_row},
                                          .param = {{"scale", 1.0f}}};
static const struct tmk_unary scaled_tanh = {.row = {[TMK_FLOAT32] = scaled_tanh_row},
                                             .param = {{"alpha", 1.0f}, {"beta", 1.0f}}};
static const struct tmk_unary parametric = {.row = {[TMK_FLOAT32] = parametric_row},
                                            .param = {{"alpha", 1.0f}, {"beta", 1.0f}}};

static enum tmk_status want_image(const struct tmk_infer *infer) {
    return tmk_want_shape(infer->in[0], TMK_FLOAT32, "input",
                          &(struct tmk_shape){4, {-1, -1, -1, -1}}, infer->diag);
}

/* ---- ImageScaler: scale * x + bias[channel] ---- */

static enum tmk_status infer_scaler(struct tmk_infer *infer) {
    size_t n;
    TMK_TRY(want_image(infer));
    tmk_node_floats(infer->node, "bias", &n);
    if ((int64_t)n != infer->in[0]->shape.dim[1])
        return tmk_fail(infer->diag, TMK_RANGE,
                        "attribute 'bias' has %zu numbers for %lld channels", n,
                        (long long)infer->in[0]->shape.dim[1]);
    return tmk_infer_same(infer);
}

static enum tmk_status run_scaler(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    const size_t area = tmk_shape_product(shape, 2, 4), planes = tmk_shape_product(shape, 0, 2),
                 channels = (size_t)shape->dim[1];
    const float *bias = tmk_node_floats(run->node, "bias", &(size_t){0});
    float p[2] = {tmk_node_float(run->node, "scale", 1)};
    for (size_t i = 0; i < planes && tmk_run_elements(run, 0); i++) {
        p[1] = bias[i % channels];
        affine_row(area, (const float *)run->in[0]->data + i * area,
                   (float *)run->out[0]->data + i * area, p);
    }
    return TMK_OK;
}

/* ---- Crop: an image without its borders, or `scale` [height, width] of it behind them ---- */

struct crop {
    int64_t left, top, height, width;
};

static enum tmk_status read_crop(const struct tmk_node *node, const struct tmk_shape *x,
                                 struct crop *out, struct tmk_diag *diag) {
    size_t borders, sizes;
    const int64_t *border = tmk_node_ints(node, "border", &borders),
                  *size = tmk_node_ints(node, "scale", &sizes);
    if (borders != 4 || (sizes != 0 && sizes != 2))
        return tmk_fail(diag, TMK_RANGE,
                        "attributes 'border' and 'scale' have %zu and %zu numbers, not 4 and 2 or "
                        "none",
                        borders, sizes);
    const int64_t high = x->dim[2], wide = x->dim[3];
    bool fits = true;
    for (size_t i = 0; i < 4; i++)
        fits = fits && border[i] >= 0 && border[i] <= (i % 2 ? high : wide);
    for (size_t i = 0; i < sizes; i++)
        fits = fits && size[i] >= 0 && size[i] <= (i ? wide : high);
    struct crop c = {.left = fits ? border[0] : 0, .top = fits ? border[1] : 0};
    if (fits) {
        c.height = sizes ? size[0] : high - c.top - border[3];
        c.width = sizes ? size[1] : wide - c.left - border[2];
        fits =
            c.height >= 0 && c.width >= 0 && c.top + c.height <= high && c.left + c.width <= wide;
    }
    if (!fits)
        return tmk_fail(diag, TMK_RANGE, "an image of %lld x %lld is too small for the crop",
                        (long long)high, (long long)wide);
    *out = c;
    return TMK_OK;
}

static enum tmk_status infer_crop(struct tmk_infer *infer) {
    struct crop c;
    TMK_TRY(want_image(infer));
    struct tmk_shape y = infer->in[0]->shape;
    TMK_TRY(read_crop(infer->node, &y, &c, infer->diag));
    y.dim[2] = c.height;
    y.dim[3] = c.width;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static enum tmk_status run_crop(struct tmk_run *run) {
    const struct tmk_shape *x = &run->in[0]->shape;
    struct crop c;
    float *to = tmk_run_elements(run, 0);
    TMK_TRY(read_crop(run->node, x, &c, run->diag));
    const size_t planes = tmk_shape_product(x, 0, 2), wide = (size_t)x->dim[3],
                 width = (size_t)c.width;
    for (size_t i = 0; i < planes && to; i++)
        for (size_t row = 0; row < (size_t)c.height; row++, to += width)
            memcpy(to,
                   (const float *)run->in[0]->data +
                       (i * (size_t)x->dim[2] + (size_t)c.top + row) * wide + (size_t)c.left,
                   width * sizeof *to);
    return TMK_OK;
}

static const char two_attrs[] = "alpha:float beta:float";

const struct tmk_op tmk_ops_removed[] = {
    TMK_UNARY("Affine", 1, INT32_MAX, &affine, two_attrs),
    TMK_UNARY("ParametricSoftplus", 1, INT32_MAX, &parametric, two_attrs),
    TMK_UNARY("Scale", 1, INT32_MAX, &multiple, "scale:float"),
    TMK_UNARY("ScaledTanh", 1, INT32_MAX, &scaled_tanh, two_attrs),
    {TMK_OP_ONNX("ImageScaler", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "bias:floats scale:float", .infer = infer_scaler,
     .run = run_scaler},
    {TMK_OP_ONNX("Crop", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = "border:ints! scale:ints", .infer = infer_crop, .run = run_crop},
    {NULL}};
