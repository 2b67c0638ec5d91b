/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 as the coordinator. */
#include <inttypes.h>
#include <stdio.h>

#include "dist/mpi_internal.h"

void tmk_team_failed(struct tmk_team *team, uint32_t rank, enum tmk_status status,
                     const char *text) {
    /* who was only stopped may be heard before the one that stopped him */
    bool better = team->failure.status == TMK_INTERRUPTED && status != TMK_INTERRUPTED;
    if (team->stopped && !better)
        return;
    team->failure.status = (int32_t)status;
    int n = snprintf(team->failure.text, sizeof team->failure.text, "rank %" PRIu32 ": ", rank);
    const size_t size = sizeof team->failure.text - (size_t)n;
    snprintf(team->failure.text + n, size, "%.*s", (int)(size - 1), text);
    if (!team->stopped)
        tmk_team_send_command(team, COMMAND_FAILED);
    team->stopped = true;
}

void tmk_team_pause(struct tmk_team *team) {
    if (!team->paused && !team->over && !team->stopped)
        tmk_team_send_command(team, COMMAND_PAUSE);
    team->paused = true;
}

struct range tmk_team_assign_range(struct tmk_team *team, uint32_t rank) {
    struct range range = {0};
    struct rank_state *rank_state = &team->rank_states[rank];
    range.more = tmk_share_next(&team->share, &range.begin, &range.end);
    rank_state->n_in_progress = range.end - range.begin;
    team->n_assigned += rank_state->n_in_progress;
    return range;
}

static void reply_range(struct tmk_team *team, uint32_t rank) {
    struct rank_state *rank_state = &team->rank_states[rank];
    rank_state->waits = false;
    if (!tmk_work_equal(&rank_state->work, &team->work)) {
        char text[256] = "has other data than rank 0, of the same length";
        if (rank_state->work.batches != team->work.batches ||
            rank_state->work.end != team->work.end)
            snprintf(text, sizeof text,
                     "has other data or options than rank 0: samples up to %" PRIu64 " in %" PRIu64
                     " batches, not up to %" PRIu64 " in %" PRIu64,
                     rank_state->work.end, rank_state->work.batches, team->work.end,
                     team->work.batches);
        tmk_team_failed(team, rank, TMK_MISMATCH, text);
        return;
    }
    const struct range range = tmk_team_assign_range(team, rank);
    tmk_team_send(&range, sizeof range, rank, TAG_RANGE);
}

/* A rank that requests work before rank 0 has read the data waits. */
static void answer_all(struct tmk_team *team) {
    for (uint32_t i = 1; i < team->size; i++)
        if (team->rank_states[i].waits && !team->stopped)
            reply_range(team, i);
}

static bool hear_one(struct tmk_team *team) {
    MPI_Status status;
    if (tmk_team_probe(MPI_ANY_SOURCE, TAG_REQUEST, &status)) {
        struct rank_state *rank_state = &team->rank_states[status.MPI_SOURCE];
        tmk_team_receive(&rank_state->work, sizeof rank_state->work, (uint32_t)status.MPI_SOURCE,
                         TAG_REQUEST);
        rank_state->waits = true;
        if (team->offered && !team->stopped)
            reply_range(team, (uint32_t)status.MPI_SOURCE);
        return true;
    }
    if (tmk_team_probe(MPI_ANY_SOURCE, TAG_NOTICE, &status)) {
        struct notice notice;
        uint32_t rank = (uint32_t)status.MPI_SOURCE;
        tmk_team_receive(&notice, sizeof notice, rank, TAG_NOTICE);
        if (notice.stays) {
            team->stop_requested = true;
            tmk_team_pause(team);
            return true;
        }
        team->rank_states[rank].left = true;
        team->gone++;
        if (notice.status != TMK_OK)
            tmk_team_failed(team, rank, (enum tmk_status)notice.status, notice.text);
        return true;
    }
    return false;
}

void *tmk_team_serve(void *argument) {
    struct tmk_team *team = argument;
    uint32_t naps = 0;
    bool all_gone = false, offered = false;
    while (!all_gone) {
        pthread_mutex_lock(&team->lock);
        bool heard = hear_one(team);
        if (team->offered && !offered)
            answer_all(team);
        offered = team->offered;
        all_gone = team->gone == team->size;
        pthread_mutex_unlock(&team->lock);
        if (heard)
            naps = 0;
        else if (!all_gone)
            tmk_team_back_off(&naps);
    }
    return NULL;
}
