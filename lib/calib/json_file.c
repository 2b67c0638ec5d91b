/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/json_file.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

static enum tmk_status parse_file(const char *text, size_t len, struct tmk_json_file *out,
                                  struct tmk_diag *diag) {
    struct tmk_json_scan scan;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    if (!tmk_json_enter(&scan, text, len, '{'))
        return tmk_fail(diag, TMK_FORMAT, "not a JSON object");
    return tmk_json_parse_object(text, len, &out->tree, &out->held, diag);
}

enum tmk_status tmk_json_file_open(const char *path, struct tmk_json_file *out,
                                   struct tmk_diag *diag) {
    struct tmk_json_file file = {.held = 0};
    struct tmk_buf *buf;
    TMK_TRY(tmk_file_map(path, &buf, diag));
    enum tmk_status status = tmk_locale_begin(file.locale, diag);
    if (status == TMK_OK) {
        status = parse_file(tmk_buf_data(buf), tmk_buf_size(buf), &file, diag);
        if (status != TMK_OK)
            tmk_locale_end(file.locale);
        status = tmk_in(diag, status, "%s", path);
    }
    tmk_buf_unref(&buf);
    if (status == TMK_OK)
        *out = file;
    return status;
}

void tmk_json_file_close(struct tmk_json_file *file) {
    cJSON_Delete(file->tree);
    tmk_memory_uncharge(file->held);
    tmk_locale_end(file->locale);
}
