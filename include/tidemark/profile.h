/* SPDX-License-Identifier: Apache-2.0 */
/* The profile: what a run saw, one record a value, as a file that is readable without its model.
 *
 * A struct tmk_profile is plain data. Make it with tmk_profile_create, fill its fields and add
 * records with the functions below (or have tmk_profile_read do both), read whatever you like, end
 * with tmk_profile_destroy. All strings are UTF-8, never NULL ("" when there is none) and live as
 * long as the profile: strings that you set yourself are literals, or come from tmk_profile_text.
 * docs/profile-format.md describes the two file formats.
 *
 * Thread-safety: one thread at a time for a profile while it changes, any number that only read it.
 * HDF5 may be a library without locks: .h5 files are written by one thread of a process at a time,
 * and read by any number, since programs of their own read them. */
#ifndef TIDEMARK_PROFILE_H
#define TIDEMARK_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/stats.h>
#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TMK_PROFILE_FORMAT "tidemark-profile"
/* A file of the same major version always reads; see docs/profile-format.md, "Versions". */
enum { TMK_PROFILE_MAJOR = 1, TMK_PROFILE_MINOR = 4 };

/* What a value is to its network. X(name, number, text) */
#define TMK_PROFILE_KIND_LIST(X)                                                                   \
    X(INPUT, 0, "input")           /* a graph input, or a sub-graph's own */                       \
    X(WEIGHT, 1, "weight")         /* an initializer, or the value of a Constant node */           \
    X(ACTIVATION, 2, "activation") /* the result of any other node */                              \
    X(OUTPUT, 3, "output")         /* such a result that is also an output of the model */

enum tmk_profile_kind {
#define TMK_PROFILE_KIND_ENUM(name, number, text) TMK_PROFILE_##name = number,
    TMK_PROFILE_KIND_LIST(TMK_PROFILE_KIND_ENUM)
#undef TMK_PROFILE_KIND_ENUM
};

/* What is known of a value after the run. Every value of the model has one. X(name, number,
 * text) */
#define TMK_PROFILE_STATUS_LIST(X)                                                                 \
    X(NEVER, 0, "never")       /* nothing was seen: its branch never ran */                        \
    X(OBSERVED, 1, "observed") /* float numbers were seen */                                       \
    X(CONSTANT, 2, "constant") /* a weight: an initializer, counted once, or a Constant's value */ \
    X(INTEGER, 3, "integer")   /* no range to quantize: integers, booleans, and types that are not \
                                  computed with (complex, 8-bit floats) */                         \
    X(DEAD, 4, "dead")         /* it ran, and was only zeros, or one and the same number */        \
    X(DERIVED, 5, "derived")   /* not looked at: follows exactly from `sources` by `rule` */

enum tmk_profile_status {
#define TMK_PROFILE_STATUS_ENUM(name, number, text) TMK_PROFILE_##name = number,
    TMK_PROFILE_STATUS_LIST(TMK_PROFILE_STATUS_ENUM)
#undef TMK_PROFILE_STATUS_ENUM
};

/* One version of an operator set that the model imports. */
struct tmk_profile_opset {
    const char *domain; /* "" is ONNX's own */
    int64_t version;
};

/* What fed one input. */
struct tmk_profile_source {
    const char *input;  /* the input's name */
    const char *source; /* as a person named it, without directories */
    uint64_t samples;   /* how many it holds */
    /* of its bytes: "xxh128:<hex>", XXH3 as xxh128sum prints it; in earlier files and those of
     * others "sha256:<hex>"; "" when it has none (a stream that did not end) */
    const char *hash;
};

/* One setting that bears on the numbers. What must not change them (for example threads) is not
 * recorded. A setting with several values stands once for each, one right after the other. */
struct tmk_profile_setting {
    const char *key, *value;
};

/* What became of the samples. offered = run + skipped + failed, always. */
struct tmk_profile_ledger {
    uint64_t offered;      /* by the data sources, within the limit asked for */
    uint64_t run;          /* went through the network and into the statistics */
    uint64_t skipped;      /* left out on purpose */
    uint64_t failed;       /* could not be read or run */
    uint64_t batches;      /* calls of the network that ran */
    uint64_t first_sample; /* the range of absolute sample indices looked at: [first_sample,
                              end_sample) */
    uint64_t end_sample;
};

/* The samples with absolute indices begin, begin + 1, ... end - 1. */
struct tmk_profile_range {
    uint64_t begin, end;
};

/* Which part of a whole run a profile is of. A run may be cut into shards, each of them a profile;
 * tmk_profile_merge puts them together again. */
struct tmk_profile_coverage {
    uint64_t total; /* samples of the whole run, [0, total); 0: it ended with the ledger's range */
    /* Where the ledger's range has gaps: its parts, ascending, no two of them touching. NULL and 0:
     * there are no gaps. Set with tmk_profile_set_ranges, ask with tmk_profile_range. */
    struct tmk_profile_range *ranges;
    uint32_t n_ranges;
};

enum { TMK_PROFILE_MAX_BAD = 100 }; /* listed of those that failed: the first */

/* A sample that failed, and was passed over. */
struct tmk_profile_bad {
    uint64_t sample;  /* absolute index */
    const char *file; /* without directories above the source's */
    const char *why;
};

/* The node output that a value is. */
struct tmk_profile_producer {
    const char *node, *op, *domain; /* the node's name may be "" */
    uint32_t output;                /* position among the node's outputs */
};

/* A node input that reads a value. */
struct tmk_profile_consumer {
    const char *node, *op, *domain;
    uint32_t input; /* position among the node's inputs */
};

/* A shape that ran, and how often. */
struct tmk_profile_run {
    struct tmk_shape shape; /* no -1 */
    uint64_t runs;          /* times the value was computed with this shape */
};

enum { TMK_PROFILE_MAX_RUNS = 16 }; /* distinct shapes kept a value */

/* One value. `id` is the key; the array of a profile ascends by it. */
struct tmk_profile_tensor {
    uint32_t id;          /* the profile ID: 12 is "p12" */
    uint64_t fingerprint; /* of how the value is computed, whatever the names */
    uint64_t content;     /* the same, with the bytes of the weights */
    uint32_t ordinal;     /* among values of equal fingerprint, in ID order */
    const char *name;     /* the original name, as in the model; may be "" */
    const char *path;     /* for a value inside sub-graphs: which; "" in the main graph */
    enum tmk_profile_kind kind;
    bool inner; /* inside its producer, as an attention's scores are: no model has it as an edge */
    enum tmk_profile_status status;
    enum tmk_dtype dtype;  /* as it ran */
    enum tmk_dtype origin; /* as in the file, where it was widened to float32; else == dtype */

    bool has_shape;                   /* false: not even the rank is declared or inferred */
    struct tmk_shape shape;           /* as declared or inferred: -1 is a free dimension */
    const char *symbol[TMK_MAX_RANK]; /* its name where it has one, else NULL */
    struct tmk_profile_run *runs; /* shapes that ran, in order of rank, then dimensions; distinct */
    uint32_t n_runs;
    bool more_runs; /* there were more; the first TMK_PROFILE_MAX_RUNS in that order are kept */
    uint64_t expected_count; /* elements of all shapes that ran, times how often each did */

    bool has_producer; /* false: a graph input or an initializer */
    struct tmk_profile_producer producer;
    struct tmk_profile_consumer *consumers;
    uint32_t n_consumers;

    uint32_t *operands; /* IDs that it is computed from, each once, also into and out of sub-graphs:
                           an If's result from its branches' results, a loop body's input from the
                           loop's operand and from the result that comes round */
    uint32_t n_operands;

    const char *rule;  /* DERIVED, or DEAD without looking: by which exact rule ("relu"); else "" */
    uint32_t *sources; /* with a rule: from which IDs; none with tmk_profile_is_transferred */
    uint32_t n_sources;

    struct tmk_stats *stats; /* owned; NULL where no floats were counted */
    struct tmk_topk topk;    /* of `stats`; none for weights, for what was derived and for what does
                                not depend on the data */
    bool has_int_stats;      /* integers were counted */
    struct tmk_int_stats int_stats;

    /* Extremes of each sample, when asked for; written to HDF5 only. Entry i belongs to sample
     * ledger.first_sample + i; a sample without finite values has NaN in both. NULL: not kept. */
    float *sample_min, *sample_max; /* owned; n_samples each */
    uint64_t n_samples;             /* 0, or ledger.end_sample - ledger.first_sample */
};

struct tmk_arena;

struct tmk_profile {
    struct {
        uint32_t major, minor; /* of the file read; a new profile has this library's */
    } version;
    struct {
        const char *name, *version; /* the program: "tidemark", "0.1.0" */
        const char *isa;            /* instruction set of the machine that ran: "x86_64 avx2" */
        const char *kernels;        /* "oneDNN 2.6.3"; "plain" for our own only */
    } producer;
    struct {
        const char *file;   /* without directories */
        const char *sha256; /* 64 hex digits, or "" */
        const char *format; /* "onnx", "relay" */
        int64_t ir_version; /* 0: the format has none */
        struct tmk_profile_opset *opsets;
        uint32_t n_opsets;
        uint64_t fingerprint; /* of the graph: over the fingerprints of its outputs */
    } model;
    struct tmk_profile_source *sources;
    uint32_t n_sources;
    struct tmk_profile_setting *settings;
    uint32_t n_settings;
    struct tmk_profile_ledger ledger;
    struct tmk_profile_coverage coverage;
    struct tmk_profile_bad *bad; /* those that failed, ascending by sample; there may be more */
    uint32_t n_bad;
    struct tmk_profile_tensor *tensors; /* ascending by id */
    uint32_t n_tensors;

    struct tmk_arena *arena; /* where strings live; not for callers */
};

/* The names of the enums as files spell them; never NULL ("?" for an unknown number). */
TMK_API const char *tmk_profile_kind_name(enum tmk_profile_kind kind);
TMK_API const char *tmk_profile_status_name(enum tmk_profile_status status);

/* An empty profile of this library's version: every string "", every list empty. */
TMK_API enum tmk_status tmk_profile_create(struct tmk_profile **out, struct tmk_diag *diag);
/* Frees the profile with its records and statistics, and sets *profile to NULL; NULL is allowed. */
TMK_API void tmk_profile_destroy(struct tmk_profile **profile);

/* A copy of the text that lives as long as the profile. NULL when memory ran out. */
TMK_API const char *tmk_profile_text(struct tmk_profile *profile, const char *text);

/* Appenders; strings are copied. TMK_NOMEM is their only failure unless stated otherwise. */
TMK_API enum tmk_status tmk_profile_add_opset(struct tmk_profile *profile, const char *domain,
                                              int64_t version, struct tmk_diag *diag);
TMK_API enum tmk_status tmk_profile_add_source(struct tmk_profile *profile, const char *input,
                                               const char *source, uint64_t samples,
                                               const char *hash, struct tmk_diag *diag);
TMK_API enum tmk_status tmk_profile_add_setting(struct tmk_profile *profile, const char *key,
                                                const char *value, struct tmk_diag *diag);
TMK_API enum tmk_status tmk_profile_add_bad(struct tmk_profile *profile, uint64_t sample,
                                            const char *file, const char *why,
                                            struct tmk_diag *diag);
/* Appends a record (strings "", lists empty, status NEVER, everything else 0). *out is good until
 * the next one is appended. TMK_ARGUMENT unless id is greater than the last record's. */
TMK_API enum tmk_status tmk_profile_add_tensor(struct tmk_profile *profile, uint32_t id,
                                               struct tmk_profile_tensor **out,
                                               struct tmk_diag *diag);
TMK_API enum tmk_status tmk_profile_add_consumer(struct tmk_profile *profile,
                                                 struct tmk_profile_tensor *tensor,
                                                 const char *node, const char *op,
                                                 const char *domain, uint32_t input,
                                                 struct tmk_diag *diag);
/* An ID that the value is computed from; nothing happens when it is there. */
TMK_API enum tmk_status tmk_profile_add_operand(struct tmk_profile_tensor *tensor, uint32_t operand,
                                                struct tmk_diag *diag);
/* An ID that a DERIVED value follows from. */
TMK_API enum tmk_status tmk_profile_add_derivation(struct tmk_profile_tensor *tensor,
                                                   uint32_t source, struct tmk_diag *diag);
/* Counts `runs` computations of the value with this shape: adds to the shape's entry and to
 * expected_count. The result does not depend on the order of the calls. TMK_RANGE when a count
 * overflows, or the shape's does. */
TMK_API enum tmk_status tmk_profile_add_runs(struct tmk_profile_tensor *tensor,
                                             const struct tmk_shape *shape, uint64_t runs,
                                             struct tmk_diag *diag);

/* By a rule of a lineage ("lineage:affine"), from a value of another model's profile. */
TMK_API bool tmk_profile_is_transferred(const struct tmk_profile_tensor *tensor);

/* What follows for the status of a value from its other fields: NEVER without statistics, CONSTANT
 * for weights, INTEGER, DEAD when it was one finite number all the time, DERIVED with a rule, else
 * OBSERVED. */
TMK_API enum tmk_profile_status tmk_profile_status_of(const struct tmk_profile_tensor *tensor);

/* ---- which samples, and putting shards together ---- */

/* Says which samples the profile covers: sets the ledger's range, and the coverage's ranges where
 * there are gaps. `ranges` [n] is copied; they are not empty, ascend and do not overlap, else
 * TMK_ARGUMENT. n = 0: no sample. */
TMK_API enum tmk_status tmk_profile_set_ranges(struct tmk_profile *profile,
                                               const struct tmk_profile_range *ranges, uint32_t n,
                                               struct tmk_diag *diag);
/* The i-th range that the profile covers, ascending; false when there are no more. */
TMK_API bool tmk_profile_range(const struct tmk_profile *profile, uint32_t i,
                               struct tmk_profile_range *out);
/* Samples of the whole run, of which this profile may be a part. */
TMK_API uint64_t tmk_profile_total(const struct tmk_profile *profile);
/* Does the profile cover all of them? */
TMK_API bool tmk_profile_is_whole(const struct tmk_profile *profile);

/* dst becomes the profile of what both saw: the same bits as one run over all the samples, in
 * whatever order and grouping shards are merged. src is only read, and nothing of it is kept.
 *
 * TMK_MISMATCH, with what differs, unless both are shards of one run: the same model (by its hash
 * and fingerprint), data (by hashes and counts; names may differ, the lesser stays), settings (but
 * for "stratum", which dst loses where src has another or none), number of samples in all, producer
 * (version, instruction set, kernels) and values, cut at the ends of batches (the setting "batch"),
 * and no sample is in both. Then dst is as it was.
 * TMK_RANGE: a count overflows, TMK_NOMEM; then dst is only good for destroying. */
TMK_API enum tmk_status tmk_profile_merge(struct tmk_profile *dst, const struct tmk_profile *src,
                                          struct tmk_diag *diag);
/* The merge of n >= 1 files (no more than two profiles are in memory at a time). Errors name the
 * file, or both. End with tmk_profile_destroy. */
TMK_API enum tmk_status tmk_profile_merge_files(const char *const *paths, size_t n,
                                                struct tmk_profile **out, struct tmk_diag *diag);

/* ---- asking ---- */

/* The number of an ID as people and files spell it, "p12"; false when the text is none. */
TMK_API bool tmk_profile_id_of_text(const char *text, uint32_t *out);
/* NULL when no record has this ID. */
TMK_API const struct tmk_profile_tensor *tmk_profile_by_id(const struct tmk_profile *profile,
                                                           uint32_t id);
/* The first record at position `from` or after it that `pattern` means, as a position in tensors;
 * n_tensors when there is none. A pattern is an ID ("p12"; where a record has it, it means that
 * record only), else a name, exactly, or a glob over names ('*', '?', '[...]'; '/' is a letter like
 * any other). for (uint32_t i = 0; (i = tmk_profile_find(p, pattern, i)) < p->n_tensors; i++) */
TMK_API uint32_t tmk_profile_find(const struct tmk_profile *profile, const char *pattern,
                                  uint32_t from);

/* A value that was NaN or infinite somewhere. */
struct tmk_nonfinite {
    uint32_t id;
    const uint32_t
        *from;       /* operands that were so at the same sample or an earlier one, ascending */
    uint32_t n_from; /* 0: it began here */
    bool downstream; /* it follows from the first of the list that has n_from 0 */
};
/* All of them in the order of IDs, in which operands come before results. Operands without
 * observers are looked through. What comes round a loop is not distinguished from what began inside
 * of it: there, the value of the least ID that goes round counts as its beginning. *out is one
 * block to free; NULL when there are none, or when the profile does not know operands (before
 * version 1.2). */
TMK_API enum tmk_status tmk_profile_nonfinite(const struct tmk_profile *profile,
                                              struct tmk_nonfinite **out, uint32_t *n,
                                              struct tmk_diag *diag);

/* What a value's numbers give away. Values of integers and values without numbers have no flags. */
struct tmk_flags {
    bool constant;           /* it was one number all the time (status DEAD) */
    size_t dead_channels;    /* channels that were 0 all the time */
    size_t channels;         /* of so many; 0: none were kept */
    uint64_t at_min, at_max; /* elements that are proven to be the smallest, the largest number; 0
                              * for weights, for 0 and where there is no histogram. Of a thinned
                              * histogram they are estimated, as at_spike is */
    bool saturated; /* one of these is more than 1 % of the finite elements, and at least 16 */
    /* Why the smallest or the largest number looks as if it stood for something else, and was not
     * measured (see tmk_sentinel); NULL: it does not, and so for weights */
    const char *min_is, *max_is;
    /* A number other than 0 that more than 10 % of the finite elements, and at least 16, are proven
     * to be (at_spike of them); at_spike 0: there is none that could be proven. */
    float spike;
    uint64_t at_spike;
};
/* What a number is known to stand for, as in masks: the ends of floating-point types, negative
 * powers of ten from -10^4 on. NULL: nothing. */
TMK_API const char *tmk_sentinel(float value);
TMK_API struct tmk_flags tmk_profile_flags(const struct tmk_profile_tensor *tensor);

/* Thinned histograms (tmk_stats_thin) in one sentence: which share they count, and how far off
 * quantiles may be, in the value with the fewest elements counted. `out` is cut to `size`. False,
 * and out[0] is 0: no value's histogram is thinned. */
TMK_API bool tmk_profile_thinned(const struct tmk_profile *profile, char *out, size_t size);

/* Checks consistency: the sample counts add up; IDs ascend; each value's statistics fit its type,
 * hold as many elements as the shapes that ran, and their histogram and classes add up to that;
 * what is not NEVER has statistics; text is UTF-8. TMK_MISMATCH states what is inconsistent, with
 * the ID, the name and both numbers. */
TMK_API enum tmk_status tmk_profile_validate(const struct tmk_profile *profile,
                                             struct tmk_diag *diag);

/* ---- files ---- */

/* Could a profile be written there? To be asked before a long run: the format is known and built
 * in, and the folder takes files. Errors as of tmk_profile_write; leaves nothing behind. */
TMK_API enum tmk_status tmk_profile_can_write(const char *path, struct tmk_diag *diag);
/* Writes the profile as JSON (".json") or HDF5 (".h5", ".hdf5"), whole or not at all. Equal
 * profiles give equal bytes. TMK_MISMATCH when the profile is inconsistent, TMK_ARGUMENT for
 * another extension, TMK_UNSUPPORTED for HDF5 in a build without it, TMK_WRITE, TMK_NOMEM. Always
 * writes this library's version. */
TMK_API enum tmk_status tmk_profile_write(const struct tmk_profile *profile, const char *path,
                                          struct tmk_diag *diag);
/* Reads either format, recognized by the file's first bytes, not by its name. Everything is
 * checked: what is returned is consistent. TMK_FORMAT or TMK_MISMATCH name the file and the field,
 * TMK_UNSUPPORTED a newer major version. End with tmk_profile_destroy. */
TMK_API enum tmk_status tmk_profile_read(const char *path, struct tmk_profile **out,
                                         struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
