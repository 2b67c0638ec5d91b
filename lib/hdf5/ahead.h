/* SPDX-License-Identifier: Apache-2.0 */
/* An open file from inside: at most one read ahead of the caller is under way. */
#ifndef TMK_HDF5_AHEAD_H
#define TMK_HDF5_AHEAD_H

#include "hdf5/wire.h"
#include "sandbox/helper.h"

extern const struct tmk_helper_kind tmk_hdf5_helper;

struct tmk_hdf5 {
    struct tmk_infile bytes;
    struct tmk_helper process;
    struct tmk_hdf5_ask ahead; /* the read under way; op OPEN: none is */
    uint32_t last;             /* the dataset that was read last, + 1 */
};

/* Waits for the read that is under way, and forgets what it brings. */
void tmk_hdf5_drop_ahead(struct tmk_hdf5 *file);
/* Sends a request of a header and `len` further bytes. `unpacked`: bytes that it may unpack. */
TMK_NODISCARD enum tmk_status tmk_hdf5_send(struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask,
                                            const void *more, size_t len, uint64_t unpacked,
                                            struct tmk_diag *diag);
/* Waits for the answer to the oldest request that has none; it brings exactly `len` bytes, or
 * states why there are none. */
TMK_NODISCARD enum tmk_status tmk_hdf5_receive(struct tmk_hdf5 *file, enum tmk_hdf5_op op,
                                               void *more, size_t len, struct tmk_diag *diag);
/* Asks, and waits for the answer, of exactly `size` bytes. */
TMK_NODISCARD enum tmk_status tmk_hdf5_call(struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask,
                                            const void *more, size_t len, void *answer, size_t size,
                                            struct tmk_diag *diag);

#endif
