/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "dist/mpi_internal.h"
#include "dist/team.h"

/* Rank 0 as the coordinator. */

/* At rank 0, the lock is held. */
static void team_failed(struct tmk_team *team, uint32_t rank, enum tmk_status status,
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

/* At rank 0, the lock is held: has all gather, unless they do already. */
static void team_pause(struct tmk_team *team) {
    if (!team->paused && !team->over && !team->stopped)
        tmk_team_send_command(team, COMMAND_PAUSE);
    team->paused = true;
}

static struct range team_assign_range(struct tmk_team *team, uint32_t rank) {
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
        team_failed(team, rank, TMK_MISMATCH, text);
        return;
    }
    const struct range range = team_assign_range(team, rank);
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
            team_pause(team);
            return true;
        }
        team->rank_states[rank].left = true;
        team->gone++;
        if (notice.status != TMK_OK)
            team_failed(team, rank, (enum tmk_status)notice.status, notice.text);
        return true;
    }
    return false;
}

/* Rank 0's thread; ends when all have left. */
static void *team_serve(void *argument) {
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

enum {
    LONGEST_NAP_US = 500,
    BROADCAST_PIECE = 1024,
    MACHINE_FAILED = 4 /* of the program's exit statuses */
};

/* ---- small things ---- */

void tmk_team_back_off(uint32_t *naps) {
    long us = *naps < 4 ? 20L << *naps : LONGEST_NAP_US;
    *naps += *naps < 4;
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

bool tmk_team_probe(int from, enum tag tag, MPI_Status *status) {
    int there = 0;
    MPI_Iprobe(from, (int)tag, MPI_COMM_WORLD, &there, status);
    return there;
}

void tmk_team_send(const void *bytes, int n, uint32_t to, enum tag tag) {
    MPI_Send(bytes, n, MPI_BYTE, (int)to, (int)tag, MPI_COMM_WORLD);
}

void tmk_team_receive(void *bytes, int n, uint32_t from, enum tag tag) {
    MPI_Recv(bytes, n, MPI_BYTE, (int)from, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

bool tmk_team_is_stopped(struct tmk_team *team) {
    while (team->rank != 0 && tmk_team_probe(0, TAG_COMMAND, MPI_STATUS_IGNORE)) {
        enum command command;
        tmk_team_receive(&command, sizeof command, 0, TAG_COMMAND);
        switch (command) {
        case COMMAND_PAUSE:
            team->paused = true;
            break;
        case COMMAND_CONTINUE:
            team->paused = false;
            team->rounds++;
            break;
        case COMMAND_END:
            team->over = true;
            break;
        case COMMAND_FAILED:
            team->stopped = true;
        }
    }
    return team->stopped;
}

void tmk_team_send_command(struct tmk_team *team, enum command command) {
    for (uint32_t i = 1; i < team->size; i++)
        if (!team->rank_states[i].left)
            tmk_team_send(&command, sizeof command, i, TAG_COMMAND);
}

enum tmk_status tmk_team_fail_interrupted(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_INTERRUPTED, "another rank has failed");
}

uint32_t tmk_team_rank(const struct tmk_team *team) {
    return team ? team->rank : 0;
}

uint32_t tmk_team_size(const struct tmk_team *team) {
    return team ? team->size : 1;
}

/* ---- joining ---- */

/* The network has failed: no message reaches the others. */
static void give_up(MPI_Comm *comm, int *error, ...) {
    (void)error;
    MPI_Abort(*comm, MACHINE_FAILED);
}

static enum tmk_status set_up(struct tmk_team **out, uint32_t rank, uint32_t size,
                              struct tmk_diag *diag) {
    struct tmk_team *team = calloc(1, sizeof *team);
    struct rank_state *rank_states = calloc(rank ? 1 : size, sizeof *rank_states);
    if (!team || !rank_states) {
        free(team);
        free(rank_states);
        return tmk_nomem(diag);
    }
    team->rank = rank;
    team->size = size;
    team->rank_states = rank_states;
    pthread_mutex_init(&team->lock, NULL);
    int error = rank ? 0 : pthread_create(&team->server, NULL, team_serve, team);
    if (!error) {
        *out = team;
        return TMK_OK;
    }
    pthread_mutex_destroy(&team->lock);
    free(rank_states);
    free(team);
    return tmk_fail(diag, TMK_MACHINE, "cannot start a thread: %s", strerror(error));
}

enum tmk_status tmk_team_join(struct tmk_team **out, struct tmk_diag *diag) {
    int got, rank, size;
    MPI_Errhandler handler;
    *out = NULL;
    if (!tmk_launch_of_environment().by_launcher)
        return TMK_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &got) != MPI_SUCCESS)
        return tmk_fail(diag, TMK_MACHINE, "MPI could not be started");
    MPI_Comm_create_errhandler(give_up, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1) {
        MPI_Finalize();
        return TMK_OK;
    }
    enum tmk_status status =
        got >= MPI_THREAD_SERIALIZED
            ? set_up(out, (uint32_t)rank, (uint32_t)size, diag)
            : tmk_fail(diag, TMK_MACHINE, "this MPI cannot be used by threads in turn");
    /* the others would wait for this rank forever */
    if (status != TMK_OK)
        MPI_Abort(MPI_COMM_WORLD, MACHINE_FAILED);
    return status;
}

/* ---- taking ---- */

enum tmk_status tmk_team_offer(struct tmk_team *team, const struct tmk_work *work,
                               const struct tmk_batches *done, uint32_t n_done,
                               struct tmk_diag *diag) {
    struct tmk_batches *kept = NULL;
    const bool hands_out = team->rank == 0;
    if (hands_out && n_done) {
        kept = calloc(n_done, sizeof *kept);
        TMK_TRY_ALLOC(kept, diag);
        memcpy(kept, done, n_done * sizeof *kept);
    }
    pthread_mutex_lock(&team->lock);
    team->work = *work;
    if (hands_out) {
        team->done = kept;
        team->share = tmk_share_of(work->batches, kept, n_done, team->size);
        team->n_assigned = work->batches - team->share.all;
    }
    team->offered = true;
    pthread_mutex_unlock(&team->lock);
    return TMK_OK;
}

/* The lock is held. False: not yet. */
static bool get_range(struct tmk_team *team, struct range *out) {
    if (team->rank == 0) {
        *out = team_assign_range(team, 0);
        return true;
    }
    if (!tmk_team_probe(0, TAG_RANGE, MPI_STATUS_IGNORE))
        return false;
    tmk_team_receive(out, sizeof *out, 0, TAG_RANGE);
    return true;
}

enum tmk_status tmk_team_take(struct tmk_team *team, uint64_t *begin, uint64_t *end, bool *more,
                              struct tmk_diag *diag) {
    struct range range = {0};
    bool stopped;
    uint32_t naps = 0;
    pthread_mutex_lock(&team->lock);
    stopped = tmk_team_is_stopped(team);
    if (!stopped && team->rank != 0)
        tmk_team_send(&team->work, sizeof team->work, 0, TAG_REQUEST);
    while (!stopped && !get_range(team, &range)) {
        pthread_mutex_unlock(&team->lock);
        tmk_team_back_off(&naps);
        pthread_mutex_lock(&team->lock);
        stopped = tmk_team_is_stopped(team);
    }
    pthread_mutex_unlock(&team->lock);
    if (stopped)
        return tmk_team_fail_interrupted(diag);
    *begin = range.begin;
    *end = range.end;
    *more = range.more;
    return TMK_OK;
}

enum tmk_status tmk_team_poll(struct tmk_team *team, enum tmk_team_request request, bool *pause,
                              struct tmk_diag *diag) {
    const struct notice notice = {.stays = true};
    const bool stop = request == TMK_REQUEST_STOP;
    pthread_mutex_lock(&team->lock);
    bool stopped = tmk_team_is_stopped(team);
    if (team->rank == 0 && request != TMK_REQUEST_NONE)
        team_pause(team);
    else if (team->rank != 0 && stop && !team->stop_requested)
        tmk_team_send(&notice, sizeof notice, 0, TAG_NOTICE);
    team->stop_requested |= stop;
    *pause = team->paused;
    pthread_mutex_unlock(&team->lock);
    return stopped ? tmk_team_fail_interrupted(diag) : TMK_OK;
}

/* ---- telling ---- */

/* In pieces that no MPI keeps a sender waiting for: who hears may be long in coming. */
void tmk_team_broadcast(struct tmk_team *team, const void *bytes, size_t n) {
    pthread_mutex_lock(&team->lock);
    for (uint32_t i = 1; i < team->size; i++)
        for (size_t at = 0; at < n && !team->rank_states[i].left; at += BROADCAST_PIECE)
            tmk_team_send((const char *)bytes + at,
                          (int)(n - at < BROADCAST_PIECE ? n - at : BROADCAST_PIECE), i,
                          TAG_BROADCAST);
    pthread_mutex_unlock(&team->lock);
}

static enum tmk_status hear_piece(struct tmk_team *team, char *bytes, size_t n,
                                  struct tmk_diag *diag) {
    bool there = false, stopped = false;
    MPI_Status status;
    int come = 0;
    for (uint32_t naps = 0; !there && !stopped;) {
        pthread_mutex_lock(&team->lock);
        stopped = tmk_team_is_stopped(team);
        there = !stopped && tmk_team_probe(0, TAG_BROADCAST, &status);
        if (there)
            MPI_Get_count(&status, MPI_BYTE, &come);
        if (there && come == (int)n)
            tmk_team_receive(bytes, (int)n, 0, TAG_BROADCAST);
        pthread_mutex_unlock(&team->lock);
        if (!there && !stopped)
            tmk_team_back_off(&naps);
    }
    if (stopped)
        return tmk_team_fail_interrupted(diag);
    return come == (int)n ? TMK_OK
                          : tmk_fail(diag, TMK_MISMATCH, "has other data or options than rank 0");
}

enum tmk_status tmk_team_receive_broadcast(struct tmk_team *team, void *bytes, size_t n,
                                           struct tmk_diag *diag) {
    for (size_t at = 0; at < n; at += BROADCAST_PIECE)
        TMK_TRY(hear_piece(team, (char *)bytes + at,
                           n - at < BROADCAST_PIECE ? n - at : BROADCAST_PIECE, diag));
    return TMK_OK;
}

uint64_t tmk_team_done(struct tmk_team *team) {
    pthread_mutex_lock(&team->lock);
    uint64_t done = team->n_assigned;
    for (uint32_t i = 0; team->rank == 0 && i < team->size; i++)
        done -= team->rank_states[i].n_in_progress;
    pthread_mutex_unlock(&team->lock);
    return done;
}

/* ---- leaving ---- */

/* Rank 0 waits for all, and sends them the result. */
static struct notice finish_rank0(struct tmk_team *team, enum tmk_status status, const char *text) {
    uint32_t naps = 0;
    pthread_mutex_lock(&team->lock);
    if (status != TMK_OK)
        team_failed(team, 0, status, text);
    team->rank_states[0].left = true;
    team->gone++;
    while (team->gone != team->size) {
        tmk_team_decline();
        pthread_mutex_unlock(&team->lock);
        tmk_team_back_off(&naps);
        pthread_mutex_lock(&team->lock);
    }
    pthread_mutex_unlock(&team->lock);
    pthread_join(team->server, NULL);
    for (uint32_t i = 1; i < team->size; i++)
        tmk_team_send(&team->failure, sizeof team->failure, i, TAG_VERDICT);
    return team->failure;
}

static struct notice await_verdict(struct tmk_team *team, enum tmk_status status,
                                   const char *text) {
    struct notice notice = {.status = (int32_t)status};
    uint32_t naps = 0;
    snprintf(notice.text, sizeof notice.text, "%s", text);
    pthread_mutex_lock(&team->lock);
    tmk_team_send(&notice, sizeof notice, 0, TAG_NOTICE);
    while (!tmk_team_probe(0, TAG_VERDICT, MPI_STATUS_IGNORE)) {
        tmk_team_decline();
        pthread_mutex_unlock(&team->lock);
        tmk_team_back_off(&naps);
        pthread_mutex_lock(&team->lock);
    }
    tmk_team_receive(&notice, sizeof notice, 0, TAG_VERDICT);
    (void)tmk_team_is_stopped(team); /* takes words that were not asked for */
    pthread_mutex_unlock(&team->lock);
    return notice;
}

enum tmk_status tmk_team_leave(struct tmk_team **slot, enum tmk_status status,
                               struct tmk_diag *diag) {
    struct tmk_team *team = slot ? *slot : NULL;
    if (!team)
        return status;
    const char *text = diag && diag->text[0] ? diag->text : tmk_status_text(status);
    const struct notice verdict =
        team->rank == 0 ? finish_rank0(team, status, text) : await_verdict(team, status, text);
    MPI_Finalize();
    pthread_mutex_destroy(&team->lock);
    free(team->rank_states);
    free(team->done);
    free(team);
    *slot = NULL;
    if (diag)
        tmk_diag_reset(diag);
    if (verdict.status == TMK_OK)
        return TMK_OK;
    return tmk_fail(diag, (enum tmk_status)verdict.status, "%s", verdict.text);
}
