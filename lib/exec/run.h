/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: runs one or several graphs over the same batches, and hands the values to sinks.
 *
 * A loader thread feeds batches through a bounded queue to workers. Each runs whole batches (with
 * feedback, whole sequences of them) through all graphs, one after the other. Which worker ran
 * which batch cannot be seen in the result. */
#pragma once

#include <stdbool.h>

#include "exec/blocks.h"
#include "exec/feedback.h"
#include "exec/sink.h"
#include "exec/timing.h"

/* Consecutive samples that run together. */
struct tmk_batch {
    uint64_t sample;           /* absolute index of the first */
    uint64_t samples;          /* how many */
    struct tmk_tensor *inputs; /* one a graph input, in order; malloc'ed array of references */
    uint32_t n_inputs;
    uint32_t group;          /* whose accounts it is counted in */
    bool continues_sequence; /* of the batch before: what is fed back is no tensor yet */
    bool again;              /* a further step of samples that have run; set by the executor */
    const char *label;       /* names it in errors; NULL: its samples do */
    struct tmk_part part;    /* zero-initialised: all of the graph */
    uint64_t place;          /* among all batches of the run; set by the executor */
};
/* Finishes the tensors and the array. */
void tmk_batch_finish(struct tmk_batch *batch);

struct tmk_batch_source {
    /* Makes the next batch, or sets *more false; a batch without samples is passed over. Called by
     * the loader thread only, batches in ascending order of sample. A failure ends the run, after
     * the batches before it. */
    enum tmk_status (*next)(void *context, struct tmk_batch *out, bool *more,
                            struct tmk_diag *diag);
    void *context;
};

/* Decides whether a run continues. */
struct tmk_control {
    /* Called by the loader thread before each batch: *pause ends the segment. A failure ends the
     * run, with TMK_INTERRUPTED without the batches that wait. NULL: never. */
    enum tmk_status (*decide)(void *context, bool *pause, struct tmk_diag *diag);
    /* Called by workers between the steps that a batch generates, which may be many, and by the
     * thread that called while it waits: a failure, of TMK_INTERRUPTED, ends the run before the
     * next node. NULL: never. */
    enum tmk_status (*between_steps)(void *context, struct tmk_diag *diag);
    void *context;
};

struct tmk_exec_options {
    uint32_t threads;                     /* workers, at least 1 */
    struct tmk_statistics_config observe; /* of the first graph; no slots: nothing is counted */
    struct tmk_sink sink;                 /* in addition; zero-initialised: none */
    struct tmk_control control;
    /* Called at the beginning, now and then, and when all is done, by the thread that called
     * tmk_exec_segment, with the samples of all segments; NULL: never. */
    void (*progress)(void *context, uint64_t samples_done);
    void *progress_context;
    /* Called by the same thread, once, where threads could not be started; why is an errno. The
     * segment runs on the others, or in the calling thread. NULL: never. */
    void (*fewer_threads)(void *context, uint32_t missing, uint32_t wanted, int why);
    void *fewer_context;
    uint64_t max_iterations; /* as tmk_worker_limit takes it */
    bool timing;             /* fill the result's */
    /* Of the only graph. Where it is not empty: a batch that continues a sequence runs on the
     * worker that ran the one before. */
    struct tmk_feedback feedback;
    /* Of the only graph. Each batch runs on from its own results, for so many further steps. */
    struct tmk_generation generation;
    /* Of the only graph, without feedback and options.sink: it runs block by block, each over up to
     * `together` batches. NULL: as a whole. */
    const struct tmk_cuts *cuts;
    uint64_t together;
};

struct tmk_exec_result {
    struct tmk_counted counted;
    uint64_t samples, batches;        /* that ran, of all groups */
    uint32_t workers;                 /* that were there to run them */
    bool paused;                      /* by the control */
    struct tmk_cache_figures figures; /* of the first graph */
    struct tmk_timing timing;         /* empty unless asked for */
};

/* Workers that stay from one segment of a run to the next: their plans and memory stay. The bound,
 * sorted and numbered graphs, which have the same inputs, and what the options point to must
 * outlive it. */
struct tmk_exec;
enum tmk_status tmk_exec_open(struct tmk_graph *const *graphs, uint32_t n_graphs,
                              const struct tmk_exec_options *options, struct tmk_exec **out,
                              struct tmk_diag *diag);
/* Runs every batch of the source, until there is no more or the control pauses, and hands over what
 * was counted since the last segment: added up, all segments are one run. Constants that do not
 * depend on the run (initializers) are, of each group, in the first segment that ran a batch of it.
 * After a failure only close it. The error of the earliest failing batch is reported. On success
 * finish *out. */
enum tmk_status tmk_exec_segment(struct tmk_exec *exec, const struct tmk_batch_source *source,
                                 struct tmk_exec_result *out, struct tmk_diag *diag);
void tmk_exec_close(struct tmk_exec **exec);

/* A run of one segment. */
enum tmk_status tmk_exec_run(struct tmk_graph *const *graphs, uint32_t n_graphs,
                             const struct tmk_batch_source *source,
                             const struct tmk_exec_options *options, struct tmk_exec_result *out,
                             struct tmk_diag *diag);
void tmk_exec_result_finish(struct tmk_exec_result *result);
