/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting work into ranges for the next rank that requests one: large ones first, then smaller and
 * smaller, so that ranks of unequal speed end together with few requests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A run as far as its sharing out goes. */
struct tmk_work {
    uint64_t batches;
    /* only compared, since two runs that differ must be distinguished: */
    uint64_t end;  /* of its samples */
    uint64_t data; /* what can be told of them at once */
};
bool tmk_work_equal(const struct tmk_work *a, const struct tmk_work *b);

/* Batches [begin, end). */
struct tmk_batches {
    uint64_t begin, end;
};

struct tmk_share {
    uint64_t at, end; /* those before `at` were assigned, or were done */
    uint64_t left, all;
    uint32_t ranks, n_done;
    const struct tmk_batches *done; /* that are still ahead */
};

/* Of the batches [0, batches), without those that are done: ascending, apart, and borrowed. */
struct tmk_share tmk_share_of(uint64_t batches, const struct tmk_batches *done, uint32_t n_done,
                              uint32_t ranks);
/* The next batches, [*begin, *end). Ranges ascend, and leave out only what was done. False when
 * there is nothing left. */
bool tmk_share_next(struct tmk_share *share, uint64_t *begin, uint64_t *end);
