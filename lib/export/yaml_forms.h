/* SPDX-License-Identifier: Apache-2.0 */
/* Formats in YAML: read with libyaml, or refused in a build without it. As tmk_reader.read. */
#ifndef TMK_EXPORT_YAML_FORMS_H
#define TMK_EXPORT_YAML_FORMS_H

#include "export/reader.h"

TMK_NODISCARD enum tmk_status tmk_read_glow(const char *path, const char *text, size_t len,
                                            struct tmk_ranges *out, struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status tmk_read_rknn(const char *path, const char *text, size_t len,
                                            struct tmk_ranges *out, struct tmk_diag *diag);

#endif
