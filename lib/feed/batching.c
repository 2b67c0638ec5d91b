/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/batching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "plan/batch.h"

/* A value that is printed is one of one sample. */
static bool has_print(const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (tmk_node_is_observer(node) && strcmp(tmk_node_string(node, "kind", ""), "print") == 0)
            return true;
    return false;
}

/* Is the size of the batch, which every input begins with, given by --dim? */
static bool is_given(const struct tmk_graph *graph, const struct tmk_data_options *data) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        for (size_t d = 0; d < data->n_dims; d++) {
            const char *symbol = graph->inputs[i]->type.symbol[0];
            if (symbol && strcmp(symbol, data->dims[d].name) == 0)
                return true;
        }
    return false;
}

/* What leaves no choice, before the model is looked at; NULL: nothing does. */
static const char *find_obstacle(const struct tmk_graph *graph, const struct tmk_data_options *data,
                                 const struct tmk_feed *feed) {
    struct tmk_feed_plan plan = tmk_feed_plan(feed);
    if (data->batch)
        return plan.free ? "as asked for" : "the model or its data have it so";
    if (!plan.free)
        return "the model or its data have it so";
    if (data->recurrence.n_feedback)
        return "what is fed back goes from sample to sample";
    if (data->strata)
        return "the samples of a call are of one stratum";
    if (data->every > 1)
        return "--sample-every is for single samples";
    if (is_given(graph, data))
        return "--dim sets the size of the batch";
    return has_print(graph) ? "each sample is printed" : NULL;
}

static enum tmk_status choose_batch(const struct tmk_graph *graph, struct tmk_feed *feed, char *why,
                                    struct tmk_diag *diag) {
    struct tmk_tensor *sample = calloc(graph->n_inputs + 1u, sizeof *sample);
    struct tmk_batch_independence answer;
    bool known = true, enough;
    if (!sample)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        known = known && tmk_feed_sample(feed, i, &sample[i]);
    enum tmk_status status = TMK_OK;
    if (known)
        status = tmk_plan_batch_independence(graph, sample, &answer, diag);
    free(sample);
    TMK_TRY(status);
    if (!known || !answer.independent) {
        snprintf(why, TMK_BATCH_WHY, "%s",
                 known ? answer.why : "the shape of a sample is not known before one is read");
        return TMK_OK;
    }
    uint32_t batch = tmk_samples_a_call(&answer.cost, &enough);
    if (batch == 1 && enough)
        snprintf(why, TMK_BATCH_WHY, "one sample is work enough for a call");
    else if (batch == 1)
        snprintf(why, TMK_BATCH_WHY, "more would not fit into a core's cache");
    else
        snprintf(
            why, TMK_BATCH_WHY,
            "one sample is little work for a call, or for bringing the weights in: %.3g million "
            "multiply-adds in %u nodes, "
            "with %.3g million weights",
            (double)answer.cost.products * 1e-6, answer.cost.nodes,
            (double)answer.cost.weights * 1e-6);
    return batch == 1 ? TMK_OK : tmk_feed_set_batch(feed, batch, diag);
}

enum tmk_status tmk_feed_open_batched(const struct tmk_graph *graph,
                                      const struct tmk_data_options *data, uint32_t threads,
                                      const struct tmk_notices *notices, struct tmk_feed **out,
                                      char why[TMK_BATCH_WHY], struct tmk_diag *diag) {
    struct tmk_feed *feed;
    char unread[TMK_BATCH_WHY];
    TMK_TRY(tmk_feed_open(graph, data, threads, notices, &feed, diag));
    const char *given = find_obstacle(graph, data, feed);
    enum tmk_status status = TMK_OK;
    why = why ? why : unread;
    if (given)
        snprintf(why, TMK_BATCH_WHY, "%s", given);
    else
        status = choose_batch(graph, feed, why, diag);
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_feed_close(&feed);
    return status;
}
