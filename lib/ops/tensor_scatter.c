/* SPDX-License-Identifier: Apache-2.0 */
/* TensorScatter: writes a stretch of a sequence into a cache, at a place of each sample's own. */
#include <string.h>

#include "ops/kernel.h"
#include "ops/rows.h"

static enum tmk_status read_node(const struct tmk_node *node, int32_t rank, int32_t *axis,
                                 bool *circular, struct tmk_diag *diag) {
    const char *mode = tmk_node_string(node, "mode", "linear");
    *circular = strcmp(mode, "circular") == 0;
    if (!*circular && strcmp(mode, "linear") != 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'mode' is '%s', neither linear nor circular",
                        mode);
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", -2), rank, axis, diag));
    if (*axis == 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'axis' names the axis of the batch");
    return TMK_OK;
}

static enum tmk_status infer_tensor_scatter(struct tmk_infer *infer) {
    const struct tmk_tensor *cache = infer->in[0], *update = infer->in[1],
                            *places = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    int32_t axis;
    bool circular;
    if (!tmk_dtype_size(cache->dtype))
        return tmk_fail(diag, TMK_TYPE, "the input is of type %s", tmk_dtype_name(cache->dtype));
    TMK_TRY(tmk_want_dtype(update, cache->dtype, "update", diag));
    TMK_TRY(read_node(infer->node, cache->shape.rank, &axis, &circular, diag));
    struct tmk_shape fit = cache->shape;
    if (update->shape.rank == fit.rank && update->shape.dim[axis] <= fit.dim[axis])
        fit.dim[axis] = update->shape.dim[axis];
    if (!tmk_shape_equal(&fit, &update->shape))
        return tmk_fail(diag, TMK_SHAPE, "input 'update' does not fit into 'past_cache'");
    if (places) {
        TMK_TRY(tmk_want_dtype(places, TMK_INT64, "write_indices", diag));
        if (places->shape.rank != 1 || places->shape.dim[0] != cache->shape.dim[0])
            return tmk_fail(diag, TMK_SHAPE, "input 'write_indices' has not one entry a sample");
    }
    return tmk_infer_set(infer, 0, cache->dtype, &cache->shape);
}

static enum tmk_status run_tensor_scatter(struct tmk_run *run) {
    const struct tmk_tensor *cache = run->in[0], *update = run->in[1], *places = tmk_run_in(run, 2);
    const struct tmk_shape *shape = &cache->shape;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int32_t axis;
    bool circular;
    TMK_TRY(read_node(run->node, shape->rank, &axis, &circular, run->diag));
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    memcpy(y->data, cache->data, tmk_tensor_bytes(cache));
    size_t batch = (size_t)shape->dim[0], middle = tmk_shape_product(shape, 1, axis),
           length = (size_t)shape->dim[axis], n = (size_t)update->shape.dim[axis],
           bytes = tmk_shape_product(shape, axis + 1, shape->rank) * tmk_dtype_size(cache->dtype);
    const char *from = update->data;
    for (size_t b = 0; b < batch; b++) {
        int64_t place = places ? ((const int64_t *)places->data)[b] : 0;
        if (place < 0 || (!circular && place > (int64_t)(length - n)))
            return tmk_fail(run->diag, TMK_RANGE, "%zu elements do not fit at %lld of %zu", n,
                            (long long)place, length);
        size_t first = (size_t)place % length;
        size_t whole = length - first < n ? length - first : n; /* before it wraps around */
        for (size_t m = 0; m < middle; m++, from += n * bytes) {
            char *to = (char *)y->data + (b * middle + m) * length * bytes;
            memcpy(to + first * bytes, from, whole * bytes);
            memcpy(to, from + whole * bytes, (n - whole) * bytes);
        }
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_tensor_scatter[] = {
    {TMK_OP_ONNX("TensorScatter", 24, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .attrs = "axis:int mode:string", .infer = infer_tensor_scatter, .run = run_tensor_scatter},
    {NULL}};
