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
    int64_t scanned = tmk_node_int(run->node, "num_scan_inputs", 0);
    if (scanned < 1 || scanned > run->n_in)
        return tmk_fail(run->diag, TMK_GRAPH, "num_scan_inputs is %lld of %u inputs",
                        (long long)scanned, run->n_in);
    scan->n_scanned = (uint32_t)scanned;
    scan->n_states = run->n_in - scan->n_scanned;
    if (scan->repeat.body->n_outputs < scan->n_states || run->n_out > scan->repeat.body->n_outputs)
        return tmk_fail(run->diag, TMK_GRAPH,
                        "its graph makes %u values for %u states and %u "
                        "outputs",
                        scan->repeat.body->n_outputs, scan->n_states, run->n_out);
    TMK_TRY(
        tmk_repeat_begin(&scan->repeat, run->n_in, scan->repeat.body->n_outputs - scan->n_states));
    for (uint32_t i = 0; i < run->n_in; i++)
        if (!run->in[i])
            return tmk_fail(run->diag, TMK_GRAPH, "its input %u is absent", i);
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
    memmove(&shape.dim[axis], &shape.dim[axis + 1],
            (size_t)(shape.rank - axis - 1) * sizeof shape.dim[0]);
    shape.rank--;
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

/* A scan output: allocated with the first tensor that the graph makes for it. */
struct padded {
    struct tmk_shape item;
    enum tmk_dtype dtype;
    size_t bytes; /* an item */
    bool there;
};

/* Of the graph's stacks, one a state: the states after the last step, by entry of the batch. */
struct batched_scan {
    struct tmk_repeat repeat;
    uint32_t n_states, n_scanned, n_outputs; /* n_outputs: behind the states */
    int64_t batch, steps;
    const int64_t *backwards; /* by scan input, or NULL */
    struct padded *outputs;
};

static const struct tmk_tensor *batched_operand(const struct batched_scan *scan, uint32_t i) {
    return scan->repeat.run->in[1 + i];
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

static enum tmk_status check_dim(const struct batched_scan *scan, const char *what, int64_t here,
                                 int64_t *known) {
    if (*known >= 0 && here != *known)
        return tmk_fail(scan->repeat.run->diag, TMK_SHAPE, "its inputs have %s of %lld and %lld",
                        what, (long long)*known, (long long)here);
    *known = here;
    return TMK_OK;
}

static enum tmk_status read_extents(struct batched_scan *scan) {
    scan->batch = scan->steps = -1;
    for (uint32_t i = 0; i < scan->n_states + scan->n_scanned; i++) {
        const struct tmk_tensor *in = batched_operand(scan, i);
        bool scanned = i >= scan->n_states;
        if (!in)
            return tmk_fail(scan->repeat.run->diag, TMK_GRAPH, "its input %u is absent", i + 1);
        if (in->shape.rank < (scanned ? 2 : 1))
            return tmk_fail(scan->repeat.run->diag, TMK_SHAPE,
                            "its input %u has %d axes; it needs %s", i + 1, in->shape.rank,
                            scanned ? "one for the batch and one for the steps"
                                    : "one for the batch");
        TMK_TRY(check_dim(scan, "batches", in->shape.dim[0], &scan->batch));
        if (scanned)
            TMK_TRY(check_dim(scan, "sequences", in->shape.dim[1], &scan->steps));
    }
    return TMK_OK;
}

static enum tmk_status set_up_batched(struct batched_scan *scan) {
    struct tmk_run *run = scan->repeat.run;
    int64_t scanned = tmk_node_int(run->node, "num_scan_inputs", 0);
    size_t n;
    if (scanned < 1 || scanned >= run->n_in)
        return tmk_fail(run->diag, TMK_GRAPH, "num_scan_inputs is %lld of %u inputs",
                        (long long)scanned, run->n_in);
    scan->n_scanned = (uint32_t)scanned;
    scan->n_states = run->n_in - 1 - scan->n_scanned;
    scan->backwards = tmk_node_ints(run->node, "directions", &n);
    if (scan->backwards && n != scan->n_scanned)
        return tmk_fail(run->diag, TMK_GRAPH, "attribute 'directions' has %zu entries, not %u", n,
                        scan->n_scanned);
    if (scan->repeat.body->n_outputs < scan->n_states || run->n_out > scan->repeat.body->n_outputs)
        return tmk_fail(run->diag, TMK_GRAPH,
                        "its graph makes %u values for %u states and %u outputs",
                        scan->repeat.body->n_outputs, scan->n_states, run->n_out);
    scan->n_outputs = scan->repeat.body->n_outputs - scan->n_states;
    TMK_TRY(tmk_repeat_begin(&scan->repeat, scan->n_states + scan->n_scanned, scan->n_states));
    scan->outputs = calloc(scan->n_outputs + 1u, sizeof *scan->outputs);
    TMK_TRY_ALLOC(scan->outputs, run->diag);
    return read_extents(scan);
}

/* Steps of entry b. */
static enum tmk_status length_of(const struct batched_scan *scan, int64_t b, int64_t *out) {
    const struct tmk_tensor *lengths = scan->repeat.run->in[0];
    struct tmk_diag *diag = scan->repeat.run->diag;
    *out = scan->steps;
    if (!lengths)
        return TMK_OK;
    TMK_TRY(tmk_want_indices(lengths, "the lengths", diag));
    if (lengths->shape.rank != 1 || lengths->shape.dim[0] != scan->batch)
        return tmk_fail(diag, TMK_SHAPE, "the lengths must be one for each of %lld sequences",
                        (long long)scan->batch);
    *out = tmk_index_at(lengths, (size_t)b);
    if (*out < 0 || *out > scan->steps)
        return tmk_fail(diag, TMK_RANGE, "a length of %lld is outside [0, %lld]", (long long)*out,
                        (long long)scan->steps);
    return TMK_OK;
}

static enum tmk_status begin_output(struct batched_scan *scan, uint32_t k, enum tmk_dtype dtype,
                                    const struct tmk_shape *item) {
    struct padded *output = &scan->outputs[k];
    struct tmk_shape shape = {.rank = item->rank + 2, .dim = {scan->batch, scan->steps}};
    if (shape.rank > TMK_MAX_RANK)
        return tmk_fail(scan->repeat.run->diag, TMK_SHAPE, "too many axes to stack on others");
    memcpy(shape.dim + 2, item->dim, (size_t)item->rank * sizeof shape.dim[0]);
    TMK_TRY(tmk_run_alloc(scan->repeat.run, scan->n_states + k, dtype, &shape));
    const struct tmk_tensor *out = tmk_run_out(scan->repeat.run, scan->n_states + k);
    if (out && tmk_tensor_bytes(out))
        memset(out->data, 0, tmk_tensor_bytes(out)); /* behind a sequence's end */
    *output = (struct padded){*item, dtype,
                              tmk_shape_product(item, 0, item->rank) * tmk_dtype_size(dtype), true};
    return TMK_OK;
}

static enum tmk_status put_output(struct batched_scan *scan, uint32_t k, size_t at) {
    const struct tmk_tensor *made = &scan->repeat.made[scan->n_states + k];
    struct padded *output = &scan->outputs[k];
    TMK_TRY(tmk_want_tensor(made, "what its graph makes to be stacked", scan->repeat.run->diag));
    if (!output->there)
        TMK_TRY(begin_output(scan, k, made->dtype, &made->shape));
    if (made->dtype != output->dtype || !tmk_shape_equal(&made->shape, &output->item))
        return tmk_fail(scan->repeat.run->diag, TMK_SHAPE,
                        "its graph made %s%s and then %s%s where equal ones are stacked",
                        tmk_dtype_name(output->dtype), TMK_SHAPE_TEXT(&output->item),
                        tmk_dtype_name(made->dtype), TMK_SHAPE_TEXT(&made->shape));
    const struct tmk_tensor *out = tmk_run_out(scan->repeat.run, scan->n_states + k);
    if (out && output->bytes)
        memcpy((char *)out->data + at * output->bytes, made->data, output->bytes);
    return TMK_OK;
}

static enum tmk_status step_once_batched(struct batched_scan *scan, int64_t b, int64_t step,
                                         int64_t length) {
    size_t first = (size_t)(b * scan->steps);
    for (uint32_t i = 0; i < scan->n_scanned; i++) {
        int64_t at = scan->backwards && scan->backwards[i] ? length - 1 - step : step;
        view_entry(batched_operand(scan, scan->n_states + i), 2, first + (size_t)at,
                   &scan->repeat.inputs[scan->n_states + i]);
    }
    TMK_TRY(tmk_call_body(scan->repeat.run, scan->repeat.body, scan->repeat.inputs,
                          scan->n_states + scan->n_scanned, scan->repeat.made));
    tmk_repeat_carry(&scan->repeat, 0, 0, scan->n_states);
    for (uint32_t k = 0; k < scan->n_outputs; k++)
        TMK_TRY(put_output(scan, k, first + (size_t)step));
    return TMK_OK;
}

static enum tmk_status run_entry(struct batched_scan *scan, int64_t b) {
    int64_t length;
    enum tmk_status status = TMK_OK;
    TMK_TRY(length_of(scan, b, &length));
    for (uint32_t i = 0; i < scan->n_states; i++)
        view_entry(batched_operand(scan, i), 1, (size_t)b, &scan->repeat.inputs[i]);
    for (int64_t step = 0; status == TMK_OK && step < length; step++) {
        status = step_once_batched(scan, b, step, length);
        tmk_repeat_drop_made(&scan->repeat);
    }
    for (uint32_t i = 0; status == TMK_OK && i < scan->n_states; i++)
        status = tmk_stack_push(&scan->repeat.stacks[i], &scan->repeat.inputs[i],
                                scan->repeat.run->diag);
    return status;
}

/* An output for which nothing was made has the shape of its type; unknown dimensions are 0. */
static enum tmk_status begin_empty(struct batched_scan *scan, uint32_t k) {
    const struct tmk_type *type = &scan->repeat.body->outputs[scan->n_states + k]->type;
    if (!tmk_dtype_size(type->dtype) || !type->has_shape)
        return tmk_fail(scan->repeat.run->diag, TMK_SHAPE,
                        "its graph never ran, and the type of what it would have made is not "
                        "declared");
    struct tmk_shape item = type->shape;
    for (int32_t d = 0; d < item.rank; d++)
        if (item.dim[d] < 0)
            item.dim[d] = 0;
    return begin_output(scan, k, type->dtype, &item);
}

static enum tmk_status run_scan_batched(struct batched_scan *scan) {
    TMK_TRY(set_up_batched(scan));
    for (int64_t b = 0; b < scan->batch; b++)
        TMK_TRY(run_entry(scan, b));
    for (uint32_t i = 0; i < scan->n_states; i++)
        TMK_TRY(tmk_stack_finish_into(&scan->repeat.stacks[i], scan->repeat.run, i,
                                      &scan->repeat.body->outputs[i]->type, 0, false));
    for (uint32_t k = 0; k < scan->n_outputs; k++)
        if (!scan->outputs[k].there)
            TMK_TRY(begin_empty(scan, k));
    return TMK_OK;
}

static enum tmk_status scan_run_batched(struct tmk_run *run) {
    struct batched_scan scan = {.repeat = tmk_repeat_of(run)};
    enum tmk_status status = run_scan_batched(&scan);
    tmk_repeat_end(&scan.repeat);
    free(scan.outputs);
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
