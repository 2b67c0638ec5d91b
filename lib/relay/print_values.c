/* SPDX-License-Identifier: Apache-2.0 */
/* Types, attributes and scalars as Relay text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "relay/write.h"

static void print_types(struct tmk_text *out, struct tmk_relay_type *const *items, uint32_t n,
                        bool tuple) {
    tmk_text_puts(out, "(");
    for (uint32_t i = 0; i < n; i++) {
        tmk_text_puts(out, i ? ", " : "");
        tmk_relay_print_type(out, items[i]);
    }
    tmk_text_puts(out, tuple && n == 1 ? ",)" : ")");
}

static void print_tensor(struct tmk_text *out, const struct tmk_relay_type *type) {
    if (!type->n) {
        tmk_text_puts(out, type->dtype);
        return;
    }
    tmk_text_puts(out, "Tensor[(");
    for (uint32_t i = 0; i < type->n; i++) {
        tmk_text_puts(out, i ? ", " : "");
        if (type->dims[i] < 0)
            tmk_text_puts(out, "?");
        else
            tmk_text_printf(out, "%" PRId64, type->dims[i]);
    }
    tmk_text_printf(out, "), %s]", type->dtype);
}

void tmk_relay_print_type(struct tmk_text *out, const struct tmk_relay_type *type) {
    switch (type->kind) {
    case TMK_RELAY_TENSOR:
        print_tensor(out, type);
        break;
    case TMK_RELAY_TUPLE:
        print_types(out, type->items, type->n, true);
        break;
    case TMK_RELAY_FUNCTION:
        tmk_text_puts(out, "fn ");
        print_types(out, type->items, type->n - 1, false);
        tmk_text_puts(out, " -> ");
        tmk_relay_print_type(out, type->items[type->n - 1]);
        break;
    case TMK_RELAY_OTHER:
        tmk_text_puts(out, type->text);
        break;
    }
}

static void print_string(struct tmk_text *out, const char *text) {
    static const char plain[] = "\\\"\n\t\r", escapes[] = "\\\"ntr";
    tmk_text_puts(out, "\"");
    for (const char *at = text; *at;) {
        size_t run = strcspn(at, plain);
        tmk_text_append(out, at, run);
        at += run;
        if (*at)
            tmk_text_append(out, (char[]){'\\', escapes[strchr(plain, *at++) - plain]}, 2);
    }
    tmk_text_puts(out, "\"");
}

/* Doubles of attributes have an f too, though they are none, in 0.0.5. */
static void print_real(struct tmk_text *out, double value, const char *suffix) {
    char digits[32];
    if (isfinite(value))
        tmk_format_double(value, digits);
    tmk_text_printf(out, "%s%s",
                    isfinite(value) ? digits
                    : isnan(value)  ? "nan"
                    : value < 0     ? "-inf"
                                    : "inf",
                    suffix);
}

static void print_value(struct tmk_text *out, const struct tmk_relay_value *value, bool old) {
    switch (value->kind) {
    case TMK_RELAY_INT:
        if (value->s)
            tmk_text_puts(out, value->s);
        else
            tmk_text_printf(out, "%" PRId64, value->i);
        break;
    case TMK_RELAY_REAL:
        if (value->s)
            tmk_text_puts(out, value->s);
        else
            print_real(out, value->real, old ? "" : "f");
        break;
    case TMK_RELAY_STRING:
        print_string(out, value->s);
        break;
    case TMK_RELAY_BOOL:
        tmk_text_puts(out, value->i ? "True" : "False");
        break;
    case TMK_RELAY_NONE:
        tmk_text_puts(out, "None");
        break;
    case TMK_RELAY_LIST:
    case TMK_RELAY_GROUP: {
        bool group = value->kind == TMK_RELAY_GROUP;
        tmk_text_puts(out, group ? "(" : "[");
        for (uint32_t i = 0; i < value->n; i++) {
            tmk_text_puts(out, i ? ", " : "");
            print_value(out, &value->items[i], old);
        }
        tmk_text_puts(out, !group ? "]" : value->n == 1 ? ",)" : ")");
        break;
    }
    case TMK_RELAY_META:
        tmk_text_printf(out, "meta[%s][%" PRId64 "]", value->s, value->i);
        break;
    case TMK_RELAY_MAP:
    case TMK_RELAY_NAME:
        tmk_text_puts(out, value->s);
        break;
    }
}

void tmk_relay_print_attr(struct tmk_text *out, const struct tmk_relay_attr *attr, bool old) {
    if (attr->name[0])
        tmk_text_printf(out, "%s=", attr->name);
    print_value(out, &attr->value, old);
}

/* A float of any width, by the shortest digits that give it back. */
static void print_float(struct tmk_text *out, const struct tmk_tensor *data, const char *suffix) {
    uint16_t half;
    float f;
    double wide;
    char digits[32];
    if (data->dtype == TMK_FLOAT64) {
        memcpy(&wide, data->data, sizeof wide);
        print_real(out, wide, suffix);
        return;
    }
    if (data->dtype == TMK_FLOAT16) {
        memcpy(&half, data->data, sizeof half);
        f = tmk_from_half(half);
    } else {
        memcpy(&f, data->data, sizeof f);
    }
    if (!isfinite(f)) {
        print_real(out, (double)f, suffix);
        return;
    }
    tmk_format_float(f, digits);
    tmk_text_printf(out, "%s%s", digits, suffix);
}

enum tmk_status tmk_relay_print_scalar(struct tmk_text *out, const struct tmk_relay_expr *expr,
                                       bool old, struct tmk_diag *diag) {
    const struct tmk_tensor *data = &expr->data;
    int64_t i64;
    int32_t i32;
    int16_t i16;
    if (expr->text) {
        tmk_text_puts(out, expr->text);
        return TMK_OK;
    }
    switch (data->dtype) {
    case TMK_FLOAT16:
        print_float(out, data, "f16");
        return TMK_OK;
    case TMK_FLOAT32:
        print_float(out, data, "f");
        return TMK_OK;
    case TMK_FLOAT64:
        print_float(out, data, old ? "" : "f64");
        return TMK_OK;
    case TMK_INT16:
        memcpy(&i16, data->data, sizeof i16);
        tmk_text_printf(out, "%" PRId16 "i16", i16);
        return TMK_OK;
    case TMK_INT32:
        memcpy(&i32, data->data, sizeof i32);
        tmk_text_printf(out, "%" PRId32, i32);
        return TMK_OK;
    case TMK_INT64:
        memcpy(&i64, data->data, sizeof i64);
        tmk_text_printf(out, "%" PRId64 "%s", i64, old ? "" : "i64");
        return TMK_OK;
    case TMK_BOOL:
        tmk_text_puts(out, *(const uint8_t *)data->data ? "True" : "False");
        return TMK_OK;
    default:
        return tmk_fail(diag, TMK_TYPE,
                        "Relay text has no spelling for a scalar of %s; put it into the metadata",
                        tmk_dtype_name(data->dtype));
    }
}
