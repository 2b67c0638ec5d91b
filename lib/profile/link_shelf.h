/* SPDX-License-Identifier: Apache-2.0 */
/* Values sorted by the keys of a rule, so that an original meets only those that may be like it. */
#ifndef TMK_PROFILE_LINK_SHELF_H
#define TMK_PROFILE_LINK_SHELF_H

#include "profile/link_like.h"

struct tmk_link_shelved {
    uint64_t key;
    uint32_t value;
};

struct tmk_link_shelves {
    struct tmk_link_shelved *all; /* by key, then value */
    uint32_t n;
};

/* Free values; `makers` are keys of the values' makers, not for BY_NAME. TMK_NOMEM; end with
 * tmk_link_shelves_finish in any case. */
TMK_NODISCARD enum tmk_status tmk_link_shelves_init(struct tmk_link_shelves *s,
                                                    const struct tmk_linking *l,
                                                    enum tmk_link_rule rule,
                                                    const uint64_t *makers);
void tmk_link_shelves_finish(struct tmk_link_shelves *s);
/* Where the shelf of a key begins, and how many lie there; 0: there is none. */
uint32_t tmk_link_shelf(const struct tmk_link_shelves *s, uint64_t key, uint32_t *begin);

#endif
