/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/guess.h>
#include <tidemark/session.h>

#include "table.h"

enum { HELP_COLUMN = 29 };

static enum help_form form = HELP_TEXT;

void choose_help(enum help_form chosen) {
    form = chosen;
}

/* Options that every command has. */
static const struct option_row common[] = {
    {"quiet", 'q', OPTION_FLAG, NULL,
     "errors and losses only: no remarks, and no table where -o or the exit status has the result",
     NULL},
    {"log-json", 0, OPTION_FLAG, NULL, "write stderr as JSON, one object a line", NULL},
    {"memory-limit", 0, OPTION_TEXT, "SIZE",
     "the most memory that models and data may take (400M, 2G; default: 9/10 of what is "
     "free); `tidemark profile` runs fewer workers, then smaller batches, to stay below it",
     NULL},
    {"max-operations", 0, OPTION_TEXT, "N",
     "refuse a model that takes more operations for one batch, by an estimate (1e15)", NULL},
    {"timeout", 0, OPTION_TEXT, "TIME",
     "end after 10s, 5m, 1h; `tidemark profile --checkpoint` keeps what is done", NULL},
    {"help", 'h', OPTION_FLAG, NULL, "print this text", NULL},
    {0}};

static void each_option(const struct option_row *options,
                        void (*fn)(const struct option_row *row)) {
    for (const struct option_row *row = options; row->name; row++)
        fn(row);
    for (const struct option_row *row = common; row->name; row++)
        fn(row);
}

/* ---- for people ---- */

static void print_row(const struct option_row *row) {
    char left[64];
    snprintf(left, sizeof left, "%s%c%s --%s%s%s%s", row->letter ? "-" : " ",
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             !row->value                ? ""
             : row->kind == OPTION_SOME ? "[="
                                        : " ",
             row->value ? row->value : "", row->kind == OPTION_SOME ? "]" : "");
    print_wrapped(row->help, print_out("  %-26s ", left), HELP_COLUMN);
}

/* As the shell takes it: a line that continues ends in a backslash. */
static void print_example(const char *words) {
    enum { LINE = 80 - sizeof " \\" + 1 };
    int used = print_out("  ");
    while (*words) {
        const size_t len = strcspn(words, " ");
        if (used + (int)len > LINE && used > 6)
            used = print_out(" \\\n     ") - 3;
        used += print_out("%s%.*s", used > 2 ? " " : "", (int)len, words);
        words += len;
        words += strspn(words, " ");
    }
    print_out("\n");
}

static void print_text(const struct command *command, const struct option_row *options) {
    print_wrapped(command->usage, print_out("usage: tidemark %s ", command->name), 8);
    print_out("\n");
    print_wrapped(command->text, 0, 0);
    print_out("\nOptions:\n");
    each_option(options, print_row);
    print_out("\nExample:\n");
    print_example(command->example);
}

/* ---- for man ---- */

/* Text as roff: what it would take for a request, or a hyphen, is not. */
static void put_roff(const char *text) {
    bool at_start = true;
    for (; *text; text++) {
        if (at_start && *text == ' ') /* the help's own columns */
            continue;
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        at_start = *text == '\n';
    }
}

static void man_row(const struct option_row *row) {
    print_out(".TP\n.B ");
    if (row->letter)
        print_out("\\-%c, ", row->letter);
    print_out("\\-\\-");
    put_roff(row->name);
    if (row->value) {
        print_out(row->kind == OPTION_SOME ? "[=\\fI" : " \\fI");
        put_roff(row->value);
        print_out(row->kind == OPTION_SOME ? "\\fR]" : "\\fR");
    }
    print_out("\n");
    put_roff(row->help);
    print_out("\n");
}

static void print_man(const struct command *command, const struct option_row *options) {
    print_out(".TH TIDEMARK\\-");
    for (const char *c = command->name; *c; c++)
        putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    print_out(" 1 \"\" \"Tidemark %s\" \"Tidemark\"\n.SH NAME\ntidemark\\-%s \\- ", tmk_version(),
              command->name);
    put_roff(command->summary);
    print_out("\n.SH SYNOPSIS\n.B tidemark %s\n", command->name);
    put_roff(command->usage);
    print_out("\n.SH DESCRIPTION\n");
    put_roff(command->text);
    print_out("\n.SH OPTIONS\n");
    each_option(options, man_row);
    print_out(
        ".SH EXIT STATUS\n0: success. 1: the result is negative. 2: the command line is wrong. "
        "3: the input is invalid. 4: a system error.\n.SH EXAMPLE\n.nf\n");
    put_roff(command->example);
    print_out("\n.fi\n.SH SEE ALSO\n.BR tidemark (1)\n");
}

/* ---- for shells ---- */

static void words_row(const struct option_row *row) {
    print_out(" --%s", row->name);
}

void print_command_help(const struct command *command, const struct option_row *options) {
    if (form == HELP_TEXT)
        print_text(command, options);
    else if (form == HELP_MAN)
        print_man(command, options);
    else
        each_option(options, words_row);
}

void print_program_help(FILE *to, const struct command *const *commands, size_t n) {
    fprintf(to, "usage: tidemark COMMAND [OPTION...] [ARGUMENT...]\n\n"
                "Measures the range of every tensor of a neural network over calibration data.\n\n"
                "Commands:\n");
    for (size_t i = 0; i < n; i++)
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n`tidemark COMMAND --help` explains one, with an example; `tidemark help --man\n"
                "COMMAND` is its man page, `tidemark completion bash` (zsh, fish) words for the\n"
                "shell, `tidemark --version` the version and what was built in.\n");
}

static int help_of(const struct command *command) {
    char name[32], flag[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    char *argv[] = {name, flag, NULL};
    return command->run(command, 2, argv);
}

static void print_program_man(const struct command *const *commands, size_t n) {
    print_out(
        ".TH TIDEMARK 1 \"\" \"Tidemark %s\" \"Tidemark\"\n.SH NAME\ntidemark \\- measure the "
        "range of every tensor of a neural network\n.SH SYNOPSIS\n.B tidemark\n\\fICOMMAND\\fR "
        "[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n.SH COMMANDS\n",
        tmk_version());
    for (size_t i = 0; i < n; i++) {
        print_out(".TP\n.BR tidemark\\-%s (1)\n", commands[i]->name);
        put_roff(commands[i]->summary);
        print_out("\n");
    }
}

int no_command(const struct command *const *commands, size_t n, const char *name) {
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE];
    for (size_t i = 0; i < n; i++)
        tmk_guess_try(&guess, commands[i]->name);
    print_event(LEVEL_ERROR, "error", NULL,
                "tidemark: '%s'%s is not a command; `tidemark --help` lists them", name,
                tmk_guess_text(&guess, meant));
    return EXIT_WRONG_CALL;
}

int run_help(const struct command *const *commands, size_t n, int argc, char **argv) {
    const char *wanted = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--man") == 0)
            choose_help(HELP_MAN);
        else
            wanted = argv[i];
    for (size_t i = 0; wanted && i < n; i++)
        if (strcmp(wanted, commands[i]->name) == 0)
            return help_of(commands[i]);
    if (wanted)
        return no_command(commands, n, wanted);
    if (form == HELP_MAN)
        print_program_man(commands, n);
    else
        print_program_help(stdout, commands, n);
    return EXIT_DONE;
}

/* ---- completion ---- */

static void print_bash(const struct command *const *commands, size_t n) {
    print_out("# bash completion for tidemark\n_tidemark() {\n"
              "    local current=${COMP_WORDS[COMP_CWORD]} words=\n"
              "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    for (size_t i = 0; i < n; i++)
        print_out("%s%s", i ? " " : "", commands[i]->name);
    print_out("'\n    elif [[ $current == -* ]]; then\n        case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < n; i++) {
        print_out("        %s) words='", commands[i]->name);
        (void)help_of(commands[i]);
        print_out("' ;;\n");
    }
    print_out("        esac\n    fi\n"
              "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
              "    [ -n \"$words\" ] || mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n}\n"
              "complete -o filenames -F _tidemark tidemark\n");
}

static void print_zsh(const struct command *const *commands, size_t n) {
    print_out("#compdef tidemark\n_tidemark() {\n    if (( CURRENT == 2 )); then\n        compadd");
    for (size_t i = 0; i < n; i++)
        print_out(" %s", commands[i]->name);
    print_out("\n    elif [[ $PREFIX == -* ]]; then\n        case $words[2] in\n");
    for (size_t i = 0; i < n; i++) {
        print_out("        %s) compadd --", commands[i]->name);
        (void)help_of(commands[i]);
        print_out(" ;;\n");
    }
    print_out("        esac\n    else\n        _files\n    fi\n}\n_tidemark \"$@\"\n");
}

static void print_fish(const struct command *const *commands, size_t n) {
    for (size_t i = 0; i < n; i++) {
        print_out("complete -c tidemark -n __fish_use_subcommand -a %s -d \"%s\"\n",
                  commands[i]->name, commands[i]->summary);
        print_out("for word in");
        (void)help_of(commands[i]);
        print_out(
            "\n    complete -c tidemark -n '__fish_seen_subcommand_from %s' -l (string replace "
            "-- -- "
            "'' $word)\nend\n",
            commands[i]->name);
    }
}

int run_completion(const struct command *const *commands, size_t n, int argc, char **argv) {
    static const struct {
        const char *shell;
        void (*print)(const struct command *const *commands, size_t n);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    choose_help(HELP_WORDS);
    for (size_t i = 0; argc == 2 && i < sizeof shells / sizeof *shells; i++)
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].print(commands, n);
            return EXIT_DONE;
        }
    print_event(LEVEL_ERROR, "error", NULL, "tidemark completion: for bash, zsh or fish?");
    return EXIT_WRONG_CALL;
}
