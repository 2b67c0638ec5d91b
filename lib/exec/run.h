/* SPDX-License-Identifier: Apache-2.0 */
/* A run: a loader thread feeds batches through a bounded queue to workers, each of which runs
 * whole batches alone (with feedback, whole sequences of them) and keeps accounts of its own; the
 * accounts are merged at the end. Which worker ran which batch cannot be told from the result. */
#ifndef TMK_EXEC_RUN_H
#define TMK_EXEC_RUN_H

#include <stdbool.h>

#include "exec/account.h"
#include "exec/cache.h"
#include "exec/feedback.h"
#include "exec/timing.h"

/* Consecutive samples that run together. */
struct tmk_batch {
    uint64_t sample;           /* absolute index of the first */
    uint64_t samples;          /* how many */
    struct tmk_tensor *inputs; /* one a graph input, in order; malloc'ed array of references */
    uint32_t n_inputs;
    uint32_t group; /* whose accounts it is counted in */
    bool goes_on;   /* with the sequence of the batch before: what is fed back is no tensor yet */
};
/* Finishes the tensors and the array. */
void tmk_batch_finish(struct tmk_batch *batch);

struct tmk_feed {
    /* Makes the next batch, or sets *more false. Called by the loader thread only, batches in
     * ascending order of sample. An error ends the run. */
    enum tmk_status (*next)(void *context, struct tmk_batch *out, bool *more,
                            struct tmk_diag *diag);
    void *context;
};

struct tmk_exec_options {
    uint32_t threads; /* workers, at least 1 */
    bool observe;     /* false: run only; the accounts stay empty */
    const struct tmk_slot_config *slots;
    uint32_t n_slots;
    uint32_t groups;        /* of batches that are counted apart; 0: 1 */
    struct tmk_print print; /* for slots with `print`; .print NULL: none */
    /* Called now and then by the thread that called tmk_exec_leg, with the samples of all legs;
     * NULL: never. */
    void (*progress)(void *context, uint64_t samples_done);
    void *progress_context;
    /* Called by the same thread, once, where threads could not be started; why is an errno. The
     * leg goes on with the others, or in the calling thread. NULL: never. */
    void (*fewer_threads)(void *context, uint32_t missing, uint32_t wanted, int why);
    void *fewer_context;
    uint64_t max_iterations; /* as tmk_worker_limit takes it */
    bool timing;             /* fill the result's */
    /* Where it is not empty: a batch that goes on runs on the worker that ran the one before. */
    struct tmk_feedback feedback;
};

/* What ran of a group. */
struct tmk_exec_tally {
    uint64_t samples, batches;
};

struct tmk_exec_result {
    struct tmk_account *accounts; /* [n_groups][n_slots] */
    uint32_t n_slots, n_groups;
    struct tmk_exec_tally *tallies; /* [n_groups] */
    uint64_t samples, batches;      /* that ran, of all groups */
    uint32_t workers;               /* that were there to run them */
    struct tmk_cache_figures figures;
    struct tmk_timing timing; /* empty unless asked for */
};

/* A crew that stays together from one leg of a run to the next: its plans and its memory stay. The
 * instrumented, bound, sorted and numbered graph and what the options point to must outlive it. */
struct tmk_exec;
TMK_NODISCARD enum tmk_status tmk_exec_open(const struct tmk_graph *graph,
                                            const struct tmk_exec_options *options,
                                            struct tmk_exec **out, struct tmk_diag *diag);
/* Runs every batch of the feed, until that says that there is no more, and hands over what was
 * counted since the last leg: added up, all legs are one run. Constants that do not depend on the
 * run (initializers) are, of each group, in the first leg that ran a batch of it. After a failure
 * only close it. When something fails the error of the earliest failing batch is reported. On
 * success finish *out. */
TMK_NODISCARD enum tmk_status tmk_exec_leg(struct tmk_exec *exec, const struct tmk_feed *feed,
                                           struct tmk_exec_result *out, struct tmk_diag *diag);
void tmk_exec_close(struct tmk_exec **exec);

/* Runs every batch of the feed through the instrumented, bound, sorted and numbered graph, in
 * one leg. */
TMK_NODISCARD enum tmk_status tmk_exec_run(const struct tmk_graph *graph,
                                           const struct tmk_feed *feed,
                                           const struct tmk_exec_options *options,
                                           struct tmk_exec_result *out, struct tmk_diag *diag);
void tmk_exec_result_finish(struct tmk_exec_result *result);

#endif
