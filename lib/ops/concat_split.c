/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors along an axis, and splitting them; Expand and Tile. */
#include <string.h>

#include "ops/move.h"

static enum tmk_status axis_of(const struct tmk_node *node, int32_t rank, int32_t *axis,
                               struct tmk_diag *diag) {
    return tmk_axis(tmk_node_int(node, "axis", 1), rank, axis, diag);
}

enum tmk_status tmk_concat_join(struct tmk_shape *shape, const struct tmk_shape *x, int32_t axis,
                                uint32_t i, struct tmk_diag *diag) {
    struct tmk_shape beside = *x;
    if (beside.rank == shape->rank)
        beside.dim[axis] = shape->dim[axis];
    if (!tmk_shape_equal(&beside, shape))
        return tmk_fail(diag, TMK_SHAPE, "input %u of shape %s does not go beside %s on axis %d", i,
                        TMK_SHAPE_TEXT(x), TMK_SHAPE_TEXT(shape), axis);
    if (!tmk_add_i64(shape->dim[axis], x->dim[axis], &shape->dim[axis]))
        return tmk_fail(diag, TMK_RANGE, "the sizes on axis %d overflow", axis);
    return TMK_OK;
}

enum tmk_status tmk_concat_infer(struct tmk_infer *infer) {
    int32_t axis;
    const struct tmk_tensor *first = infer->in[0];
    struct tmk_shape shape = first->shape;
    TMK_TRY(axis_of(infer->node, shape.rank, &axis, infer->diag));
    for (uint32_t i = 1; i < infer->n_in; i++) {
        const struct tmk_tensor *in = infer->in[i];
        if (!in)
            return tmk_fail(infer->diag, TMK_GRAPH, "input %u is absent", i);
        if (in->dtype != first->dtype)
            return tmk_fail(infer->diag, TMK_TYPE, "input %u is %s, but input 0 is %s", i,
                            tmk_dtype_name(in->dtype), tmk_dtype_name(first->dtype));
        TMK_TRY(tmk_concat_join(&shape, &in->shape, axis, i, infer->diag));
    }
    return tmk_infer_set(infer, 0, first->dtype, &shape);
}

enum tmk_status tmk_concat_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis, rank = out->shape.rank;
    TMK_TRY(axis_of(run->node, rank, &axis, run->diag));
    size_t element = tmk_dtype_size(out->dtype), outer = tmk_shape_product(&out->shape, 0, axis);
    size_t stride = tmk_shape_product(&out->shape, axis, rank) * element;
    char *to = out->data;
    for (uint32_t i = 0; i < run->n_in; i++) {
        const char *from = run->in[i]->data;
        size_t block = tmk_shape_product(&run->in[i]->shape, axis, rank) * element;
        for (size_t o = 0; o < outer && block; o++)
            memcpy(to + o * stride, from + o * block, block);
        to += block;
    }
    return TMK_OK;
}

/* Where the lengths come from: an input, else an attribute, else equal parts. */
struct split {
    int32_t axis;
    bool known;
    int64_t length[TMK_MAX_OUTPUTS];
};

/* num_outputs (version 18) rounds up and leaves the rest to the last part; before it, parts must be
 * equal. */
static enum tmk_status equal_parts(const struct tmk_node *node, int64_t extent, uint32_t n,
                                   struct split *split, struct tmk_diag *diag) {
    int64_t part = extent / n, last = part;
    if (extent % n != 0) {
        if (!tmk_node_attr(node, "num_outputs"))
            return tmk_fail(diag, TMK_SHAPE,
                            "a dimension of %lld cannot be split into %u equal parts",
                            (long long)extent, n);
        part++;
        last = extent - part * (n - 1);
        if (last < 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "a dimension of %lld is too short for %u parts of %lld",
                            (long long)extent, n, (long long)part);
    }
    for (uint32_t i = 0; i < n; i++)
        split->length[i] = i + 1 < n ? part : last;
    return TMK_OK;
}

static enum tmk_status given_parts(int64_t extent, size_t given, uint32_t n,
                                   const struct split *split, struct tmk_diag *diag) {
    if (given != n)
        return tmk_fail(diag, TMK_SHAPE, "%zu lengths are given for %u outputs", given, n);
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (split->length[i] < 0 || !tmk_add_i64(sum, split->length[i], &sum))
            return tmk_fail(diag, TMK_RANGE, "the length %lld of output %u is not possible",
                            (long long)split->length[i], i);
    if (sum != extent)
        return tmk_fail(diag, TMK_SHAPE, "the lengths add up to %lld, but the dimension is %lld",
                        (long long)sum, (long long)extent);
    return TMK_OK;
}

static enum tmk_status plan_split(const struct tmk_node *node, const struct tmk_tensor *in,
                                  const struct tmk_tensor *lengths, uint32_t n_out,
                                  struct split *split, struct tmk_diag *diag) {
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 0), in->shape.rank, &split->axis, diag));
    int64_t extent = in->shape.dim[split->axis];
    if (n_out == 0 || n_out > TMK_MAX_OUTPUTS)
        return tmk_fail(diag, TMK_GRAPH, "%u outputs are not possible", n_out);
    size_t n = 0;
    const int64_t *attribute = tmk_node_ints(node, "split", &n);
    split->known = true;
    if (lengths) {
        if (tmk_node_attr(node, "num_outputs"))
            return tmk_fail(diag, TMK_GRAPH, "both input 'split' and num_outputs are given");
        split->known = lengths->data != NULL;
        if (!split->known)
            return TMK_OK;
        TMK_TRY(tmk_read_sizes(lengths, "the lengths", TMK_MAX_OUTPUTS, split->length, &n, diag));
        return given_parts(extent, n, n_out, split, diag);
    }
    if (attribute) {
        for (size_t i = 0; i < n && i < TMK_MAX_OUTPUTS; i++)
            split->length[i] = attribute[i];
        return given_parts(extent, n, n_out, split, diag);
    }
    int64_t asked = tmk_node_int(node, "num_outputs", n_out);
    if (asked != n_out)
        return tmk_fail(diag, TMK_SHAPE, "num_outputs is %lld, but the node has %u outputs",
                        (long long)asked, n_out);
    return equal_parts(node, extent, n_out, split, diag);
}

static enum tmk_status split_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    struct split split;
    TMK_TRY(plan_split(infer->node, in, tmk_infer_in(infer, 1), infer->n_out, &split, infer->diag));
    if (!split.known)
        return TMK_OK;
    struct tmk_shape shape = in->shape;
    for (uint32_t i = 0; i < infer->n_out; i++) {
        shape.dim[split.axis] = split.length[i];
        tmk_infer_put(infer, i, in->dtype, &shape);
    }
    return TMK_OK;
}

static enum tmk_status split_18_infer(struct tmk_infer *infer) {
    if (!tmk_infer_in(infer, 1) && !tmk_node_attr(infer->node, "num_outputs"))
        return tmk_fail(infer->diag, TMK_GRAPH, "neither input 'split' nor num_outputs is given");
    return split_infer(infer);
}

static enum tmk_status split_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    struct split split;
    TMK_TRY(plan_split(run->node, in, tmk_run_in(run, 1), run->n_out, &split, run->diag));
    if (tmk_tensor_count(in) == 0)
        return TMK_OK;
    int32_t axis = split.axis, rank = in->shape.rank;
    size_t outer = tmk_shape_product(&in->shape, 0, axis);
    size_t inner = tmk_shape_product(&in->shape, axis + 1, rank) * tmk_dtype_size(in->dtype);
    size_t stride = (size_t)in->shape.dim[axis] * inner;
    const char *from = in->data;
    for (uint32_t i = 0; i < run->n_out; i++) {
        size_t block = (size_t)split.length[i] * inner;
        if (run->out[i] && block)
            for (size_t o = 0; o < outer; o++)
                memcpy((char *)run->out[i]->data + o * block, from + o * stride, block);
        from += block;
    }
    return TMK_OK;
}

static const char attrs_1[] = "axis:int split:ints";

/* Expand (broadcast to a shape) and Tile (repeat). */

/* ---- Expand ---- */

static enum tmk_status expand_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    int64_t asked[TMK_MAX_RANK];
    size_t n;
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "the shape", infer->diag));
    if (!infer->in[1]->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(infer->in[1], "the shape", TMK_MAX_RANK, asked, &n, infer->diag));
    struct tmk_shape shape = {.rank = (int32_t)n};
    for (size_t i = 0; i < n; i++) {
        if (asked[i] < 0)
            return tmk_fail(infer->diag, TMK_RANGE, "the shape's dimension %zu is %lld", i,
                            (long long)asked[i]);
        shape.dim[i] = asked[i];
    }
    TMK_TRY(tmk_broadcast(&in->shape, &shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, in->dtype, &shape);
}

static enum tmk_status expand_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t to[TMK_MAX_RANK], from[TMK_MAX_RANK];
    tmk_strides(&out->shape, to);
    tmk_broadcast_strides(&in->shape, &out->shape, from);
    struct tmk_move move = {0};
    for (int32_t i = 0; i < out->shape.rank; i++)
        tmk_move_axis(&move, out->shape.dim[i], to[i], from[i]);
    tmk_move_run(&move, tmk_dtype_size(out->dtype), out->data, in->data);
    return TMK_OK;
}

/* ---- Tile ---- */

static enum tmk_status tile_shape(struct tmk_infer *infer, const int64_t repeats[TMK_MAX_RANK]) {
    struct tmk_shape shape = infer->in[0]->shape;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (repeats[i] < 0)
            return tmk_fail(infer->diag, TMK_RANGE, "axis %d is to be repeated %lld times", i,
                            (long long)repeats[i]);
        if (!tmk_mul_i64(shape.dim[i], repeats[i], &shape.dim[i]))
            return tmk_fail(infer->diag, TMK_RANGE, "axis %d repeated %lld times overflows", i,
                            (long long)repeats[i]);
    }
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status tile_6_infer(struct tmk_infer *infer) {
    int64_t repeats[TMK_MAX_RANK];
    size_t n;
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "the repeats", infer->diag));
    if (!infer->in[1]->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(infer->in[1], "the repeats", TMK_MAX_RANK, repeats, &n, infer->diag));
    if (n != (size_t)infer->in[0]->shape.rank)
        return tmk_fail(infer->diag, TMK_SHAPE, "%zu repeats for an input of rank %d", n,
                        infer->in[0]->shape.rank);
    return tile_shape(infer, repeats);
}

/* Version 1: one axis only, named by an input. */
static enum tmk_status tile_1_infer(struct tmk_infer *infer) {
    int64_t repeats[TMK_MAX_RANK], tiles, axis;
    size_t n_tiles, n_axis;
    int32_t at;
    if (!infer->in[1]->data || !infer->in[2]->data)
        return TMK_OK;
    TMK_TRY(tmk_read_sizes(infer->in[1], "the tiles", 1, &tiles, &n_tiles, infer->diag));
    TMK_TRY(tmk_read_sizes(infer->in[2], "the axis", 1, &axis, &n_axis, infer->diag));
    if (n_tiles != 1 || n_axis != 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "tiles and axis must be one number each");
    TMK_TRY(tmk_axis(axis, infer->in[0]->shape.rank, &at, infer->diag));
    for (int32_t i = 0; i < TMK_MAX_RANK; i++)
        repeats[i] = i == at ? tiles : 1;
    return tile_shape(infer, repeats);
}

/* The repeats show in the shapes, so one kernel serves both versions. */
static enum tmk_status tile_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t to[TMK_MAX_RANK], from[TMK_MAX_RANK];
    tmk_strides(&out->shape, to);
    tmk_strides(&in->shape, from);
    struct tmk_move move = {0};
    for (int32_t i = 0; i < in->shape.rank; i++) {
        int64_t dim = in->shape.dim[i];
        tmk_move_axis(&move, out->shape.dim[i] / dim, to[i] * dim, 0);
        tmk_move_axis(&move, dim, to[i], from[i]);
    }
    tmk_move_run(&move, tmk_dtype_size(out->dtype), out->data, in->data);
    return TMK_OK;
}

const struct tmk_op tmk_ops_concat_split[] = {
    {TMK_OP_ONNX("Concat", 1, 3), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1), .attrs = "axis:int",
     .infer = tmk_concat_infer, .run = tmk_concat_run},
    {TMK_OP_ONNX("Concat", 4, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1),
     .attrs = "axis:int!", .infer = tmk_concat_infer, .run = tmk_concat_run},
    {TMK_OP_ONNX("Split", 1, 1), TMK_OP_COUNTS(1, 2, 1, TMK_VARIADIC), .attrs = attrs_1,
     .infer = split_infer, .run = split_run},
    {TMK_OP_ONNX("Split", 2, 12), TMK_OP_COUNTS(1, 1, 1, TMK_VARIADIC), .attrs = attrs_1,
     .infer = split_infer, .run = split_run},
    {TMK_OP_ONNX("Split", 13, 17), TMK_OP_COUNTS(1, 2, 1, TMK_VARIADIC), .attrs = "axis:int",
     .infer = split_infer, .run = split_run},
    {TMK_OP_ONNX("Split", 18, INT32_MAX), TMK_OP_COUNTS(1, 2, 1, TMK_VARIADIC),
     .attrs = "axis:int num_outputs:int", .infer = split_18_infer, .run = split_run},
    {TMK_OP_ONNX("Expand", 8, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .infer = expand_infer,
     .run = expand_run},
    {TMK_OP_ONNX("Tile", 1, 5), TMK_OP_COUNTS(3, 3, 1, 1), .infer = tile_1_infer, .run = tile_run},
    {TMK_OP_ONNX("Tile", 6, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .infer = tile_6_infer,
     .run = tile_run},
    {NULL}};
