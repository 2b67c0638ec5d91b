/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for HDF5 in a build without it. */
#include "base/diag.h"
#include "profile/format.h"

bool tmk_profile_has_hdf5(void) {
    return false;
}

enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    (void)profile;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "%s: this build has no HDF5; write .json, or build with -Dhdf5=enabled",
                    out->path);
}

enum tmk_status tmk_profile_read_hdf5(const char *path, struct tmk_profile *profile,
                                      struct tmk_diag *diag) {
    (void)path;
    (void)profile;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "an HDF5 file, but this build has no HDF5; build with -Dhdf5=enabled");
}
