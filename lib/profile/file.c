/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and lineages as files, JSON or HDF5. The name selects the format of a written file, the
 * first bytes that of a read one. Numbers are printed and read in the C locale meanwhile. */
#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "base/file.h"
#include "profile/lineage_format.h"

/* TMK_ARGUMENT for an extension that is neither, TMK_UNSUPPORTED for HDF5 in a build without it. */
static enum tmk_status is_written_as_hdf5(enum tmk_file_kind kind, const char *path, bool *out,
                                          struct tmk_diag *diag) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    bool json = dot && strcasecmp(dot, ".json") == 0,
         hdf5 = dot && (strcasecmp(dot, ".h5") == 0 || strcasecmp(dot, ".hdf5") == 0);
    if (!json && !hdf5 && !tmk_path_is_stream(path)) /* JSON, since it has no extension */
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s: the name says no format; %s is written as .json, .h5 or .hdf5", path,
                        tmk_file_kind_text(kind));
    if (hdf5 && !tmk_profile_has_hdf5())
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "%s: this build has no HDF5; write .json, or build with -Dhdf5=enabled",
                        path);
    *out = hdf5;
    return TMK_OK;
}

static enum tmk_status can_write(enum tmk_file_kind kind, const char *path, struct tmk_diag *diag) {
    bool hdf5;
    TMK_TRY(is_written_as_hdf5(kind, path, &hdf5, diag));
    return tmk_outfile_check(path, diag);
}

static enum tmk_status write_subject(enum tmk_file_kind kind, const void *subject, const char *path,
                                     struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_outfile out;
    bool hdf5;
    TMK_TRY(is_written_as_hdf5(kind, path, &hdf5, diag));
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_outfile_begin(path, &out, diag);
    if (status == TMK_OK) {
        if (kind == TMK_FILE_LINEAGE)
            status = hdf5 ? tmk_lineage_write_hdf5(subject, &out, diag)
                          : tmk_lineage_write_json(subject, &out, diag);
        else
            status = hdf5 ? tmk_profile_write_hdf5(subject, &out, diag)
                          : tmk_profile_write_json(subject, &out, diag);
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

/* Errors name the file. `subject`: a new profile, or where a new lineage goes. */
static enum tmk_status read_subject(enum tmk_file_kind kind, const char *path, void *subject,
                                    struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_buf *buf;
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_file_map(path, &buf, diag);
    if (status == TMK_OK) {
        const char *text = tmk_buf_data(buf);
        const size_t len = tmk_buf_size(buf);
        if (kind == TMK_FILE_LINEAGE)
            status = is_hdf5(text, len) ? tmk_lineage_read_hdf5(path, subject, diag)
                                        : tmk_lineage_read_json(text, len, subject, diag);
        else
            status = is_hdf5(text, len) ? tmk_profile_read_hdf5(path, subject, diag)
                                        : tmk_profile_read_json(text, len, subject, diag);
        tmk_buf_unref(&buf);
    }
    if (status == TMK_OK)
        status = kind == TMK_FILE_LINEAGE
                     ? tmk_lineage_record_check(*(struct tmk_lineage_record **)subject, diag)
                     : tmk_profile_validate(subject, diag);
    tmk_locale_end(locale);
    return tmk_in_file(diag, status, path, kind);
}

enum tmk_status tmk_profile_can_write(const char *path, struct tmk_diag *diag) {
    return can_write(TMK_FILE_PROFILE, path, diag);
}

enum tmk_status tmk_profile_write(const struct tmk_profile *profile, const char *path,
                                  struct tmk_diag *diag) {
    TMK_TRY(tmk_in(diag, tmk_profile_validate(profile, diag),
                   "%s is not written: it is inconsistent", path));
    return write_subject(TMK_FILE_PROFILE, profile, path, diag);
}

enum tmk_status tmk_profile_read(const char *path, struct tmk_profile **out,
                                 struct tmk_diag *diag) {
    struct tmk_profile *profile;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = read_subject(TMK_FILE_PROFILE, path, profile, diag);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}

enum tmk_status tmk_lineage_record_can_write(const char *path, struct tmk_diag *diag) {
    return can_write(TMK_FILE_LINEAGE, path, diag);
}

enum tmk_status tmk_lineage_record_write(const struct tmk_lineage_record *record, const char *path,
                                         struct tmk_diag *diag) {
    TMK_TRY(tmk_in(diag, tmk_lineage_record_check(record, diag), "%s is not written", path));
    return write_subject(TMK_FILE_LINEAGE, record, path, diag);
}

enum tmk_status tmk_lineage_record_read(const char *path, struct tmk_lineage_record **out,
                                        struct tmk_diag *diag) {
    struct tmk_lineage_record *record = NULL;
    enum tmk_status status = read_subject(TMK_FILE_LINEAGE, path, &record, diag);
    if (status == TMK_OK)
        *out = record;
    else
        tmk_lineage_record_destroy(&record);
    return status;
}
