/* SPDX-License-Identifier: Apache-2.0 */
/* AffineGrid: for every place of an output image (or volume), the place of the input that an affine
 * map sends it to, both from -1 to 1 along each axis; GridSample takes it. */
#include "ops/kernel.h"
#include "ops/rows.h"

static enum tmk_status infer_affine_grid(struct tmk_infer *infer) {
    const struct tmk_tensor *theta = infer->in[0], *size = infer->in[1];
    const int64_t *dim = theta->shape.dim;
    int64_t want[5];
    size_t n;
    char text[128];
    TMK_TRY(tmk_want_dtype(theta, TMK_FLOAT32, "theta", infer->diag));
    TMK_TRY(tmk_want_dtype(size, TMK_INT64, "size", infer->diag));
    if (theta->shape.rank != 3 || (dim[1] != 2 && dim[1] != 3) || dim[2] != dim[1] + 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'theta' is %s, not [N,2,3] or [N,3,4]",
                        tmk_shape_text(&theta->shape, text, sizeof text));
    if (size->shape.rank != 1 || size->shape.dim[0] != dim[1] + 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'size' has not %lld entries",
                        (long long)(dim[1] + 2));
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
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
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

const struct tmk_op tmk_ops_affine_grid[] = {
    {TMK_OP_ONNX("AffineGrid", 20, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .channel = TMK_CHANNEL_LAST, .attrs = "align_corners:int", .infer = infer_affine_grid,
     .run = run_affine_grid},
    {NULL}};
