/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of writing a profile as HDF5. */
#ifndef TMK_PROFILE_HDF5_WRITE_H
#define TMK_PROFILE_HDF5_WRITE_H

#include "profile/format.h"
#include "profile/hdf5_out.h"

/* What HDF5 itself could not do is noted in h5 only; a status is for everything else. */
struct tmk_h5_writer {
    const struct tmk_profile *profile;
    struct tmk_h5 h5;
    hid_t file;
    struct tmk_profile_bins bins;
    struct tmk_diag *diag;
};

TMK_NODISCARD enum tmk_status tmk_h5_write_tensors(struct tmk_h5_writer *w);
TMK_NODISCARD enum tmk_status tmk_h5_write_consumers(struct tmk_h5_writer *w);
TMK_NODISCARD enum tmk_status tmk_h5_write_integers(struct tmk_h5_writer *w);

#endif
