/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker runs besides plain steps.
 *
 * Graphs inside nodes: bodies of If, Loop, Scan and SequenceMap, run node by node. Their values
 * live on the heap from one iteration to the next; outer values are where the plan put them.
 * Chains and nodes whose values are seen piece by piece. */
#include <stdlib.h>

#include "base/diag.h"
#include "exec/worker_parts.h"
#include "ops/stack.h"

static enum tmk_status observe_value(const struct tmk_worker *worker,
                                     const struct tmk_node *observer, struct tmk_diag *diag) {
    const struct tmk_value *value = tmk_value_source(observer->outputs[0]);
    size_t slot = (size_t)tmk_ptrmap_get(&worker->plan->slots, observer);
    if (!worker->watch || !slot || value->kind == TMK_VALUE_INITIALIZER)
        return TMK_OK;
    const struct tmk_tensor *tensor = &worker->values[value->index];
    int32_t axis = -1;
    if (value->producer && value->output == 0 &&
        value->producer->row->channel != TMK_CHANNEL_INHERIT)
        axis = tmk_op_channel_axis(value->producer, -1, NULL, &tensor->shape);
    return worker->watch->look(worker->watch->context, (uint32_t)slot - 1, tensor, axis, 0, diag);
}

static enum tmk_status run_node(struct tmk_worker *worker, const struct tmk_node *node,
                                struct tmk_diag *diag) {
    if (tmk_node_is_observer(node))
        return observe_value(worker, node, diag);
    const struct tmk_tensor **in = calloc(node->n_inputs + 1u, sizeof *in);
    struct tmk_tensor **out = calloc(node->n_outputs + 1u, sizeof(struct tmk_tensor *));
    enum tmk_status status = in && out ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        tmk_worker_arrange(worker, node, in, out);
        status = tmk_worker_infer(worker, node, in, out, diag);
    }
    TMK_THEN(status, tmk_worker_plain(worker, node, in, out, NULL, diag));
    free(in);
    free(out);
    return status;
}

enum tmk_status tmk_worker_call(void *context, const struct tmk_graph *body,
                                const struct tmk_tensor *inputs, struct tmk_tensor *outputs,
                                struct tmk_diag *diag) {
    struct tmk_worker *worker = ((struct tmk_step_context *)context)->worker;
    if (worker->iterations++ == worker->most_iterations)
        return tmk_fail(diag, TMK_LIMIT,
                        "the graphs inside nodes ran %llu times for one batch, which is the most "
                        "they may (--max-iterations)",
                        (unsigned long long)worker->most_iterations);
    for (uint32_t i = 0; i < body->n_inputs; i++) {
        struct tmk_tensor *tensor = &worker->values[body->inputs[i]->index];
        tmk_tensor_finish(tensor);
        tmk_tensor_share(tensor, &inputs[i]);
    }
    for (const struct tmk_node *node = body->first; node; node = node->next) {
        TMK_TRY(tmk_worker_goes_on(worker, diag));
        enum tmk_status status = run_node(worker, node, diag);
        if (status != TMK_OK) {
            return tmk_in(diag, status, "node %s", TMK_NODE_LABEL(node));
        }
    }
    for (uint32_t i = 0; i < body->n_outputs; i++)
        TMK_TRY(tmk_tensor_keep(&outputs[i], tmk_worker_tensor(worker, body->outputs[i]), diag));
    return TMK_OK;
}

/* Steps whose values are seen as they pass: every tile of a chain, and what an operator shows of
 * its inside. */

struct watching {
    const struct tmk_watch *watch;
    const struct tmk_plan_tap *taps; /* of the step */
    const uint32_t *which;
    struct tmk_timing *timing; /* NULL: not asked for */
};

static enum tmk_status observe_chain_piece(void *context, uint32_t which, const float *x,
                                           size_t first, size_t n, struct tmk_diag *diag) {
    const struct watching *w = context;
    uint64_t begin = w->timing ? tmk_clock_ns() : 0;
    for (uint32_t t = w->which[which]; t < w->which[which + 1]; t++)
        TMK_TRY(w->watch->piece(w->watch->context, w->taps[t].slot, x, first, n, diag));
    if (w->timing)
        w->timing->observe_ns += tmk_clock_ns() - begin;
    return TMK_OK;
}

static struct watching watching_of(const struct tmk_worker *worker,
                                   const struct tmk_plan_step *step,
                                   const struct tmk_watch *watch) {
    const struct tmk_plan *plan = worker->plan;
    return (struct watching){watch, plan->taps + step->first_seen, plan->which + step->first_which,
                             worker->timing};
}

static enum tmk_status begin_all(const struct tmk_worker *worker, const struct tmk_plan_step *step,
                                 const struct tmk_watch *watch, struct tmk_diag *diag) {
    const struct tmk_plan *plan = worker->plan;
    for (uint32_t t = step->first_seen; t < step->first_seen + step->n_seen; t++) {
        const struct tmk_plan_value *value = &plan->values[plan->taps[t].value];
        const struct tmk_tensor *now = &worker->values[plan->taps[t].value];
        struct tmk_tensor tensor;
        if (step->dynamic)
            tmk_tensor_borrow(&tensor, now->dtype, &now->shape, NULL);
        else
            tmk_tensor_borrow(&tensor, value->dtype, &value->shape, NULL);
        TMK_TRY(watch->begin(watch->context, plan->taps[t].slot, &tensor, value->channel_axis,
                             step->block, diag));
    }
    return TMK_OK;
}

/* A chain's operands and results, whose samples may stand apart. */
struct places {
    const float *in[TMK_MAX_INPUTS];
    float *out[TMK_MAX_OUTPUTS];
    bool apart;
};

static bool has_pitch(const struct tmk_worker *worker, uint32_t ref) {
    return worker->plan->values[ref].pitch > 0;
}

/* From where a value's places [sample * length, ...) are found by these numbers. */
static size_t shift_of(const struct tmk_worker *worker, uint32_t ref, size_t sample,
                       size_t length) {
    return has_pitch(worker, ref) ? sample * (worker->plan->values[ref].pitch - length) : 0;
}

static void find_places(const struct tmk_worker *worker, const struct tmk_plan_step *step,
                        size_t sample, size_t length, struct places *out) {
    const uint32_t *in = worker->plan->refs + step->first_in,
                   *results = worker->plan->refs + step->first_out;
    out->apart = false;
    for (uint32_t i = 0; i < step->n_in; i++) {
        const float *data = worker->in[i]->data;
        out->apart |= has_pitch(worker, in[i]);
        out->in[i] = data + shift_of(worker, in[i], sample, length);
    }
    for (uint32_t i = 0; i < step->n_out; i++) {
        float *data = worker->out[i]->data;
        out->apart |= has_pitch(worker, results[i]);
        out->out[i] = data + shift_of(worker, results[i], sample, length);
    }
}

static enum tmk_status run_chain(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                 const struct tmk_chain_watcher *watcher, struct tmk_diag *diag) {
    const size_t samples = tmk_chain_samples(step->chain), count = tmk_chain_count(step->chain),
                 length = count / samples;
    struct places places;
    find_places(worker, step, 0, length, &places);
    if (!places.apart)
        return tmk_chain_run(step->chain, places.in, places.out, worker->step_scratch, watcher,
                             diag);
    for (size_t i = 0; i < samples; i++) {
        find_places(worker, step, i, length, &places);
        TMK_TRY(tmk_chain_run_part(step->chain, i * length, length, places.in, places.out,
                                   worker->step_scratch, watcher, diag));
    }
    return TMK_OK;
}

static enum tmk_status end_all(const struct tmk_worker *worker, const struct tmk_plan_step *step,
                               const struct tmk_watch *watch, struct tmk_diag *diag) {
    for (uint32_t t = step->first_seen; t < step->first_seen + step->n_seen; t++)
        TMK_TRY(watch->end(watch->context, worker->plan->taps[t].slot, diag));
    return TMK_OK;
}

enum tmk_status tmk_worker_chain(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                 const struct tmk_watch *watch, struct tmk_diag *diag) {
    if (!watch || !step->n_seen)
        return run_chain(worker, step, NULL, diag);
    struct watching watching = watching_of(worker, step, watch);
    const struct tmk_chain_watcher watcher = {observe_chain_piece, &watching};
    TMK_TRY(begin_all(worker, step, watch, diag));
    TMK_TRY(run_chain(worker, step, &watcher, diag));
    return end_all(worker, step, watch, diag);
}

enum tmk_status tmk_worker_show(void *context, uint32_t output, const float *x, size_t first,
                                size_t n, struct tmk_diag *diag) {
    const struct tmk_step_context *c = context;
    struct watching watching = watching_of(c->worker, c->step, c->worker->watch);
    return observe_chain_piece(&watching, output, x, first, n, diag);
}

enum tmk_status tmk_worker_node(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                const struct tmk_watch *watch, struct tmk_diag *diag) {
    const uint32_t *out = worker->plan->refs + step->first_out;
    if (step->dynamic)
        TMK_TRY(tmk_worker_infer(worker, step->node, worker->in, worker->out, diag));
    for (uint32_t i = 0; !watch && step->n_seen && i < step->n_out; i++)
        if (out[i] != TMK_NO_VALUE && worker->plan->values[out[i]].place == TMK_PLACE_NOWHERE)
            worker->out[i] = NULL;
    if (watch)
        TMK_TRY(begin_all(worker, step, watch, diag));
    TMK_TRY(tmk_worker_plain(worker, step->node, worker->in, worker->out, step, diag));
    return watch ? end_all(worker, step, watch, diag) : TMK_OK;
}
