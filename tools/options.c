/* SPDX-License-Identifier: Apache-2.0 */
/* Options from a table, by getopt_long. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>
#include <tidemark/inputs.h>
#include <tidemark/operations.h>
#include <tidemark/profile.h>

#include "command.h"
#include "help.h"
#include "memory.h"
#include "stop.h"

enum {
    MOST_OPTIONS = 64,
    FIRST_LONG = 256,
    LOG_JSON = FIRST_LONG + MOST_OPTIONS,
    MEMORY_LIMIT,
    MAX_OPERATIONS,
    TIMEOUT
};

bool add_word(struct words *words, const char *word) {
    const char **items = realloc(words->items, (words->n + 1) * sizeof *items);
    if (!items)
        return false;
    items[words->n++] = word;
    words->items = items;
    return true;
}

bool has_ending(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ending) == 0;
}

static bool set_count(const struct option_row *row, const char *text) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || end == text || text[0] == '-')
        return false;
    *(uint64_t *)row->target = number;
    return true;
}

static bool set_real(const struct option_row *row, const char *text) {
    char *end;
    double number = strtod(text, &end);
    if (*end || end == text || !isfinite(number) || number < 0)
        return false;
    *(double *)row->target = number;
    return true;
}

static bool set_option(const struct option_row *row, const char *text) {
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->target = true;
        return true;
    case OPTION_TEXT:
    case OPTION_INPUT:
    case OPTION_OUTPUT:
        *(const char **)row->target = text;
        return true;
    case OPTION_TEXTS: /* they may need memory */
    case OPTION_INPUTS:
    case OPTION_OUTPUTS:
        break;
    case OPTION_SOME: {
        struct some *some = row->target;
        const struct option_row count = {row->name, 0, OPTION_COUNT, NULL, NULL, &some->n};
        some->given = true;
        return !text || set_count(&count, text);
    }
    case OPTION_COUNT:
        return set_count(row, text);
    case OPTION_POSITIVE:
        return set_count(row, text) && *(uint64_t *)row->target > 0;
    case OPTION_REAL:
        return set_real(row, text);
    }
    return false;
}

static bool is_list(const struct option_row *row) {
    return row->kind == OPTION_TEXTS || row->kind == OPTION_INPUTS || row->kind == OPTION_OUTPUTS;
}

static void no_option(const struct command *command, const struct option *longs, const char *word) {
    char name[64], meant[TMK_GUESS_SIZE];
    struct tmk_guess guess = {.wanted = name};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; strncmp(word, "--", 2) == 0 && longs->name; longs++) {
        char known[64];
        const size_t before = guess.best ? guess.distance : SIZE_MAX;
        snprintf(known, sizeof known, "--%s", longs->name);
        tmk_guess_try(&guess, known);
        if (guess.best && guess.distance < before)
            guess.best = longs->name; /* it stays */
    }
    char whole[64] = "";
    if (guess.best) {
        snprintf(whole, sizeof whole, "--%s", guess.best);
        guess.best = whole;
    }
    wrong_call(command, "there is no option '%s'%s", word, tmk_guess_text(&guess, meant));
}

/* 1000000 or 1e15. */
static bool limit_operations(const struct command *command, const char *word) {
    char *end;
    const double operations = strtod(word, &end);
    if (end == word || *end || !(operations >= 1) || !isfinite(operations)) {
        wrong_call(command, "--max-operations takes a number such as 1e15, not '%s'", word);
        return false;
    }
    tmk_operations_set_limit(operations);
    return true;
}

static bool is_number(const char *word) {
    return *word && word[strspn(word, "0123456789")] == '\0';
}

/* ---- outputs ---- */

static const char standard_output[] = "/dev/stdout";

/* A file that the command line names. */
struct named {
    char option[40];
    const char *path;
    bool output;
};

struct named_files {
    struct named *items;
    size_t n;
};

static bool add_named(struct named_files *files, const struct option_row *row, const char *path) {
    struct named *grown = realloc(files->items, (files->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    files->items = grown;
    struct named *named = &grown[files->n++];
    *named = (struct named){.path = path};
    if (row)
        named->output = row->kind == OPTION_OUTPUT || row->kind == OPTION_OUTPUTS;
    if (!row)
        snprintf(named->option, sizeof named->option, "the argument");
    else if (path == standard_output)
        snprintf(named->option, sizeof named->option, "%s", row->name);
    else if (row->letter)
        snprintf(named->option, sizeof named->option, "-%c", row->letter);
    else
        snprintf(named->option, sizeof named->option, "--%s", row->name);
    return true;
}

static bool add_row(struct named_files *files, const struct option_row *row) {
    bool done = true;
    if (row->kind == OPTION_INPUT || row->kind == OPTION_OUTPUT) {
        const char *path = *(const char **)row->target;
        return !path || add_named(files, row, path);
    }
    if (row->kind == OPTION_INPUTS || row->kind == OPTION_OUTPUTS) {
        const struct words *words = row->target;
        for (size_t i = 0; done && i < words->n; i++)
            done = add_named(files, row, words->items[i]);
    }
    return done;
}

/* Does `source` read the file? It is a path, or FILE:/INSIDE, or "-" for standard input, each with
 * INPUT= before it, perhaps. */
static bool source_reads(const char *source, const char *path) {
    for (const char *from = source, *eq; from; from = eq ? eq + 1 : NULL) {
        eq = strchr(from, '=');
        if (tmk_same_file(strcmp(from, "-") == 0 ? "/dev/stdin" : from, path))
            return true;
        for (const char *colon = from; (colon = strstr(colon, ":/")); colon++) {
            char *file = strndup(from, (size_t)(colon - from));
            const bool same = file && tmk_same_file(file, path);
            free(file);
            if (same)
                return true;
        }
    }
    return false;
}

static bool check_pair(const struct command *command, const struct named *a,
                       const struct named *b) {
    const bool both = a->output && b->output;
    const bool same = both && b->path == standard_output ? false /* -o /dev/stdout */
                      : both                             ? tmk_same_file(a->path, b->path)
                      : a->output                        ? source_reads(b->path, a->path)
                      : b->output                        ? source_reads(a->path, b->path)
                                                         : false;
    if (same)
        wrong_call(command, "%s and %s name the same file, %s; an output replaces no %s", a->option,
                   b->option, a->path, both ? "other output" : "input");
    return !same;
}

/* No output of the options is an input, or another output, under whatever names. `rest`: words that
 * are no options; all are taken for inputs. False after an error message. The library checks once
 * more, when a file is written (tidemark/inputs.h): it has the files that inputs name. */
static bool check_outputs(const struct command *command, const struct option_row *options,
                          const struct words *rest, int *exit_status) {
    struct named_files files = {0};
    const struct option_row stdout_row = {"standard output", 0, OPTION_OUTPUT, NULL, NULL, NULL};
    bool room = add_named(&files, &stdout_row, standard_output), good = true;
    for (const struct option_row *row = options; room && row->name; row++)
        room = add_row(&files, row);
    for (size_t i = 0; room && i < rest->n; i++)
        room = add_named(&files, NULL, rest->items[i]);
    for (size_t i = 0; room && good && i < files.n; i++)
        for (size_t k = 0; good && k < i; k++)
            good = check_pair(command, &files.items[i], &files.items[k]);
    free(files.items);
    if (room && good)
        return true;
    *exit_status = room ? EXIT_WRONG_CALL : out_of_memory();
    return false;
}

/* ---- the call ---- */

bool parse_options(const struct command *command, const struct option_row *options, int argc,
                   char **argv, struct words *rest, int *exit_status) {
    struct option longs[MOST_OPTIONS + 7] = {{0}};
    char shorts[2 * MOST_OPTIONS + 8] = ":qh";
    int n = 0;
    for (; n < MOST_OPTIONS && options[n].name; n++) {
        int takes = options[n].kind == OPTION_FLAG   ? no_argument
                    : options[n].kind == OPTION_SOME ? optional_argument
                                                     : required_argument;
        longs[n] = (struct option){options[n].name, takes, NULL, FIRST_LONG + n};
        if (options[n].letter) {
            char more[3] = {options[n].letter, takes ? ':' : '\0', '\0'};
            strcat(shorts, more);
        }
    }
    longs[n] = (struct option){"quiet", 0, NULL, 'q'};
    longs[n + 1] = (struct option){"help", 0, NULL, 'h'};
    longs[n + 2] = (struct option){"log-json", 0, NULL, LOG_JSON};
    longs[n + 3] = (struct option){"memory-limit", required_argument, NULL, MEMORY_LIMIT};
    longs[n + 4] = (struct option){"max-operations", required_argument, NULL, MAX_OPERATIONS};
    longs[n + 5] = (struct option){"timeout", required_argument, NULL, TIMEOUT};
    for (int i = 1; i < argc; i++) /* what is wrong with the words before it is logged, too */
        if (strcmp(argv[i], "--log-json") == 0)
            log_json();
    *exit_status = EXIT_WRONG_CALL;
    opterr = 0;
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        if (c == 'h') {
            print_command_help(command, options);
            *exit_status = EXIT_DONE;
            return false;
        }
        if (c == 'q')
            be_quiet();
        if (c == LOG_JSON)
            log_json();
        if (c == MEMORY_LIMIT && !limit_memory(command, optarg))
            return false;
        if (c == MAX_OPERATIONS && !limit_operations(command, optarg))
            return false;
        if (c == TIMEOUT && !limit_time(command, optarg))
            return false;
        if (c == 'q' || (c >= LOG_JSON && c <= TIMEOUT))
            continue;
        if (c == ':' || c == '?') {
            if (c == ':')
                wrong_call(command, "option '%s' needs a value", argv[optind - 1]);
            else
                no_option(command, longs, argv[optind - 1]);
            return false;
        }
        int i = c - FIRST_LONG;
        for (int k = 0; c < FIRST_LONG && k < n; k++)
            if (options[k].letter == c)
                i = k;
        const bool attached = optarg && optarg == argv[optind - 1] + 2;
        if (c < FIRST_LONG && attached && *optarg == '=')
            optarg++; /* -o=FILE is meant as --output=FILE is */
        if (is_list(&options[i])) {
            if (add_word(options[i].target, optarg))
                continue;
            *exit_status = out_of_memory();
            return false;
        }
        if (options[i].kind == OPTION_SOME && !optarg && optind < argc && is_number(argv[optind])) {
            wrong_call(command, "--%s %s: its number follows '=', as in --%s=%s", options[i].name,
                       argv[optind], options[i].name, argv[optind]);
            return false;
        }
        if (!set_option(&options[i], optarg)) {
            wrong_call(command, "--%s: '%s' is not a number it takes", options[i].name, optarg);
            return false;
        }
    }
    for (; optind < argc; optind++)
        if (!add_word(rest, argv[optind])) {
            *exit_status = out_of_memory();
            return false;
        }
    if (!check_outputs(command, options, rest, exit_status))
        return false;
    *exit_status = EXIT_DONE;
    return true;
}

enum tmk_status write_profiles(const struct tmk_profile *profile, const struct words *files,
                               struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < files->n; i++) {
        enum tmk_status one =
            tmk_profile_write(profile, files->items[i], status == TMK_OK ? diag : NULL);
        status = status == TMK_OK ? one : status;
    }
    return status;
}
