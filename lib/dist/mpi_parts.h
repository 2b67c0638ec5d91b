/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the MPI team share.
 *
 * Rank 0 has a thread that serves: it hands out ranges, hears who leaves, and tells all when one of
 * them failed. Everybody else's answers come from it, so a rank never waits for another's work,
 * but in gather.
 *
 * MPI is called by one thread at a time (`lock`), so MPI_THREAD_SERIALIZED is enough, which every
 * MPI of note gives, with or without a lock of its own around each call. Nobody blocks in MPI while
 * waiting: Open MPI and MPICH wait by turning a processor, which belongs to the workers. Waiting is
 * asking, sleeping, asking again; only a message that is known to be on its way is waited for. */
#ifndef TMK_DIST_MPI_PARTS_H
#define TMK_DIST_MPI_PARTS_H

#include <mpi.h>
#include <pthread.h>

#include "dist/team.h"

enum tag {
    TAG_ASK = 1, /* to rank 0: a range, please; struct tmk_work that the rank sees */
    TAG_RANGE,   /* struct range */
    TAG_STOP,    /* from rank 0: somebody failed; empty */
    TAG_LEFT,    /* to rank 0: struct notice */
    TAG_VERDICT, /* from rank 0, to all when all have left: struct notice */
    TAG_LENGTH,  /* of the profile that is to follow; uint64_t, 0: there is none */
    TAG_ANSWER,  /* to that: bool, whether it may come */
    TAG_BYTES    /* the profile, in pieces */
};

struct range {
    uint64_t more, begin, end;
};

struct notice {
    int32_t status;
    char text[sizeof((struct tmk_diag *)0)->text];
};

/* What rank 0 knows of a rank. */
struct seat {
    bool waits, left;
    struct tmk_work work; /* as the rank sees it */
    uint64_t at_hand;     /* batches */
};

struct tmk_team {
    uint32_t rank, size;
    pthread_mutex_t lock; /* of MPI, and of what follows */
    bool stopped;
    bool offered;
    struct tmk_work work;
    /* at rank 0 */
    struct tmk_share share;
    struct seat *seats; /* one a rank */
    uint32_t gone;
    uint64_t handed; /* batches */
    struct notice failure;
    pthread_t server;
};

/* Ever longer, up to half a millisecond; *naps starts at 0. */
void tmk_team_nap(uint32_t *naps);
/* The lock is held: is there such a message? */
bool tmk_team_has(int from, enum tag tag, MPI_Status *status);
void tmk_team_send(const void *bytes, int n, uint32_t to, enum tag tag);
void tmk_team_receive(void *bytes, int n, uint32_t from, enum tag tag);
/* The lock is held: has another rank failed? */
bool tmk_team_is_stopped(struct tmk_team *team);
enum tmk_status tmk_team_interrupted(struct tmk_diag *diag);
/* The lock is held: declines the profiles that are on offer, for who will not take any more. */
void tmk_team_decline(void);

/* Rank 0's thread; ends when all have left. */
void *tmk_team_serve(void *team);
/* At rank 0, the lock is held. */
void tmk_team_failed(struct tmk_team *team, uint32_t rank, enum tmk_status status,
                     const char *text);
struct range tmk_team_hand_out(struct tmk_team *team, uint32_t rank);

#endif
