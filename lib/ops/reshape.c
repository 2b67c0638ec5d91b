/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that give the same elements another shape, or none: Reshape, Flatten, Squeeze,
 * Unsqueeze, Identity; and what tells a shape: Shape, Size. */
#include <string.h>

#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/stack.h"

/* ---- Reshape ---- */

static enum tmk_status infer_reshape(struct tmk_infer *infer, const int64_t *asked, size_t n,
                                     bool zero_is_zero) {
    const struct tmk_shape *in = &infer->in[0]->shape;
    struct tmk_diag *diag = infer->diag;
    size_t have, count;
    if (n > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_SHAPE, "the new shape has %zu dimensions; at most %d", n,
                        TMK_MAX_RANK);
    if (!tmk_shape_count(in, &have))
        return tmk_fail(diag, TMK_RANGE, "the input is too large");
    struct tmk_shape shape = {.rank = (int32_t)n};
    int32_t open = -1;
    bool zero = false;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dim[i] = asked[i];
        if (asked[i] == -1) {
            if (open >= 0)
                return tmk_fail(diag, TMK_SHAPE, "the new shape has -1 twice");
            open = i;
            shape.dim[i] = 1;
        } else if (asked[i] == 0 && !zero_is_zero) {
            if (i >= in->rank)
                return tmk_fail(diag, TMK_SHAPE,
                                "the new shape copies dimension %d of an input of shape %s", i,
                                TMK_SHAPE_TEXT(in));
            shape.dim[i] = in->dim[i];
        } else if (asked[i] < 0) {
            return tmk_fail(diag, TMK_RANGE, "the new shape's dimension %d is %lld", i,
                            (long long)asked[i]);
        }
        zero |= asked[i] == 0;
    }
    if (open >= 0 && zero && zero_is_zero)
        return tmk_fail(diag, TMK_SHAPE, "with allowzero the new shape cannot have both 0 and -1");
    if (!tmk_shape_count(&shape, &count))
        return tmk_fail(diag, TMK_RANGE, "the new shape %s is too large", TMK_SHAPE_TEXT(&shape));
    if (open >= 0) {
        if (count == 0 || have % count != 0 || have / count > INT64_MAX)
            return tmk_fail(diag, TMK_SHAPE,
                            "%zu elements are no multiple of %zu, so -1 has no size", have, count);
        shape.dim[open] = (int64_t)(have / count);
        count = have;
    }
    if (count != have)
        return tmk_fail(diag, TMK_SHAPE, "%zu elements do not fit shape %s", have,
                        TMK_SHAPE_TEXT(&shape));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status reshape_1_infer(struct tmk_infer *infer) {
    size_t n;
    const int64_t *asked = tmk_node_ints(infer->node, "shape", &n);
    return infer_reshape(infer, asked, n, false);
}

static enum tmk_status reshape_5_infer(struct tmk_infer *infer) {
    int64_t asked[TMK_MAX_RANK];
    size_t n;
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "the new shape", infer->diag));
    if (!infer->in[1]->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(infer->in[1], "the new shape", TMK_MAX_RANK, asked, &n, infer->diag));
    return infer_reshape(infer, asked, n, tmk_node_int(infer->node, "allowzero", 0) != 0);
}

/* ---- Flatten ---- */

static enum tmk_status flatten_infer(struct tmk_infer *infer) {
    const struct tmk_shape *in = &infer->in[0]->shape;
    int64_t axis = tmk_node_int(infer->node, "axis", 1);
    if (axis < -in->rank || axis > in->rank)
        return tmk_fail(infer->diag, TMK_RANGE, "axis %lld is out of range for rank %d",
                        (long long)axis, in->rank);
    if (axis < 0)
        axis += in->rank;
    struct tmk_shape shape = {.rank = 2, .dim = {1, 1}};
    for (int32_t i = 0; i < in->rank; i++)
        if (!tmk_mul_i64(shape.dim[i >= axis], in->dim[i], &shape.dim[i >= axis]))
            return tmk_fail(infer->diag, TMK_RANGE, "the flattened dimensions overflow");
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

/* ---- Squeeze and Unsqueeze ---- */

/* Marks the axes that are named. */
static enum tmk_status mark_axes(const int64_t *axes, size_t n, int32_t rank,
                                 bool marked[TMK_MAX_RANK], struct tmk_diag *diag) {
    for (size_t i = 0; i < n; i++) {
        int32_t axis;
        TMK_TRY(tmk_axis(axes[i], rank, &axis, diag));
        if (marked[axis])
            return tmk_fail(diag, TMK_RANGE, "axis %d is named twice", axis);
        marked[axis] = true;
    }
    return TMK_OK;
}

static enum tmk_status infer_squeeze(struct tmk_infer *infer, const int64_t *axes, size_t n) {
    const struct tmk_shape *in = &infer->in[0]->shape;
    bool gone[TMK_MAX_RANK] = {false};
    TMK_TRY(mark_axes(axes, n, in->rank, gone, infer->diag));
    struct tmk_shape shape = {0};
    for (int32_t i = 0; i < in->rank; i++) {
        if (axes ? !gone[i] : in->dim[i] != 1)
            shape.dim[shape.rank++] = in->dim[i];
        else if (in->dim[i] != 1)
            return tmk_fail(infer->diag, TMK_SHAPE, "axis %d is %lld long and cannot be squeezed",
                            i, (long long)in->dim[i]);
    }
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status infer_unsqueeze(struct tmk_infer *infer, const int64_t *axes, size_t n) {
    const struct tmk_shape *in = &infer->in[0]->shape;
    if (n > (size_t)(TMK_MAX_RANK - in->rank))
        return tmk_fail(infer->diag, TMK_SHAPE, "%zu axes more than %d are too many; at most %d", n,
                        in->rank, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = in->rank + (int32_t)n};
    bool added[TMK_MAX_RANK] = {false};
    TMK_TRY(mark_axes(axes, n, shape.rank, added, infer->diag));
    for (int32_t i = 0, from = 0; i < shape.rank; i++)
        shape.dim[i] = added[i] ? 1 : in->dim[from++];
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status squeeze_1_infer(struct tmk_infer *infer) {
    size_t n;
    const int64_t *axes = tmk_node_ints(infer->node, "axes", &n);
    return infer_squeeze(infer, n ? axes : NULL, n);
}

static enum tmk_status unsqueeze_1_infer(struct tmk_infer *infer) {
    size_t n;
    const int64_t *axes = tmk_node_ints(infer->node, "axes", &n);
    return infer_unsqueeze(infer, axes, n);
}

/* Version 13: the axes are input 1. *known is false when its elements are not given. */
static enum tmk_status input_axes(struct tmk_infer *infer, int64_t axes[TMK_MAX_RANK], size_t *n,
                                  bool *known) {
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "the axes", infer->diag));
    *known = infer->in[1]->data != NULL;
    return *known ? tmk_read_ints(infer->in[1], "the axes", TMK_MAX_RANK, axes, n, infer->diag)
                  : TMK_OK;
}

static enum tmk_status squeeze_13_infer(struct tmk_infer *infer) {
    int64_t axes[TMK_MAX_RANK];
    size_t n;
    bool known;
    if (!tmk_infer_in(infer, 1))
        return infer_squeeze(infer, NULL, 0);
    TMK_TRY(input_axes(infer, axes, &n, &known));
    return known ? infer_squeeze(infer, axes, n) : TMK_OK;
}

static enum tmk_status unsqueeze_13_infer(struct tmk_infer *infer) {
    int64_t axes[TMK_MAX_RANK];
    size_t n;
    bool known;
    TMK_TRY(input_axes(infer, axes, &n, &known));
    return known ? infer_unsqueeze(infer, axes, n) : TMK_OK;
}

/* ---- Identity ---- */

static enum tmk_status identity_infer(struct tmk_infer *infer) {
    return infer->in[0]->kind == TMK_TYPE_TENSOR ? tmk_infer_same(infer) : TMK_OK;
}

static enum tmk_status identity_run(struct tmk_run *run) {
    if (run->in[0]->kind == TMK_TYPE_TENSOR)
        return tmk_run_view(run);
    struct tmk_tensor same;
    TMK_TRY(tmk_tensor_keep(&same, run->in[0], run->diag));
    tmk_give(run, 0, &same);
    return TMK_OK;
}

/* Shape and Size: what is known of a tensor without its elements. */

/* A bound of the slice that version 15 takes of the shape. */
static int32_t read_bound(const struct tmk_node *node, const char *name, int32_t otherwise,
                          int32_t rank) {
    int64_t at = tmk_node_int(node, name, otherwise);
    if (at < 0)
        at += rank;
    return at < 0 ? 0 : at > rank ? rank : (int32_t)at;
}

static void slice_range(const struct tmk_node *node, int32_t rank, int32_t *start, int32_t *n) {
    int32_t end = read_bound(node, "end", rank, rank);
    *start = read_bound(node, "start", 0, rank);
    *n = end > *start ? end - *start : 0;
}

static enum tmk_status shape_infer(struct tmk_infer *infer) {
    int32_t start, n;
    slice_range(infer->node, infer->in[0]->shape.rank, &start, &n);
    return tmk_infer_set(infer, 0, TMK_INT64, &(struct tmk_shape){1, {n}});
}

static enum tmk_status shape_run(struct tmk_run *run) {
    int32_t start, n;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    slice_range(run->node, run->in[0]->shape.rank, &start, &n);
    if (out)
        memcpy(out->data, run->in[0]->shape.dim + start, (size_t)n * sizeof(int64_t));
    return TMK_OK;
}

static enum tmk_status size_infer(struct tmk_infer *infer) {
    size_t n;
    if (!tmk_shape_count(&infer->in[0]->shape, &n) || n > INT64_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "the input is too large");
    return tmk_infer_set(infer, 0, TMK_INT64, &(struct tmk_shape){0});
}

static enum tmk_status size_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(int64_t *)out->data = (int64_t)tmk_tensor_count(run->in[0]);
    return TMK_OK;
}

#define VIEW(name, since_, until_, min_in_, max_in_, attrs_, infer_)                               \
    {                                                                                              \
        TMK_OP_ONNX(name, since_, until_), TMK_OP_COUNTS(min_in_, max_in_, 1, 1),                  \
            .flags = TMK_OP_VIEW | TMK_OP_INPLACE, .attrs = attrs_, .infer = infer_,               \
            .run = tmk_run_view                                                                    \
    }

const struct tmk_op tmk_ops_reshape[] = {
    VIEW("Reshape", 1, 4, 1, 1, "consumed_inputs:ints shape:ints", reshape_1_infer),
    VIEW("Reshape", 5, 13, 2, 2, NULL, reshape_5_infer),
    VIEW("Reshape", 14, INT32_MAX, 2, 2, "allowzero:int", reshape_5_infer),
    VIEW("Flatten", 1, INT32_MAX, 1, 1, "axis:int", flatten_infer),
    VIEW("Squeeze", 1, 12, 1, 1, "axes:ints", squeeze_1_infer),
    VIEW("Squeeze", 13, INT32_MAX, 1, 2, NULL, squeeze_13_infer),
    VIEW("Unsqueeze", 1, 12, 1, 1, "axes:ints!", unsqueeze_1_infer),
    VIEW("Unsqueeze", 13, INT32_MAX, 2, 2, NULL, unsqueeze_13_infer),
    {TMK_OP_ONNX("Identity", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_VIEW | TMK_OP_INPLACE | TMK_OP_TAKES_ANY, .channel = TMK_CHANNEL_INHERIT,
     .infer = identity_infer, .run = identity_run},
    {TMK_OP_ONNX("Shape", 1, 14), TMK_OP_COUNTS(1, 1, 1, 1), .infer = shape_infer,
     .run = shape_run},
    {TMK_OP_ONNX("Shape", 15, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = "end:int start:int",
     .infer = shape_infer, .run = shape_run},
    {TMK_OP_ONNX("Size", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .infer = size_infer,
     .run = size_run},
    {NULL}};
