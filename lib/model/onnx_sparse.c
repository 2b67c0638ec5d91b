/* SPDX-License-Identifier: Apache-2.0 */
/* SparseTensorProto: a tensor of zeros but at some places. It becomes a dense one, which is what
 * ONNX Runtime makes of it. A small file can describe a large tensor, so none is made that a file
 * could not hold as it is. */
#include <string.h>

#include "base/size.h"
#include "model/onnx_parts.h"
#include "tensor/shape.h"

static const size_t most_bytes = INT32_MAX; /* of a protobuf file */

static enum tmk_status read_shape_of(const TmkPb__Sparse *pb, const struct tmk_tensor *values,
                                     struct tmk_shape *shape, struct tmk_diag *diag) {
    size_t count, bytes;
    if (pb->n_dims > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%zu dimensions; at most %d are supported",
                        pb->n_dims, TMK_MAX_RANK);
    *shape = (struct tmk_shape){.rank = (int32_t)pb->n_dims};
    for (size_t i = 0; i < pb->n_dims; i++) {
        if (pb->dims[i] < 0)
            return tmk_fail(diag, TMK_FORMAT, "dimension %zu is %lld", i, (long long)pb->dims[i]);
        shape->dim[i] = pb->dims[i];
    }
    if (!tmk_shape_count(shape, &count) ||
        !tmk_mul_size(count, tmk_dtype_size(values->dtype), &bytes) || bytes > most_bytes)
        return tmk_fail(diag, TMK_RANGE, "a sparse tensor of shape %s is too large",
                        TMK_SHAPE_TEXT(shape));
    return TMK_OK;
}

/* Indices are [n] positions in row-major order, or [n, rank]. */
static enum tmk_status check_indices(const struct tmk_tensor *values,
                                     const struct tmk_tensor *indices,
                                     const struct tmk_shape *shape, struct tmk_diag *diag) {
    const struct tmk_shape *of = &indices->shape;
    if (values->shape.rank != 1 || indices->dtype != TMK_INT64 ||
        (of->rank != 1 && of->rank != 2) || of->dim[0] != values->shape.dim[0] ||
        (of->rank == 2 && of->dim[1] != shape->rank))
        return tmk_fail(diag, TMK_FORMAT, "%s indices of shape %s do not place values of shape %s",
                        tmk_dtype_name(indices->dtype), TMK_SHAPE_TEXT(of),
                        TMK_SHAPE_TEXT(&values->shape));
    return TMK_OK;
}

/* Of value i; false: it is outside. */
static bool position_of(const struct tmk_tensor *indices, size_t i, const struct tmk_shape *shape,
                        size_t count, size_t *out) {
    const int64_t *from = indices->data;
    size_t at = 0;
    if (indices->shape.rank == 1) {
        *out = (size_t)from[i];
        return from[i] >= 0 && (uint64_t)from[i] < count;
    }
    for (int32_t k = 0; k < shape->rank; k++) {
        const int64_t index = from[i * (size_t)shape->rank + (size_t)k];
        if (index < 0 || index >= shape->dim[k])
            return false;
        at = at * (size_t)shape->dim[k] + (size_t)index;
    }
    *out = at;
    return true;
}

static enum tmk_status fill_dense(const struct tmk_tensor *values, const struct tmk_tensor *indices,
                                  struct tmk_tensor *dense, struct tmk_diag *diag) {
    const size_t size = tmk_dtype_size(values->dtype), n = tmk_tensor_count(values),
                 count = tmk_tensor_count(dense);
    for (size_t i = 0, at = 0, before = 0; i < n; i++, before = at) {
        if (!position_of(indices, i, &dense->shape, count, &at) || (i && at <= before))
            return tmk_fail(diag, TMK_FORMAT,
                            "index %zu is outside of %s, or not above the one "
                            "before",
                            i, TMK_SHAPE_TEXT(&dense->shape));
        memcpy((char *)dense->data + at * size, (const char *)values->data + i * size, size);
    }
    return TMK_OK;
}

static enum tmk_status make_dense(const TmkPb__Sparse *pb, const struct tmk_tensor *values,
                                  const struct tmk_tensor *indices, struct tmk_tensor *out,
                                  struct tmk_diag *diag) {
    struct tmk_shape shape;
    struct tmk_tensor dense;
    TMK_TRY(read_shape_of(pb, values, &shape, diag));
    TMK_TRY(check_indices(values, indices, &shape, diag));
    TMK_TRY(tmk_tensor_init(&dense, values->dtype, &shape, diag));
    dense.origin = values->origin;
    enum tmk_status status = fill_dense(values, indices, &dense, diag);
    if (status == TMK_OK)
        *out = dense;
    else
        tmk_tensor_finish(&dense);
    return status;
}

enum tmk_status tmk_onnx_sparse(struct tmk_onnx_file *file, const TmkPb__Sparse *pb,
                                struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_tensor values, indices;
    if (!pb->values || !pb->indices)
        return tmk_fail(diag, TMK_FORMAT, "a sparse tensor without values or indices");
    TMK_TRY(tmk_in(diag, tmk_onnx_tensor(file, pb->values, &values, diag), "values"));
    enum tmk_status status =
        tmk_in(diag, tmk_onnx_tensor(file, pb->indices, &indices, diag), "indices");
    if (status == TMK_OK) {
        status = make_dense(pb, &values, &indices, out, diag);
        tmk_tensor_finish(&indices);
    }
    tmk_tensor_finish(&values);
    return status;
}
