/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the MPI team share.
 *
 * Rank 0 has a thread that serves: it assigns ranges, receives who leaves, and notifies all when
 * one of them failed. Everybody else's answers come from it, so a rank never waits for another's
 * work, but in gather.
 *
 * MPI is called by one thread at a time (`lock`), so MPI_THREAD_SERIALIZED is enough, which every
 * MPI of note gives, with or without a lock of its own around each call. No rank blocks in MPI
 * while waiting: Open MPI and MPICH wait by turning a processor, which belongs to the workers.
 * Waiting is asking, sleeping, asking again; only a message that is known to be on its way is
 * waited for. */
#pragma once

#include <mpi.h>
#include <pthread.h>

#include "dist/team.h"

enum tag {
    TAG_REQUEST = 1, /* to rank 0: a range, please; struct tmk_work that the rank sees */
    TAG_RANGE,       /* struct range */
    TAG_COMMAND,     /* from rank 0: enum command */
    TAG_BROADCAST,   /* from rank 0, once: bytes */
    TAG_NOTICE,      /* to rank 0: struct notice; this rank leaves, or wishes to stop */
    TAG_VERDICT,     /* from rank 0, to all when all have left: struct notice */
    TAG_OFFER,       /* struct offer */
    TAG_REPLY,       /* to that, where it has a length: bool, whether the profile may come */
    TAG_BYTES        /* the profile, in pieces */
};

enum command {
    COMMAND_PAUSE,    /* gather, please */
    COMMAND_CONTINUE, /* all have gathered; there is another round */
    COMMAND_END,      /* all have gathered, and that was it */
    COMMAND_FAILED    /* a rank failed */
};

struct range {
    uint64_t more, begin, end;
};

struct offer {
    uint64_t length; /* of the profile; 0: there is none */
    bool finished;   /* this rank, and those that it speaks for, have nothing left to run */
};

struct notice {
    bool stays; /* and wishes to stop */
    int32_t status;
    char text[sizeof((struct tmk_diag *)0)->text];
};

/* What rank 0 has of a rank. */
struct rank_state {
    bool waits, left;
    struct tmk_work work;   /* as the rank sees it */
    uint64_t n_in_progress; /* batches */
};

struct tmk_team {
    uint32_t rank, size;
    pthread_mutex_t lock; /* of MPI, and of what follows */
    bool stopped;         /* a rank failed */
    bool paused;          /* all are to gather */
    bool over;            /* the last round has ended */
    bool stop_requested;  /* to stop; at rank 0, any rank has requested it */
    uint64_t rounds;
    bool offered;
    struct tmk_work work;
    /* at rank 0 */
    struct tmk_share share;
    struct tmk_batches *done;       /* of the share */
    struct rank_state *rank_states; /* one a rank */
    uint32_t gone;
    uint64_t n_assigned; /* batches */
    struct notice failure;
    pthread_t server;
};

/* Ever longer, up to half a millisecond; *naps starts at 0. */
void tmk_team_back_off(uint32_t *naps);
/* The lock is held: is there such a message? */
bool tmk_team_probe(int from, enum tag tag, MPI_Status *status);
void tmk_team_send(const void *bytes, int n, uint32_t to, enum tag tag);
void tmk_team_receive(void *bytes, int n, uint32_t from, enum tag tag);
/* The lock is held: receives what rank 0 sent; has another rank failed? */
bool tmk_team_is_stopped(struct tmk_team *team);
enum tmk_status tmk_team_fail_interrupted(struct tmk_diag *diag);
/* At rank 0, the lock is held: sends it to all that have not left. */
void tmk_team_send_command(struct tmk_team *team, enum command command);
/* The lock is held: declines the profiles that are on offer, for who will not take any more. */
void tmk_team_decline(void);
