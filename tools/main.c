/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <tidemark/session.h>

#include "command.h"
#include "shrunk.h"

static const struct command *const commands[] = {
#define COMMAND_ROW(name) &command_##name,
    COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};

static void print_help(FILE *to) {
    fprintf(to, "usage: tidemark COMMAND [OPTION...] [ARGUMENT...]\n\n"
                "Measures the range of every tensor of a neural network over calibration data.\n\n"
                "Commands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n`tidemark COMMAND --help` explains one, with an example. `tidemark --version` "
                "tells the version.\n");
}

int main(int argc, char **argv) {
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* a line is written at once, whoever else writes */
    watch_for_shrinking();
    if (argc < 2) {
        print_help(stderr);
        return EXIT_WRONG_CALL;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tidemark %s\n", tmk_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i]->name) == 0) {
            int status = commands[i]->run(commands[i], argc - 1, argv + 1);
            if (fflush(stdout) != 0 || ferror(stdout)) {
                say(LEVEL_ERROR, "error", NULL, "tidemark: cannot write to standard output");
                return status ? status : EXIT_MACHINE;
            }
            return status;
        }
    say(LEVEL_ERROR, "error", NULL, "tidemark: '%s' is not a command; `tidemark --help` lists them",
        argv[1]);
    return EXIT_WRONG_CALL;
}
