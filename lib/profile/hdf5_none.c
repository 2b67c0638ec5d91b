/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces HDF5 in a build without it. */
#include "base/diag.h"
#include "profile/format.h"
#include "profile/lineage_format.h"

static enum tmk_status cannot_read(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "an HDF5 file, but this build has no HDF5; build with -Dhdf5=enabled");
}

enum tmk_status tmk_profile_load_hdf5(const char *path, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "%s: this build has no HDF5; write .json, or build with -Dhdf5=enabled", path);
}

bool tmk_profile_hdf5_is_loaded(void) {
    return false;
}

enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    (void)profile;
    return tmk_profile_load_hdf5(out->path, diag);
}

enum tmk_status tmk_profile_read_hdf5(const char *path, struct tmk_profile *profile,
                                      struct tmk_diag *diag) {
    (void)path;
    (void)profile;
    return cannot_read(diag);
}

enum tmk_status tmk_lineage_write_hdf5(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag) {
    (void)record;
    return tmk_profile_load_hdf5(out->path, diag);
}

enum tmk_status tmk_lineage_read_hdf5(const char *path, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag) {
    (void)path;
    (void)out;
    return cannot_read(diag);
}
