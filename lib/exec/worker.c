/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/worker_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "ops/cost.h"
#include "tensor/elements.h"
#include "tensor/shape.h"

enum tmk_status tmk_worker_create(struct tmk_worker **out, struct tmk_diag *diag) {
    struct tmk_worker *worker = calloc(1, sizeof *worker);
    if (worker) {
        worker->in = calloc(TMK_MAX_INPUTS, sizeof *worker->in);
        worker->out = calloc(TMK_MAX_OUTPUTS, sizeof(struct tmk_tensor *));
    }
    if (!worker || !worker->in || !worker->out) {
        tmk_worker_destroy(&worker);
        return tmk_nomem(diag);
    }
    tmk_worker_limit(worker, 0);
    *out = worker;
    return TMK_OK;
}

static void drop_dynamic(struct tmk_worker *worker) {
    for (uint32_t i = 0; i < worker->values_size; i++)
        tmk_tensor_finish(&worker->values[i]);
}

void tmk_worker_destroy(struct tmk_worker **slot) {
    struct tmk_worker *worker = slot ? *slot : NULL;
    if (!worker)
        return;
    *slot = NULL;
    drop_dynamic(worker);
    for (uint32_t i = 0; i < TMK_MAX_SCRATCH; i++)
        tmk_memory_free(worker->scratch[i].bytes);
    tmk_memory_free(worker->arena);
    tmk_memory_free(worker->step_scratch);
    free(worker->values);
    free(worker->in);
    free(worker->out);
    free(worker);
}

/* The old contents are not kept. */
static bool enlarge_buffer(void **bytes, size_t *size, size_t need) {
    if (need <= *size)
        return true;
    tmk_memory_free(*bytes);
    *bytes = tmk_memory_mapped(need);
    *size = *bytes ? need : 0;
    return *bytes != NULL;
}

static void *get_scratch(void *context, size_t bytes) {
    struct tmk_worker *worker = ((struct tmk_step_context *)context)->worker;
    if (worker->n_scratch == TMK_MAX_SCRATCH)
        return NULL;
    struct tmk_scratch_block *block = &worker->scratch[worker->n_scratch];
    if (!enlarge_buffer(&block->bytes, &block->size, bytes ? bytes : 1))
        return NULL;
    worker->n_scratch++;
    return block->bytes;
}

static enum tmk_status alloc_output(void *context, uint32_t i, enum tmk_dtype dtype,
                                    const struct tmk_shape *shape, struct tmk_diag *diag) {
    struct tmk_tensor *tensor = ((struct tmk_step_context *)context)->out[i];
    tmk_tensor_finish(tensor);
    return tmk_tensor_init(tensor, dtype, shape, diag);
}

static enum tmk_status lacks_activations(const struct tmk_plan *plan, struct tmk_diag *diag) {
    const struct tmk_plan_value *largest = NULL;
    size_t most = 0, bytes = plan->arena_bytes + plan->scratch_bytes;
    uint32_t step = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t k = 0; k < plan->steps[i].n_out; k++) {
            uint32_t ref = plan->refs[plan->steps[i].first_out + k];
            const struct tmk_plan_value *value = &plan->values[ref == TMK_NO_VALUE ? 0 : ref];
            size_t count = 0;
            if (ref == TMK_NO_VALUE || value->place != TMK_PLACE_ARENA)
                continue;
            (void)tmk_shape_count(&value->shape, &count);
            if (count * tmk_dtype_size(value->dtype) < most)
                continue;
            most = count * tmk_dtype_size(value->dtype);
            largest = value;
            step = i;
        }
    if (!largest)
        return tmk_memory_fail(diag, bytes, "what one worker has at once");
    return tmk_memory_fail(diag, bytes, "what one worker has at once, the largest %s made by %s,",
                           TMK_SHAPE_TEXT(&largest->shape), TMK_NODE_LABEL(plan->steps[step].node));
}

static enum tmk_status enter_plan(struct tmk_worker *worker, const struct tmk_plan *plan,
                                  struct tmk_diag *diag) {
    drop_dynamic(worker);
    worker->plan = NULL;
    if (plan->n_values > worker->values_size) {
        void *values = realloc(worker->values, plan->n_values * sizeof *worker->values);
        TMK_TRY_ALLOC(values, diag);
        worker->values = values;
        memset(worker->values + worker->values_size, 0,
               (plan->n_values - worker->values_size) * sizeof *worker->values);
        worker->values_size = plan->n_values;
    }
    /* values without elements have an address too */
    const size_t arena_bytes = plan->arena_bytes ? plan->arena_bytes : 1;
    if (!enlarge_buffer((void **)&worker->arena, &worker->arena_size, arena_bytes) ||
        !enlarge_buffer(&worker->step_scratch, &worker->step_scratch_size, plan->scratch_bytes))
        return lacks_activations(plan, diag);
    for (uint32_t i = 0; i < plan->n_values; i++) {
        const struct tmk_plan_value *value = &plan->values[i];
        struct tmk_tensor *tensor = &worker->values[i];
        *tensor = (struct tmk_tensor){0};
        if (value->place == TMK_PLACE_ARENA)
            tmk_tensor_borrow(tensor, value->dtype, &value->shape, worker->arena + value->offset);
        else if (value->place == TMK_PLACE_CONSTANT && tmk_elements_mapped(&value->constant))
            tmk_tensor_share(tensor, &value->constant);
        else if (value->place == TMK_PLACE_CONSTANT)
            tmk_tensor_borrow(tensor, value->dtype, &value->shape, value->constant.data);
        else if (value->place == TMK_PLACE_NOWHERE && value->dtype != TMK_UNDEFINED)
            tmk_tensor_borrow(tensor, value->dtype, &value->shape, NULL);
    }
    worker->plan = plan;
    return TMK_OK;
}

static void set_inputs(struct tmk_worker *worker, const struct tmk_tensor *inputs) {
    const struct tmk_plan *plan = worker->plan;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        const struct tmk_plan_value *value = &plan->values[i];
        if (value->place != TMK_PLACE_INPUT)
            continue;
        if (value->kind != TMK_TYPE_TENSOR) {
            tmk_tensor_finish(&worker->values[i]);
            tmk_tensor_share(&worker->values[i], &inputs[value->offset]);
        } else {
            tmk_tensor_borrow(&worker->values[i], value->dtype, &value->shape,
                              inputs[value->offset].data);
        }
    }
}

struct tmk_tensor *tmk_worker_tensor(const struct tmk_worker *worker,
                                     const struct tmk_value *value) {
    return &worker->values[tmk_value_source(value)->index];
}

/* The node's operations are added to those of the run. */
static enum tmk_status count_operations(struct tmk_worker *worker, const struct tmk_node *node,
                                        const struct tmk_tensor *const *in,
                                        const struct tmk_infer_result *results,
                                        struct tmk_diag *diag) {
    const double cost = tmk_op_cost(node, in, results);
    worker->operations += cost;
    return tmk_cost_check(cost, worker->operations, diag);
}

/* Such a value of the main graph was planned without memory; a graph inside a node has no plan. */
static bool is_in_pieces(const struct tmk_worker *worker, const struct tmk_node *node, uint32_t i) {
    return !node->graph->parent && tmk_is_shown(node, i) &&
           worker->plan->values[node->outputs[i]->index].place == TMK_PLACE_NOWHERE;
}

enum tmk_status tmk_worker_infer(struct tmk_worker *worker, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in, struct tmk_tensor *const *out,
                                 struct tmk_diag *diag) {
    struct tmk_infer_result *results = calloc(node->n_outputs + 1u, sizeof *results);
    TMK_TRY_ALLOC(results, diag);
    enum tmk_status status = tmk_op_infer(node, in, results, diag);
    TMK_THEN(status, count_operations(worker, node, in, results, diag));
    for (uint32_t i = 0; status == TMK_OK && i < node->n_outputs; i++) {
        if (!out[i])
            continue;
        tmk_tensor_finish(out[i]);
        if (results[i].known && is_in_pieces(worker, node, i))
            tmk_tensor_borrow(out[i], results[i].dtype, &results[i].shape, NULL);
        else if (results[i].known)
            status = tmk_tensor_init(out[i], results[i].dtype, &results[i].shape, diag);
    }
    free(results);
    return status;
}

void tmk_worker_arrange(const struct tmk_worker *worker, const struct tmk_node *node,
                        const struct tmk_tensor **in, struct tmk_tensor **out) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = node->inputs[i] ? tmk_worker_tensor(worker, node->inputs[i]) : NULL;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        out[i] = node->outputs[i] ? &worker->values[node->outputs[i]->index] : NULL;
}

enum tmk_status tmk_worker_plain(struct tmk_worker *worker, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in, struct tmk_tensor *const *out,
                                 const struct tmk_plan_step *step, struct tmk_diag *diag) {
    struct tmk_step_context context = {worker, out, step};
    struct tmk_run run = {.node = node,
                          .n_in = node->n_inputs,
                          .n_out = node->n_outputs,
                          .in = in,
                          .out = out,
                          .scratch = get_scratch,
                          .alloc = alloc_output,
                          .context = &context,
                          .diag = diag,
                          .show = tmk_worker_show,
                          .call = tmk_worker_call,
                          .gives_back = worker->plan->gives_tables_back};
    worker->n_scratch = 0;
    return tmk_run_kernel(&run);
}

/* Points in and out at the step's operands and results; NULL where absent. */
static void arrange_step(const struct tmk_worker *worker, const struct tmk_plan_step *step) {
    const uint32_t *in = worker->plan->refs + step->first_in,
                   *out = worker->plan->refs + step->first_out;
    for (uint32_t i = 0; i < step->n_in; i++)
        worker->in[i] = in[i] == TMK_NO_VALUE ? NULL : &worker->values[in[i]];
    for (uint32_t i = 0; i < step->n_out; i++)
        worker->out[i] = out[i] == TMK_NO_VALUE ? NULL : &worker->values[out[i]];
}

/* Bytes from one sample of a value to the next, where it has so many in each. */
static size_t stride_of(const struct tmk_plan_value *value, size_t bytes) {
    return value->pitch ? value->pitch * sizeof(float) : bytes;
}

/* Operands that were made in their place are there already. */
static void run_join(const struct tmk_worker *worker, const struct tmk_plan_step *step) {
    const struct tmk_plan *plan = worker->plan;
    const struct tmk_plan_value *result = &plan->values[plan->refs[step->first_out]];
    const size_t rounds = tmk_plan_rounds(result),
                 stride = stride_of(result, tmk_tensor_bytes(worker->out[0]) / rounds);
    for (size_t r = 0; r < rounds; r++) {
        unsigned char *to = (unsigned char *)worker->out[0]->data + r * stride;
        for (uint32_t i = 0; i < step->n_in; i++) {
            const struct tmk_plan_value *value = &plan->values[plan->refs[step->first_in + i]];
            const size_t bytes = tmk_tensor_bytes(worker->in[i]) / rounds;
            const unsigned char *from =
                (const unsigned char *)worker->in[i]->data + r * stride_of(value, bytes);
            if (bytes && from != to)
                memcpy(to, from, bytes);
            to += bytes;
        }
    }
}

static enum tmk_status run_plan_step(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                     const struct tmk_watch *watch, struct tmk_diag *diag) {
    arrange_step(worker, step);
    switch (step->kind) {
    case TMK_STEP_ACCEL:
        return tmk_accel_run(step->accel, worker->in, worker->out, worker->step_scratch, diag);
    case TMK_STEP_CHAIN:
        return tmk_worker_chain(worker, step, watch, diag);
    case TMK_STEP_JOIN:
        run_join(worker, step);
        return TMK_OK;
    case TMK_STEP_TO_BLOCKS:
        tmk_to_blocks(worker->in[0]->data, worker->out[0]->data, &worker->in[0]->shape,
                      worker->plan->values[worker->plan->refs[step->first_out]].block);
        return TMK_OK;
    case TMK_STEP_FROM_BLOCKS:
        tmk_from_blocks(worker->in[0]->data, worker->out[0]->data, &worker->in[0]->shape,
                        worker->plan->values[worker->plan->refs[step->first_in]].block);
        return TMK_OK;
    case TMK_STEP_NODE:
        break;
    }
    return tmk_worker_node(worker, step, watch, diag);
}

static int32_t axis_now(const struct tmk_worker *worker, const struct tmk_plan_step *step,
                        uint32_t value) {
    const struct tmk_plan_value *planned = &worker->plan->values[value];
    const struct tmk_node *node = step->node;
    if (planned->place != TMK_PLACE_DYNAMIC || !node->outputs[0] ||
        node->outputs[0]->index != value || node->row->channel == TMK_CHANNEL_INHERIT)
        return planned->channel_axis;
    return tmk_op_channel_axis(node, -1, NULL, &worker->values[value].shape);
}

static enum tmk_status look_at(struct tmk_worker *worker, const struct tmk_plan_tap *tap,
                               int32_t axis, const struct tmk_watch *watch, struct tmk_diag *diag) {
    return watch->look(watch->context, tap->slot, &worker->values[tap->value], axis,
                       worker->plan->values[tap->value].block, diag);
}

static enum tmk_status watch_step(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                  const struct tmk_watch *watch, struct tmk_diag *diag) {
    for (uint32_t t = step->first_tap; t < step->first_tap + step->n_taps; t++) {
        const struct tmk_plan_tap *tap = &worker->plan->taps[t];
        TMK_TRY(look_at(worker, tap, axis_now(worker, step, tap->value), watch, diag));
    }
    return TMK_OK;
}

static enum tmk_status run_and_watch(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                     const struct tmk_watch *watch, struct tmk_diag *diag) {
    TMK_TRY(run_plan_step(worker, step, watch, diag));
    if (!watch || !step->n_taps)
        return TMK_OK;
    uint64_t begin = worker->timing ? tmk_clock_ns() : 0;
    TMK_TRY(watch_step(worker, step, watch, diag));
    if (worker->timing)
        worker->timing->observe_ns += tmk_clock_ns() - begin;
    return TMK_OK;
}

static enum tmk_status time_step(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                 const struct tmk_watch *watch, struct tmk_diag *diag) {
    uint64_t begin = tmk_clock_ns();
    TMK_TRY(run_and_watch(worker, step, watch, diag));
    return tmk_timing_add(worker->timing, worker->plan, step, tmk_clock_ns() - begin, diag);
}

void tmk_worker_limit(struct tmk_worker *worker, uint64_t iterations) {
    worker->most_iterations = iterations ? iterations : TMK_MAX_ITERATIONS;
}

void tmk_worker_heed(struct tmk_worker *worker, const atomic_bool *stop) {
    worker->stop = stop;
}

enum tmk_status tmk_worker_goes_on(const struct tmk_worker *worker, struct tmk_diag *diag) {
    return worker->stop && atomic_load_explicit(worker->stop, memory_order_relaxed)
               ? tmk_fail(diag, TMK_INTERRUPTED, "stopped")
               : TMK_OK;
}

void tmk_worker_time(struct tmk_worker *worker, struct tmk_timing *timing) {
    worker->timing = timing;
}

static enum tmk_status enter_batch(struct tmk_worker *worker, const struct tmk_plan *plan,
                                   const struct tmk_tensor *inputs, const struct tmk_watch *watch,
                                   struct tmk_diag *diag) {
    if (worker->plan != plan)
        TMK_TRY(enter_plan(worker, plan, diag));
    set_inputs(worker, inputs);
    worker->watch = watch;
    return watch && watch->enter ? watch->enter(watch->context, plan, inputs, diag) : TMK_OK;
}

static enum tmk_status begin_run(struct tmk_worker *worker, struct tmk_diag *diag) {
    const struct tmk_plan *plan = worker->plan;
    const struct tmk_watch *watch = worker->watch;
    worker->iterations = 0;
    worker->operations = plan->operations;
    for (uint32_t t = 0; watch && t < plan->n_input_taps; t++)
        TMK_TRY(look_at(worker, &plan->input_taps[t],
                        plan->values[plan->input_taps[t].value].channel_axis, watch, diag));
    return TMK_OK;
}

static enum tmk_status run_steps(struct tmk_worker *worker, uint32_t first, uint32_t end,
                                 struct tmk_diag *diag) {
    const struct tmk_plan *plan = worker->plan;
    const struct tmk_watch *watch = worker->watch;
    for (uint32_t s = first; s < end; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        TMK_TRY(tmk_worker_goes_on(worker, diag));
        enum tmk_status status = worker->timing ? time_step(worker, step, watch, diag)
                                                : run_and_watch(worker, step, watch, diag);
        if (status != TMK_OK) {
            return tmk_in(diag, status, "node %s", TMK_NODE_LABEL(step->node));
        }
        for (uint32_t i = step->first_free; i < step->first_free + step->n_free; i++)
            tmk_tensor_finish(&worker->values[plan->free_list[i]]);
    }
    return TMK_OK;
}

enum tmk_status tmk_worker_run(struct tmk_worker *worker, const struct tmk_plan *plan,
                               const struct tmk_tensor *inputs, const struct tmk_watch *watch,
                               struct tmk_diag *diag) {
    TMK_TRY(enter_batch(worker, plan, inputs, watch, diag));
    TMK_TRY(begin_run(worker, diag));
    return run_steps(worker, 0, plan->n_steps, diag);
}

enum tmk_status tmk_worker_run_block(struct tmk_worker *worker, const struct tmk_plan *plan,
                                     const struct tmk_blocks *blocks, const struct tmk_part *part,
                                     const struct tmk_tensor *inputs, const struct tmk_watch *watch,
                                     struct tmk_diag *diag) {
    uint32_t first, end;
    tmk_blocks_steps(blocks, part->block, &first, &end);
    TMK_TRY(enter_batch(worker, plan, inputs, watch, diag));
    if (part->block)
        tmk_block_restore(worker, blocks, part->block, part->saved);
    else
        TMK_TRY(begin_run(worker, diag));
    TMK_TRY(run_steps(worker, first, end, diag));
    return part->more ? tmk_block_save(worker, blocks, part->block, part->saved, diag) : TMK_OK;
}

struct tmk_tensor tmk_worker_value(const struct tmk_worker *worker, const struct tmk_value *value) {
    return *tmk_worker_tensor(worker, value);
}

void tmk_worker_forget(struct tmk_worker *worker) {
    drop_dynamic(worker);
    worker->plan = NULL;
}
