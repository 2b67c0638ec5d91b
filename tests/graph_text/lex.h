/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of the graph's text form (graph/print.h): strings, words, numbers, marks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/arena.h"

/* A place in a terminated text. Strings that are read live in `arena`. */
struct lex {
    const char *text, *at;
    struct tmk_arena *arena;
    struct tmk_diag *diag;
};

/* TMK_FORMAT with the line and column (in bytes, from 1) of `at` in front. Macros, so that
 * compilers see which status it is. */
void lex_report(const struct lex *lex, const char *at, const char *fmt, ...) TMK_PRINTF(3, 4);
#define lex_fail(lex, ...) (lex_report((lex), __VA_ARGS__), TMK_FORMAT)
/* The same at the next token, which the text names: "expected WHAT but found '}'". */
void lex_report_expected(struct lex *lex, const char *what);
#define lex_expected(lex, ...) (lex_report_expected((lex), __VA_ARGS__), TMK_FORMAT)

/* Skips blanks and comments (from // to the end of the line); the next character, '\0' at the end.
 */
char lex_peek(struct lex *lex);
/* Takes the character if it is the next one. */
bool lex_take(struct lex *lex, char c);
enum tmk_status lex_need(struct lex *lex, char c);
/* Takes the word (or mark, like "::") if it comes next, whole. */
bool lex_take_word(struct lex *lex, const char *word);

/* A bare word (letters, '_' and, not first, digits), or with `dotted` several with dots between
 * them. `what` is for the message. */
enum tmk_status lex_word(struct lex *lex, bool dotted, const char *what, const char **out);
/* A quoted string of any bytes, terminated; *n is its length. */
enum tmk_status lex_string(struct lex *lex, const char *what, const char **out, size_t *n);
/* A quoted string without \x00. */
enum tmk_status lex_name(struct lex *lex, const char *what, const char **out);
/* A word, or any other name as a string. */
enum tmk_status lex_word_or_name(struct lex *lex, bool dotted, const char *what, const char **out);
/* The letters, digits, '_' and '.' that directly follow (after a '%'). */
enum tmk_status lex_identifier(struct lex *lex, const char **out);

/* The length of the number that comes next with all that sticks to it; 0 when none does. */
size_t lex_number_length(struct lex *lex);
/* A decimal integer between min and max. */
enum tmk_status lex_signed(struct lex *lex, int64_t min, int64_t max, const char *what,
                           int64_t *out);
enum tmk_status lex_unsigned(struct lex *lex, uint64_t max, const char *what, uint64_t *out);
/* 0x and hexadecimal digits of at most `max`. */
enum tmk_status lex_bits(struct lex *lex, uint64_t max, uint64_t *out);
