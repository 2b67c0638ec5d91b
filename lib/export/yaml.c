/* SPDX-License-Identifier: Apache-2.0 */
#include "export/yaml.h"

#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* Characters beyond ASCII that YAML does not allow as they are: U+0080-U+009F, U+2028, U+2029,
 * U+FEFF, U+FFFE, U+FFFF. Their code point, or 0; *len is their length. */
static unsigned special_length(const unsigned char *c, size_t *len) {
    unsigned point = 0;
    *len = 2;
    if (c[0] == 0xc2)
        point = c[1] < 0xa0 ? c[1] : 0u;
    if (c[0] >= 0xe2 && c[0] <= 0xef && c[1] && c[2]) {
        unsigned three = (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
        *len = 3;
        point =
            three == 0x2028 || three == 0x2029 || three == 0xfeff || three >= 0xfffe ? three : 0;
    }
    return point;
}

void tmk_yaml_put_text(struct tmk_text *out, const char *text) {
    tmk_text_puts(out, "\"");
    while (*text) {
        unsigned char c = (unsigned char)*text;
        size_t len;
        unsigned point = special_length((const unsigned char *)text, &len);
        if (point) {
            tmk_text_printf(out, "\\u%04X", point);
            text += len;
            continue;
        }
        if (c == '"' || c == '\\')
            tmk_text_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tmk_text_printf(out, "\\x%02X", c);
        else
            tmk_text_append(out, text, 1);
        text++;
    }
    tmk_text_puts(out, "\"");
}

/* The escape behind a backslash: how long it is, 0: none that is known; its character in *point. */
static size_t read_escape(const char *raw, size_t len, unsigned *point) {
    static const char letters[] = "\\\\\"\"//  n\nt\tr\r0\0a\ab\be\033f\fv\v";
    size_t digits = !len ? 0 : raw[0] == 'x' ? 2 : raw[0] == 'u' ? 4 : raw[0] == 'U' ? 8 : 0;
    if (digits) {
        *point = 0;
        for (size_t i = 1; i <= digits; i++) {
            const char *hex = "0123456789abcdef";
            const char *digit =
                i < len && raw[i] ? strchr(hex, tolower((unsigned char)raw[i])) : NULL;
            if (!digit)
                return 0;
            *point = *point << 4 | (unsigned)(digit - hex);
        }
        return digits + 1;
    }
    for (size_t i = 0; len && i + 1 < sizeof letters; i += 2)
        if (letters[i] == raw[0]) {
            *point = (unsigned char)letters[i + 1];
            return 1;
        }
    return 0;
}

static char *double_quoted(const char *raw, size_t len, struct tmk_arena *arena) {
    /* An escape is never shorter than the character that it means. */
    char *text = tmk_arena_strndup(arena, raw, len);
    size_t used = 0;
    for (size_t i = 0; text && i < len;) {
        unsigned point;
        if (raw[i] != '\\') {
            text[used++] = raw[i++];
            continue;
        }
        size_t escape = read_escape(raw + i + 1, len - i - 1, &point);
        if (!escape || !point || point > 0x10ffff)
            return NULL;
        used += tmk_utf8_put(point, text + used);
        i += escape + 1;
    }
    if (text)
        text[used] = '\0';
    return text;
}

static char *single_quoted(const char *raw, size_t len, struct tmk_arena *arena) {
    char *text = tmk_arena_strndup(arena, raw, len);
    size_t used = 0;
    for (size_t i = 0; text && i < len; i++) {
        text[used++] = raw[i];
        i += raw[i] == '\'' && i + 1 < len && raw[i + 1] == '\'';
    }
    if (text)
        text[used] = '\0';
    return text;
}

char *tmk_yaml_text(const char *raw, size_t len, struct tmk_arena *arena) {
    if (len >= 2 && raw[0] == raw[len - 1] && (raw[0] == '"' || raw[0] == '\''))
        return raw[0] == '"' ? double_quoted(raw + 1, len - 2, arena)
                             : single_quoted(raw + 1, len - 2, arena);
    return len && !strchr("\"'?&*!|>[]{}%@`#", raw[0]) ? tmk_arena_strndup(arena, raw, len) : NULL;
}

void tmk_yaml_put_float(struct tmk_text *out, float value) {
    struct tmk_text digits = {0};
    tmk_json_float_text(&digits, value);
    out->failed = out->failed || digits.failed;
    if (!digits.failed) {
        size_t mantissa = strcspn(digits.data, "e");
        tmk_text_append(out, digits.data, mantissa);
        if (!memchr(digits.data, '.', mantissa))
            tmk_text_puts(out, ".0");
        tmk_text_puts(out, digits.data + mantissa);
    }
    tmk_text_finish(&digits);
}
