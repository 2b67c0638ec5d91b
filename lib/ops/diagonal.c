/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that know rows, columns and a diagonal: EyeLike, Trilu and OneHot. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/elementwise.h"
#include "ops/move.h"

/* min(max(row + k, 0), columns) without overflow: where diagonal k crosses the row. */
static int64_t diagonal_column(int64_t row, int64_t k, int64_t columns) {
    int64_t at;
    if (!tmk_add_i64(row, k, &at))
        return columns; /* row is not negative, so only upwards */
    return at < 0 ? 0 : at > columns ? columns : at;
}

/* ---- EyeLike ---- */

/* Writes 1 as the type spells it; false for types that cannot be made. */
static bool write_one(enum tmk_dtype dtype, void *out) {
    if (dtype == TMK_FLOAT32) {
        memcpy(out, &(float){1.0f}, sizeof(float));
    } else if (dtype == TMK_BOOL || dtype == TMK_INT8 || dtype == TMK_UINT8) {
        *(uint8_t *)out = 1;
    } else if (dtype == TMK_INT16 || dtype == TMK_UINT16) {
        memcpy(out, &(uint16_t){1}, sizeof(uint16_t));
    } else if (dtype == TMK_INT32 || dtype == TMK_UINT32) {
        memcpy(out, &(uint32_t){1}, sizeof(uint32_t));
    } else if (dtype == TMK_INT64 || dtype == TMK_UINT64) {
        memcpy(out, &(uint64_t){1}, sizeof(uint64_t));
    } else {
        return false;
    }
    return true;
}

static enum tmk_status eye_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    int64_t asked = tmk_node_int(infer->node, "dtype", in->dtype);
    char scratch[8];
    TMK_TRY(tmk_want_shape(in, in->dtype, "input", &(struct tmk_shape){2, {-1, -1}}, infer->diag));
    enum tmk_dtype dtype =
        asked >= 0 && asked < TMK_N_DTYPES ? (enum tmk_dtype)asked : TMK_UNDEFINED;
    dtype = tmk_held_dtype(dtype);
    if (!write_one(dtype, scratch))
        return tmk_fail(infer->diag, TMK_TYPE, "type %lld is not possible here", (long long)asked);
    return tmk_infer_set(infer, 0, dtype, &in->shape);
}

static enum tmk_status eye_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t k = tmk_node_int(run->node, "k", 0), columns = out->shape.dim[1];
    size_t element = tmk_dtype_size(out->dtype);
    char value[8];
    write_one(out->dtype, value);
    memset(out->data, 0, tmk_tensor_bytes(out));
    for (int64_t row = 0; row < out->shape.dim[0]; row++) {
        int64_t at = diagonal_column(row, k, columns);
        if (at < columns && at - row == k)
            memcpy((char *)out->data + (size_t)(row * columns + at) * element, value, element);
    }
    return TMK_OK;
}

/* ---- Trilu ---- */

static enum tmk_status trilu_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0], *k = tmk_infer_in(infer, 1);
    TMK_TRY(tmk_want_rank(&in->shape, 2, infer->diag));
    TMK_TRY(tmk_want_scalar(k, TMK_INT64, "k", infer->diag));
    return tmk_infer_set(infer, 0, in->dtype, &in->shape);
}

static enum tmk_status trilu_run(struct tmk_run *run) {
    const struct tmk_tensor *diagonal = tmk_run_in(run, 1);
    struct tmk_tensor *out = tmk_run_out(run, 0);
    bool upper = tmk_node_int(run->node, "upper", 1) != 0;
    int64_t k = diagonal ? tmk_index_at(diagonal, 0) : 0;
    int32_t rank = out->shape.rank;
    int64_t rows = out->shape.dim[rank - 2], columns = out->shape.dim[rank - 1];
    size_t element = tmk_dtype_size(out->dtype),
           matrices = tmk_shape_product(&out->shape, 0, rank - 2);
    size_t line = (size_t)columns * element;
    char *to = out->data;
    TMK_TRY(tmk_run_view(run));
    for (size_t m = 0; m < matrices; m++)
        for (int64_t row = 0; row < rows; row++, to += line) {
            /* kept: [edge, columns) of the upper part, [0, edge) of the lower */
            size_t edge = (size_t)diagonal_column(row + !upper, k, columns) * element;
            if (upper)
                memset(to, 0, edge);
            else
                memset(to + edge, 0, line - edge);
        }
    return TMK_OK;
}

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

static enum tmk_status onehot_run(struct tmk_run *run) {
    const bool from_the_end = run->node->row->since >= 11;
    const struct tmk_tensor *indices = run->in[0], *values = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis;
    size_t n = tmk_tensor_count(out), element = tmk_dtype_size(values->dtype);
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

static const char attrs[] = "axis:int";

const struct tmk_op tmk_ops_diagonal[] = {
    {TMK_OP_ONNX("EyeLike", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = "dtype:int k:int",
     .infer = eye_infer, .run = eye_run},
    {TMK_OP_ONNX("Trilu", 14, INT32_MAX), TMK_OP_COUNTS(1, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .attrs = "upper:int", .infer = trilu_infer, .run = trilu_run},
    {TMK_OP_CONTRIB("Trilu"), TMK_OP_COUNTS(1, 2, 1, 1), .flags = TMK_OP_INPLACE,
     .attrs = "upper:int", .infer = trilu_infer, .run = trilu_run},
    {TMK_OP_ONNX("OneHot", 9, 10), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = attrs, .infer = onehot_infer,
     .run = onehot_run},
    {TMK_OP_ONNX("OneHot", 11, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = attrs,
     .infer = onehot_infer, .run = onehot_run},
    {NULL}};
