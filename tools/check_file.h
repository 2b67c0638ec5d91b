/* SPDX-License-Identifier: Apache-2.0 */
/* check --against a consumer's file of ranges. */
#ifndef TMK_TOOLS_CHECK_FILE_H
#define TMK_TOOLS_CHECK_FILE_H

#include <stdbool.h>

#include <tidemark/profile.h>
#include <tidemark/ranges.h>

struct check_file_args {
    const struct tmk_ranges *ranges;
    const char *lineage; /* NULL: names only */
    bool json;
};

/* Says which of the file's names the profile can supply, how far the ranges agree, and what the
 * consumer does about the rest. *covered: the share that it can. With json, a member
 * ",\"against\":" of an object. */
TMK_NODISCARD enum tmk_status check_file_of_ranges(const struct tmk_profile *profile,
                                                   const struct check_file_args *args,
                                                   double *covered, struct tmk_diag *diag);

#endif
