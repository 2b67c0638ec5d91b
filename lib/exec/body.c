/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs inside nodes: bodies of If, Loop, Scan and SequenceMap, run node by node. Their values
 * live on the heap from one iteration to the next; outer values are where the plan put them. */
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
    if (status == TMK_OK)
        status = tmk_worker_plain(worker, node, in, out, NULL, diag);
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
