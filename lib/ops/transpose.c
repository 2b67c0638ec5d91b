/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/kernel.h"
#include "ops/move.h"

/* perm[i]: the input's axis that becomes axis i. Without the attribute the axes are reversed. */
static enum tmk_status read_permutation(const struct tmk_node *node, int32_t rank,
                                        int32_t perm[TMK_MAX_RANK], struct tmk_diag *diag) {
    size_t n;
    const int64_t *given = tmk_node_ints(node, "perm", &n);
    bool seen[TMK_MAX_RANK] = {false};
    if (!given && !tmk_node_attr(node, "perm")) {
        for (int32_t i = 0; i < rank; i++)
            perm[i] = rank - 1 - i;
        return TMK_OK;
    }
    if (n != (size_t)rank)
        return tmk_fail(diag, TMK_SHAPE, "perm has %zu entries for an input of rank %d", n, rank);
    for (int32_t i = 0; i < rank; i++) {
        if (given[i] < 0 || given[i] >= rank || seen[given[i]])
            return tmk_fail(diag, TMK_RANGE, "perm is no permutation of the axes: %lld at %d",
                            (long long)given[i], i);
        perm[i] = (int32_t)given[i];
        seen[perm[i]] = true;
    }
    return TMK_OK;
}

static enum tmk_status transpose_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    int32_t perm[TMK_MAX_RANK];
    TMK_TRY(read_permutation(infer->node, in->shape.rank, perm, infer->diag));
    struct tmk_shape shape = {.rank = in->shape.rank};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = in->shape.dim[perm[i]];
    return tmk_infer_set(infer, 0, in->dtype, &shape);
}

static enum tmk_status transpose_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t perm[TMK_MAX_RANK];
    int64_t to[TMK_MAX_RANK], from[TMK_MAX_RANK];
    TMK_TRY(read_permutation(run->node, in->shape.rank, perm, run->diag));
    tmk_strides(&out->shape, to);
    tmk_strides(&in->shape, from);
    struct tmk_move move = {0};
    for (int32_t i = 0; i < out->shape.rank; i++)
        tmk_move_axis(&move, out->shape.dim[i], to[i], from[perm[i]]);
    tmk_move_run(&move, tmk_dtype_size(out->dtype), out->data, in->data);
    return TMK_OK;
}

/* DepthToSpace and SpaceToDepth: blocks of b x b channels become blocks of b x b elements, and
 * back.
 *
 * Depth channel d and place (i, j) within the block: d = (i * b + j) * C + c in mode DCR, d = (c *
 * b + i) * b + j in mode CRD, with C channels c on the side of space. */

static enum tmk_status read_block(const struct tmk_infer *infer, int64_t *block) {
    const struct tmk_tensor *x = infer->in[0];
    int mode;
    *block = tmk_node_int(infer->node, "blocksize", 0);
    if (!tmk_dtype_size(x->dtype))
        return tmk_fail(infer->diag, TMK_TYPE, "the input is of type %s", tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_want_shape(x, x->dtype, "input", &(struct tmk_shape){4, {-1, -1, -1, -1}},
                           infer->diag));
    if (*block < 1 || *block > INT16_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'blocksize' is %lld", (long long)*block);
    return tmk_choice(infer->node, "mode", "DCR CRD", &mode, infer->diag);
}

static enum tmk_status infer_depth_to_space(struct tmk_infer *infer) {
    int64_t block;
    TMK_TRY(read_block(infer, &block));
    struct tmk_shape shape = infer->in[0]->shape;
    if (shape.dim[1] % (block * block) != 0)
        return tmk_fail(infer->diag, TMK_SHAPE, "%lld channels are no whole blocks of %lld",
                        (long long)shape.dim[1], (long long)(block * block));
    shape.dim[1] /= block * block;
    if (!tmk_mul_i64(shape.dim[2], block, &shape.dim[2]) ||
        !tmk_mul_i64(shape.dim[3], block, &shape.dim[3]))
        return tmk_fail(infer->diag, TMK_RANGE, "the output is too large");
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status infer_space_to_depth(struct tmk_infer *infer) {
    int64_t block;
    TMK_TRY(read_block(infer, &block));
    struct tmk_shape shape = infer->in[0]->shape;
    if (shape.dim[2] % block != 0 || shape.dim[3] % block != 0)
        return tmk_fail(infer->diag, TMK_SHAPE, "%lld x %lld elements are no whole blocks of %lld",
                        (long long)shape.dim[2], (long long)shape.dim[3], (long long)block);
    shape.dim[2] /= block;
    shape.dim[3] /= block;
    if (!tmk_mul_i64(shape.dim[1], block * block, &shape.dim[1]))
        return tmk_fail(infer->diag, TMK_RANGE, "the output is too large");
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status rearrange_blocks(struct tmk_run *run) {
    const bool to_space = run->node->row->variant;
    const struct tmk_shape *space = to_space ? &run->out[0]->shape : &run->in[0]->shape;
    int64_t b = tmk_node_int(run->node, "blocksize", 1), c = space->dim[1], h = space->dim[2] / b,
            w = space->dim[3] / b, plane = h * w;
    bool crd = strcmp(tmk_node_string(run->node, "mode", "DCR"), "CRD") == 0;
    /* axes: sample, channel, row of blocks, i, column of blocks, j */
    int64_t dim[] = {space->dim[0], c, h, b, w, b};
    int64_t in_space[] = {c * plane * b * b, plane * b * b, w * b * b, w * b, b, 1};
    int64_t in_depth[] = {
        c * plane * b * b,    (crd ? b * b : 1) * plane, w, (crd ? b : b * c) * plane, 1,
        (crd ? 1 : c) * plane};
    struct tmk_move move = {0};
    for (size_t i = 0; i < TMK_COUNT(dim); i++)
        tmk_move_axis(&move, dim[i], (to_space ? in_space : in_depth)[i],
                      (to_space ? in_depth : in_space)[i]);
    tmk_move_run(&move, tmk_dtype_size(run->in[0]->dtype), run->out[0]->data, run->in[0]->data);
    return TMK_OK;
}

static const char depth_space_attrs[] = "blocksize:int!";
static const char attrs_mode[] = "blocksize:int! mode:string";

const struct tmk_op tmk_ops_transpose[] = {
    {TMK_OP_ONNX("Transpose", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = "perm:ints",
     .infer = transpose_infer, .run = transpose_run},
    {TMK_OP_ONNX("DepthToSpace", 1, 10), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = depth_space_attrs, .variant = true /* to space */, .infer = infer_depth_to_space,
     .run = rearrange_blocks},
    {TMK_OP_ONNX("DepthToSpace", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = attrs_mode, .variant = true /* to space */,
     .infer = infer_depth_to_space, .run = rearrange_blocks},
    {TMK_OP_ONNX("SpaceToDepth", 1, 27), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = depth_space_attrs, .infer = infer_space_to_depth, .run = rearrange_blocks},
    {TMK_OP_ONNX("SpaceToDepth", 28, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = attrs_mode, .infer = infer_space_to_depth,
     .run = rearrange_blocks},
    {NULL}};
