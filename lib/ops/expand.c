/* SPDX-License-Identifier: Apache-2.0 */
/* Expand (broadcast to a shape) and Tile (repeat). */
#include "ops/move.h"

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

const struct tmk_op tmk_ops_expand[] = {
    {TMK_OP_ONNX("Expand", 8, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .infer = expand_infer,
     .run = expand_run},
    {TMK_OP_ONNX("Tile", 1, 5), TMK_OP_COUNTS(3, 3, 1, 1), .infer = tile_1_infer, .run = tile_run},
    {TMK_OP_ONNX("Tile", 6, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .infer = tile_6_infer,
     .run = tile_run},
    {NULL}};
