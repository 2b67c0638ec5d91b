/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles as files: validated when they are written, and when they are read. */
#include "base/diag.h"
#include "profile/artefact.h"
#include "profile/format.h"

static enum tmk_status write_json(const void *profile, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    return tmk_profile_write_json(profile, out, diag);
}

static enum tmk_status write_hdf5(const void *profile, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    return tmk_profile_write_hdf5(profile, out, diag);
}

static enum tmk_status read_json(const char *text, size_t len, void *profile,
                                 struct tmk_diag *diag) {
    return tmk_profile_read_json(text, len, profile, diag);
}

static enum tmk_status read_hdf5(const char *path, void *profile, struct tmk_diag *diag) {
    return tmk_profile_read_hdf5(path, profile, diag);
}

static enum tmk_status validate_subject(const void *profile, struct tmk_diag *diag) {
    return tmk_profile_validate(profile, diag);
}

static const struct tmk_artefact artefact = {TMK_FILE_PROFILE, write_json, write_hdf5, read_json,
                                             read_hdf5};

enum tmk_status tmk_profile_can_write(const char *path, struct tmk_diag *diag) {
    return tmk_artefact_can_write(&artefact, path, diag);
}

enum tmk_status tmk_profile_write(const struct tmk_profile *profile, const char *path,
                                  struct tmk_diag *diag) {
    TMK_TRY(tmk_in(diag, tmk_profile_validate(profile, diag),
                   "%s is not written: it is inconsistent", path));
    return tmk_artefact_write(&artefact, profile, path, diag);
}

enum tmk_status tmk_profile_read(const char *path, struct tmk_profile **out,
                                 struct tmk_diag *diag) {
    struct tmk_profile *profile;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = tmk_artefact_read(&artefact, path, profile, validate_subject, diag);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
