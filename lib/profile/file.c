/* SPDX-License-Identifier: Apache-2.0 */
/* Which format a file has, and what holds for all of them. */
#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "profile/format.h"

typedef enum tmk_status write_fn(const struct tmk_profile *profile, struct tmk_outfile *out,
                                 struct tmk_diag *diag);

static write_fn *writer_for(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (dot && strcasecmp(dot, ".json") == 0)
        return tmk_profile_write_json;
    if (dot && (strcasecmp(dot, ".h5") == 0 || strcasecmp(dot, ".hdf5") == 0))
        return tmk_profile_write_hdf5;
    return NULL;
}

static enum tmk_status write_through(const struct tmk_profile *profile, write_fn *writer,
                                     const char *path, struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_outfile out;
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_outfile_begin(path, &out, diag);
    if (status == TMK_OK) {
        status = writer(profile, &out, diag);
        if (status == TMK_OK)
            status = tmk_outfile_commit(&out, diag);
        else
            tmk_outfile_abort(&out);
    }
    tmk_locale_end(locale);
    return status;
}

static enum tmk_status find_writer(const char *path, write_fn **out, struct tmk_diag *diag) {
    *out = writer_for(path);
    if (!*out)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s: the name says no format; a profile is written as .json, .h5 or .hdf5",
                        path);
    if (*out == tmk_profile_write_hdf5 && !tmk_profile_has_hdf5())
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "%s: this build has no HDF5; write .json, or build with -Dhdf5=enabled",
                        path);
    return TMK_OK;
}

enum tmk_status tmk_profile_can_write(const char *path, struct tmk_diag *diag) {
    write_fn *writer;
    struct tmk_outfile out;
    TMK_TRY(find_writer(path, &writer, diag));
    TMK_TRY(tmk_outfile_begin(path, &out, diag));
    tmk_outfile_abort(&out);
    return TMK_OK;
}

enum tmk_status tmk_profile_write(const struct tmk_profile *profile, const char *path,
                                  struct tmk_diag *diag) {
    write_fn *writer;
    TMK_TRY(find_writer(path, &writer, diag));
    TMK_TRY(tmk_in(diag, tmk_profile_balance(profile, diag),
                   "%s is not written, because the books do not balance", path));
    return write_through(profile, writer, path, diag);
}

/* HDF5's signature stands at byte 0, or at 512, 1024, 2048 and so on behind a user block. */
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

static enum tmk_status read_into(const char *path, struct tmk_profile *profile,
                                 struct tmk_diag *diag) {
    struct tmk_buf *buf;
    TMK_TRY(tmk_file_map(path, &buf, diag));
    enum tmk_status status;
    if (is_hdf5(tmk_buf_data(buf), tmk_buf_size(buf)))
        status = tmk_profile_read_hdf5(path, profile, diag);
    else
        status = tmk_profile_read_json(tmk_buf_data(buf), tmk_buf_size(buf), profile, diag);
    tmk_buf_unref(&buf);
    if (status == TMK_OK)
        status = tmk_profile_balance(profile, diag);
    return tmk_in(diag, status, "%s", path);
}

enum tmk_status tmk_profile_read(const char *path, struct tmk_profile **out,
                                 struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_profile *profile;
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_profile_create(&profile, diag);
    if (status == TMK_OK) {
        status = read_into(path, profile, diag);
        if (status == TMK_OK)
            *out = profile;
        else
            tmk_profile_destroy(&profile);
    }
    tmk_locale_end(locale);
    return status;
}
