/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings from JSON: ours, or written by hand with what must be said only. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/filekind.h"
#include "base/size.h"
#include "calib/encodings_check.h"
#include "calib/item.h"
#include "calib/json_file.h"
#include "profile/format.h"

struct reader {
    struct tmk_encodings *e;
    struct tmk_diag *diag;
    bool strict; /* unknown keys are errors in files that this library should know all of */
};

static enum tmk_status expected(struct reader *r, const char *key, const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing or is not %s", key, what);
}

static enum tmk_status keep(struct reader *r, const cJSON *object, const char *key,
                            const char *otherwise, const char **out) {
    const char *text;
    if (otherwise)
        TMK_TRY(tmk_json_text_or(object, key, &text, otherwise, r->diag));
    else
        TMK_TRY(tmk_json_text(object, key, &text, r->diag));
    return tmk_encodings_keep(r->e, text, out, r->diag);
}

static enum tmk_status get_id(struct reader *r, const cJSON *item, uint32_t *out) {
    const char *text;
    TMK_TRY(tmk_json_text(item, "id", &text, r->diag));
    return tmk_profile_id_of_text(text, out) ? TMK_OK : expected(r, "id", "an ID like \"p12\"");
}

static enum tmk_status as_finite(const cJSON *item, float *out) {
    return cJSON_IsNumber(item) && tmk_json_as_float(item, out) ? TMK_OK : TMK_FORMAT;
}

static enum tmk_status as_int32(const cJSON *item, int32_t *out) {
    int64_t value;
    if (!cJSON_IsNumber(item) || !tmk_json_as_i64(item, &value) || value < INT32_MIN ||
        value > INT32_MAX)
        return TMK_FORMAT;
    *out = (int32_t)value;
    return TMK_OK;
}

static enum tmk_status as_hex_real(const cJSON *item, double *out) {
    char *end;
    if (!cJSON_IsString(item) || item->valuestring[0] != '0')
        return TMK_FORMAT;
    *out = strtod(item->valuestring, &end);
    return *end == '\0' && isfinite(*out) ? TMK_OK : TMK_FORMAT;
}

/* Exactly n elements, each read by one of the above. */
#define LIST_GETTER(name, type, as, what)                                                          \
    static enum tmk_status name(struct reader *r, const cJSON *object, const char *key, type *out, \
                                uint32_t n) {                                                      \
        const cJSON *array, *item;                                                                 \
        uint32_t i = 0;                                                                            \
        TMK_TRY(tmk_json_array(object, key, &array, r->diag));                                     \
        cJSON_ArrayForEach(item, array) {                                                          \
            if (i == n || as(item, &out[i]) != TMK_OK)                                             \
                return i == n ? expected(r, key, "as long as 'scale' or 'multiplier'")             \
                              : tmk_fail(r->diag, TMK_FORMAT,                                      \
                                         "'%s': entry %" PRIu32 " is no " what, key, i);           \
            i++;                                                                                   \
        }                                                                                          \
        return i == n ? TMK_OK : expected(r, key, "as long as 'scale' or 'multiplier'");           \
    }
LIST_GETTER(get_floats, float, as_finite, "finite float32")
LIST_GETTER(get_integers, int32_t, as_int32, "integer of 32 bits")
LIST_GETTER(get_hex_reals, double, as_hex_real, "finite number in hex, such as \"0x1.8p-7\"")

static enum tmk_status length_of(struct reader *r, const cJSON *object, const char *key,
                                 uint32_t *out) {
    const cJSON *array;
    TMK_TRY(tmk_json_array(object, key, &array, r->diag));
    int n = cJSON_GetArraySize(array);
    if (n < 1)
        return expected(r, key, "a list with something in it");
    *out = (uint32_t)n;
    return TMK_OK;
}

/* ---- an encoding ---- */

static enum tmk_status get_kind(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    const char *role, *dtype, *scheme;
    int i = 0;
    TMK_TRY(tmk_json_text(item, "role", &role, r->diag));
    while (strcmp(tmk_encoding_role_name((enum tmk_encoding_role)i), "?") != 0 &&
           strcmp(tmk_encoding_role_name((enum tmk_encoding_role)i), role) != 0)
        i++;
    e->role = (enum tmk_encoding_role)i;
    if (strcmp(tmk_encoding_role_name(e->role), role) != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'role': there is no role '%s'", role);
    TMK_TRY(tmk_json_text(item, "dtype", &dtype, r->diag));
    TMK_TRY(tmk_in(r->diag, tmk_profile_dtype_by_name(dtype, &e->dtype, r->diag), "'dtype'"));
    TMK_TRY(tmk_json_text(item, "scheme", &scheme, r->diag));
    e->symmetric = strcmp(scheme, "symmetric") == 0;
    if (!e->symmetric && strcmp(scheme, "asymmetric") != 0)
        return expected(r, "scheme", "\"symmetric\" or \"asymmetric\"");
    TMK_TRY(tmk_json_bool_or(item, "narrow", &e->narrow, false, r->diag));
    return tmk_json_bool_or(item, "pow2", &e->pow2, false, r->diag);
}

static enum tmk_status get_axis(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    const cJSON *axis = tmk_json_member(item, "axis");
    e->axis = -1;
    if (!axis || cJSON_IsNull(axis))
        return TMK_OK;
    if (as_int32(axis, &e->axis) != TMK_OK || e->axis < 0 || e->axis >= TMK_MAX_RANK)
        return expected(r, "axis", "an axis or null");
    return TMK_OK;
}

static enum tmk_status get_scales(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    uint32_t n;
    TMK_TRY(length_of(r, item, "scale", &n));
    TMK_TRY(tmk_encoding_allocate(r->e, e, n, r->diag));
    TMK_TRY(get_floats(r, item, "scale", e->scale, n));
    TMK_TRY(get_integers(r, item, "zero_point", e->zero_point, n));
    TMK_TRY(tmk_encoding_check_scales(e, r->diag));
    tmk_encoding_set_clip(e);
    if (tmk_json_member(item, "clip_min"))
        TMK_TRY(get_floats(r, item, "clip_min", e->clip_min, n));
    if (tmk_json_member(item, "clip_max"))
        TMK_TRY(get_floats(r, item, "clip_max", e->clip_max, n));
    memcpy(e->low, e->clip_min, n * sizeof *e->low);
    memcpy(e->high, e->clip_max, n * sizeof *e->high);
    if (tmk_json_member(item, "low"))
        TMK_TRY(get_floats(r, item, "low", e->low, n));
    if (tmk_json_member(item, "high"))
        TMK_TRY(get_floats(r, item, "high", e->high, n));
    return TMK_OK;
}

static enum tmk_status get_observed(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    e->observed_min = e->low[0];
    e->observed_max = e->high[0];
    for (uint32_t i = 1; i < e->n; i++) {
        e->observed_min = fminf(e->observed_min, e->low[i]);
        e->observed_max = fmaxf(e->observed_max, e->high[i]);
    }
    const cJSON *min = tmk_json_member(item, "observed_min"),
                *max = tmk_json_member(item, "observed_max");
    if (min && as_finite(min, &e->observed_min) != TMK_OK)
        return expected(r, "observed_min", "a finite float32");
    if (max && as_finite(max, &e->observed_max) != TMK_OK)
        return expected(r, "observed_max", "a finite float32");
    return TMK_OK;
}

static enum tmk_status get_sources(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    const cJSON *array, *id;
    if (!tmk_json_member(item, "sources"))
        return TMK_OK;
    TMK_TRY(tmk_json_array(item, "sources", &array, r->diag));
    cJSON_ArrayForEach(id, array) {
        if (e->n_sources == TMK_COUNT(e->sources) || !cJSON_IsString(id) ||
            !tmk_profile_id_of_text(id->valuestring, &e->sources[e->n_sources]))
            return expected(r, "sources", "a list of at most two IDs");
        e->n_sources++;
    }
    return TMK_OK;
}

static enum tmk_status get_use(struct reader *r, const cJSON *item, struct tmk_encoding_use *use) {
    static const char *const keys[] = {"node", "op", "input"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(keep(r, item, "node", NULL, &use->node));
    TMK_TRY(keep(r, item, "op", NULL, &use->op));
    return tmk_json_u32(item, "input", &use->input, r->diag);
}

static enum tmk_status get_uses(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    const cJSON *array, *use;
    if (!tmk_json_member(item, "uses"))
        return TMK_OK;
    uint32_t n;
    TMK_TRY(length_of(r, item, "uses", &n));
    TMK_TRY(tmk_json_array(item, "uses", &array, r->diag));
    e->uses = tmk_encodings_make(r->e, n, sizeof *e->uses);
    if (!e->uses)
        return tmk_nomem(r->diag);
    cJSON_ArrayForEach(use, array) {
        TMK_TRY(
            tmk_in(r->diag, get_use(r, use, &e->uses[e->n_uses]), "uses[%" PRIu32 "]", e->n_uses));
        e->n_uses++;
    }
    return TMK_OK;
}

/* Where the thresholds lie; all four or none: they are low and high. */
static enum tmk_status get_thresholds(struct reader *r, const cJSON *object,
                                      struct tmk_encoding *e) {
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
    bool there = tmk_json_member(object, ends[0].key) != NULL;
    for (size_t i = 0; i < TMK_COUNT(ends); i++) {
        const cJSON *real = tmk_json_member(object, ends[i].key);
        if (there != (real != NULL) ||
            (real && (!cJSON_IsNumber(real) || !isfinite(real->valuedouble))))
            return expected(r, ends[i].key, "a finite number, as the other three ends are");
        *ends[i].out = real ? real->valuedouble : ends[i].otherwise;
    }
    if (e->expected.low_from > e->expected.low_to || e->expected.high_from > e->expected.high_to)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "'low_from' is above 'low_to', or 'high_from' above "
                        "'high_to'");
    return TMK_OK;
}

static enum tmk_status get_expected(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    static const char *const keys[] = {"mse",      "mse_low",     "mse_high",     "sqnr",
                                       "clipped",  "clipped_low", "clipped_high", "codes",
                                       "flat_low", "flat_high",   "tying",        "low_from",
                                       "low_to",   "high_from",   "high_to"};
    const cJSON *object = tmk_json_member(item, "expected");
    if (!object)
        return TMK_OK;
    TMK_TRY(tmk_json_keys(object, keys, TMK_COUNT(keys), r->strict, r->diag));
    const struct {
        const char *key;
        double *out;
        bool must;
    } reals[] = {
        {"mse", &e->expected.mse, true},
        {"mse_low", &e->expected.mse_low, true},
        {"mse_high", &e->expected.mse_high, true},
        {"clipped", &e->expected.clipped, true},
        {"clipped_low", &e->expected.clipped_low, true},
        {"clipped_high", &e->expected.clipped_high, true},
        {"flat_low", &e->expected.flat_low, false},
        {"flat_high", &e->expected.flat_high, false},
        {"tying", &e->expected.tying, false},
    };
    for (size_t i = 0; i < TMK_COUNT(reals); i++) {
        const cJSON *real = tmk_json_member(object, reals[i].key);
        if (!real && !reals[i].must)
            continue;
        if (!real || !cJSON_IsNumber(real) || !(real->valuedouble >= 0) ||
            !isfinite(real->valuedouble))
            return expected(r, reals[i].key, "a finite number that is not negative");
        *reals[i].out = real->valuedouble;
    }
    TMK_TRY(get_thresholds(r, object, e));
    TMK_TRY(tmk_json_double(object, "sqnr", &e->expected.sqnr, r->diag));
    if (isnan(e->expected.sqnr)) /* null */
        e->expected.sqnr = HUGE_VAL;
    TMK_TRY(tmk_json_u32(object, "codes", &e->expected.codes, r->diag));
    e->expected.flat = tmk_json_member(object, "flat_low");
    if (e->expected.flat != (tmk_json_member(object, "flat_high") != NULL))
        return expected(r, "flat_high", "there as 'flat_low' is");
    e->expected.known = true;
    return TMK_OK;
}

static enum tmk_status get_item(struct reader *r, const cJSON *item, struct tmk_encoding *e) {
    static const char *const keys[] = {
        "id",     "fingerprint", "name",     "role",         "dtype",        "scheme",
        "narrow", "pow2",        "axis",     "scale",        "zero_point",   "low",
        "high",   "clip_min",    "clip_max", "observed_min", "observed_max", "method",
        "rule",   "group",       "sources",  "uses",         "expected"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(get_id(r, item, &e->id));
    TMK_TRY(tmk_json_hex64(item, "fingerprint", &e->fingerprint, r->diag));
    TMK_TRY(keep(r, item, "name", NULL, &e->name));
    TMK_TRY(get_kind(r, item, e));
    TMK_TRY(get_axis(r, item, e));
    TMK_TRY(get_scales(r, item, e));
    TMK_TRY(get_observed(r, item, e));
    TMK_TRY(keep(r, item, "method", "given", &e->method));
    TMK_TRY(keep(r, item, "rule", "", &e->rule));
    if (tmk_json_member(item, "group"))
        TMK_TRY(tmk_json_u32(item, "group", &e->group, r->diag));
    TMK_TRY(get_sources(r, item, e));
    TMK_TRY(get_uses(r, item, e));
    return tmk_in(r->diag, get_expected(r, item, e), "'expected'");
}

static enum tmk_status get_left(struct reader *r, const cJSON *item, struct tmk_left_float *left) {
    static const char *const keys[] = {"id", "name", "reason", "observed_min", "observed_max"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(get_id(r, item, &left->id));
    TMK_TRY(keep(r, item, "name", NULL, &left->name));
    TMK_TRY(keep(r, item, "reason", NULL, &left->reason));
    left->observed_min = left->observed_max = NAN;
    if (tmk_json_member(item, "observed_min"))
        TMK_TRY(tmk_json_float(item, "observed_min", &left->observed_min, r->diag));
    if (tmk_json_member(item, "observed_max"))
        TMK_TRY(tmk_json_float(item, "observed_max", &left->observed_max, r->diag));
    return TMK_OK;
}

static enum tmk_status get_requant(struct reader *r, const cJSON *item, struct tmk_requant *q) {
    static const char *const keys[] = {"id",         "node",  "op",   "operand",
                                       "multiplier", "shift", "real", "error"};
    const cJSON *operand = tmk_json_member(item, "operand"),
                *error = tmk_json_member(item, "error");
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(get_id(r, item, &q->id));
    TMK_TRY(keep(r, item, "node", NULL, &q->node));
    TMK_TRY(keep(r, item, "op", NULL, &q->op));
    q->operand = -1;
    if (!cJSON_IsNull(operand) && (as_int32(operand, &q->operand) != TMK_OK || q->operand < 0))
        return expected(r, "operand", "the number of an operand, or null for the accumulator");
    TMK_TRY(length_of(r, item, "multiplier", &q->n));
    q->multiplier = tmk_encodings_make(r->e, q->n, sizeof *q->multiplier);
    q->shift = tmk_encodings_make(r->e, q->n, sizeof *q->shift);
    q->real = tmk_encodings_make(r->e, q->n, sizeof *q->real);
    if (!q->multiplier || !q->shift || !q->real)
        return tmk_nomem(r->diag);
    TMK_TRY(get_integers(r, item, "multiplier", q->multiplier, q->n));
    TMK_TRY(get_integers(r, item, "shift", q->shift, q->n));
    TMK_TRY(get_hex_reals(r, item, "real", q->real, q->n));
    if (!cJSON_IsNumber(error) || !(error->valuedouble >= 0) || !isfinite(error->valuedouble))
        return expected(r, "error", "a finite number that is not negative");
    q->error = error->valuedouble;
    return TMK_OK;
}

/* ---- the file ---- */

static enum tmk_status get_version(struct reader *r, const cJSON *tree) {
    static const char *const keys[] = {"major", "minor"};
    const cJSON *version;
    const char *format;
    TMK_TRY(tmk_json_text(tree, "format", &format, r->diag));
    if (strcmp(format, TMK_ENCODINGS_FORMAT) != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'format' is '%s', not '%s'", format,
                        TMK_ENCODINGS_FORMAT);
    TMK_TRY(tmk_json_object(tree, "version", &version, r->diag));
    TMK_TRY(
        tmk_in(r->diag, tmk_json_keys(version, keys, TMK_COUNT(keys), true, r->diag), "'version'"));
    TMK_TRY(tmk_json_u32(version, "major", &r->e->version.major, r->diag));
    TMK_TRY(tmk_json_u32(version, "minor", &r->e->version.minor, r->diag));
    if (r->e->version.major != TMK_ENCODINGS_MAJOR)
        return tmk_fail(r->diag, TMK_UNSUPPORTED,
                        "encodings of version %" PRIu32 ".%" PRIu32
                        ", but this library reads %d.x; use the release that wrote them",
                        r->e->version.major, r->e->version.minor, TMK_ENCODINGS_MAJOR);
    r->strict = r->e->version.minor <= TMK_ENCODINGS_MINOR;
    return TMK_OK;
}

static enum tmk_status get_producer(struct reader *r, const cJSON *item) {
    static const char *const keys[] = {"name", "version"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(keep(r, item, "name", NULL, &r->e->producer.name));
    return keep(r, item, "version", "", &r->e->producer.version);
}

static enum tmk_status get_model(struct reader *r, const cJSON *item) {
    static const char *const keys[] = {"file", "sha256", "format", "graph_fingerprint"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(keep(r, item, "file", NULL, &r->e->model.file));
    TMK_TRY(keep(r, item, "sha256", "", &r->e->model.sha256));
    TMK_TRY(keep(r, item, "format", "", &r->e->model.format));
    return tmk_json_hex64(item, "graph_fingerprint", &r->e->model.fingerprint, r->diag);
}

static enum tmk_status get_settings(struct reader *r, const cJSON *item) {
    const cJSON *setting;
    if (!item)
        return TMK_OK;
    if (!cJSON_IsObject(item))
        return expected(r, "settings", "an object");
    r->e->settings =
        tmk_encodings_make(r->e, (size_t)cJSON_GetArraySize(item), sizeof *r->e->settings);
    if (!r->e->settings)
        return tmk_nomem(r->diag);
    cJSON_ArrayForEach(setting, item) {
        struct tmk_encodings_setting *out = &r->e->settings[r->e->n_settings++];
        if (!cJSON_IsString(setting))
            return tmk_fail(r->diag, TMK_FORMAT, "'settings': '%s' is not a string",
                            setting->string);
        TMK_TRY(tmk_encodings_keep(r->e, setting->string, &out->key, r->diag));
        TMK_TRY(tmk_encodings_keep(r->e, setting->valuestring, &out->value, r->diag));
    }
    return TMK_OK;
}

static enum tmk_status get_header(struct reader *r, const cJSON *tree) {
    static const char *const keys[] = {"format",   "version",   "producer", "model",
                                       "settings", "samples",   "rounding", "pow2_requant",
                                       "left",     "encodings", "requants"};
    const cJSON *producer, *model;
    const char *rounding;
    TMK_TRY(get_version(r, tree));
    TMK_TRY(tmk_json_keys(tree, keys, TMK_COUNT(keys), r->strict, r->diag));
    TMK_TRY(tmk_json_object(tree, "producer", &producer, r->diag));
    TMK_TRY(tmk_in(r->diag, get_producer(r, producer), "'producer'"));
    TMK_TRY(tmk_json_object(tree, "model", &model, r->diag));
    TMK_TRY(tmk_in(r->diag, get_model(r, model), "'model'"));
    TMK_TRY(get_settings(r, tmk_json_member(tree, "settings")));
    if (tmk_json_member(tree, "samples"))
        TMK_TRY(tmk_json_u64(tree, "samples", &r->e->samples, r->diag));
    TMK_TRY(
        tmk_json_text_or(tree, "rounding", &rounding, tmk_rounding_name(r->e->rounding), r->diag));
    if (!tmk_rounding_by_name(rounding, &r->e->rounding))
        return tmk_fail(r->diag, TMK_FORMAT, "'rounding': there is no rounding '%s'", rounding);
    return tmk_json_bool_or(tree, "pow2_requant", &r->e->pow2_requant, false, r->diag);
}

/* Room for a list's elements; absent is empty. */
static enum tmk_status begin_list(struct reader *r, const cJSON *tree, const char *key, size_t size,
                                  const cJSON **array, void *out) {
    *array = tmk_json_member(tree, key);
    if (*array)
        TMK_TRY(tmk_json_array(tree, key, array, r->diag));
    void *made = tmk_encodings_make(r->e, (size_t)cJSON_GetArraySize(*array), size);
    if (!made)
        return tmk_nomem(r->diag);
    memcpy(out, &made, sizeof made);
    return TMK_OK;
}

static enum tmk_status get_lists(struct reader *r, const cJSON *tree) {
    struct tmk_encodings *e = r->e;
    const cJSON *array, *item;
    TMK_TRY(begin_list(r, tree, "encodings", sizeof *e->items, &array, &e->items));
    cJSON_ArrayForEach(item, array) {
        TMK_TRY(tmk_in(r->diag, get_item(r, item, &e->items[e->n_items]), "encodings[%" PRIu32 "]",
                       e->n_items));
        e->n_items++;
    }
    TMK_TRY(begin_list(r, tree, "left", sizeof *e->left, &array, &e->left));
    cJSON_ArrayForEach(item, array) {
        TMK_TRY(tmk_in(r->diag, get_left(r, item, &e->left[e->n_left]), "left[%" PRIu32 "]",
                       e->n_left));
        e->n_left++;
    }
    TMK_TRY(begin_list(r, tree, "requants", sizeof *e->requants, &array, &e->requants));
    cJSON_ArrayForEach(item, array) {
        TMK_TRY(tmk_in(r->diag, get_requant(r, item, &e->requants[e->n_requants]),
                       "requants[%" PRIu32 "]", e->n_requants));
        e->n_requants++;
    }
    return TMK_OK;
}

static enum tmk_status read_tree(const cJSON *tree, struct tmk_encodings *encodings,
                                 struct tmk_diag *diag) {
    struct reader r = {encodings, diag, true};
    TMK_TRY(get_header(&r, tree));
    TMK_TRY(get_lists(&r, tree));
    return tmk_encodings_check(encodings, diag);
}

enum tmk_status tmk_encodings_read(const char *path, struct tmk_encodings **out,
                                   struct tmk_diag *diag) {
    struct tmk_json_file file;
    struct tmk_encodings *encodings = NULL;
    TMK_TRY(tmk_in_file(diag, tmk_json_file_open(path, &file, diag), path, TMK_FILE_ENCODINGS));
    enum tmk_status status = tmk_encodings_create(&encodings, diag);
    if (status == TMK_OK)
        status = tmk_in_file(diag, read_tree(file.tree, encodings, diag), path, TMK_FILE_ENCODINGS);
    tmk_json_file_close(&file);
    if (status == TMK_OK)
        *out = encodings;
    else
        tmk_encodings_destroy(&encodings);
    return status;
}
