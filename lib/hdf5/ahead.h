/* SPDX-License-Identifier: Apache-2.0 */
/* An open file from inside: at most one read ahead of the caller is under way. */
#ifndef TMK_HDF5_AHEAD_H
#define TMK_HDF5_AHEAD_H

#include "hdf5/process.h"

struct tmk_hdf5 {
    struct tmk_infile bytes;
    struct tmk_hdf5_process process;
    struct tmk_hdf5_ask ahead; /* the read under way; op OPEN: none is */
    uint32_t last;             /* the dataset that was read last, + 1 */
};

/* Waits for the read that is under way, and forgets what it brings. */
void tmk_hdf5_drop_ahead(struct tmk_hdf5 *file);
/* Asks, and waits for the answer, of exactly `size` bytes. */
TMK_NODISCARD enum tmk_status tmk_hdf5_call(struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask,
                                            const void *more, size_t len, void *answer, size_t size,
                                            struct tmk_diag *diag);

#endif
