/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <tidemark/session.h>

#include "command.h"
#include "help.h"
#include "shrunk.h"

static const struct command *const commands[] = {
#define COMMAND_ROW(name) &command_##name,
    COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

int main(int argc, char **argv) {
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* a line is written at once, whoever else writes */
    watch_for_shrinking();
    if (argc < 2) {
        print_program_help(stderr, commands, N_COMMANDS);
        return EXIT_WRONG_CALL;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tidemark %s\nbuilt with: %s\n", tmk_version(), tmk_features());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return run_help(commands, N_COMMANDS, argc - 1, argv + 1);
    if (strcmp(argv[1], "completion") == 0)
        return run_completion(commands, N_COMMANDS, argc - 1, argv + 1);
    for (size_t i = 0; i < N_COMMANDS; i++)
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
