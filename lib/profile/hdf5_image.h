/* SPDX-License-Identifier: Apache-2.0 */
/* An HDF5 file that is made in memory and written in one go, so that it appears whole or not at
 * all. */
#ifndef TMK_PROFILE_HDF5_IMAGE_H
#define TMK_PROFILE_HDF5_IMAGE_H

#include "base/file.h"
#include "profile/hdf5.h"

/* H5Fget_file_image spoils the checksum of newer superblocks (1.10.8); so the driver's own memory
 * is taken over when it closes the file and would free it. Zero-initialised before it opens. */
struct tmk_h5_image {
    unsigned char *bytes;
};

/* The empty file; it is not kept. Negative on failure. */
hid_t tmk_h5_image_open(struct tmk_h5 *h, struct tmk_h5_image *image);
/* Closes the file (may be negative) and the session, and appends its bytes where all went well so
 * far: `status`, and HDF5 itself. Everything else that was kept has been released. */
TMK_NODISCARD enum tmk_status tmk_h5_image_finish(struct tmk_h5 *h, hid_t file,
                                                  struct tmk_h5_image *image,
                                                  enum tmk_status status, struct tmk_outfile *out,
                                                  struct tmk_diag *diag);

#endif
