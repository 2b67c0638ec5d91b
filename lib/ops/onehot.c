/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/move.h"

#define NUMBER_CASE(op, dtype, T, U)                                                               \
    case TMK_##dtype:                                                                              \
        return (int64_t)((const T *)tensor->data)[i];

/* Element i of any type, as ONNX requires: cut to int64. */
static int64_t integer_element(const struct tmk_tensor *tensor, size_t i) {
    switch (tensor->dtype) {
        TMK_EACH_INTEGER(NUMBER_CASE, _)
    default:
        return tmk_to_int64((double)((const float *)tensor->data)[i]);
    }
}

static enum tmk_status want_number(const struct tmk_tensor *tensor, const char *what,
                                   struct tmk_diag *diag) {
    if (tensor->dtype == TMK_FLOAT32 ||
        (tmk_dtype_is_integer(tensor->dtype) && tensor->dtype < TMK_UINT4))
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "%s of type %s are not possible", what,
                    tmk_dtype_name(tensor->dtype));
}

static enum tmk_status onehot_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *indices = infer->in[0], *depth = infer->in[1];
    int32_t axis, rank = indices->shape.rank + 1;
    TMK_TRY(want_number(indices, "indices", infer->diag));
    TMK_TRY(want_number(depth, "depths", infer->diag));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", -1), rank, &axis, infer->diag));
    if (rank > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result would have %d axes; at most %d", rank,
                        TMK_MAX_RANK);
    if (tmk_tensor_count(depth) != 1 || depth->shape.rank > 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "the depth must be one number");
    if (tmk_tensor_count(infer->in[2]) != 2 || infer->in[2]->shape.rank != 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "the values must be two, off and on");
    if (!depth->data)
        return TMK_OK;
    struct tmk_shape shape = {.rank = rank};
    for (int32_t i = 0, from = 0; i < rank; i++)
        shape.dim[i] = i == axis ? integer_element(depth, 0) : indices->shape.dim[from++];
    if (shape.dim[axis] <= 0)
        return tmk_fail(infer->diag, TMK_RANGE, "the depth is %lld", (long long)shape.dim[axis]);
    return tmk_infer_set(infer, 0, infer->in[2]->dtype, &shape);
}

static enum tmk_status run_with(struct tmk_run *run, bool from_the_end) {
    const struct tmk_tensor *indices = run->in[0], *values = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis;
    size_t n = out ? tmk_tensor_count(out) : 0, element = tmk_dtype_size(values->dtype);
    if (n == 0)
        return TMK_OK;
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), out->shape.rank, &axis, run->diag));
    int64_t depth = out->shape.dim[axis];
    size_t inner = tmk_shape_product(&out->shape, axis + 1, out->shape.rank);
    const char *on = (const char *)values->data + element;
    tmk_fill(out->data, values->data, element, n);
    n = tmk_tensor_count(indices);
    for (size_t i = 0; i < n; i++) {
        int64_t at = integer_element(indices, i);
        if (at < 0 && from_the_end)
            at += depth;
        if (at < 0 || at >= depth)
            continue;
        size_t to = (i / inner * (size_t)depth + (size_t)at) * inner + i % inner;
        memcpy((char *)out->data + to * element, on, element);
    }
    return TMK_OK;
}

static enum tmk_status onehot_9_run(struct tmk_run *run) {
    return run_with(run, false);
}

static enum tmk_status onehot_11_run(struct tmk_run *run) {
    return run_with(run, true);
}

static const char attrs[] = "axis:int";

const struct tmk_op tmk_ops_onehot[] = {
    {TMK_OP_ONNX("OneHot", 9, 10), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = attrs, .infer = onehot_infer,
     .run = onehot_9_run},
    {TMK_OP_ONNX("OneHot", 11, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = attrs,
     .infer = onehot_infer, .run = onehot_11_run},
    {NULL}};
