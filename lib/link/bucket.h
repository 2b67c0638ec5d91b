/* SPDX-License-Identifier: Apache-2.0 */
/* Values sorted by the keys of a rule, so that an original meets only those that may be like it. */
#ifndef TMK_LINK_BUCKET_H
#define TMK_LINK_BUCKET_H

#include "link/rules.h"

struct tmk_link_entry {
    uint64_t key;
    uint32_t value;
};

struct tmk_link_buckets {
    struct tmk_link_entry *all; /* by key, then value */
    uint32_t n;
};

/* Free values; `makers` are keys of the values' makers, not for BY_NAME. TMK_NOMEM; end with
 * tmk_link_buckets_finish in any case. */
TMK_NODISCARD enum tmk_status tmk_link_buckets_init(struct tmk_link_buckets *s,
                                                    const struct tmk_linking *l,
                                                    enum tmk_link_rule rule,
                                                    const uint64_t *makers);
void tmk_link_buckets_finish(struct tmk_link_buckets *s);
/* Where the bucket of a key begins, and how many lie there; 0: there is none. */
uint32_t tmk_link_bucket(const struct tmk_link_buckets *s, uint64_t key, uint32_t *begin);

#endif
