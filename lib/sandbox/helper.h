/* SPDX-License-Identifier: Apache-2.0 */
/* Helper programs: parsing of untrusted files outside of this process.
 *
 * Libraries that decode files crash, loop or write out of bounds on some damaged ones
 * (docs/fuzzing.md). So they never see such a file in this process: a program of its own reads it,
 * which confines itself first (sandbox/confine.h), gets data as open descriptors, answers requests
 * over a socket (sandbox/wire.h), and puts what is read into memory that both share. It may use so
 * much processor time a request and so much memory, no more; when it stands still it is given up;
 * it ends when this process closes its end of the socket, or ends. It is started with posix_spawn:
 * this process may have any number of threads.
 *
 * What it answers is as hostile as the file: sizes and kinds are checked where they arrive.
 *
 * A helper is used by one thread at a time, by the process that started it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <tidemark/status.h>

#include "sandbox/wire.h"

struct tmk_helper_kind {
    const char *program;
    const char *reads;   /* what it reads: "HDF5" */
    const char *library; /* what decodes it, for messages: "the HDF5 library" */
};

struct tmk_helper {
    const struct tmk_helper_kind *kind;
    int fd;           /* of the socket; -1: there is no process any more */
    pid_t pid, owner; /* the process (0: it has no parent here), and the one that may talk to it */
    unsigned char *shared; /* the shared memory */
    size_t size;           /* its bytes */
    uint64_t memory;       /* bytes that the process may take */
    struct tmk_helper_ready ready;
    /* Once there is no process: how it ended, static text; damaged: of what the library did. */
    enum tmk_status status;
    const char *end;
    bool damaged;
};

/* Starts the program and waits until it has confined itself. `file` is the descriptor that it
 * reads; -1: none. End with tmk_helper_end. TMK_MACHINE where it cannot be started. */
enum tmk_status tmk_helper_begin(const struct tmk_helper_kind *kind, int file, size_t shared,
                                 uint64_t memory, struct tmk_helper *out, struct tmk_diag *diag);
/* Harmless on one that never began (zeroed, fd -1). Waits for the process. */
void tmk_helper_end(struct tmk_helper *helper);

/* Sends a message of a header and `len` further bytes, for which the process may take so many
 * seconds of processor time. */
enum tmk_status tmk_helper_send(struct tmk_helper *helper, const void *ask, size_t size,
                                const void *more, size_t len, uint64_t seconds,
                                struct tmk_diag *diag);
/* Waits for the answer to the oldest message that has none: of the same op, and of exactly `len`
 * further bytes where its outcome is 0. A process that does not come on for a minute is given up:
 * TMK_READ. */
enum tmk_status tmk_helper_receive(struct tmk_helper *helper, uint32_t op,
                                   struct tmk_helper_answer *answer, void *more, size_t len,
                                   struct tmk_diag *diag);

/* Where the program is: in the folder that TIDEMARK_LIBEXEC names; else where it was built or
 * installed, seen from the file that has this code, and then only one that belongs to root or to
 * the owner of that file, and that others may not write. TMK_MACHINE. */
enum tmk_status tmk_helper_find(const char *program, char path[PATH_MAX], struct tmk_diag *diag);
