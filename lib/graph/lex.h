/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of the graph's text form (print.h), read and written: strings, words, numbers, marks.
 */
#ifndef TMK_GRAPH_LEX_H
#define TMK_GRAPH_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/arena.h"
#include "base/text.h"

/* A place in a terminated text. Strings that are read live in `arena`. */
struct tmk_lex {
    const char *text, *at;
    struct tmk_arena *arena;
    struct tmk_diag *diag;
};

/* TMK_FORMAT with the line and column (in bytes, from 1) of `at` in front. Macros, so that
 * compilers see which status it is. */
void tmk_lex_report(const struct tmk_lex *lex, const char *at, const char *fmt, ...)
    TMK_PRINTF(3, 4);
#define tmk_lex_fail(lex, ...) (tmk_lex_report((lex), __VA_ARGS__), TMK_FORMAT)
/* The same at the next token, which the text names: "expected WHAT but found '}'". */
void tmk_lex_report_expected(struct tmk_lex *lex, const char *what);
#define tmk_lex_expected(lex, ...) (tmk_lex_report_expected((lex), __VA_ARGS__), TMK_FORMAT)

/* Skips blanks and comments (from // to the end of the line); the next character, '\0' at the end.
 */
char tmk_lex_peek(struct tmk_lex *lex);
/* Takes the character if it is the next one. */
bool tmk_lex_take(struct tmk_lex *lex, char c);
TMK_NODISCARD enum tmk_status tmk_lex_need(struct tmk_lex *lex, char c);
/* Takes the word (or mark, like "::") if it comes next, whole. */
bool tmk_lex_take_word(struct tmk_lex *lex, const char *word);

/* A bare word (letters, '_' and, not first, digits), or with `dotted` several with dots between
 * them. `what` is for the message. */
TMK_NODISCARD enum tmk_status tmk_lex_word(struct tmk_lex *lex, bool dotted, const char *what,
                                           const char **out);
/* A quoted string of any bytes, terminated; *n is its length. */
TMK_NODISCARD enum tmk_status tmk_lex_string(struct tmk_lex *lex, const char *what,
                                             const char **out, size_t *n);
/* A quoted string without \x00. */
TMK_NODISCARD enum tmk_status tmk_lex_name(struct tmk_lex *lex, const char *what, const char **out);
/* A word, or any other name as a string. */
TMK_NODISCARD enum tmk_status tmk_lex_word_or_name(struct tmk_lex *lex, bool dotted,
                                                   const char *what, const char **out);
/* The letters, digits, '_' and '.' that directly follow (after a '%'). */
TMK_NODISCARD enum tmk_status tmk_lex_identifier(struct tmk_lex *lex, const char **out);

/* The length of the number that comes next with all that sticks to it; 0 when none does. */
size_t tmk_lex_number_length(struct tmk_lex *lex);
/* A decimal integer between min and max. */
TMK_NODISCARD enum tmk_status tmk_lex_signed(struct tmk_lex *lex, int64_t min, int64_t max,
                                             const char *what, int64_t *out);
TMK_NODISCARD enum tmk_status tmk_lex_unsigned(struct tmk_lex *lex, uint64_t max, const char *what,
                                               uint64_t *out);
/* 0x and hexadecimal digits of at most `max`. */
TMK_NODISCARD enum tmk_status tmk_lex_bits(struct tmk_lex *lex, uint64_t max, uint64_t *out);

/* Writes n bytes as they stand inside a string token: printable ASCII and well-formed UTF-8 as they
 * are, the rest escaped. */
void tmk_lex_put_escaped(struct tmk_text *text, const char *bytes, size_t n);
/* The same between quotes. */
void tmk_lex_put_string(struct tmk_text *text, const char *bytes, size_t n);
/* Writes a name as a word (with `dotted`: as words with dots between them) if it is one, else as a
 * string. */
void tmk_lex_put_name(struct tmk_text *text, const char *name, bool dotted);

#endif
