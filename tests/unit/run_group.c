/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a module's unit tests: runs one group.
 *
 *     test_MODULE GROUP
 *
 * TEST_GROUPS is X(GROUP) for each; the build defines it. */
#include <stdio.h>
#include <string.h>

#include "test.h"

#define X(name) int group_##name(void);
TEST_GROUPS
#undef X

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } groups[] = {
#define X(name) {#name, group_##name},
        TEST_GROUPS
#undef X
    };
    const size_t n = sizeof groups / sizeof *groups;
    for (size_t i = 0; argc == 2 && i < n; i++)
        if (strcmp(groups[i].name, argv[1]) == 0)
            return groups[i].run();
    fprintf(stderr, "usage: %s GROUP\n", argv[0]);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "  %s\n", groups[i].name);
    return 2;
}
