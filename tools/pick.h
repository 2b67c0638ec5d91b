/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of a profile are shown, and in which order: --filter and --sort. */
#pragma once

#include <tidemark/profile.h>

#include "command.h"

/* One condition on a value: KEY=GLOB, KEY!=GLOB, KEY<NUMBER or KEY>NUMBER. */
struct condition {
    const struct pick_key *key;
    char sign;        /* '=', '!', '<', '>' */
    const char *glob; /* the command line's */
    double number;
};

struct filter {
    struct condition *conditions;
    size_t n;
    bool only_names; /* no condition uses anything else */
};

/* Reads conditions, all of which must hold. TMK_ARGUMENT with a message; TMK_NOMEM. End with
 * filter_finish, also after a failure. */
enum tmk_status filter_init(struct filter *filter, const struct words *texts,
                            struct tmk_diag *diag);
void filter_finish(struct filter *filter);
/* tensor: NULL where only the name is known, and only_names. A number that a value does not have is
 * neither greater nor less. */
bool filter_passes(const struct filter *filter, const char *name,
                   const struct tmk_profile_tensor *tensor);

/* Sorts positions in profile->tensors: texts and IDs ascend, numbers descend (but for min), values
 * that have none are last, and equal ones stay in order of ID. TMK_ARGUMENT: no such key;
 * TMK_NOMEM. */
enum tmk_status sort_values(const char *key, const struct tmk_profile *profile, uint32_t *chosen,
                            uint32_t n, struct tmk_diag *diag);

/* For help texts: what filters can be. */
#define FILTER_OPTION_ROW(target)                                                                  \
    {                                                                                              \
        "filter", 0, OPTION_TEXTS, "EXPR",                                                         \
            "only values with KEY=GLOB, KEY!=GLOB, KEY<NUMBER or KEY>NUMBER (keys: above); of "    \
            "several, all must hold",                                                              \
            &(target)                                                                              \
    }
#define FILTER_TEXT                                                                                \
    "Texts: name, kind, status, op\n"                                                              \
    "(the operator that makes the value), dtype, path;\n"                                          \
    "numbers: id, min, max, range (max - min), mean, std, zeros (a share, 0 to 1), count,\n"       \
    "nonfinite (elements), dead-channels, saturated (0 or 1)."
