/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes, on one machine or many, that make one profile together: the ranks of an MPI
 * job. The samples are distributed while they run, and rank 0 gets the profile of all of
 * them, with the same bytes as of one process.
 *
 *     tmk_team_join(&team, ...);             NULL: this process is alone
 *     options.team = team;                   and so to tmk_model_profile
 *     status = tmk_team_leave(&team, status, ...);
 *
 * Every process of a job makes the same calls, also after a failure: leaving with a failure ends
 * the others. A process joins at most one team, and both calls are made by one thread. */
#ifndef TIDEMARK_DIST_H
#define TIDEMARK_DIST_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. NULL is a team of this process alone. */
struct tmk_team;

/* The number that a launcher gave to this process, by its environment; 0 when there was none. For
 * programs that print on rank 0 only, before tmk_team_join. */
TMK_API uint32_t tmk_team_launched_as(void);

/* Joins the processes of the same launcher; waits for them. *out is NULL without them,
 * and then MPI was not even initialised. TMK_UNSUPPORTED: there are others, but this build has no
 * MPI. */
TMK_API enum tmk_status tmk_team_join(struct tmk_team **out, struct tmk_diag *diag);

TMK_API uint32_t tmk_team_rank(const struct tmk_team *team);
TMK_API uint32_t tmk_team_size(const struct tmk_team *team);

/* Reports this rank's status, waits for the others, and returns the status of all: TMK_OK, or the
 * first failure, whose text (with the rank in front) is in `diag` at every rank. A rank that is
 * still running stops at its next batch. Ends MPI, and sets *team
 * to NULL. A program should print a failure, and exit with a failure, at rank 0 only: launchers
 * kill all ranks as soon as one exits with a failure. */
TMK_API enum tmk_status tmk_team_leave(struct tmk_team **team, enum tmk_status status,
                                       struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
