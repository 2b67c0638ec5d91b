/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage of a transformed model: what became of each value of the original, as a file.
 *
 * A struct tmk_lineage_record is plain data, without graphs: one entry an original value with
 * exactly one verdict, one entry a value of the transformed model with the originals that it stands
 * for. IDs of originals are profile IDs of the original model, IDs of values are those that the
 * transformed model's own file has when it is opened: `tidemark profile` of that file names them
 * so. Both are dense, from 0, and the place in the array. docs/lineage-format.md describes the
 * files.
 *
 * Strings are UTF-8, never NULL, and live as long as the record: literals, or what
 * tmk_lineage_record_text returned. Lists are owned by the record; fill them with the functions
 * below.
 *
 * Thread-safety: one thread at a time for a record while it changes, any number that only read it.
 * HDF5 may be a library without locks: one thread of a process at a time writes .h5 files. */
#ifndef TIDEMARK_LINEAGE_H
#define TIDEMARK_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/profile.h>
#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TMK_LINEAGE_FORMAT "tidemark-lineage"
/* A file of the same major version always reads. */
enum { TMK_LINEAGE_MAJOR = 1, TMK_LINEAGE_MINOR = 0 };

/* What became of an original. X(name, number, text) */
#define TMK_LINEAGE_VERDICT_LIST(X)                                                                \
    X(SAME, 0, "same")           /* the value has these numbers */                                 \
    X(VIEW, 1, "view")           /* in another shape or layout */                                  \
    X(AFFINE, 2, "affine")       /* value = scale * original + shift */                            \
    X(QUANTIZED, 3, "quantized") /* original = scale * (value - zero point) */                     \
    X(MERGED, 4, "merged")       /* the value has these numbers, and is another's SAME */          \
    X(CONSTANT, 5, "constant")   /* depended on no input; the value, if any, is an initializer */  \
    X(ABSORBED, 6, "absorbed")   /* inside of the operator that makes the value */                 \
    X(DEAD, 7, "dead")           /* no output needs it */

enum tmk_lineage_verdict {
#define TMK_LINEAGE_VERDICT_ENUM(name, number, text) TMK_LINEAGE_##name = number,
    TMK_LINEAGE_VERDICT_LIST(TMK_LINEAGE_VERDICT_ENUM)
#undef TMK_LINEAGE_VERDICT_ENUM
};
enum { TMK_LINEAGE_VERDICTS = TMK_LINEAGE_DEAD + 1 };

/* How the value's elements lie. reshaped: in the same order, under another shape. Else axis i of
 * the value is axis perm[i] of the original; rank 0: they lie as they did. */
struct tmk_lineage_view {
    bool reshaped;
    int32_t rank;
    int32_t perm[TMK_MAX_RANK];
};

/* value = scale * original + shift, after the view. n = 1: all elements alike; else channel c is
 * index c of the value's dimension `axis`. With a scale of 0 the original does not come back. */
struct tmk_lineage_affine {
    uint32_t n; /* 0: none */
    int32_t axis;
    const double *scale, *shift;
};

/* original = scale * (value - zero_point), after the view; the value is of integers. */
struct tmk_lineage_quantized {
    enum tmk_dtype dtype; /* the value's */
    uint32_t n;           /* 0: none */
    int32_t axis;
    const double *scale;
    const int64_t *zero_point;
};

/* The operator that has an original inside of it, and the originals on its edges: those whose
 * numbers are had from the values that it reads and makes. Ascending. Without an operator ("") the
 * original is inside of an input or an initializer. */
struct tmk_lineage_absorber {
    const char *node, *op, *domain;
    uint32_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
};

/* What a value is: of the original model, or of the transformed one. */
struct tmk_lineage_identity {
    uint64_t fingerprint, content;
    uint32_t ordinal;
    const char *name, *path; /* path: the sub-graph; "" in the main graph */
    enum tmk_profile_kind kind;
    enum tmk_dtype dtype;
    bool has_shape;
    struct tmk_shape shape; /* -1: not known */
};

struct tmk_lineage_original {
    struct tmk_lineage_identity is;
    enum tmk_lineage_verdict verdict;
    const char *pass; /* that spoke the verdict; "" until one did */
    /* A pass's remark on it, for people, as why fuse-qdq left a pair as it was. "": none. */
    const char *remark;
    /* ID in the transformed model; -1: none. SAME to MERGED: that has the numbers; CONSTANT: the
     * initializer that holds them, if it is there; ABSORBED: a result of the absorber. */
    int64_t value;
    struct tmk_lineage_view view;           /* VIEW, AFFINE, QUANTIZED */
    struct tmk_lineage_affine affine;       /* AFFINE */
    struct tmk_lineage_quantized quantized; /* QUANTIZED */
    struct tmk_lineage_absorber absorber;   /* ABSORBED; else "" and empty */
};

/* A value of the transformed model. */
struct tmk_lineage_value {
    struct tmk_lineage_identity is;
    /* Whose numbers it has, by their relations: every original with this `value` but the ABSORBED.
     * Ascending. */
    uint32_t *originals;
    uint32_t n_originals;
};

struct tmk_lineage_model {
    const char *file;     /* without directories */
    const char *sha256;   /* 64 hex digits, or "" */
    uint64_t fingerprint; /* of the graph, as a profile's */
};

struct tmk_arena;

struct tmk_lineage_record {
    struct {
        uint32_t major, minor;
    } version;
    const char *producer; /* the program's version */
    struct tmk_lineage_model original, transformed;
    const char **passes; /* in the order in which they ran */
    uint32_t n_passes;
    struct tmk_lineage_original *originals; /* [id] */
    uint32_t n_originals;
    struct tmk_lineage_value *values; /* [id] */
    uint32_t n_values;

    struct tmk_arena *arena; /* where strings and numbers live; not for callers */
};

/* "same", ...; never NULL ("?" for an unknown number). */
TMK_API const char *tmk_lineage_verdict_name(enum tmk_lineage_verdict verdict);

/* ---- making ---- */

/* So many originals and values: "", no shape, DEAD, no value. TMK_NOMEM. End with
 * tmk_lineage_record_destroy. */
TMK_API enum tmk_status tmk_lineage_record_create(uint32_t n_originals, uint32_t n_values,
                                                  struct tmk_lineage_record **out,
                                                  struct tmk_diag *diag);
/* Sets *record to NULL; NULL is allowed. */
TMK_API void tmk_lineage_record_destroy(struct tmk_lineage_record **record);
/* A copy that lives as long as the record. NULL when memory ran out. */
TMK_API const char *tmk_lineage_record_text(struct tmk_lineage_record *record, const char *text);
TMK_API enum tmk_status tmk_lineage_record_add_pass(struct tmk_lineage_record *record,
                                                    const char *pass, struct tmk_diag *diag);
/* Zeroed memory for `count` elements of `size` bytes that lives as long as the record; NULL when
 * there is none left. For scales, shifts, zero points, and IDs on an absorber's edges. */
TMK_API void *tmk_lineage_record_array(struct tmk_lineage_record *record, size_t count,
                                       size_t size);
/* Makes the values' lists of originals, then tmk_lineage_record_check. */
TMK_API enum tmk_status tmk_lineage_record_finalize(struct tmk_lineage_record *record,
                                                    struct tmk_diag *diag);

/* ---- asking ---- */

/* How many originals have each verdict; they add up to n_originals. */
TMK_API void tmk_lineage_record_count(const struct tmk_lineage_record *record,
                                      uint32_t counts[TMK_LINEAGE_VERDICTS]);
/* TMK_MISMATCH, with the ID, unless: verdicts have the value, view, numbers and absorber that they
 * need, and no others; values, axes, permutations and channels fit the shapes that are known; a
 * value is SAME to one original at most; numbers are finite; the values' lists are the originals'
 * of theirs. */
TMK_API enum tmk_status tmk_lineage_record_check(const struct tmk_lineage_record *record,
                                                 struct tmk_diag *diag);

/* ---- files ---- */

/* As tmk_profile_can_write. */
TMK_API enum tmk_status tmk_lineage_record_can_write(const char *path, struct tmk_diag *diag);
/* Writes JSON (".json") or HDF5 (".h5", ".hdf5"), whole or not at all; equal records give equal
 * bytes. Errors as of tmk_profile_write. */
TMK_API enum tmk_status tmk_lineage_record_write(const struct tmk_lineage_record *record,
                                                 const char *path, struct tmk_diag *diag);
/* Reads either format, recognized by the file's first bytes. Everything is checked. TMK_FORMAT or
 * TMK_MISMATCH name the file and the field, TMK_UNSUPPORTED a newer major version. */
TMK_API enum tmk_status tmk_lineage_record_read(const char *path, struct tmk_lineage_record **out,
                                                struct tmk_diag *diag);

/* ---- transferring a profile ---- */

/* Of the records of a transferred profile; they add up to n_tensors. */
struct tmk_transfer_report {
    uint32_t own;     /* had statistics before: weights */
    uint32_t same;    /* the statistics themselves, by the verdicts same, merged, view, constant */
    uint32_t derived; /* a range, by affine or quantized */
    uint32_t unknown; /* nothing: status NEVER */
};

/* Fills `to`, the records of one end of the lineage without statistics (tmk_model_skeleton), from
 * `from`, the profile of the other end: of the original, or with `back` of the transformed model.
 *
 * Equal numbers keep all that is known of them. What is left of a view: channels follow a
 * permutation and are lost by a reshape; places know their sample only. A value that is affine, and
 * an original whose value holds integers, has extremes (level minmax; by channel where there are
 * channels), counts of NaN and infinities, and of zeros those that are proven; its status is
 * DERIVED by the rule "lineage:affine" or "lineage:quantized". Scales by channel need extremes by
 * channel; where there are none the value stays without statistics, as does what no original
 * covers. Backwards, channels whose scale is 0 are without extremes, and so not in the value's; the
 * rule is then "lineage:affine-part".
 *
 * Data, settings (and where it came from: "carried-from"), samples and producer are from's.
 * TMK_MISMATCH, naming the first value that differs: the profile, or `to`, is of another model than
 * that end of the lineage, or of other weights. After a failure `to` is only good for destroying.
 * report may be NULL. */
TMK_API enum tmk_status tmk_profile_transfer(const struct tmk_profile *from,
                                             const struct tmk_lineage_record *lineage, bool back,
                                             struct tmk_profile *to,
                                             struct tmk_transfer_report *report,
                                             struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
