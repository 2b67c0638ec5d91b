/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings as JSON: one member of the header a line, one entry a line. Those that are written by
 * hand have what must be said only. */
#include <math.h>
#include <string.h>

#include <tidemark/encodings.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "calib/encodings.h"

static enum tmk_status fail_expected(struct tmk_field_reader *r, const char *key,
                                     const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing or is not %s", key, what);
}

/* ---- an encoding: its readers ---- */

#define RECORD tmk_encoding_use
static const struct tmk_field use_table[] = {
    TMK_FIELD("node", TEXT, node),
    TMK_FIELD("op", TEXT, op),
    TMK_FIELD("input", U32, input),
};
#undef RECORD
static const struct tmk_fields use_fields =
    TMK_FIELDS(use_table, .size = sizeof(struct tmk_encoding_use));

#define RECORD tmk_encoding
static const struct tmk_field uses_table[] = {
    TMK_FIELD_COUNTED("uses", LIST, uses, n_uses, .of = &use_fields,
                      .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT | TMK_FIELD_FILLED),
};
static const struct tmk_fields uses_fields = TMK_FIELDS(uses_table, );

void tmk_json_put_uses(struct tmk_json_out *to, const struct tmk_encoding *e) {
    tmk_fields_put(to, &uses_fields, e, 0);
}

/* ---- its expected effect ---- */

static const struct tmk_field expected_table[] = {
    TMK_FIELD("mse", SHARE, expected.mse),
    TMK_FIELD("mse_low", SHARE, expected.mse_low),
    TMK_FIELD("mse_high", SHARE, expected.mse_high),
    TMK_FIELD("sqnr", F64, expected.sqnr),
    TMK_FIELD("clipped", SHARE, expected.clipped),
    TMK_FIELD("clipped_low", SHARE, expected.clipped_low),
    TMK_FIELD("clipped_high", SHARE, expected.clipped_high),
    TMK_FIELD("codes", U32, expected.codes),
#define MAYBE .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT
    TMK_FIELD("flat_low", SHARE, expected.flat_low, MAYBE),
    TMK_FIELD("flat_high", SHARE, expected.flat_high, MAYBE),
    TMK_FIELD("low_from", F64, expected.low_from, MAYBE),
    TMK_FIELD("low_to", F64, expected.low_to, MAYBE),
    TMK_FIELD("high_from", F64, expected.high_from, MAYBE),
    TMK_FIELD("high_to", F64, expected.high_to, MAYBE),
    TMK_FIELD("tying", SHARE, expected.tying, MAYBE),
#undef MAYBE
};
static const struct tmk_fields expected_fields = TMK_FIELDS(expected_table, );

static bool has_no_expected(const void *record) {
    return !((const struct tmk_encoding *)record)->expected.known;
}

static void put_expected(struct tmk_json_out *to, const char *key, const void *record) {
    struct tmk_encoding e = *(const struct tmk_encoding *)record;
    struct tmk_json_out object = tmk_json_new_object();
    if (!e.expected.flat)
        e.expected.flat_low = e.expected.flat_high = NAN;
    if (e.expected.low_from >= e.expected.low_to && e.expected.high_from >= e.expected.high_to)
        e.expected.low_from = e.expected.low_to = e.expected.high_from = e.expected.high_to = NAN;
    if (!e.group)
        e.expected.tying = NAN;
    tmk_fields_put(&object, &expected_fields, &e, 0);
    tmk_json_put_child(to, key, &object);
}

/* Where the thresholds lie; all four or none: they are low and high. */
static enum tmk_status set_thresholds(struct tmk_field_reader *r, struct tmk_encoding *e) {
    const struct {
        const char *key;
        double *out;
        double otherwise;
    } ends[] = {
        {"low_from", &e->expected.low_from, (double)e->low[0]},
        {"low_to", &e->expected.low_to, (double)e->low[0]},
        {"high_from", &e->expected.high_from, (double)e->high[0]},
        {"high_to", &e->expected.high_to, (double)e->high[0]},
    };
    bool absent = isnan(e->expected.low_from);
    for (size_t i = 0; i < TMK_COUNT(ends); i++) {
        if (absent != (bool)isnan(*ends[i].out))
            return fail_expected(r, ends[i].key, "a finite number, as the other three ends are");
        if (absent)
            *ends[i].out = ends[i].otherwise;
    }
    if (e->expected.low_from > e->expected.low_to || e->expected.high_from > e->expected.high_to)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "'low_from' is above 'low_to', or 'high_from' above 'high_to'");
    return TMK_OK;
}

static enum tmk_status get_expected(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_encoding *e = record;
    TMK_TRY(tmk_fields_get(r, &expected_fields, item, e));
    e->expected.known = true;
    return TMK_OK;
}

/* What the ends that are absent are follows from the range. */
static enum tmk_status finalize_expected(struct tmk_field_reader *r, struct tmk_encoding *e) {
    if (!e->expected.known)
        return TMK_OK;
    e->expected.flat = !isnan(e->expected.flat_low);
    if (e->expected.flat != !isnan(e->expected.flat_high))
        return fail_expected(r, "flat_high", "there as 'flat_low' is");
    if (!e->expected.flat)
        e->expected.flat_low = e->expected.flat_high = 0;
    if (isnan(e->expected.tying))
        e->expected.tying = 0;
    if (isnan(e->expected.sqnr)) /* null */
        e->expected.sqnr = HUGE_VAL;
    return set_thresholds(r, e);
}

/* ---- an encoding ---- */

static void put_scheme(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_encoding *e = record;
    tmk_json_put_text(to, key, e->symmetric ? "symmetric" : "asymmetric");
}

static enum tmk_status get_scheme(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_encoding *e = record;
    const char *scheme = cJSON_IsString(item) ? item->valuestring : "";
    e->symmetric = strcmp(scheme, "symmetric") == 0;
    if (!e->symmetric && strcmp(scheme, "asymmetric") != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "is not \"symmetric\" or \"asymmetric\"");
    return TMK_OK;
}

static bool has_no_sources(const void *record) {
    return ((const struct tmk_encoding *)record)->n_sources == 0;
}

static void put_sources(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_encoding *e = record;
    tmk_field_put_ids(to, key, e->sources, e->n_sources);
}

static enum tmk_status get_sources(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_encoding *e = record;
    const cJSON *id;
    bool is_list = cJSON_IsArray(item);
    cJSON_ArrayForEach(id, item) {
        is_list = is_list && e->n_sources < TMK_COUNT(e->sources) && cJSON_IsString(id) &&
                  tmk_profile_id_of_text(id->valuestring, &e->sources[e->n_sources]);
        e->n_sources += is_list;
    }
    return is_list ? TMK_OK : tmk_fail(r->diag, TMK_FORMAT, "is not a list of at most two IDs");
}

static enum tmk_status copy_absent(struct tmk_field_reader *r, float **out, const float *from,
                                   uint32_t n) {
    if (*out)
        return TMK_OK;
    *out = tmk_encodings_make(r->owner, n, sizeof **out);
    TMK_TRY_ALLOC(*out, r->diag);
    memcpy(*out, from, n * sizeof **out);
    return TMK_OK;
}

static enum tmk_status finalize_ranges(struct tmk_field_reader *r, struct tmk_encoding *e) {
    float *const given[] = {e->clip_min, e->clip_max};
    e->clip_min = tmk_encodings_make(r->owner, e->n, sizeof *e->clip_min);
    e->clip_max = tmk_encodings_make(r->owner, e->n, sizeof *e->clip_max);
    TMK_TRY_ALLOC(e->clip_min && e->clip_max, r->diag);
    tmk_encoding_set_clip(e);
    e->clip_min = given[0] ? given[0] : e->clip_min;
    e->clip_max = given[1] ? given[1] : e->clip_max;
    TMK_TRY(copy_absent(r, &e->low, e->clip_min, e->n));
    return copy_absent(r, &e->high, e->clip_max, e->n);
}

static void finalize_observed(struct tmk_encoding *e) {
    const bool min = isnan(e->observed_min), max = isnan(e->observed_max);
    for (uint32_t i = 0; i < e->n; i++) { /* of NaN and a number, the number */
        if (min)
            e->observed_min = fminf(e->observed_min, e->low[i]);
        if (max)
            e->observed_max = fmaxf(e->observed_max, e->high[i]);
    }
}

/* Of blocks there are many: what follows from the scales is not written. */
static bool has_blocks(const void *record) {
    return ((const struct tmk_encoding *)record)->block > 0;
}

static bool has_plain_blocks(const void *record) {
    return has_blocks(record) && ((const struct tmk_encoding *)record)->symmetric;
}

static enum tmk_status finalize_zero_points(struct tmk_field_reader *r, struct tmk_encoding *e) {
    if (e->zero_point)
        return TMK_OK;
    if (!e->symmetric)
        return fail_expected(r, "zero_point", "a list of integers");
    e->zero_point = tmk_encodings_make(r->owner, e->n, sizeof *e->zero_point);
    TMK_TRY_ALLOC(e->zero_point, r->diag);
    for (uint32_t i = 0; i < e->n; i++)
        e->zero_point[i] = tmk_encoding_middle(e->dtype);
    return TMK_OK;
}

static enum tmk_status finalize_encoding(struct tmk_field_reader *r, void *record) {
    struct tmk_encoding *e = record;
    if (e->axis >= TMK_MAX_RANK)
        return fail_expected(r, "axis", "an axis or null");
    TMK_TRY(finalize_zero_points(r, e));
    TMK_TRY(tmk_encoding_check_scales(e, r->diag));
    TMK_TRY(finalize_ranges(r, e));
    finalize_observed(e);
    return tmk_in(r->diag, finalize_expected(r, e), "'expected'");
}

static const char *const role_names[] = {
#define TMK_ROLE_TEXT(name, text) text,
    TMK_ENCODING_ROLE_LIST(TMK_ROLE_TEXT)
#undef TMK_ROLE_TEXT
};
static const struct tmk_field_names roles = {"role", role_names, TMK_COUNT(role_names)};
static const struct tmk_field_codec scheme = {put_scheme, get_scheme},
                                    sources = {put_sources, get_sources},
                                    effect = {put_expected, get_expected};

#define OPTIONAL .flags = TMK_FIELD_OPTIONAL
#define BESIDE(key, type, member, ...)                                                             \
    TMK_FIELD_COUNTED(key, type, member, n, .of = "scale", __VA_ARGS__)
static const struct tmk_field encoding_table[] = {
    TMK_FIELD("id", ID, id),
    TMK_FIELD("fingerprint", HEX, fingerprint),
    TMK_FIELD("name", TEXT, name),
    TMK_FIELD("role", NAME, role, .of = &roles),
    TMK_FIELD("dtype", DTYPE, dtype),
    TMK_FIELD("scheme", CODEC, symmetric, .of = &scheme),
    TMK_FIELD("narrow", BOOL, narrow, OPTIONAL),
    TMK_FIELD("pow2", BOOL, pow2, OPTIONAL),
    TMK_FIELD("axis", NATURAL, axis, OPTIONAL),
    TMK_FIELD("block", U32, block, .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT),
    TMK_FIELD_COUNTED("scale", FLOATS, scale, n),
    BESIDE("zero_point", INT32S, zero_point, OPTIONAL, .absent = has_plain_blocks),
    BESIDE("low", FLOATS, low, OPTIONAL, .absent = has_blocks),
    BESIDE("high", FLOATS, high, OPTIONAL, .absent = has_blocks),
    BESIDE("clip_min", FLOATS, clip_min, OPTIONAL, .absent = has_blocks),
    BESIDE("clip_max", FLOATS, clip_max, OPTIONAL, .absent = has_blocks),
    TMK_FIELD("observed_min", FINITE, observed_min, OPTIONAL),
    TMK_FIELD("observed_max", FINITE, observed_max, OPTIONAL),
    TMK_FIELD("method", TEXT, method, OPTIONAL, .of = "given"),
    TMK_FIELD("rule", TEXT, rule, OPTIONAL),
    TMK_FIELD("group", U32, group, .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT),
    TMK_FIELD("sources", CODEC, sources, OPTIONAL, .of = &sources, .absent = has_no_sources),
    TMK_FIELD_COUNTED("uses", LIST, uses, n_uses, .of = &use_fields,
                      .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT | TMK_FIELD_FILLED),
    TMK_FIELD("expected", CODEC, expected, OPTIONAL, .of = &effect, .absent = has_no_expected),
};
#undef BESIDE
#undef RECORD
static const struct tmk_fields encoding_fields =
    TMK_FIELDS(encoding_table, .size = sizeof(struct tmk_encoding), .after = finalize_encoding);

/* ---- other entries ---- */

#define RECORD tmk_left_float
static const struct tmk_field left_table[] = {
    TMK_FIELD("id", ID, id),
    TMK_FIELD("name", TEXT, name),
    TMK_FIELD("reason", TEXT, reason),
    TMK_FIELD("observed_min", F32, observed_min, OPTIONAL),
    TMK_FIELD("observed_max", F32, observed_max, OPTIONAL),
};
#undef RECORD
static const struct tmk_fields left_fields =
    TMK_FIELDS(left_table, .size = sizeof(struct tmk_left_float));

#define RECORD tmk_requant
static const struct tmk_field requant_table[] = {
    TMK_FIELD("id", ID, id),
    TMK_FIELD("node", TEXT, node),
    TMK_FIELD("op", TEXT, op),
    TMK_FIELD("operand", NATURAL, operand),
    TMK_FIELD_COUNTED("multiplier", INT32S, multiplier, n),
    TMK_FIELD_COUNTED("shift", INT32S, shift, n, .of = "multiplier"),
    TMK_FIELD_COUNTED("real", HEX_DOUBLES, real, n, .of = "multiplier"),
    TMK_FIELD("error", SHARE, error),
};
#undef RECORD
static const struct tmk_fields requant_fields =
    TMK_FIELDS(requant_table, .size = sizeof(struct tmk_requant));

/* ---- the file ---- */

static void put_settings(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_encodings *e = record;
    struct tmk_json_out out = tmk_json_new_object();
    for (uint32_t i = 0; i < e->n_settings; i++)
        tmk_json_put_text(&out, e->settings[i].key, e->settings[i].value);
    tmk_json_put_child(to, key, &out);
}

static enum tmk_status get_settings(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_encodings *e = record;
    const cJSON *setting;
    if (!cJSON_IsObject(item))
        return tmk_fail(r->diag, TMK_FORMAT, "not an object");
    e->settings = tmk_encodings_make(e, (size_t)cJSON_GetArraySize(item), sizeof *e->settings);
    TMK_TRY_ALLOC(e->settings, r->diag);
    cJSON_ArrayForEach(setting, item) {
        struct tmk_encodings_setting *out = &e->settings[e->n_settings++];
        if (!cJSON_IsString(setting))
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' is not a string", setting->string);
        TMK_TRY(tmk_encodings_keep(e, setting->string, &out->key, r->diag));
        TMK_TRY(tmk_encodings_keep(e, setting->valuestring, &out->value, r->diag));
    }
    return TMK_OK;
}

static const char *const rounding_names[] = {
#define TMK_ROUNDING_TEXT(name, text) text,
    TMK_ROUNDING_LIST(TMK_ROUNDING_TEXT)
#undef TMK_ROUNDING_TEXT
};
static const struct tmk_field_names roundings = {"rounding", rounding_names,
                                                 TMK_COUNT(rounding_names)};
static const struct tmk_field_codec settings = {put_settings, get_settings};
static const struct tmk_file_version version = {TMK_ENCODINGS_FORMAT, "encodings",
                                                TMK_ENCODINGS_MAJOR, TMK_ENCODINGS_MINOR};

#define RECORD tmk_encodings
static const struct tmk_field producer_table[] = {
    TMK_FIELD("name", TEXT, producer.name),
    TMK_FIELD("version", TEXT, producer.version, OPTIONAL),
};
static const struct tmk_field model_table[] = {
    TMK_FIELD("file", TEXT, model.file),
    TMK_FIELD("sha256", TEXT, model.sha256, OPTIONAL),
    TMK_FIELD("format", TEXT, model.format, OPTIONAL),
    TMK_FIELD("graph_fingerprint", HEX, model.fingerprint),
};
static const struct tmk_fields producer_fields = TMK_FIELDS(producer_table, ),
                               model_fields = TMK_FIELDS(model_table, );

#define LINES .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_LINES
static const struct tmk_field file_table[] = {
    TMK_FIELD("format", FORMAT, version, .of = &version),
    TMK_FIELD("version", VERSION, version, .of = &version),
    TMK_FIELD_WHOLE("producer", OBJECT, .of = &producer_fields),
    TMK_FIELD_WHOLE("model", OBJECT, .of = &model_fields),
    TMK_FIELD("settings", CODEC, settings, OPTIONAL, .of = &settings),
    TMK_FIELD("samples", U64, samples, OPTIONAL),
    TMK_FIELD("rounding", NAME, rounding, OPTIONAL, .of = &roundings),
    TMK_FIELD("pow2_requant", BOOL, pow2_requant, OPTIONAL),
    TMK_FIELD_COUNTED("encodings", LIST, items, n_items, LINES, .of = &encoding_fields),
    TMK_FIELD_COUNTED("left", LIST, left, n_left, LINES, .of = &left_fields),
    TMK_FIELD_COUNTED("requants", LIST, requants, n_requants, LINES, .of = &requant_fields),
};
#undef RECORD
const struct tmk_fields tmk_encodings_fields = TMK_FIELDS(file_table, );

static enum tmk_status read_tree(const cJSON *tree, struct tmk_encodings *encodings,
                                 struct tmk_diag *diag) {
    struct tmk_field_reader r = {.owner = encodings, .arena = encodings->arena, .diag = diag};
    TMK_TRY(tmk_fields_get(&r, &tmk_encodings_fields, tree, encodings));
    return tmk_encodings_check(encodings, diag);
}

enum tmk_status tmk_encodings_read(const char *path, struct tmk_encodings **out,
                                   struct tmk_diag *diag) {
    struct tmk_json_file file;
    struct tmk_encodings *encodings = NULL;
    TMK_TRY(tmk_in_file(diag, tmk_json_file_open(path, &file, diag), path, TMK_FILE_ENCODINGS));
    enum tmk_status status = tmk_encodings_create(&encodings, diag);
    TMK_THEN(status,
             tmk_in_file(diag, read_tree(file.tree, encodings, diag), path, TMK_FILE_ENCODINGS));
    tmk_json_file_close(&file);
    if (status == TMK_OK)
        *out = encodings;
    else
        tmk_encodings_destroy(&encodings);
    return status;
}

enum tmk_status tmk_encodings_write(const struct tmk_encodings *encodings, const char *path,
                                    struct tmk_diag *diag) {
    struct tmk_text text = {0};
    locale_t locale[2];
    TMK_TRY(tmk_check_ending(path, "json", diag));
    TMK_TRY(tmk_locale_begin(locale, diag));
    tmk_text_puts(&text, "{\n");
    enum tmk_status status = tmk_fields_text(&tmk_encodings_fields, encodings, ",\n", &text, diag);
    tmk_text_puts(&text, "\n}\n");
    tmk_locale_end(locale);
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(diag);
    TMK_THEN(status, tmk_file_write(path, text.data, text.len, diag));
    tmk_text_finish(&text);
    return status;
}

/* ---- files that are one JSON object ---- */

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
