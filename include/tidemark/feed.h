/* SPDX-License-Identifier: Apache-2.0 */
/* Which data a model runs over, and how samples are made of it. */
#ifndef TIDEMARK_FEED_H
#define TIDEMARK_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/pull.h>
#include <tidemark/strata.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The size of a free dimension. */
struct tmk_dim {
    const char *name; /* as the model spells it */
    int64_t value;
};

/* Recurrent state: outputs of one step that are inputs of the next. A step is one sample, or as
 * many as the model's fixed first dimension. All steps of a sequence run on one worker. */
struct tmk_recurrence {
    /* "OUT=IN": graph output OUT of one step is graph input IN of the next. Before the first step
     * of a sequence IN is what the data has for it (the first entry), else zeros. */
    const char *const *feedback;
    size_t n_feedback;
    /* Where sequences begin: "never" again, "every=N" samples (at multiples of N), "source": the
     * data's first axis counts sequences, the second their samples; each record of a stream is a
     * sequence. NULL: "never". */
    const char *reset;
};

/* Greedy decoding: each sample is a prompt, after which the model runs on from its own output. A
 * sample is one however many steps it takes; its values count every step. All steps of a prompt run
 * on one worker. Inputs are known by their names: tokens, masks, positions, lengths grow; caches
 * are fed back from the outputs of the same names (past..., present...), or as recurrence.feedback
 * says, where a pair of float logits and token IDs names those two. Without a cache the tokens so
 * far run again. */
struct tmk_generate {
    uint32_t steps;      /* after each prompt; 0: none */
    const int64_t *stop; /* tokens that end a prompt; its other steps are left out. A batch of
                            prompts ends with the last of them */
    size_t n_stop;
};

/* Zero-initialised, with sources: all samples, in batches as the model wants them. */
struct tmk_data_options {
    const char *const *sources; /* PATH, or INPUT=PATH; "-": .npy records on standard input */
    size_t n_sources;
    const struct tmk_pull *pull; /* what "-" reads instead of standard input; NULL: that */
    const struct tmk_dim *dims;  /* free dimensions that must have these sizes */
    size_t n_dims;
    const char *image; /* what is made of images, as --image spells it; NULL: the default */
    uint64_t skip;     /* samples at the start to leave out */
    uint64_t every;    /* of the batches, every so many-th (with batch 1, of the samples); 0: 1 */
    uint64_t limit;    /* samples at most; 0: all */
    bool skip_bad;     /* files that cannot be read are counted and listed, else an error */
    /* Samples a call where the model's batch is free. 0: one, or, where the model is
     * batch-independent and one sample is little work, as many as make a call worth it, up to 32;
     * this follows from the model and the shape of a sample alone. tmk_model_run takes 0 for 1, as
     * do strata. */
    uint32_t batch;
    struct tmk_recurrence recurrence;
    struct tmk_generate generate; /* of tmk_model_profile, _run_bare and _costs */
    /* Labels of the samples: every sample that is offered has one, and all samples of a batch, or
     * of a sequence, have the same. NULL: samples are not distinguished. */
    const struct tmk_strata *strata;
};

enum { TMK_BATCH_WHY = 240 }; /* bytes of a text that explains the size of a batch */

/* What threads of a run are for. */
enum tmk_thread_work {
    TMK_THREADS_RUN,  /* running the model, and loading for that */
    TMK_THREADS_READ, /* reading entries ahead of their turn */
    TMK_THREADS_HASH  /* hashing the data during the run */
};
enum { TMK_N_THREAD_WORKS = TMK_THREADS_HASH + 1 };

/* What a run reports that is no error. Called by threads of the run; NULL: never. */
struct tmk_notices {
    /* Of `wanted` threads for this work `missing` could not be started, and why. The run continues
     * with the others, and where there are none in the thread that was to start them; its result is
     * the same. Called once a run for each work. */
    void (*fewer_threads)(void *context, enum tmk_thread_work work, uint32_t missing,
                          uint32_t wanted, const char *why);
    /* Something about the data that may be a mistake: a line without its end; a few a run. */
    void (*remark)(void *context, const char *text);
    void *context; /* of both */
};

#ifdef __cplusplus
}
#endif
#endif
