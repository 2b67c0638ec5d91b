/* SPDX-License-Identifier: Apache-2.0 */
/* Which images a path means: those of a folder and of the folders in it, by name in bytes; those
 * that a .txt file lists, a path a line, in its order; or one. */
#pragma once

#include "data/kind.h"

struct tmk_image_file {
    const char *path;
    const char *name; /* within the folder, as listed, or without directories */
};

struct tmk_image_files {
    struct tmk_image_file *file; /* malloc'ed; the texts are in the source's arena */
    size_t n, size;
};

/* Does the path mean images? Says nothing of what is in the files. */
bool tmk_image_files_claim(const struct tmk_source_probe *probe);
/* Has the folder, or one within, files that are called images? */
enum tmk_status tmk_image_files_claim_folder(const char *path, bool *out, struct tmk_diag *diag);
/* `files` is zeroed; free files->file in any case. */
enum tmk_status tmk_image_files_list(struct tmk_source *source, struct tmk_image_files *files,
                                     struct tmk_diag *diag);
/* For tmk_source_hash. A file that cannot be read has no bytes, and fails elsewhere. */
enum tmk_status tmk_image_files_hash(const struct tmk_source *source,
                                     const struct tmk_image_files *files, const atomic_bool *stop,
                                     char hex[TMK_HASH128_HEX], struct tmk_diag *diag);
