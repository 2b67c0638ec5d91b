/* SPDX-License-Identifier: Apache-2.0 */
/* Relay text into tokens. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "relay/read.h"

enum { SHOWN = 40 }; /* bytes of the text that a message quotes at most */

static char char_at(const struct tmk_relay_reader *in, const char *at) {
    return at < in->end ? *at : '\0';
}

static struct tmk_relay_place place_of(const struct tmk_relay_reader *in, const char *at) {
    return (struct tmk_relay_place){in->line, (uint32_t)(at - in->line_begin) + 1};
}

void tmk_relay_report(struct tmk_relay_reader *in, struct tmk_relay_place place, const char *fmt,
                      ...) {
    char what[1280];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    tmk_diag_set(in->diag, TMK_FORMAT, "%s:%u:%u: %s", in->name, place.line, place.column, what);
}

/* The sign before a token's text. */
static const char *mark_of(int kind) {
    if (kind == RELAY_NUMBERED || kind == RELAY_LOCAL)
        return "%";
    return kind == RELAY_STRING ? "\"" : kind == RELAY_GLOBAL ? "@" : "";
}

void tmk_relay_report_expected(struct tmk_relay_reader *in, const char *what) {
    const struct tmk_relay_token *token = &in->token;
    size_t shown = token->len < SHOWN ? token->len : SHOWN;
    if (token->kind == RELAY_END)
        tmk_relay_report(in, token->place, "expected %s, but the text ends; is it cut off?", what);
    else
        tmk_relay_report(in, token->place, "expected %s, found '%s%.*s'", what,
                         mark_of(token->kind), (int)shown, token->at);
}

static void new_line(struct tmk_relay_reader *in, const char *behind) {
    in->line++;
    in->line_begin = behind;
}

/* Comments nest. */
static enum tmk_status skip_comment(struct tmk_relay_reader *in) {
    struct tmk_relay_place place = place_of(in, in->at);
    size_t open = 0;
    while (in->at < in->end) {
        if (in->at[0] == '/' && char_at(in, in->at + 1) == '*') {
            open++;
            in->at += 2;
        } else if (in->at[0] == '*' && char_at(in, in->at + 1) == '/') {
            in->at += 2;
            if (--open == 0)
                return TMK_OK;
        } else if (*in->at++ == '\n') {
            new_line(in, in->at);
        }
    }
    return tmk_relay_fail(in, place, "this comment has no end");
}

static enum tmk_status skip_blank(struct tmk_relay_reader *in) {
    in->gap = in->at;
    in->comments = false;
    for (;;) {
        char c = char_at(in, in->at);
        if (c == '\n') {
            in->at++;
            new_line(in, in->at);
        } else if (c == ' ' || c == '\t' || c == '\r') {
            in->at++;
        } else if (c == '/' && char_at(in, in->at + 1) == '/') {
            const char *line_end = memchr(in->at, '\n', (size_t)(in->end - in->at));
            in->at = line_end ? line_end : in->end;
        } else if (c == '/' && char_at(in, in->at + 1) == '*') {
            in->comments = true;
            TMK_TRY(skip_comment(in));
        } else {
            break;
        }
    }
    in->gap_end = in->at;
    return TMK_OK;
}

static void skip_digits(struct tmk_relay_reader *in) {
    while (tmk_is_digit(char_at(in, in->at)))
        in->at++;
}

/* Digits, a fraction, an exponent, and `f` or `i` with a width. */
static void lex_number(struct tmk_relay_reader *in) {
    skip_digits(in);
    if (char_at(in, in->at) == '.') {
        in->at++;
        skip_digits(in);
    }
    char c = char_at(in, in->at), sign = char_at(in, in->at + 1);
    if ((c == 'e' || c == 'E') && (tmk_is_digit(sign) || ((sign == '+' || sign == '-') &&
                                                          tmk_is_digit(char_at(in, in->at + 2))))) {
        in->at += 2;
        skip_digits(in);
    }
    if (char_at(in, in->at) == 'f' || char_at(in, in->at) == 'i') {
        in->at++;
        skip_digits(in);
    }
}

static enum tmk_status lex_string(struct tmk_relay_reader *in) {
    in->token.kind = RELAY_STRING;
    in->token.at = ++in->at;
    for (;; in->at++) {
        if (in->at >= in->end)
            return tmk_relay_fail(in, in->token.place, "this string has no end");
        if (*in->at == '"')
            break;
        if (*in->at == '\\' && in->at + 1 < in->end)
            in->at++;
        if (*in->at == '\n')
            new_line(in, in->at + 1);
    }
    in->token.len = (size_t)(in->at++ - in->token.at);
    return TMK_OK;
}

static bool in_local(char c) {
    return tmk_in_word(c) || (c && strchr("/.:$-", c));
}

/* Names of old versions and of frontends hold '.', '/' and ':', so the reader takes all that may
 * belong to one; where it is used, the declared names decide how long it is. */
static enum tmk_status lex_variable(struct tmk_relay_reader *in) {
    in->token.at = ++in->at;
    if (tmk_is_digit(char_at(in, in->at))) {
        in->token.kind = RELAY_NUMBERED;
        skip_digits(in);
    } else {
        in->token.kind = RELAY_LOCAL;
        if (!tmk_begins_word(char_at(in, in->at)))
            return tmk_relay_fail(in, in->token.place, "expected a name or a number behind '%%'");
        while (in_local(char_at(in, in->at)))
            in->at++;
    }
    in->token.len = (size_t)(in->at - in->token.at);
    return TMK_OK;
}

/* Dotted, as operators and attributes are; a dot before a digit is a projection. */
static enum tmk_status lex_word(struct tmk_relay_reader *in) {
    in->token.kind = RELAY_WORD;
    for (;;) {
        char c = char_at(in, in->at), after = char_at(in, in->at + 1);
        bool inside = tmk_in_word(c) || (c == '/' && tmk_begins_word(after)) ||
                      (c == '.' && tmk_begins_word(after));
        if (!inside)
            break;
        in->at++;
    }
    in->token.len = (size_t)(in->at - in->token.at);
    if (in->token.len == 4 && !memcmp(in->token.at, "meta", 4) && char_at(in, in->at) == '[') {
        /* meta[Key][index], behind "meta". */
        in->token.kind = RELAY_META;
        in->token.at = ++in->at;
        while (tmk_in_word(char_at(in, in->at)) || char_at(in, in->at) == '.')
            in->at++;
        in->token.len = (size_t)(in->at - in->token.at);
        uint64_t index = 0;
        bool good = in->token.len && char_at(in, in->at) == ']' && char_at(in, in->at + 1) == '[' &&
                    tmk_is_digit(char_at(in, in->at + 2));
        if (good)
            in->at += 2;
        for (; good && tmk_is_digit(char_at(in, in->at)); in->at++) {
            index = index * 10 + (uint64_t)(*in->at - '0');
            good = index <= UINT32_MAX;
        }
        if (!good || char_at(in, in->at) != ']')
            return tmk_relay_fail(in, in->token.place, "expected meta[Key][index]");
        in->at++;
        in->token.index = (uint32_t)index;
        return TMK_OK;
    }
    return TMK_OK;
}

enum tmk_status tmk_relay_next(struct tmk_relay_reader *in) {
    TMK_TRY(skip_blank(in));
    in->token = (struct tmk_relay_token){.at = in->at, .place = place_of(in, in->at)};
    if (in->at == in->end) {
        in->token.kind = RELAY_END;
        return TMK_OK;
    }
    char c = *in->at;
    if (tmk_is_digit(c)) {
        in->token.kind = RELAY_NUMBER;
        lex_number(in);
        in->token.len = (size_t)(in->at - in->token.at);
        return TMK_OK;
    }
    if (tmk_begins_word(c))
        return lex_word(in);
    if (c == '"')
        return lex_string(in);
    if (c == '%')
        return lex_variable(in);
    if (c == '@') {
        in->token.kind = RELAY_GLOBAL;
        in->token.at = ++in->at;
        while (tmk_in_word(char_at(in, in->at)) ||
               (char_at(in, in->at) && strchr("/.$", char_at(in, in->at))) ||
               (char_at(in, in->at) == '-' && char_at(in, in->at + 1) != '>'))
            in->at++;
        in->token.len = (size_t)(in->at - in->token.at);
        if (!in->token.len)
            return tmk_relay_fail(in, in->token.place, "expected a name behind '@'");
        return TMK_OK;
    }
    if (c < ' ' || c > '~')
        return tmk_relay_fail(in, in->token.place, "byte 0x%02x has no place here",
                              (unsigned char)c);
    static const struct {
        char text[3];
        int kind;
    } pairs[] = {{"->", RELAY_ARROW},   {"==", RELAY_EQUAL},    {"!=", RELAY_UNEQUAL},
                 {"<=", RELAY_AT_MOST}, {">=", RELAY_AT_LEAST}, {"=>", RELAY_ARROW}};
    in->token.kind = (unsigned char)*in->at;
    in->token.len = 1;
    for (size_t i = 0; i < TMK_COUNT(pairs); i++)
        if (in->at[0] == pairs[i].text[0] && char_at(in, in->at + 1) == pairs[i].text[1]) {
            in->token.kind = pairs[i].kind;
            in->token.len = 2;
        }
    in->at += in->token.len;
    return TMK_OK;
}

enum tmk_status tmk_relay_again(struct tmk_relay_reader *in, const char *at) {
    in->at = at;
    return tmk_relay_next(in);
}

enum tmk_status tmk_relay_need(struct tmk_relay_reader *in, int kind, const char *what) {
    if (in->token.kind != kind)
        return tmk_relay_expected(in, what);
    return tmk_relay_next(in);
}

enum tmk_status tmk_relay_take(struct tmk_relay_reader *in, int kind, bool *out) {
    bool stands = in->token.kind == kind;
    if (stands)
        TMK_TRY(tmk_relay_next(in));
    *out = stands;
    return TMK_OK;
}

bool tmk_relay_is(const struct tmk_relay_reader *in, const char *word) {
    return in->token.kind == RELAY_WORD && in->token.len == strlen(word) &&
           !memcmp(in->token.at, word, in->token.len);
}

bool tmk_relay_before_equals(const struct tmk_relay_reader *in) {
    const char *at = in->at;
    while (at < in->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return char_at(in, at) == '=' && char_at(in, at + 1) != '=';
}

enum tmk_status tmk_relay_balanced(struct tmk_relay_reader *in, const char **begin,
                                   const char **end) {
    struct tmk_relay_place place = in->token.place;
    const char *inside = in->at;
    size_t open = 0;
    for (;;) {
        int kind = in->token.kind;
        if (kind == RELAY_END)
            return tmk_relay_fail(in, place, "this bracket is never closed");
        open += kind == '(' || kind == '[' || kind == '{';
        bool closes = kind == ')' || kind == ']' || kind == '}';
        const char *at = in->token.at;
        TMK_TRY(tmk_relay_next(in));
        if (closes && --open == 0) {
            *begin = inside;
            *end = at;
            return TMK_OK;
        }
    }
}
