/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <tidemark/inputs.h>
#include <tidemark/session.h>

#include "command.h"
#include "ending.h"
#include "help.h"
#include "memory.h"

static const struct command *const commands[] = {
#define COMMAND_ROW(name) &command_##name,
    COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

void print_version(void) {
    print_out("tidemark %s%s%s%s\nbuilt with: %s\n", tmk_version(),
              program_commit[0] ? " (commit " : "", program_commit, program_commit[0] ? ")" : "",
              tmk_features());
}

static int run_program(int argc, char **argv) {
    if (argc < 2) {
        print_program_help(stderr, commands, N_COMMANDS);
        return EXIT_WRONG_CALL;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return run_help(commands, N_COMMANDS, argc - 1, argv + 1);
    if (strcmp(argv[1], "completion") == 0)
        return run_completion(commands, N_COMMANDS, argc - 1, argv + 1);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return commands[i]->run(commands[i], argc - 1, argv + 1);
    return no_command(commands, N_COMMANDS, argv[1]);
}

int main(int argc, char **argv) {
    begin_program();
    tmk_inputs_begin(); /* what a command has read, it does not replace */
    handle_sigbus();
    handle_terminate();
    limit_memory_to_machine();
    return mark_own_exit(end_program(run_program(argc, argv)));
}
