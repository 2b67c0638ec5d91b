/* SPDX-License-Identifier: Apache-2.0 */
/* From values and accounts to a profile's records. */
#ifndef TMK_SESSION_RECORD_H
#define TMK_SESSION_RECORD_H

#include <tidemark/profile.h>

#include "exec/account.h"
#include "exec/feedback.h"
#include "plan/plan.h"

/* The values of an identified graph, sub-graphs included, at their IDs. */
struct tmk_by_id {
    struct tmk_value **values; /* NULL: no live value has this ID */
    size_t n;
};
TMK_NODISCARD enum tmk_status tmk_by_id_init(struct tmk_by_id *by_id, struct tmk_graph *graph,
                                             struct tmk_diag *diag);
void tmk_by_id_finish(struct tmk_by_id *by_id);

/* What the value is to its network. */
enum tmk_profile_kind tmk_record_kind(const struct tmk_value *value);
/* "If 'if1'/then_branch" for each graph between this one and the root, outermost first; as much of
 * it as fits. */
enum { TMK_RECORD_PATH = 1024 };
void tmk_record_path(const struct tmk_graph *graph, char path[TMK_RECORD_PATH]);

/* What a run saw, slot by slot. */
struct tmk_observed {
    const struct tmk_observer *observers;
    const struct tmk_slot_config *configs;
    struct tmk_account *accounts;
    uint32_t n_slots;
    struct tmk_feedback feedback;
};

/* An initializer, or the value of a Constant node. */
bool tmk_is_weight(const struct tmk_value *value);

/* Adds one record for every value of the original graph, in ID order, with the account of its
 * observer, if it has one. Statistics move from the accounts into the records. */
TMK_NODISCARD enum tmk_status tmk_record_values(struct tmk_profile *profile,
                                                struct tmk_graph *original,
                                                const struct tmk_observed *observed,
                                                struct tmk_diag *diag);

#endif
