/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optional values. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/stack.h"
#include "tensor/list.h"

/* Sequences made, changed and looked into. A changed sequence is a new list that shares the tensors
 * of the old one. */

enum { TMK_MAX_IN_SEQUENCE = 1 << 20 }; /* more is refused */

/* A list of n places. TMK_RANGE when that is too many. */
static enum tmk_status sequence_begin(size_t n, struct tmk_list **out, struct tmk_diag *diag) {
    if (n > TMK_MAX_IN_SEQUENCE)
        return tmk_fail(diag, TMK_RANGE, "a sequence of %zu tensors is too long; at most %d", n,
                        TMK_MAX_IN_SEQUENCE);
    *out = tmk_list_create(n);
    return *out ? TMK_OK : tmk_nomem(diag);
}

/* Output i becomes the sequence of the list, which is taken. */
static void sequence_give(struct tmk_run *run, uint32_t i, enum tmk_dtype dtype,
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
    *out = otherwise;
    if (!tensor)
        return TMK_OK;
    TMK_TRY(tmk_want_tensor(tensor, "the position", run->diag));
    TMK_TRY(tmk_read_int(tensor, "the position", &position, run->diag));
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
    TMK_TRY(sequence_begin(run->n_in, &list, run->diag));
    enum tmk_status status = fill_from_inputs(run, list);
    if (status == TMK_OK)
        sequence_give(run, 0, run->in[0]->dtype, list);
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
    TMK_TRY(sequence_begin(0, &list, run->diag));
    int64_t dtype = tmk_node_int(run->node, "dtype", TMK_FLOAT32);
    sequence_give(run, 0, tmk_held_dtype((enum tmk_dtype)dtype), list);
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
    TMK_TRY(sequence_begin(n + 1, &list, run->diag));
    enum tmk_status status = tmk_tensor_keep(tmk_list_place(list, at), run->in[1], run->diag);
    for (size_t i = 0; i < n; i++)
        tmk_tensor_share(tmk_list_place(list, i < at ? i : i + 1), &old[i]);
    if (status == TMK_OK)
        sequence_give(run, 0, run->in[1]->dtype, list);
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
    TMK_TRY(sequence_begin(n - 1, &list, run->diag));
    for (size_t i = 0; i < n; i++)
        if (i != at)
            tmk_tensor_share(tmk_list_place(list, i < at ? i : i - 1), &old[i]);
    sequence_give(run, 0, run->in[0]->dtype, list);
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
    tmk_infer_put(infer, 0, TMK_INT64, &scalar);
    return one_sequence_infer(infer);
}

static enum tmk_status length_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(int64_t *)out->data = (int64_t)tmk_list_length(run->in[0]->list);
    return TMK_OK;
}

/* ---- rows ---- */

/* A tensor cut into a sequence, and a sequence laid side by side. */

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
    size_t count = tmk_tensor_count(split);
    if (split->shape.rank == 0) {
        TMK_TRY(tmk_read_int(split, "the length", &c->chunk, diag));
        if (c->chunk < 1)
            return tmk_fail(diag, TMK_RANGE, "parts of length %lld are not possible",
                            (long long)c->chunk);
        c->n = (size_t)(c->extent / c->chunk + (c->extent % c->chunk != 0));
        return TMK_OK;
    }
    if (count > TMK_MAX_IN_SEQUENCE)
        count = TMK_MAX_IN_SEQUENCE;
    c->lengths = calloc(count + 1, sizeof *c->lengths);
    TMK_TRY_ALLOC(c->lengths, diag);
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
    if (!c->keep_axis)
        tmk_shape_drop(&shape, c->axis);
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
    TMK_TRY(sequence_begin(c->n, &list, c->run->diag));
    enum tmk_status status = cut_all(c, list);
    if (status == TMK_OK)
        sequence_give(c->run, 0, c->in->dtype, list);
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
    tmk_shape_insert(shape, axis, 1);
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

/* SequenceMap: a graph runs once for every tensor of a sequence. */

struct map {
    struct tmk_run *run;
    const struct tmk_graph *body;
    size_t n;                  /* tensors in the first input */
    struct tmk_tensor *inputs; /* of the graph, borrowed */
    struct tmk_tensor *made;
    struct tmk_list **lists; /* what was made so far, by output */
};

static enum tmk_status set_up(struct map *map) {
    struct tmk_run *run = map->run;
    map->n = tmk_list_length(run->in[0]->list);
    for (uint32_t i = 1; i < run->n_in; i++) {
        if (!run->in[i])
            return tmk_fail(run->diag, TMK_GRAPH, "input %u is absent", i);
        if (run->in[i]->kind == TMK_TYPE_OPTIONAL)
            return tmk_want_tensor(run->in[i], "an additional input", run->diag);
        if (run->in[i]->list && tmk_list_length(run->in[i]->list) != map->n)
            return tmk_fail(run->diag, TMK_SHAPE,
                            "the sequences of inputs 0 and %u have %zu and %zu tensors", i, map->n,
                            tmk_list_length(run->in[i]->list));
    }
    if (run->n_out > map->body->n_outputs)
        return tmk_fail(run->diag, TMK_GRAPH, "its graph makes %u values, but %u are named",
                        map->body->n_outputs, run->n_out);
    map->inputs = calloc(run->n_in, sizeof *map->inputs);
    map->made = calloc(map->body->n_outputs + 1u, sizeof *map->made);
    map->lists = calloc(run->n_out + 1u, sizeof(struct tmk_list *));
    TMK_TRY_ALLOC(map->inputs && map->made && map->lists, run->diag);
    for (uint32_t i = 0; i < run->n_out; i++)
        TMK_TRY(sequence_begin(map->n, &map->lists[i], run->diag));
    return TMK_OK;
}

static enum tmk_status run_once(struct map *map, size_t at) {
    struct tmk_run *run = map->run;
    for (uint32_t i = 0; i < run->n_in; i++)
        map->inputs[i] = run->in[i]->list ? tmk_list_items(run->in[i]->list)[at] : *run->in[i];
    TMK_TRY(tmk_call_body(run, map->body, map->inputs, run->n_in, map->made));
    for (uint32_t i = 0; i < run->n_out; i++) {
        const struct tmk_tensor *first = tmk_list_items(map->lists[i]);
        TMK_TRY(tmk_want_tensor(&map->made[i], "what its graph makes", run->diag));
        if (at && map->made[i].dtype != first->dtype)
            return tmk_fail(run->diag, TMK_TYPE, "its graph made %s and then %s for output %u",
                            tmk_dtype_name(first->dtype), tmk_dtype_name(map->made[i].dtype), i);
        *tmk_list_place(map->lists[i], at) = map->made[i];
        map->made[i] = (struct tmk_tensor){0};
    }
    return TMK_OK;
}

static void drop_made(struct map *map) {
    for (uint32_t i = 0; map->made && i < map->body->n_outputs; i++)
        tmk_tensor_finish(&map->made[i]);
}

static enum tmk_status run_map(struct map *map) {
    TMK_TRY(set_up(map));
    for (size_t at = 0; at < map->n; at++) {
        TMK_TRY(run_once(map, at));
        drop_made(map);
    }
    for (uint32_t i = 0; i < map->run->n_out; i++) {
        enum tmk_dtype dtype =
            map->n ? tmk_list_items(map->lists[i])->dtype : map->body->outputs[i]->type.dtype;
        sequence_give(map->run, i, dtype, map->lists[i]);
        map->lists[i] = NULL;
    }
    return TMK_OK;
}

static enum tmk_status map_run(struct tmk_run *run) {
    struct map map = {.run = run, .body = tmk_node_attr(run->node, "body")->graphs[0]};
    enum tmk_status status = run_map(&map);
    drop_made(&map);
    for (uint32_t i = 0; map.lists && i < run->n_out; i++)
        tmk_list_unref(&map.lists[i]);
    free(map.inputs);
    free(map.made);
    free(map.lists);
    return status;
}

static enum tmk_status map_infer(struct tmk_infer *infer) {
    return tmk_want_sequence(infer->in[0], "input 0", infer->diag);
}

/* Optionals: one that holds something is that thing, so only those that hold nothing look other
 * than what they are made of. */

static enum tmk_status hand_on(struct tmk_run *run) {
    struct tmk_tensor same;
    TMK_TRY(tmk_tensor_keep(&same, run->in[0], run->diag));
    tmk_give(run, 0, &same);
    return TMK_OK;
}

/* ---- Optional ---- */

static enum tmk_status optional_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = tmk_infer_in(infer, 0);
    if (in && in->kind == TMK_TYPE_OPTIONAL)
        return tmk_fail(infer->diag, TMK_TYPE, "an optional of an optional is not supported");
    if (!in && !tmk_node_attr(infer->node, "type"))
        return tmk_fail(infer->diag, TMK_GRAPH, "neither an input nor attribute 'type' is given");
    return TMK_OK;
}

static enum tmk_status optional_run(struct tmk_run *run) {
    if (tmk_run_in(run, 0))
        return hand_on(run);
    struct tmk_tensor nothing;
    tmk_tensor_nothing(&nothing, tmk_node_attr(run->node, "type")->type->dtype);
    tmk_give(run, 0, &nothing);
    return TMK_OK;
}

/* ---- OptionalHasElement, OptionalGetElement ---- */

static enum tmk_status has_infer(struct tmk_infer *infer) {
    const struct tmk_shape scalar = {0};
    return tmk_infer_set(infer, 0, TMK_BOOL, &scalar);
}

static enum tmk_status has_run(struct tmk_run *run) {
    const struct tmk_tensor *in = tmk_run_in(run, 0);
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(uint8_t *)out->data = in && in->kind != TMK_TYPE_OPTIONAL;
    return TMK_OK;
}

static enum tmk_status get_run(struct tmk_run *run) {
    if (run->in[0]->kind == TMK_TYPE_OPTIONAL)
        return tmk_fail(run->diag, TMK_RANGE, "the optional holds nothing");
    return hand_on(run);
}

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
    {TMK_OP_ONNX("SplitToSequence", 11, INT32_MAX), TMK_OP_COUNTS(1, 2, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_MAKES_SEQUENCES,
     .attrs = "axis:int keepdims:int", .infer = tmk_infer_nothing, .run = split_run},
    {TMK_OP_ONNX("ConcatFromSequence", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY,
     .attrs = "axis:int! new_axis:int", .infer = concat_infer, .run = concat_run},
    {TMK_OP_ONNX("SequenceMap", 17, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS | TMK_OP_TAKES_ANY |
              TMK_OP_MAKES_SEQUENCES,
     .attrs = "body:graph!", .infer = map_infer, .run = map_run},
    {TMK_OP_ONNX("Optional", 15, INT32_MAX), TMK_OP_COUNTS(0, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY, .attrs = "type:type",
     .infer = optional_infer, .run = optional_run},
    {TMK_OP_ONNX("OptionalHasElement", 15, 17), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_TAKES_ANY, .infer = has_infer, .run = has_run},
    {TMK_OP_ONNX("OptionalHasElement", 18, INT32_MAX), TMK_OP_COUNTS(0, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_TAKES_ANY, .infer = has_infer, .run = has_run},
    {TMK_OP_ONNX("OptionalGetElement", 15, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY, .infer = tmk_infer_nothing,
     .run = get_run},
    {NULL}};
