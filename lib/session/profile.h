/* SPDX-License-Identifier: Apache-2.0 */
/* The main job, of a part of the samples. */
#ifndef TMK_SESSION_PROFILE_H
#define TMK_SESSION_PROFILE_H

#include "session/feed.h"

/* Who says which samples run, once the data is open. */
struct tmk_parts {
    enum tmk_status (*open)(void *context, const struct tmk_session_feed *feed,
                            struct tmk_hand_out *out, struct tmk_diag *diag);
    void *context; /* of this and of the hand-out: must outlive the call */
};

/* tmk_model_profile, with parts (NULL: what options->shard says) of which the profile tells its
 * coverage. All parts of a run, merged, are the profile of the whole run, bit by bit. */
TMK_NODISCARD enum tmk_status
tmk_session_profile(struct tmk_model *model, const struct tmk_run_options *options,
                    const struct tmk_observe *observe, const struct tmk_parts *parts,
                    struct tmk_profile **out, struct tmk_run_report *report, struct tmk_diag *diag);

#endif
