/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on stderr: lines for people, or one JSON object a line. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum { LONGEST_LINE = 4096 };

static bool quiet, hushed, as_json;

void be_quiet(void) {
    quiet = true;
}

bool is_quiet(void) {
    return quiet;
}

void silence_remarks(bool yes) {
    hushed = yes;
}

void log_json(void) {
    as_json = true;
}

bool logs_json(void) {
    return as_json;
}

/* How many bytes of UTF-8 make the character here; 0: it is none. */
static size_t utf8_length(const unsigned char *c) {
    size_t n = c[0] < 0x80                    ? 1
               : c[0] >= 0xc2 && c[0] < 0xe0  ? 2
               : c[0] >= 0xe0 && c[0] < 0xf0  ? 3
               : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4
                                              : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

/* Characters of several bytes that move the cursor, change colours or turn the direction of what
 * stands around them: C1 controls, line separators, bidirectional marks. */
static bool is_control(const unsigned char *c, size_t n) {
    switch (n) {
    case 1:
        return c[0] < 0x20 || c[0] == 0x7f;
    case 2:
        return (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c);
    case 3:
        return c[0] == 0xe2 && ((c[1] == 0x80 && ((c[2] >= 0xa8 && c[2] <= 0xae) || c[2] == 0x8e ||
                                                  c[2] == 0x8f)) ||
                                (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    default:
        return false;
    }
}

size_t text_character(const char *text, bool *harmless) {
    const unsigned char *c = (const unsigned char *)text;
    size_t n = utf8_length(c);
    *harmless = n && !is_control(c, n);
    return n ? n : 1;
}

/* Characters of `kept` stay as they are. */
static void put_but(FILE *to, const char *text, const char *kept) {
    while (*text) {
        bool harmless;
        size_t n = text_character(text, &harmless);
        harmless |= strchr(kept, *text) != NULL;
        if (harmless)
            fwrite(text, 1, n, to);
        for (size_t i = 0; !harmless && i < n; i++)
            fprintf(to, "\\x%02x", (unsigned char)text[i]);
        text += n;
    }
}

void put_escaped(FILE *to, const char *text) {
    put_but(to, text, "");
}

void put_lines(FILE *to, const char *text) {
    put_but(to, text, "\n\t");
}

/* The code point of a control character. */
static unsigned code_point(const unsigned char *c, size_t n) {
    return n == 1   ? c[0]
           : n == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                    : (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

void put_quoted(FILE *to, const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    putc('"', to);
    while (*c) {
        size_t n = utf8_length(c);
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (is_control(c, n))
            fprintf(to, "\\u%04x", code_point(c, n));
        else if (n)
            fwrite(c, 1, n, to);
        else
            fputs("\\ufffd", to);
        c += n ? n : 1;
    }
    putc('"', to);
}

static void put_figures(const struct figures *f) {
    fprintf(stderr, ", \"samples\": %llu", (unsigned long long)f->samples);
    if (f->total)
        fprintf(stderr, ", \"total\": %llu", (unsigned long long)f->total);
    if (f->rate > 0)
        fprintf(stderr, ", \"rate\": %.6g", f->rate);
    if (f->total && f->rate > 0)
        fprintf(stderr, ", \"seconds_left\": %.6g", seconds_left(f));
    fprintf(stderr, ", \"peak_bytes\": %llu", (unsigned long long)f->peak_bytes);
}

static void put_line(enum level level, const char *event, const struct figures *figures,
                     const char *text) {
    static const char *const names[] = {"info", "warning", "error"};
    flockfile(stderr);
    end_progress();
    fflush(stdout); /* keeps the order where both go to one file */
    if (as_json) {
        fprintf(stderr, "{\"event\": \"%s\", \"level\": \"%s\"", event, names[level]);
        if (figures)
            put_figures(figures);
        fputs(", \"message\": ", stderr);
        put_quoted(stderr, text);
        putc('}', stderr);
    } else {
        put_escaped(stderr, text);
    }
    putc('\n', stderr);
    funlockfile(stderr);
}

void print_event(enum level level, const char *event, const struct figures *figures,
                 const char *fmt, ...) {
    char text[LONGEST_LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_line(level, event, figures, text);
}

int wrong_call(const struct command *command, const char *fmt, ...) {
    char text[LONGEST_LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (hushed)
        sleep(1); /* a launcher ends all ranks when one exits: rank 0 speaks first */
    else
        print_event(LEVEL_ERROR, "error", NULL, "tidemark %s: %s; see `tidemark %s --help`",
                    command->name, text, command->name);
    return EXIT_WRONG_CALL;
}

int report_error(enum tmk_status status, const struct tmk_diag *diag) {
    if (!hushed)
        print_event(LEVEL_ERROR, "error", NULL, "tidemark: %s",
                    diag->text[0] ? diag->text : tmk_status_text(status));
    switch (status) {
    case TMK_NOMEM:
    case TMK_WRITE:
    case TMK_MACHINE:
        return EXIT_MACHINE;
    case TMK_GUARD:
        return EXIT_ANSWER_NO;
    case TMK_ARGUMENT:
        return EXIT_WRONG_CALL;
    default:
        return EXIT_BAD_INPUT;
    }
}

int out_of_memory(void) {
    return report_error(TMK_NOMEM, &(struct tmk_diag){0});
}

static void unless_quiet(enum level level, const char *event, const char *fmt, va_list args) {
    char text[LONGEST_LINE];
    if (quiet || hushed)
        return;
    vsnprintf(text, sizeof text, fmt, args);
    put_line(level, event, NULL, text);
}

void print_remark(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    unless_quiet(LEVEL_INFO, "remark", fmt, args);
    va_end(args);
}

void warn_of(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    unless_quiet(LEVEL_WARNING, "warning", fmt, args);
    va_end(args);
}
