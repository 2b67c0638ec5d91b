/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on stderr: lines for people, or one JSON object a line. */
#include <stdarg.h>
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

void hear_remark(void *context, const char *text) {
    (void)context;
    print_remark("%s", text);
}

void hear_warning(void *context, const char *text) {
    (void)context;
    warn_of("%s", text);
}
