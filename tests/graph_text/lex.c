/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_text/lex.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"

enum { SHOWN = 40 }; /* bytes of the text that a message quotes at most */

static int hex_value(char c) {
    if (tmk_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void lex_report(const struct lex *lex, const char *at, const char *fmt, ...) {
    size_t line = 1, column = 1;
    for (const char *p = lex->text; p < at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    char what[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    tmk_diag_set(lex->diag, TMK_FORMAT, "%zu:%zu: %s", line, column, what);
}

void lex_report_expected(struct lex *lex, const char *what) {
    char c = lex_peek(lex);
    int n = 1;
    while (tmk_in_word(c) && n < SHOWN && tmk_in_word(lex->at[n]))
        n++;
    if (!c)
        lex_report(lex, lex->at, "expected %s but the text ends; is it cut off?", what);
    else if ((unsigned char)c >= 0x80)
        lex_report(lex, lex->at, "expected %s but found byte 0x%02x", what, (unsigned char)c);
    else
        lex_report(lex, lex->at, "expected %s but found '%.*s'", what, n, lex->at);
}

char lex_peek(struct lex *lex) {
    for (;;) {
        lex->at += strspn(lex->at, " \t\r\n");
        if (lex->at[0] != '/' || lex->at[1] != '/')
            return *lex->at;
        lex->at += strcspn(lex->at, "\n");
    }
}

bool lex_take(struct lex *lex, char c) {
    if (lex_peek(lex) != c)
        return false;
    lex->at++;
    return true;
}

enum tmk_status lex_need(struct lex *lex, char c) {
    if (lex_take(lex, c))
        return TMK_OK;
    return lex_expected(lex, (char[]){'\'', c, '\'', '\0'});
}

bool lex_take_word(struct lex *lex, const char *word) {
    size_t n = strlen(word);
    lex_peek(lex);
    if (strncmp(lex->at, word, n) != 0 || (tmk_in_word(word[n - 1]) && tmk_in_word(lex->at[n])))
        return false;
    lex->at += n;
    return true;
}

static size_t word_length(const char *text, bool dotted) {
    if (!tmk_begins_word(text[0]))
        return 0;
    size_t n = 1;
    while (tmk_in_word(text[n]) || (dotted && text[n] == '.' && tmk_begins_word(text[n + 1])))
        n++;
    return n;
}

static enum tmk_status keep_bytes(struct lex *lex, size_t n, const char **out) {
    const char *copy = tmk_arena_strndup(lex->arena, lex->at, n);
    if (!copy)
        return tmk_nomem(lex->diag);
    lex->at += n;
    *out = copy;
    return TMK_OK;
}

enum tmk_status lex_word(struct lex *lex, bool dotted, const char *what, const char **out) {
    lex_peek(lex);
    size_t n = word_length(lex->at, dotted);
    return n ? keep_bytes(lex, n, out) : lex_expected(lex, what);
}

enum tmk_status lex_identifier(struct lex *lex, const char **out) {
    size_t n = 0;
    while (tmk_in_word(lex->at[n]) || lex->at[n] == '.')
        n++;
    return n ? keep_bytes(lex, n, out)
             : lex_fail(lex, lex->at,
                        "'%%' without an identifier; letters, digits, '_' and "
                        "'.' may follow it");
}

/* One escape after its backslash; the next place, or NULL when it is none. */
static const char *unescape_char(const char *p, char *out) {
    int high, low;
    switch (*p) {
    case '"':
    case '\\':
        *out = *p;
        return p + 1;
    case 'n':
        *out = '\n';
        return p + 1;
    case 'x':
        high = hex_value(p[1]);
        low = high < 0 ? -1 : hex_value(p[2]);
        if (low < 0)
            return NULL;
        *out = (char)(high << 4 | low);
        return p + 3;
    default:
        return NULL;
    }
}

enum tmk_status lex_string(struct lex *lex, const char *what, const char **out, size_t *n) {
    if (lex_peek(lex) != '"')
        return lex_expected(lex, what);
    const char *begin = lex->at + 1, *end = begin;
    while (*end && *end != '"' && *end != '\n')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    if (*end != '"')
        return lex_fail(lex, lex->at,
                        "this string is not closed on its line; a line break in it is \\n");
    char *bytes = tmk_arena_alloc(lex->arena, (size_t)(end - begin) + 1);
    if (!bytes)
        return tmk_nomem(lex->diag);
    size_t used = 0;
    for (const char *p = begin; p < end; used++) {
        if (*p != '\\') {
            bytes[used] = *p++;
            continue;
        }
        const char *next = unescape_char(p + 1, &bytes[used]);
        if (!next)
            return lex_fail(lex, p, "no such escape; there are \\\" \\\\ \\n and \\xHH");
        p = next;
    }
    lex->at = end + 1;
    *out = bytes;
    *n = used;
    return TMK_OK;
}

enum tmk_status lex_name(struct lex *lex, const char *what, const char **out) {
    lex_peek(lex);
    const char *at = lex->at, *name;
    size_t n;
    TMK_TRY(lex_string(lex, what, &name, &n));
    if (strlen(name) != n)
        return lex_fail(lex, at, "\\x00 cannot stand in %s", what);
    *out = name;
    return TMK_OK;
}

enum tmk_status lex_word_or_name(struct lex *lex, bool dotted, const char *what, const char **out) {
    if (lex_peek(lex) == '"')
        return lex_name(lex, what, out);
    return lex_word(lex, dotted, what, out);
}

size_t lex_number_length(struct lex *lex) {
    lex_peek(lex);
    size_t n = lex->at[0] == '-';
    if (!tmk_is_digit(lex->at[n]))
        return 0;
    while (tmk_in_word(lex->at[n]) || (lex->at[n] && strchr(".+-", lex->at[n])))
        n++;
    return n;
}

static enum tmk_status no_integer(struct lex *lex, size_t n, const char *what) {
    int shown = n < SHOWN ? (int)n : SHOWN;
    return lex_fail(lex, lex->at, "%s must be a decimal integer, not %.*s", what, shown, lex->at);
}

enum tmk_status lex_signed(struct lex *lex, int64_t min, int64_t max, const char *what,
                           int64_t *out) {
    size_t n = lex_number_length(lex);
    if (!n)
        return lex_expected(lex, what);
    char *end;
    errno = 0;
    long long value = strtoll(lex->at, &end, 10);
    if (end != lex->at + n)
        return no_integer(lex, n, what);
    if (errno == ERANGE || value < min || value > max)
        return lex_fail(lex, lex->at, "%.*s is out of range for %s, %lld to %lld",
                        n < SHOWN ? (int)n : SHOWN, lex->at, what, (long long)min, (long long)max);
    lex->at = end;
    *out = value;
    return TMK_OK;
}

enum tmk_status lex_unsigned(struct lex *lex, uint64_t max, const char *what, uint64_t *out) {
    size_t n = lex_number_length(lex);
    if (!n)
        return lex_expected(lex, what);
    char *end;
    errno = 0;
    unsigned long long value = strtoull(lex->at, &end, 10);
    if (end != lex->at + n)
        return no_integer(lex, n, what);
    if (errno == ERANGE || lex->at[0] == '-' || value > max)
        return lex_fail(lex, lex->at, "%.*s is out of range for %s, 0 to %llu",
                        n < SHOWN ? (int)n : SHOWN, lex->at, what, (unsigned long long)max);
    lex->at = end;
    *out = value;
    return TMK_OK;
}

enum tmk_status lex_bits(struct lex *lex, uint64_t max, uint64_t *out) {
    size_t n = lex_number_length(lex);
    if (n < 3 || strncmp(lex->at, "0x", 2) != 0)
        return lex_expected(lex, "bits in hexadecimal, like 0x7f");
    uint64_t bits = 0;
    for (size_t i = 2; i < n; i++) {
        int digit = hex_value(lex->at[i]);
        if (digit < 0)
            return lex_fail(lex, lex->at + i, "'%c' is not a hexadecimal digit", lex->at[i]);
        if (bits > max >> 4)
            return lex_fail(lex, lex->at, "more bits than the type has; at most 0x%llx fits",
                            (unsigned long long)max);
        bits = bits << 4 | (unsigned)digit;
    }
    lex->at += n;
    *out = bits;
    return TMK_OK;
}
