/* SPDX-License-Identifier: Apache-2.0 */
/* check --against a consumer's file of ranges. */
#ifndef TMK_TOOLS_CHECK_FILE_H
#define TMK_TOOLS_CHECK_FILE_H

#include <stdbool.h>

#include <tidemark/profile.h>
#include <tidemark/ranges.h>

/* What a profile has for a file's names. */
struct held_file {
    const struct tmk_profile *profile;
    const struct tmk_ranges *ranges;
    struct tmk_range_coverage *coverage; /* [ranges->n], owned */
    bool *named;                         /* by the profile's value, owned: the file names it */
};

/* All that can fail; prints nothing. lineage NULL: names only. End with release_file, after a
 * failure too. */
TMK_NODISCARD enum tmk_status hold_file(const struct tmk_profile *profile,
                                        const struct tmk_ranges *ranges,
                                        const struct tmk_lineage_record *lineage,
                                        struct held_file *out, struct tmk_diag *diag);
void release_file(struct held_file *held);

/* Prints which of the file's names the profile has, how far the ranges agree, and what the consumer
 * does about the rest. Returns the share that it can. With json, a member ",\"against\":" of an
 * object. */
double print_file(const struct held_file *held, bool json);

#endif
