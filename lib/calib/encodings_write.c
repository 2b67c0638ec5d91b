/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings as JSON: one member of the header a line, one entry a line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <tidemark/encodings.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "calib/json_file.h"
#include "profile/format.h"

static void put_hex64(struct tmk_json_out *to, const char *key, uint64_t value) {
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, value);
    tmk_json_put_text(to, key, hex);
}

static void put_integers(struct tmk_json_out *to, const char *key, const int32_t *values,
                         uint32_t n) {
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < n; i++)
        tmk_json_put_i64(&array, NULL, values[i]);
    tmk_json_put_child(to, key, &array);
}

/* As C99 spells doubles in hex: exact, and what a person compares with a compiler's dump. */
static void put_hex_reals(struct tmk_json_out *to, const char *key, const double *values,
                          uint32_t n) {
    struct tmk_json_out array = tmk_json_new_array();
    char text[40];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%a", values[i]);
        tmk_json_put_text(&array, NULL, text);
    }
    tmk_json_put_child(to, key, &array);
}

static void put_bool(struct tmk_json_out *to, const char *key, bool value) {
    tmk_json_put(to, key, cJSON_CreateBool(value));
}

void tmk_json_put_uses(struct tmk_json_out *to, const struct tmk_encoding *e) {
    if (!e->n_uses)
        return;
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n_uses; i++) {
        struct tmk_json_out use = tmk_json_new_object();
        tmk_json_put_text(&use, "node", e->uses[i].node);
        tmk_json_put_text(&use, "op", e->uses[i].op);
        tmk_json_put_u64(&use, "input", e->uses[i].input);
        tmk_json_put_child(&array, NULL, &use);
    }
    tmk_json_put_child(to, "uses", &array);
}

static void put_expected(struct tmk_json_out *to, const struct tmk_encoding *e) {
    struct tmk_json_out out = tmk_json_new_object();
    tmk_json_put_double(&out, "mse", e->expected.mse);
    tmk_json_put_double(&out, "mse_low", e->expected.mse_low);
    tmk_json_put_double(&out, "mse_high", e->expected.mse_high);
    tmk_json_put_double(&out, "sqnr", e->expected.sqnr);
    tmk_json_put_double(&out, "clipped", e->expected.clipped);
    tmk_json_put_double(&out, "clipped_low", e->expected.clipped_low);
    tmk_json_put_double(&out, "clipped_high", e->expected.clipped_high);
    tmk_json_put_u64(&out, "codes", e->expected.codes);
    if (e->expected.flat) {
        tmk_json_put_double(&out, "flat_low", e->expected.flat_low);
        tmk_json_put_double(&out, "flat_high", e->expected.flat_high);
    }
    if (e->expected.low_from < e->expected.low_to || e->expected.high_from < e->expected.high_to) {
        tmk_json_put_double(&out, "low_from", e->expected.low_from);
        tmk_json_put_double(&out, "low_to", e->expected.low_to);
        tmk_json_put_double(&out, "high_from", e->expected.high_from);
        tmk_json_put_double(&out, "high_to", e->expected.high_to);
    }
    if (e->group)
        tmk_json_put_double(&out, "tying", e->expected.tying);
    tmk_json_put_child(to, "expected", &out);
}

static enum tmk_status item_text(const struct tmk_encoding *e, struct tmk_text *text,
                                 struct tmk_diag *diag) {
    struct tmk_json_out to = tmk_json_new_object();
    tmk_json_put_id(&to, "id", e->id);
    put_hex64(&to, "fingerprint", e->fingerprint);
    tmk_json_put_text(&to, "name", e->name);
    tmk_json_put_text(&to, "role", tmk_encoding_role_name(e->role));
    tmk_json_put_text(&to, "dtype", tmk_dtype_name(e->dtype));
    tmk_json_put_text(&to, "scheme", e->symmetric ? "symmetric" : "asymmetric");
    put_bool(&to, "narrow", e->narrow);
    put_bool(&to, "pow2", e->pow2);
    if (e->axis < 0)
        tmk_json_put(&to, "axis", cJSON_CreateNull());
    else
        tmk_json_put_i64(&to, "axis", e->axis);
    tmk_json_put_floats(&to, "scale", e->scale, e->n);
    put_integers(&to, "zero_point", e->zero_point, e->n);
    tmk_json_put_floats(&to, "low", e->low, e->n);
    tmk_json_put_floats(&to, "high", e->high, e->n);
    tmk_json_put_floats(&to, "clip_min", e->clip_min, e->n);
    tmk_json_put_floats(&to, "clip_max", e->clip_max, e->n);
    tmk_json_put_float(&to, "observed_min", e->observed_min);
    tmk_json_put_float(&to, "observed_max", e->observed_max);
    tmk_json_put_text(&to, "method", e->method);
    tmk_json_put_text(&to, "rule", e->rule);
    if (e->group)
        tmk_json_put_u64(&to, "group", e->group);
    if (e->n_sources)
        tmk_profile_put_ids(&to, "sources", e->sources, e->n_sources);
    tmk_json_put_uses(&to, e);
    if (e->expected.known)
        put_expected(&to, e);
    return tmk_json_finish(&to, text, diag);
}

static enum tmk_status left_text(const struct tmk_left_float *left, struct tmk_text *text,
                                 struct tmk_diag *diag) {
    struct tmk_json_out to = tmk_json_new_object();
    tmk_json_put_id(&to, "id", left->id);
    tmk_json_put_text(&to, "name", left->name);
    tmk_json_put_text(&to, "reason", left->reason);
    tmk_json_put_float(&to, "observed_min", left->observed_min);
    tmk_json_put_float(&to, "observed_max", left->observed_max);
    return tmk_json_finish(&to, text, diag);
}

static enum tmk_status requant_text(const struct tmk_requant *r, struct tmk_text *text,
                                    struct tmk_diag *diag) {
    struct tmk_json_out to = tmk_json_new_object();
    tmk_json_put_id(&to, "id", r->id);
    tmk_json_put_text(&to, "node", r->node);
    tmk_json_put_text(&to, "op", r->op);
    if (r->operand < 0)
        tmk_json_put(&to, "operand", cJSON_CreateNull());
    else
        tmk_json_put_i64(&to, "operand", r->operand);
    put_integers(&to, "multiplier", r->multiplier, r->n);
    put_integers(&to, "shift", r->shift, r->n);
    put_hex_reals(&to, "real", r->real, r->n);
    tmk_json_put_double(&to, "error", r->error);
    return tmk_json_finish(&to, text, diag);
}

/* ---- the header ---- */

static struct tmk_json_out version_out(const struct tmk_encodings *e) {
    (void)e;
    struct tmk_json_out out = tmk_json_new_object();
    tmk_json_put_u64(&out, "major", TMK_ENCODINGS_MAJOR);
    tmk_json_put_u64(&out, "minor", TMK_ENCODINGS_MINOR);
    return out;
}

static struct tmk_json_out producer_out(const struct tmk_encodings *e) {
    struct tmk_json_out out = tmk_json_new_object();
    tmk_json_put_text(&out, "name", e->producer.name);
    tmk_json_put_text(&out, "version", e->producer.version);
    return out;
}

static struct tmk_json_out model_out(const struct tmk_encodings *e) {
    struct tmk_json_out out = tmk_json_new_object();
    tmk_json_put_text(&out, "file", e->model.file);
    tmk_json_put_text(&out, "sha256", e->model.sha256);
    tmk_json_put_text(&out, "format", e->model.format);
    put_hex64(&out, "graph_fingerprint", e->model.fingerprint);
    return out;
}

static struct tmk_json_out settings_out(const struct tmk_encodings *e) {
    struct tmk_json_out out = tmk_json_new_object();
    for (uint32_t i = 0; i < e->n_settings; i++)
        tmk_json_put_text(&out, e->settings[i].key, e->settings[i].value);
    return out;
}

static enum tmk_status header_text(const struct tmk_encodings *e, struct tmk_text *text,
                                   struct tmk_diag *diag) {
    static const struct {
        const char *key;
        struct tmk_json_out (*make)(const struct tmk_encodings *e);
    } members[] = {
        {"version", version_out},
        {"producer", producer_out},
        {"model", model_out},
        {"settings", settings_out},
    };
    tmk_text_puts(text, "{\n\"format\":\"" TMK_ENCODINGS_FORMAT "\"");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct tmk_json_out member = members[i].make(e);
        tmk_text_printf(text, ",\n\"%s\":", members[i].key);
        TMK_TRY(tmk_json_finish(&member, text, diag));
    }
    tmk_text_puts(text, ",\n\"samples\":");
    tmk_json_u64_text(text, e->samples);
    tmk_text_printf(text, ",\n\"rounding\":\"%s\",\n\"pow2_requant\":%s",
                    tmk_rounding_name(e->rounding), e->pow2_requant ? "true" : "false");
    return TMK_OK;
}

static enum tmk_status encodings_text(const struct tmk_encodings *e, struct tmk_text *text,
                                      struct tmk_diag *diag) {
    TMK_TRY(header_text(e, text, diag));
    tmk_text_puts(text, ",\n\"encodings\":[");
    for (uint32_t i = 0; i < e->n_items; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        TMK_TRY(item_text(&e->items[i], text, diag));
    }
    tmk_text_puts(text, "\n],\n\"left\":[");
    for (uint32_t i = 0; i < e->n_left; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        TMK_TRY(left_text(&e->left[i], text, diag));
    }
    tmk_text_puts(text, "\n],\n\"requants\":[");
    for (uint32_t i = 0; i < e->n_requants; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        TMK_TRY(requant_text(&e->requants[i], text, diag));
    }
    tmk_text_puts(text, "\n]\n}\n");
    return text->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_encodings_write(const struct tmk_encodings *encodings, const char *path,
                                    struct tmk_diag *diag) {
    struct tmk_text text = {0};
    locale_t locale[2];
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = encodings_text(encodings, &text, diag);
    tmk_locale_end(locale);
    if (status == TMK_OK)
        status = tmk_file_write(path, text.data, text.len, diag);
    tmk_text_finish(&text);
    return status;
}
