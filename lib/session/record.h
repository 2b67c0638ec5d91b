/* SPDX-License-Identifier: Apache-2.0 */
/* From values and accounts to a profile's records. */
#pragma once

#include <tidemark/profile.h>
#include <tidemark/session.h>

#include "base/hash.h"
#include "exec/account.h"
#include "exec/feedback.h"
#include "exec/run.h"
#include "feed/feed.h"
#include "plan/plan.h"
#include "session/running.h"
#include "transform/model.h"

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
enum tmk_status tmk_record_values(struct tmk_profile *profile, struct tmk_graph *original,
                                  const struct tmk_observed *observed, struct tmk_diag *diag);

/* A segment of a run, before or after it ran. */
struct tmk_segment {
    const struct tmk_model *model;
    const struct tmk_run_options *options;
    const struct tmk_observe *observe; /* as asked for; may be NULL */
    const struct tmk_graph *original;  /* without observers */
    const struct tmk_excluded *excluded;
    const struct tmk_feed *feed;
    const char (*hashes)[TMK_HASH128_HEX]; /* of the data, one a source */
    const struct tmk_exec_tally *tallies;  /* of what ran, one a stratum; NULL: nothing did */
};

/* A profile without values, of a stratum's samples; `label` is that stratum's, NULL: there are
 * none. Free it with tmk_profile_destroy. */
enum tmk_status tmk_segment_describe(const struct tmk_segment *segment, uint32_t stratum,
                                     const char *label, struct tmk_profile **out,
                                     struct tmk_diag *diag);
