/* SPDX-License-Identifier: Apache-2.0 */
/* A set of numbers below n that is walked in order while it changes. Not thread-safe. */
#ifndef TMK_BASE_IDSET_H
#define TMK_BASE_IDSET_H

#include <stdbool.h>
#include <stdint.h>

#define TMK_NO_ID UINT32_MAX

enum { TMK_IDSET_LEVELS = 6 }; /* of 64 each: more than 32 bits */

struct tmk_idset {
    uint64_t *levels[TMK_IDSET_LEVELS]; /* bit i: is i in? A level up: is any bit of word i set? */
    uint32_t words[TMK_IDSET_LEVELS];
    int n_levels;
};

/* Empty. False when memory ran out; end with tmk_idset_finish in any case. */
bool tmk_idset_init(struct tmk_idset *set, uint32_t n);
void tmk_idset_finish(struct tmk_idset *set);

void tmk_idset_add(struct tmk_idset *set, uint32_t id);
void tmk_idset_remove(struct tmk_idset *set, uint32_t id);
/* The smallest that is at least `from`; TMK_NO_ID: none. */
uint32_t tmk_idset_up(const struct tmk_idset *set, uint32_t from);
/* The largest that is at most `from`, which is below n; TMK_NO_ID: none. */
uint32_t tmk_idset_down(const struct tmk_idset *set, uint32_t from);

#endif
