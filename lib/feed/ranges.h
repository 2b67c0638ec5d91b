/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples of a run this process runs. */
#ifndef TMK_FEED_RANGES_H
#define TMK_FEED_RANGES_H

#include "feed/feed.h"

/* The shard-th (from 1) of `shards` parts of a run: consecutive batches, so many as in the others,
 * or one more or less. */
struct tmk_shard {
    uint64_t begin, end; /* samples; equal: there are none */
    bool given;
};
TMK_NODISCARD enum tmk_status tmk_shard_of(const struct tmk_feed *feed, uint32_t shard,
                                           uint32_t shards, struct tmk_shard *out,
                                           struct tmk_diag *diag);
/* *shard must outlive it. */
struct tmk_work_ranges tmk_shard_ranges(struct tmk_shard *shard);

/* What other work ranges give, without what is done already. */
struct tmk_rest {
    struct tmk_work_ranges all;
    struct tmk_profile_range *done; /* ascending, apart; malloc'ed */
    uint32_t n_done;
    uint64_t begin, end; /* of a range of `all`: what is left of it */
};
/* On success free out->done. */
TMK_NODISCARD enum tmk_status tmk_rest_of(const struct tmk_work_ranges *all,
                                          const struct tmk_profile *done, struct tmk_rest *out,
                                          struct tmk_diag *diag);
/* *rest must outlive it. */
struct tmk_work_ranges tmk_rest_ranges(struct tmk_rest *rest);

#endif
