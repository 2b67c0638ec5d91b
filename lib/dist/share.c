/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/share.h"

enum {
    SLOWEST = 4, /* a rank slower by this factor than the rest still ends with them */
    FEWEST = 16  /* ranges a rank, where there is enough: what is at hand is not yet "done" */
};

bool tmk_work_equal(const struct tmk_work *a, const struct tmk_work *b) {
    return a->batches == b->batches && a->end == b->end;
}

struct tmk_share tmk_share_of(uint64_t batches, uint32_t ranks) {
    return (struct tmk_share){0, batches, ranks};
}

bool tmk_share_next(struct tmk_share *share, uint64_t *begin, uint64_t *end) {
    uint64_t take = (share->batches - share->at) / share->ranks / SLOWEST,
             most = share->batches / share->ranks / FEWEST;
    if (share->at == share->batches)
        return false;
    take = take < most ? take : most;
    *begin = share->at;
    share->at += take ? take : 1;
    *end = share->at;
    return true;
}
