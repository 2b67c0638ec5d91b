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

static enum tmk_status write_both(const char *path, const struct tmk_text *text,
                                  const char *bin_path, const struct tmk_text *bin,
                                  struct tmk_diag *diag) {
    struct tmk_outfile first = {0}, second = {0};
    enum tmk_status status = tmk_outfile_begin(bin_path, &first, diag);
    if (status == TMK_OK)
        status = tmk_outfile_begin(path, &second, diag);
    if (status == TMK_OK)
        status = tmk_outfile_write(&first, bin->data, bin->len, diag);
    if (status == TMK_OK)
        status = tmk_outfile_write(&second, text->data, text->len, diag);
    if (status == TMK_OK)
        status = tmk_outfile_commit(&first, diag);
    if (status == TMK_OK)
        status = tmk_outfile_commit(&second, diag);
    tmk_outfile_abort(&first);
    tmk_outfile_abort(&second);
    return status;
}

enum tmk_status tmk_export_write_pair(const char *path, const char *suffix,
                                      const struct tmk_text *text, const struct tmk_text *bin,
                                      struct tmk_diag *diag) {
    char *beside = text->failed || bin->failed ? NULL : tmk_export_bin_path(path, suffix);
    enum tmk_status status = beside ? write_both(path, text, beside, bin, diag) : tmk_nomem(diag);
    free(beside);
    return status;
}
