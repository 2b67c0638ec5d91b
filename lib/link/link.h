/* SPDX-License-Identifier: Apache-2.0 */
/* A link under construction. */
#pragma once

#include <tidemark/link.h>

#include "traits/traits.h"

#define TMK_UNLINKED UINT32_MAX

struct tmk_linking {
    const struct tmk_profile *from, *to;
    struct tmk_link *link;
    uint32_t *value_of;    /* [original]: its value; TMK_UNLINKED: none */
    uint32_t *original_of; /* [value]: the original that it is SAME, VIEW or AFFINE to first */
    bool *differs; /* [original]: it may have other numbers than a value that is computed alike */
    struct tmk_diag *diag;
};

/* The value is the result of an operator that has one of these traits. */
static inline bool tmk_link_has(const struct tmk_profile_tensor *t, unsigned flags) {
    return t->has_producer &&
           tmk_traits_are(tmk_traits_of(t->producer.domain, t->producer.op), flags);
}

/* n times TMK_UNLINKED, malloc'ed; NULL: no memory. */
uint32_t *tmk_linking_none(uint32_t n);

/* Nothing is matched yet. Both profiles must have every value of their models (TMK_MISMATCH) and
 * outlive *l. End with tmk_linking_finish in any case. */
enum tmk_status tmk_linking_init(struct tmk_linking *l, const char *method,
                                 const struct tmk_profile *from, const struct tmk_profile *to,
                                 struct tmk_diag *diag);
/* Drops what is not in *out of tmk_linking_end. */
void tmk_linking_finish(struct tmk_linking *l);
/* Records what became of originals without a match, finalizes the record and passes the link on.
 * `pass` speaks the verdicts ("link:numbers"). */
enum tmk_status tmk_linking_end(struct tmk_linking *l, const char *pass, struct tmk_link **out);

/* The value has the original's numbers: SAME, or MERGED where it is SAME to another already. */
void tmk_linking_match(struct tmk_linking *l, uint32_t original, uint32_t value,
                       enum tmk_link_evidence evidence);
/* The value has the original's numbers by a relation that the caller has put into its entry, with
 * the verdict. */
void tmk_linking_relate(struct tmk_linking *l, uint32_t original, uint32_t value,
                        enum tmk_link_evidence evidence);
/* Notes a value that would do, too. */
enum tmk_status tmk_linking_add_candidate(struct tmk_linking *l, uint32_t original, uint32_t value);
/* Marks values that follow from weights alone, and weights. */
void tmk_linking_mark_fixed(const struct tmk_profile *profile, bool *fixed);
/* Are both known, and do they exclude each other? */
bool tmk_linking_shapes_differ(const struct tmk_profile_tensor *a,
                               const struct tmk_profile_tensor *b);
/* The same operator and output, and there is one. */
bool tmk_linking_same_op(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b);

/* Fills l->differs: what depends on inputs that get other data in the other file, or on chance. */
enum tmk_status tmk_linking_mark_different(struct tmk_linking *l);
/* Takes inputs of one name that are in other places. */
void tmk_linking_inputs(struct tmk_linking *l);
/* Undoes matches that do not prove equal numbers: all but CONTENT, and inputs of one name. */
enum tmk_status tmk_linking_leave_out(struct tmk_linking *l);

#define TMK_LINK_NO_CONTEXT 0
#define TMK_LINK_MAIN_GRAPH 1
/* Of each value a hash of the nodes that run the body it is in; TMK_LINK_NO_CONTEXT: not known. To
 * be freed, also on failure (TMK_NOMEM). */
enum tmk_status tmk_link_contexts(const struct tmk_profile *profile, uint64_t **out,
                                  struct tmk_diag *diag);

/* Matches what is computed alike from equal weights and inputs; with `wanted` only originals that
 * are marked there. */
enum tmk_status tmk_linking_content(struct tmk_linking *l, const bool *wanted);
/* Matches those of the marked originals and values that have one name, one operator, and operands
 * that are all matched. */
enum tmk_status tmk_linking_namesakes(struct tmk_linking *l, const bool *originals,
                                      const bool *values);
