/* SPDX-License-Identifier: Apache-2.0 */
/* The main job, of a part of the samples. */
#ifndef TMK_SESSION_PROFILE_H
#define TMK_SESSION_PROFILE_H

#include "dist/team.h"
#include "session/feed.h"
#include "session/model.h"

/* A run that is one part of a larger one. */
struct tmk_parts {
    /* Says which samples run, once the data is open: none that `before` holds (NULL: there is no
     * checkpoint, or another keeps it). */
    enum tmk_status (*open)(void *context, const struct tmk_session_feed *feed,
                            const struct tmk_profile *before, struct tmk_hand_out *out,
                            struct tmk_diag *diag);
    /* As tmk_team_ask and tmk_team_gather. */
    enum tmk_status (*ask)(void *context, enum tmk_wish wish, bool *pause, struct tmk_diag *diag);
    enum tmk_status (*gather)(void *context, struct tmk_profile **profile, enum tmk_round *round,
                              struct tmk_diag *diag);
    /* The leader tells the hashes of the data, on any thread; the others do not make them, but wait
     * until they hear them. */
    void (*tell_hashes)(void *context, const char (*hex)[TMK_HASH128_HEX], uint32_t n);
    enum tmk_status (*hear_hashes)(void *context, char (*hex)[TMK_HASH128_HEX], uint32_t n,
                                   struct tmk_diag *diag);
    bool leads;    /* keeps the checkpoint; the others end up without a profile */
    void *context; /* of all these and of the hand-out: must outlive the call */
};

/* tmk_model_profile, with parts (NULL: what options->shard says). A profile tells its coverage; all
 * parts of a run, merged, are the profile of the whole run, bit by bit. */
TMK_NODISCARD enum tmk_status
tmk_session_profile(struct tmk_model *model, const struct tmk_run_options *options,
                    const struct tmk_observe *observe, const struct tmk_parts *parts,
                    struct tmk_profile **out, struct tmk_run_report *report, struct tmk_diag *diag);

#endif
