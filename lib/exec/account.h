/* SPDX-License-Identifier: Apache-2.0 */
/* What observers accumulate, slot by slot. Every worker has accounts of its own; they merge
 * exactly. */
#pragma once

#include <tidemark/observation.h>
#include <tidemark/stats.h>

/* Rules by which a value's statistics follow from others' (see derive.h). */
enum tmk_derive_rule {
    TMK_DERIVE_NONE,
    TMK_DERIVE_CLAMP,
    TMK_DERIVE_CONCAT,
    TMK_DERIVE_VIEW,     /* the same elements in the same order */
    TMK_DERIVE_TRANSPOSE /* the same in another */
};

/* Extremes of each sample of a value, kept apart. Grows with the number of samples.
 * Zero-initialised is empty. */
struct tmk_samples {
    uint64_t *sample;         /* absolute indices, ascending */
    struct tmk_minmax *range; /* of each */
    size_t n, size;
};

/* The ranges of `samples` samples from `first` on; those that were not there are added, without
 * elements. *out is good until the next call. TMK_ARGUMENT when they would have to be added between
 * others. */
enum tmk_status tmk_samples_open(struct tmk_samples *samples, uint64_t first, uint64_t n,
                                 struct tmk_minmax **out, struct tmk_diag *diag);
/* dst becomes the ranges of both. */
enum tmk_status tmk_samples_merge(struct tmk_samples *dst, const struct tmk_samples *src,
                                  struct tmk_diag *diag);
void tmk_samples_clamp(struct tmk_samples *samples, const struct tmk_clamp *clamp);
void tmk_samples_finish(struct tmk_samples *samples);

/* What to do at a slot. */
struct tmk_slot_config {
    enum tmk_stats_level level;
    bool guard;              /* stop the run at the first NaN */
    bool print;              /* hand every tensor to `print` below */
    bool see;                /* and to `see` */
    uint32_t id;             /* the value's profile ID */
    bool per_sample;         /* keep the extremes of each sample, too */
    bool topk;               /* keep the samples with the extremes */
    const uint32_t *exclude; /* bit patterns that are left out, and how many; the caller's */
    size_t n_exclude;
    uint32_t share;    /* of a histogram: it counts one run in so many; 0: all */
    const char *label; /* for messages: "p12 'conv1'" */
    /* Set by tmk_derive_rules. A float32 value with a rule is not looked at. */
    enum tmk_derive_rule rule;
    struct tmk_clamp clamp;
    int64_t axis;      /* CONCAT: of the result; may count from the end */
    uint32_t *sources; /* slots, in order of the node's operands; malloc'ed */
    uint32_t n_sources;
    uint32_t root;           /* VIEW, TRANSPOSE: whose elements they are, in the end */
    bool shadowed;           /* a clamp of this value has a rule: */
    struct tmk_clamp shadow; /* this one */
};

struct tmk_print {
    /* Called by worker threads, one at a time. */
    void (*print)(void *context, const char *label, uint64_t sample,
                  const struct tmk_tensor *tensor);
    void *context;
    /* Called by worker threads, each with its number. */
    enum tmk_status (*see)(void *context, const struct tmk_observation *observation,
                           struct tmk_diag *diag);
    void *see_context;
};

/* From now on the value is looked at, but keeps no more than with the rule: no samples with the
 * extremes, and sums of squares only where its sources, which stay the original's, keep theirs. */
void tmk_slot_drop_rule(struct tmk_slot_config *config);

/* What a plan needs to know of the slot: an enum tmk_tap_need. */
uint8_t tmk_slot_need(const struct tmk_slot_config *config);

/* A shape that ran, and how often. */
struct tmk_shape_runs {
    struct tmk_shape shape;
    uint64_t runs;
};

enum { TMK_MAX_SHAPES = 16 };

/* One slot's account. Zero-initialised is empty: nothing was ever seen. */
struct tmk_account {
    struct tmk_stats *floats;  /* float32 values, else NULL */
    struct tmk_int_stats ints; /* integers and bools */
    enum tmk_dtype dtype;      /* TMK_UNDEFINED: never seen */
    uint64_t elements;         /* of the shapes that ran: what the statistics must count */
    uint64_t runs;             /* tensors seen */
    struct tmk_shape shape;    /* of the last one */
    int32_t channel_axis;      /* of the last one */
    /* With a rule: there were elements whose channels, by the axis, are not the source's; that had
     * any. */
    bool other_channels, some_channels;
    bool whole; /* elements of padding were counted too: which they are is not known */
    struct tmk_stats_shadow *shadow; /* as config->shadowed or the rule wants, else NULL */
    struct tmk_stats_pass pass;      /* between begin and end */
    struct tmk_samples samples;      /* float32 values with config->per_sample, else empty */
    struct tmk_topk topk;            /* float32 values with config->topk, without a rule */
    struct tmk_minmax *batch;        /* of its samples, where `samples` has no place for them */
    size_t batch_size;
    uint64_t last_sample;          /* where the last one seen stood: a body may run more than once
                                      for the same samples, which count once */
    struct tmk_shape_runs *shapes; /* distinct shapes, in order of rank, then dimensions */
    uint32_t n_shapes;
    bool more_shapes; /* there were more; the first TMK_MAX_SHAPES in that order are kept, whatever
                         the order of the runs */
};

/* Adds one tensor, which lies as in at->block; those of one batch follow each other, and need no
 * at->again. A float32 value with a rule is only noted; its data may be NULL. TMK_GUARD:
 * config->guard and the tensor holds a NaN; the text has sample and element. TMK_TYPE when a slot's
 * type changes between runs, or has none of our statistics. */
enum tmk_status tmk_account_look(struct tmk_account *account, const struct tmk_slot_config *config,
                                 const struct tmk_tensor *tensor, const struct tmk_stats_at *at,
                                 struct tmk_diag *diag);
/* The same for a float32 tensor without a rule in pieces: see tmk_stats_begin. `tensor` has no
 * data. */
enum tmk_status tmk_account_begin(struct tmk_account *account, const struct tmk_slot_config *config,
                                  const struct tmk_tensor *tensor, const struct tmk_stats_at *at,
                                  struct tmk_diag *diag);
enum tmk_status tmk_account_piece(struct tmk_account *account, const struct tmk_slot_config *config,
                                  const float *x, size_t first, size_t n, struct tmk_diag *diag);
enum tmk_status tmk_account_end(struct tmk_account *account, const struct tmk_slot_config *config,
                                struct tmk_diag *diag);
/* Adds src as though it had been seen `times` times. */
enum tmk_status tmk_account_merge(struct tmk_account *dst, const struct tmk_account *src,
                                  uint64_t times, const struct tmk_slot_config *config,
                                  struct tmk_diag *diag);
void tmk_account_finish(struct tmk_account *account);
