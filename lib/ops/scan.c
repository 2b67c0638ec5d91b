/* SPDX-License-Identifier: Apache-2.0 */
/* Scan: a graph runs once for every slice of its scan inputs. */
#include <stdlib.h>
#include <string.h>

#include "ops/rows.h"
#include "ops/stack.h"

struct scan {
    struct tmk_run *run;
    const struct tmk_graph *body;
    uint32_t n_states, n_scanned, n_stacked;
    int64_t steps;
    struct tmk_tensor *inputs; /* states, slices */
    struct tmk_tensor *made;   /* states, stacked */
    struct tmk_stack *stacks;
};

/* Entry i of an optional list attribute of `n` numbers. */
static enum tmk_status list_entry(const struct scan *scan, const char *name, size_t n, size_t i,
                                  int64_t *out) {
    size_t given;
    const int64_t *list = tmk_node_ints(scan->run->node, name, &given);
    if (list && given != n)
        return tmk_fail(scan->run->diag, TMK_GRAPH, "attribute '%s' has %zu entries, not %zu", name,
                        given, n);
    *out = list ? list[i] : 0;
    return TMK_OK;
}

static enum tmk_status scanned_axis(const struct scan *scan, uint32_t i, int32_t *axis) {
    const struct tmk_tensor *in = scan->run->in[scan->n_states + i];
    int64_t value = 0;
    TMK_TRY(list_entry(scan, "scan_input_axes", scan->n_scanned, i, &value));
    return tmk_axis(value, in->shape.rank, axis, scan->run->diag);
}

static enum tmk_status set_up(struct scan *scan) {
    struct tmk_run *run = scan->run;
    int64_t scanned = tmk_node_int(run->node, "num_scan_inputs", 0);
    if (scanned < 1 || scanned > run->n_in)
        return tmk_fail(run->diag, TMK_GRAPH, "num_scan_inputs is %lld of %u inputs",
                        (long long)scanned, run->n_in);
    scan->n_scanned = (uint32_t)scanned;
    scan->n_states = run->n_in - scan->n_scanned;
    if (scan->body->n_outputs < scan->n_states || run->n_out > scan->body->n_outputs)
        return tmk_fail(run->diag, TMK_GRAPH,
                        "its graph makes %u values for %u states and %u "
                        "outputs",
                        scan->body->n_outputs, scan->n_states, run->n_out);
    scan->n_stacked = scan->body->n_outputs - scan->n_states;
    scan->inputs = calloc(run->n_in + 1u, sizeof *scan->inputs);
    scan->made = calloc(scan->body->n_outputs + 1u, sizeof *scan->made);
    scan->stacks = calloc(scan->n_stacked + 1u, sizeof *scan->stacks);
    if (!scan->inputs || !scan->made || !scan->stacks)
        return tmk_nomem(run->diag);
    for (uint32_t i = 0; i < run->n_in; i++)
        if (!run->in[i])
            return tmk_fail(run->diag, TMK_GRAPH, "its input %u is absent", i);
    for (uint32_t i = 0; i < scan->n_states; i++)
        TMK_TRY(tmk_tensor_keep(&scan->inputs[i], run->in[i], run->diag));
    scan->steps = -1;
    for (uint32_t i = 0; i < scan->n_scanned; i++) {
        int32_t axis = 0;
        TMK_TRY(scanned_axis(scan, i, &axis));
        int64_t here = run->in[scan->n_states + i]->shape.dim[axis];
        if (scan->steps >= 0 && here != scan->steps)
            return tmk_fail(run->diag, TMK_SHAPE, "scan inputs have %lld and %lld slices",
                            (long long)scan->steps, (long long)here);
        scan->steps = here;
    }
    return TMK_OK;
}

/* Slice `step` of scan input i, copied. */
static enum tmk_status copy_slice(struct scan *scan, uint32_t i, int64_t step) {
    const struct tmk_tensor *in = scan->run->in[scan->n_states + i];
    struct tmk_tensor *slice = &scan->inputs[scan->n_states + i];
    int32_t axis = 0;
    int64_t backwards = 0;
    TMK_TRY(scanned_axis(scan, i, &axis));
    TMK_TRY(list_entry(scan, "scan_input_directions", scan->n_scanned, i, &backwards));
    struct tmk_shape shape = in->shape;
    memmove(&shape.dim[axis], &shape.dim[axis + 1],
            (size_t)(shape.rank - axis - 1) * sizeof shape.dim[0]);
    shape.rank--;
    tmk_tensor_finish(slice);
    TMK_TRY(tmk_tensor_init(slice, in->dtype, &shape, scan->run->diag));
    size_t outer = tmk_shape_product(&in->shape, 0, axis);
    size_t inner =
        tmk_shape_product(&in->shape, axis + 1, in->shape.rank) * tmk_dtype_size(in->dtype);
    size_t steps = (size_t)scan->steps, at = (size_t)(backwards ? scan->steps - 1 - step : step);
    for (size_t o = 0; o < outer && inner; o++)
        memcpy((char *)slice->data + o * inner, (const char *)in->data + (o * steps + at) * inner,
               inner);
    return TMK_OK;
}

static enum tmk_status step_once(struct scan *scan, int64_t step) {
    for (uint32_t i = 0; i < scan->n_scanned; i++)
        TMK_TRY(copy_slice(scan, i, step));
    TMK_TRY(tmk_call_body(scan->run, scan->body, scan->inputs, scan->run->n_in, scan->made));
    for (uint32_t i = 0; i < scan->n_states; i++) {
        tmk_tensor_finish(&scan->inputs[i]);
        scan->inputs[i] = scan->made[i];
        scan->made[i] = (struct tmk_tensor){0};
    }
    for (uint32_t i = 0; i < scan->n_stacked; i++)
        TMK_TRY(tmk_stack_push(&scan->stacks[i], &scan->made[scan->n_states + i], scan->run->diag));
    return TMK_OK;
}

static void drop_made(struct scan *scan) {
    for (uint32_t i = 0; scan->made && i < scan->body->n_outputs; i++)
        tmk_tensor_finish(&scan->made[i]);
}

static enum tmk_status run_scan(struct scan *scan) {
    TMK_TRY(set_up(scan));
    enum tmk_status status = TMK_OK;
    for (int64_t step = 0; status == TMK_OK && step < scan->steps; step++) {
        status = step_once(scan, step);
        drop_made(scan);
    }
    TMK_TRY(status);
    for (uint32_t i = 0; i < scan->n_states; i++)
        tmk_give(scan->run, i, &scan->inputs[i]);
    for (uint32_t i = 0; i < scan->n_stacked; i++) {
        int64_t axis = 0, backwards = 0;
        TMK_TRY(list_entry(scan, "scan_output_axes", scan->n_stacked, i, &axis));
        TMK_TRY(list_entry(scan, "scan_output_directions", scan->n_stacked, i, &backwards));
        TMK_TRY(tmk_stack_finish_into(&scan->stacks[i], scan->run, scan->n_states + i,
                                      &scan->body->outputs[scan->n_states + i]->type, axis,
                                      backwards != 0));
    }
    return TMK_OK;
}

static enum tmk_status scan_run(struct tmk_run *run) {
    struct scan scan = {.run = run, .body = tmk_node_attr(run->node, "body")->graphs[0]};
    enum tmk_status status = run_scan(&scan);
    drop_made(&scan);
    for (uint32_t i = 0; scan.inputs && i < run->n_in; i++)
        tmk_tensor_finish(&scan.inputs[i]);
    for (uint32_t i = 0; scan.stacks && i < scan.n_stacked; i++)
        tmk_stack_drop(&scan.stacks[i]);
    free(scan.inputs);
    free(scan.made);
    free(scan.stacks);
    return status;
}

const struct tmk_op tmk_ops_scan[] = {
    {TMK_OP_ONNX("Scan", 9, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS,
     .attrs = "body:graph! num_scan_inputs:int! scan_input_axes:ints scan_input_directions:ints "
              "scan_output_axes:ints scan_output_directions:ints",
     .infer = tmk_infer_nothing, .run = scan_run},
    {NULL}};
