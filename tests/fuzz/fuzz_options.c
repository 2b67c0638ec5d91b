/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: words, each ended by a zero byte, for a command with an option of each kind. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/command.h"
#include "fuzz.h"

enum { MOST_WORDS = 64 };

FUZZ_TARGET(options) {
    static const struct command command = {.name = "fuzz", .usage = "", .text = "", .example = ""};
    bool flag = false;
    const char *text = NULL;
    struct words texts = {0}, rest = {0};
    uint64_t count = 0;
    struct some some = {0};
    double real = 0;
    const struct option_row rows[] = {
        {"flag", 'f', OPTION_FLAG, NULL, "", &flag},
        {"text", 't', OPTION_TEXT, "TEXT", "", &text},
        {"texts", 0, OPTION_TEXTS, "TEXT", "", &texts},
        {"count", 'n', OPTION_COUNT, "N", "", &count},
        {"some", 0, OPTION_SOME, "N", "", &some},
        {"real", 'r', OPTION_REAL, "X", "", &real},
        {0},
    };
    char *words = malloc(size + 1), *argv[MOST_WORDS + 2];
    if (!words)
        return 0;
    if (size)
        memcpy(words, data, size);
    words[size] = 0;
    int argc = 0, status = -1;
    argv[argc++] = words + size;
    for (size_t at = 0; at < size && argc <= MOST_WORDS; at += strlen(words + at) + 1)
        argv[argc++] = words + at;
    argv[argc] = NULL;
    optind = 0; /* getopt forgets the words before it */
    (void)getopt(1, argv, "");
    bool continues_sequence = parse_options(&command, rows, argc, argv, &rest, &status);
    fuzz_check(continues_sequence || status == EXIT_DONE || status == EXIT_WRONG_CALL ||
                   (status == EXIT_MACHINE && fuzz_ran_out),
               NULL);
    free(texts.items);
    free(rest.items);
    free(words);
    return 0;
}
