/* SPDX-License-Identifier: Apache-2.0 */
/* Types of Relay text. */
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "relay/read.h"

static enum tmk_status new_type(struct tmk_relay_reader *in, enum tmk_relay_type_kind kind,
                                struct tmk_relay_type **out) {
    TMK_TRY(tmk_relay_part(in));
    TMK_RELAY_NEW(in, *out);
    (*out)->kind = kind;
    return TMK_OK;
}

static bool ends_other(int kind) {
    return kind == RELAY_END || kind == ',' || kind == ')' || kind == ']' || kind == '}' ||
           kind == '{' || kind == '=' || kind == ';';
}

/* Everything from `begin` to where a type must have ended. */
static enum tmk_status parse_other(struct tmk_relay_reader *in, const char *begin,
                                   struct tmk_relay_type **out) {
    const char *end = in->gap_end, *inside, *behind;
    while (!ends_other(in->token.kind)) {
        if (in->token.kind == '(' || in->token.kind == '[')
            TMK_TRY(tmk_relay_balanced(in, &inside, &behind));
        else
            TMK_TRY(tmk_relay_next(in));
        end = in->gap;
    }
    if (end <= begin)
        return tmk_relay_expected(in, "a type");
    struct tmk_relay_type *type;
    TMK_TRY(new_type(in, TMK_RELAY_OTHER, &type));
    TMK_TRY(tmk_relay_copy(in, begin, (size_t)(end - begin), &type->text));
    *out = type;
    return TMK_OK;
}

/* A letter-and-digits name of an element type: "float32", "uint1", "float32x4". */
static bool is_dtype(const char *at, size_t len) {
    static const char *const names[] = {"float", "bfloat", "int", "uint", "bool", "handle"};
    for (size_t i = 0; i < TMK_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (len >= n && !memcmp(at, names[i], n) && (len == n || (at[n] >= '0' && at[n] <= '9')))
            return true;
    }
    return false;
}

/* custom[name]bits too. */
static enum tmk_status parse_dtype(struct tmk_relay_reader *in, const char **out) {
    if (in->token.kind != RELAY_WORD)
        return tmk_relay_expected(in, "an element type");
    const char *begin = in->token.at, *inside, *behind;
    bool custom = tmk_relay_is(in, "custom");
    TMK_TRY(tmk_relay_next(in));
    if (custom && in->token.kind == '[') {
        TMK_TRY(tmk_relay_balanced(in, &inside, &behind));
        if (in->token.kind == RELAY_NUMBER)
            TMK_TRY(tmk_relay_next(in));
    }
    return tmk_relay_name(in, begin, (size_t)(in->gap - begin), out);
}

/* False where the token is no plain dimension. */
static bool read_dimension(const struct tmk_relay_reader *in, int64_t *out) {
    if (in->token.kind == '?') {
        *out = -1;
        return true;
    }
    if (in->token.kind != RELAY_NUMBER)
        return false;
    uint64_t value = 0;
    size_t i = 0;
    for (; i < in->token.len && in->token.at[i] >= '0' && in->token.at[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(in->token.at[i] - '0');
        if (value > INT64_MAX / 16)
            return false;
    }
    *out = (int64_t)value;
    return i == in->token.len || in->token.at[i] == 'i';
}

/* Tensor[(dims), dtype]; dimensions that are no numbers make it a type that is kept as text. */
static enum tmk_status parse_tensor(struct tmk_relay_reader *in, const char *begin,
                                    struct tmk_relay_type **out) {
    TMK_TRY(tmk_relay_need(in, '[', "'['"));
    size_t base = in->dims.used;
    const char *inside, *behind;
    TMK_TRY(tmk_relay_need(in, '(', "'(' before the dimensions"));
    bool plain = true, more = in->token.kind != ')';
    while (more) {
        int64_t dim = -1;
        if (!read_dimension(in, &dim)) {
            plain = false;
            while (in->token.kind != ',' && in->token.kind != ')') {
                if (in->token.kind == '(' || in->token.kind == '[')
                    TMK_TRY(tmk_relay_balanced(in, &inside, &behind));
                else if (in->token.kind == RELAY_END)
                    return tmk_relay_expected(in, "a dimension");
                else
                    TMK_TRY(tmk_relay_next(in));
            }
        } else {
            TMK_TRY(tmk_relay_next(in));
        }
        TMK_TRY(tmk_relay_push(in, &in->dims, &dim));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        more = more && in->token.kind != ')';
    }
    TMK_TRY(tmk_relay_need(in, ')', "')' behind the dimensions"));
    TMK_TRY(tmk_relay_need(in, ',', "',' before the element type"));
    const char *dtype;
    TMK_TRY(parse_dtype(in, &dtype));
    TMK_TRY(tmk_relay_need(in, ']', "']' behind the tensor's type"));
    struct tmk_relay_type *type;
    TMK_TRY(new_type(in, plain ? TMK_RELAY_TENSOR : TMK_RELAY_OTHER, &type));
    if (plain) {
        type->dtype = dtype;
        TMK_TRY(tmk_relay_pop(in, &in->dims, base, &type->dims, &type->n));
    } else {
        in->dims.used = base;
        TMK_TRY(tmk_relay_copy(in, begin, (size_t)(in->gap - begin), &type->text));
    }
    *out = type;
    return TMK_OK;
}

/* (T, U) behind the bracket; the types are pushed. */
static enum tmk_status parse_list(struct tmk_relay_reader *in) {
    bool more = in->token.kind != ')';
    while (more) {
        struct tmk_relay_type *item;
        TMK_TRY(tmk_relay_parse_type(in, &item));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &item));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        more = more && in->token.kind != ')';
    }
    return tmk_relay_need(in, ')', "',' or ')' behind a type");
}

static enum tmk_status parse_function(struct tmk_relay_reader *in, const char *begin,
                                      struct tmk_relay_type **out) {
    if (in->token.kind != '(')
        return parse_other(in, begin, out); /* type parameters */
    size_t base = in->pointers.used;
    struct tmk_relay_type *result, *type;
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(parse_list(in));
    TMK_TRY(tmk_relay_need(in, RELAY_ARROW, "'->'"));
    TMK_TRY(tmk_relay_parse_type(in, &result));
    TMK_TRY(tmk_relay_push(in, &in->pointers, &result));
    TMK_TRY(new_type(in, TMK_RELAY_FUNCTION, &type));
    TMK_TRY(tmk_relay_pop(in, &in->pointers, base, &type->items, &type->n));
    *out = type;
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_type(struct tmk_relay_reader *in, struct tmk_relay_type **out) {
    const char *begin = in->gap_end;
    struct tmk_relay_type *type = NULL;
    TMK_TRY(tmk_relay_enter(in));
    if (in->token.kind == '(') {
        size_t base = in->pointers.used;
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_list(in));
        TMK_TRY(new_type(in, TMK_RELAY_TUPLE, &type));
        TMK_TRY(tmk_relay_pop(in, &in->pointers, base, &type->items, &type->n));
    } else if (tmk_relay_is(in, "fn")) {
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_function(in, begin, &type));
    } else if (tmk_relay_is(in, "Tensor")) {
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_tensor(in, begin, &type));
    } else if (tmk_relay_is(in, "custom") ||
               (in->token.kind == RELAY_WORD && is_dtype(in->token.at, in->token.len))) {
        TMK_TRY(new_type(in, TMK_RELAY_TENSOR, &type));
        TMK_TRY(parse_dtype(in, &type->dtype));
    } else {
        TMK_TRY(parse_other(in, begin, &type));
    }
    in->depth--;
    *out = type;
    return TMK_OK;
}

static bool same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

bool tmk_relay_type_equal(const struct tmk_relay_type *a, const struct tmk_relay_type *b) {
    if (!a || !b || a == b)
        return a == b;
    if (a->kind != b->kind || a->n != b->n || !same_text(a->dtype, b->dtype) ||
        !same_text(a->text, b->text))
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->kind == TMK_RELAY_TENSOR ? a->dims[i] != b->dims[i]
                                        : !tmk_relay_type_equal(a->items[i], b->items[i]))
            return false;
    return true;
}
