/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the feed share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "feed/feed.h"

enum feed_cut { CUT_SLICES, CUT_ENTRIES, CUT_WHOLE };

/* data->recurrence.reset. */
enum feed_reset { RESET_NEVER, RESET_EVERY, RESET_SOURCE };

/* What feeds an input. */
struct feed_bound {
    uint32_t source, array;
    bool taken;    /* false: nothing does, but it is fed back */
    bool fed_back; /* if taken, only its first entry is read: */
    struct tmk_tensor state;
    bool empty;     /* nothing feeds it, and it has no elements; fed_back is set too */
    uint64_t inner; /* entries a sequence, where the first axis counts those; else 0 */
    enum feed_cut cut;
    bool widens;            /* int32 in the data, int64 in the model */
    uint64_t step;          /* entries a batch */
    struct tmk_tensor kept; /* entries that were read, but not yet wanted: from kept_first on */
    uint64_t kept_first;
};

/* Which samples are offered, in batches: those from `skip` on, up to `end`; of the batches, which
 * are cut at multiples of `batch`, every `every`-th; at most `limit` samples. */
struct feed_choice {
    uint64_t skip, end, limit; /* UINT64_MAX: none, or not known */
    uint64_t batch, every;     /* at least 1 */
};
/* The samples of the i-th batch that is offered; false after the last. */
bool tmk_feed_choice_batch(const struct feed_choice *choice, uint64_t i, uint64_t *from,
                           uint64_t *until);
/* How many batches there are, and the first of them that begins at `sample` or behind it. */
uint64_t tmk_feed_choice_batches(const struct feed_choice *choice);
uint64_t tmk_feed_choice_from(const struct feed_choice *choice, uint64_t sample);
/* Where the end is known. */
struct feed_total {
    uint64_t samples, in_full_batches;
};
struct feed_total tmk_feed_choice_total(const struct feed_choice *choice);

/* Entries of one input in the order in which they will be read. */
struct feed_order {
    const struct tmk_feed *feed;
    struct feed_choice choice; /* its own: the run may end while readers are ahead */
    uint64_t step;             /* entries a sample */
    uint64_t batch;            /* at hand */
    uint64_t end;              /* samples from here on are not of the range */
    uint64_t at, until;        /* entries of it that are left */
};

/* The thread that hashes the data. */
struct feed_hashing {
    pthread_t thread;
    bool runs; /* to be joined */
    atomic_bool stop, failed;
    char (*hex)[TMK_HASH128_HEX]; /* by source */
    struct tmk_feed_hashed then;
    enum tmk_status status;
    struct tmk_diag diag;
};

/* Which samples run, range after range; of the loader alone but for `work`. */
struct feed_range {
    struct tmk_work_ranges work; /* .next NULL: everything is one range */
    uint64_t next_batch;         /* of those offered */
    uint64_t end;                /* of the current range */
    uint64_t n;                  /* ranges so far */
    bool active;                 /* there is a current range */
};

/* What is fed back, and the sequences that it makes of the samples. */
struct feed_recurrence {
    struct tmk_loop *loops;
    uint32_t n;
    enum feed_reset reset;
    uint64_t sequence; /* samples; UINT64_MAX: all */
    uint64_t ran_to;   /* the end of the last batch that ran */
};

/* What decoding does to the inputs, and which outputs are fed back then. */
struct feed_decoding {
    struct tmk_generation generation; /* .steps 0: nothing is generated */
    enum tmk_role *role;              /* by input */
    struct tmk_loop *loops;
    uint32_t n;
};

/* The batch at hand. */
struct feed_batch {
    uint64_t at, until; /* samples that are left */
    bool separate;      /* what failed last was a file of its own, */
    uint32_t failing;   /* for this input */
};

/* What became of the samples. */
struct feed_tally {
    struct tmk_sample_counts *counts; /* one a stratum; without strata one for all */
    uint32_t n, stratum;
    struct tmk_sample_counts *current; /* that of `stratum`, which the samples at hand are of */
    uint64_t passed_over;              /* samples that could not be read, of all counts */
    bool resumed;                      /* counting began anew */
};

struct tmk_feed {
    const struct tmk_graph *graph;
    const struct tmk_data_options *data; /* outlives the feed */
    uint32_t threads;                    /* that read ahead */
    struct tmk_notices notices;
    struct {
        bool threads, dims;
    } reported; /* of threads that are missing; of dimensions of one name that differ */
    struct tmk_source **sources;
    uint32_t n_sources;
    struct feed_bound *bound;  /* by input */
    struct feed_order *orders; /* by input; twice, for the current range and the one before */
    struct tmk_feed_plan plan;
    struct feed_choice choice;
    struct feed_choice cuts; /* where ranges may be cut: the same, or in sequences */
    uint32_t batch_size;     /* samples a call where the model leaves that free */
    uint64_t samples;        /* in the sources, or TMK_SOURCE_ENDLESS */
    struct feed_range range;
    struct feed_recurrence recurrence;
    struct feed_decoding decoding;
    struct feed_batch batch;
    struct feed_tally tally;
    struct feed_hashing hashing;
};

/* The source that feeds an input, its path, and the array in it. */
static inline const struct tmk_source_info *feed_info(const struct tmk_feed *feed,
                                                      const struct feed_bound *bound) {
    return tmk_source_info(feed->sources[bound->source]);
}
static inline const char *feed_path(const struct tmk_feed *feed, const struct feed_bound *bound) {
    return feed_info(feed, bound)->path;
}
static inline const struct tmk_source_array *feed_array(const struct tmk_feed *feed,
                                                        const struct feed_bound *bound) {
    return &feed_info(feed, bound)->arrays[bound->array];
}
/* How many of the array's entries a sample takes. */
static inline uint64_t feed_step(const struct tmk_feed *feed, const struct feed_bound *bound) {
    return feed->plan.slices ? 1 : bound->step;
}

/* What --dim sets for the dimension of this name (may be NULL); NULL: nothing. */
const int64_t *tmk_feed_dim(const struct tmk_data_options *data, const char *symbol);
/* What a source that takes its arrays from its inputs is to feed: --dim applies. */
struct tmk_source_input tmk_feed_want(const struct tmk_feed *feed, uint32_t input);
/* Opens the sources and finds each input its array. */
enum tmk_status tmk_feed_bind(struct tmk_feed *feed, struct tmk_diag *diag);
/* What is fed back, and where sequences begin: before anything is bound. */
enum tmk_status tmk_feed_find_recurrence(struct tmk_feed *feed, struct tmk_diag *diag);
/* data->recurrence.feedback's i-th pair, as numbers; TMK_ARGUMENT: one of the two is not there. */
enum tmk_status tmk_feed_parse_pair(const struct tmk_feed *feed, size_t i, struct tmk_loop *out,
                                    struct tmk_diag *diag);
/* Can the output be the input of the next step, as far as their types say? */
bool tmk_feed_fits(const struct tmk_feed *feed, const struct tmk_loop *loop);
/* With data->generate: what the inputs and outputs are to decoding. */
enum tmk_status tmk_feed_find_decoding(struct tmk_feed *feed, struct tmk_diag *diag);
/* At the end of tmk_feed_cut: cuts the run into sequences, refuses what does not go with them, and
 * reads first states. Without feedback ranges are cut between batches. */
enum tmk_status tmk_feed_cut_sequences(struct tmk_feed *feed, struct tmk_diag *diag);
/* Does the batch that begins at `sample` continue the sequence of the one that ran before? */
bool tmk_feed_continues_sequence(const struct tmk_feed *feed, uint64_t sample);
/* The inputs that are empty; the batch's other inputs are there. */
enum tmk_status tmk_feed_make_empty(const struct tmk_feed *feed, struct tmk_batch *batch,
                                    struct tmk_diag *diag);
/* The states before the first step of a sequence; the batch's other inputs are there. */
enum tmk_status tmk_feed_first_states(const struct tmk_feed *feed, struct tmk_batch *batch,
                                      struct tmk_diag *diag);
/* Decides on cuts, batches and samples. */
enum tmk_status tmk_feed_cut(struct tmk_feed *feed, struct tmk_diag *diag);
/* --dim names dimensions that are there. */
enum tmk_status tmk_feed_check_dims(const struct tmk_feed *feed, struct tmk_diag *diag);
/* Is dimension k of the input's data, which has this shape, of that name? */
bool tmk_feed_dim_is(const struct tmk_feed *feed, uint32_t input, const struct tmk_shape *shape,
                     int32_t k, const char *symbol);
/* Free dimensions must be as set by --dim. Equal names of different sizes in a batch are remarked
 * on: exporters call dimensions alike that are not. */
enum tmk_status tmk_feed_check_symbols(struct tmk_feed *feed, const struct tmk_tensor *inputs,
                                       struct tmk_diag *diag);

/* Moves to the next range, whose first batch is feed->range.next_batch; feed->range.active is false
 * when there is none. */
enum tmk_status tmk_feed_next_range(struct tmk_feed *feed, struct tmk_diag *diag);
/* Checks that the labels, if there are any, fit the data: each batch lies in one stratum, and so
 * does each sequence. What is not known of a stream is checked as it comes. */
enum tmk_status tmk_feed_check_strata(const struct tmk_feed *feed, struct tmk_diag *diag);
/* The samples at hand are [from, until): from here on they are counted in their stratum. What lies
 * between them and those before, which is passed over, is counted with those before. */
enum tmk_status tmk_feed_enter(struct tmk_feed *feed, uint64_t from, uint64_t until,
                               struct tmk_diag *diag);
/* From here on samples are looked at. */
enum tmk_status tmk_feed_open_range(struct tmk_feed *feed, uint64_t begin, struct tmk_diag *diag);
/* Samples up to `at` are dealt with. */
void tmk_feed_cover(struct tmk_feed *feed, uint64_t at);
/* All of the current range are. */
void tmk_feed_end_range(struct tmk_feed *feed);

/* Reads up to `count` samples from `first` on; out->samples is the count, 0 at the end of the data.
 * A failure is that of sample `first`. */
enum tmk_status tmk_feed_read(struct tmk_feed *feed, uint64_t first, uint64_t count,
                              struct tmk_batch *out, struct tmk_diag *diag);
/* The first entry of what feeds an input, shaped as the input. */
enum tmk_status tmk_feed_read_first(struct tmk_feed *feed, uint32_t input, struct tmk_tensor *out,
                                    struct tmk_diag *diag);
/* Is there a sample `at` in the sources that do not know? */
enum tmk_status tmk_feed_has_sample(struct tmk_feed *feed, uint64_t at, struct tmk_diag *diag);

/* Ends the thread that hashes, if there is one. */
void tmk_feed_hash_end(struct tmk_feed *feed);
