/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and attributes of Relay text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "relay/read.h"

/* inf, nan, inff, nanf64, ...: how C++ streams spell what has no digits. */
static bool is_odd_number(const struct tmk_relay_token *token) {
    static const char *const suffixes[] = {"", "f", "f16", "f32", "f64"};
    if (token->kind != RELAY_WORD || token->len < 3 ||
        (memcmp(token->at, "inf", 3) != 0 && memcmp(token->at, "nan", 3) != 0))
        return false;
    for (size_t i = 0; i < TMK_COUNT(suffixes); i++)
        if (strlen(suffixes[i]) == token->len - 3 &&
            !memcmp(token->at + 3, suffixes[i], token->len - 3))
            return true;
    return false;
}

bool tmk_relay_at_number(const struct tmk_relay_reader *in) {
    return in->token.kind == RELAY_NUMBER || in->token.kind == '-' || is_odd_number(&in->token);
}

/* The suffix behind the digits. */
static bool read_suffix(const char *text, struct tmk_relay_number *number) {
    number->suffix = *text;
    if (!*text)
        return true;
    number->width = (unsigned)strtoul(text + 1, NULL, 10);
    if (text[1] == '\0')
        return true;
    unsigned w = number->width;
    return strlen(text) <= 3 && (w == 16 || w == 32 || w == 64 || (w == 8 && *text == 'i'));
}

enum tmk_status tmk_relay_parse_number(struct tmk_relay_reader *in, struct tmk_relay_number *out) {
    struct tmk_relay_place place = in->token.place;
    bool minus = false;
    while (in->token.kind == '-') {
        minus = !minus;
        TMK_TRY(tmk_relay_next(in));
    }
    if (in->token.kind != RELAY_NUMBER && !is_odd_number(&in->token))
        return tmk_relay_expected(in, "a number");
    if (in->token.len >= RELAY_MAX_NAME)
        return tmk_relay_fail(in, place, "a number of %zu digits", in->token.len);
    in->key[0] = '-';
    memcpy(in->key + 1, in->token.at, in->token.len);
    struct tmk_relay_number number = {0};
    const char *text;
    TMK_TRY(tmk_relay_name(in, minus ? in->key : in->key + 1, in->token.len + minus, &text));
    /* `text` is a sign at most, digits or "inf" or "nan", and a suffix. */
    char *end;
    number.text = text;
    errno = 0;
    number.integer =
        text[strspn(text, "-0123456789")] == '\0' || text[strspn(text, "-0123456789")] == 'i';
    if (text[text[0] == '-'] == 'i') /* "inf" */
        number.integer = false;
    if (number.integer) {
        number.i = strtoll(text, &end, 10);
        number.real = (double)number.i;
        if (errno == ERANGE)
            return tmk_relay_fail(in, place, "%s does not fit 64 bits", text);
    } else {
        /* Not by strtod: it would take "0x" and "nan(...)" too, but the token has neither. */
        number.real = strtod(text, &end);
    }
    if (!read_suffix(end, &number))
        return tmk_relay_fail(in, place, "'%s' is no suffix of a number", end);
    if (!number.integer && number.suffix == 'i')
        return tmk_relay_fail(in, place, "%s has an integer's suffix but is none", text);
    if (number.suffix == 'f')
        number.integer = false;
    *out = number;
    return tmk_relay_next(in);
}

static enum tmk_dtype number_dtype(const struct tmk_relay_number *number,
                                   const struct tmk_relay_type *type) {
    enum tmk_dtype declared = TMK_UNDEFINED;
    if (type && type->kind == TMK_RELAY_TENSOR && !type->n)
        declared = tmk_relay_dtype(type->dtype);
    if (number->suffix == 'f' && !number->width)
        return tmk_dtype_is_float(declared) ? declared : TMK_FLOAT32;
    if (number->suffix == 'f')
        return number->width == 16 ? TMK_FLOAT16 : number->width == 32 ? TMK_FLOAT32 : TMK_FLOAT64;
    if (number->suffix == 'i' && number->width)
        return number->width == 8    ? TMK_INT8
               : number->width == 16 ? TMK_INT16
               : number->width == 32 ? TMK_INT32
                                     : TMK_INT64;
    if (!number->integer)
        return tmk_dtype_is_float(declared) ? declared : TMK_FLOAT64;
    if (declared != TMK_UNDEFINED)
        return declared;
    return number->i < INT32_MIN || number->i > INT32_MAX ? TMK_INT64 : TMK_INT32;
}

/* The element's bytes. False where the dtype has no such number. */
static bool encode_number(const struct tmk_relay_number *number, enum tmk_dtype dtype, void *out) {
    int64_t i = number->i;
    float f = strtof(number->text, NULL);
    uint16_t half = dtype == TMK_BFLOAT16 ? tmk_to_bfloat16(f) : tmk_to_half(f);
    size_t size = tmk_dtype_size(dtype);
    switch (dtype) {
    case TMK_FLOAT32:
        memcpy(out, &f, size);
        return true;
    case TMK_FLOAT64:
        memcpy(out, &number->real, size);
        return true;
    case TMK_FLOAT16:
    case TMK_BFLOAT16:
        memcpy(out, &half, size);
        return true;
    case TMK_BOOL:
        *(uint8_t *)out = (uint8_t)i;
        return i == 0 || i == 1;
    default: {
        const unsigned bits = tmk_dtype_bits(dtype);
        if (!tmk_dtype_is_integer(dtype) || bits < 8)
            return false;
        const bool is_unsigned = tmk_dtype_name(dtype)[0] == 'u';
        memcpy(out, &i, size); /* the low bytes: files and machines here are little-endian */
        if (is_unsigned)
            return i >= 0 && (bits == 64 || i < INT64_C(1) << bits);
        return bits == 64 || (i >= -(INT64_C(1) << (bits - 1)) && i < INT64_C(1) << (bits - 1));
    }
    }
}

enum tmk_status tmk_relay_number_data(struct tmk_relay_reader *in,
                                      const struct tmk_relay_number *number,
                                      struct tmk_relay_place place,
                                      const struct tmk_relay_type *type,
                                      struct tmk_relay_expr *expr) {
    enum tmk_dtype dtype = number_dtype(number, type);
    uint64_t value = 0;
    if (!encode_number(number, dtype, &value))
        return tmk_relay_fail(in, place, "%s is no %s", number->text, tmk_dtype_name(dtype));
    TMK_TRY(tmk_relay_scalar(in->module, dtype, &value, &expr->data, in->diag));
    expr->text = number->text;
    expr->dtype = tmk_dtype_name(dtype);
    return TMK_OK;
}

/* TVM's printer escapes; what it can't have written stays as it stands. */
static enum tmk_status parse_string(struct tmk_relay_reader *in, const char **out) {
    char *text = tmk_arena_strndup(&in->module->arena, in->token.at, in->token.len);
    TMK_TRY_ALLOC(text, in->diag);
    if (memchr(text, '\0', in->token.len))
        return tmk_relay_fail(in, in->token.place, "a zero byte in a string");
    static const char escapes[] = "\\\"ntr", plain[] = "\\\"\n\t\r";
    char *to = text;
    for (const char *at = text; *at; at++) {
        const char *escape = *at == '\\' && at[1] ? strchr(escapes, at[1]) : NULL;
        if (escape)
            at++;
        *to++ = escape ? plain[escape - escapes] : *at;
    }
    *to = '\0';
    *out = text;
    return tmk_relay_next(in);
}

static enum tmk_status parse_attr_value(struct tmk_relay_reader *in, struct tmk_relay_value *out);

static enum tmk_status parse_items(struct tmk_relay_reader *in, int close, const char *what,
                                   struct tmk_relay_value *out) {
    size_t base = in->values.used;
    TMK_TRY(tmk_relay_next(in));
    bool more = in->token.kind != close;
    while (more) {
        struct tmk_relay_value item = {0};
        TMK_TRY(parse_attr_value(in, &item));
        TMK_TRY(tmk_relay_push(in, &in->values, &item));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        more = more && in->token.kind != close;
    }
    TMK_TRY(tmk_relay_need(in, close, what));
    return tmk_relay_pop(in, &in->values, base, &out->items, &out->n);
}

static enum tmk_status parse_plain(struct tmk_relay_reader *in, struct tmk_relay_value *out) {
    if (tmk_relay_at_number(in)) {
        struct tmk_relay_number number;
        TMK_TRY(tmk_relay_parse_number(in, &number));
        *out = (struct tmk_relay_value){.kind = number.integer ? TMK_RELAY_INT : TMK_RELAY_REAL,
                                        .i = number.i,
                                        .real = number.real,
                                        .s = number.text};
        return TMK_OK;
    }
    if (in->token.kind == RELAY_STRING) {
        out->kind = TMK_RELAY_STRING;
        return parse_string(in, &out->s);
    }
    if (tmk_relay_is(in, "True") || tmk_relay_is(in, "False")) {
        *out = (struct tmk_relay_value){.kind = TMK_RELAY_BOOL, .i = tmk_relay_is(in, "True")};
        return tmk_relay_next(in);
    }
    if (tmk_relay_is(in, "None") || tmk_relay_is(in, "nullptr")) {
        *out = (struct tmk_relay_value){.kind = TMK_RELAY_NONE};
        return tmk_relay_next(in);
    }
    if (in->token.kind == RELAY_META) {
        *out = (struct tmk_relay_value){.kind = TMK_RELAY_META, .i = in->token.index};
        TMK_TRY(tmk_relay_name(in, in->token.at, in->token.len, &out->s));
        return tmk_relay_next(in);
    }
    if (in->token.kind == RELAY_GLOBAL) {
        out->kind = TMK_RELAY_NAME;
        TMK_TRY(tmk_relay_name(in, in->token.at - 1, in->token.len + 1, &out->s));
        return tmk_relay_next(in);
    }
    if (in->token.kind == RELAY_WORD || in->token.kind == '{') {
        /* Word, and what is in brackets behind it, as text: VirtualDevice(device_type=1, ...). */
        const char *begin = in->token.at, *inside, *behind;
        bool word = in->token.kind == RELAY_WORD;
        out->kind = word ? TMK_RELAY_NAME : TMK_RELAY_MAP;
        if (word)
            TMK_TRY(tmk_relay_next(in));
        if (in->token.kind == '(' || in->token.kind == '[' || in->token.kind == '{') {
            out->kind = TMK_RELAY_MAP;
            TMK_TRY(tmk_relay_balanced(in, &inside, &behind));
        }
        return tmk_relay_copy(in, begin, (size_t)(in->gap - begin), &out->s);
    }
    return tmk_relay_expected(in, "the value of an attribute");
}

static enum tmk_status parse_attr_value(struct tmk_relay_reader *in, struct tmk_relay_value *out) {
    TMK_TRY(tmk_relay_enter(in));
    if (in->token.kind == '[') {
        out->kind = TMK_RELAY_LIST;
        TMK_TRY(parse_items(in, ']', "',' or ']' in a list", out));
    } else if (in->token.kind == '(') {
        out->kind = TMK_RELAY_GROUP;
        TMK_TRY(parse_items(in, ')', "',' or ')' in a list", out));
    } else {
        TMK_TRY(parse_plain(in, out));
    }
    in->depth--;
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_attr(struct tmk_relay_reader *in, const char *name) {
    struct tmk_relay_attr attr = {.name = name};
    if (!name) {
        TMK_TRY(tmk_relay_name(in, in->token.at, in->token.len, &attr.name));
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(tmk_relay_need(in, '=', "'='"));
    }
    TMK_TRY(parse_attr_value(in, &attr.value));
    return tmk_relay_push(in, &in->attrs, &attr);
}
