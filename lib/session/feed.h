/* SPDX-License-Identifier: Apache-2.0 */
/* Data sources bound to a graph's inputs, cut into batches. */
#ifndef TMK_SESSION_FEED_H
#define TMK_SESSION_FEED_H

#include <tidemark/profile.h>
#include <tidemark/session.h>

#include "data/source.h"
#include "exec/run.h"
#include "graph/graph.h"

struct tmk_session_feed;

/* TMK_UNSUPPORTED when the graph has an input that no data are for. To be asked before a feed is
 * opened, by those who know the model's path. */
TMK_NODISCARD enum tmk_status tmk_feed_takes(const struct tmk_graph *graph, struct tmk_diag *diag);

/* Opens the sources and binds them: INPUT=PATH to that input; arrays with the names of inputs to
 * those; one array without a name to the one input that is left; "-" to all that are left. Every
 * input that is not fed back must end up with data. An array of an input's own rank is cut along
 * its first axis (into the input's fixed first dimension, or `batch`); one of one rank more holds
 * one whole input each entry. The graph must outlive the feed. */
TMK_NODISCARD enum tmk_status tmk_session_feed_open(const struct tmk_graph *graph,
                                                    const struct tmk_run_options *options,
                                                    struct tmk_session_feed **out,
                                                    struct tmk_diag *diag);
void tmk_session_feed_close(struct tmk_session_feed **feed);

/* From now on so many samples a batch where the model leaves that free; to be said before anything
 * else is asked. */
TMK_NODISCARD enum tmk_status tmk_session_feed_set_batch(struct tmk_session_feed *feed,
                                                         uint32_t batch, struct tmk_diag *diag);
/* The dtype and shape of one sample of input i, the first dimension being 1; *out is borrowed and
 * has no data. False when they are not known before it is read, or when a batch is no slice. */
bool tmk_session_feed_sample(const struct tmk_session_feed *feed, uint32_t input,
                             struct tmk_tensor *out);

/* Where a run is of a part of the samples only: which. */
struct tmk_hand_out {
    /* Gives the next range of samples [*begin, *end), which begins and ends at a batch boundary (or
     * the end of the data), in ascending order, or sets *more false. Called by the loader thread
     * only. */
    enum tmk_status (*next)(void *context, uint64_t *begin, uint64_t *end, bool *more,
                            struct tmk_diag *diag);
    void *context;
};
/* From now on only samples that are handed out run; to be said before the first batch. TMK_ARGUMENT
 * where the data is a stream, which can only be read whole. The context must outlive the feed. */
TMK_NODISCARD enum tmk_status tmk_session_feed_hand_out(struct tmk_session_feed *feed,
                                                        const struct tmk_hand_out *hand_out,
                                                        struct tmk_diag *diag);

/* The batches of the uncut run (with feedback: its sequences), and the absolute sample where the
 * i-th of them begins: where parts may be cut. Of the one behind the last it is the run's end. 0
 * batches: a stream, not known. */
uint64_t tmk_session_feed_batches(const struct tmk_session_feed *feed);
uint64_t tmk_session_feed_begin(const struct tmk_session_feed *feed, uint64_t batch);
/* The first batch that begins at `sample` or behind it. */
uint64_t tmk_session_feed_batch_from(const struct tmk_session_feed *feed, uint64_t sample);
/* How many samples of [begin, end) are to run. */
uint64_t tmk_session_feed_share(const struct tmk_session_feed *feed, uint64_t begin, uint64_t end);

/* For tmk_exec_run; valid while the feed is open. */
struct tmk_feed tmk_session_feed_of(struct tmk_session_feed *feed);

/* Asked by the loader thread before each batch: *pause says that there is no more for now (with
 * feedback, once the sequence at hand is over), an error ends the run. */
struct tmk_feed_watch {
    enum tmk_status (*ask)(void *context, bool *pause, struct tmk_diag *diag);
    void *context;
};
/* Sets it; the context must outlive the feed. */
void tmk_session_feed_watch(struct tmk_session_feed *feed, const struct tmk_feed_watch *watch);
/* Did the feed say that there is no more only because of a pause? */
bool tmk_session_feed_paused(const struct tmk_session_feed *feed);
/* Ends the pause, and begins new books: those of what came before are forgotten. */
TMK_NODISCARD enum tmk_status tmk_session_feed_go_on(struct tmk_session_feed *feed,
                                                     struct tmk_diag *diag);

/* Ends the run instead, for good: as though its limit had been the samples that all books together
 * say were offered, `offered`. */
void tmk_session_feed_end(struct tmk_session_feed *feed, uint64_t offered);

/* What is known beforehand; where a stream feeds all inputs, `offered` and `run` are 0. What does
 * not fill a batch of fixed size is offered, but does not run. */
struct tmk_feed_plan {
    uint64_t offered, run, batch;
    bool slices; /* batches are slices along the first axis: results can be joined along theirs */
    bool free;   /* and may be of any size */
};
struct tmk_feed_plan tmk_session_feed_plan(const struct tmk_session_feed *feed);

enum { TMK_FEED_MOST_BAD = TMK_PROFILE_MOST_BAD }; /* listed; all are counted */

struct tmk_bad_sample {
    uint64_t sample;
    char *file; /* without the source's directories */
    char *why;
};
/* What became of the samples since the books were begun. Final once the feed has said that there is
 * no more. */
struct tmk_feed_ledger {
    uint64_t run, skipped, failed;    /* together: those offered */
    struct tmk_profile_range *ranges; /* where they were looked for: ascending, apart */
    uint32_t n_ranges;
    struct tmk_bad_sample *bad; /* the first that failed */
    size_t n_bad;
};
/* Of a stratum; without strata all samples are of stratum 0. */
const struct tmk_feed_ledger *tmk_session_feed_ledger(const struct tmk_session_feed *feed,
                                                      uint32_t stratum);
/* How many strata there are, at least 1. */
uint32_t tmk_session_feed_strata(const struct tmk_session_feed *feed);
/* Has any sample been dealt with since the books were begun? */
bool tmk_session_feed_has_begun(const struct tmk_session_feed *feed);
/* One behind the last sample that was dealt with since the books were begun; 0: there is none. */
uint64_t tmk_session_feed_reached(const struct tmk_session_feed *feed);
/* Are all batches of [begin, end) of this stratum? TMK_MISMATCH names one that is not. */
TMK_NODISCARD enum tmk_status tmk_session_feed_is_of(const struct tmk_session_feed *feed,
                                                     uint64_t begin, uint64_t end, uint32_t stratum,
                                                     struct tmk_diag *diag);

/* What options->feedback says, by number; valid while the feed is open. Batches inside a sequence
 * go on, and have no tensors for those inputs. */
struct tmk_feedback tmk_session_feed_loops(const struct tmk_session_feed *feed);
/* Steps in a sequence, the longest; 1 without feedback, UINT64_MAX: not known. */
uint64_t tmk_session_feed_steps(const struct tmk_session_feed *feed);
/* How many workers can be busy at once, of so many. */
uint32_t tmk_session_feed_workers(const struct tmk_session_feed *feed, uint32_t workers);

/* Begins to hash the data, on a thread of its own, beside whatever runs; to be said once. When all
 * hashes are there that thread tells them: XXH3 of 128 bits in hex, one a source. */
struct tmk_feed_hashed {
    /* NULL: nobody is to be told */
    void (*tell)(void *context, const char (*hex)[TMK_HASH128_HEX], uint32_t n);
    void *context;
};
TMK_NODISCARD enum tmk_status tmk_session_feed_hash(struct tmk_session_feed *feed,
                                                    const struct tmk_feed_hashed *then,
                                                    struct tmk_diag *diag);
/* Has it failed so far? */
bool tmk_session_feed_hash_failed(const struct tmk_session_feed *feed);
/* Waits for them. *hex is the feed's; one a source, "" for a stream that has not ended. */
TMK_NODISCARD enum tmk_status tmk_session_feed_hashes(struct tmk_session_feed *feed,
                                                      const char (**hex)[TMK_HASH128_HEX],
                                                      struct tmk_diag *diag);
/* What can be told of the data at once: where this differs the data does. */
uint64_t tmk_session_feed_glance(const struct tmk_session_feed *feed);
uint32_t tmk_session_feed_sources(const struct tmk_session_feed *feed);
/* Which of them feeds input i. */
uint32_t tmk_session_feed_source_of(const struct tmk_session_feed *feed, uint32_t input);

/* What feeds input i: kind, path, entries; NULL: it is fed back, and begins with zeros. */
const struct tmk_source_info *tmk_session_feed_source(const struct tmk_session_feed *feed,
                                                      uint32_t input);
/* How many entries the array has that feeds input i. */
uint64_t tmk_session_feed_entries(const struct tmk_session_feed *feed, uint32_t input);

#endif
