/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for HDF5 in a build without it. */
#include "base/diag.h"
#include "export/onert_form.h"

enum tmk_status tmk_read_onert(const char *path, const char *text, size_t len,
                               struct tmk_ranges *out, struct tmk_diag *diag) {
    (void)path, (void)text, (void)len, (void)out;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "an HDF5 file, but this build has no HDF5; build with -Dhdf5=enabled");
}
