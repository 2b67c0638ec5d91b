/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of RFC 8259. */
#include "base/json.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_NUMBER = 63 }; /* of cJSON */

struct cursor {
    const char *at, *end;
};

static bool skip_text(struct cursor *c, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

static void take_blank(struct cursor *c) {
    while (c->at < c->end && memchr(" \t\n\r", *c->at, 4))
        c->at++;
}

static bool take_hex4(struct cursor *c, unsigned *out) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        if (c->at == c->end || !isxdigit((unsigned char)*c->at))
            return false;
        int digit = (unsigned char)*c->at;
        value = value << 4 | (unsigned)(isdigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    *out = value;
    return true;
}

/* Behind a backslash. Surrogates come in pairs. */
static bool take_escape(struct cursor *c) {
    unsigned high, low;
    if (c->at == c->end)
        return false;
    if (*c->at != 'u')
        return memchr("\"\\/bfnrt", *c->at++, 8) != NULL;
    c->at++;
    if (!take_hex4(c, &high) || (high >= 0xdc00 && high <= 0xdfff))
        return false;
    return high < 0xd800 || high > 0xdbff ||
           (skip_text(c, "\\u") && take_hex4(c, &low) && low >= 0xdc00 && low <= 0xdfff);
}

static bool take_string(struct cursor *c) {
    if (!skip_text(c, "\""))
        return false;
    while (c->at < c->end && *c->at != '"') {
        unsigned char byte = (unsigned char)*c->at++;
        if (byte < 0x20 || (byte == '\\' && !take_escape(c)))
            return false;
    }
    return skip_text(c, "\"");
}

static bool take_digits(struct cursor *c) {
    const char *start = c->at;
    while (c->at < c->end && isdigit((unsigned char)*c->at))
        c->at++;
    return c->at > start;
}

static bool take_number(struct cursor *c) {
    const char *start = c->at;
    (void)skip_text(c, "-");
    if (!skip_text(c, "0") && !take_digits(c))
        return false;
    if (skip_text(c, ".") && !take_digits(c))
        return false;
    if (skip_text(c, "e") || skip_text(c, "E")) {
        if (!skip_text(c, "-"))
            (void)skip_text(c, "+");
        if (!take_digits(c))
            return false;
    }
    return c->at - start <= LONGEST_NUMBER;
}

static bool take_scalar(struct cursor *c) {
    if (c->at == c->end)
        return false;
    if (*c->at == '"')
        return take_string(c);
    return skip_text(c, "null") || skip_text(c, "true") || skip_text(c, "false") || take_number(c);
}

static bool take_name(struct cursor *c) {
    take_blank(c);
    if (!take_string(c))
        return false;
    take_blank(c);
    return skip_text(c, ":");
}

bool tmk_json_is_valid(const char *text, size_t len) {
    char closing[CJSON_NESTING_LIMIT] = {0};
    size_t depth = 0;
    struct cursor c = {text, text + len};
    for (;;) { /* a value stands here */
        take_blank(&c);
        bool object = skip_text(&c, "{"), opened = object || skip_text(&c, "[");
        if (opened) {
            if (depth == CJSON_NESTING_LIMIT)
                return false;
            closing[depth++] = object ? '}' : ']';
            take_blank(&c);
        } else if (!take_scalar(&c)) {
            return false;
        }
        bool first = opened;
        for (;; first = false) { /* behind an opening bracket or a value */
            take_blank(&c);
            if (depth && c.at < c.end && *c.at == closing[depth - 1]) {
                c.at++;
                depth--;
                continue;
            }
            if (!depth)
                return c.at == c.end;
            if (!first && !skip_text(&c, ","))
                return false;
            if (closing[depth - 1] == '}' && !take_name(&c))
                return false;
            break;
        }
    }
}
