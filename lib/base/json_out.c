/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/diag.h"

#define EXACT                                                                                      \
    (UINT64_C(1) << 53) /* beyond it, readers that hold numbers as doubles would round             \
                         */

enum tmk_status tmk_locale_begin(locale_t out[2], struct tmk_diag *diag) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    TMK_TRY_ALLOC(plain, diag);
    out[0] = uselocale(plain);
    out[1] = plain;
    return TMK_OK;
}

void tmk_locale_end(locale_t saved[2]) {
    uselocale(saved[0]);
    freelocale(saved[1]);
}

void tmk_json_put(struct tmk_json_out *to, const char *key, cJSON *item) {
    if (!item || to->failed ||
        !(key ? cJSON_AddItemToObject(to->item, key, item)
              : cJSON_AddItemToArray(to->item, item))) {
        cJSON_Delete(item);
        to->failed = true;
    }
}

void tmk_json_put_text(struct tmk_json_out *to, const char *key, const char *text) {
    tmk_json_put(to, key, cJSON_CreateString(text));
}

void tmk_json_put_id(struct tmk_json_out *to, const char *key, uint32_t id) {
    char text[16];
    snprintf(text, sizeof text, "p%" PRIu32, id);
    tmk_json_put_text(to, key, text);
}

void tmk_json_put_floats(struct tmk_json_out *to, const char *key, const float *values, size_t n) {
    struct tmk_json_out array = tmk_json_new_array();
    for (size_t i = 0; i < n; i++)
        tmk_json_put_float(&array, NULL, values[i]);
    tmk_json_put_child(to, key, &array);
}

void tmk_json_put_raw(struct tmk_json_out *to, const char *key, const struct tmk_text *json) {
    tmk_json_put(to, key, json->failed || !json->data ? NULL : cJSON_CreateRaw(json->data));
}

static void put_finished(struct tmk_json_out *to, const char *key, struct tmk_text *json) {
    tmk_json_put_raw(to, key, json);
    tmk_text_finish(json);
}

void tmk_json_put_u64(struct tmk_json_out *to, const char *key, uint64_t value) {
    struct tmk_text text = {0};
    tmk_json_u64_text(&text, value);
    put_finished(to, key, &text);
}

void tmk_json_put_i64(struct tmk_json_out *to, const char *key, int64_t value) {
    struct tmk_text text = {0};
    tmk_json_i64_text(&text, value);
    put_finished(to, key, &text);
}

void tmk_json_put_float(struct tmk_json_out *to, const char *key, float value) {
    struct tmk_text text = {0};
    tmk_json_float_text(&text, value);
    put_finished(to, key, &text);
}

void tmk_json_put_double(struct tmk_json_out *to, const char *key, double value) {
    char digits[32];
    if (!isfinite(value)) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    tmk_format_double(value, digits);
    tmk_json_put(to, key, cJSON_CreateRaw(digits));
}

void tmk_json_put_child(struct tmk_json_out *to, const char *key, struct tmk_json_out *child) {
    if (child->failed) {
        cJSON_Delete(child->item);
        child->item = NULL;
    }
    tmk_json_put(to, key, child->item);
    child->item = NULL;
}

void tmk_json_u64_text(struct tmk_text *out, uint64_t value) {
    char text[24], *at = text + sizeof text; /* printf would take most of the time of a profile */
    const bool quoted = value > EXACT;
    if (quoted)
        *--at = '"';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    if (quoted)
        *--at = '"';
    tmk_text_append(out, at, (size_t)(text + sizeof text - at));
}

void tmk_json_i64_text(struct tmk_text *out, int64_t value) {
    bool exact = value <= (int64_t)EXACT && value >= -(int64_t)EXACT;
    tmk_text_printf(out, exact ? "%" PRId64 : "\"%" PRId64 "\"", value);
}

void tmk_json_float_text(struct tmk_text *out, float value) {
    char digits[32];
    if (!isfinite(value)) {
        tmk_text_puts(out, "null");
        return;
    }
    if (!tmk_format_float(value, digits)) /* readers of JSON have doubles */
        snprintf(digits, sizeof digits, "%.9g", (double)value);
    tmk_text_puts(out, digits);
}

enum tmk_status tmk_json_finish(struct tmk_json_out *from, struct tmk_text *out,
                                struct tmk_diag *diag) {
    char *line = from->failed ? NULL : cJSON_PrintUnformatted(from->item);
    cJSON_Delete(from->item);
    from->item = NULL;
    TMK_TRY_ALLOC(line, diag);
    tmk_text_puts(out, line);
    cJSON_free(line);
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}
