/* SPDX-License-Identifier: Apache-2.0 */
/* MaxUnpool: puts each element at the position in MaxPool's second output; zeros elsewhere.
 *
 * Indices count the elements of the result, of a given output shape too, as ONNX Runtime has it: so
 * what a pool has taken from an input of any size comes back to its place. (The reference of the
 * onnx package counts in the shape without output_shape, and lays that into the corner.) Where two
 * indices are equal the later element stays. */
#include <string.h>

#include "ops/move.h"
#include "ops/rows.h"

/* `n` integers of attribute `name`, `otherwise` where it is absent. */
static enum tmk_status read_attr(const struct tmk_node *node, const char *name, size_t n,
                                 int64_t min, int64_t otherwise, int64_t *out,
                                 struct tmk_diag *diag) {
    size_t given;
    const int64_t *values = tmk_node_ints(node, name, &given);
    if (given && given != n)
        return tmk_fail(diag, TMK_ARGUMENT, "attribute '%s' has %zu elements instead of %zu", name,
                        given, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = given ? values[i] : otherwise;
        if (out[i] < min || out[i] > INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "attribute '%s' holds %lld", name, (long long)out[i]);
    }
    return TMK_OK;
}

/* The output's shape without output_shape. */
static enum tmk_status unpooled_shape(const struct tmk_node *node, const struct tmk_shape *x,
                                      struct tmk_shape *out, struct tmk_diag *diag) {
    int64_t kernel[TMK_MAX_RANK], stride[TMK_MAX_RANK], pads[2 * TMK_MAX_RANK];
    struct tmk_shape shape = *x;
    size_t n = (size_t)x->rank - 2;
    if (!tmk_node_ints(node, "kernel_shape", &(size_t){0}))
        return tmk_fail(diag, TMK_ARGUMENT, "attribute 'kernel_shape' is empty");
    TMK_TRY(read_attr(node, "kernel_shape", n, 1, 1, kernel, diag));
    TMK_TRY(read_attr(node, "strides", n, 1, 1, stride, diag));
    TMK_TRY(read_attr(node, "pads", 2 * n, 0, 0, pads, diag));
    for (size_t i = 0; i < n; i++) {
        int64_t *size = &shape.dim[i + 2];
        if (!tmk_mul_i64(*size - 1, stride[i], size) ||
            !tmk_add_i64(*size, kernel[i] - pads[i] - pads[n + i], size) || *size < 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "%lld elements on spatial axis %zu cannot be unpooled with a window of "
                            "%lld, a stride of %lld and padding of %lld",
                            (long long)x->dim[i + 2], i, (long long)kernel[i], (long long)stride[i],
                            (long long)(pads[i] + pads[n + i]));
    }
    *out = shape;
    return TMK_OK;
}

static enum tmk_status infer_unpool(struct tmk_infer *infer) {
    char a[128], b[128];
    const struct tmk_tensor *x = infer->in[0], *indices = infer->in[1],
                            *wanted = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    struct tmk_shape shape;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "the input", diag));
    TMK_TRY(tmk_want_dtype(indices, TMK_INT64, "the indices", diag));
    if (x->shape.rank < 3)
        return tmk_fail(diag, TMK_SHAPE, "the input has rank %d, and needs 3 at least",
                        (int)x->shape.rank);
    if (!tmk_shape_equal(&x->shape, &indices->shape))
        return tmk_fail(diag, TMK_SHAPE, "indices of shape %s for an input of shape %s",
                        tmk_shape_text(&indices->shape, a, sizeof a),
                        tmk_shape_text(&x->shape, b, sizeof b));
    TMK_TRY(unpooled_shape(infer->node, &x->shape, &shape, diag));
    if (wanted) {
        int64_t dim[TMK_MAX_RANK];
        size_t n;
        if (!wanted->data)
            return TMK_OK;
        TMK_TRY(tmk_read_ints(wanted, "input 'output_shape'", TMK_MAX_RANK, dim, &n, diag));
        bool fits = n == (size_t)x->shape.rank && dim[0] == shape.dim[0] && dim[1] == shape.dim[1];
        for (size_t i = 0; i < n && fits; i++)
            fits = dim[i] >= 0;
        if (!fits)
            return tmk_fail(diag, TMK_SHAPE,
                            "input 'output_shape' does not fit an input of shape %s",
                            tmk_shape_text(&x->shape, a, sizeof a));
        memcpy(shape.dim, dim, n * sizeof *dim);
    }
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static enum tmk_status run_unpool(struct tmk_run *run) {
    const float *x = run->in[0]->data;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    if (!y)
        return TMK_OK;
    size_t count = tmk_tensor_count(y);
    if (count)
        memset(y->data, 0, tmk_tensor_bytes(y));
    for (size_t i = 0, n = tmk_tensor_count(run->in[0]); i < n; i++) {
        int64_t at = tmk_index_at(run->in[1], i);
        if (at < 0 || (uint64_t)at >= count)
            return tmk_fail(run->diag, TMK_RANGE,
                            "element %zu of the indices is %lld; the output has %zu elements", i,
                            (long long)at, count);
        ((float *)y->data)[at] = x[i];
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_max_unpool[] = {
    {TMK_OP_ONNX("MaxUnpool", 9, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "kernel_shape:ints! pads:ints strides:ints",
     .infer = infer_unpool, .run = run_unpool},
    {NULL}};
