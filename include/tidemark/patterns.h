/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that 8 bits ruin, as a profile shows it: normalizations, activation functions,
 * attention, positions, spectra, box decoding, indices. tmk_calibrate leaves it float by default;
 * docs/calibrate.md lists the patterns. Recognised by operators and how they are connected, never
 * by names. Thread-safe. */
#ifndef TIDEMARK_PATTERNS_H
#define TIDEMARK_PATTERNS_H

#include <tidemark/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A node that belongs to a pattern. Texts live as long as the profile. */
struct tmk_pattern_node {
    const char *pattern; /* "layer-norm" */
    uint32_t occurrence; /* nodes of one occurrence have the same number, from 1 */
    const char *op;
    const char *node; /* its name; "": it has none */
    uint32_t id;      /* of its first result */
};

/* In the order of IDs; *out is the caller's, end it with free(). TMK_NOMEM. */
TMK_API enum tmk_status tmk_patterns_list(const struct tmk_profile *profile,
                                          struct tmk_pattern_node **out, size_t *n,
                                          struct tmk_diag *diag);

/* Name and help of the i-th pattern; false behind the last. */
TMK_API bool tmk_pattern_info(size_t i, const char **name, const char **help);

#ifdef __cplusplus
}
#endif
#endif
