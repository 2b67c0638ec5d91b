/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample. Linear and cubic interpolation go axis by axis, last axis first; integers
 * are interpolated in float32 and cut towards zero (rounded with antialiasing), as in ONNX Runtime.
 */
#include "ops/resize.h"

#include <math.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/move.h"

/* ---- what is asked for ---- */

/* In the order of the enums. */
static const char places[] = "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners "
                             "asymmetric tf_half_pixel_for_nn tf_crop_and_resize",
                  nearests[] = "round_prefer_floor round_prefer_ceil floor ceil";

/* Operator sets before 11 know a mode only. */
static enum tmk_status read_options(const struct tmk_node *node, struct tmk_resize *r,
                                    struct tmk_diag *diag) {
    int mode = 0, place = 0, nearest = 0;
    if (node->row->until < 11) {
        TMK_TRY(tmk_choice(node, "mode", "nearest linear bilinear", &mode, diag));
        r->mode = mode ? TMK_RESIZE_LINEAR : TMK_RESIZE_NEAREST;
        r->place = TMK_PLACE_ASYMMETRIC;
        r->nearest = TMK_NEAREST_SIMPLE;
        return TMK_OK;
    }
    TMK_TRY(tmk_choice(node, "mode", "nearest linear cubic", &mode, diag));
    TMK_TRY(tmk_choice(node, "coordinate_transformation_mode", places, &place, diag));
    TMK_TRY(tmk_choice(node, "nearest_mode", nearests, &nearest, diag));
    r->mode = (enum tmk_resize_mode)mode;
    r->place = (enum tmk_resize_place)place;
    r->nearest = (enum tmk_resize_nearest)nearest;
    r->antialias = tmk_node_int(node, "antialias", 0) != 0;
    r->exclude_outside = tmk_node_int(node, "exclude_outside", 0) != 0;
    r->cubic_a = tmk_node_float(node, "cubic_coeff_a", -0.75f);
    r->extrapolation = tmk_node_float(node, "extrapolation_value", 0);
    return TMK_OK;
}

/* The axes that scales, sizes and roi speak of. */
static enum tmk_status read_axes(const struct tmk_node *node, int32_t rank,
                                 int32_t axes[TMK_MAX_RANK], size_t *n, struct tmk_diag *diag) {
    size_t given;
    bool seen[TMK_MAX_RANK] = {false};
    const int64_t *values = tmk_node_ints(node, "axes", &given);
    *n = values ? given : (size_t)rank;
    if (*n > (size_t)rank)
        return tmk_fail(diag, TMK_RANGE, "attribute 'axes' names %zu axes of %d", given, (int)rank);
    for (size_t i = 0; i < *n; i++) {
        TMK_TRY(tmk_axis(values ? values[i] : (int64_t)i, rank, &axes[i], diag));
        if (seen[axes[i]])
            return tmk_fail(diag, TMK_RANGE, "attribute 'axes' names axis %d twice", (int)axes[i]);
        seen[axes[i]] = true;
    }
    return TMK_OK;
}

static enum tmk_status want_list(const struct tmk_tensor *list, size_t n, enum tmk_dtype dtype,
                                 const char *what, struct tmk_diag *diag) {
    return tmk_want_shape(list, dtype, what, &(struct tmk_shape){1, {(int64_t)n}}, diag);
}

static enum tmk_status set_scale(struct tmk_resize *r, int32_t axis, float scale,
                                 struct tmk_diag *diag) {
    /* the region of interest does not enter, against the specification: no implementation uses
     * it */
    float length = scale * (float)r->in[axis];
    if (!(scale > 0) || !isfinite(scale) || !(length < 0x1p62f))
        return tmk_fail(diag, TMK_RANGE, "axis %d of %lld elements is scaled by %g", (int)axis,
                        (long long)r->in[axis], (double)scale);
    r->scale[axis] = scale;
    r->length[axis] = length;
    r->out[axis] = (int64_t)length;
    return TMK_OK;
}

static enum tmk_status set_sizes(const struct tmk_node *node, struct tmk_resize *r,
                                 const int32_t *axes, size_t n, const int64_t *sizes,
                                 struct tmk_diag *diag) {
    int policy = 0;
    float common = 0;
    TMK_TRY(tmk_choice(node, "keep_aspect_ratio_policy", "stretch not_larger not_smaller", &policy,
                       diag));
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > INT64_MAX / 4 || (r->in[axes[i]] == 0 && sizes[i] > 0))
            return tmk_fail(diag, TMK_RANGE, "axis %d of %lld elements is to have %lld",
                            (int)axes[i], (long long)r->in[axes[i]], (long long)sizes[i]);
        r->out[axes[i]] = sizes[i];
        r->length[axes[i]] = (float)sizes[i];
        if (r->in[axes[i]] == 0)
            continue;
        float scale = (float)sizes[i] / (float)r->in[axes[i]];
        r->scale[axes[i]] = scale;
        if (common == 0 || (policy == 1 ? scale < common : scale > common))
            common = scale;
    }
    for (size_t i = 0; i < n && policy > 0; i++) {
        const double out = floor((double)common * (double)r->in[axes[i]] + 0.5);
        if (!(out < 0x1p62))
            return tmk_fail(diag, TMK_RANGE, "axis %d of %lld elements is scaled by %g",
                            (int)axes[i], (long long)r->in[axes[i]], (double)common);
        r->scale[axes[i]] = common;
        r->out[axes[i]] = (int64_t)out;
        r->length[axes[i]] = (float)r->out[axes[i]];
    }
    return TMK_OK;
}

/* All of the attributes and inputs but the region; *known is false where elements are missing.
 * Every axis that does not stay as it is has a scale > 0 or no output. */
static enum tmk_status read_resize(const struct tmk_node *node, const struct tmk_tensor *x,
                                   const struct tmk_tensor *scales, const struct tmk_tensor *sizes,
                                   struct tmk_resize *r, bool *known, struct tmk_diag *diag) {
    int32_t axes[TMK_MAX_RANK];
    int64_t list[TMK_MAX_RANK];
    size_t n, n_list;
    *r = (struct tmk_resize){.rank = x->shape.rank};
    *known = true;
    TMK_TRY(read_options(node, r, diag));
    TMK_TRY(read_axes(node, r->rank, axes, &n, diag));
    for (int32_t i = 0; i < r->rank; i++) {
        r->in[i] = r->out[i] = x->shape.dim[i];
        r->scale[i] = r->end[i] = 1;
    }
    if (scales && tmk_tensor_count(scales) == 0 && n > 0)
        scales = NULL;
    if (sizes && tmk_tensor_count(sizes) == 0 && n > 0)
        sizes = NULL;
    if (!scales == !sizes)
        return tmk_fail(diag, TMK_GRAPH, "%s of inputs 'scales' and 'sizes' given",
                        scales ? "both" : "none");
    if (scales) {
        TMK_TRY(want_list(scales, n, TMK_FLOAT32, "scales", diag));
        *known = scales->data != NULL;
        for (size_t i = 0; i < n && *known; i++)
            TMK_TRY(set_scale(r, axes[i], ((const float *)scales->data)[i], diag));
        return TMK_OK;
    }
    TMK_TRY(want_list(sizes, n, TMK_INT64, "sizes", diag));
    *known = sizes->data != NULL;
    if (!*known)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(sizes, "sizes", TMK_MAX_RANK, list, &n_list, diag));
    return set_sizes(node, r, axes, n, list, diag);
}

static enum tmk_status want_roi(const struct tmk_node *node, const struct tmk_resize *r,
                                const struct tmk_tensor *roi, struct tmk_diag *diag) {
    int32_t axes[TMK_MAX_RANK];
    size_t n;
    if (r->place != TMK_PLACE_TF_CROP_AND_RESIZE)
        return TMK_OK;
    if (!roi)
        return tmk_fail(diag, TMK_GRAPH, "input 'roi' is absent; tf_crop_and_resize needs it");
    TMK_TRY(read_axes(node, r->rank, axes, &n, diag));
    return want_list(roi, 2 * n, TMK_FLOAT32, "roi", diag);
}

static enum tmk_status infer_common(struct tmk_infer *infer, const struct tmk_tensor *roi,
                                    const struct tmk_tensor *scales,
                                    const struct tmk_tensor *sizes) {
    const struct tmk_tensor *x = infer->in[0];
    struct tmk_resize r;
    bool known;
    TMK_TRY(read_resize(infer->node, x, scales, sizes, &r, &known, infer->diag));
    if (!tmk_dtype_size(x->dtype) || (x->dtype == TMK_BOOL && r.mode != TMK_RESIZE_NEAREST))
        return tmk_fail(infer->diag, TMK_TYPE,
                        "the input is of type %s, which this mode does not take",
                        tmk_dtype_name(x->dtype));
    TMK_TRY(want_roi(infer->node, &r, roi, infer->diag));
    struct tmk_shape shape = {.rank = r.rank};
    memcpy(shape.dim, r.out, sizeof shape.dim);
    return known ? tmk_infer_set(infer, 0, x->dtype, &shape) : TMK_OK;
}

/* ---- running ---- */

static enum tmk_status make_table(struct tmk_run *run, const struct tmk_resize *r, int32_t axis,
                                  struct tmk_resize_axis *out) {
    struct tmk_resize_axis table = {.taps = tmk_resize_taps(r, axis)};
    size_t n = (size_t)r->out[axis], entries;
    TMK_TRY_ALLOC(tmk_mul_size(n, table.taps, &entries), run->diag);
    table.index = tmk_scratch(run, entries, sizeof *table.index);
    table.weight = tmk_scratch(run, entries, sizeof *table.weight);
    TMK_TRY_ALLOC(table.index && table.weight, run->diag);
    if (r->place == TMK_PLACE_TF_CROP_AND_RESIZE) {
        table.outside = run->scratch(run->context, n * sizeof *table.outside);
        TMK_TRY_ALLOC(table.outside, run->diag);
    }
    tmk_resize_fill(r, axis, &table);
    *out = table;
    return TMK_OK;
}

static size_t dims_product(const int64_t *dim, int32_t from, int32_t to) {
    size_t n = 1;
    for (int32_t i = from; i < to; i++)
        n *= (size_t)dim[i];
    return n;
}

/* Copies whole blocks of what lies inside the axis. */
static void copy_nearest(const struct tmk_resize_axis *table, size_t outer, size_t in, size_t out,
                         size_t block, const char *x, char *y) {
    for (size_t o = 0; o < outer; o++, x += in * block)
        for (size_t i = 0; i < out; i++, y += block) {
            const char *from = x + (size_t)table->index[i] * block;
            if (block == sizeof(float))
                memcpy(y, from, sizeof(float));
            else
                memcpy(y, from, block);
        }
}

static void blend_axis(const struct tmk_resize_axis *table, size_t outer, size_t in, size_t out,
                       size_t inner, const float *x, float *y) {
    for (size_t o = 0; o < outer; o++, x += in * inner)
        for (size_t i = 0; i < out; i++, y += inner) {
            const int64_t *index = table->index + i * table->taps;
            const float *weight = table->weight + i * table->taps;
            for (size_t t = 0; t < table->taps; t++) {
                const float *from = x + (size_t)index[t] * inner;
                if (t == 0)
                    for (size_t j = 0; j < inner; j++)
                        y[j] = weight[t] * from[j];
                else
                    for (size_t j = 0; j < inner; j++)
                        y[j] += weight[t] * from[j];
            }
        }
}

/* Resamples axis after axis, last first; elements of `size` bytes, float32 unless the mode is
 * nearest. The last result is written to y. */
static enum tmk_status resample_axes(struct tmk_run *run, const struct tmk_resize *r,
                                     struct tmk_resize_axis *tables, size_t size, const char *x,
                                     char *y) {
    int64_t dim[TMK_MAX_RANK];
    int32_t last = -1;
    memcpy(dim, r->in, sizeof dim);
    for (int32_t i = r->rank - 1; i >= 0; i--)
        if (tmk_resize_moves(r, i)) {
            TMK_TRY(make_table(run, r, i, &tables[i]));
            last = i;
        }
    if (last < 0)
        memcpy(y, x, dims_product(dim, 0, r->rank) * size);
    for (int32_t i = r->rank - 1; i >= 0 && last >= 0; i--) {
        if (!tables[i].index)
            continue;
        size_t outer = dims_product(dim, 0, i), inner = dims_product(dim, i + 1, r->rank),
               in = (size_t)dim[i], out = (size_t)r->out[i], lines;
        dim[i] = r->out[i];
        char *to = y;
        if (i != last) {
            to = tmk_mul_size(outer, out, &lines) ? tmk_scratch(run, lines, inner * size) : NULL;
            TMK_TRY_ALLOC(to, run->diag);
        }
        if (r->mode == TMK_RESIZE_NEAREST)
            copy_nearest(&tables[i], outer, in, out, inner * size, x, to);
        else
            blend_axis(&tables[i], outer, in, out, inner, (const float *)x, (float *)to);
        x = to;
    }
    return TMK_OK;
}

/* Calls TMK_X(dtype, type, lowest, highest) for every integer type; the limits as doubles that
 * convert safely. */
#define TMK_INTEGERS(X)                                                                            \
    X(TMK_INT8, int8_t, INT8_MIN, INT8_MAX)                                                        \
    X(TMK_UINT8, uint8_t, 0, UINT8_MAX)                                                            \
    X(TMK_INT16, int16_t, INT16_MIN, INT16_MAX)                                                    \
    X(TMK_UINT16, uint16_t, 0, UINT16_MAX)                                                         \
    X(TMK_INT32, int32_t, INT32_MIN, INT32_MAX)                                                    \
    X(TMK_UINT32, uint32_t, 0, UINT32_MAX)                                                         \
    X(TMK_INT64, int64_t, -0x1p63, 0x1.fffffffffffffp62)                                           \
    X(TMK_UINT64, uint64_t, 0, 0x1.fffffffffffffp63)

static void to_float(const struct tmk_tensor *x, float *y) {
    size_t n = tmk_tensor_count(x);
    switch (x->dtype) {
#define TMK_TO_FLOAT(dtype, type, lowest, highest)                                                 \
    case dtype:                                                                                    \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (float)((const type *)x->data)[i];                                              \
        return;
        TMK_INTEGERS(TMK_TO_FLOAT)
#undef TMK_TO_FLOAT
    default:
        return;
    }
}

static void from_float(const float *x, bool rounded, size_t n, enum tmk_dtype dtype, void *y) {
    switch (dtype) {
#define TMK_FROM_FLOAT(dtype, type, lowest, highest)                                               \
    case dtype:                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                           \
            double value = rounded ? rint((double)x[i]) : (double)x[i];                            \
            value = value > (double)(lowest) ? value : (double)(lowest);                           \
            ((type *)y)[i] = (type)(value < (double)(highest) ? value : (double)(highest));        \
        }                                                                                          \
        return;
        TMK_INTEGERS(TMK_FROM_FLOAT)
#undef TMK_FROM_FLOAT
    default:
        memcpy(y, x, n * sizeof *x);
    }
}

/* Every element of which one coordinate lies outside. */
static void fill_outside(const struct tmk_resize *r, const struct tmk_resize_axis *tables,
                         struct tmk_tensor *y) {
    uint64_t value = 0; /* one element of y's type */
    size_t size = tmk_dtype_size(y->dtype);
    if (y->dtype == TMK_BOOL)
        value = r->extrapolation != 0;
    else
        from_float(&r->extrapolation, false, 1, y->dtype, &value);
    for (int32_t i = 0; i < r->rank; i++) {
        size_t outer = dims_product(r->out, 0, i), inner = dims_product(r->out, i + 1, r->rank),
               n = (size_t)r->out[i];
        for (size_t j = 0; tables[i].outside && j < outer * n; j++)
            if (tables[i].outside[j % n])
                tmk_fill((char *)y->data + j * inner * size, &value, size, inner);
    }
}

static enum tmk_status run_common(struct tmk_run *run, const struct tmk_tensor *roi,
                                  const struct tmk_tensor *scales, const struct tmk_tensor *sizes) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = run->out[0];
    struct tmk_resize r;
    struct tmk_resize_axis tables[TMK_MAX_RANK] = {0};
    int32_t axes[TMK_MAX_RANK];
    size_t n;
    bool known;
    TMK_TRY(read_resize(run->node, x, scales, sizes, &r, &known, run->diag));
    if (!y)
        return TMK_OK;
    size_t count = tmk_tensor_count(y);
    if (count == 0)
        return TMK_OK;
    TMK_TRY(read_axes(run->node, r.rank, axes, &n, run->diag));
    for (size_t i = 0; i < n && r.place == TMK_PLACE_TF_CROP_AND_RESIZE; i++) {
        r.start[axes[i]] = ((const float *)roi->data)[i];
        r.end[axes[i]] = ((const float *)roi->data)[n + i];
    }
    if (x->dtype == TMK_FLOAT32 || r.mode == TMK_RESIZE_NEAREST) {
        TMK_TRY(resample_axes(run, &r, tables, tmk_dtype_size(x->dtype), x->data, y->data));
    } else {
        float *in = run->scratch(run->context, tmk_tensor_count(x) * sizeof *in),
              *out = run->scratch(run->context, count * sizeof *out);
        TMK_TRY_ALLOC(in && out, run->diag);
        to_float(x, in);
        TMK_TRY(resample_axes(run, &r, tables, sizeof *in, (const char *)in, (char *)out));
        from_float(out, r.antialias, count, y->dtype, y->data);
    }
    fill_outside(&r, tables, y);
    return TMK_OK;
}

/* Upsample and Resize 10 have scales as input 1; later there are roi, scales and sizes. */
static enum tmk_status infer_scales(struct tmk_infer *infer) {
    return infer_common(infer, NULL, infer->in[1], NULL);
}

static enum tmk_status run_scales(struct tmk_run *run) {
    return run_common(run, NULL, run->in[1], NULL);
}

static enum tmk_status infer_resize(struct tmk_infer *infer) {
    return infer_common(infer, tmk_infer_in(infer, 1), tmk_infer_in(infer, 2),
                        tmk_infer_in(infer, 3));
}

static enum tmk_status run_resize(struct tmk_run *run) {
    return run_common(run, tmk_run_in(run, 1), tmk_run_in(run, 2), tmk_run_in(run, 3));
}

/* The oldest Upsamples carry the scales as attributes: the tensor that they are as an input. */
static enum tmk_status attr_scales(const struct tmk_node *node, int32_t rank,
                                   float storage[TMK_MAX_RANK], struct tmk_tensor *out,
                                   struct tmk_diag *diag) {
    size_t n = 4;
    if (node->row->since == 1) {
        if (rank != 4)
            return tmk_fail(diag, TMK_SHAPE, "the input has rank %d, not 4", (int)rank);
        storage[0] = storage[1] = 1;
        storage[2] = tmk_node_float(node, "height_scale", 1);
        storage[3] = tmk_node_float(node, "width_scale", 1);
    } else {
        const float *values = tmk_node_floats(node, "scales", &n);
        if (n > TMK_MAX_RANK)
            return tmk_fail(diag, TMK_SHAPE, "attribute 'scales' has %zu entries", n);
        if (n)
            memcpy(storage, values, n * sizeof *values);
    }
    struct tmk_shape shape = {1, {(int64_t)n}};
    tmk_tensor_borrow(out, TMK_FLOAT32, &shape, storage);
    return TMK_OK;
}

static enum tmk_status infer_attr_scales(struct tmk_infer *infer) {
    float storage[TMK_MAX_RANK];
    struct tmk_tensor scales;
    TMK_TRY(attr_scales(infer->node, infer->in[0]->shape.rank, storage, &scales, infer->diag));
    return infer_common(infer, NULL, &scales, NULL);
}

static enum tmk_status run_attr_scales(struct tmk_run *run) {
    float storage[TMK_MAX_RANK];
    struct tmk_tensor scales;
    TMK_TRY(attr_scales(run->node, run->in[0]->shape.rank, storage, &scales, run->diag));
    return run_common(run, NULL, &scales, NULL);
}

/* ---- rows ---- */

#define TMK_RESIZE_MODE "mode:string"
#define TMK_RESIZE_ATTRS                                                                           \
    TMK_RESIZE_MODE " coordinate_transformation_mode:string cubic_coeff_a:float "                  \
                    "exclude_outside:int extrapolation_value:float nearest_mode:string"

/* Operator set 11 requires roi and scales too, but files leave them out. */
const struct tmk_op tmk_ops_resize[] = {
    {TMK_OP_ONNX("Upsample", 1, 6), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_MODE " height_scale:float! width_scale:float!", .infer = infer_attr_scales,
     .run = run_attr_scales},
    {TMK_OP_ONNX("Upsample", 7, 8), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_MODE " scales:floats!", .infer = infer_attr_scales,
     .run = run_attr_scales},
    {TMK_OP_ONNX("Upsample", 9, 9), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_MODE, .infer = infer_scales, .run = run_scales},
    {TMK_OP_ONNX("Resize", 10, 10), TMK_OP_COUNTS(2, 2, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_MODE, .infer = infer_scales, .run = run_scales},
    {TMK_OP_ONNX("Resize", 11, 17), TMK_OP_COUNTS(1, 4, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_ATTRS, .infer = infer_resize, .run = run_resize},
    {TMK_OP_ONNX("Resize", 18, INT32_MAX), TMK_OP_COUNTS(1, 4, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_RESIZE_ATTRS " antialias:int axes:ints keep_aspect_ratio_policy:string",
     .infer = infer_resize, .run = run_resize},
    {NULL}};
