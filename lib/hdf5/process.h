/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads one HDF5 file, seen from the one that wants it. */
#ifndef TMK_HDF5_PROCESS_H
#define TMK_HDF5_PROCESS_H

#include <sys/types.h>

#include "hdf5/wire.h"

struct tmk_hdf5_process {
    int fd;           /* of the socket; -1: there is no process any more */
    pid_t pid, owner; /* the process (0: it has no parent here), and the one that may talk to it */
    unsigned char *shared; /* the halves */
    uint64_t memory;       /* bytes that it may take */
    enum tmk_status status;
    const char *end; /* once there is none: how it ended; static text */
};

/* Starts it on this path. End with tmk_hdf5_process_end. */
TMK_NODISCARD enum tmk_status tmk_hdf5_process_begin(const char *path, struct tmk_hdf5_process *out,
                                                     struct tmk_diag *diag);
/* Harmless on one that never began (zeroed, fd -1). */
void tmk_hdf5_process_end(struct tmk_hdf5_process *process);

/* Sends a message of a header and `len` further bytes. */
TMK_NODISCARD enum tmk_status tmk_hdf5_send(struct tmk_hdf5_process *process,
                                            const struct tmk_hdf5_ask *ask, const void *more,
                                            size_t len, struct tmk_diag *diag);
/* Waits for the answer to the oldest message that has none; it brings exactly `len` bytes, or
 * states why there are none. A process that does not come on for a minute is given up: TMK_READ. */
TMK_NODISCARD enum tmk_status tmk_hdf5_receive(struct tmk_hdf5_process *process,
                                               enum tmk_hdf5_op op, void *more, size_t len,
                                               struct tmk_diag *diag);

#endif
