/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor cut into a sequence, and a sequence laid side by side. */
#include <stdlib.h>
#include <string.h>

#include "ops/move.h"
#include "ops/rows.h"
#include "ops/sequence.h"
#include "ops/stack.h"

/* ---- SplitToSequence ---- */

struct cutting {
    struct tmk_run *run;
    const struct tmk_tensor *in;
    int32_t axis;
    int64_t extent;
    bool keep_axis;
    int64_t chunk; /* every part but the last, where `lengths` is NULL */
    int64_t *lengths;
    size_t n;
};

/* A scalar is the length of every part but the last; a list holds the lengths. */
static enum tmk_status read_lengths(struct cutting *c, const struct tmk_tensor *split) {
    struct tmk_diag *diag = c->run->diag;
    size_t count = tmk_tensor_count(split), n;
    if (split->shape.rank == 0) {
        TMK_TRY(tmk_read_ints(split, "the length", 1, &c->chunk, &n, diag));
        if (c->chunk < 1)
            return tmk_fail(diag, TMK_RANGE, "parts of length %lld are not possible",
                            (long long)c->chunk);
        c->n = (size_t)(c->extent / c->chunk + (c->extent % c->chunk != 0));
        return TMK_OK;
    }
    if (count > TMK_MAX_IN_SEQUENCE)
        count = TMK_MAX_IN_SEQUENCE;
    c->lengths = calloc(count + 1, sizeof *c->lengths);
    if (!c->lengths)
        return tmk_nomem(diag);
    TMK_TRY(tmk_read_ints(split, "the lengths", count, c->lengths, &c->n, diag));
    int64_t sum = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->lengths[i] < 0 || !tmk_add_i64(sum, c->lengths[i], &sum))
            return tmk_fail(diag, TMK_RANGE, "the length %lld of part %zu is not possible",
                            (long long)c->lengths[i], i);
    if (sum != c->extent)
        return tmk_fail(diag, TMK_SHAPE, "the lengths add up to %lld, but the dimension is %lld",
                        (long long)sum, (long long)c->extent);
    return TMK_OK;
}

/* Part of `length` from `begin` on. */
static enum tmk_status cut_part(const struct cutting *c, int64_t begin, int64_t length,
                                struct tmk_tensor *out) {
    const struct tmk_shape *whole = &c->in->shape;
    struct tmk_shape shape = *whole;
    shape.dim[c->axis] = length;
    if (!c->keep_axis) {
        memmove(&shape.dim[c->axis], &shape.dim[c->axis + 1],
                (size_t)(shape.rank - c->axis - 1) * sizeof shape.dim[0]);
        shape.rank--;
    }
    TMK_TRY(tmk_tensor_init(out, c->in->dtype, &shape, c->run->diag));
    if (!tmk_tensor_bytes(out))
        return TMK_OK;
    size_t outer = tmk_shape_product(whole, 0, c->axis);
    size_t inner =
        tmk_shape_product(whole, c->axis + 1, whole->rank) * tmk_dtype_size(c->in->dtype);
    size_t block = (size_t)length * inner, stride = (size_t)c->extent * inner;
    for (size_t o = 0; o < outer; o++)
        memcpy((char *)out->data + o * block,
               (const char *)c->in->data + o * stride + (size_t)begin * inner, block);
    return TMK_OK;
}

static enum tmk_status cut_all(const struct cutting *c, struct tmk_list *list) {
    int64_t begin = 0;
    for (size_t i = 0; i < c->n; i++) {
        int64_t left = c->extent - begin;
        int64_t length = c->lengths ? c->lengths[i] : c->chunk < left ? c->chunk : left;
        TMK_TRY(cut_part(c, begin, length, tmk_list_place(list, i)));
        begin += length;
    }
    return TMK_OK;
}

static enum tmk_status split_parts(struct cutting *c) {
    const struct tmk_tensor *lengths = tmk_run_in(c->run, 1);
    TMK_TRY(
        tmk_axis(tmk_node_int(c->run->node, "axis", 0), c->in->shape.rank, &c->axis, c->run->diag));
    c->extent = c->in->shape.dim[c->axis];
    c->keep_axis = lengths || tmk_node_int(c->run->node, "keepdims", 1) != 0;
    c->chunk = 1;
    c->n = (size_t)c->extent;
    if (lengths)
        TMK_TRY(read_lengths(c, lengths));
    struct tmk_list *list;
    TMK_TRY(tmk_sequence_begin(c->n, &list, c->run->diag));
    enum tmk_status status = cut_all(c, list);
    if (status == TMK_OK)
        tmk_sequence_give(c->run, 0, c->in->dtype, list);
    else
        tmk_list_unref(&list);
    return status;
}

static enum tmk_status split_run(struct tmk_run *run) {
    struct cutting c = {.run = run, .in = run->in[0]};
    enum tmk_status status = split_parts(&c);
    free(c.lengths);
    return status;
}

/* ---- ConcatFromSequence ---- */

/* The shape with a new axis of one, where the attributes ask for one. */
static enum tmk_status add_axis(const struct tmk_node *node, struct tmk_shape *shape,
                                struct tmk_diag *diag) {
    int32_t axis;
    if (!tmk_node_int(node, "new_axis", 0))
        return TMK_OK;
    if (shape->rank == TMK_MAX_RANK)
        return tmk_fail(diag, TMK_SHAPE, "too many axes to stack on another");
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", 0), shape->rank + 1, &axis, diag));
    memmove(&shape->dim[axis + 1], &shape->dim[axis],
            (size_t)(shape->rank - axis) * sizeof shape->dim[0]);
    shape->dim[axis] = 1;
    shape->rank++;
    return TMK_OK;
}

static enum tmk_status concat_tensors(struct tmk_run *run, struct tmk_tensor *tensors,
                                      const struct tmk_tensor **in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tensors[i] = tmk_list_items(run->in[0]->list)[i];
        in[i] = &tensors[i];
        TMK_TRY(add_axis(run->node, &tensors[i].shape, run->diag));
    }
    struct tmk_infer_result result = {0};
    struct tmk_infer infer = {run->node, (uint32_t)n, 1, in, &result, run->diag};
    TMK_TRY(tmk_in(run->diag, tmk_concat_infer(&infer), "with the sequence's tensors as inputs"));
    TMK_TRY(tmk_run_alloc(run, 0, result.dtype, &result.shape));
    struct tmk_run side_by_side = *run;
    side_by_side.in = in;
    side_by_side.n_in = (uint32_t)n;
    return tmk_concat_run(&side_by_side);
}

static enum tmk_status concat_run(struct tmk_run *run) {
    size_t n = tmk_list_length(run->in[0]->list);
    if (!n)
        return tmk_fail(run->diag, TMK_SHAPE, "an empty sequence has nothing to lay side by side");
    struct tmk_tensor *tensors = calloc(n, sizeof *tensors); /* shared without a reference */
    const struct tmk_tensor **in = calloc(n, sizeof(struct tmk_tensor *));
    enum tmk_status status =
        tensors && in ? concat_tensors(run, tensors, in, n) : tmk_nomem(run->diag);
    free(tensors);
    free(in);
    return status;
}

static enum tmk_status concat_infer(struct tmk_infer *infer) {
    int64_t new_axis = tmk_node_int(infer->node, "new_axis", 0);
    if (new_axis != 0 && new_axis != 1)
        return tmk_fail(infer->diag, TMK_RANGE, "new_axis must be 0 or 1, but is %lld",
                        (long long)new_axis);
    return tmk_want_sequence(infer->in[0], "input 0", infer->diag);
}

const struct tmk_op tmk_ops_sequence_split[] = {
    {TMK_OP_ONNX("SplitToSequence", 11, INT32_MAX), TMK_OP_COUNTS(1, 2, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_MAKES_SEQUENCES,
     .attrs = "axis:int keepdims:int", .infer = tmk_infer_nothing, .run = split_run},
    {TMK_OP_ONNX("ConcatFromSequence", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY,
     .attrs = "axis:int! new_axis:int", .infer = concat_infer, .run = concat_run},
    {NULL}};
