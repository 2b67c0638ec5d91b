/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/move.h"
#include "ops/rows.h"

static enum tmk_status axis_of(const struct tmk_node *node, int32_t rank, int32_t *axis,
                               struct tmk_diag *diag) {
    return tmk_axis(tmk_node_int(node, "axis", 1), rank, axis, diag);
}

enum tmk_status tmk_concat_infer(struct tmk_infer *infer) {
    char a[256], b[256];
    int32_t axis;
    const struct tmk_tensor *first = infer->in[0];
    struct tmk_shape shape = first->shape;
    TMK_TRY(axis_of(infer->node, shape.rank, &axis, infer->diag));
    for (uint32_t i = 1; i < infer->n_in; i++) {
        const struct tmk_tensor *in = infer->in[i];
        if (!in)
            return tmk_fail(infer->diag, TMK_GRAPH, "input %u is absent", i);
        if (in->dtype != first->dtype)
            return tmk_fail(infer->diag, TMK_TYPE, "input %u is %s, but input 0 is %s", i,
                            tmk_dtype_name(in->dtype), tmk_dtype_name(first->dtype));
        struct tmk_shape same = in->shape;
        if (same.rank == shape.rank)
            same.dim[axis] = first->shape.dim[axis];
        if (!tmk_shape_equal(&same, &first->shape))
            return tmk_fail(infer->diag, TMK_SHAPE,
                            "input %u of shape %s does not go beside %s on axis %d", i,
                            tmk_shape_text(&in->shape, a, sizeof a),
                            tmk_shape_text(&first->shape, b, sizeof b), axis);
        if (!tmk_add_i64(shape.dim[axis], in->shape.dim[axis], &shape.dim[axis]))
            return tmk_fail(infer->diag, TMK_RANGE, "the sizes on axis %d overflow", axis);
    }
    return tmk_infer_set(infer, 0, first->dtype, &shape);
}

enum tmk_status tmk_concat_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (!out || tmk_tensor_count(out) == 0)
        return TMK_OK;
    int32_t axis, rank = out->shape.rank;
    TMK_TRY(axis_of(run->node, rank, &axis, run->diag));
    size_t element = tmk_dtype_size(out->dtype), outer = tmk_shape_product(&out->shape, 0, axis);
    size_t stride = tmk_shape_product(&out->shape, axis, rank) * element;
    char *to = out->data;
    for (uint32_t i = 0; i < run->n_in; i++) {
        const char *from = run->in[i]->data;
        size_t block = tmk_shape_product(&run->in[i]->shape, axis, rank) * element;
        for (size_t o = 0; o < outer && block; o++)
            memcpy(to + o * stride, from + o * block, block);
        to += block;
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_concat[] = {
    {TMK_OP_ONNX("Concat", 1, 3), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1), .attrs = "axis:int",
     .infer = tmk_concat_infer, .run = tmk_concat_run},
    {TMK_OP_ONNX("Concat", 4, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1),
     .attrs = "axis:int!", .infer = tmk_concat_infer, .run = tmk_concat_run},
    {NULL}};
