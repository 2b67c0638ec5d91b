/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges in consumers' files (calibration caches, encodings, tables, quantized models), to be
 * compared with a profile.
 *
 * Thread-safety: one thread at a time for ranges while they are read, any number afterwards; the
 * HDF5 library may be built without locks. */
#ifndef TIDEMARK_RANGES_H
#define TIDEMARK_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/lineage.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much of a range a format keeps. X(NAME, "name", help) */
#define TMK_RANGE_MEANING_LIST(X)                                                                  \
    X(EXACT, "exact", "min and max")                                                               \
    X(STEP, "step", "the ends of a grid of codes: within one step")                                \
    X(LARGEST, "largest", "the largest magnitude only")

enum tmk_range_meaning {
#define TMK_RANGE_MEANING_ENUM(name, text, help) TMK_RANGE_##name,
    TMK_RANGE_MEANING_LIST(TMK_RANGE_MEANING_ENUM)
#undef TMK_RANGE_MEANING_ENUM
};
TMK_API const char *tmk_range_meaning_name(enum tmk_range_meaning meaning);

/* What a name of the file means. */
enum tmk_range_subject {
    TMK_RANGE_OF_TENSOR,    /* a value */
    TMK_RANGE_OF_INPUT,     /* a node's input 0 (ncnn) */
    TMK_RANGE_OF_PARAMETER, /* a node's input 1 (ncnn) */
};

struct tmk_range {
    const char *name; /* UTF-8, as in the file */
    enum tmk_range_subject subject;
    enum tmk_range_meaning meaning;
    uint32_t n;         /* 1, or one a channel */
    double *low, *high; /* [n]; LARGEST: low = -high */
    double *step;       /* [n]: from one code to the next; 0: not known */
};

struct tmk_arena;

struct tmk_ranges {
    const char *format;      /* "aimet" */
    const char *unnamed;     /* what the consumer does about a tensor that the file does not name */
    const char *unknown;     /* what it does about a name that its model does not have */
    struct tmk_range *items; /* in the order of the file */
    uint32_t n;
    size_t size;             /* capacity of items */
    struct tmk_arena *arena; /* where the rest lives; not for callers */
};

/* Name, what it is, and whether this build has it, of the i-th format; false behind the last. */
TMK_API bool tmk_ranges_format(size_t i, const char **name, const char **help);

/* Reads a file of any of the formats, found by its first bytes (and .onnx by its name), or of the
 * named one. TMK_FORMAT: damaged, with the entry; TMK_UNSUPPORTED: none of them, with
 * a list. End with tmk_ranges_destroy. */
TMK_API enum tmk_status tmk_ranges_read(const char *path, const char *format,
                                        struct tmk_ranges **out, struct tmk_diag *diag);
/* The format of such a file, from its first bytes: *out is a name of the list. Errors as of
 * tmk_ranges_read. */
TMK_API enum tmk_status tmk_ranges_detect_format(const char *path, const char **out,
                                                 struct tmk_diag *diag);
/* The ranges of a profile's values (EXACT, by name; values without numbers are left out), or of
 * encodings' (STEP). */
TMK_API enum tmk_status tmk_ranges_of_profile(const struct tmk_profile *profile,
                                              struct tmk_ranges **out, struct tmk_diag *diag);
/* Frees and sets *ranges to NULL; NULL is allowed. */
TMK_API void tmk_ranges_destroy(struct tmk_ranges **ranges);

/* The record of the profile that an entry means by its name; NULL: there is none. */
TMK_API const struct tmk_profile_tensor *tmk_range_record(const struct tmk_range *range,
                                                          const struct tmk_profile *profile);

/* The difference of two ranges of one value, by the weaker of their meanings. Where one of them is
 * for all channels, the other's channels are taken together. Of a symmetric grid (its ends are
 * alike but for a step) only the larger end counts: what it covers beyond the other end of a value
 * is no difference. With a grid on either side, a range of nothing but 0 differs from none. */
struct tmk_range_difference {
    enum tmk_range_meaning meaning;
    double low_a, high_a, low_b, high_b; /* of the channel that differs most; LARGEST: magnitudes */
    uint32_t channel;
    double share;  /* the larger end's difference, of a's range (of its magnitude for LARGEST);
                      HUGE_VAL where a has none and b has one */
    double beyond; /* how far b reaches outside of a, as a share of a's range */
    double steps;  /* STEP: the same in steps of the coarser grid */
    bool equal;    /* within one step; EXACT, LARGEST: within 1e-6 of a's range, which executors may
                      differ by */
};
/* TMK_SHAPE: one has another number of channels, and neither has one range for all. */
TMK_API enum tmk_status tmk_range_compare(const struct tmk_range *a, const struct tmk_range *b,
                                          struct tmk_range_difference *out, struct tmk_diag *diag);

/* ---- what a profile can give a consumer ---- */

/* How a profile covers a name of the file. X(NAME, "name", help) */
#define TMK_COVERAGE_LIST(X)                                                                       \
    X(MATCHED, "matched", "the profile has its statistics, under this name")                       \
    X(DERIVED, "derived", "a lineage relates it to a value of the profile")                        \
    X(UNSEEN, "unseen", "the profile has the value, but never observed it")                        \
    X(MISSING, "missing", "the profile has no such value")

enum tmk_range_coverage_kind {
#define TMK_COVERAGE_ENUM(name, text, help) TMK_COVERAGE_##name,
    TMK_COVERAGE_LIST(TMK_COVERAGE_ENUM)
#undef TMK_COVERAGE_ENUM
        TMK_N_COVERAGES
};
TMK_API const char *tmk_range_coverage_name(enum tmk_range_coverage_kind kind);

struct tmk_range_coverage {
    enum tmk_range_coverage_kind kind;
    const struct tmk_profile_tensor *record; /* NULL: MISSING */
    enum tmk_lineage_verdict verdict;        /* DERIVED */
    bool compared;                           /* difference is valid: both are of the same kind */
    struct tmk_range_difference difference;  /* a: the profile's range; b: the file's */
};
/* What the profile has for each entry: out [ranges->n]. lineage: from the profile's model to the
 * consumer's, as `transform` and `link` write it; NULL: names only. TMK_MISMATCH: the lineage is of
 * another model than the profile. */
TMK_API enum tmk_status tmk_ranges_cover(const struct tmk_ranges *ranges,
                                         const struct tmk_profile *profile,
                                         const struct tmk_lineage_record *lineage,
                                         struct tmk_range_coverage *out, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
