/* SPDX-License-Identifier: Apache-2.0 */
/* onert's HDF5 file: read with HDF5, or refused in a build without it. As tmk_reader.read: the
 * range of a value is that of all runs together. */
#ifndef TMK_EXPORT_ONERT_FORM_H
#define TMK_EXPORT_ONERT_FORM_H

#include "export/reader.h"

TMK_NODISCARD enum tmk_status tmk_read_onert(const char *path, const char *text, size_t len,
                                             struct tmk_ranges *out, struct tmk_diag *diag);

#endif
