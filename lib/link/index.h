/* SPDX-License-Identifier: Apache-2.0 */
/* Which values may be matched next by the rules behind an edit. An original is looked at again only
 * when something has happened that may have changed the answer, and what it is looked up in holds
 * little but values that are like it: all together that takes about as long as reading both
 * profiles.
 *
 * Originals that the same values are like seek together, as one seeker. It keeps the first two
 * values that are free and like them, in order; a second one, or a second original, and nothing is
 * the only one. */
#pragma once

#include "base/map.h"
#include "link/structure.h"

/* Values sorted by the keys of a rule, so that an original meets only those that may be like it. */
struct tmk_link_entry {
    uint64_t key;
    uint32_t value;
};

struct tmk_link_buckets {
    struct tmk_link_entry *all; /* by key, then value */
    uint32_t n;
};

/* Of free values; `makers` are keys of the values' makers, not for BY_NAME. TMK_NOMEM; end with
 * tmk_link_buckets_finish in any case. */
enum tmk_status tmk_link_buckets_init(struct tmk_link_buckets *s, const struct tmk_linking *l,
                                      enum tmk_link_rule rule, const uint64_t *makers);
void tmk_link_buckets_finish(struct tmk_link_buckets *s);
/* Where the bucket of a key begins, and how many lie there; 0: there is none. */
uint32_t tmk_link_bucket(const struct tmk_link_buckets *s, uint64_t key, uint32_t *begin);

struct tmk_link_readers {
    uint32_t *begin, *ids; /* those of value i: ids[begin[i]] to ids[begin[i + 1]] */
};

struct tmk_link_seeker {
    enum tmk_link_rule rule;
    uint32_t like;          /* the original that joined first, taken or not */
    uint32_t cursor, end;   /* the rest of the bucket */
    uint32_t first, second; /* TMK_UNLINKED: there is none */
    uint32_t n, sum;        /* originals; their IDs, exclusive or: the ID of a single one */
    uint32_t next;          /* at this bucket */
    /* One that the first value would do for, too; who waits for that to change. */
    uint32_t blocker, blocked, next_blocked;
    uint32_t listed; /* an original that all its candidates were listed for */
};

struct tmk_link_index {
    struct tmk_linking *l;
    struct tmk_link_readers originals, values;
    uint64_t *original_makers, *value_makers; /* keys; 0: no producer */
    struct tmk_link_buckets buckets[TMK_LINK_RULES];
    uint32_t *at[TMK_LINK_RULES];      /* [where a bucket begins]: its first seeker */
    uint32_t *of[TMK_LINK_RULES];      /* [original]: its seeker */
    uint32_t *missing[TMK_LINK_RULES]; /* [original]: operands that the rule needs; not BY_NAME */
    struct tmk_link_seeker *seekers;
    uint32_t n_seekers;
    struct tmk_idset pending[TMK_LINK_RULES]; /* originals to be looked at */
    struct tmk_idset matched;                 /* originals whose operands are to be looked at */
};

/* All that is free may be matched, and all that is matched have matched operands. From then on
 * nothing may be matched but by tmk_link_index_take. TMK_NOMEM; end with tmk_link_index_finish in
 * any case. */
enum tmk_status tmk_link_index_init(struct tmk_link_index *x, struct tmk_linking *l);
void tmk_link_index_finish(struct tmk_link_index *x);

/* Both are free. */
void tmk_link_index_take(struct tmk_link_index *x, uint32_t original, uint32_t value,
                         enum tmk_link_evidence evidence);
/* The only free value that is like a free original, which is the only free one that it is like;
 * TMK_UNLINKED: none. */
uint32_t tmk_link_index_find(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original);
/* Notes free values that are like an original by its operands, the first `most` of them. */
enum tmk_status tmk_link_index_list(struct tmk_link_index *x, uint32_t original, uint32_t most);
