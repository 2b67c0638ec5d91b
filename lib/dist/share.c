/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/share.h"

enum {
    SLOWEST = 4, /* a rank slower by this factor than the rest still ends with them */
    FEWEST = 16  /* ranges a rank, where there is enough: what is at hand is not yet "done" */
};

bool tmk_work_equal(const struct tmk_work *a, const struct tmk_work *b) {
    return a->batches == b->batches && a->end == b->end && a->data == b->data;
}

struct tmk_share tmk_share_of(uint64_t batches, const struct tmk_batches *done, uint32_t n_done,
                              uint32_t ranks) {
    struct tmk_share share = {.end = batches, .ranks = ranks, .done = done, .n_done = n_done};
    share.left = batches;
    for (uint32_t i = 0; i < n_done; i++)
        share.left -= done[i].end - done[i].begin;
    share.all = share.left;
    return share;
}

bool tmk_share_next(struct tmk_share *share, uint64_t *begin, uint64_t *end) {
    uint64_t take = share->left / share->ranks / SLOWEST, most = share->all / share->ranks / FEWEST;
    for (; share->n_done && share->done->begin <= share->at; share->n_done--, share->done++)
        share->at = share->done->end;
    uint64_t until = share->n_done ? share->done->begin : share->end;
    if (share->at == share->end)
        return false;
    take = take < most ? take : most;
    take = take ? take : 1;
    *begin = share->at;
    share->at = until - share->at < take ? until : share->at + take;
    *end = share->at;
    share->left -= *end - *begin;
    return true;
}
