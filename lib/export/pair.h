/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of two files: a text, and numbers in a second file (NAME.param and NAME.bin, NAME.xml and
 * NAME.bin). */
#ifndef TMK_EXPORT_PAIR_H
#define TMK_EXPORT_PAIR_H

#include "export/exporter.h"

/* The .bin that goes with NAME or NAME`suffix`: malloc'ed; NULL when memory ran out. */
char *tmk_export_bin_path(const char *path, const char *suffix);
/* Writes both, or none. */
TMK_NODISCARD enum tmk_status tmk_export_write_pair(const struct tmk_export_job *job,
                                                    const char *suffix, const struct tmk_text *text,
                                                    const struct tmk_text *bin,
                                                    struct tmk_diag *diag);

#endif
