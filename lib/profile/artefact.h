/* SPDX-License-Identifier: Apache-2.0 */
/* Files that exist as JSON and as HDF5: profiles, lineages. The name selects the format of a
 * written file, the first bytes that of a read one. */
#ifndef TMK_PROFILE_ARTEFACT_H
#define TMK_PROFILE_ARTEFACT_H

#include "base/file.h"
#include "base/filekind.h"

/* What differs from kind to kind. Writers append to an outfile that has begun; readers fill
 * `subject`. Numbers are printed and read in the C locale meanwhile. */
struct tmk_artefact {
    enum tmk_file_kind kind; /* for messages */
    enum tmk_status (*write_json)(const void *subject, struct tmk_outfile *out,
                                  struct tmk_diag *diag);
    enum tmk_status (*write_hdf5)(const void *subject, struct tmk_outfile *out,
                                  struct tmk_diag *diag);
    enum tmk_status (*read_json)(const char *text, size_t len, void *subject,
                                 struct tmk_diag *diag);
    enum tmk_status (*read_hdf5)(const char *path, void *subject, struct tmk_diag *diag);
};

/* TMK_ARGUMENT for an extension that is neither, TMK_UNSUPPORTED for HDF5 in a build without it. */
TMK_NODISCARD enum tmk_status tmk_artefact_can_write(const struct tmk_artefact *artefact,
                                                     const char *path, struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status tmk_artefact_write(const struct tmk_artefact *artefact,
                                                 const void *subject, const char *path,
                                                 struct tmk_diag *diag);
/* Errors name the file. What `check` answers is an error of the file too. */
TMK_NODISCARD enum tmk_status
tmk_artefact_read(const struct tmk_artefact *artefact, const char *path, void *subject,
                  enum tmk_status (*check)(const void *subject, struct tmk_diag *diag),
                  struct tmk_diag *diag);

#endif
