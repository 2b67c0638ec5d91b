/* SPDX-License-Identifier: Apache-2.0 */
/* A table of options as help text, as a man page, and as shell completion. */
#pragma once

#include "command.h"

enum help_form { HELP_TEXT, HELP_MAN, HELP_WORDS };

/* What --help prints from now on. */
void choose_help(enum help_form form);
/* By the form that was chosen, to stdout. */
void print_command_help(const struct command *command, const struct option_row *options);

/* tidemark help [--man] [COMMAND], and tidemark completion SHELL; argv[0] is "help" or
 * "completion". The exit status. */
int run_help(const struct command *const *commands, size_t n, int argc, char **argv);
int run_completion(const struct command *const *commands, size_t n, int argc, char **argv);
/* Says that there is no such command, and which may have been meant. EXIT_WRONG_CALL. */
int no_command(const struct command *const *commands, size_t n, const char *name);
/* The list of commands. */
void print_program_help(FILE *to, const struct command *const *commands, size_t n);
