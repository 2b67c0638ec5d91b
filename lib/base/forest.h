/* SPDX-License-Identifier: Apache-2.0 */
/* Disjoint sets of indices: each index has its parent, and a root, which stands for its set,
 * itself.
 */
#pragma once

#include <stdint.h>

/* Shortens the paths that it follows. */
static inline uint32_t tmk_forest_root(uint32_t *parent, uint32_t i) {
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* The lower root becomes that of both. */
static inline void tmk_forest_join(uint32_t *parent, uint32_t a, uint32_t b) {
    a = tmk_forest_root(parent, a);
    b = tmk_forest_root(parent, b);
    parent[a > b ? a : b] = a < b ? a : b;
}
