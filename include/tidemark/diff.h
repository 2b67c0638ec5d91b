/* SPDX-License-Identifier: Apache-2.0 */
/* What moved between two profiles, or between a profile and a consumer's file.
 *
 * Thread-safety: as of profiles. The items point into what was compared, which must stay. */
#ifndef TIDEMARK_DIFF_H
#define TIDEMARK_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/profile.h>
#include <tidemark/ranges.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A value that is in both. */
struct tmk_diff_item {
    const char *name;   /* as in a */
    int64_t id_a, id_b; /* profile IDs; -1: not a profile's */
    bool ranged;        /* both have a range; else only the rest is known */
    struct tmk_range_difference range;
    double distance;    /* of the histograms (tmk_stats_distance); -1: not both have one */
    const char *change; /* "became dead", "came alive", "NaN is new", "was never seen", ...; "" */
};

struct tmk_diff {
    struct tmk_diff_item *items; /* worst first: by the larger of range.share and distance */
    uint32_t n;
    const char **only_a, **only_b; /* names of values in one only */
    uint32_t n_only_a, n_only_b;
    uint32_t integers; /* values in both that are not float in either: not compared */
};

/* Values are the same by fingerprint and ordinal (weights of different graphs: by contents),
 * else by name. */
TMK_API enum tmk_status tmk_diff_profiles(const struct tmk_profile *a, const struct tmk_profile *b,
                                          struct tmk_diff **out, struct tmk_diag *diag);
/* By name. TMK_SHAPE as of tmk_range_compare. */
TMK_API enum tmk_status tmk_diff_ranges(const struct tmk_ranges *a, const struct tmk_ranges *b,
                                        struct tmk_diff **out, struct tmk_diag *diag);
/* Of a profile and a consumer's entries, which may be of nodes' inputs. */
TMK_API enum tmk_status tmk_diff_coverage(const struct tmk_profile *a, const struct tmk_ranges *b,
                                          struct tmk_diff **out, struct tmk_diag *diag);
/* Frees and sets *diff to NULL; NULL is allowed. */
TMK_API void tmk_diff_destroy(struct tmk_diff **diff);

#ifdef __cplusplus
}
#endif
#endif
