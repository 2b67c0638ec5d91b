/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes, on one machine or many, that make one profile together: the ranks of an MPI
 * job. They share out the samples while they run, and rank 0 ends up with the profile of all of
 * them, the same bits as if it had run alone.
 *
 *     tmk_team_join(&team, ...);             NULL: nobody else was started
 *     options.team = team;                   and so to tmk_model_profile
 *     status = tmk_team_leave(&team, status, ...);
 *
 * Every process of a job makes the same calls, whatever fails on the way: leaving with a failure is
 * what ends the others. A process joins at most one team, and both calls are made by one thread.
 */
#ifndef TIDEMARK_DIST_H
#define TIDEMARK_DIST_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. Where one is asked for, NULL is a team of this process alone. */
struct tmk_team;

/* The number that a launcher gave to this process, by its environment; 0 when there was none. To be
 * asked by who must not speak unless he is rank 0, before anybody has joined. */
TMK_API uint32_t tmk_team_launched_as(void);

/* Joins the processes that the same launcher started; waits for them. *out is NULL without them,
 * and then MPI was not even initialised. TMK_UNSUPPORTED: there are others, but this build has no
 * MPI. */
TMK_API TMK_NODISCARD enum tmk_status tmk_team_join(struct tmk_team **out, struct tmk_diag *diag);

TMK_API uint32_t tmk_team_rank(const struct tmk_team *team);
TMK_API uint32_t tmk_team_size(const struct tmk_team *team);

/* Says how it went here, waits for the others, and answers how it went for all: TMK_OK, or the
 * failure that was told first, whose text (with the rank in front) then is in `diag` at every rank.
 * From then on a rank that goes on working is stopped at its next batch. Ends MPI, and sets *team
 * to NULL. A program should tell a failure, and exit with one, at rank 0 only: launchers kill the
 * other ranks as soon as one has exited so. */
TMK_API TMK_NODISCARD enum tmk_status tmk_team_leave(struct tmk_team **team, enum tmk_status status,
                                                     struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
