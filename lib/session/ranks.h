/* SPDX-License-Identifier: Apache-2.0 */
/* A profile made by the ranks of a team. */
#ifndef TMK_SESSION_RANKS_H
#define TMK_SESSION_RANKS_H

#include <tidemark/session.h>

#include "feed/feed.h"

/* TMK_ARGUMENT: the options are for one process only. */
TMK_NODISCARD enum tmk_status tmk_ranks_check(const struct tmk_run_options *options,
                                              struct tmk_diag *diag);

struct tmk_rank {
    struct tmk_team *team;
    const struct tmk_feed *feed;
};
/* The ranges that this rank runs: at rank 0 without what `before` covers (NULL: there is no
 * checkpoint). *rank must outlive the feed. */
TMK_NODISCARD enum tmk_status tmk_ranks_share(struct tmk_rank *rank,
                                              const struct tmk_profile *before,
                                              struct tmk_work_ranges *out, struct tmk_diag *diag);

#endif
