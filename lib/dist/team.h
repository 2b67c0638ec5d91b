/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a team do between joining and leaving. mpi.c, or none.c in a build without. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/dist.h>
#include <tidemark/profile.h>

#include "dist/share.h"

/* Sets the work to distribute; all ranks must pass the same. Once a team, before the first range is
 * asked for. At rank 0, without the batches that are done already: ascending, apart (of others
 * n_done is not looked at). */
enum tmk_status tmk_team_offer(struct tmk_team *team, const struct tmk_work *work,
                               const struct tmk_batches *done, uint32_t n_done,
                               struct tmk_diag *diag);
/* The next batches for this rank, ascending; *more is false after the last. One thread at a time.
 * TMK_INTERRUPTED: another rank has failed. */
enum tmk_status tmk_team_take(struct tmk_team *team, uint64_t *begin, uint64_t *end, bool *more,
                              struct tmk_diag *diag);
/* At rank 0, how many batches have been done by all ranks and before them, without what the ranks
 * have at hand. */
uint64_t tmk_team_done(struct tmk_team *team);

/* Rank 0 broadcasts: the same number of bytes, once a run. Any thread may send. Receiving waits;
 * TMK_INTERRUPTED: another rank has failed; TMK_MISMATCH: other than n bytes come. */
void tmk_team_broadcast(struct tmk_team *team, const void *bytes, size_t n);
enum tmk_status tmk_team_receive_broadcast(struct tmk_team *team, void *bytes, size_t n,
                                           struct tmk_diag *diag);

/* A run of a team is a run of rounds. In each, every rank runs until it has nothing left to run, or
 * is asked to pause, and then all gather. */
enum tmk_team_request {
    TMK_REQUEST_NONE,
    TMK_REQUEST_PAUSE, /* rank 0's alone: others that wish it are not heard */
    TMK_REQUEST_STOP   /* any rank's: the round at hand is to be the last */
};
/* To be asked before each batch; costs a microsecond. *pause: this rank is to gather now, since
 * a rank requested it. TMK_INTERRUPTED: another rank has failed. */
enum tmk_status tmk_team_poll(struct tmk_team *team, enum tmk_team_request request, bool *pause,
                              struct tmk_diag *diag);

enum tmk_round {
    TMK_ROUND_FINISHED, /* nothing is left to run */
    TMK_ROUND_PAUSED,   /* there is more, and another round */
    TMK_ROUND_STOPPED   /* there is more, but this round was the last; reported to rank 0 only, to
                         * the others it is as good as finished */
};
/* Puts the profiles of the round together, in a tree. At rank 0 *profile becomes that of all, at
 * the others it is destroyed and set to NULL. A profile that covers no sample adds nothing. *round
 * is how it ended for this rank, and becomes how it did for all. */
enum tmk_status tmk_team_gather(struct tmk_team *team, struct tmk_profile **profile,
                                enum tmk_round *round, struct tmk_diag *diag);

/* The launcher of this process, from the environment. */
struct tmk_launch {
    bool by_launcher;    /* there may be others */
    uint32_t rank, size; /* size 0: unknown */
};
struct tmk_launch tmk_launch_of_environment(void);
