/* SPDX-License-Identifier: Apache-2.0 */
/* SequenceMap: a graph runs once for every tensor of a sequence. */
#include <stdlib.h>

#include "ops/rows.h"
#include "ops/sequence.h"
#include "ops/stack.h"

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
    if (!map->inputs || !map->made || !map->lists)
        return tmk_nomem(run->diag);
    for (uint32_t i = 0; i < run->n_out; i++)
        TMK_TRY(tmk_sequence_begin(map->n, &map->lists[i], run->diag));
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
        tmk_sequence_give(map->run, i, dtype, map->lists[i]);
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

const struct tmk_op tmk_ops_sequence_map[] = {
    {TMK_OP_ONNX("SequenceMap", 17, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS | TMK_OP_TAKES_ANY |
              TMK_OP_MAKES_SEQUENCES,
     .attrs = "body:graph!", .infer = map_infer, .run = map_run},
    {NULL}};
