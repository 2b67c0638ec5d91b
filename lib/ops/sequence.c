/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences made, changed and looked into. A changed sequence is a new list that shares the tensors
 * of the old one. */
#include "ops/sequence.h"

#include "ops/move.h"
#include "ops/rows.h"
#include "ops/stack.h"

enum tmk_status tmk_sequence_begin(size_t n, struct tmk_list **out, struct tmk_diag *diag) {
    if (n > TMK_MAX_IN_SEQUENCE)
        return tmk_fail(diag, TMK_RANGE, "a sequence of %zu tensors is too long; at most %d", n,
                        TMK_MAX_IN_SEQUENCE);
    *out = tmk_list_create(n);
    return *out ? TMK_OK : tmk_nomem(diag);
}

void tmk_sequence_give(struct tmk_run *run, uint32_t i, enum tmk_dtype dtype,
                       struct tmk_list *list) {
    struct tmk_tensor sequence;
    tmk_tensor_of_list(&sequence, dtype, list);
    tmk_give(run, i, &sequence);
}

/* The one number of input i, or `otherwise` when the input is absent; from -n it counts from the
 * end. 0 <= *out < limit. */
static enum tmk_status read_position(const struct tmk_run *run, uint32_t i, size_t n, size_t limit,
                                     size_t otherwise, size_t *out) {
    const struct tmk_tensor *tensor = tmk_run_in(run, i);
    int64_t position;
    size_t count;
    *out = otherwise;
    if (!tensor)
        return TMK_OK;
    TMK_TRY(tmk_want_tensor(tensor, "the position", run->diag));
    TMK_TRY(tmk_read_ints(tensor, "the position", 1, &position, &count, run->diag));
    if (count != 1)
        return tmk_fail(run->diag, TMK_SHAPE, "the position must be one number");
    if (position < -(int64_t)n || position >= (int64_t)limit)
        return tmk_fail(run->diag, TMK_RANGE,
                        "position %lld is outside [-%zu, %zu) in a sequence of %zu tensors",
                        (long long)position, n, limit, n);
    *out = (size_t)(position < 0 ? position + (int64_t)n : position);
    return TMK_OK;
}

/* ---- SequenceConstruct, SequenceEmpty ---- */

static enum tmk_status fill_from_inputs(struct tmk_run *run, struct tmk_list *list) {
    for (uint32_t i = 0; i < run->n_in; i++) {
        if (!run->in[i])
            return tmk_fail(run->diag, TMK_GRAPH, "input %u is absent", i);
        if (run->in[i]->dtype != run->in[0]->dtype)
            return tmk_fail(run->diag, TMK_TYPE, "input %u is %s, but input 0 is %s", i,
                            tmk_dtype_name(run->in[i]->dtype), tmk_dtype_name(run->in[0]->dtype));
        TMK_TRY(tmk_tensor_keep(tmk_list_place(list, i), run->in[i], run->diag));
    }
    return TMK_OK;
}

static enum tmk_status construct_run(struct tmk_run *run) {
    struct tmk_list *list;
    TMK_TRY(tmk_sequence_begin(run->n_in, &list, run->diag));
    enum tmk_status status = fill_from_inputs(run, list);
    if (status == TMK_OK)
        tmk_sequence_give(run, 0, run->in[0]->dtype, list);
    else
        tmk_list_unref(&list);
    return status;
}

static enum tmk_status empty_infer(struct tmk_infer *infer) {
    int64_t dtype = tmk_node_int(infer->node, "dtype", TMK_FLOAT32);
    if (dtype < TMK_UNDEFINED || dtype >= TMK_N_DTYPES || !tmk_dtype_size((enum tmk_dtype)dtype))
        return tmk_fail(infer->diag, TMK_TYPE, "sequences of element type %lld are not supported",
                        (long long)dtype);
    return TMK_OK;
}

static enum tmk_status empty_run(struct tmk_run *run) {
    struct tmk_list *list;
    TMK_TRY(tmk_sequence_begin(0, &list, run->diag));
    int64_t dtype = tmk_node_int(run->node, "dtype", TMK_FLOAT32);
    tmk_sequence_give(run, 0, tmk_held_dtype((enum tmk_dtype)dtype), list);
    return TMK_OK;
}

/* ---- SequenceInsert, SequenceErase ---- */

static enum tmk_status insert_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *sequence = infer->in[0], *tensor = infer->in[1];
    TMK_TRY(tmk_want_sequence(sequence, "input 0", infer->diag));
    TMK_TRY(tmk_want_tensor(tensor, "input 1", infer->diag));
    if (sequence->dtype != TMK_UNDEFINED && tensor->dtype != sequence->dtype)
        return tmk_fail(infer->diag, TMK_TYPE,
                        "a tensor of %s cannot go into a sequence of %s tensors",
                        tmk_dtype_name(tensor->dtype), tmk_dtype_name(sequence->dtype));
    return TMK_OK;
}

static enum tmk_status insert_run(struct tmk_run *run) {
    const struct tmk_tensor *old = tmk_list_items(run->in[0]->list);
    size_t n = tmk_list_length(run->in[0]->list), at;
    struct tmk_list *list;
    TMK_TRY(read_position(run, 2, n, n + 1, n, &at));
    TMK_TRY(tmk_sequence_begin(n + 1, &list, run->diag));
    enum tmk_status status = tmk_tensor_keep(tmk_list_place(list, at), run->in[1], run->diag);
    for (size_t i = 0; i < n; i++)
        tmk_tensor_share(tmk_list_place(list, i < at ? i : i + 1), &old[i]);
    if (status == TMK_OK)
        tmk_sequence_give(run, 0, run->in[1]->dtype, list);
    else
        tmk_list_unref(&list);
    return status;
}

static enum tmk_status one_sequence_infer(struct tmk_infer *infer) {
    return tmk_want_sequence(infer->in[0], "input 0", infer->diag);
}

static enum tmk_status erase_run(struct tmk_run *run) {
    const struct tmk_tensor *old = tmk_list_items(run->in[0]->list);
    size_t n = tmk_list_length(run->in[0]->list), at;
    struct tmk_list *list;
    if (!n)
        return tmk_fail(run->diag, TMK_RANGE, "the sequence is empty");
    TMK_TRY(read_position(run, 1, n, n, n - 1, &at));
    TMK_TRY(tmk_sequence_begin(n - 1, &list, run->diag));
    for (size_t i = 0; i < n; i++)
        if (i != at)
            tmk_tensor_share(tmk_list_place(list, i < at ? i : i - 1), &old[i]);
    tmk_sequence_give(run, 0, run->in[0]->dtype, list);
    return TMK_OK;
}

/* ---- SequenceAt, SequenceLength ---- */

static enum tmk_status at_run(struct tmk_run *run) {
    size_t n = tmk_list_length(run->in[0]->list), at;
    struct tmk_tensor tensor;
    TMK_TRY(read_position(run, 1, n, n, 0, &at));
    tmk_tensor_share(&tensor, &tmk_list_items(run->in[0]->list)[at]);
    tmk_give(run, 0, &tensor);
    return TMK_OK;
}

static enum tmk_status length_infer(struct tmk_infer *infer) {
    const struct tmk_shape scalar = {0};
    tmk_infer_set(infer, 0, TMK_INT64, &scalar);
    return one_sequence_infer(infer);
}

static enum tmk_status length_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(int64_t *)out->data = (int64_t)tmk_list_length(run->in[0]->list);
    return TMK_OK;
}

/* ---- rows ---- */

const struct tmk_op tmk_ops_sequence[] = {
    {TMK_OP_ONNX("SequenceConstruct", 11, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_MAKES_SEQUENCES,
     .infer = tmk_infer_nothing, .run = construct_run},
    {TMK_OP_ONNX("SequenceEmpty", 11, INT32_MAX), TMK_OP_COUNTS(0, 0, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_MAKES_SEQUENCES, .attrs = "dtype:int",
     .infer = empty_infer, .run = empty_run},
    {TMK_OP_ONNX("SequenceInsert", 11, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY | TMK_OP_MAKES_SEQUENCES,
     .infer = insert_infer, .run = insert_run},
    {TMK_OP_ONNX("SequenceErase", 11, INT32_MAX), TMK_OP_COUNTS(1, 2, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY | TMK_OP_MAKES_SEQUENCES,
     .infer = one_sequence_infer, .run = erase_run},
    {TMK_OP_ONNX("SequenceAt", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY, .infer = one_sequence_infer,
     .run = at_run},
    {TMK_OP_ONNX("SequenceLength", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_TAKES_ANY, .infer = length_infer, .run = length_run},
    {NULL}};
