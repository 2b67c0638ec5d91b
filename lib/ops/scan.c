/* SPDX-License-Identifier: Apache-2.0 */
/* Scan: a graph runs once for every slice of its scan inputs. */
#include <stdlib.h>
#include <string.h>

#include "ops/move.h"
#include "ops/stack.h"

/* The graph's inputs: states, slices. Made: states, stacked. */
struct scan {
    struct tmk_repeat repeat;
    uint32_t n_states, n_scanned;
    int64_t steps;
};

/* The node's inputs, behind the first `before`, are states, then what is scanned. */
static enum tmk_status count_operands(struct scan *scan, uint32_t before) {
    const struct tmk_run *run = scan->repeat.run;
    const uint32_t makes = scan->repeat.body->n_outputs;
    int64_t scanned = tmk_node_int(run->node, "num_scan_inputs", 0);
    if (scanned < 1 || scanned > (int64_t)run->n_in - before)
        return tmk_fail(run->diag, TMK_GRAPH, "num_scan_inputs is %lld of %u inputs",
                        (long long)scanned, run->n_in);
    scan->n_scanned = (uint32_t)scanned;
    scan->n_states = run->n_in - before - scan->n_scanned;
    if (makes < scan->n_states || run->n_out > makes)
        return tmk_fail(run->diag, TMK_GRAPH,
                        "its graph makes %u values for %u states and %u outputs", makes,
                        scan->n_states, run->n_out);
    for (uint32_t i = before; i < run->n_in; i++)
        if (!run->in[i])
            return tmk_fail(run->diag, TMK_GRAPH, "its input %u is absent", i);
    return TMK_OK;
}

/* Entry i of an optional list attribute of `n` numbers. */
static enum tmk_status list_entry(const struct scan *scan, const char *name, size_t n, size_t i,
                                  int64_t *out) {
    size_t given;
    const int64_t *list = tmk_node_ints(scan->repeat.run->node, name, &given);
    if (list && given != n)
        return tmk_fail(scan->repeat.run->diag, TMK_GRAPH,
                        "attribute '%s' has %zu entries, not %zu", name, given, n);
    *out = list ? list[i] : 0;
    return TMK_OK;
}

static enum tmk_status scanned_axis(const struct scan *scan, uint32_t i, int32_t *axis) {
    const struct tmk_tensor *in = scan->repeat.run->in[scan->n_states + i];
    int64_t value = 0;
    TMK_TRY(list_entry(scan, "scan_input_axes", scan->n_scanned, i, &value));
    return tmk_axis(value, in->shape.rank, axis, scan->repeat.run->diag);
}

static enum tmk_status set_up(struct scan *scan) {
    struct tmk_run *run = scan->repeat.run;
    TMK_TRY(count_operands(scan, 0));
    TMK_TRY(
        tmk_repeat_begin(&scan->repeat, run->n_in, scan->repeat.body->n_outputs - scan->n_states));
    for (uint32_t i = 0; i < scan->n_states; i++)
        TMK_TRY(tmk_tensor_keep(&scan->repeat.inputs[i], run->in[i], run->diag));
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
    const struct tmk_tensor *in = scan->repeat.run->in[scan->n_states + i];
    struct tmk_tensor *slice = &scan->repeat.inputs[scan->n_states + i];
    int32_t axis = 0;
    int64_t backwards = 0;
    TMK_TRY(scanned_axis(scan, i, &axis));
    TMK_TRY(list_entry(scan, "scan_input_directions", scan->n_scanned, i, &backwards));
    struct tmk_shape shape = in->shape;
    tmk_shape_drop(&shape, axis);
    tmk_tensor_finish(slice);
    TMK_TRY(tmk_tensor_init(slice, in->dtype, &shape, scan->repeat.run->diag));
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
    TMK_TRY(tmk_call_body(scan->repeat.run, scan->repeat.body, scan->repeat.inputs,
                          scan->repeat.run->n_in, scan->repeat.made));
    tmk_repeat_carry(&scan->repeat, 0, 0, scan->n_states);
    for (uint32_t i = 0; i < scan->repeat.n_stacks; i++)
        TMK_TRY(tmk_stack_push(&scan->repeat.stacks[i], &scan->repeat.made[scan->n_states + i],
                               scan->repeat.run->diag));
    return TMK_OK;
}

static enum tmk_status run_scan(struct scan *scan) {
    TMK_TRY(set_up(scan));
    enum tmk_status status = TMK_OK;
    for (int64_t step = 0; status == TMK_OK && step < scan->steps; step++) {
        status = step_once(scan, step);
        tmk_repeat_drop_made(&scan->repeat);
    }
    TMK_TRY(status);
    for (uint32_t i = 0; i < scan->n_states; i++)
        tmk_give(scan->repeat.run, i, &scan->repeat.inputs[i]);
    for (uint32_t i = 0; i < scan->repeat.n_stacks; i++) {
        int64_t axis = 0, backwards = 0;
        TMK_TRY(list_entry(scan, "scan_output_axes", scan->repeat.n_stacks, i, &axis));
        TMK_TRY(list_entry(scan, "scan_output_directions", scan->repeat.n_stacks, i, &backwards));
        TMK_TRY(tmk_stack_finish_into(&scan->repeat.stacks[i], scan->repeat.run, scan->n_states + i,
                                      &scan->repeat.body->outputs[scan->n_states + i]->type, axis,
                                      backwards != 0));
    }
    return TMK_OK;
}

static enum tmk_status scan_run(struct tmk_run *run) {
    struct scan scan = {.repeat = tmk_repeat_of(run)};
    enum tmk_status status = run_scan(&scan);
    tmk_repeat_end(&scan.repeat);
    return status;
}

/* Scan as operator set 8 had it: a batch of sequences along axis 1, each of a length of its own. */

/* Of the graph's stacks, one a state: the states after the last step, by entry of the batch. */
struct batched_scan {
    struct scan scan;
    uint32_t n_outputs; /* behind the states */
    int64_t batch;
    const int64_t *backwards;  /* by scan input, or NULL */
    struct tmk_items *outputs; /* allocated with the first tensor that the graph makes for it */
};

static const struct tmk_tensor *batched_operand(const struct batched_scan *s, uint32_t i) {
    return s->scan.repeat.run->in[1 + i];
}

/* Entry `at` of the tensor's first axes, as a tensor that borrows its bytes. */
static void view_entry(const struct tmk_tensor *in, int32_t axes, size_t at,
                       struct tmk_tensor *out) {
    struct tmk_shape shape = {.rank = in->shape.rank - axes};
    memcpy(shape.dim, in->shape.dim + axes, (size_t)shape.rank * sizeof shape.dim[0]);
    size_t bytes = tmk_shape_product(&in->shape, axes, in->shape.rank) * tmk_dtype_size(in->dtype);
    tmk_tensor_finish(out);
    tmk_tensor_borrow(out, in->dtype, &shape, (char *)in->data + at * bytes);
}

static enum tmk_status check_dim(const struct batched_scan *s, const char *what, int64_t here,
                                 int64_t *known) {
    if (*known >= 0 && here != *known)
        return tmk_fail(s->scan.repeat.run->diag, TMK_SHAPE, "its inputs have %s of %lld and %lld",
                        what, (long long)*known, (long long)here);
    *known = here;
    return TMK_OK;
}

static enum tmk_status read_extents(struct batched_scan *s) {
    s->batch = s->scan.steps = -1;
    for (uint32_t i = 0; i < s->scan.n_states + s->scan.n_scanned; i++) {
        const struct tmk_tensor *in = batched_operand(s, i);
        bool scanned = i >= s->scan.n_states;
        if (in->shape.rank < (scanned ? 2 : 1))
            return tmk_fail(s->scan.repeat.run->diag, TMK_SHAPE,
                            "its input %u has %d axes; it needs %s", i + 1, in->shape.rank,
                            scanned ? "one for the batch and one for the steps"
                                    : "one for the batch");
        TMK_TRY(check_dim(s, "batches", in->shape.dim[0], &s->batch));
        if (scanned)
            TMK_TRY(check_dim(s, "sequences", in->shape.dim[1], &s->scan.steps));
    }
    return TMK_OK;
}

static enum tmk_status set_up_batched(struct batched_scan *s) {
    struct scan *scan = &s->scan;
    struct tmk_run *run = scan->repeat.run;
    size_t n;
    TMK_TRY(count_operands(scan, 1));
    s->backwards = tmk_node_ints(run->node, "directions", &n);
    if (s->backwards && n != scan->n_scanned)
        return tmk_fail(run->diag, TMK_GRAPH, "attribute 'directions' has %zu entries, not %u", n,
                        scan->n_scanned);
    s->n_outputs = scan->repeat.body->n_outputs - scan->n_states;
    TMK_TRY(tmk_repeat_begin(&scan->repeat, run->n_in - 1, scan->n_states));
    s->outputs = calloc(s->n_outputs + 1u, sizeof *s->outputs);
    TMK_TRY_ALLOC(s->outputs, run->diag);
    return read_extents(s);
}

/* Steps of entry b. */
static enum tmk_status length_of(const struct batched_scan *s, int64_t b, int64_t *out) {
    const struct tmk_tensor *lengths = s->scan.repeat.run->in[0];
    struct tmk_diag *diag = s->scan.repeat.run->diag;
    *out = s->scan.steps;
    if (!lengths)
        return TMK_OK;
    TMK_TRY(tmk_want_indices(lengths, "the lengths", diag));
    if (lengths->shape.rank != 1 || lengths->shape.dim[0] != s->batch)
        return tmk_fail(diag, TMK_SHAPE, "the lengths must be one for each of %lld sequences",
                        (long long)s->batch);
    *out = tmk_index_at(lengths, (size_t)b);
    if (*out < 0 || *out > s->scan.steps)
        return tmk_fail(diag, TMK_RANGE, "a length of %lld is outside [0, %lld]", (long long)*out,
                        (long long)s->scan.steps);
    return TMK_OK;
}

static enum tmk_status begin_output(const struct batched_scan *s, uint32_t k) {
    const struct tmk_items *items = &s->outputs[k];
    struct tmk_run *run = s->scan.repeat.run;
    struct tmk_shape shape = items->shape;
    if (shape.rank + 2 > TMK_MAX_RANK)
        return tmk_fail(run->diag, TMK_SHAPE, "too many axes to stack on others");
    tmk_shape_insert(&shape, 0, s->scan.steps);
    tmk_shape_insert(&shape, 0, s->batch);
    TMK_TRY(tmk_run_alloc(run, s->scan.n_states + k, items->dtype, &shape));
    void *out = tmk_run_elements(run, s->scan.n_states + k);
    if (out)
        memset(out, 0, tmk_tensor_bytes(run->out[s->scan.n_states + k])); /* behind an end */
    return TMK_OK;
}

static enum tmk_status put_output(struct batched_scan *s, uint32_t k, size_t at) {
    struct tmk_run *run = s->scan.repeat.run;
    const struct tmk_tensor *made = &s->scan.repeat.made[s->scan.n_states + k];
    TMK_TRY(tmk_items_add(&s->outputs[k], made, run->diag));
    if (s->outputs[k].n == 1)
        TMK_TRY(begin_output(s, k));
    char *out = tmk_run_elements(run, s->scan.n_states + k);
    const size_t bytes = tmk_tensor_bytes(made);
    if (out)
        memcpy(out + at * bytes, made->data, bytes);
    return TMK_OK;
}

static enum tmk_status step_once_batched(struct batched_scan *s, int64_t b, int64_t step,
                                         int64_t length) {
    struct tmk_repeat *r = &s->scan.repeat;
    const uint32_t n_states = s->scan.n_states;
    size_t first = (size_t)(b * s->scan.steps);
    for (uint32_t i = 0; i < s->scan.n_scanned; i++) {
        int64_t at = s->backwards && s->backwards[i] ? length - 1 - step : step;
        view_entry(batched_operand(s, n_states + i), 2, first + (size_t)at,
                   &r->inputs[n_states + i]);
    }
    TMK_TRY(tmk_call_body(r->run, r->body, r->inputs, r->n_inputs, r->made));
    tmk_repeat_carry(r, 0, 0, n_states);
    for (uint32_t k = 0; k < s->n_outputs; k++)
        TMK_TRY(put_output(s, k, first + (size_t)step));
    return TMK_OK;
}

static enum tmk_status run_entry(struct batched_scan *s, int64_t b) {
    struct tmk_repeat *r = &s->scan.repeat;
    int64_t length;
    enum tmk_status status = TMK_OK;
    TMK_TRY(length_of(s, b, &length));
    for (uint32_t i = 0; i < s->scan.n_states; i++)
        view_entry(batched_operand(s, i), 1, (size_t)b, &r->inputs[i]);
    for (int64_t step = 0; status == TMK_OK && step < length; step++) {
        status = step_once_batched(s, b, step, length);
        tmk_repeat_drop_made(r);
    }
    for (uint32_t i = 0; status == TMK_OK && i < s->scan.n_states; i++)
        status = tmk_stack_push(&r->stacks[i], &r->inputs[i], r->run->diag);
    return status;
}

static enum tmk_status run_scan_batched(struct batched_scan *s) {
    struct tmk_repeat *r = &s->scan.repeat;
    TMK_TRY(set_up_batched(s));
    for (int64_t b = 0; b < s->batch; b++)
        TMK_TRY(run_entry(s, b));
    for (uint32_t i = 0; i < s->scan.n_states; i++)
        TMK_TRY(
            tmk_stack_finish_into(&r->stacks[i], r->run, i, &r->body->outputs[i]->type, 0, false));
    for (uint32_t k = 0; k < s->n_outputs; k++)
        if (!s->outputs[k].n) {
            const struct tmk_type *type = &r->body->outputs[s->scan.n_states + k]->type;
            TMK_TRY(tmk_items_end(&s->outputs[k], type, r->run->diag));
            TMK_TRY(begin_output(s, k));
        }
    return TMK_OK;
}

static enum tmk_status scan_run_batched(struct tmk_run *run) {
    struct batched_scan s = {.scan.repeat = tmk_repeat_of(run)};
    enum tmk_status status = run_scan_batched(&s);
    tmk_repeat_end(&s.scan.repeat);
    free(s.outputs);
    return status;
}

const struct tmk_op tmk_ops_scan[] = {
    {TMK_OP_ONNX("Scan", 9, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS,
     .attrs = "body:graph! num_scan_inputs:int! scan_input_axes:ints scan_input_directions:ints "
              "scan_output_axes:ints scan_output_directions:ints",
     .infer = tmk_infer_nothing, .run = scan_run},
    {TMK_OP_ONNX("Scan", 8, 8), TMK_OP_COUNTS(0, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS,
     .attrs = "body:graph! num_scan_inputs:int! directions:ints", .infer = tmk_infer_nothing,
     .run = scan_run_batched},
    {NULL}};
