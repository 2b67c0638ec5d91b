/* SPDX-License-Identifier: Apache-2.0 */
/* Data sources bound to a graph's inputs, cut into batches. */
#ifndef TMK_SESSION_FEED_H
#define TMK_SESSION_FEED_H

#include <tidemark/session.h>

#include "data/source.h"
#include "exec/run.h"
#include "graph/graph.h"

struct tmk_session_feed;

/* Opens the sources and binds them: INPUT=PATH to that input; arrays with the names of inputs to
 * those; one array without a name to the one input that is left. Every input must end up with data.
 * An array of an input's own rank is cut along its first axis (into the input's fixed first
 * dimension, or `batch`); one of one rank more holds one whole input each entry. The graph must
 * outlive the feed. */
TMK_NODISCARD enum tmk_status tmk_session_feed_open(const struct tmk_graph *graph,
                                                    const struct tmk_run_options *options,
                                                    struct tmk_session_feed **out,
                                                    struct tmk_diag *diag);
void tmk_session_feed_close(struct tmk_session_feed **feed);

/* For tmk_exec_run; valid while the feed is open. */
struct tmk_feed tmk_session_feed_of(struct tmk_session_feed *feed);

/* Samples in the sources within the limit, those that will run, and how many a batch holds. What
 * does not fill a batch of fixed size is left over. */
struct tmk_feed_plan {
    uint64_t offered, run, batch;
    bool
        slices; /* batches are slices along the first axis, so results can be joined along theirs */
};
struct tmk_feed_plan tmk_session_feed_plan(const struct tmk_session_feed *feed);

/* What feeds input i: kind, path, entries, hash. */
const struct tmk_source_info *tmk_session_feed_source(const struct tmk_session_feed *feed,
                                                      uint32_t input);
/* How many entries the array has that feeds input i. */
uint64_t tmk_session_feed_entries(const struct tmk_session_feed *feed, uint32_t input);

#endif
