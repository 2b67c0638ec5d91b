/* SPDX-License-Identifier: Apache-2.0 */
/* A string that grows; it counts against the memory limit. Not thread-safe. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/guess.h>
#include <tidemark/status.h>

/* Zero-initialised is the empty text. `failed` sticks once memory ran out; appends after that do
 * nothing, so that a writer checks once at its end. */
struct tmk_text {
    char *data; /* terminated, or NULL when nothing was appended */
    size_t len, size;
    bool failed;
};

void tmk_text_append(struct tmk_text *text, const char *bytes, size_t len);
void tmk_text_puts(struct tmk_text *text, const char *string);
void tmk_text_printf(struct tmk_text *text, const char *fmt, ...) TMK_PRINTF(2, 3);
void tmk_text_finish(struct tmk_text *text);
/* The text's own data, to be freed with free and counted no more; NULL: nothing was appended. The
 * text is empty then. */
char *tmk_text_release(struct tmk_text *text);

/* As snprintf; what does not fit is cut between characters, not within one. */
void tmk_print_cut(char *out, size_t size, const char *fmt, ...) TMK_PRINTF(3, 4);
void tmk_vprint_cut(char *out, size_t size, const char *fmt, va_list args) TMK_PRINTF(3, 0);

/* Passes a line, as printf would make it, to `remark`; may be NULL. */
void tmk_pass_remark(void (*remark)(void *context, const char *text), void *context,
                     const char *fmt, va_list args) TMK_PRINTF(3, 0);

/* The shortest decimal, of 6 digits at least, that reads back (strtof) to the same float; finite
 * values only. `out` holds >= 32. True where it does by way of a double (strtod), too: it can lie
 * so close to the middle of two floats that the double is the middle. Nine digits never do. */
bool tmk_format_float(float value, char out[32]);
/* The same for double (strtod). */
void tmk_format_double(double value, char out[32]);

/* Shell-style match of a whole name: '*', '?' and '[...]'; '/' is no separator (tensor names hold
 * it). */
bool tmk_glob(const char *pattern, const char *name);

static inline bool tmk_is_digit(char c) {
    return c >= '0' && c <= '9';
}
/* ASCII letters and '_'. */
static inline bool tmk_begins_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool tmk_in_word(char c) {
    return tmk_begins_word(c) || tmk_is_digit(c);
}

/* The number that these characters, which are all digits, make; false: they do not, or it takes
 * more than 64 bits. */
bool tmk_read_digits(const char *text, size_t len, uint64_t *out);

/* The names that there are, for a message about one that is not known. Start with {.guess.wanted =
 * NAME}. */
struct tmk_known {
    struct tmk_guess guess;
    char meant[TMK_GUESS_SIZE]; /* tmk_guess_text's */
    char names[1024];           /* "a, b, c" */
};
void tmk_known_add(struct tmk_known *known, const char *name);

bool tmk_ends_in(const char *text, const char *end);
/* What follows the last '/' of a path, if anything does; else the path. */
const char *tmk_base_name(const char *path);

/* Whether bytes are text. */

/* Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
bool tmk_utf8_valid(const char *bytes, size_t len);

/* The same for a file's text: TMK_FORMAT, with the first byte that is none. */
enum tmk_status tmk_utf8_check(const char *bytes, size_t len, struct tmk_diag *diag);

/* A code point up to U+10FFFF as UTF-8; how many bytes it takes. */
size_t tmk_utf8_put(unsigned point, char out[4]);
