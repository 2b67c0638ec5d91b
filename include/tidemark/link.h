/* SPDX-License-Identifier: Apache-2.0 */
/* Which value of one file of a network is which of another: the lineage between them, found without
 * having seen how one became the other.
 *
 * A link holds a lineage record, and for each original the evidence. Where several values would do
 * and nothing speaks for one of them, none is taken, and all are listed.
 *
 * Thread-safety: as of profiles and records. */
#ifndef TIDEMARK_LINK_H
#define TIDEMARK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/lineage.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Evidence that a value is an original's, strongest first. STRUCTURE and what follows identify the
 * value, but not that it has the original's numbers: such matches are left out, but those of inputs
 * by name. X(NAME, "name", help) */
#define TMK_LINK_EVIDENCE_LIST(X)                                                                  \
    X(NONE, "none", "not matched")                                                                 \
    X(LINEAGE, "lineage", "a lineage says so")                                                     \
    X(CONTENT, "content", "computed alike, from equal weights")                                    \
    X(EQUAL, "equal", "equal numbers")                                                             \
    X(AFFINE, "affine", "numbers that differ by a scale and a shift")                              \
    X(STRUCTURE, "structure", "computed alike, from other weights or inputs")                      \
    X(OPERANDS, "operands", "the same operator, all operands matched")                             \
    X(WEIGHTS, "weights", "the same operator, weights of its own matched")                         \
    X(NAME, "name", "the same name, operator and shape")

enum tmk_link_evidence {
#define TMK_LINK_EVIDENCE_ENUM(name, text, help) TMK_LINK_##name,
    TMK_LINK_EVIDENCE_LIST(TMK_LINK_EVIDENCE_ENUM)
#undef TMK_LINK_EVIDENCE_ENUM
        TMK_LINK_EVIDENCES
};

/* Of one original. */
struct tmk_link_match {
    enum tmk_link_evidence evidence;
    /* Not matched, for several values would do, or several originals for one value. */
    bool ambiguous;
    /* By the evidence candidates[0] is this value, made from other contents: not matched. */
    bool left_out;
    /* IDs of those values, or of those that were passed over for the one that was taken. */
    uint32_t *candidates;
    uint32_t n_candidates;
    /* EQUAL, AFFINE: the largest difference, of the range that was sampled; with a tolerance EQUAL
     * has the root mean square of the difference, of the standard deviation. */
    double residual;
    uint64_t points; /* numbers that were compared; 0: none */
};

struct tmk_link {
    const char *method; /* "fingerprint", "lineage" or "numbers" */
    /* By numbers: 0, or where a file has narrower types the largest residual of EQUAL. */
    double tolerance;
    struct tmk_lineage_record *record;
    struct tmk_link_match *matches; /* [record->n_originals] */
};

/* "content", ...; "?" for an unknown number. */
TMK_API const char *tmk_link_evidence_name(enum tmk_link_evidence evidence);

/* ---- finding ---- */

/* By fingerprint: values computed alike, from equal weights and the same inputs. `from` is the
 * profile of the original; `to` are the records of the other model (tmk_model_skeleton), both with
 * every value of theirs. Names and the order in the file don't count. Of what is computed from
 * other contents (other weights, or what lies behind an edit) the counterpart is found by
 * structure, operands, weights or name, and left out. End with tmk_link_destroy. */
TMK_API enum tmk_status tmk_link_by_fingerprint(const struct tmk_profile *from,
                                                const struct tmk_profile *to, struct tmk_link **out,
                                                struct tmk_diag *diag);
/* By the lineage in a file. TMK_MISMATCH, naming both: it is of other models. */
TMK_API enum tmk_status tmk_link_by_lineage(const struct tmk_profile *from,
                                            const struct tmk_profile *to, const char *path,
                                            struct tmk_link **out, struct tmk_diag *diag);

struct tmk_model;
struct tmk_run_options;

/* What is run, or was. */
struct tmk_link_numbers {
    struct tmk_model *original; /* that `from` is the profile of */
    struct tmk_model *model;    /* that `to` is the skeleton of; may be NULL with `tensors` */
    /* A .npz of the other model's values by name, that were made of the same data in the same
     * order: entry k of the first axis is sample k. NULL: `model` is run. */
    const char *tensors;
    /* How both are run: data (for the original's inputs), dims; `limit` samples (0: 16). */
    const struct tmk_run_options *run;
};
/* By numbers: both models see the same samples, and values are compared at some of their elements.
 * Equal numbers are SAME, MERGED or VIEW (reshaped, or with channels last instead of first);
 * numbers that differ by a scale and a shift, or these by channel, are AFFINE. Where samples cannot
 * distinguish values, names, operators or their order do, or nothing does. Weights, integers and
 * constants are matched by their bytes. If one of the files has types narrower than float32 (half
 * types, or 8-bit integers between QuantizeLinear and DequantizeLinear), floats and weights are
 * equal up to the tolerance that follows from these types, and only if neither end has a match that
 * is twice as good. Neither model is changed. TMK_MISMATCH: `from` is of another model than
 * `original`. */
TMK_API enum tmk_status tmk_link_by_numbers(const struct tmk_profile *from,
                                            const struct tmk_profile *to,
                                            const struct tmk_link_numbers *numbers,
                                            struct tmk_link **out, struct tmk_diag *diag);
/* The records that stand for a .npz alone, for tmk_link_by_numbers and tmk_profile_transfer: a
 * value an array, in the file's order. End with tmk_profile_destroy. */
TMK_API enum tmk_status tmk_tensors_skeleton(const char *path, struct tmk_profile **out,
                                             struct tmk_diag *diag);
/* NULL is allowed. */
TMK_API void tmk_link_destroy(struct tmk_link **link);

/* ---- reporting ---- */

struct tmk_link_counts {
    uint32_t originals, values;
    /* Originals; they add up. NONE: with the ambiguous, and what was left out. */
    uint32_t by[TMK_LINK_EVIDENCES];
    uint32_t ambiguous; /* originals */
    uint32_t left_out;  /* originals */
    uint32_t found;     /* values that stand for an original */
};
TMK_API void tmk_link_count(const struct tmk_link *link, struct tmk_link_counts *out);
/* JSON: counts, each match with its evidence, what is ambiguous, and what was not matched on either
 * side. Whole or not at all. */
TMK_API enum tmk_status tmk_link_write_report(const struct tmk_link *link, const char *path,
                                              struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
