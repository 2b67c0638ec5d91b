/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/internal.h"

/* The batch at `skip` may be a part of one; later ones are whole, but for the last. */
static uint64_t offered_before(const struct feed_choice *choice, uint64_t i) {
    uint64_t in_first = choice->batch - choice->skip % choice->batch, whole, sum;
    if (i == 0)
        return 0;
    if (__builtin_mul_overflow(i - 1, choice->batch, &whole) ||
        __builtin_add_overflow(in_first, whole, &sum))
        return UINT64_MAX;
    return sum;
}

bool tmk_feed_choice_batch(const struct feed_choice *choice, uint64_t i, uint64_t *from,
                           uint64_t *until) {
    uint64_t number, begin, before = offered_before(choice, i);
    if (before >= choice->limit || __builtin_mul_overflow(i, choice->every, &number) ||
        __builtin_add_overflow(number, choice->skip / choice->batch, &number) ||
        __builtin_mul_overflow(number, choice->batch, &begin))
        return false;
    uint64_t end = UINT64_MAX - begin < choice->batch ? UINT64_MAX : begin + choice->batch;
    if (begin < choice->skip)
        begin = choice->skip;
    if (end > choice->end)
        end = choice->end;
    if (begin >= end)
        return false;
    if (end - begin > choice->limit - before)
        end = begin + (choice->limit - before);
    *from = begin;
    *until = end;
    return true;
}

static void add_range(const struct feed_choice *choice, uint64_t i, struct feed_total *total) {
    uint64_t from, until;
    if (!tmk_feed_choice_batch(choice, i, &from, &until))
        return;
    total->samples += until - from;
    if (until - from == choice->batch)
        total->in_full_batches += choice->batch;
}

uint64_t tmk_feed_choice_batches(const struct feed_choice *choice) {
    uint64_t batches = 0, high = choice->end, from, until;
    while (batches < high) {
        uint64_t middle = batches + (high - batches) / 2;
        if (tmk_feed_choice_batch(choice, middle, &from, &until))
            batches = middle + 1;
        else
            high = middle;
    }
    return batches;
}

uint64_t tmk_feed_choice_from(const struct feed_choice *choice, uint64_t sample) {
    if (sample <= choice->skip)
        return 0;
    uint64_t number = sample / choice->batch + (sample % choice->batch != 0);
    uint64_t after = number - choice->skip / choice->batch;
    return after / choice->every + (after % choice->every != 0);
}

struct feed_total tmk_feed_choice_total(const struct feed_choice *choice) {
    struct feed_total total = {0};
    uint64_t batches = tmk_feed_choice_batches(choice);
    add_range(choice, 0, &total);
    if (batches > 1)
        add_range(choice, batches - 1, &total);
    if (batches > 2) { /* those between are whole */
        total.samples += (batches - 2) * choice->batch;
        total.in_full_batches += (batches - 2) * choice->batch;
    }
    return total;
}
