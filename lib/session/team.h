/* SPDX-License-Identifier: Apache-2.0 */
/* The main job, done by a team. */
#ifndef TMK_SESSION_TEAM_H
#define TMK_SESSION_TEAM_H

#include <tidemark/session.h>

/* tmk_model_profile where options->team is given. */
TMK_NODISCARD enum tmk_status
tmk_team_profile(struct tmk_model *model, const struct tmk_run_options *options,
                 const struct tmk_observe *observe, struct tmk_profile **out,
                 struct tmk_run_report *report, struct tmk_diag *diag);

#endif
