/* SPDX-License-Identifier: Apache-2.0 */
/* Data sources bound to a graph's inputs, cut into batches. */
#pragma once

#include <tidemark/feed.h>
#include <tidemark/profile.h>

#include "data/source.h"
#include "exec/run.h"
#include "graph/graph.h"

struct tmk_feed;

/* TMK_UNSUPPORTED when the graph has an input that no data are for. To be asked before a feed is
 * opened, by those who know the model's path. */
enum tmk_status tmk_feed_takes(const struct tmk_graph *graph, struct tmk_diag *diag);

/* Opens the sources and binds them: INPUT=PATH to that input; arrays with the names of inputs to
 * those; one array without a name to the one input that is left; "-" to all that are left. Every
 * input that is not fed back must end up with data. An array of an input's own rank is cut along
 * its first axis (into the input's fixed first dimension, or `batch`); one of one rank more holds
 * one whole input each entry. `threads` at most read ahead. The graph and `data` must outlive the
 * feed. */
enum tmk_status tmk_feed_open(const struct tmk_graph *graph, const struct tmk_data_options *data,
                              uint32_t threads, const struct tmk_notices *notices,
                              struct tmk_feed **out, struct tmk_diag *diag);
void tmk_feed_close(struct tmk_feed **feed);

/* A remark, if anybody wants them. */
void tmk_feed_remark(const struct tmk_feed *feed, const char *fmt, ...) TMK_PRINTF(2, 3);

/* From now on so many samples a batch where the model leaves that free; to be called before any
 * other function. */
enum tmk_status tmk_feed_set_batch(struct tmk_feed *feed, uint32_t batch, struct tmk_diag *diag);
/* The dtype and shape of one sample of input i, the first dimension being 1; *out is borrowed and
 * has no data. False when they are not known before it is read, or when a batch is no slice. */
bool tmk_feed_sample(const struct tmk_feed *feed, uint32_t input, struct tmk_tensor *out);

/* Which samples run, where those are not all. */
struct tmk_work_ranges {
    /* Gives the next range of samples [*begin, *end), which begins and ends at a batch boundary (or
     * the end of the data), in ascending order, or sets *more false. Called by the loader thread
     * only. */
    enum tmk_status (*next)(void *context, uint64_t *begin, uint64_t *end, bool *more,
                            struct tmk_diag *diag);
    void *context;
};
/* From now on only samples of these ranges run; to be called before the first batch. TMK_ARGUMENT
 * where the data is a stream, which can only be read whole. The context must outlive the feed. */
enum tmk_status tmk_feed_set_ranges(struct tmk_feed *feed, const struct tmk_work_ranges *work,
                                    struct tmk_diag *diag);

/* The batches of the uncut run (with feedback: its sequences), and the absolute sample where the
 * i-th of them begins: where ranges may begin and end. Of the one behind the last it is the run's
 * end. 0 batches: a stream, not known. */
uint64_t tmk_feed_batches(const struct tmk_feed *feed);
uint64_t tmk_feed_begin(const struct tmk_feed *feed, uint64_t batch);
/* The first batch that begins at `sample` or behind it. */
uint64_t tmk_feed_batch_from(const struct tmk_feed *feed, uint64_t sample);
/* How many samples of [begin, end) are to run. */
uint64_t tmk_feed_share(const struct tmk_feed *feed, uint64_t begin, uint64_t end);

/* For the executor; valid while the feed is open. A step may give a batch without samples: of
 * those that were at hand none could be read, or they fill no batch. */
struct tmk_batch_source tmk_feed_batch_source(struct tmk_feed *feed);

/* Between two batches: is none of the samples at hand left? */
bool tmk_feed_is_between(const struct tmk_feed *feed);
/* May the run pause here? Between batches, and with feedback between sequences. */
bool tmk_feed_can_pause(const struct tmk_feed *feed);
/* The run pauses before the next batch: what lies before it is covered. */
void tmk_feed_pause(struct tmk_feed *feed);
/* Ends the pause, and counts anew from here on. */
enum tmk_status tmk_feed_resume(struct tmk_feed *feed, struct tmk_diag *diag);

/* Ends the run instead, for good: as though its limit had been the samples that all counts together
 * were offered, `offered`. */
void tmk_feed_end(struct tmk_feed *feed, uint64_t offered);

/* What is known beforehand; where a stream feeds all inputs, `offered` and `run` are 0. What does
 * not fill a batch of fixed size is offered, but does not run. */
struct tmk_feed_plan {
    uint64_t offered, run, batch;
    bool slices; /* batches are slices along the first axis: results can be joined along theirs */
    bool free;   /* and may be of any size */
};
struct tmk_feed_plan tmk_feed_plan(const struct tmk_feed *feed);

enum { TMK_FEED_MAX_BAD = TMK_PROFILE_MAX_BAD }; /* listed; all are counted */

struct tmk_bad_sample {
    uint64_t sample;
    char *file; /* without the source's directories */
    char *why;
};
/* What became of the samples since counting began. Final once the feed has answered that there is
 * no more. */
struct tmk_sample_counts {
    uint64_t run, skipped, failed;    /* together: those offered */
    struct tmk_profile_range *ranges; /* where they were looked for: ascending, apart */
    uint32_t n_ranges;
    struct tmk_bad_sample *bad; /* the first that failed */
    size_t n_bad;
    size_t ranges_size, bad_size; /* for which there is memory */
};
/* Of a stratum; without strata all samples are of stratum 0. */
const struct tmk_sample_counts *tmk_feed_counts(const struct tmk_feed *feed, uint32_t stratum);
/* How many strata there are, at least 1. */
uint32_t tmk_feed_strata(const struct tmk_feed *feed);
/* Has any sample been dealt with since counting began? */
bool tmk_feed_has_begun(const struct tmk_feed *feed);
/* One behind the last sample that was dealt with since counting began; 0: there is none. */
uint64_t tmk_feed_reached(const struct tmk_feed *feed);
/* Are all batches of [begin, end) of this stratum? TMK_MISMATCH names one that is not. */
enum tmk_status tmk_feed_is_of(const struct tmk_feed *feed, uint64_t begin, uint64_t end,
                               uint32_t stratum, struct tmk_diag *diag);

/* data->recurrence.feedback, by number; valid while the feed is open. Batches inside a sequence
 * continue it, and have no tensors for those inputs. With data->generate, what is fed back from
 * step to step of a prompt. */
struct tmk_feedback tmk_feed_recurrence(const struct tmk_feed *feed);
/* data->generate; likewise. */
struct tmk_generation tmk_feed_generation(const struct tmk_feed *feed);
/* Is something fed back, and all samples one sequence? Then the run cannot be cut. */
bool tmk_feed_is_one_sequence(const struct tmk_feed *feed);
/* Steps in a sequence, the longest; 1 without feedback, UINT64_MAX: not known. */
uint64_t tmk_feed_steps(const struct tmk_feed *feed);
/* How many workers can be busy at once, of so many. */
uint32_t tmk_feed_workers(const struct tmk_feed *feed, uint32_t workers);

/* Begins to hash the data, on a thread of its own, in parallel with the run; to be called once.
 * When all hashes are there that thread passes them on: XXH3 of 128 bits in hex, one a source. */
struct tmk_feed_hashed {
    /* NULL: never */
    void (*publish)(void *context, const char (*hex)[TMK_HASH128_HEX], uint32_t n);
    void *context;
};
enum tmk_status tmk_feed_hash(struct tmk_feed *feed, const struct tmk_feed_hashed *then,
                              struct tmk_diag *diag);
/* Has it failed so far? */
bool tmk_feed_hash_failed(const struct tmk_feed *feed);
/* Waits for them. *hex is the feed's; one a source, "" for a stream that has not ended. */
enum tmk_status tmk_feed_hashes(struct tmk_feed *feed, const char (**hex)[TMK_HASH128_HEX],
                                struct tmk_diag *diag);
/* What is known of the data without reading all: where this differs the data does. */
uint64_t tmk_feed_glance(const struct tmk_feed *feed);
uint32_t tmk_feed_sources(const struct tmk_feed *feed);
/* Which of them feeds input i. */
uint32_t tmk_feed_source_of(const struct tmk_feed *feed, uint32_t input);

/* What feeds input i: kind, path, entries; NULL: it is fed back, and begins with zeros. */
const struct tmk_source_info *tmk_feed_source(const struct tmk_feed *feed, uint32_t input);
/* How many entries the array has that feeds input i. */
uint64_t tmk_feed_entries(const struct tmk_feed *feed, uint32_t input);

/* tmk_feed_open, with the batch that data->batch sets. Where that is 0: several samples a call when
 * one is too little work for it and the model is batch-independent (plan/batch.h). What is chosen
 * follows from the model and the shape of a sample alone, so that every shard, rank and resumed run
 * chooses the same. `why` receives, for people, why it is so many; it may be NULL. */
enum tmk_status tmk_feed_open_batched(const struct tmk_graph *graph,
                                      const struct tmk_data_options *data, uint32_t threads,
                                      const struct tmk_notices *notices, struct tmk_feed **out,
                                      char why[TMK_BATCH_WHY], struct tmk_diag *diag);

/* Which samples of a run this process runs. */

/* The shard-th (from 1) of `shards` parts of a run: consecutive batches, so many as in the others,
 * or one more or less. */
struct tmk_shard {
    uint64_t begin, end; /* samples; equal: there are none */
    bool given;
};
enum tmk_status tmk_shard_of(const struct tmk_feed *feed, uint32_t shard, uint32_t shards,
                             struct tmk_shard *out, struct tmk_diag *diag);
/* *shard must outlive it. */
struct tmk_work_ranges tmk_shard_ranges(struct tmk_shard *shard);

/* What other work ranges give, without what is done already. */
struct tmk_rest {
    struct tmk_work_ranges all;
    struct tmk_profile *done; /* what is done are the ranges that it covers */
    uint64_t begin, end;      /* of a range of `all`: what is left of it; 0 at first */
};
/* *rest must outlive it. */
struct tmk_work_ranges tmk_rest_ranges(struct tmk_rest *rest);
