/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv: a convolution whose taps are moved by an offset of their own at every output, and may
 * be weighed by a mask (J. Dai et al., "Deformable Convolutional Networks", ICCV 2017; X. Zhu et
 * al., "Deformable ConvNets v2", CVPR 2019). A moved tap is blended from the elements around it,
 * linearly along every axis; what is outside the input is 0. */
#include <math.h>

#include "ops/conv.h"
#include "ops/cost.h"
#include "ops/kernel.h"

enum { AXES = 3, CORNERS = 1 << AXES, BLOCK = 64 /* outputs at a time */ };

struct deform {
    struct tmk_window window;
    size_t groups, offset_groups;
};

static enum tmk_status read_deform(const struct tmk_node *node, const struct tmk_shape *x,
                                   const struct tmk_shape *w, struct deform *out,
                                   struct tmk_diag *diag) {
    int64_t groups = tmk_node_int(node, "offset_group", 1);
    struct deform d;
    TMK_TRY(tmk_window_conv(node, x, w, &d.window, diag));
    if (d.window.n > AXES)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%d spatial axes; at most %d", (int)d.window.n,
                        AXES);
    if (groups < 1 || groups > INT32_MAX || x->dim[1] % groups != 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'offset_group' is %lld for %lld channels",
                        (long long)groups, (long long)x->dim[1]);
    d.groups = (size_t)tmk_node_int(node, "group", 1); /* has been checked with the window */
    d.offset_groups = (size_t)groups;
    *out = d;
    return TMK_OK;
}

/* TMK_SHAPE unless the tensor is [batch, groups * taps * each, out...]. */
static enum tmk_status check_places(const struct deform *d, const struct tmk_tensor *tensor,
                                    int64_t batch, int64_t each, const char *what,
                                    struct tmk_diag *diag) {
    struct tmk_shape wanted;
    size_t taps = 1, channels = 0;
    bool fits = tmk_mul_size(d->offset_groups, (size_t)each, &channels);
    for (int32_t i = 0; i < d->window.n; i++) /* shapes only: the weights may be too many to hold */
        fits = fits && tmk_mul_size(taps, (size_t)d->window.kernel[i], &taps);
    fits = fits && tmk_mul_size(channels, taps, &channels) && channels <= INT64_MAX;
    TMK_TRY(tmk_want_dtype(tensor, TMK_FLOAT32, what, diag));
    tmk_window_shape(&d->window, batch, fits ? (int64_t)channels : 0, &wanted);
    if (!fits || !tmk_shape_equal(&tensor->shape, &wanted))
        return tmk_fail(diag, TMK_SHAPE, "%s has shape %s instead of %s", what,
                        TMK_SHAPE_TEXT(&tensor->shape), TMK_SHAPE_TEXT(&wanted));
    return TMK_OK;
}

static enum tmk_status infer_deform(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *w = infer->in[1], *bias = tmk_infer_in(infer, 3),
                            *mask = tmk_infer_in(infer, 4);
    struct tmk_diag *diag = infer->diag;
    struct deform d;
    struct tmk_shape shape;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "the input", diag));
    TMK_TRY(tmk_want_dtype(w, TMK_FLOAT32, "the weights", diag));
    TMK_TRY(read_deform(infer->node, &x->shape, &w->shape, &d, diag));
    TMK_TRY(check_places(&d, infer->in[2], x->shape.dim[0], d.window.n, "input 'offset'", diag));
    TMK_TRY(tmk_conv_check_bias(bias, w->shape.dim[0], diag));
    if (bias)
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "the bias", diag));
    if (mask)
        TMK_TRY(check_places(&d, mask, x->shape.dim[0], 1, "input 'mask'", diag));
    tmk_window_shape(&d.window, x->shape.dim[0], w->shape.dim[0], &shape);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* What a moved tap is blended from. */
struct blend {
    int n;
    int64_t at[CORNERS]; /* within a channel */
    double weight[CORNERS];
};

/* `where`: the tap's place on each axis. */
static void find_blend(const struct tmk_window *w, const double *where, double mask,
                       struct blend *out) {
    struct blend blend = {.n = 1, .at = {0}, .weight = {mask}};
    for (int32_t i = 0; i < w->n; i++) {
        double size = (double)w->in[i];
        if (!(where[i] > -1 && where[i] < size)) {
            out->n = 0;
            return;
        }
        double low = floor(where[i]), rest = where[i] - low;
        int n = blend.n;
        blend.n = 0;
        struct blend wider = blend;
        for (int k = 0; k < n; k++)
            for (int side = 0; side < 2; side++) {
                double at = low + side, weight = side ? rest : 1 - rest;
                if (at < 0 || at >= size || weight == 0)
                    continue;
                wider.at[wider.n] = blend.at[k] * w->in[i] + (int64_t)at;
                wider.weight[wider.n++] = blend.weight[k] * weight;
            }
        blend = wider;
    }
    *out = blend;
}

/* The place of output `at` on each axis, in elements of the input, before any tap. */
static void first_tap(const struct tmk_window *w, size_t at, double *where) {
    for (int32_t i = w->n - 1; i >= 0; i--) {
        int64_t o = (int64_t)(at % (size_t)w->out[i]);
        at /= (size_t)w->out[i];
        where[i] = (double)(o * w->stride[i] - w->begin[i]);
    }
}

/* Adds tap `tap`'s place in the kernel. */
static void add_tap(const struct tmk_window *w, size_t tap, double *where) {
    for (int32_t i = w->n - 1; i >= 0; i--) {
        where[i] += (double)((int64_t)(tap % (size_t)w->kernel[i]) * w->dilation[i]);
        tap /= (size_t)w->kernel[i];
    }
}

/* One image: columns[(c * taps + t) * BLOCK + j] for outputs first + j, j < n. */
static void fill_columns(const struct deform *d, const float *x, size_t channels,
                         const float *offset, const float *mask, size_t first, size_t n,
                         float *columns) {
    const struct tmk_window *w = &d->window;
    size_t taps = tmk_window_taps(w), area = tmk_window_in(w), places = tmk_window_out(w),
           share = channels / d->offset_groups, axes = (size_t)w->n;
    for (size_t g = 0; g < d->offset_groups; g++)
        for (size_t t = 0; t < taps; t++)
            for (size_t j = 0; j < n; j++) {
                double where[AXES];
                struct blend blend;
                first_tap(w, first + j, where);
                add_tap(w, t, where);
                for (size_t i = 0; i < axes; i++)
                    where[i] += (double)offset[((g * taps + t) * axes + i) * places + first + j];
                find_blend(w, where, mask ? (double)mask[(g * taps + t) * places + first + j] : 1,
                           &blend);
                for (size_t c = g * share; c < (g + 1) * share; c++) {
                    double sum = 0;
                    for (int k = 0; k < blend.n; k++)
                        sum += blend.weight[k] * (double)x[c * area + (size_t)blend.at[k]];
                    columns[(c * taps + t) * BLOCK + j] = (float)sum;
                }
            }
}

/* y[j] = bias + the sum over k < depth of w[k] * columns[k][j] */
static void multiply_columns(size_t depth, const float *w, const float *columns, float bias,
                             size_t n, float *y) {
    double sum[BLOCK] = {0};
    for (size_t k = 0; k < depth; k++)
        for (size_t j = 0; j < n; j++)
            sum[j] += (double)w[k] * (double)columns[k * BLOCK + j];
    for (size_t j = 0; j < n; j++)
        y[j] = (float)(sum[j] + (double)bias);
}

static enum tmk_status run_deform(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *w = run->in[1], *bias = tmk_run_in(run, 3),
                            *mask = tmk_run_in(run, 4);
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct deform d;
    TMK_TRY(read_deform(run->node, &x->shape, &w->shape, &d, run->diag));
    size_t channels = (size_t)x->shape.dim[1], outputs = (size_t)w->shape.dim[0],
           taps = tmk_window_taps(&d.window), area = tmk_window_in(&d.window),
           places = tmk_window_out(&d.window), depth = channels / d.groups * taps,
           share = outputs / d.groups;
    size_t offsets = d.offset_groups * taps * (size_t)d.window.n * places,
           masks = d.offset_groups * taps * places;
    float *columns;
    TMK_TRY(tmk_scratch_floats(run, channels, taps, BLOCK, &columns));
    for (size_t b = 0; b < (size_t)x->shape.dim[0]; b++)
        for (size_t first = 0; first < places; first += BLOCK) {
            size_t n = places - first < BLOCK ? places - first : BLOCK;
            fill_columns(&d, (const float *)x->data + b * channels * area, channels,
                         (const float *)run->in[2]->data + b * offsets,
                         mask ? (const float *)mask->data + b * masks : NULL, first, n, columns);
            for (size_t o = 0; o < outputs; o++)
                multiply_columns(depth, (const float *)w->data + o * depth,
                                 columns + o / share * depth * BLOCK,
                                 bias ? ((const float *)bias->data)[o] : 0, n,
                                 (float *)y->data + (b * outputs + o) * places + first);
        }
    return TMK_OK;
}

const struct tmk_op tmk_ops_deform_conv[] = {
    {TMK_OP_ONNX("DeformConv", 19, INT32_MAX), TMK_OP_COUNTS(3, 5, 1, 1),
     .channel = TMK_CHANNEL_AXIS1,
     .attrs = "dilations:ints group:int kernel_shape:ints offset_group:int pads:ints strides:ints",
     .infer = infer_deform, .run = run_deform, .cost = tmk_cost_conv},
    {NULL}};
