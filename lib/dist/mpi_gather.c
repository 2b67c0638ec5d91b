/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles travel up a binary tree, as checkpoints: those hold what running made, and the names
 * that they lack are known to every rank. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/text.h"
#include "dist/mpi_parts.h"
#include "profile/checkpoint.h"

enum { PIECE = 1 << 30 }; /* MPI counts in int */

void tmk_team_decline(void) {
    MPI_Status status;
    while (tmk_team_has(MPI_ANY_SOURCE, TAG_LENGTH, &status)) {
        const bool no = false;
        uint64_t length;
        tmk_team_receive(&length, sizeof length, (uint32_t)status.MPI_SOURCE, TAG_LENGTH);
        if (length)
            tmk_team_send(&no, sizeof no, (uint32_t)status.MPI_SOURCE, TAG_ANSWER);
    }
}

static bool is_empty(const struct tmk_profile *profile) {
    struct tmk_profile_range any;
    return !tmk_profile_range(profile, 0, &any);
}

/* ---- up ---- */

/* Once its length has been told, the sender waits for the answer whatever happens; the receiver
 * gives one, at the latest when it leaves. So no transfer is ever broken off half-way. */
static bool may_send(struct tmk_team *team, uint32_t to) {
    bool yes = false, there = false;
    uint32_t naps = 0;
    while (!there) {
        tmk_team_nap(&naps);
        pthread_mutex_lock(&team->lock);
        there = tmk_team_has((int)to, TAG_ANSWER, MPI_STATUS_IGNORE);
        if (there)
            tmk_team_receive(&yes, sizeof yes, to, TAG_ANSWER);
        pthread_mutex_unlock(&team->lock);
    }
    return yes;
}

static void send_length(struct tmk_team *team, uint64_t length, uint32_t to) {
    pthread_mutex_lock(&team->lock);
    tmk_team_send(&length, sizeof length, to, TAG_LENGTH);
    pthread_mutex_unlock(&team->lock);
}

static enum tmk_status send_up(struct tmk_team *team, const struct tmk_profile *profile,
                               uint32_t to, struct tmk_diag *diag) {
    struct tmk_text bytes = {0};
    if (is_empty(profile)) {
        send_length(team, 0, to);
        return TMK_OK;
    }
    enum tmk_status status = tmk_checkpoint_encode(profile, &bytes, diag);
    if (status == TMK_OK) {
        send_length(team, bytes.len, to);
        if (!may_send(team, to))
            status = tmk_team_interrupted(diag);
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

static enum tmk_status await_length(struct tmk_team *team, uint32_t from, uint64_t *length,
                                    struct tmk_diag *diag) {
    bool there = false, stopped = false;
    for (uint32_t naps = 0; !there && !stopped;) {
        pthread_mutex_lock(&team->lock);
        stopped = tmk_team_is_stopped(team);
        there = !stopped && tmk_team_has((int)from, TAG_LENGTH, MPI_STATUS_IGNORE);
        if (there)
            tmk_team_receive(length, sizeof *length, from, TAG_LENGTH);
        pthread_mutex_unlock(&team->lock);
        if (!there && !stopped)
            tmk_team_nap(&naps);
    }
    return stopped ? tmk_team_interrupted(diag) : TMK_OK;
}

/* *bytes NULL: it has none. */
static enum tmk_status receive(struct tmk_team *team, uint32_t from, char **bytes, uint64_t *length,
                               struct tmk_diag *diag) {
    *bytes = NULL;
    TMK_TRY(await_length(team, from, length, diag));
    if (!*length)
        return TMK_OK;
    char *room = *length <= SIZE_MAX ? malloc((size_t)*length) : NULL;
    const bool yes = room != NULL;
    pthread_mutex_lock(&team->lock);
    tmk_team_send(&yes, sizeof yes, from, TAG_ANSWER);
    for (uint64_t at = 0; yes && at < *length; at += PIECE)
        tmk_team_receive(room + at, (int)(*length - at < PIECE ? *length - at : PIECE), from,
                         TAG_BYTES);
    pthread_mutex_unlock(&team->lock);
    if (!yes)
        return tmk_nomem(diag);
    *bytes = room;
    return TMK_OK;
}

static enum tmk_status add_from(struct tmk_team *team, struct tmk_profile *profile, uint32_t from,
                                struct tmk_diag *diag) {
    struct tmk_profile *other = NULL;
    char *bytes;
    uint64_t length;
    TMK_TRY(receive(team, from, &bytes, &length, diag));
    if (!bytes)
        return TMK_OK;
    enum tmk_status status = tmk_checkpoint_decode(bytes, (size_t)length, &other, diag);
    free(bytes);
    if (status == TMK_OK)
        status = tmk_checkpoint_add(profile, other, diag);
    tmk_profile_destroy(&other);
    return tmk_in(diag, status, "the profile of rank %u", from);
}

enum tmk_status tmk_team_gather(struct tmk_team *team, struct tmk_profile **profile,
                                struct tmk_diag *diag) {
    if (!team)
        return TMK_OK;
    for (uint64_t step = 1; step < team->size; step *= 2) {
        if (team->rank & step) {
            TMK_TRY(send_up(team, *profile, team->rank - (uint32_t)step, diag));
            break;
        }
        if (team->rank + step < team->size)
            TMK_TRY(add_from(team, *profile, team->rank + (uint32_t)step, diag));
    }
    if (team->rank != 0)
        tmk_profile_destroy(profile);
    return TMK_OK;
}
