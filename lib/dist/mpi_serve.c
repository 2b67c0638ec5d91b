/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 as the one who hands out and is told. */
#include <inttypes.h>
#include <stdio.h>

#include "dist/mpi_parts.h"

void tmk_team_failed(struct tmk_team *team, uint32_t rank, enum tmk_status status,
                     const char *text) {
    /* who was only stopped may be heard before the one that stopped him */
    bool better = team->failure.status == TMK_INTERRUPTED && status != TMK_INTERRUPTED;
    if (team->stopped && !better)
        return;
    team->failure.status = (int32_t)status;
    int n = snprintf(team->failure.text, sizeof team->failure.text, "rank %" PRIu32 ": ", rank);
    const size_t room = sizeof team->failure.text - (size_t)n;
    snprintf(team->failure.text + n, room, "%.*s", (int)(room - 1), text);
    if (!team->stopped)
        tmk_team_say(team, WORD_FAILED);
    team->stopped = true;
}

void tmk_team_call(struct tmk_team *team) {
    if (!team->paused && !team->over && !team->stopped)
        tmk_team_say(team, WORD_PAUSE);
    team->paused = true;
}

struct range tmk_team_hand_out(struct tmk_team *team, uint32_t rank) {
    struct range range = {0};
    struct seat *seat = &team->seats[rank];
    range.more = tmk_share_next(&team->share, &range.begin, &range.end);
    seat->at_hand = range.end - range.begin;
    team->handed += seat->at_hand;
    return range;
}

static void answer(struct tmk_team *team, uint32_t rank) {
    struct seat *seat = &team->seats[rank];
    seat->waits = false;
    if (!tmk_work_equal(&seat->work, &team->work)) {
        char text[256] = "has other data than rank 0, of the same length";
        if (seat->work.batches != team->work.batches || seat->work.end != team->work.end)
            snprintf(text, sizeof text,
                     "has other data or options than rank 0: samples up to %" PRIu64 " in %" PRIu64
                     " batches, not up to %" PRIu64 " in %" PRIu64,
                     seat->work.end, seat->work.batches, team->work.end, team->work.batches);
        tmk_team_failed(team, rank, TMK_MISMATCH, text);
        return;
    }
    const struct range range = tmk_team_hand_out(team, rank);
    tmk_team_send(&range, sizeof range, rank, TAG_RANGE);
}

/* Whoever asks before rank 0 knows what there is to do, waits. */
static void answer_all(struct tmk_team *team) {
    for (uint32_t i = 1; i < team->size; i++)
        if (team->seats[i].waits && !team->stopped)
            answer(team, i);
}

static bool hear_one(struct tmk_team *team) {
    MPI_Status status;
    if (tmk_team_has(MPI_ANY_SOURCE, TAG_ASK, &status)) {
        struct seat *seat = &team->seats[status.MPI_SOURCE];
        tmk_team_receive(&seat->work, sizeof seat->work, (uint32_t)status.MPI_SOURCE, TAG_ASK);
        seat->waits = true;
        if (team->offered && !team->stopped)
            answer(team, (uint32_t)status.MPI_SOURCE);
        return true;
    }
    if (tmk_team_has(MPI_ANY_SOURCE, TAG_NOTICE, &status)) {
        struct notice notice;
        uint32_t rank = (uint32_t)status.MPI_SOURCE;
        tmk_team_receive(&notice, sizeof notice, rank, TAG_NOTICE);
        if (notice.stays) {
            team->wishes = true;
            tmk_team_call(team);
            return true;
        }
        team->seats[rank].left = true;
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
            tmk_team_nap(&naps);
    }
    return NULL;
}
