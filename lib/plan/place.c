/* SPDX-License-Identifier: Apache-2.0 */
/* The memory planner: greedy by size, as in Pisarchyk and Lee, "Efficient memory management for
 * deep neural net inference" (2020), section 5.2. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "plan/plan.h"

enum { ALIGN = TMK_PLAN_ALIGN };

static int larger_first(const void *a, const void *b) {
    const struct tmk_block *x = *(struct tmk_block *const *)a, *y = *(struct tmk_block *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x > y) - (x < y); /* the caller's order decides between equals */
}

static bool overlap_in_time(const struct tmk_block *a, const struct tmk_block *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is sorted by offset. The lowest place where the block fits between those alive with it.
 */
static bool lowest_gap(const struct tmk_block *block, struct tmk_block *const *placed, size_t n,
                       size_t bytes, size_t *offset) {
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (!overlap_in_time(block, placed[i]))
            continue;
        if (placed[i]->offset >= end && placed[i]->offset - end >= bytes)
            break;
        size_t after = placed[i]->offset + ((placed[i]->bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
        if (after > end)
            end = after;
    }
    *offset = end;
    return end <= SIZE_MAX / 2 - bytes;
}

static void insert_block(struct tmk_block **placed, size_t n, struct tmk_block *block) {
    size_t i = n;
    for (; i > 0 && placed[i - 1]->offset > block->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = block;
}

enum tmk_status tmk_place_blocks(struct tmk_block *blocks, size_t n, size_t *arena_bytes,
                                 struct tmk_diag *diag) {
    struct tmk_block **order = calloc(n + 1, sizeof(struct tmk_block *)),
                     **placed = calloc(n + 1, sizeof(struct tmk_block *));
    enum tmk_status status = order && placed ? TMK_OK : tmk_nomem(diag);
    size_t end = 0;
    if (status == TMK_OK) {
        for (size_t i = 0; i < n; i++)
            order[i] = &blocks[i];
        qsort(order, n, sizeof(struct tmk_block *), larger_first);
    }
    for (size_t i = 0; status == TMK_OK && i < n; i++) {
        size_t bytes;
        if (!tmk_add_size(order[i]->bytes, ALIGN - 1, &bytes) ||
            !lowest_gap(order[i], placed, i, bytes & ~(size_t)(ALIGN - 1), &order[i]->offset)) {
            status = tmk_fail(diag, TMK_RANGE, "the activations do not fit into memory");
            break;
        }
        bytes &= ~(size_t)(ALIGN - 1);
        insert_block(placed, i, order[i]);
        if (order[i]->offset + bytes > end)
            end = order[i]->offset + bytes;
    }
    free(order);
    free(placed);
    if (status == TMK_OK)
        *arena_bytes = end;
    return status;
}
