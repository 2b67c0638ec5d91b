/* SPDX-License-Identifier: Apache-2.0 */
/* --target, which several commands have. */
#pragma once

#include <stdbool.h>

#include <tidemark/target.h>

#define TARGET_OPTION_ROW(target)                                                                  \
    {                                                                                              \
        "target", 0, OPTION_TEXT, "NAME",                                                          \
            "what will run it: a name that `--target help` lists, or a table of your own, "        \
            "FILE.json",                                                                           \
            &(target)                                                                              \
    }

/* --target help */
bool wants_targets(const char *name);
/* Prints the built-in targets; the exit status. */
int list_targets(void);
/* name NULL: none. */
enum tmk_status open_target(const char *name, struct tmk_target **out, struct tmk_diag *diag);
