/* SPDX-License-Identifier: Apache-2.0 */
/* Constant and ConstantOfShape. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/elementwise.h"
#include "ops/move.h"

/* ---- Constant ---- */

/* The one attribute that holds the value. */
static enum tmk_status value_of(const struct tmk_node *node, const struct tmk_attr **out,
                                struct tmk_diag *diag) {
    static const char *const names[] = {"value",        "value_int",    "value_ints",
                                        "value_float",  "value_floats", "value_string",
                                        "value_strings"};
    const struct tmk_attr *value = NULL;
    for (size_t i = 0; i < TMK_COUNT(names); i++) {
        const struct tmk_attr *attr = tmk_node_attr(node, names[i]);
        if (attr && value)
            return tmk_fail(diag, TMK_GRAPH, "both %s and %s are given", value->name, attr->name);
        if (attr)
            value = attr;
    }
    if (!value)
        return tmk_fail(diag, TMK_GRAPH, "no value is given");
    if (value->kind == TMK_ATTR_STRING || value->kind == TMK_ATTR_STRINGS)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s: string tensors are not supported", value->name);
    *out = value;
    return TMK_OK;
}

static enum tmk_status constant_infer(struct tmk_infer *infer) {
    const struct tmk_attr *value;
    TMK_TRY(value_of(infer->node, &value, infer->diag));
    struct tmk_shape scalar = {0}, list = {.rank = 1, .dim = {(int64_t)value->n}};
    switch (value->kind) {
    case TMK_ATTR_TENSOR:
        return tmk_infer_set(infer, 0, tmk_held_dtype(value->tensors->dtype),
                             &value->tensors->shape);
    case TMK_ATTR_INT:
        return tmk_infer_set(infer, 0, TMK_INT64, &scalar);
    case TMK_ATTR_INTS:
        return tmk_infer_set(infer, 0, TMK_INT64, &list);
    case TMK_ATTR_FLOAT:
        return tmk_infer_set(infer, 0, TMK_FLOAT32, &scalar);
    case TMK_ATTR_FLOATS:
        return tmk_infer_set(infer, 0, TMK_FLOAT32, &list);
    default:
        return tmk_fail(infer->diag, TMK_GRAPH, "%s is of the wrong kind", value->name);
    }
}

static enum tmk_status constant_run(struct tmk_run *run) {
    const struct tmk_attr *value;
    struct tmk_tensor *out = tmk_run_out(run, 0), wide;
    TMK_TRY(value_of(run->node, &value, run->diag));
    size_t bytes = out ? tmk_tensor_bytes(out) : 0;
    if (bytes == 0)
        return TMK_OK;
    switch (value->kind) {
    case TMK_ATTR_TENSOR:
        TMK_TRY(tmk_tensor_widen(value->tensors, &wide, run->diag));
        memcpy(out->data, wide.data, bytes);
        tmk_tensor_finish(&wide);
        break;
    case TMK_ATTR_INT:
        memcpy(out->data, &value->i, bytes);
        break;
    case TMK_ATTR_INTS:
        memcpy(out->data, value->ints, bytes);
        break;
    case TMK_ATTR_FLOAT:
        memcpy(out->data, &value->f, bytes);
        break;
    default:
        memcpy(out->data, value->floats, bytes);
        break;
    }
    return TMK_OK;
}

/* ---- ConstantOfShape ---- */

static enum tmk_status of_shape_infer(struct tmk_infer *infer) {
    const struct tmk_attr *value = tmk_node_attr(infer->node, "value");
    struct tmk_diag *diag = infer->diag;
    enum tmk_dtype dtype = value ? tmk_held_dtype(value->tensors->dtype) : TMK_FLOAT32;
    struct tmk_shape shape = {0};
    size_t n;
    if (value && tmk_tensor_count(value->tensors) != 1)
        return tmk_fail(diag, TMK_SHAPE, "the value must be one number");
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_INT64, "the shape", diag));
    if (!infer->in[0]->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(infer->in[0], "the shape", TMK_MAX_RANK, shape.dim, &n, diag));
    shape.rank = (int32_t)n;
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0)
            return tmk_fail(diag, TMK_RANGE, "the shape's dimension %d is %lld", i,
                            (long long)shape.dim[i]);
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static enum tmk_status of_shape_run(struct tmk_run *run) {
    const struct tmk_attr *value = tmk_node_attr(run->node, "value");
    struct tmk_tensor *out = tmk_run_out(run, 0), wide;
    size_t n = out ? tmk_tensor_count(out) : 0;
    if (n == 0)
        return TMK_OK;
    if (!value) {
        memset(out->data, 0, tmk_tensor_bytes(out));
        return TMK_OK;
    }
    TMK_TRY(tmk_tensor_widen(value->tensors, &wide, run->diag));
    tmk_fill(out->data, wide.data, tmk_dtype_size(wide.dtype), n);
    tmk_tensor_finish(&wide);
    return TMK_OK;
}

/* How many numbers there are from start to limit: ceil((limit - start) / delta), at least 0. */
static enum tmk_status count_float(float start, float limit, float delta, int64_t *n,
                                   struct tmk_diag *diag) {
    double steps = ceil(((double)limit - (double)start) / (double)delta);
    if (delta == 0.0f || isnan(steps) || steps > 0x1p53)
        return tmk_fail(diag, TMK_RANGE, "a range from %g to %g by %g has no end", (double)start,
                        (double)limit, (double)delta);
    *n = steps > 0 ? (int64_t)steps : 0;
    return TMK_OK;
}

static enum tmk_status count_integer(int64_t start, int64_t limit, int64_t delta, int64_t *n,
                                     struct tmk_diag *diag) {
    if (delta == 0)
        return tmk_fail(diag, TMK_RANGE, "a range from %lld to %lld by 0 has no end",
                        (long long)start, (long long)limit);
    uint64_t way = 0, step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (delta > 0 && limit > start)
        way = (uint64_t)limit - (uint64_t)start;
    else if (delta < 0 && limit < start)
        way = (uint64_t)start - (uint64_t)limit;
    uint64_t steps = way ? (way - 1) / step + 1 : 0;
    if (steps > INT64_MAX)
        return tmk_fail(diag, TMK_RANGE, "a range from %lld to %lld is too long", (long long)start,
                        (long long)limit);
    *n = (int64_t)steps;
    return TMK_OK;
}

static int64_t integer_scalar(const struct tmk_tensor *scalar) {
    return scalar->dtype == TMK_INT16 ? *(const int16_t *)scalar->data : tmk_index_at(scalar, 0);
}

static enum tmk_status count_elements(const struct tmk_tensor *const *in, int64_t *n,
                                      struct tmk_diag *diag) {
    if (in[0]->dtype != TMK_FLOAT32)
        return count_integer(integer_scalar(in[0]), integer_scalar(in[1]), integer_scalar(in[2]), n,
                             diag);
    return count_float(*(const float *)in[0]->data, *(const float *)in[1]->data,
                       *(const float *)in[2]->data, n, diag);
}

static enum tmk_status range_infer(struct tmk_infer *infer) {
    static const char *const what[] = {"the start", "the limit", "the step"};
    enum tmk_dtype dtype = infer->in[0]->dtype;
    bool known = true;
    if (dtype != TMK_FLOAT32 && dtype != TMK_INT16 && dtype != TMK_INT32 && dtype != TMK_INT64)
        return tmk_fail(infer->diag, TMK_TYPE, "a range of %s is not possible",
                        tmk_dtype_name(dtype));
    for (uint32_t i = 0; i < 3; i++) {
        TMK_TRY(tmk_want_scalar(infer->in[i], dtype, what[i], infer->diag));
        known &= infer->in[i]->data != NULL;
    }
    if (!known)
        return TMK_OK;
    struct tmk_shape shape = {.rank = 1};
    TMK_TRY(count_elements(infer->in, &shape.dim[0], infer->diag));
    return tmk_infer_set(infer, 0, dtype, &shape);
}

#define WRITE_RANGE(op, dtype, T, U)                                                               \
    case TMK_##dtype: {                                                                            \
        T *to = out->data;                                                                         \
        U start = (U) * (const T *)run->in[0]->data, delta = (U) * (const T *)run->in[2]->data;    \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (T)(start + (U)i * delta);                                                     \
        break;                                                                                     \
    }

static enum tmk_status range_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    size_t n = out ? tmk_tensor_count(out) : 0;
    if (n == 0)
        return TMK_OK;
    switch (out->dtype) {
        TMK_EACH_FLOAT(WRITE_RANGE, _)
        TMK_EACH_SIGNED(WRITE_RANGE, _)
    default:
        break;
    }
    return TMK_OK;
}

/* stash_type (27) states in which type 16-bit floats are counted up; ours are float32 */
const struct tmk_op tmk_ops_constant[] = {
    {TMK_OP_ONNX("Constant", 1, 11), TMK_OP_COUNTS(0, 0, 1, 1), .attrs = "value:tensor!",
     .infer = constant_infer, .run = constant_run},
    {TMK_OP_ONNX("Constant", 12, INT32_MAX), TMK_OP_COUNTS(0, 0, 1, 1),
     .attrs = "value:tensor value_float:float value_floats:floats value_int:int value_ints:ints "
              "value_string:string value_strings:strings",
     .infer = constant_infer, .run = constant_run},
    {TMK_OP_ONNX("ConstantOfShape", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "value:tensor", .infer = of_shape_infer, .run = of_shape_run},
    {TMK_OP_ONNX("Range", 11, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .attrs = "stash_type:int",
     .infer = range_infer, .run = range_run},
    {TMK_OP_CONTRIB("Range"), TMK_OP_COUNTS(3, 3, 1, 1), .infer = range_infer, .run = range_run},
    {NULL}};
