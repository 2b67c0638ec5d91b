/* SPDX-License-Identifier: Apache-2.0 */
/* What every command that runs a model has in common: graphs, data, limits, workers. */
#pragma once

#include <tidemark/session.h>

#include "exec/account.h"
#include "exec/blocks.h"
#include "exec/run.h"
#include "feed/feed.h"
#include "graph/graph.h"
#include "transform/model.h"

/* Runs over the same samples, one after the other, whose progress is reported as that of one. */
struct tmk_run_series {
    uint64_t done; /* samples, of the runs before */
    uint32_t runs; /* in all; 0: not known */
};

/* The numbers that a run leaves out. */
struct tmk_excluded {
    uint32_t *bits; /* of the numbers: ascending, each once */
    size_t n;
};

/* Zero-initialised but for options, path, and timing where it is wanted. */
struct tmk_running {
    const struct tmk_run_options *options;
    const char *path;                   /* of the model, for errors */
    struct tmk_run_options limited;     /* what options points at, where memory is limited */
    uint64_t done, to_run;              /* samples before this run, and in all; the latter 0: not
                                           known */
    struct tmk_graph *original, *graph; /* without and with observers */
    struct tmk_feed *feed;
    struct tmk_observer *observers;
    struct tmk_slot_config *slots, *unruled; /* unruled: without rules, where the graph may run in
                                                blocks, else NULL */
    struct tmk_cuts cuts;                    /* n 0: it runs as a whole */
    uint64_t together;                       /* batches that go through blocks together */
    char (*labels)[300];
    struct tmk_excluded excluded;
    struct tmk_position_seed *padding; /* what is known of inputs; NULL: nothing is padding */
    uint32_t mask;                     /* the input that tells it */
    bool *whole;                /* by slot: elements of padding were counted too, in some segment */
    struct tmk_watched watched; /* by the model's own observers, unless `observe` names a kind */
    uint32_t n_slots;
    struct tmk_exec_result result;
    struct tmk_run_report report;
    bool timing;
};

/* The graph that runs, and what its observers do; observe NULL: there are none. */
enum tmk_status tmk_running_graph(struct tmk_running *run, const struct tmk_model *model,
                                  const struct tmk_observe *observe, struct tmk_diag *diag);
/* Lets the graph run in blocks where options->limits ask for it or nothing else fits, unless a team
 * runs it or outputs are fed back: TMK_UNSUPPORTED where they ask for it. Of run->graph. */
enum tmk_status tmk_running_may_divide(struct tmk_running *run, struct tmk_diag *diag);
/* Opens the data for `graph` (run->graph, or the first of others with the same inputs, numbered),
 * and chooses the number of workers and the batch within the limits. `graph` must outlive *run. */
enum tmk_status tmk_running_open(struct tmk_running *run, const struct tmk_graph *graph,
                                 struct tmk_diag *diag);
/* Of what is open; `run` must outlive what they are given to. The control stops the run where
 * options->events.stop returns true. */
struct tmk_exec_options tmk_running_exec_options(struct tmk_running *run);
/* TMK_INTERRUPTED where events->stop answers true. */
enum tmk_status tmk_running_goes_on(const struct tmk_run_events *events, struct tmk_diag *diag);
/* Does the caller ask to stop, by the struct tmk_run_events? By the calling thread, between runs:
 * signals are handled first, as in a run. */
bool tmk_running_stops(void *events);
struct tmk_memory_request tmk_running_memory(const struct tmk_running *run,
                                             const struct tmk_graph *graph);
/* Runs graphs over all of the data, and notes that in result and report. */
enum tmk_status tmk_running_execute(struct tmk_running *run, struct tmk_graph *const *graphs,
                                    uint32_t n_graphs, const struct tmk_sink *sink,
                                    struct tmk_diag *diag);
/* Adds what ran, and took so many seconds, to the report. */
void tmk_running_note(struct tmk_running *run, double seconds);
void tmk_running_finish(struct tmk_running *run);

/* As many as asked for, or as there are processors that this process may use. */
uint32_t tmk_running_threads(const struct tmk_run_limits *limits);
/* Seconds, of a clock that never goes back. */
double tmk_running_now(void);

/* As settings of a profile. */
enum tmk_status tmk_excluded_describe(const struct tmk_excluded *excluded,
                                      struct tmk_profile *profile, struct tmk_diag *diag);

/* The memory that a run will take, estimated before it begins. */

/* What is to run. */
struct tmk_memory_request {
    const char *path;              /* of the model, for errors */
    const struct tmk_graph *graph; /* as tmk_plan_create wants it; with observers, or bare */
    const struct tmk_run_options *options;
    const struct tmk_slot_config *slots;
    const struct tmk_slot_config *unruled; /* the same without rules, for a run in blocks; NULL: it
                                              must not run so */
    uint32_t n_slots, threads;
};

/* Is the source, a path or NAME=PATH as data.sources of the options has it, standard input? */
bool tmk_data_is_stream(const char *source);
/* TMK_ARGUMENT where one of the sources is: for what runs the same samples again. */
enum tmk_status tmk_data_can_repeat(const struct tmk_data_options *data, struct tmk_diag *diag);

/* Opens the data, plans the largest of its first batches and adds up. What statistics take is an
 * estimate, from what they were measured to take: how many bins are used is known only once the
 * data was seen. With options->limits.memory: fewer workers first, which change no result, then
 * batches half as large, where the model leaves them free, then blocks of the graph (*cuts; finish
 * it; n 0: as a whole), until the sum fits; TMK_LIMIT when nothing does. cuts NULL: they are only
 * counted. TMK_UNSUPPORTED for data that comes as a stream, since it could be read only once. */
enum tmk_status tmk_memory_planned(const struct tmk_memory_request *request,
                                   struct tmk_memory_plan *out, struct tmk_cuts *cuts,
                                   struct tmk_diag *diag);
