/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting work into ranges for whoever asks next: large ones first, then smaller and smaller, so
 * that ranks of unequal speed end together, and nobody asks often. */
#ifndef TMK_DIST_SHARE_H
#define TMK_DIST_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* A run as far as its sharing out goes. */
struct tmk_work {
    uint64_t batches;
    uint64_t end; /* of its samples; only compared: two runs that differ should be told apart */
};
bool tmk_work_equal(const struct tmk_work *a, const struct tmk_work *b);

struct tmk_share {
    uint64_t at, batches; /* those before `at` have been handed out */
    uint32_t ranks;
};

struct tmk_share tmk_share_of(uint64_t batches, uint32_t ranks);
/* The next batches, [*begin, *end). Ranges follow one another without gaps. False when there is
 * nothing left. */
bool tmk_share_next(struct tmk_share *share, uint64_t *begin, uint64_t *end);

#endif
