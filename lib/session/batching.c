/* SPDX-License-Identifier: Apache-2.0 */
#include "session/batching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "plan/apart.h"

/* A value that is printed is one of one sample. */
static bool prints(const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (tmk_node_is_observer(node) && strcmp(tmk_node_string(node, "kind", ""), "print") == 0)
            return true;
    return false;
}

/* Is the size of the batch, which every input begins with, given by --dim? */
static bool is_given(const struct tmk_graph *graph, const struct tmk_run_options *options) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        for (size_t d = 0; d < options->n_dims; d++) {
            const char *symbol = graph->inputs[i]->type.symbol[0];
            if (symbol && strcmp(symbol, options->dims[d].name) == 0)
                return true;
        }
    return false;
}

/* What leaves no choice, before the model is looked at; NULL: nothing does. */
static const char *obstacle(const struct tmk_graph *graph, const struct tmk_run_options *options,
                            const struct tmk_session_feed *feed) {
    struct tmk_feed_plan plan = tmk_session_feed_plan(feed);
    if (options->batch)
        return plan.free ? "as asked for" : "the model or its data have it so";
    if (!plan.free)
        return "the model or its data have it so";
    if (options->n_feedback)
        return "what is fed back goes from sample to sample";
    if (options->strata)
        return "the samples of a call are of one stratum";
    if (options->sample_every > 1)
        return "--sample-every is for single samples";
    if (is_given(graph, options))
        return "--dim says the size of the batch";
    return prints(graph) ? "each sample is printed" : NULL;
}

static void explain(const struct tmk_sample_cost *cost, uint32_t batch, bool enough, char *why) {
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
            (double)cost->products * 1e-6, cost->nodes, (double)cost->weights * 1e-6);
}

static enum tmk_status choose(const struct tmk_graph *graph, struct tmk_session_feed *feed,
                              char *why, struct tmk_diag *diag) {
    struct tmk_tensor *sample = calloc(graph->n_inputs + 1u, sizeof *sample);
    struct tmk_apart apart;
    bool known = true, enough;
    if (!sample)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        known = known && tmk_session_feed_sample(feed, i, &sample[i]);
    enum tmk_status status = TMK_OK;
    if (known)
        status = tmk_plan_apart(graph, sample, &apart, diag);
    free(sample);
    TMK_TRY(status);
    if (!known || !apart.apart) {
        snprintf(why, TMK_BATCH_WHY, "%s",
                 known ? apart.why : "the shape of a sample is not known before one is read");
        return TMK_OK;
    }
    uint32_t batch = tmk_samples_a_call(&apart.cost, &enough);
    explain(&apart.cost, batch, enough, why);
    return batch == 1 ? TMK_OK : tmk_session_feed_set_batch(feed, batch, diag);
}

enum tmk_status tmk_session_feed_open_batched(const struct tmk_graph *graph,
                                              const struct tmk_run_options *options,
                                              struct tmk_session_feed **out,
                                              char why[TMK_BATCH_WHY], struct tmk_diag *diag) {
    struct tmk_session_feed *feed;
    char unread[TMK_BATCH_WHY];
    TMK_TRY(tmk_session_feed_open(graph, options, &feed, diag));
    const char *given = obstacle(graph, options, feed);
    enum tmk_status status = TMK_OK;
    why = why ? why : unread;
    if (given)
        snprintf(why, TMK_BATCH_WHY, "%s", given);
    else
        status = choose(graph, feed, why, diag);
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_session_feed_close(&feed);
    return status;
}
