/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/contrib.h"
#include "ops/move.h"
#include "tensor/elements.h"

static enum tmk_status axis_of(const struct tmk_node *node, const struct tmk_tensor *data,
                               int32_t *axis, struct tmk_diag *diag) {
    return tmk_axis(tmk_node_int(node, "axis", 0), data->shape.rank, axis, diag);
}

/* ---- Gather: slices of `data` along one axis, in the shape of `indices` ---- */

static enum tmk_status gather_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t axis, rank = data->shape.rank, q = indices->shape.rank;
    TMK_TRY(axis_of(infer->node, data, &axis, infer->diag));
    TMK_TRY(tmk_want_indices(indices, "the indices", infer->diag));
    if (rank + q - 1 > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result would have %d dimensions; at most %d",
                        rank + q - 1, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = rank + q - 1};
    for (int32_t i = 0; i < axis; i++)
        shape.dim[i] = data->shape.dim[i];
    for (int32_t i = 0; i < q; i++)
        shape.dim[axis + i] = indices->shape.dim[i];
    for (int32_t i = axis + 1; i < rank; i++)
        shape.dim[q + i - 1] = data->shape.dim[i];
    return tmk_infer_set(infer, 0, data->dtype, &shape);
}

static enum tmk_status gather_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis;
    TMK_TRY(axis_of(run->node, data, &axis, run->diag));
    int64_t extent = data->shape.dim[axis];
    size_t n = tmk_tensor_count(indices), outer = tmk_shape_product(&data->shape, 0, axis);
    size_t block = tmk_shape_product(&data->shape, axis + 1, data->shape.rank),
           bytes = block * tmk_dtype_size(data->dtype);
    char *to = out->data;
    int64_t at;
    for (size_t i = 0; i < n; i++)
        TMK_TRY(tmk_index(tmk_index_at(indices, i), extent, &at, run->diag));
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < n && bytes; i++, to += bytes) {
            at = tmk_index_at(indices, i);
            at = at < 0 ? at + extent : at;
            const size_t first = (o * (size_t)extent + (size_t)at) * block;
            const void *from = tmk_elements(data, first, block, to);
            if (from != to)
                memcpy(to, from, bytes);
        }
    return TMK_OK;
}

/* ---- GatherElements: one element for each of `indices` ---- */

static enum tmk_status elements_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t axis;
    TMK_TRY(axis_of(infer->node, data, &axis, infer->diag));
    TMK_TRY(tmk_want_indices(indices, "the indices", infer->diag));
    bool fits = indices->shape.rank == data->shape.rank;
    for (int32_t i = 0; i < data->shape.rank && fits; i++)
        fits = i == axis || indices->shape.dim[i] <= data->shape.dim[i];
    if (!fits)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "indices of shape %s do not fit data of shape %s on axis %d",
                        TMK_SHAPE_TEXT(&indices->shape), TMK_SHAPE_TEXT(&data->shape), axis);
    return tmk_infer_set(infer, 0, data->dtype, &indices->shape);
}

static enum tmk_status elements_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis, last = data->shape.rank - 1;
    TMK_TRY(axis_of(run->node, data, &axis, run->diag));
    size_t n = tmk_tensor_count(indices), element = tmk_dtype_size(data->dtype);
    if (!out || n == 0)
        return TMK_OK;
    int64_t stride[TMK_MAX_RANK], at[TMK_MAX_RANK] = {0}, line = indices->shape.dim[last];
    tmk_strides(&data->shape, stride);
    int64_t along = stride[axis], base = 0; /* base: of the line, without its part on `axis` */
    for (size_t i = 0; i < n; i += (size_t)line) {
        for (int64_t j = 0; j < line; j++) {
            int64_t index;
            TMK_TRY(tmk_index(tmk_index_at(indices, i + (size_t)j), data->shape.dim[axis], &index,
                              run->diag));
            int64_t from = base + index * along + (axis == last ? 0 : j);
            memcpy((char *)out->data + (i + (size_t)j) * element,
                   (const char *)data->data + (size_t)from * element, element);
        }
        for (int32_t k = last - 1; k >= 0; k--) {
            base += k == axis ? 0 : stride[k];
            if (++at[k] < indices->shape.dim[k])
                break;
            base -= k == axis ? 0 : stride[k] * at[k];
            at[k] = 0;
        }
    }
    return TMK_OK;
}

/* ---- GatherND: a slice of `data` for each tuple in the last axis of `indices` ---- */

static enum tmk_status nd_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t r = data->shape.rank, q = indices->shape.rank;
    int64_t batch = tmk_node_int(infer->node, "batch_dims", 0);
    TMK_TRY(tmk_want_dtype(indices, TMK_INT64, "the indices", infer->diag));
    if (r < 1 || q < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "data and indices need a dimension at least");
    if (batch < 0 || batch >= (r < q ? r : q))
        return tmk_fail(infer->diag, TMK_RANGE,
                        "batch_dims is %lld for data of rank %d and indices of rank %d",
                        (long long)batch, r, q);
    int32_t skip = (int32_t)batch;
    int64_t tuple = indices->shape.dim[q - 1];
    bool fits = tuple >= 1 && tuple <= r - skip;
    for (int32_t i = 0; i < skip && fits; i++)
        fits = data->shape.dim[i] == indices->shape.dim[i];
    if (!fits)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "indices of shape %s do not fit data of shape %s with batch_dims %d",
                        TMK_SHAPE_TEXT(&indices->shape), TMK_SHAPE_TEXT(&data->shape), skip);
    int32_t whole = skip + (int32_t)tuple; /* data axes that the batch and the tuple use up */
    if (q - 1 + r - whole > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result would have %d dimensions; at most %d",
                        q - 1 + r - whole, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = q - 1 + r - whole};
    for (int32_t i = 0; i < q - 1; i++)
        shape.dim[i] = indices->shape.dim[i];
    for (int32_t i = whole; i < r; i++)
        shape.dim[q - 1 + i - whole] = data->shape.dim[i];
    return tmk_infer_set(infer, 0, data->dtype, &shape);
}

static enum tmk_status nd_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t q = indices->shape.rank, skip = (int32_t)tmk_node_int(run->node, "batch_dims", 0);
    int32_t tuple = (int32_t)indices->shape.dim[q - 1];
    int64_t stride[TMK_MAX_RANK];
    tmk_strides(&data->shape, stride);
    size_t batches = tmk_shape_product(&indices->shape, 0, skip);
    size_t each = tmk_shape_product(&indices->shape, skip, q - 1),
           element = tmk_dtype_size(data->dtype);
    size_t block = tmk_shape_product(&data->shape, skip + tuple, data->shape.rank) * element;
    size_t batch_stride = tmk_shape_product(&data->shape, skip, data->shape.rank) * element;
    const int64_t *index = indices->data;
    char *to = out->data;
    for (size_t b = 0; b < batches; b++)
        for (size_t i = 0; i < each; i++, index += tuple, to += block) {
            int64_t offset = 0;
            for (int32_t k = 0; k < tuple; k++) {
                int64_t at;
                TMK_TRY(tmk_index(index[k], data->shape.dim[skip + k], &at, run->diag));
                offset += at * stride[skip + k];
            }
            memcpy(to, (const char *)data->data + b * batch_stride + (size_t)offset * element,
                   block);
        }
    return TMK_OK;
}

static const char axis_attrs[] = "axis:int";

const struct tmk_op tmk_ops_gather[] = {
    {TMK_OP_ONNX("Gather", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .lazy = 1 << 0, .attrs = axis_attrs, .infer = gather_infer, .run = gather_run},
    {TMK_OP_ONNX("GatherElements", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = axis_attrs,
     .infer = elements_infer, .run = elements_run},
    {TMK_OP_ONNX("GatherND", 11, 11), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .infer = nd_infer, .run = nd_run},
    {TMK_OP_ONNX("GatherND", 12, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = "batch_dims:int", .infer = nd_infer, .run = nd_run},
    {TMK_OP_CONTRIB("GatherND"), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .infer = nd_infer, .run = nd_run},
    {NULL}};
