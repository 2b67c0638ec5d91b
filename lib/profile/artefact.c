/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/artefact.h"

#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "base/json.h"
#include "profile/format.h"

static enum tmk_status is_written_as_hdf5(const struct tmk_artefact *artefact, const char *path,
                                          bool *out, struct tmk_diag *diag) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    bool json = dot && strcasecmp(dot, ".json") == 0,
         hdf5 = dot && (strcasecmp(dot, ".h5") == 0 || strcasecmp(dot, ".hdf5") == 0);
    if (!json && !hdf5 && !tmk_path_is_stream(path)) /* JSON, since it has no extension */
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s: the name says no format; %s is written as .json, .h5 or .hdf5", path,
                        tmk_file_kind_text(artefact->kind));
    if (hdf5 && !tmk_profile_has_hdf5())
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "%s: this build has no HDF5; write .json, or build with -Dhdf5=enabled",
                        path);
    *out = hdf5;
    return TMK_OK;
}

enum tmk_status tmk_artefact_can_write(const struct tmk_artefact *artefact, const char *path,
                                       struct tmk_diag *diag) {
    bool hdf5;
    TMK_TRY(is_written_as_hdf5(artefact, path, &hdf5, diag));
    return tmk_outfile_check(path, diag);
}

enum tmk_status tmk_artefact_write(const struct tmk_artefact *artefact, const void *subject,
                                   const char *path, struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_outfile out;
    bool hdf5;
    TMK_TRY(is_written_as_hdf5(artefact, path, &hdf5, diag));
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_outfile_begin(path, &out, diag);
    if (status == TMK_OK) {
        status = (hdf5 ? artefact->write_hdf5 : artefact->write_json)(subject, &out, diag);
        if (status == TMK_OK)
            status = tmk_outfile_commit(&out, diag);
        else
            tmk_outfile_abort(&out);
    }
    tmk_locale_end(locale);
    return status;
}

/* HDF5's signature is at byte 0, or at 512, 1024, 2048 and so on behind a user block. */
static bool is_hdf5(const char *bytes, size_t size) {
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    size_t at = 0;
    while (size >= 8 && at <= size - 8) {
        if (memcmp(bytes + at, signature, 8) == 0)
            return true;
        at = at ? at * 2 : 512;
    }
    return false;
}

static enum tmk_status read_into(const struct tmk_artefact *artefact, const char *path,
                                 void *subject, struct tmk_diag *diag) {
    struct tmk_buf *buf;
    TMK_TRY(tmk_file_map(path, &buf, diag));
    enum tmk_status status;
    if (is_hdf5(tmk_buf_data(buf), tmk_buf_size(buf)))
        status = artefact->read_hdf5(path, subject, diag);
    else
        status = artefact->read_json(tmk_buf_data(buf), tmk_buf_size(buf), subject, diag);
    tmk_buf_unref(&buf);
    return status;
}

enum tmk_status
tmk_artefact_read(const struct tmk_artefact *artefact, const char *path, void *subject,
                  enum tmk_status (*check)(const void *subject, struct tmk_diag *diag),
                  struct tmk_diag *diag) {
    locale_t locale[2];
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = read_into(artefact, path, subject, diag);
    if (status == TMK_OK)
        status = check(subject, diag);
    tmk_locale_end(locale);
    return tmk_in_file(diag, status, path, artefact->kind);
}
