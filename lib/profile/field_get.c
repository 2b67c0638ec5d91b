/* SPDX-License-Identifier: Apache-2.0 */
/* Records from JSON, by their tables of fields. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/profile.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "profile/fields.h"

static_assert(sizeof(enum tmk_dtype) == sizeof(int), "enums are kept as int");

static enum tmk_status fail_expected(struct tmk_field_reader *r, const struct tmk_field *f,
                                     const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing or is not %s", f->key, what);
}

static enum tmk_status keep_text(struct tmk_field_reader *r, const char *text, const char **out) {
    const char *kept = *text ? tmk_arena_strdup(r->arena, text) : "";
    TMK_TRY_ALLOC(kept, r->diag);
    *out = kept;
    return TMK_OK;
}

enum tmk_status tmk_field_keep(struct tmk_field_reader *r, const char *text, const char **out) {
    if (!tmk_utf8_valid(text, strlen(text)))
        return tmk_fail(r->diag, TMK_FORMAT, "a text that is not UTF-8");
    return keep_text(r, text, out);
}

static enum tmk_status get_format(struct tmk_field_reader *r, const struct tmk_field *f,
                                  const cJSON *object) {
    const struct tmk_file_version *version = f->of;
    const char *format;
    TMK_TRY(tmk_json_text(object, f->key, &format, r->diag));
    if (strcmp(format, version->format) != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'format' is '%s', not '%s'", format, version->format);
    return TMK_OK;
}

static enum tmk_status get_version(struct tmk_field_reader *r, const struct tmk_field *f,
                                   const cJSON *object, void *record) {
    static const char *const keys[] = {"major", "minor"};
    const struct tmk_file_version *known = f->of;
    const cJSON *version;
    uint32_t *out = &TMK_MEMBER(uint32_t, f, record), major, minor;
    TMK_TRY(tmk_json_object(object, f->key, &version, r->diag));
    TMK_TRY(
        tmk_in(r->diag, tmk_json_keys(version, keys, TMK_COUNT(keys), true, r->diag), "'version'"));
    TMK_TRY(tmk_json_u32(version, "major", &major, r->diag));
    TMK_TRY(tmk_json_u32(version, "minor", &minor, r->diag));
    if (major != known->major)
        return tmk_fail(r->diag, TMK_UNSUPPORTED,
                        "%s version %" PRIu32 ".%" PRIu32 ", but this library reads %" PRIu32
                        ".x; use the release that wrote it",
                        known->what, major, minor, known->major);
    out[0] = major;
    out[1] = minor;
    r->lenient = minor > known->minor;
    return TMK_OK;
}

static enum tmk_status get_id(struct tmk_field_reader *r, const struct tmk_field *f,
                              const cJSON *object, uint32_t *out) {
    const char *text;
    TMK_TRY(tmk_json_text(object, f->key, &text, r->diag));
    if (!tmk_profile_id_of_text(text, out))
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is '%s', not an ID such as \"p0\"", f->key,
                        text);
    return TMK_OK;
}

static enum tmk_status get_index(struct tmk_field_reader *r, const struct tmk_field *f,
                                 const cJSON *object) {
    uint32_t id;
    TMK_TRY(get_id(r, f, object, &id));
    if (id != r->index)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is p%" PRIu32 " where p%" PRIu32 " belongs",
                        f->key, id, r->index);
    return TMK_OK;
}

static bool as_int32(const cJSON *item, int32_t *out) {
    int64_t value;
    if (!cJSON_IsNumber(item) || !tmk_json_as_i64(item, &value) || value < INT32_MIN ||
        value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}

static bool as_finite(const cJSON *item, double *out) {
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return false;
    *out = item->valuedouble;
    return true;
}

static bool as_hex_double(const cJSON *item, double *out) {
    char *end;
    if (!cJSON_IsString(item) || item->valuestring[0] != '0')
        return false;
    *out = strtod(item->valuestring, &end);
    return *end == '\0' && isfinite(*out);
}

/* Space for `n` entries of an array: the capacity is the next power of two. */
static void *new_array(struct tmk_field_reader *r, size_t n, size_t size) {
    size_t capacity = 1;
    if (!r->lists_grow)
        return tmk_arena_array(r->arena, n, size);
    while (capacity < n)
        capacity *= 2;
    return calloc(capacity, size);
}

static enum tmk_status get_ids(struct tmk_field_reader *r, const struct tmk_field *f,
                               const cJSON *object, void *record) {
    const cJSON *array, *item;
    TMK_TRY(tmk_json_array(object, f->key, &array, r->diag));
    uint32_t *ids = new_array(r, (size_t)cJSON_GetArraySize(array), sizeof *ids), n = 0;
    TMK_TRY_ALLOC(ids, r->diag);
    TMK_MEMBER(uint32_t *, f, record) = ids;
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item) || !tmk_profile_id_of_text(item->valuestring, &ids[n]))
            return fail_expected(r, f, "a list of IDs");
        TMK_MEMBER_COUNT(f, record) = ++n;
    }
    return TMK_OK;
}

static const struct {
    size_t size;
    const char *what;
} number_of[] = {
    [TMK_FIELD_FLOATS] = {sizeof(float), "finite float32"},
    [TMK_FIELD_DOUBLES] = {sizeof(double), "finite number"},
    [TMK_FIELD_INT32S] = {sizeof(int32_t), "integer of 32 bits"},
    [TMK_FIELD_INT64S] = {sizeof(int64_t), "integer"},
    [TMK_FIELD_HEX_DOUBLES] = {sizeof(double), "finite number in hex, such as \"0x1.8p-7\""},
};

static bool as_number(enum tmk_field_type type, const cJSON *item, void *out) {
    switch (type) {
    case TMK_FIELD_FLOATS:
        return cJSON_IsNumber(item) && tmk_json_as_float(item, out);
    case TMK_FIELD_DOUBLES:
        return as_finite(item, out);
    case TMK_FIELD_INT32S:
        return as_int32(item, out);
    case TMK_FIELD_INT64S:
        return tmk_json_as_i64(item, out);
    default:
        return as_hex_double(item, out);
    }
}

static enum tmk_status get_numbers(struct tmk_field_reader *r, const struct tmk_field *f,
                                   const cJSON *object, void *record) {
    const cJSON *array, *item;
    const size_t size = number_of[f->type].size;
    uint32_t *n = &TMK_MEMBER_COUNT(f, record), i = 0;
    TMK_TRY(tmk_json_array(object, f->key, &array, r->diag));
    const uint32_t length = (uint32_t)cJSON_GetArraySize(array);
    if (!f->of && length == 0)
        return fail_expected(r, f, "a list with something in it");
    if (!f->of)
        *n = length;
    if (length != *n)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing or is not as long as '%s'", f->key,
                        (const char *)f->of);
    unsigned char *numbers = tmk_arena_array(r->arena, length, size);
    TMK_TRY_ALLOC(numbers, r->diag);
    TMK_MEMBER(void *, f, record) = numbers;
    cJSON_ArrayForEach(item, array) {
        if (!as_number(f->type, item, numbers + i * size))
            return tmk_fail(r->diag, TMK_FORMAT, "'%s': entry %" PRIu32 " is no %s", f->key, i,
                            number_of[f->type].what);
        i++;
    }
    return TMK_OK;
}

/* An array that is there already is of the right length. */
static enum tmk_status get_list(struct tmk_field_reader *r, const struct tmk_field *f,
                                const cJSON *object, void *record) {
    const struct tmk_fields *fields = f->of;
    const cJSON *array, *item;
    const uint32_t outer = r->index;
    TMK_TRY(tmk_json_array(object, f->key, &array, r->diag));
    if (!array->child)
        return f->flags & TMK_FIELD_FILLED ? fail_expected(r, f, "a list with something in it")
                                           : TMK_OK;
    const bool is_new = !TMK_MEMBER(void *, f, record);
    if (is_new) {
        TMK_MEMBER(void *, f, record) =
            new_array(r, (size_t)cJSON_GetArraySize(array), fields->size);
        TMK_TRY_ALLOC(TMK_MEMBER(void *, f, record), r->diag);
    }
    r->index = 0;
    cJSON_ArrayForEach(item, array) {
        unsigned char *entry = TMK_MEMBER(unsigned char *, f, record) + r->index * fields->size;
        TMK_TRY(tmk_in(r->diag, tmk_fields_get(r, fields, item, entry), "%s[%" PRIu32 "]", f->key,
                       r->index));
        r->index++;
        if (is_new)
            TMK_MEMBER_COUNT(f, record) = r->index;
    }
    r->index = outer;
    return TMK_OK;
}

static enum tmk_status get_text(struct tmk_field_reader *r, const struct tmk_field *f,
                                const cJSON *object, void *record) {
    const char *text;
    TMK_TRY(tmk_json_text(object, f->key, &text, r->diag));
    return keep_text(r, text, &TMK_MEMBER(const char *, f, record));
}

static enum tmk_status get_named(struct tmk_field_reader *r, const struct tmk_field *f,
                                 const cJSON *object, void *record) {
    const char *name;
    TMK_TRY(tmk_json_text(object, f->key, &name, r->diag));
    return tmk_field_by_name(f, name, record, r->diag);
}

static enum tmk_status get_place(struct tmk_field_reader *r, const cJSON *where, const char *key,
                                 uint64_t *out) {
    if (cJSON_IsNull(tmk_json_member(where, key)))
        return TMK_OK;
    return tmk_json_u64(where, key, out, r->diag);
}

static enum tmk_status get_where(struct tmk_field_reader *r, const struct tmk_field *f,
                                 const cJSON *item, struct tmk_where *out) {
    *out = (struct tmk_where){TMK_NOWHERE, TMK_NOWHERE};
    if (cJSON_IsNull(item))
        return TMK_OK;
    if (!cJSON_IsObject(item))
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing or is neither a place nor null",
                        f->key);
    TMK_TRY(tmk_in(r->diag, get_place(r, item, "sample", &out->sample), "'%s'", f->key));
    return tmk_in(r->diag, get_place(r, item, "index", &out->index), "'%s'", f->key);
}

static enum tmk_status get_integer(struct tmk_field_reader *r, const struct tmk_field *f,
                                   const cJSON *object, void *record) {
    const cJSON *item = tmk_json_member(object, f->key);
    uint32_t id;
    switch (f->type) {
    case TMK_FIELD_U32:
        return tmk_json_u32(object, f->key, &TMK_MEMBER(uint32_t, f, record), r->diag);
    case TMK_FIELD_I32:
        return as_int32(item, &TMK_MEMBER(int32_t, f, record)) ? TMK_OK
                                                               : fail_expected(r, f, "an integer");
    case TMK_FIELD_NATURAL: {
        int32_t *out = &TMK_MEMBER(int32_t, f, record);
        *out = -1;
        if (!cJSON_IsNull(item) && (!as_int32(item, out) || *out < 0))
            return fail_expected(r, f, "an integer that is not negative, or null");
        return TMK_OK;
    }
    case TMK_FIELD_I64:
        return tmk_json_as_i64(item, &TMK_MEMBER(int64_t, f, record))
                   ? TMK_OK
                   : fail_expected(r, f, "an integer");
    case TMK_FIELD_HEX: {
        const char *text = cJSON_IsString(item) ? item->valuestring : "";
        if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
            return fail_expected(r, f, "16 hex digits");
        TMK_MEMBER(uint64_t, f, record) = strtoull(text, NULL, 16);
        return TMK_OK;
    }
    case TMK_FIELD_ID:
        return get_id(r, f, object, &TMK_MEMBER(uint32_t, f, record));
    case TMK_FIELD_MAYBE_ID:
        TMK_MEMBER(int64_t, f, record) = -1;
        if (cJSON_IsNull(item))
            return TMK_OK;
        TMK_TRY(get_id(r, f, object, &id));
        TMK_MEMBER(int64_t, f, record) = id;
        return TMK_OK;
    default:
        return tmk_json_u64(object, f->key, &TMK_MEMBER(uint64_t, f, record), r->diag);
    }
}

static enum tmk_status get_real(struct tmk_field_reader *r, const struct tmk_field *f,
                                const cJSON *object, void *record) {
    const cJSON *item = tmk_json_member(object, f->key);
    switch (f->type) {
    case TMK_FIELD_F32:
        return tmk_json_as_float(item, &TMK_MEMBER(float, f, record))
                   ? TMK_OK
                   : fail_expected(r, f, "a float32 number or null");
    case TMK_FIELD_FINITE:
        return as_number(TMK_FIELD_FLOATS, item, &TMK_MEMBER(float, f, record))
                   ? TMK_OK
                   : fail_expected(r, f, "a finite float32");
    case TMK_FIELD_SHARE:
        return as_finite(item, &TMK_MEMBER(double, f, record)) && TMK_MEMBER(double, f, record) >= 0
                   ? TMK_OK
                   : fail_expected(r, f, "a finite number that is not negative");
    default:
        if (cJSON_IsNull(item) && !(f->flags & TMK_FIELD_OMIT)) { /* which stands for null */
            TMK_MEMBER(double, f, record) = NAN;
            return TMK_OK;
        }
        return as_finite(item, &TMK_MEMBER(double, f, record))
                   ? TMK_OK
                   : fail_expected(
                         r, f, f->flags & TMK_FIELD_OMIT ? "a finite number" : "a number or null");
    }
}

static enum tmk_status get_value(struct tmk_field_reader *r, const struct tmk_field *f,
                                 const cJSON *object, void *record) {
    const cJSON *item = tmk_json_member(object, f->key);
    switch (f->type) {
    case TMK_FIELD_FORMAT:
        return get_format(r, f, object);
    case TMK_FIELD_VERSION:
        return get_version(r, f, object, record);
    case TMK_FIELD_TEXT:
    case TMK_FIELD_WORD:
        return get_text(r, f, object, record);
    case TMK_FIELD_BOOL:
        return item ? tmk_json_bool_or(object, f->key, &TMK_MEMBER(bool, f, record), false, r->diag)
                    : fail_expected(r, f, "true or false");
    case TMK_FIELD_F32:
    case TMK_FIELD_F64:
    case TMK_FIELD_FINITE:
    case TMK_FIELD_SHARE:
        return get_real(r, f, object, record);
    case TMK_FIELD_WHERE:
        return get_where(r, f, item, &TMK_MEMBER(struct tmk_where, f, record));
    case TMK_FIELD_INDEX:
        return get_index(r, f, object);
    case TMK_FIELD_NAME:
    case TMK_FIELD_DTYPE:
        return get_named(r, f, object, record);
    case TMK_FIELD_IDS:
        return get_ids(r, f, object, record);
    case TMK_FIELD_FLOATS:
    case TMK_FIELD_DOUBLES:
    case TMK_FIELD_INT32S:
    case TMK_FIELD_INT64S:
    case TMK_FIELD_HEX_DOUBLES:
        return get_numbers(r, f, object, record);
    case TMK_FIELD_OBJECT:
        return tmk_in(r->diag,
                      tmk_fields_get(r, f->of, item, &TMK_MEMBER(unsigned char, f, record)), "'%s'",
                      f->key);
    case TMK_FIELD_LIST:
        return get_list(r, f, object, record);
    case TMK_FIELD_CODEC:
        return tmk_in(r->diag, ((const struct tmk_field_codec *)f->of)->get(r, item, record),
                      "'%s'", f->key);
    case TMK_FIELD_U8:
    case TMK_FIELD_ELSEWHERE:
        return TMK_OK;
    default:
        return get_integer(r, f, object, record);
    }
}

enum tmk_status tmk_field_get(struct tmk_field_reader *r, const struct tmk_field *f,
                              const cJSON *object, void *record) {
    if (!f->key || f->type == TMK_FIELD_ELSEWHERE)
        return TMK_OK;
    const cJSON *item = tmk_json_member(object, f->key);
    if (f->flags & TMK_FIELD_NULL && cJSON_IsNull(item) && f->absent(record))
        return TMK_OK;
    if (item)
        return get_value(r, f, object, record);
    if (f->flags & TMK_FIELD_OPTIONAL) {
        switch (f->type) {
        case TMK_FIELD_TEXT:
            TMK_MEMBER(const char *, f, record) = f->of ? f->of : "";
            break;
        case TMK_FIELD_F32:
        case TMK_FIELD_FINITE:
            TMK_MEMBER(float, f, record) = NAN;
            break;
        case TMK_FIELD_F64:
        case TMK_FIELD_SHARE:
            TMK_MEMBER(double, f, record) = NAN;
            break;
        case TMK_FIELD_NATURAL:
            TMK_MEMBER(int32_t, f, record) = -1;
            break;
        default:
            break;
        }
        return TMK_OK;
    }
    if (f->type == TMK_FIELD_CODEC || f->type == TMK_FIELD_OBJECT)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing", f->key);
    return get_value(r, f, object, record); /* which reports what is expected */
}

/* Of a table and those before it. */
static size_t gather_keys(const struct tmk_fields *fields, const char **keys, size_t n) {
    if (fields->before)
        n = gather_keys(fields->before, keys, n);
    for (size_t i = 0; i < fields->n; i++)
        if (fields->field[i].key)
            keys[n++] = fields->field[i].key;
    return n;
}

static enum tmk_status get_members(struct tmk_field_reader *r, const struct tmk_fields *fields,
                                   const cJSON *object, void *record, size_t from) {
    if (fields->before)
        TMK_TRY(get_members(r, fields->before, object, record, 0));
    for (size_t i = from; i < fields->n; i++)
        TMK_TRY(tmk_field_get(r, &fields->field[i], object, record));
    return fields->after ? fields->after(r, record) : TMK_OK;
}

enum tmk_status tmk_fields_get(struct tmk_field_reader *r, const struct tmk_fields *fields,
                               const cJSON *object, void *record) {
    const char *keys[64]; /* the most that tmk_json_keys supports */
    size_t leading = 0;
    for (; leading < fields->n && fields->field[leading].type <= TMK_FIELD_VERSION; leading++)
        TMK_TRY(tmk_field_get(r, &fields->field[leading], object, record));
    size_t n = gather_keys(fields, keys, 0);
    TMK_TRY(tmk_json_keys(object, keys, n, !r->lenient, r->diag));
    return get_members(r, fields, object, record, leading);
}

bool tmk_fields_has(const struct tmk_fields *fields, const char *key) {
    for (size_t i = 0; i < fields->n; i++)
        if (fields->field[i].key && fields->field[i].type != TMK_FIELD_ELSEWHERE &&
            strcmp(fields->field[i].key, key) == 0)
            return true;
    return false;
}
