/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: a table of commands, a table of options each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/status.h>

/* Of the clone that the program was built from; "" elsewhere. */
extern const char program_commit[];

/* The version, the commit and what was built in, a line each. */
void print_version(void);

/* Exit statuses, as the manual promises them. */
enum {
    EXIT_DONE = 0,
    EXIT_ANSWER_NO = 1,
    EXIT_WRONG_CALL = 2,
    EXIT_BAD_INPUT = 3,
    EXIT_MACHINE = 4,
    EXIT_BY_SIGNAL = 128 /* and its number */
};

/* A growing list of words from the command line; the words are argv's. */
struct words {
    const char **items;
    size_t n;
};

enum option_kind {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char *: the last one given counts */
    OPTION_TEXTS, /* struct words: may be given more than once */
    OPTION_INPUT, /* as OPTION_TEXT: a file that is read */
    OPTION_INPUTS,
    OPTION_OUTPUT, /* as OPTION_TEXT: a file that is written */
    OPTION_OUTPUTS,
    OPTION_COUNT,    /* uint64_t */
    OPTION_POSITIVE, /* as OPTION_COUNT, without 0, which would stand for no limit */
    OPTION_SOME,     /* struct some: --NAME or --NAME=N */
    OPTION_REAL      /* double */
};

struct some {
    bool given;
    uint64_t n; /* as it was where only the name was given */
};

struct option_row {
    const char *name; /* long name; NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* what the value is called in the help; NULL for flags */
    const char *help;
    void *target; /* of the kind's type */
};

/* The weights of a model that has them in a file of their own. */
#define PARAMS_OPTION_ROW(target)                                                                  \
    {                                                                                              \
        "params", 0, OPTION_INPUT, "FILE",                                                         \
            "the weights of a Relay module, as relay.save_param_dict writes them", &(target)       \
    }

struct command {
    const char *name, *summary; /* one line for the list of commands */
    const char *usage;          /* after "tidemark NAME" */
    const char *text;           /* what it does, in a few lines */
    const char *example;
    int (*run)(const struct command *command, int argc, char **argv); /* argv[0] is the name */
};

/* X(name): every command, `const struct command command_NAME`. */
/* clang-format off: a line each. */
#define COMMAND_LIST(X)                                                                            \
    X(quantize)                                                                                    \
    X(profile)                                                                                     \
    X(merge)                                                                                       \
    X(show)                                                                                        \
    X(check)                                                                                       \
    X(diff)                                                                                        \
    X(instrument)                                                                                  \
    X(transform)                                                                                   \
    X(link)                                                                                        \
    X(calibrate)                                                                                   \
    X(export)                                                                                      \
    X(report)                                                                                      \
    X(graph)                                                                                       \
    X(run)                                                                                         \
    X(simulate)                                                                                    \
    X(verify)                                                                                      \
    X(bench)                                                                                       \
    X(doctor)
/* clang-format on */

#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* Reads options into their targets and the rest into *rest (free rest->items). Adds --help,
 * --quiet, --log-json, --memory-limit, --max-operations and --timeout to every table. False when
 * the command is over: *exit_status then holds 0 (help was printed) or 2 (the error was printed).
 */
bool parse_options(const struct command *command, const struct option_row *options, int argc,
                   char **argv, struct words *rest, int *exit_status);

/* Appends a word; false when memory ran out. */
bool add_word(struct words *words, const char *word);
/* Does the path end in it, as in ".json"? */
bool has_ending(const char *path, const char *ending);

/* How many bytes the character takes that the text begins with, and whether a terminal may be shown
 * it: no control character, nothing that turns the direction of writing, no stray byte. */
size_t text_character(const char *text, bool *harmless);
/* Prints a text with \xNN for the bytes of others, so that it stays on its line. */
void put_escaped(FILE *to, const char *text);
/* The same for a text of many lines. */
void put_lines(FILE *to, const char *text);
/* Prints a text as a JSON string; bytes that are no UTF-8 become U+FFFD. */
void put_quoted(FILE *to, const char *text);
/* Prints JSON; characters that no terminal may be shown stand in strings, and are escaped there. */
void put_json_text(FILE *to, const char *text);
/* printf to standard output, with strings escaped as by put_escaped. All that is printed goes
 * through these functions (tests/lint/printing.py). How many characters were printed. Conversions:
 * those of C but n, p, wide characters and long doubles. */
int print_out(const char *fmt, ...) TMK_PRINTF(1, 2);
/* `,"key":number` to stdout; null where it is not finite, since JSON has no such numbers. */
void put_member(const char *key, double number);

/* Seconds by a clock that never goes back. */
double clock_seconds(void);

/* How far a run is. */
struct figures {
    uint64_t samples, total; /* done; of how many, 0: not known */
    double rate;             /* samples a second; 0: not known */
    uint64_t peak_bytes;     /* the most memory that the process has held */
};
double seconds_left(const struct figures *figures);

/* One line to stderr, even with --quiet: the text, or with --log-json an object that has it as
 * "message", with "event", "level" and (unless NULL) the figures. */
enum level { LEVEL_INFO, LEVEL_WARNING, LEVEL_ERROR };
void print_event(enum level level, const char *event, const struct figures *figures,
                 const char *fmt, ...) TMK_PRINTF(4, 5);
/* From now on messages are JSON. */
void log_json(void);
bool logs_json(void);

/* "tidemark: TEXT" to stderr; the exit status that goes with the library's. */
int report_error(enum tmk_status status, const struct tmk_diag *diag);
/* Says that there is no memory left; EXIT_MACHINE. */
int out_of_memory(void);
/* "tidemark NAME: TEXT; see `tidemark NAME --help`" to stderr; EXIT_WRONG_CALL. */
int wrong_call(const struct command *command, const char *fmt, ...) TMK_PRINTF(2, 3);

/* --quiet: no progress, no remarks. */
void be_quiet(void);
bool is_quiet(void);
/* From now on, or no more: no message at all, since another process gives the same one. */
void silence_remarks(bool yes);
/* A remark for people, to stderr, unless quiet. */
void print_remark(const char *fmt, ...) TMK_PRINTF(1, 2);
/* The same for suspicious numbers. */
void warn_of(const char *fmt, ...) TMK_PRINTF(1, 2);
/* The two as callbacks of the library, whatever the context. */
void hear_remark(void *context, const char *text);
void hear_warning(void *context, const char *text);

/* Writes the profile to each of the files, also where it can't be written to one of the others. The
 * first failure's text. */
struct tmk_profile;
enum tmk_status write_profiles(const struct tmk_profile *profile, const struct words *files,
                               struct tmk_diag *diag);

/* For tmk_run_events.progress: one line that is rewritten when stderr is a terminal; else a line
 * every ten seconds, as JSON every second, and so none for short work. */
void show_progress(void *context, uint64_t samples_done, uint64_t total);
/* Erases the line, if one is there. Messages do so themselves; what prints to stdout after a run
 * calls this first. */
void end_progress(void);
/* The same in a signal handler. */
void drop_progress(void);
