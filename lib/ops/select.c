/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose result's length depends on the elements: NonZero and Compress. */
#include <string.h>

#include "ops/kernel.h"

/* ---- NonZero ---- */

static bool is_zero(const struct tmk_tensor *in, size_t i, size_t element) {
    static const char zeros[16];
    if (in->dtype == TMK_FLOAT32) /* -0 too */
        return ((const float *)in->data)[i] == 0.0f;
    return memcmp((const char *)in->data + i * element, zeros, element) == 0;
}

static enum tmk_status nonzero_infer(struct tmk_infer *infer) {
    enum tmk_dtype dtype = infer->in[0]->dtype;
    if (tmk_dtype_is_float(dtype) && dtype != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_TYPE, "zeros of %s are not known", tmk_dtype_name(dtype));
    return TMK_OK;
}

static enum tmk_status nonzero_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    size_t n = tmk_tensor_count(in), element = tmk_dtype_size(in->dtype), found = 0;
    int32_t rank = in->shape.rank;
    for (size_t i = 0; i < n; i++)
        found += !is_zero(in, i, element);
    TMK_TRY(tmk_run_alloc(run, 0, TMK_INT64, &(struct tmk_shape){2, {rank, (int64_t)found}}));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t *to = out->data, at[TMK_MAX_RANK] = {0};
    for (size_t i = 0; i < n; i++) {
        if (!is_zero(in, i, element)) {
            for (int32_t k = 0; k < rank; k++)
                to[(size_t)k * found] = at[k];
            to++;
        }
        for (int32_t k = rank - 1; k >= 0 && ++at[k] == in->shape.dim[k]; k--)
            at[k] = 0;
    }
    return TMK_OK;
}

/* ---- Compress: what stands where the condition is true; without an axis of the flattened input
 * ---- */

static enum tmk_status compress_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0], *condition = infer->in[1];
    int32_t axis;
    TMK_TRY(tmk_want_dtype(condition, TMK_BOOL, "the condition", infer->diag));
    if (in->shape.rank < 1 || condition->shape.rank != 1)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "the input has %d axes (1 at least) and the condition %d (1)",
                        in->shape.rank, condition->shape.rank);
    if (tmk_node_attr(infer->node, "axis"))
        TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", 0), in->shape.rank, &axis, infer->diag));
    return TMK_OK;
}

static enum tmk_status compress_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0], *condition = run->in[1];
    const uint8_t *wanted = condition->data;
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)tmk_tensor_count(in)}};
    int32_t axis = 0;
    if (tmk_node_attr(run->node, "axis")) {
        shape = in->shape;
        TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", 0), shape.rank, &axis, run->diag));
    }
    int64_t extent = shape.dim[axis], kept = 0;
    int64_t length = condition->shape.dim[0] < extent ? condition->shape.dim[0] : extent;
    for (int64_t i = 0; i < length; i++)
        kept += wanted[i] != 0;
    size_t block = tmk_dtype_size(in->dtype);
    bool empty = tmk_tensor_count(in) == 0 || kept == 0;
    size_t outer = empty ? 0 : tmk_shape_product(&shape, 0, axis);
    block *= empty ? 0 : tmk_shape_product(&shape, axis + 1, shape.rank);
    shape.dim[axis] = kept;
    TMK_TRY(tmk_run_alloc(run, 0, in->dtype, &shape));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const char *from = in->data;
    char *to = out->data;
    for (size_t o = 0; o < outer; o++, from += (size_t)extent * block)
        for (int64_t i = 0; i < length; i++)
            if (wanted[i]) {
                memcpy(to, from + (size_t)i * block, block);
                to += block;
            }
    return TMK_OK;
}

const struct tmk_op tmk_ops_select[] = {
    {TMK_OP_ONNX("NonZero", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_SIZES_ITSELF,
     .infer = nonzero_infer, .run = nonzero_run},
    {TMK_OP_ONNX("Compress", 9, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_SIZES_ITSELF,
     .attrs = "axis:int", .infer = compress_infer, .run = compress_run},
    {NULL}};
