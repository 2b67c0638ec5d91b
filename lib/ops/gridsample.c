/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample: each output position looks up a point of the input, given in [-1, 1] along every
 * axis, and blends the elements around it. The blend is a product of one-dimensional weights: 1 tap
 * an axis (nearest), 2 (linear), or 4 (cubic convolution with a = -0.75, R. Keys, IEEE Trans. ASSP
 * 29, 1981). */
#include <math.h>

#include "ops/contrib.h"
#include "ops/kernel.h"
#include "ops/move.h"

enum sample_mode { SAMPLE_NEAREST = 1, SAMPLE_LINEAR = 2, SAMPLE_CUBIC = 4 }; /* taps an axis */
enum sample_padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

struct sampling {
    enum sample_mode mode;
    enum sample_padding padding;
    bool align;
};

/* Version 16 has bilinear and bicubic where version 20 has linear and cubic. */
static enum tmk_status read_sampling(const struct tmk_node *node, struct sampling *s,
                                     struct tmk_diag *diag) {
    static const enum sample_mode modes[] = {SAMPLE_LINEAR, SAMPLE_LINEAR, SAMPLE_CUBIC,
                                             SAMPLE_CUBIC, SAMPLE_NEAREST};
    int mode, padding;
    TMK_TRY(tmk_choice(node, "mode", "linear bilinear cubic bicubic nearest", &mode, diag));
    TMK_TRY(tmk_choice(node, "padding_mode", "zeros border reflection", &padding, diag));
    s->mode = modes[mode];
    s->padding = (enum sample_padding)padding;
    s->align = tmk_node_int(node, "align_corners", 0) != 0;
    return TMK_OK;
}

static enum tmk_status sample_infer(struct tmk_infer *infer) {
    struct sampling s;
    const struct tmk_shape *in = &infer->in[0]->shape, *grid = &infer->in[1]->shape;
    TMK_TRY(read_sampling(infer->node, &s, infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "the input", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_FLOAT32, "the grid", infer->diag));
    bool fits = in->rank >= 3 && grid->rank == in->rank && grid->dim[0] == in->dim[0] &&
                grid->dim[grid->rank - 1] == in->rank - 2;
    for (int32_t i = 2; i < in->rank && fits; i++)
        fits = in->dim[i] > 0;
    if (!fits)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "a grid of shape %s does not fit an input of shape %s",
                        TMK_SHAPE_TEXT(grid), TMK_SHAPE_TEXT(in));
    struct tmk_shape shape = {.rank = in->rank, .dim = {in->dim[0], in->dim[1]}};
    for (int32_t i = 2; i < in->rank; i++)
        shape.dim[i] = grid->dim[i - 1];
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* Folds x back and forth into [low, high]. */
static double reflect_position(double x, double low, double high) {
    double range = high - low;
    if (range <= 0)
        return low;
    double away = x < low ? low - x : x > high ? x - high : -1;
    if (away < 0)
        return x;
    bool from_low = x < low;
    double turns = floor(away / range), rest = away - turns * range;
    bool odd = fmod(turns, 2) != 0;
    return from_low != odd ? low + rest : high - rest;
}

/* The element at integer position i of an axis, or -1 for zero. */
static int64_t element_at(const struct sampling *s, double i, int64_t size) {
    double last = (double)(size - 1), edge = s->align ? 0.0 : 0.5;
    if (s->padding == PAD_ZEROS)
        return i >= 0 && i <= last ? (int64_t)i : -1;
    if (s->padding == PAD_REFLECTION)
        i = trunc(reflect_position(i, -edge, last + edge));
    return i <= 0 ? 0 : i >= last ? size - 1 : (int64_t)i;
}

struct taps {
    int64_t at[4]; /* -1: zero */
    double weight[4];
};

static void cubic_weights(double t, double weight[4]) {
    const double a = -0.75;
    double d[4] = {t + 1, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++) {
        double x = d[i];
        weight[i] = i == 1 || i == 2 ? ((a + 2) * x - (a + 3)) * x * x + 1
                                     : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    }
}

/* The taps of one axis for a normalised coordinate. */
static void find_taps(const struct sampling *s, float coordinate, int64_t size, struct taps *taps) {
    const double far = 1e9; /* NaN and infinity are beyond every border */
    double last = (double)(size - 1), edge = s->align ? 0.0 : 0.5;
    float length = (float)size, n = coordinate + 1.0f;
    double x = s->align ? n / 2.0f * (length - 1.0f) : (n * length - 1.0f) / 2.0f;
    x = !(x > -far) ? -far : x > far ? far : x;
    if (s->mode == SAMPLE_NEAREST)
        x = rint(x);
    /* a cubic's taps meet the border one by one, as where the models come from */
    if (s->mode != SAMPLE_CUBIC && (x < -edge || x > last + edge)) {
        if (s->padding == PAD_BORDER)
            x = x < 0 ? 0 : last;
        else if (s->padding == PAD_REFLECTION)
            x = reflect_position(x, -edge, last + edge);
    }
    if (s->mode == SAMPLE_NEAREST) {
        taps->at[0] = element_at(s, trunc(x), size);
        taps->weight[0] = 1;
        return;
    }
    double first = floor(x), t = x - first;
    if (s->mode == SAMPLE_LINEAR) {
        taps->weight[0] = 1 - t;
        taps->weight[1] = t;
    } else {
        cubic_weights(t, taps->weight);
        first -= 1;
    }
    for (int i = 0; i < (int)s->mode; i++)
        taps->at[i] = element_at(s, first + i, size);
}

/* One element of the blend; offset -1: outside, zero. */
struct part {
    int64_t offset;
    double weight;
};

/* All combinations of one tap an axis that are not outside; answers how many. */
static size_t combine_taps(const struct sampling *s, const struct taps *taps, const int64_t *stride,
                           int32_t rank, struct part *parts) {
    size_t n = 1, used = 0;
    parts[0] = (struct part){0, 1};
    for (int32_t k = 0; k < rank; k++) {
        /* from the end, so that part i's children do not fall on parts still to come */
        for (size_t i = n; i-- > 0;)
            for (int t = (int)s->mode; t-- > 0;) {
                int64_t at = taps[k].at[t], before = parts[i].offset;
                parts[i * s->mode + (size_t)t] =
                    (struct part){at < 0 || before < 0 ? -1 : before + at * stride[k],
                                  parts[i].weight * taps[k].weight[t]};
            }
        n *= s->mode;
    }
    for (size_t i = 0; i < n; i++)
        if (parts[i].offset >= 0)
            parts[used++] = parts[i];
    return used;
}

static enum tmk_status sample_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0], *grid = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    struct sampling s;
    TMK_TRY(read_sampling(run->node, &s, run->diag));
    int32_t rank = in->shape.rank - 2;
    size_t most = 1;
    for (int32_t k = 0; k < rank; k++)
        most *= s.mode; /* at most 4^10 */
    struct part *parts = run->scratch(run->context, most * sizeof *parts);
    TMK_TRY_ALLOC(parts, run->diag);
    int64_t stride[TMK_MAX_RANK];
    tmk_strides(&in->shape, stride);
    size_t channels = (size_t)in->shape.dim[1];
    size_t places = tmk_shape_product(&out->shape, 2, out->shape.rank);
    size_t image = tmk_shape_product(&in->shape, 2, in->shape.rank);
    const float *point = grid->data;
    for (size_t n = 0; n < (size_t)in->shape.dim[0]; n++)
        for (size_t p = 0; p < places; p++, point += rank) {
            struct taps taps[TMK_MAX_RANK];
            for (int32_t k = 0; k < rank; k++) /* the grid names the innermost axis first */
                find_taps(&s, point[rank - 1 - k], in->shape.dim[2 + k], &taps[k]);
            size_t used = combine_taps(&s, taps, stride + 2, rank, parts);
            for (size_t c = 0; c < channels; c++) {
                const float *from = (const float *)in->data + (n * channels + c) * image;
                double sum = 0;
                for (size_t i = 0; i < used; i++)
                    sum += parts[i].weight * (double)from[parts[i].offset];
                ((float *)out->data)[(n * channels + c) * places + p] = (float)sum;
            }
        }
    return TMK_OK;
}

static const char gridsample_attrs[] = "align_corners:int mode:string padding_mode:string";

/* AffineGrid: for every place of an output image (or volume), the place of the input that an affine
 * map sends it to, both from -1 to 1 along each axis; GridSample takes it. */

static enum tmk_status infer_affine_grid(struct tmk_infer *infer) {
    const struct tmk_tensor *theta = infer->in[0], *size = infer->in[1];
    const int64_t *dim = theta->shape.dim;
    int64_t want[5];
    size_t n;
    TMK_TRY(tmk_want_dtype(theta, TMK_FLOAT32, "theta", infer->diag));
    if (theta->shape.rank != 3 || (dim[1] != 2 && dim[1] != 3) || dim[2] != dim[1] + 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'theta' is %s, not [N,2,3] or [N,3,4]",
                        TMK_SHAPE_TEXT(&theta->shape));
    TMK_TRY(
        tmk_want_shape(size, TMK_INT64, "size", &(struct tmk_shape){1, {dim[1] + 2}}, infer->diag));
    if (!size->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(size, "size", TMK_COUNT(want), want, &n, infer->diag));
    struct tmk_shape shape = {(int32_t)n, {dim[0]}};
    if (want[0] != dim[0])
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'size' is for %lld images, 'theta' for %lld",
                        (long long)want[0], (long long)dim[0]);
    for (size_t i = 2; i < n; i++) {
        if (want[i] < 0)
            return tmk_fail(infer->diag, TMK_RANGE, "input 'size' has %lld", (long long)want[i]);
        shape.dim[i - 1] = want[i];
    }
    shape.dim[n - 1] = dim[1];
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* Place i of n: from border to border, or the middles of n equal parts. */
static double grid_place(size_t i, size_t n, bool corners) {
    if (corners)
        return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
    return (2 * (double)i + 1) / (double)n - 1;
}

static enum tmk_status run_affine_grid(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool corners = tmk_node_int(run->node, "align_corners", 0) != 0;
    size_t axes = (size_t)run->in[0]->shape.dim[1], wide = axes + 1;
    /* depth, height, width; an image is one deep */
    size_t depth = axes == 3 ? (size_t)y->shape.dim[1] : 1, height = (size_t)y->shape.dim[axes - 1],
           width = (size_t)y->shape.dim[axes], points = depth * height * width;
    float *to = y->data;
    for (size_t b = 0; b < (size_t)y->shape.dim[0]; b++) {
        const float *theta = (const float *)run->in[0]->data + b * axes * wide;
        for (size_t p = 0; p < points; p++, to += axes) {
            double at[] = {grid_place(p % width, width, corners),
                           grid_place(p / width % height, height, corners),
                           grid_place(p / width / height, depth, corners)};
            for (size_t r = 0; r < axes; r++) {
                double sum = (double)theta[r * wide + axes];
                for (size_t c = 0; c < axes; c++)
                    sum += (double)theta[r * wide + c] * at[c];
                to[r] = (float)sum;
            }
        }
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_gridsample[] = {
    {TMK_OP_ONNX("GridSample", 16, 19), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = gridsample_attrs,
     .infer = sample_infer, .run = sample_run},
    {TMK_OP_ONNX("GridSample", 20, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = gridsample_attrs,
     .infer = sample_infer, .run = sample_run},
    {TMK_OP_CONTRIB("GridSample"), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = gridsample_attrs,
     .infer = sample_infer, .run = sample_run},
    {TMK_OP_ONNX("AffineGrid", 20, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .channel = TMK_CHANNEL_LAST, .attrs = "align_corners:int", .infer = infer_affine_grid,
     .run = run_affine_grid},
    {NULL}};
