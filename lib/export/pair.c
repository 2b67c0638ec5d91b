/* SPDX-License-Identifier: Apache-2.0 */
#include "export/pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"

char *tmk_export_bin_path(const char *path, const char *suffix) {
    size_t len = strlen(path), tail = strlen(suffix);
    size_t stem = len > tail && strcmp(path + len - tail, suffix) == 0 ? len - tail : len;
    char *out = malloc(len + sizeof ".bin");
    if (out) {
        memcpy(out, path, stem);
        memcpy(out + stem, ".bin", sizeof ".bin");
    }
    return out;
}

enum tmk_status tmk_export_write_pair(const struct tmk_export_job *job, const char *suffix,
                                      const struct tmk_text *text, const struct tmk_text *bin,
                                      struct tmk_diag *diag) {
    TMK_TRY(tmk_export_ready(job, diag));
    char *beside = text->failed || bin->failed ? NULL : tmk_export_bin_path(job->path, suffix);
    const struct tmk_file_content files[] = {{beside, bin->data, bin->len},
                                             {job->path, text->data, text->len}};
    enum tmk_status status = beside ? tmk_files_write(files, 2, diag) : tmk_nomem(diag);
    free(beside);
    return status;
}
