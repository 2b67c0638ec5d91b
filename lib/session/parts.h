/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-outs: which samples of a run this process takes. */
#ifndef TMK_SESSION_PARTS_H
#define TMK_SESSION_PARTS_H

#include "session/feed.h"

/* The shard-th (from 1) of `shards` parts of a run: consecutive batches, so many as in the others,
 * or one more or less. */
struct tmk_shard {
    uint64_t begin, end; /* samples; equal: there are none */
    bool given;
};
TMK_NODISCARD enum tmk_status tmk_shard_of(const struct tmk_session_feed *feed, uint32_t shard,
                                           uint32_t shards, struct tmk_shard *out,
                                           struct tmk_diag *diag);
/* *shard must outlive it. */
struct tmk_hand_out tmk_shard_hand_out(struct tmk_shard *shard);

/* What another hand-out gives, without what is done already. */
struct tmk_rest {
    struct tmk_hand_out all;
    struct tmk_profile_range *done; /* ascending, apart; malloc'ed */
    uint32_t n_done;
    uint64_t begin, end; /* of a range of `all`: what is left of it */
};
/* On success free out->done. */
TMK_NODISCARD enum tmk_status tmk_rest_of(const struct tmk_hand_out *all,
                                          const struct tmk_profile *done, struct tmk_rest *out,
                                          struct tmk_diag *diag);
/* *rest must outlive it. */
struct tmk_hand_out tmk_rest_hand_out(struct tmk_rest *rest);

#endif
