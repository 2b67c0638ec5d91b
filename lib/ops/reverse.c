/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/move.h"

/* Which of the first two axes holds the batch, and which the time. */
static enum tmk_status axes_of(const struct tmk_node *node, int32_t *batch, int32_t *time,
                               struct tmk_diag *diag) {
    int64_t b = tmk_node_int(node, "batch_axis", 1), t = tmk_node_int(node, "time_axis", 0);
    if (b < 0 || b > 1 || t != 1 - b)
        return tmk_fail(diag, TMK_RANGE, "batch_axis %lld and time_axis %lld are not 0 and 1",
                        (long long)b, (long long)t);
    *batch = (int32_t)b;
    *time = (int32_t)t;
    return TMK_OK;
}

static enum tmk_status reverse_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0], *lengths = infer->in[1];
    int32_t batch = 0, time = 0;
    TMK_TRY(tmk_want_rank(&in->shape, 2, infer->diag));
    TMK_TRY(axes_of(infer->node, &batch, &time, infer->diag));
    TMK_TRY(tmk_want_shape(lengths, TMK_INT64, "sequence_lens",
                           &(struct tmk_shape){1, {in->shape.dim[batch]}}, infer->diag));
    return tmk_infer_set(infer, 0, in->dtype, &in->shape);
}

static enum tmk_status reverse_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0], *lengths = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t batch = 0, time = 0;
    TMK_TRY(axes_of(run->node, &batch, &time, run->diag));
    size_t block = tmk_shape_product(&in->shape, 2, in->shape.rank) * tmk_dtype_size(in->dtype);
    size_t step[2] = {(size_t)in->shape.dim[1] * block, block}; /* of axes 0 and 1 */
    for (int64_t b = 0; b < in->shape.dim[batch]; b++) {
        int64_t steps = in->shape.dim[time], length = tmk_index_at(lengths, (size_t)b);
        if (length < 0 || length > steps)
            return tmk_fail(run->diag, TMK_RANGE, "sequence %lld is %lld long, but time only %lld",
                            (long long)b, (long long)length, (long long)steps);
        for (int64_t t = 0; t < steps; t++) {
            size_t from = (size_t)(t < length ? length - 1 - t : t);
            memcpy((char *)out->data + (size_t)b * step[batch] + (size_t)t * step[time],
                   (const char *)in->data + (size_t)b * step[batch] + from * step[time], block);
        }
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_reverse[] = {{TMK_OP_ONNX("ReverseSequence", 10, INT32_MAX),
                                          TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
                                          .attrs = "batch_axis:int time_axis:int",
                                          .infer = reverse_infer, .run = reverse_run},
                                         {NULL}};
