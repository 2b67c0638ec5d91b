/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles travel up a binary tree, as checkpoints: those hold what running made, and the names
 * that they lack are known to every rank. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/text.h"
#include "dist/mpi_internal.h"
#include "profile/checkpoint.h"

enum { PIECE = 1 << 30 }; /* MPI counts in int */

void tmk_team_decline(void) {
    MPI_Status status;
    while (tmk_team_probe(MPI_ANY_SOURCE, TAG_OFFER, &status)) {
        const bool no = false;
        struct offer offer;
        tmk_team_receive(&offer, sizeof offer, (uint32_t)status.MPI_SOURCE, TAG_OFFER);
        if (offer.length)
            tmk_team_send(&no, sizeof no, (uint32_t)status.MPI_SOURCE, TAG_REPLY);
    }
}

static bool is_empty(const struct tmk_profile *profile) {
    struct tmk_profile_range any;
    return !tmk_profile_range(profile, 0, &any);
}

/* ---- up ---- */

/* Once its length was sent, the sender waits for the answer whatever happens; the receiver gives
 * one, at the latest when it leaves. So no transfer is ever broken off half-way. */
static bool may_send(struct tmk_team *team, uint32_t to) {
    bool yes = false, there = false;
    uint32_t naps = 0;
    while (!there) {
        tmk_team_back_off(&naps);
        pthread_mutex_lock(&team->lock);
        there = tmk_team_probe((int)to, TAG_REPLY, MPI_STATUS_IGNORE);
        if (there)
            tmk_team_receive(&yes, sizeof yes, to, TAG_REPLY);
        pthread_mutex_unlock(&team->lock);
    }
    return yes;
}

static void send_offer(struct tmk_team *team, uint64_t length, bool finished, uint32_t to) {
    const struct offer offer = {length, finished};
    pthread_mutex_lock(&team->lock);
    tmk_team_send(&offer, sizeof offer, to, TAG_OFFER);
    pthread_mutex_unlock(&team->lock);
}

static enum tmk_status send_up(struct tmk_team *team, const struct tmk_profile *profile,
                               bool finished, uint32_t to, struct tmk_diag *diag) {
    struct tmk_text bytes = {0};
    if (is_empty(profile)) {
        send_offer(team, 0, finished, to);
        return TMK_OK;
    }
    enum tmk_status status = tmk_checkpoint_pack(profile, &bytes, diag);
    if (status == TMK_OK) {
        send_offer(team, bytes.len, finished, to);
        if (!may_send(team, to))
            status = tmk_team_fail_interrupted(diag);
    }
    pthread_mutex_lock(&team->lock);
    for (size_t at = 0; status == TMK_OK && at < bytes.len; at += PIECE)
        tmk_team_send(bytes.data + at, (int)(bytes.len - at < PIECE ? bytes.len - at : PIECE), to,
                      TAG_BYTES);
    pthread_mutex_unlock(&team->lock);
    tmk_text_finish(&bytes);
    return status;
}

/* ---- down ---- */

static enum tmk_status await_offer(struct tmk_team *team, uint32_t from, struct offer *offer,
                                   struct tmk_diag *diag) {
    bool there = false, stopped = false;
    for (uint32_t naps = 0; !there && !stopped;) {
        pthread_mutex_lock(&team->lock);
        stopped = tmk_team_is_stopped(team);
        there = !stopped && tmk_team_probe((int)from, TAG_OFFER, MPI_STATUS_IGNORE);
        if (there)
            tmk_team_receive(offer, sizeof *offer, from, TAG_OFFER);
        pthread_mutex_unlock(&team->lock);
        if (!there && !stopped)
            tmk_team_back_off(&naps);
    }
    return stopped ? tmk_team_fail_interrupted(diag) : TMK_OK;
}

/* What was offered. */
static enum tmk_status receive_profile(struct tmk_team *team, uint32_t from, uint64_t length,
                                       char **bytes, struct tmk_diag *diag) {
    char *buffer = length <= SIZE_MAX ? malloc((size_t)length) : NULL;
    const bool yes = buffer != NULL;
    pthread_mutex_lock(&team->lock);
    tmk_team_send(&yes, sizeof yes, from, TAG_REPLY);
    for (uint64_t at = 0; yes && at < length; at += PIECE)
        tmk_team_receive(buffer + at, (int)(length - at < PIECE ? length - at : PIECE), from,
                         TAG_BYTES);
    pthread_mutex_unlock(&team->lock);
    TMK_TRY_ALLOC(yes, diag);
    *bytes = buffer;
    return TMK_OK;
}

static enum tmk_status add_from(struct tmk_team *team, struct tmk_profile *profile, uint32_t from,
                                bool *finished, struct tmk_diag *diag) {
    struct tmk_profile *other = NULL;
    struct offer offer = {0};
    char *bytes;
    TMK_TRY(await_offer(team, from, &offer, diag));
    *finished &= offer.finished;
    if (!offer.length)
        return TMK_OK;
    TMK_TRY(receive_profile(team, from, offer.length, &bytes, diag));
    enum tmk_status status = tmk_checkpoint_unpack(bytes, (size_t)offer.length, &other, diag);
    free(bytes);
    TMK_THEN(status, tmk_checkpoint_add(profile, other, diag));
    tmk_profile_destroy(&other);
    return tmk_in(diag, status, "the profile of rank %u", from);
}

/* ---- the end of a round ---- */

static enum tmk_round decide_round(struct tmk_team *team, bool finished) {
    pthread_mutex_lock(&team->lock);
    const enum tmk_round round = finished               ? TMK_ROUND_FINISHED
                                 : team->stop_requested ? TMK_ROUND_STOPPED
                                                        : TMK_ROUND_PAUSED;
    team->over = round != TMK_ROUND_PAUSED;
    team->paused = false;
    tmk_team_send_command(team, team->over ? COMMAND_END : COMMAND_CONTINUE);
    pthread_mutex_unlock(&team->lock);
    return round;
}

enum tmk_status tmk_team_gather(struct tmk_team *team, struct tmk_profile **profile,
                                enum tmk_round *round, struct tmk_diag *diag) {
    bool finished = *round == TMK_ROUND_FINISHED;
    uint64_t rounds = team->rounds; /* only this thread waits for it to change */
    for (uint64_t step = 1; step < team->size; step *= 2) {
        if (team->rank & step) {
            TMK_TRY(send_up(team, *profile, finished, team->rank - (uint32_t)step, diag));
            break;
        }
        if (team->rank + step < team->size)
            TMK_TRY(add_from(team, *profile, team->rank + (uint32_t)step, &finished, diag));
    }
    if (team->rank == 0) {
        *round = decide_round(team, finished);
        return TMK_OK;
    }
    tmk_profile_destroy(profile);
    bool stopped = false, there = false;
    for (uint32_t naps = 0; !there && !stopped;) {
        pthread_mutex_lock(&team->lock);
        stopped = tmk_team_is_stopped(team);
        *round = team->over ? TMK_ROUND_FINISHED : TMK_ROUND_PAUSED;
        there = team->over || team->rounds != rounds;
        pthread_mutex_unlock(&team->lock);
        if (!there && !stopped)
            tmk_team_back_off(&naps);
    }
    return stopped ? tmk_team_fail_interrupted(diag) : TMK_OK;
}
