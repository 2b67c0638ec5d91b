/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idset.h"

#include <stdlib.h>

enum { BITS = 6, MASK = 63 };

bool tmk_idset_init(struct tmk_idset *set, uint32_t n) {
    *set = (struct tmk_idset){0};
    do {
        n = n / 64 + (n % 64 != 0 || n == 0);
        uint64_t *words = calloc(n, sizeof *words);
        if (!words)
            return false;
        set->words[set->n_levels] = n;
        set->levels[set->n_levels++] = words;
    } while (n > 1);
    return true;
}

void tmk_idset_finish(struct tmk_idset *set) {
    for (int i = 0; i < set->n_levels; i++)
        free(set->levels[i]);
    *set = (struct tmk_idset){0};
}

void tmk_idset_add(struct tmk_idset *set, uint32_t id) {
    for (int i = 0; i < set->n_levels; i++, id >>= BITS)
        set->levels[i][id >> BITS] |= UINT64_C(1) << (id & MASK);
}

void tmk_idset_remove(struct tmk_idset *set, uint32_t id) {
    for (int i = 0; i < set->n_levels; i++, id >>= BITS) {
        set->levels[i][id >> BITS] &= ~(UINT64_C(1) << (id & MASK));
        if (set->levels[i][id >> BITS])
            return;
    }
}

uint32_t tmk_idset_up(const struct tmk_idset *set, uint32_t from) {
    uint32_t at = from;
    for (int i = 0; i < set->n_levels && at >> BITS < set->words[i]; i++) {
        uint64_t rest = set->levels[i][at >> BITS] & (~UINT64_C(0) << (at & MASK));
        if (!rest) {
            at = (at >> BITS) + 1;
            continue;
        }
        at = (at & ~(uint32_t)MASK) | (uint32_t)__builtin_ctzll(rest);
        while (i-- > 0)
            at = at << BITS | (uint32_t)__builtin_ctzll(set->levels[i][at]);
        return at;
    }
    return TMK_NO_ID;
}

uint32_t tmk_idset_down(const struct tmk_idset *set, uint32_t from) {
    uint32_t at = from;
    for (int i = 0; i < set->n_levels; i++) {
        uint64_t rest = set->levels[i][at >> BITS] & (~UINT64_C(0) >> (MASK - (at & MASK)));
        if (rest) {
            at = (at & ~(uint32_t)MASK) | (MASK - (uint32_t)__builtin_clzll(rest));
            while (i-- > 0)
                at = at << BITS | (MASK - (uint32_t)__builtin_clzll(set->levels[i][at]));
            return at;
        }
        if (!(at >> BITS))
            return TMK_NO_ID;
        at = (at >> BITS) - 1;
    }
    return TMK_NO_ID;
}
