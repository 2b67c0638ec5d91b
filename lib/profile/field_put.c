/* SPDX-License-Identifier: Apache-2.0 */
/* Records as JSON, by their tables of fields; what else is done to any record. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/profile.h>

#include "base/diag.h"
#include "base/text.h"
#include "profile/fields.h"

/* ---- names ---- */

const char *tmk_field_name(const struct tmk_field *f, const void *record) {
    const struct tmk_field_names *names = f->of;
    uint32_t number = (uint32_t)TMK_CONST_MEMBER(int, f, record);
    if (f->type == TMK_FIELD_DTYPE)
        return tmk_dtype_name((enum tmk_dtype)number);
    return number < names->n ? names->names[number] : "?";
}

enum tmk_status tmk_field_by_name(const struct tmk_field *f, const char *name, void *record,
                                  struct tmk_diag *diag) {
    const struct tmk_field_names *names = f->of;
    const char *key = f->key ? f->key : f->column;
    int *out = &TMK_MEMBER(int, f, record);
    if (f->type == TMK_FIELD_DTYPE) {
        *out = (int)tmk_dtype_by_name(name);
        if (*out == TMK_UNDEFINED && strcmp(name, tmk_dtype_name(TMK_UNDEFINED)) != 0)
            return tmk_fail(diag, TMK_FORMAT, "'%s': there is no type '%s'", key, name);
        return TMK_OK;
    }
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(name, names->names[i]) == 0) {
            *out = (int)i;
            return TMK_OK;
        }
    return tmk_fail(diag, TMK_FORMAT, "'%s': there is no %s '%s'", key, names->what, name);
}

/* ---- JSON ---- */

void tmk_field_put_ids(struct tmk_json_out *to, const char *key, const uint32_t *ids, uint32_t n) {
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < n; i++)
        tmk_json_put_id(&array, NULL, ids[i]);
    tmk_json_put_child(to, key, &array);
}

static bool is_empty(const struct tmk_field *f, const void *record) {
    switch (f->type) {
    case TMK_FIELD_TEXT:
        return !*TMK_CONST_MEMBER(char *, f, record);
    case TMK_FIELD_BOOL:
        return !TMK_CONST_MEMBER(bool, f, record);
    case TMK_FIELD_U32:
        return TMK_CONST_MEMBER(uint32_t, f, record) == 0;
    case TMK_FIELD_U64:
        return TMK_CONST_MEMBER(uint64_t, f, record) == 0;
    case TMK_FIELD_F64:
    case TMK_FIELD_SHARE:
        return isnan(TMK_CONST_MEMBER(double, f, record));
    case TMK_FIELD_IDS:
    case TMK_FIELD_LIST:
        return TMK_CONST_COUNT(f, record) == 0;
    default:
        return false;
    }
}

static void put_version(struct tmk_json_out *to, const char *key,
                        const struct tmk_file_version *version) {
    struct tmk_json_out object = tmk_json_new_object();
    tmk_json_put_u64(&object, "major", version->major);
    tmk_json_put_u64(&object, "minor", version->minor);
    tmk_json_put_child(to, key, &object);
}

static void put_hex(struct tmk_json_out *to, const char *key, const char *format, uint64_t bits,
                    double real) {
    char text[40];
    if (format)
        snprintf(text, sizeof text, format, real);
    else
        snprintf(text, sizeof text, "%016" PRIx64, bits);
    tmk_json_put_text(to, key, text);
}

static void put_numbers(struct tmk_json_out *to, const char *key, const struct tmk_field *f,
                        const void *record) {
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < TMK_CONST_COUNT(f, record); i++)
        switch (f->type) {
        case TMK_FIELD_FLOATS:
            tmk_json_put_float(&array, NULL, TMK_CONST_MEMBER(float *, f, record)[i]);
            break;
        case TMK_FIELD_DOUBLES:
            tmk_json_put_double(&array, NULL, TMK_CONST_MEMBER(double *, f, record)[i]);
            break;
        case TMK_FIELD_INT32S:
            tmk_json_put_i64(&array, NULL, TMK_CONST_MEMBER(int32_t *, f, record)[i]);
            break;
        case TMK_FIELD_INT64S:
            tmk_json_put_i64(&array, NULL, TMK_CONST_MEMBER(int64_t *, f, record)[i]);
            break;
        default: /* exact, and what a person compares with a compiler's dump */
            put_hex(&array, NULL, "%a", 0, TMK_CONST_MEMBER(double *, f, record)[i]);
        }
    tmk_json_put_child(to, key, &array);
}

static void put_list(struct tmk_json_out *to, const char *key, const struct tmk_field *f,
                     const void *record) {
    const struct tmk_fields *fields = f->of;
    const unsigned char *entry = TMK_CONST_MEMBER(unsigned char *, f, record);
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < TMK_CONST_COUNT(f, record); i++, entry += fields->size) {
        struct tmk_json_out object = tmk_json_new_object();
        tmk_fields_put(&object, fields, entry, i);
        tmk_json_put_child(&array, NULL, &object);
    }
    tmk_json_put_child(to, key, &array);
}

static void put_object(struct tmk_json_out *to, const char *key, const struct tmk_field *f,
                       const void *record) {
    struct tmk_json_out object = tmk_json_new_object();
    tmk_fields_put(&object, f->of, &TMK_CONST_MEMBER(unsigned char, f, record), 0);
    tmk_json_put_child(to, key, &object);
}

static void put_place(struct tmk_json_out *to, const char *key, uint64_t place) {
    if (place == TMK_NOWHERE)
        tmk_json_put(to, key, cJSON_CreateNull());
    else
        tmk_json_put_u64(to, key, place);
}

static void put_where(struct tmk_json_out *to, const char *key, const struct tmk_where *at) {
    if (at->sample == TMK_NOWHERE && at->index == TMK_NOWHERE) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    struct tmk_json_out where = tmk_json_new_object();
    put_place(&where, "sample", at->sample);
    put_place(&where, "index", at->index);
    tmk_json_put_child(to, key, &where);
}

static void put_value(struct tmk_json_out *to, const char *key, const struct tmk_field *f,
                      const void *record, uint32_t index) {
    switch (f->type) {
    case TMK_FIELD_FORMAT:
        tmk_json_put_text(to, key, ((const struct tmk_file_version *)f->of)->format);
        break;
    case TMK_FIELD_VERSION:
        put_version(to, key, f->of);
        break;
    case TMK_FIELD_TEXT:
    case TMK_FIELD_WORD:
        tmk_json_put_text(to, key, TMK_CONST_MEMBER(char *, f, record));
        break;
    case TMK_FIELD_BOOL:
        tmk_json_put(to, key, cJSON_CreateBool(TMK_CONST_MEMBER(bool, f, record)));
        break;
    case TMK_FIELD_U32:
        tmk_json_put_u64(to, key, TMK_CONST_MEMBER(uint32_t, f, record));
        break;
    case TMK_FIELD_U64:
        tmk_json_put_u64(to, key, TMK_CONST_MEMBER(uint64_t, f, record));
        break;
    case TMK_FIELD_WHERE:
        put_where(to, key, &TMK_CONST_MEMBER(struct tmk_where, f, record));
        break;
    case TMK_FIELD_I32:
        tmk_json_put_i64(to, key, TMK_CONST_MEMBER(int32_t, f, record));
        break;
    case TMK_FIELD_NATURAL:
        if (TMK_CONST_MEMBER(int32_t, f, record) < 0)
            tmk_json_put(to, key, cJSON_CreateNull());
        else
            tmk_json_put_i64(to, key, TMK_CONST_MEMBER(int32_t, f, record));
        break;
    case TMK_FIELD_I64:
        tmk_json_put_i64(to, key, TMK_CONST_MEMBER(int64_t, f, record));
        break;
    case TMK_FIELD_F32:
    case TMK_FIELD_FINITE:
        tmk_json_put_float(to, key, TMK_CONST_MEMBER(float, f, record));
        break;
    case TMK_FIELD_F64:
    case TMK_FIELD_SHARE:
        tmk_json_put_double(to, key, TMK_CONST_MEMBER(double, f, record));
        break;
    case TMK_FIELD_HEX:
        put_hex(to, key, NULL, TMK_CONST_MEMBER(uint64_t, f, record), 0);
        break;
    case TMK_FIELD_ID:
        tmk_json_put_id(to, key, TMK_CONST_MEMBER(uint32_t, f, record));
        break;
    case TMK_FIELD_MAYBE_ID:
        if (TMK_CONST_MEMBER(int64_t, f, record) < 0)
            tmk_json_put(to, key, cJSON_CreateNull());
        else
            tmk_json_put_id(to, key, (uint32_t)TMK_CONST_MEMBER(int64_t, f, record));
        break;
    case TMK_FIELD_INDEX:
        tmk_json_put_id(to, key, index);
        break;
    case TMK_FIELD_NAME:
    case TMK_FIELD_DTYPE:
        tmk_json_put_text(to, key, tmk_field_name(f, record));
        break;
    case TMK_FIELD_IDS:
        tmk_field_put_ids(to, key, TMK_CONST_MEMBER(uint32_t *, f, record),
                          TMK_CONST_COUNT(f, record));
        break;
    case TMK_FIELD_FLOATS:
    case TMK_FIELD_DOUBLES:
    case TMK_FIELD_INT32S:
    case TMK_FIELD_INT64S:
    case TMK_FIELD_HEX_DOUBLES:
        put_numbers(to, key, f, record);
        break;
    case TMK_FIELD_OBJECT:
        put_object(to, key, f, record);
        break;
    case TMK_FIELD_LIST:
        put_list(to, key, f, record);
        break;
    case TMK_FIELD_CODEC:
        ((const struct tmk_field_codec *)f->of)->put(to, key, record);
        break;
    case TMK_FIELD_U8:
    case TMK_FIELD_ELSEWHERE:
        break;
    }
}

/* Whether the field is a member of the record's JSON now. */
static bool is_written(const struct tmk_field *f, const void *record) {
    if (!f->key || f->type == TMK_FIELD_ELSEWHERE)
        return false;
    if (f->absent && !(f->flags & TMK_FIELD_NULL))
        return !f->absent(record);
    return !(f->flags & TMK_FIELD_OMIT && is_empty(f, record));
}

static void put_field(struct tmk_json_out *to, const char *key, const struct tmk_field *f,
                      const void *record, uint32_t index) {
    if (f->flags & TMK_FIELD_NULL && f->absent(record))
        tmk_json_put(to, key, cJSON_CreateNull());
    else
        put_value(to, key, f, record, index);
}

void tmk_fields_put(struct tmk_json_out *to, const struct tmk_fields *fields, const void *record,
                    uint32_t index) {
    if (fields->before)
        tmk_fields_put(to, fields->before, record, index);
    for (size_t i = 0; i < fields->n; i++)
        if (is_written(&fields->field[i], record))
            put_field(to, fields->field[i].key, &fields->field[i], record, index);
}

enum tmk_status tmk_fields_object_text(const struct tmk_fields *fields, const void *record,
                                       uint32_t index, struct tmk_text *out,
                                       struct tmk_diag *diag) {
    struct tmk_json_out object = tmk_json_new_object();
    tmk_fields_put(&object, fields, record, index);
    return tmk_json_finish(&object, out, diag);
}

/* The only element of an array. */
static enum tmk_status element_text(struct tmk_json_out *holder, struct tmk_text *out,
                                    struct tmk_diag *diag) {
    cJSON *item = holder->failed ? NULL : cJSON_DetachItemFromArray(holder->item, 0);
    struct tmk_json_out element = {item, !item};
    cJSON_Delete(holder->item);
    return tmk_json_finish(&element, out, diag);
}

enum tmk_status tmk_field_codec_text(const struct tmk_field_codec *codec, const void *record,
                                     struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_json_out holder = tmk_json_new_array();
    codec->put(&holder, NULL, record);
    return element_text(&holder, out, diag);
}

static enum tmk_status lines_text(const struct tmk_field *f, const void *record,
                                  struct tmk_text *out, struct tmk_diag *diag) {
    const struct tmk_fields *fields = f->of;
    const unsigned char *entry = TMK_CONST_MEMBER(unsigned char *, f, record);
    tmk_text_puts(out, "[");
    for (uint32_t i = 0; i < TMK_CONST_COUNT(f, record); i++, entry += fields->size) {
        tmk_text_puts(out, i ? ",\n" : "\n");
        TMK_TRY(tmk_fields_object_text(fields, entry, i, out, diag));
    }
    tmk_text_puts(out, "\n]");
    return TMK_OK;
}

enum tmk_status tmk_fields_text(const struct tmk_fields *fields, const void *record,
                                const char *separator, struct tmk_text *out,
                                struct tmk_diag *diag) {
    const char *between = "";
    for (size_t i = 0; i < fields->n; i++) {
        const struct tmk_field *f = &fields->field[i];
        if (!is_written(f, record))
            continue;
        tmk_text_printf(out, "%s\"%s\":", between, f->key);
        between = separator;
        if (f->flags & TMK_FIELD_LINES) {
            TMK_TRY(lines_text(f, record, out, diag));
            continue;
        }
        struct tmk_json_out holder = tmk_json_new_array();
        put_field(&holder, NULL, f, record, 0);
        TMK_TRY(element_text(&holder, out, diag));
    }
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

/* ---- checks ---- */

static enum tmk_status check_list(const struct tmk_field *f, const void *record,
                                  struct tmk_diag *diag) {
    const struct tmk_fields *fields = f->of;
    const unsigned char *entry = TMK_CONST_MEMBER(unsigned char *, f, record);
    for (uint32_t i = 0; i < TMK_CONST_COUNT(f, record); i++, entry += fields->size)
        TMK_TRY(tmk_in(diag, tmk_fields_check_texts(fields, entry, diag), "%s[%" PRIu32 "]", f->key,
                       i));
    return TMK_OK;
}

enum tmk_status tmk_fields_check_texts(const struct tmk_fields *fields, const void *record,
                                       struct tmk_diag *diag) {
    if (fields->before)
        TMK_TRY(tmk_fields_check_texts(fields->before, record, diag));
    for (size_t i = 0; i < fields->n; i++) {
        const struct tmk_field *f = &fields->field[i];
        if (f->type == TMK_FIELD_TEXT) {
            const char *text = TMK_CONST_MEMBER(char *, f, record);
            if (!text || !tmk_utf8_valid(text, strlen(text)))
                return tmk_fail(diag, TMK_MISMATCH, "'%s' is not UTF-8",
                                f->key ? f->key : f->column);
        } else if (f->type == TMK_FIELD_OBJECT) {
            TMK_TRY(tmk_in(
                diag,
                tmk_fields_check_texts(f->of, &TMK_CONST_MEMBER(unsigned char, f, record), diag),
                "'%s'", f->key));
        } else if (f->type == TMK_FIELD_LIST && !(f->flags & TMK_FIELD_LINES)) {
            TMK_TRY(check_list(f, record, diag));
        }
    }
    return TMK_OK;
}
