/* SPDX-License-Identifier: Apache-2.0 */
/* The whole story: a model is opened, instrumented, run over data, and its profile comes back.
 *
 * A model is used by one thread at a time; distinct models are independent. Strings handed in are
 * only read during the call. Strings handed out are malloc'ed: free() them.
 */
#ifndef TIDEMARK_SESSION_H
#define TIDEMARK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/dist.h>
#include <tidemark/lineage.h>
#include <tidemark/meter.h>
#include <tidemark/profile.h>
#include <tidemark/pull.h>
#include <tidemark/sight.h>
#include <tidemark/status.h>
#include <tidemark/strata.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0". */
TMK_API const char *tmk_version(void);
/* The optional parts that were built in, with blanks: "hdf5 images mpi onednn yaml". */
TMK_API const char *tmk_features(void);

/* A model file in memory: its graph, with profile IDs. Opaque. */
struct tmk_model;

/* Reads an ONNX model, or a module of Relay as text. `keep_unknown`: operators that nobody knows
 * how to run are let through, for printing and instrumenting; otherwise they are TMK_UNSUPPORTED,
 * all named together. End with tmk_model_close. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_open(const char *path, bool keep_unknown,
                                                     struct tmk_model **out, struct tmk_diag *diag);
/* The same, with the weights of a Relay module in a file of their own, as relay.save_param_dict
 * writes it (NULL: none); TMK_ARGUMENT where the model is not Relay. The model's sha256 is then
 * that of both files' hashes (in hex), one after the other. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_open_params(const char *path, const char *params,
                                                            bool keep_unknown,
                                                            struct tmk_model **out,
                                                            struct tmk_diag *diag);
/* NULL is allowed. */
TMK_API void tmk_model_close(struct tmk_model **model);

/* ---- looking at a model ---- */

enum tmk_view {
    TMK_VIEW_TEXT, /* the IR, one line a node, with profile IDs */
    TMK_VIEW_DOT,  /* Graphviz */
    TMK_VIEW_OPS,  /* operators, how often, which are unsupported: a table */
    TMK_VIEW_JSON  /* values and nodes as JSON */
};
/* *unsupported (may be NULL) receives the number of nodes whose operator is unsupported. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_print(struct tmk_model *model, enum tmk_view view,
                                                      char **out, uint32_t *unsupported,
                                                      struct tmk_diag *diag);

/* Old and new side by side: a line for each original (ID, verdict, ID in the new model, name,
 * relation, absorber, pass), then one for each new value. The model is either end of the lineage,
 * told by fingerprints and weights; TMK_MISMATCH, with what differs from the original, when it is
 * neither. */
TMK_API TMK_NODISCARD enum tmk_status
tmk_model_print_lineage(const struct tmk_model *model, const struct tmk_lineage_record *lineage,
                        char **out, struct tmk_diag *diag);

/* The profile that a run over the model would begin with: the model, and a record for each value,
 * with producers, consumers and operands. Weights are counted (histograms), nothing else is; there
 * are no samples. For tmk_profile_carry. End with tmk_profile_destroy. */
TMK_API TMK_NODISCARD enum tmk_status
tmk_model_skeleton(const struct tmk_model *model, struct tmk_profile **out, struct tmk_diag *diag);

/* ---- instrumenting ---- */

/* Which values get an observer, and of which kind. */
struct tmk_observe {
    const char *const *patterns; /* "all", "activations", "weights", or globs on names; none: all */
    size_t n_patterns;
    const char *kind; /* "range", "histogram", "print", "guard"; NULL: "histogram", but in a run
                         what observers in the file that print or guard do */
};
/* Help for each kind, for people: "range", "extremes ...", ..., NULL. */
TMK_API const char *const *tmk_observer_kinds(void);

/* Writes the model with `ai.tidemark::EdgeObserver` on every selected value; any ONNX runtime runs
 * it and gives the same outputs. *n_observers may be NULL. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_instrument(struct tmk_model *model,
                                                           const struct tmk_observe *observe,
                                                           const char *path, uint32_t *n_observers,
                                                           struct tmk_diag *diag);

/* ---- transforming ---- */

/* Name and help, for people, of the i-th pass in the order of "all"; false behind the last. */
TMK_API bool tmk_transform_pass(size_t i, const char **name, const char **help);

struct tmk_transform_options {
    const char *const *passes; /* names, in order; "all" is every pass */
    size_t n_passes;
    /* Values that have an observer in the model stay and keep their numbers. Otherwise observers
     * are transparent: out of the way of every pass, and put back where their values went. */
    bool barrier;
    /* Of a Relay module the file for its weights, as relay.save_param_dict writes it; NULL: they go
     * to its metadata section. */
    const char *params_path;
    /* After each pass that is run: its name, whether it changed anything, and the graph as text
     * with what each value stands for. NULL: never. */
    void (*after)(void *context, const char *pass, bool progress, const char *text);
    void *context;
};

/* Does tmk_model_transform write Relay to this path? */
TMK_API bool tmk_is_relay_path(const char *path);

struct tmk_transform_report {
    uint32_t nodes_before, nodes_after; /* in sub-graphs too, without observers */
    uint32_t observers_before, observers_after;
    bool progress; /* any pass changed anything */
};

/* Runs passes over a copy of the model, writes it to `path` (whole or not at all), and answers with
 * what became of each value; end with tmk_lineage_record_destroy. Originals are those of the model
 * without its observers. report may be NULL. TMK_ARGUMENT: there is no such pass.
 *
 * A path that ends in ".relay" becomes Relay text, without observers; then the lineage speaks of
 * the graph that was said in Relay. TMK_UNSUPPORTED names all nodes that Relay can't say. */
TMK_API TMK_NODISCARD enum tmk_status
tmk_model_transform(struct tmk_model *model, const struct tmk_transform_options *options,
                    const char *path, struct tmk_lineage_record **out,
                    struct tmk_transform_report *report, struct tmk_diag *diag);

/* ---- running ---- */

struct tmk_dim {
    const char *name; /* of a free dimension, as the model spells it */
    int64_t value;
};

/* Strata, each of which gets a profile of its own. */
struct tmk_strata_options {
    const struct tmk_strata *labels; /* every sample that is offered has one, and all samples of a
                                        batch, or of a sequence with feedback, have the same */
    /* Called by the calling thread when the run is over, for each stratum that had samples, with
     * the profile of those: what it covers are they, and its setting "stratum" is the label, where
     * there is more than one. tmk_profile_merge of all is the run's profile. The profile is good
     * during the call; a failure is the run's. NULL: never. */
    enum tmk_status (*take)(void *context, const char *label, const struct tmk_profile *profile,
                            struct tmk_diag *diag);
    void *context; /* of take */
};

/* What threads of a run are for. */
enum tmk_thread_work {
    TMK_THREADS_RUN,  /* running the model, and loading for that */
    TMK_THREADS_READ, /* reading entries ahead of their turn */
    TMK_THREADS_HASH  /* hashing the data beside the run */
};
enum { TMK_N_THREAD_WORKS = TMK_THREADS_HASH + 1 };

/* What to run over, and how. Zero-initialised is: everything, as many threads as processors. */
struct tmk_run_options {
    const char *const *data; /* sources: PATH, or INPUT=PATH; "-": .npy records on standard input */
    size_t n_data;
    const struct tmk_pull *pull; /* what "-" reads instead of standard input; NULL: that */
    const struct tmk_dim *dims;  /* free dimensions that must have these sizes */
    size_t n_dims;
    uint64_t skip; /* samples at the start to leave out */
    uint64_t
        sample_every;  /* of the batches, every so many-th (with batch 1, of the samples); 0: 1 */
    uint64_t limit;    /* samples at most; 0: all */
    const char *image; /* what is made of images, as --image spells it; NULL: the default */
    bool skip_bad_samples; /* files that cannot be read are counted and listed, else an error */
    uint32_t threads;      /* workers; 0: one a processor. Never changes a result. */
    /* Samples a call where the model's batch is free. 0: one, or, where the model keeps samples
     * apart and one of them is little work, as many as make a call worth it, up to 32; this follows
     * from the model and the shape of a sample alone. tmk_model_run takes 0 for 1, as do strata. */
    uint32_t batch;
    bool fail_on_nan;     /* stop with TMK_GUARD at the first NaN */
    bool per_sample;      /* keep each sample's extremes of each value; memory grows with samples */
    const float *exclude; /* finite numbers: elements of inputs and activations with exactly these
                             bits are counted apart, and are in no range, moment and histogram */
    size_t n_exclude;
    /* Bytes: as many workers, then as large a batch, as are expected to fit; TMK_LIMIT before the
     * run where nothing fits. 0: no limit; see tmk_memory_set_limit, too. */
    uint64_t memory_limit;
    /* How often graphs inside nodes may run in one batch, all together: iterations of Loop and
     * Scan, tensors that SequenceMap takes, branches. TMK_LIMIT names the node that goes on. 0: ten
     * million. */
    uint64_t max_iterations;
    /* "OUT=IN": graph output OUT of one step is graph input IN of the next; a step is one sample,
     * or as many as the model's fixed first dimension. Before the first step of a sequence IN is
     * what `data` has for it (the first entry), else zeros. Whole sequences run on one worker. */
    const char *const *feedback;
    size_t n_feedback;
    /* Where sequences begin, with feedback: "never" again, "every=N" samples (at multiples of N),
     * "source": the data's first axis counts sequences, the second their samples; each record of a
     * stream is a sequence. NULL: "never". */
    const char *reset;

    /* ---- of tmk_model_profile only ---- */

    uint32_t shard, shards; /* the shard-th (from 1) of so many parts of the samples; 0, 0: all */
    /* A file that is written now and then, and once more when the run is stopped. Where it is there
     * at the start the run goes on from it; the result is that of a run that was never interrupted.
     * It stays: remove it once the result is in safety. With a team it is rank 0 that reads and
     * writes it, for all; how many ranks a run has may change from one start to the next. All must
     * be given one, or none. NULL: none. */
    const char *checkpoint;
    double checkpoint_seconds; /* from one to the next; 0: 60 */
    /* Samples that are counted apart, too. NULL: none are. */
    const struct tmk_strata_options *strata;
    /* Take snapshots of how far each value's thresholds still move, for the report's meter. They go
     * by the samples in their order: TMK_ARGUMENT with shards, a team, strata or a checkpoint.
     * Sequences are not cut: with feedback they are taken where one ends. */
    bool snapshots;
    /* Ends the run at the first snapshot, from 8 samples on, since whose predecessor no threshold
     * moved by more than this share of its value's range; the profile is then that of a run with
     * `limit` set to the samples so far. 0: never. Takes snapshots, too. */
    double until_stable;
    /* Called before running when a checkpoint was there: samples that are done, of how many (0: not
     * known). NULL: never. */
    void (*resumed)(void *context, uint64_t samples_done, uint64_t total);
    /* Asked before each batch, by a thread of the run: true ends it with TMK_INTERRUPTED, with
     * `checkpoint` after the batches at hand. NULL: never. */
    bool (*stop)(void *context);
    /* Of all that are in it, each with the same model, data and options. *out is then the profile
     * of what all ran at rank 0, and NULL elsewhere. NULL: this process is alone. */
    struct tmk_team *team;

    /* Called when it begins, and now and then, by the calling thread; `total` is 0 while it is not
     * known. NULL: never.
     */
    void (*progress)(void *context, uint64_t samples_done, uint64_t total);
    /* For observers of kind "print": one value of one batch, worker threads one at a time. NULL:
     * not printed. */
    void (*print)(void *context, const char *label, uint64_t sample,
                  const struct tmk_tensor *tensor);
    /* Of `wanted` threads for this work `missing` could not be started, and why. The run goes on
     * with the others, and where there are none in the thread that was to start them; its result is
     * the same. Told once a run for each work, by a thread of the run. NULL: never. */
    void (*fewer_threads)(void *context, enum tmk_thread_work work, uint32_t missing,
                          uint32_t wanted, const char *why);
    /* Something about the data that is no error, but may be a mistake: a line without its end, a
     * few a run at most. Called by a thread of the run. NULL: never. */
    void (*remark)(void *context, const char *text);
    void *context; /* of all these */
    /* An observer of your own, beside ours: called for every input and activation that is observed,
     * each time it is computed, by worker threads at the same time, each with its number (below
     * `threads`, or where that is 0 the number of processors), so that what it keeps can be kept a
     * worker and added up afterwards. Weights are not shown. A failure ends the run. NULL: never.
     * Values whose statistics follow from others' are computed and looked at, too, for it. */
    enum tmk_status (*see)(void *context, const struct tmk_sight *sight, struct tmk_diag *diag);
    void *see_context;
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
    struct tmk_meter *meter; /* with options->snapshots or until_stable, else NULL; to be ended with
                                tmk_meter_destroy */
    bool stable;             /* until_stable ended the run */
};

/* Instruments a copy of the model, runs it over the data, and answers with the profile of every
 * value. report may be NULL. TMK_GUARD: a NaN was seen where that was to stop the run.
 * TMK_INTERRUPTED: options->stop said so. TMK_MISMATCH, with what differs: the checkpoint is of
 * another run; nothing was run then. End with tmk_profile_destroy. */
TMK_API TMK_NODISCARD enum tmk_status
tmk_model_profile(struct tmk_model *model, const struct tmk_run_options *options,
                  const struct tmk_observe *observe, struct tmk_profile **out,
                  struct tmk_run_report *report, struct tmk_diag *diag);

/* Runs the model over the data, observing nothing, keeping nothing: bare speed. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_run_bare(struct tmk_model *model,
                                                         const struct tmk_run_options *options,
                                                         struct tmk_run_report *report,
                                                         struct tmk_diag *diag);

enum { TMK_BATCH_WHY = 240 }; /* bytes of text */

/* Memory that a run is expected to take, in bytes: told from the plan of its first batch. What
 * statistics take is an estimate. */
struct tmk_memory_plan {
    uint32_t threads;
    uint64_t batch;
    char batch_why[TMK_BATCH_WHY]; /* why so many samples a call, for people */
    uint64_t program;              /* what the process holds before the run */
    uint64_t model;                /* weights that are read from the file as they lie */
    uint64_t packed;     /* weights as the kernels want them, and constants that were computed */
    uint64_t constants;  /* their statistics, of all strata */
    uint64_t worker;     /* activations and scratch, each worker */
    uint64_t statistics; /* of activations, of all strata, each worker */
    uint64_t read_ahead; /* batches, each worker */
    uint64_t whole;      /* statistics of all strata together; 0 without strata */
    uint64_t per_sample; /* extremes of each sample, where they are kept */
    uint64_t total;
};
/* Reads the first batch, plans it, and runs nothing. observe NULL: a bare run. With
 * options->memory_limit, *out has as many workers, and if need be as small a batch, as fit. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_plan_memory(struct tmk_model *model,
                                                            const struct tmk_run_options *options,
                                                            const struct tmk_observe *observe,
                                                            struct tmk_memory_plan *out,
                                                            struct tmk_diag *diag);

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
/* Runs the model over the data, observed (observe NULL: bare), and tells what each step cost;
 * nothing else is kept. Reading the clock slows the run down by some per cent. On success end *out
 * with tmk_costs_finish. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_costs(struct tmk_model *model,
                                                      const struct tmk_run_options *options,
                                                      const struct tmk_observe *observe,
                                                      struct tmk_costs *out, struct tmk_diag *diag);
TMK_API void tmk_costs_finish(struct tmk_costs *costs);

/* Runs the model and writes values as arrays: NAME in a .npz (or the only one as .npy), batches
 * joined along their first axis where a batch is a slice of the data, else stacked on a new one.
 * patterns: globs on values' names (none: the graph outputs). Values whose shapes differ from batch
 * to batch are TMK_SHAPE, unless there is one batch only. Everything is held in memory until it is
 * written. */
TMK_API TMK_NODISCARD enum tmk_status tmk_model_run(struct tmk_model *model,
                                                    const struct tmk_run_options *options,
                                                    const char *const *patterns, size_t n_patterns,
                                                    const char *path, struct tmk_diag *diag);

/* ---- verifying ---- */

struct tmk_verify_options {
    /* |got - want| <= atol + rtol * |want|, NaN equals NaN: NumPy's allclose. Where the file's type
     * is bfloat16 or float16, rtol is at least two steps of that type: 2^-6 or 2^-9. */
    double rtol, atol;
    uint64_t max_iterations; /* as tmk_run_options has it */
};

/* One output of one test set, compared. */
struct tmk_verdict {
    const char *set;    /* the folder */
    const char *output; /* its name */
    bool ok;
    char why[256]; /* not ok: what differs, where */
    double worst;  /* largest |got - want| / (atol + rtol * |want|); 0 for exact types that agree */
};

/* Runs one folder of input_N.pb, output_N.pb and compares every output; calls `tell` (may be NULL)
 * for each. *failed counts outputs that differ. Inputs are matched by the tensors' names where all
 * of them name inputs of the graph, else by position. */
TMK_API TMK_NODISCARD enum tmk_status
tmk_model_verify(struct tmk_model *model, const char *directory,
                 const struct tmk_verify_options *options,
                 void (*tell)(void *context, const struct tmk_verdict *verdict), void *context,
                 uint32_t *failed, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
