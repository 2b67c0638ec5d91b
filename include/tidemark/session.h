/* SPDX-License-Identifier: Apache-2.0 */
/* A model is instrumented and run over data; its profile is the result.
 *
 * A model is used by one thread at a time; distinct models are independent. String arguments are
 * only read during the call. Returned strings are malloc'ed: free() them. */
#ifndef TIDEMARK_SESSION_H
#define TIDEMARK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/dist.h>
#include <tidemark/feed.h>
#include <tidemark/meter.h>
#include <tidemark/model.h>
#include <tidemark/observation.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The profile that a run over the model would begin with: the model, and a record for each value,
 * with producers, consumers and operands. Weights are counted (histograms), nothing else is; there
 * are no samples. For tmk_profile_transfer. End with tmk_profile_destroy. */
TMK_API enum tmk_status tmk_model_skeleton(const struct tmk_model *model, struct tmk_profile **out,
                                           struct tmk_diag *diag);

/* What holds the helper program that reads "archives", "hdf5" or "images" (the latter are names of
 * tmk_features), which is started for it: "seccomp, Landlock 4, limits", or less. TMK_UNSUPPORTED:
 * this build has none; TMK_MACHINE: it cannot be started. */
enum { TMK_CONFINEMENT_SIZE = 64 };
TMK_API enum tmk_status tmk_helper_confinement(const char *reads, char text[TMK_CONFINEMENT_SIZE],
                                               struct tmk_diag *diag);

/* ---- running ---- */

/* Resources of a run. None of them changes a result, but that memory may make batches smaller. */
struct tmk_run_limits {
    uint32_t threads; /* workers; 0: one for each processor that this process may use */
    /* Bytes: as many workers, then as large a batch, as are expected to fit; TMK_LIMIT before the
     * run where nothing fits. 0: no limit; see tmk_memory_set_limit, too. */
    uint64_t memory;
    /* How often graphs inside nodes may run in one batch, all together: iterations of Loop and
     * Scan, tensors that SequenceMap takes, branches. TMK_LIMIT names the node that exceeds it. 0:
     * ten million. */
    uint64_t iterations;
    /* Of tmk_model_profile and tmk_model_plan_memory: blocks of the graph run one after the other,
     * each over many batches, so that only the weights of one block are in memory; what later
     * blocks read is kept in between. Chosen by itself where nothing else fits `memory`. The
     * profile is the same. Not with a team or with outputs that are fed back: TMK_UNSUPPORTED. */
    bool stream_layers;
};

/* What is counted. */
struct tmk_statistics_options {
    bool fail_on_nan;     /* stop with TMK_GUARD at the first NaN */
    bool per_sample;      /* keep each sample's extremes of each value; memory grows with samples */
    const float *exclude; /* finite numbers: elements of inputs and activations with exactly these
                             bits are counted apart, and are in no range, moment and histogram */
    size_t n_exclude;
    /* A graph input [batch, length]: where it is 0 a position of a prompt is padding. Elements of
     * these positions are counted apart, as those above, in every float value whose axes are known
     * to count prompts and positions; others keep all elements, and notices.remark tells how many
     * values those are. NULL: nothing is padding. */
    const char *exclude_padding;
    /* Histograms of inputs and activations count one run of 64 elements in so many, which can be
     * quicker (tmk_stats_thin): 2 to 64; 0 and 1: all elements. Values before a Relu or Clip, and
     * behind it, are counted whole. Of histograms (TMK_ARGUMENT). A setting of the profile. Not
     * with limits.stream_layers. */
    uint32_t histogram_share;
};

/* An observer of your own, in addition: called for every input and activation that is observed,
 * each time it is computed, by worker threads at the same time, each with its number (below
 * `threads`, or where that is 0 the number of processors), so that what it keeps can be kept a
 * worker and added up afterwards. Weights are not shown. A failure ends the run. Values whose
 * statistics follow from others' are computed and shown, too. */
struct tmk_observe_callback {
    enum tmk_status (*call)(void *context, const struct tmk_observation *observation,
                            struct tmk_diag *diag); /* NULL: never */
    void *context;
};

/* A part of the samples; {0, 0}: all. */
struct tmk_shard_options {
    uint32_t index, count; /* the index-th (from 1) of so many parts */
};

struct tmk_checkpoint_options {
    /* A file that is written now and then, and once more when the run is stopped. Where it exists
     * at the start the run is resumed from it; the result is that of a run that was never
     * interrupted. It stays: remove it once the result is in safety. With a team rank 0 reads and
     * writes it, for all; how many ranks a run has may change from one start to the next. All must
     * be given one, or none. NULL: none. */
    const char *path;
    double seconds; /* from one to the next; 0: 60 */
};

/* Profiles of the strata that data.strata names. */
struct tmk_strata_options {
    /* Called by the calling thread when the run is over, for each stratum that had samples, with
     * the profile of those: what it covers are they, and its setting "stratum" is the label, where
     * there is more than one. tmk_profile_merge of all is the run's profile. The profile is good
     * during the call; a failure is the run's. NULL: never. */
    enum tmk_status (*take)(void *context, const char *label, const struct tmk_profile *profile,
                            struct tmk_diag *diag);
    void *context;
};

/* Snapshots of how far each value's thresholds still move, for the report's meter. They go by the
 * samples in their order: TMK_ARGUMENT with shards, a team, strata or a checkpoint. Sequences are
 * not cut: with feedback they are taken where one ends. */
struct tmk_snapshot_options {
    bool take;
    /* Ends the run at the first snapshot, from 8 samples on, since whose predecessor no threshold
     * moved by more than this share of its value's range; the profile is then that of a run with
     * `limit` set to the samples so far. 0: never. Takes snapshots, too. */
    double until_stable;
};

/* Calls while a run is under way; NULL: never. */
struct tmk_run_events {
    /* When the run begins, now and then, and when it has run all, by the calling thread; `total` is
     * 0 while it is not known. Functions that run samples more than once (tmk_model_rank,
     * tmk_model_search, tmk_link_by_numbers) count them each time. */
    void (*progress)(void *context, uint64_t samples_done, uint64_t total);
    /* Before running when a checkpoint exists: samples that are done, of how many (0: unknown). */
    void (*resumed)(void *context, uint64_t samples_done, uint64_t total);
    /* Before each batch, and before each step that a prompt generates, by threads of the run, some
     * at the same time, and by the calling thread while it waits for them: true ends it with
     * TMK_INTERRUPTED, batches at hand before their next node, or with a checkpoint when they are
     * done. */
    bool (*stop)(void *context);
    /* Called once where `stop` answered true: all batches have ended, and what is done is kept. By
     * the thread that called. NULL: never. */
    void (*stopping)(void *context);
    /* By the calling thread, some times a second while it waits for the threads of the run, also at
     * ranks without progress: what a program does there itself, such as handling signals of a
     * language. */
    void (*waiting)(void *context);
    /* For observers of kind "print": one value of one batch, worker threads one at a time. */
    void (*print)(void *context, const char *label, uint64_t sample,
                  const struct tmk_tensor *tensor);
    void *context; /* of all these */
};

/* What to run over, and how. Zero-initialised but for data.sources: all samples, as many threads as
 * processors. */
struct tmk_run_options {
    struct tmk_data_options data;
    struct tmk_run_limits limits;
    struct tmk_notices notices;
    struct tmk_run_events events;
    /* Round each input and result to float16 or bfloat16 where the model's file gives it this type,
     * as a device that computes in it does; weights are what the file has. Else all is computed
     * and kept in float32. Of tmk_model_profile, tmk_model_run_bare and tmk_model_plan_memory;
     * TMK_ARGUMENT where the model has no such values. A setting of the profile. */
    bool round_half;

    /* ---- of tmk_model_profile only ---- */

    struct tmk_statistics_options statistics;
    struct tmk_observe_callback observe;
    struct tmk_strata_options strata;
    struct tmk_snapshot_options snapshots;
    struct tmk_checkpoint_options checkpoint;
    struct tmk_shard_options shard;
    /* Of all that are in it, each with the same model, data and options. *out is then the profile
     * of what all ran at rank 0, and NULL elsewhere. NULL: this process is alone. */
    struct tmk_team *team;
};

/* What a run was like; not part of a profile, since it differs from run to run. */
struct tmk_run_report {
    uint64_t samples, batches;
    double seconds;            /* from the first batch to the merged statistics */
    double setup_seconds;      /* before: instrumenting, opening the data */
    size_t arena_bytes;        /* activations and scratch, a worker */
    uint32_t threads;          /* workers that ran */
    uint32_t checkpoints;      /* that were written */
    double checkpoint_seconds; /* of `seconds`: what that took, while nothing else ran */
    struct tmk_meter *meter;   /* with options->snapshots, else NULL; to be ended with
                                  tmk_meter_destroy */
    bool stable;               /* until_stable ended the run */
};

/* Instruments a copy of the model, runs it over the data, and answers with the profile of every
 * value. report may be NULL. TMK_GUARD: a NaN was seen where that was to stop the run.
 * TMK_INTERRUPTED: options->events.stop answered true. TMK_MISMATCH, with what differs: the
 * checkpoint is of another run; nothing was run then. End with tmk_profile_destroy. */
TMK_API enum tmk_status tmk_model_profile(struct tmk_model *model,
                                          const struct tmk_run_options *options,
                                          const struct tmk_observe *observe,
                                          struct tmk_profile **out, struct tmk_run_report *report,
                                          struct tmk_diag *diag);

/* Runs the model over the data, observing nothing, keeping nothing: bare speed. */
TMK_API enum tmk_status tmk_model_run_bare(struct tmk_model *model,
                                           const struct tmk_run_options *options,
                                           struct tmk_run_report *report, struct tmk_diag *diag);

/* When a run needs most memory: while batches run; when the workers have run theirs and pack their
 * statistics; when these are merged and written. */
enum tmk_memory_moment { TMK_MEMORY_RUNNING, TMK_MEMORY_FINISHING, TMK_MEMORY_MERGING };

/* Memory that a run is expected to take, in bytes: estimated from the plan of the largest of its
 * first batches. What statistics take is an estimate. `total` is what is there all the time and
 * what the moment has that needs most. */
struct tmk_memory_plan {
    uint32_t threads;
    uint64_t batch;
    char batch_why[TMK_BATCH_WHY]; /* why so many samples a call, for people */
    uint64_t program;              /* what the process holds besides all below */
    uint64_t model;                /* weights that are read from the file as they lie */
    uint64_t packed;     /* weights as the kernels want them, and constants that were computed */
    uint64_t worker;     /* activations and scratch, each worker */
    uint64_t whole;      /* statistics of all strata together; 0 without strata */
    uint64_t per_sample; /* extremes of each sample, where they are kept */
    uint64_t blocks;   /* of the graph, where they run one after the other; else 0. packed is of the
                          largest then, or of the one that is there at the moment */
    uint64_t together; /* batches that a block runs before the next block does */
    uint64_t kept;     /* what is kept between blocks, and the inputs, of that many batches */
    /* TMK_MEMORY_RUNNING, each worker: statistics of activations, and batches */
    uint64_t counting, read_ahead;
    /* TMK_MEMORY_FINISHING, each worker: statistics of activations, of all strata */
    uint64_t statistics;
    /* TMK_MEMORY_MERGING: statistics of activations, of all workers together; of constants; those
     * made of others; and what writing takes besides activations and packed weights, which are gone
     * by then. Of all strata. */
    uint64_t summed, constants, derived, writing;
    enum tmk_memory_moment moment;
    uint64_t total;
};
/* Reads the first batches, plans the largest, and runs nothing. observe NULL: a bare run. With
 * options->limits.memory, *out has as many workers, and if need be as small a batch, as fit. */
TMK_API enum tmk_status tmk_model_plan_memory(struct tmk_model *model,
                                              const struct tmk_run_options *options,
                                              const struct tmk_observe *observe,
                                              struct tmk_memory_plan *out, struct tmk_diag *diag);

/* What one step of a run cost, all its runs on all threads together. */
struct tmk_step_cost {
    char name[128];  /* of the node; of a chain's last */
    char what[128];  /* operators: "Conv", "BatchNormalization+Add+Relu", "to blocks for Conv" */
    char kernel[64]; /* what ran it: "onednn jit:avx2", "tiles", "plain C" */
    uint64_t runs;
    double seconds;         /* without its observers */
    double observe_seconds; /* they */
};
struct tmk_costs {
    struct tmk_step_cost *steps; /* in the order in which they run */
    size_t n;
};
/* Runs the model over the data, observed (observe NULL: bare), and reports what each step cost;
 * nothing else is kept. Reading the clock slows the run down by some per cent. On success end *out
 * with tmk_costs_finish. */
TMK_API enum tmk_status tmk_model_costs(struct tmk_model *model,
                                        const struct tmk_run_options *options,
                                        const struct tmk_observe *observe, struct tmk_costs *out,
                                        struct tmk_diag *diag);
TMK_API void tmk_costs_finish(struct tmk_costs *costs);

/* Runs the model and writes values as arrays: NAME in a .npz (or the only one as .npy), batches
 * joined along their first axis where a batch is a slice of the data, else stacked on a new one.
 * patterns: globs on values' names (none: the graph outputs). Values whose shapes differ from batch
 * to batch are TMK_SHAPE, unless there is one batch only. Everything is held in memory until it is
 * written. */
TMK_API enum tmk_status tmk_model_run(struct tmk_model *model,
                                      const struct tmk_run_options *options,
                                      const char *const *patterns, size_t n_patterns,
                                      const char *path, struct tmk_diag *diag);

/* ---- verifying ---- */

struct tmk_verify_options {
    /* |got - want| <= atol + rtol * |want|, NaN equals NaN: NumPy's allclose. Where the file's type
     * is bfloat16 or float16, rtol is at least two steps of that type: 2^-6 or 2^-9. */
    double rtol, atol;
    struct tmk_run_limits limits; /* memory is not looked at */
    struct tmk_run_events events; /* of these `stop` and `waiting` */
};

/* One output of one test set, compared. */
struct tmk_verdict {
    const char *set;    /* the folder */
    const char *output; /* its name */
    bool ok;
    char why[256]; /* not ok: what differs, where */
    double worst;  /* largest |got - want| / (atol + rtol * |want|); 0 for exact types that agree */
};

/* Runs one folder of input_N.pb, output_N.pb and compares every output; calls `report` (may be
 * NULL) for each. *failed counts outputs that differ. Inputs are matched by the tensors' names
 * where all of them name inputs of the graph, else by position. TMK_INTERRUPTED:
 * options->events.stop answered true. */
TMK_API enum tmk_status tmk_model_verify(struct tmk_model *model, const char *directory,
                                         const struct tmk_verify_options *options,
                                         void (*report)(void *context,
                                                        const struct tmk_verdict *verdict),
                                         void *context, uint32_t *failed, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
