/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between the library and a helper program: a message each way begins it, then each
 * request has one answer, in order. Both sides are of one version, so messages are structs in the
 * machine's order. Bulk goes through shared memory. */
#pragma once

#include <stdint.h>

enum {
    /* The descriptors of a helper program; it has no others. */
    TMK_HELPER_SOCKET = 3,
    TMK_HELPER_SHARED,
    TMK_HELPER_FILE, /* what it reads, if anything */
    TMK_HELPER_N_FDS,
    TMK_HELPER_MOST_MESSAGE = 1 << 14,
    TMK_HELPER_MOST_WHY = 256,
};

struct tmk_helper_begin {
    uint64_t memory; /* bytes that it may take on top of what it starts with */
    uint64_t shared; /* bytes of shared memory */
    int64_t owner;   /* the process that started it */
};

/* What holds it from now on. */
struct tmk_helper_ready {
    char version[32];
    uint32_t seccomp;  /* 1: calls are filtered */
    uint32_t landlock; /* the version of Landlock that refuses files; 0: none does */
};

struct tmk_helper_answer {
    uint32_t op, outcome;          /* outcome: 0: done */
    char why[TMK_HELPER_MOST_WHY]; /* of a failure */
};
