/* SPDX-License-Identifier: Apache-2.0 */
/* From values and accounts to a profile's records. */
#ifndef TMK_SESSION_RECORD_H
#define TMK_SESSION_RECORD_H

#include <tidemark/profile.h>

#include "exec/account.h"
#include "exec/feedback.h"
#include "plan/plan.h"
#include "transform/values.h"

/* What a run saw, slot by slot. */
struct tmk_observed {
    const struct tmk_observer *observers;
    const struct tmk_slot_config *configs;
    struct tmk_account *accounts;
    uint32_t n_slots;
    struct tmk_feedback feedback;
};

/* Adds one record for every value of the original graph, in ID order, with the account of its
 * observer, if it has one. Statistics move from the accounts into the records. */
TMK_NODISCARD enum tmk_status tmk_record_values(struct tmk_profile *profile,
                                                struct tmk_graph *original,
                                                const struct tmk_observed *observed,
                                                struct tmk_diag *diag);

#endif
