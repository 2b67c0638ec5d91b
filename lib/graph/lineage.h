/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage: what became of every value of a graph while passes changed it.
 *
 * One entry an original profile ID, made when the graph is as it was imported, and kept right by
 * graph/rewrite.h, which is the only way that passes change a graph. Each entry has exactly one
 * fate at any time. The table does not depend on the purpose of a pass.
 *
 * Not thread-safe; a lineage is read by many threads while none changes it. */
#pragma once

#include <tidemark/lineage.h>

#include "base/text.h"
#include "graph/graph.h"

/* How the numbers of one value are had from those of another. Zero-initialised: they are equal. At
 * most one of affine and quantized; a view may go with either, and comes first. */
struct tmk_relation {
    struct tmk_lineage_view view;
    struct tmk_lineage_affine affine;
    struct tmk_lineage_quantized quantized; /* n = 0: none */
};

/* "same", ..., without the module profile. */
const char *tmk_fate_name(enum tmk_lineage_verdict fate);

/* One original value. */
struct tmk_origin {
    uint32_t id;
    enum tmk_lineage_verdict fate;
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
enum tmk_status tmk_lineage_create(struct tmk_graph *graph, struct tmk_lineage **out,
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
enum tmk_status tmk_lineage_audit(const struct tmk_lineage *lineage, struct tmk_graph *graph,
                                  struct tmk_diag *diag);

/* Appends what the value stands for as it prints in the IR: "@p42", "@p42*s+b" (affine), "@p42*2"
 * (one scale), "@p7 @=p9" (p9 merged into p7), "@p3:view", "@p5:int8" (quantized), "@~p6" (p6 was
 * absorbed by its operator), "@#p8" (p8 folded to this constant); nothing when it stands for
 * nothing. */
void tmk_lineage_put(const struct tmk_lineage *lineage, const struct tmk_value *value,
                     struct tmk_text *text);

/* ---- changing: for graph/rewrite.c alone ---- */

/* All originals of `from` are now had from `to`: how(numbers of from) = numbers of to. NULL: equal.
 * from == to: its own numbers change. Where the two relations together cannot be expressed exactly
 * (a scale along an axis that a reshape dissolves, for example), the entry becomes ABSORBED. `how`
 * is copied. */
enum tmk_status tmk_lineage_move(struct tmk_lineage *lineage, struct tmk_value *from,
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
