/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as JSON: one member of the header a line, one value a line; memory for one value at a
 * time. When it is read, the text is walked, and one value's tree is built at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/text.h"
#include "profile/row.h"

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

enum tmk_status tmk_profile_write_json(const struct tmk_profile *profile, struct tmk_outfile *out,
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
    if (status == TMK_OK)
        status = tmk_profile_row_restore(&row, r->diag);
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
        if (status == TMK_OK)
            status = tmk_json_parse(value, size, &item, r->diag);
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

enum tmk_status tmk_profile_read_json(const char *text, size_t len, struct tmk_profile *profile,
                                      struct tmk_diag *diag) {
    struct reader r = {.profile = profile, .diag = diag};
    const char *tensors = NULL;
    size_t tensors_len = 0;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    TMK_TRY(tmk_profile_bins_init(&r.bins, diag));
    cJSON *header = cJSON_CreateObject();
    enum tmk_status status = header ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK)
        status = gather_members(&r, text, len, header, &tensors, &tensors_len);
    if (status == TMK_OK)
        status = tmk_profile_get_header(profile, header, diag);
    r.fields = tmk_profile_reader(profile, diag);
    if (status == TMK_OK)
        status = tensors ? get_tensors(&r, tensors, tensors_len)
                         : tmk_fail(diag, TMK_FORMAT, "'tensors' is missing");
    cJSON_Delete(header);
    tmk_memory_uncharge(r.held);
    tmk_profile_bins_finish(&r.bins);
    return status;
}
