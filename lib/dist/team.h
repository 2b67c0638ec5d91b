/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a team do between joining and leaving. mpi.c, or none.c in a build without. */
#ifndef TMK_DIST_TEAM_H
#define TMK_DIST_TEAM_H

#include <tidemark/dist.h>
#include <tidemark/profile.h>

#include "dist/share.h"

/* Says what there is to share out; all ranks must say the same. Once a team, before the first
 * range is asked for. */
TMK_NODISCARD enum tmk_status tmk_team_offer(struct tmk_team *team, const struct tmk_work *work,
                                             struct tmk_diag *diag);
/* The next batches for this rank, ascending; *more is false after the last. One thread at a time.
 * TMK_INTERRUPTED: another rank has failed. */
TMK_NODISCARD enum tmk_status tmk_team_take(struct tmk_team *team, uint64_t *begin, uint64_t *end,
                                            bool *more, struct tmk_diag *diag);
/* Has another rank failed? To be asked before each batch: costs a microsecond. */
bool tmk_team_is_over(struct tmk_team *team);
/* At rank 0, how many batches have been done by all ranks, without what they have at hand. */
uint64_t tmk_team_done(struct tmk_team *team);

/* Puts the profiles of all ranks together, in a tree. At rank 0 *profile becomes that of all, at
 * the others it is destroyed and set to NULL. A profile that covers no sample adds nothing. */
TMK_NODISCARD enum tmk_status tmk_team_gather(struct tmk_team *team, struct tmk_profile **profile,
                                              struct tmk_diag *diag);

#endif
