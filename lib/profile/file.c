/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and lineages as files, JSON or HDF5. The name selects the format of a written file, the
 * first bytes that of a read one. Numbers are printed and read in the C locale meanwhile. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "profile/format.h"
#include "profile/lineage_format.h"

/* A profile as JSON: one member of the header a line, one value a line; memory for one value at a
 * time. When it is read, the text is walked, and one value's tree is built at a time. */

/* ---- writing ---- */

static enum tmk_status flush_text(struct tmk_outfile *out, struct tmk_text *text,
                                  struct tmk_diag *diag) {
    TMK_TRY_ALLOC(!text->failed, diag);
    enum tmk_status status = tmk_outfile_write(out, text->data, text->len, diag);
    text->len = 0;
    return status;
}

static enum tmk_status write_parts(const struct tmk_profile *profile, struct tmk_outfile *out,
                                   struct tmk_profile_bins *bins,
                                   const struct tmk_nonfinite *nonfinite, uint32_t n_nonfinite,
                                   struct tmk_text *text, struct tmk_diag *diag) {
    uint32_t at = 0;
    tmk_text_puts(text, "{\n");
    TMK_TRY(tmk_profile_header_text(profile, ",\n", text, diag));
    tmk_text_puts(text, ",\n\"tensors\":[");
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        struct tmk_profile_row row;
        tmk_profile_row_of(&profile->tensors[i], bins, &row);
        if (at < n_nonfinite && nonfinite[at].id == row.t.id)
            row.nonfinite = &nonfinite[at++];
        TMK_TRY(tmk_fields_object_text(tmk_profile_row_fields[row.level], &row, i, text, diag));
        TMK_TRY(flush_text(out, text, diag));
    }
    tmk_text_puts(text, "\n]\n}\n");
    return flush_text(out, text, diag);
}

/* The formats. Writers append to an outfile that has begun; readers add to an empty profile, and
 * leave validation to their caller. `path` is for HDF5's own reading. */
static enum tmk_status write_json(const struct tmk_profile *profile, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    struct tmk_profile_bins bins;
    struct tmk_text text = {0};
    struct tmk_nonfinite *nonfinite;
    uint32_t n;
    TMK_TRY(tmk_profile_nonfinite(profile, &nonfinite, &n, diag));
    enum tmk_status status = tmk_profile_bins_init(&bins, diag);
    if (status != TMK_OK) {
        free(nonfinite);
        return status;
    }
    status = write_parts(profile, out, &bins, nonfinite, n, &text, diag);
    free(nonfinite);
    tmk_text_finish(&text);
    tmk_profile_bins_finish(&bins);
    return status;
}

/* ---- reading ---- */

struct reader {
    struct tmk_profile *profile;
    struct tmk_field_reader fields;
    struct tmk_profile_bins bins;
    size_t held; /* bytes that were counted for the header's trees */
    struct tmk_diag *diag;
};

/* Its level first: it determines which fields there are. */
static enum tmk_status get_row(struct reader *r, const cJSON *item, struct tmk_profile_row *row) {
    const struct tmk_fields *const value = &tmk_profile_value_fields;
    const struct tmk_field *level = &value->field[value->n - 1];
    const char *name;
    TMK_TRY(tmk_json_text(item, level->key, &name, r->diag));
    TMK_TRY(tmk_field_by_name(level, name, row, r->diag));
    TMK_TRY(tmk_fields_get(&r->fields, tmk_profile_row_fields[row->level], item, row));
    return TMK_OK;
}

static enum tmk_status get_tensor(struct reader *r, const cJSON *item) {
    const struct tmk_field *id = &tmk_profile_value_fields.field[0];
    struct tmk_profile_tensor *t;
    struct tmk_profile_row row = {.t.id = 0};
    TMK_TRY(tmk_field_get(&r->fields, id, item, &row));
    TMK_TRY(tmk_profile_add_read(r->profile, row.t.id, &t, r->diag));
    row = (struct tmk_profile_row){
        .t = *t, .is = {.channel_axis = -1, .sumsq_lo = NAN, .sumsq_hi = NAN}, .bins = &r->bins};
    enum tmk_status status = get_row(r, item, &row);
    TMK_THEN(status, tmk_profile_row_restore(&row, r->diag));
    free(row.channels);
    *t = row.t;
    return status;
}

static enum tmk_status get_tensors(struct reader *r, const char *text, size_t len) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, text, len, '['))
        return tmk_fail(r->diag, TMK_FORMAT, "'tensors' is not an array");
    for (size_t i = 0;; i++) {
        const char *value;
        size_t size;
        cJSON *item;
        enum tmk_status status = tmk_json_next(&scan, '[', NULL, &value, &size, r->diag);
        if (status == TMK_NOTFOUND)
            return TMK_OK;
        TMK_THEN(status, tmk_json_parse(value, size, &item, r->diag));
        if (status == TMK_OK) {
            status = get_tensor(r, item);
            cJSON_Delete(item);
        }
        TMK_TRY(tmk_in(r->diag, status, "tensors[%zu]", i));
    }
}

/* Gathers the header's members as a tree and finds where the values are. Of other members only the
 * name is kept, for the check of unknown keys. */
static enum tmk_status gather_members(struct reader *r, const char *text, size_t len, cJSON *header,
                                      const char **tensors, size_t *tensors_len) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, text, len, '{'))
        return tmk_fail(r->diag, TMK_FORMAT, "not a profile: neither a JSON object nor HDF5");
    for (;;) {
        char *key;
        const char *value;
        size_t size;
        cJSON *item = NULL;
        enum tmk_status status = tmk_json_next(&scan, '{', &key, &value, &size, r->diag);
        if (status == TMK_NOTFOUND)
            break;
        TMK_TRY(status);
        if (strcmp(key, "tensors") == 0) {
            *tensors = value;
            *tensors_len = size;
        }
        if (tmk_fields_has(&tmk_profile_header_fields, key))
            status = tmk_in(r->diag, tmk_json_parse_held(value, size, &item, &r->held, r->diag),
                            "'%s'", key);
        else
            item = cJSON_CreateNull();
        if (status == TMK_OK && (!item || !cJSON_AddItemToObject(header, key, item))) {
            cJSON_Delete(item);
            status = tmk_nomem(r->diag);
        }
        free(key);
        TMK_TRY(status);
    }
    if (!tmk_json_rest_is_blank(&scan))
        return tmk_fail(r->diag, TMK_FORMAT, "something follows the profile's closing '}'");
    return TMK_OK;
}

static enum tmk_status read_json(const char *text, size_t len, struct tmk_profile *profile,
                                 struct tmk_diag *diag) {
    struct reader r = {.profile = profile, .diag = diag};
    const char *tensors = NULL;
    size_t tensors_len = 0;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    TMK_TRY(tmk_profile_bins_init(&r.bins, diag));
    cJSON *header = cJSON_CreateObject();
    enum tmk_status status = header ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, gather_members(&r, text, len, header, &tensors, &tensors_len));
    TMK_THEN(status, tmk_profile_get_header(profile, header, diag));
    r.fields = tmk_profile_reader(profile, diag);
    TMK_THEN(status, tensors ? get_tensors(&r, tensors, tensors_len)
                             : tmk_fail(diag, TMK_FORMAT, "'tensors' is missing"));
    cJSON_Delete(header);
    tmk_memory_uncharge(r.held);
    tmk_profile_bins_finish(&r.bins);
    return status;
}

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
    *out = hdf5;
    return hdf5 ? tmk_profile_load_hdf5(path, diag) : TMK_OK;
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
                          : write_json(subject, &out, diag);
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
                                        : read_json(text, len, subject, diag);
        tmk_buf_unref(&buf);
    }
    TMK_THEN(status, kind == TMK_FILE_LINEAGE
                         ? tmk_lineage_record_check(*(struct tmk_lineage_record **)subject, diag)
                         : tmk_profile_validate(subject, diag));
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
