/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage: what became of every value of a graph while passes changed it.
 *
 * One entry an original profile ID, made when the graph is as it was imported, and kept right by
 * graph/rewrite.h, which is the only way that passes change a graph. Each entry has exactly one
 * fate at any time. The table does not depend on the purpose of a pass.
 *
 * Not thread-safe; a lineage is read by many threads while none changes it.
 */
#ifndef TMK_GRAPH_LINEAGE_H
#define TMK_GRAPH_LINEAGE_H

#include "base/text.h"
#include "graph/graph.h"

/* X(NAME, "name", help). `value` is the value of the new graph that an entry points to. */
#define TMK_FATE_LIST(X)                                                                           \
    X(SAME, "same", "the value holds these numbers, and is nobody else's")                         \
    X(VIEW, "view", "the value holds these numbers in another shape or layout")                    \
    X(AFFINE, "affine", "value = scale * original + shift, for all or for each channel")           \
    X(QUANTIZED, "quantized", "original = scale * (value - zero point), the value of integers")    \
    X(MERGED, "merged", "the value holds these numbers, and was another original's before")        \
    X(CONSTANT, "constant", "it depends on no input: its numbers are kept")                        \
    X(ABSORBED, "absorbed", "it exists inside of the operator that makes the value, unseen")       \
    X(DEAD, "dead", "no output needs it, and it is gone")

enum tmk_fate {
#define TMK_FATE_ENUM(name, text, help) TMK_FATE_##name,
    TMK_FATE_LIST(TMK_FATE_ENUM)
#undef TMK_FATE_ENUM
        TMK_N_FATES
};
/* "same", ...; never NULL ("?" for an unknown number). */
const char *tmk_fate_name(enum tmk_fate fate);

/* value = scale * original + shift. n = 0: the identity; 1: all elements alike; else channel c is
 * index c of the value's dimension `axis`, and n its size. Scales and shifts are finite; a scale
 * may be 0, and then the original's numbers do not come back. */
struct tmk_affine {
    uint32_t n;
    int32_t axis; /* n > 1 only, counted from the front */
    const double *scale, *shift;
};

/* How the value's elements lie. Axis i of the value is axis perm[i] of the original; rank 0 without
 * `reshaped`: as they were. reshaped: the same order of elements (perm does not count) under
 * another shape. */
struct tmk_arrangement {
    bool reshaped;
    int32_t rank;
    int32_t perm[TMK_MAX_RANK];
};

/* original = scale * (value - zero_point), n and axis as of tmk_affine, n >= 1. */
struct tmk_quantized {
    enum tmk_dtype dtype; /* the value's */
    uint32_t n;
    int32_t axis;
    const double *scale;
    const int64_t *zero_point;
};

/* How the numbers of one value are had from those of another. Zero-initialised: they are equal. At
 * most one of affine and quantized; a view may go with either, and comes first. */
struct tmk_relation {
    struct tmk_arrangement view;
    struct tmk_affine affine;
    struct tmk_quantized quantized; /* n = 0: none */
};

/* One original value. */
struct tmk_origin {
    uint32_t id;
    enum tmk_fate fate;
    /* SAME ... MERGED: alive. CONSTANT: an initializer that holds it, or NULL. ABSORBED: a result
     * of the operator that has it inside. DEAD: NULL. */
    struct tmk_value *value;
    struct tmk_relation how;    /* of VIEW, AFFINE, QUANTIZED */
    struct tmk_tensor constant; /* of initializers, and CONSTANT: the original's numbers */
    const char *pass;           /* that spoke the fate; "" until one did */
    const char *remark;         /* a pass's remark on it, for people; "" */
    /* What it was. Strings live as long as the lineage. */
    const char *name;
    enum tmk_value_kind kind;
    struct tmk_type type; /* without symbols */
    uint64_t fingerprint, content;
    uint32_t ordinal;
    uint32_t next; /* 1 + ID of the next original of the same value; 0: none */
};

struct tmk_lineage;

/* One entry SAME for every value of an identified root graph, sub-graphs included. The graph's
 * values are marked as theirs: a graph has one lineage at a time. End with tmk_lineage_destroy
 * (which may outlive the graph, if only `id ... pass, constant, name ... ordinal` are read then).
 */
TMK_NODISCARD enum tmk_status tmk_lineage_create(struct tmk_graph *graph, struct tmk_lineage **out,
                                                 struct tmk_diag *diag);
void tmk_lineage_destroy(struct tmk_lineage **lineage);

uint32_t tmk_lineage_size(const struct tmk_lineage *lineage);
/* id < size. */
const struct tmk_origin *tmk_lineage_origin(const struct tmk_lineage *lineage, uint32_t id);
/* The first original that points to the value, then the others, in no order; NULL: no more. */
const struct tmk_origin *tmk_lineage_first(const struct tmk_lineage *lineage,
                                           const struct tmk_value *value);
const struct tmk_origin *tmk_lineage_next(const struct tmk_lineage *lineage,
                                          const struct tmk_origin *origin);

/* TMK_GRAPH, naming the first wrong entry, unless: every value of the graph that carries a profile
 * ID is the value of that ID's entry, which is SAME, and the other way round; entries point to live
 * values of this graph where their fate wants one; CONSTANT entries have numbers; scales and
 * shifts are as many as the channels, where those are known. */
TMK_NODISCARD enum tmk_status tmk_lineage_audit(const struct tmk_lineage *lineage,
                                                struct tmk_graph *graph, struct tmk_diag *diag);

/* Appends what the value stands for as it prints in the IR: "@p42", "@p42*s+b" (affine), "@p42*2"
 * (one scale), "@p7 @=p9" (p9 merged into p7), "@p3:view", "@p5:int8" (quantized), "@~p6" (p6 was
 * absorbed by its operator), "@#p8" (p8 folded to this constant); nothing when it stands for
 * nothing. */
void tmk_lineage_put(const struct tmk_lineage *lineage, const struct tmk_value *value,
                     struct tmk_text *text);

/* Points all entries to the values of `copy` that have the same number as theirs in `graph`: copy
 * is graph's clone, or its text form parsed back. TMK_GRAPH when they are not alike. */
TMK_NODISCARD enum tmk_status tmk_lineage_follow(struct tmk_lineage *lineage,
                                                 struct tmk_graph *graph, struct tmk_graph *copy,
                                                 struct tmk_diag *diag);

/* ---- changing: for graph/rewrite.c alone ---- */

/* All originals of `from` are now had from `to`: how(numbers of from) = numbers of to. NULL: equal.
 * from == to: its own numbers change. Where the two relations together cannot be expressed exactly
 * (a scale along an axis that a reshape dissolves, for example), the entry becomes ABSORBED. `how`
 * is copied.
 */
TMK_NODISCARD enum tmk_status tmk_lineage_move(struct tmk_lineage *lineage, struct tmk_value *from,
                                               struct tmk_value *to, const struct tmk_relation *how,
                                               const char *pass, struct tmk_diag *diag);
void tmk_lineage_absorb(struct tmk_lineage *lineage, struct tmk_value *value,
                        struct tmk_value *into, const char *pass);
/* from's numbers are those of the initializer, whatever the inputs. */
void tmk_lineage_fold(struct tmk_lineage *lineage, struct tmk_value *from,
                      struct tmk_value *initializer, const char *pass);
/* Sets the remark of the value's originals (copied; the last one stays). For people: false when
 * memory ran out and it is lost. */
bool tmk_lineage_remark(struct tmk_lineage *lineage, const struct tmk_value *value,
                        const char *remark);
/* The value is no more: its originals are DEAD, those of initializers CONSTANT. */
void tmk_lineage_end(struct tmk_lineage *lineage, struct tmk_value *value, const char *pass);

#endif
