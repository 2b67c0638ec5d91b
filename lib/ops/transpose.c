/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/move.h"
#include "ops/rows.h"

/* perm[i]: the input's axis that becomes axis i. Without the attribute the axes are reversed. */
static enum tmk_status read_permutation(const struct tmk_node *node, int32_t rank,
                                        int32_t perm[TMK_MAX_RANK], struct tmk_diag *diag) {
    size_t n;
    const int64_t *given = tmk_node_ints(node, "perm", &n);
    bool seen[TMK_MAX_RANK] = {false};
    if (!given && !tmk_node_attr(node, "perm")) {
        for (int32_t i = 0; i < rank; i++)
            perm[i] = rank - 1 - i;
        return TMK_OK;
    }
    if (n != (size_t)rank)
        return tmk_fail(diag, TMK_SHAPE, "perm has %zu entries for an input of rank %d", n, rank);
    for (int32_t i = 0; i < rank; i++) {
        if (given[i] < 0 || given[i] >= rank || seen[given[i]])
            return tmk_fail(diag, TMK_RANGE, "perm is no permutation of the axes: %lld at %d",
                            (long long)given[i], i);
        perm[i] = (int32_t)given[i];
        seen[perm[i]] = true;
    }
    return TMK_OK;
}

static enum tmk_status transpose_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    int32_t perm[TMK_MAX_RANK];
    TMK_TRY(read_permutation(infer->node, in->shape.rank, perm, infer->diag));
    struct tmk_shape shape = {.rank = in->shape.rank};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = in->shape.dim[perm[i]];
    return tmk_infer_set(infer, 0, in->dtype, &shape);
}

static enum tmk_status transpose_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t perm[TMK_MAX_RANK];
    int64_t to[TMK_MAX_RANK], from[TMK_MAX_RANK];
    TMK_TRY(read_permutation(run->node, in->shape.rank, perm, run->diag));
    if (!out || tmk_tensor_count(out) == 0)
        return TMK_OK;
    tmk_strides(&out->shape, to);
    tmk_strides(&in->shape, from);
    struct tmk_move move = {0};
    for (int32_t i = 0; i < out->shape.rank; i++)
        tmk_move_axis(&move, out->shape.dim[i], to[i], from[perm[i]]);
    tmk_move_run(&move, tmk_dtype_size(out->dtype), out->data, in->data);
    return TMK_OK;
}

const struct tmk_op tmk_ops_transpose[] = {
    {TMK_OP_ONNX("Transpose", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = "perm:ints",
     .infer = transpose_infer, .run = transpose_run},
    {NULL},
};
