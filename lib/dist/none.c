/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of mpi.c in a build without MPI: every team is one process. */
#include <stddef.h>

#include "base/diag.h"
#include "dist/team.h"

enum tmk_status tmk_team_join(struct tmk_team **out, struct tmk_diag *diag) {
    const struct tmk_launch launch = tmk_launch_of_environment();
    /* each would do all of the work, and write the same file */
    if (launch.size > 1)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "started as one of %u processes, but built without MPI; build with "
                        "-Dmpi=enabled, or give each of them its --shard",
                        launch.size);
    *out = NULL;
    return TMK_OK;
}

uint32_t tmk_team_rank(const struct tmk_team *team) {
    (void)team;
    return 0;
}

uint32_t tmk_team_size(const struct tmk_team *team) {
    (void)team;
    return 1;
}

enum tmk_status tmk_team_leave(struct tmk_team **team, enum tmk_status status,
                               struct tmk_diag *diag) {
    (void)team;
    (void)diag;
    return status;
}

enum tmk_status tmk_team_offer(struct tmk_team *team, const struct tmk_work *work,
                               const struct tmk_batches *done, uint32_t n_done,
                               struct tmk_diag *diag) {
    (void)team;
    (void)work;
    (void)done;
    (void)n_done;
    (void)diag;
    return TMK_OK;
}

enum tmk_status tmk_team_take(struct tmk_team *team, uint64_t *begin, uint64_t *end, bool *more,
                              struct tmk_diag *diag) {
    (void)team;
    (void)begin;
    (void)end;
    (void)diag;
    *more = false;
    return TMK_OK;
}

enum tmk_status tmk_team_poll(struct tmk_team *team, enum tmk_team_request request, bool *pause,
                              struct tmk_diag *diag) {
    (void)team;
    (void)diag;
    *pause = request != TMK_REQUEST_NONE;
    return TMK_OK;
}

void tmk_team_broadcast(struct tmk_team *team, const void *bytes, size_t n) {
    (void)team;
    (void)bytes;
    (void)n;
}

enum tmk_status tmk_team_receive_broadcast(struct tmk_team *team, void *bytes, size_t n,
                                           struct tmk_diag *diag) {
    (void)team;
    (void)bytes;
    (void)n;
    (void)diag;
    return TMK_OK;
}

uint64_t tmk_team_done(struct tmk_team *team) {
    (void)team;
    return 0;
}

enum tmk_status tmk_team_gather(struct tmk_team *team, struct tmk_profile **profile,
                                enum tmk_round *round, struct tmk_diag *diag) {
    (void)team;
    (void)profile;
    (void)round;
    (void)diag;
    return TMK_OK;
}
