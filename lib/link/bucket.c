/* SPDX-License-Identifier: Apache-2.0 */
#include "link/bucket.h"

#include <stdlib.h>

#include "base/diag.h"

static int by_key(const void *a, const void *b) {
    const struct tmk_link_entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static void put_value(struct tmk_link_buckets *s, uint64_t key, uint32_t value) {
    s->all[s->n++] = (struct tmk_link_entry){key, value};
}

static void add_entry(struct tmk_link_buckets *s, const struct tmk_profile_tensor *v,
                      enum tmk_link_rule rule, const uint64_t *makers) {
    uint64_t sum = 0;
    if (rule == TMK_LINK_BY_NAME && tmk_link_is_name(v->name))
        put_value(s, tmk_link_name_key(v), v->id);
    if (rule == TMK_LINK_BY_NAME || !v->has_producer || !v->n_operands)
        return;
    for (uint32_t k = 0; k < v->n_operands; k++) {
        uint64_t key = tmk_link_operand_key(makers[v->id], k, v->operands[k]);
        sum += key;
        if (rule == TMK_LINK_BY_WEIGHTS)
            put_value(s, key, v->id);
    }
    if (rule == TMK_LINK_BY_OPERANDS)
        put_value(s, sum, v->id);
}

enum tmk_status tmk_link_buckets_init(struct tmk_link_buckets *s, const struct tmk_linking *l,
                                      enum tmk_link_rule rule, const uint64_t *makers) {
    size_t capacity = 1;
    *s = (struct tmk_link_buckets){0};
    for (uint32_t v = 0; v < l->to->n_tensors; v++)
        capacity += rule == TMK_LINK_BY_WEIGHTS ? l->to->tensors[v].n_operands : 1;
    if (capacity > UINT32_MAX || !(s->all = malloc(capacity * sizeof *s->all)))
        return tmk_nomem(l->diag);
    for (uint32_t v = 0; v < l->to->n_tensors; v++)
        if (l->original_of[v] == TMK_UNLINKED)
            add_entry(s, &l->to->tensors[v], rule, makers);
    qsort(s->all, s->n, sizeof *s->all, by_key);
    return TMK_OK;
}

void tmk_link_buckets_finish(struct tmk_link_buckets *s) {
    free(s->all);
    *s = (struct tmk_link_buckets){0};
}

/* The first entry that is not before (key, value). */
static uint32_t lower_bound(const struct tmk_link_buckets *s, uint64_t key, uint32_t value) {
    const struct tmk_link_entry what = {key, value};
    uint32_t min = 0, most = s->n;
    while (min < most) {
        uint32_t middle = min + (most - min) / 2;
        if (by_key(&s->all[middle], &what) < 0)
            min = middle + 1;
        else
            most = middle;
    }
    return min;
}

uint32_t tmk_link_bucket(const struct tmk_link_buckets *s, uint64_t key, uint32_t *begin) {
    *begin = lower_bound(s, key, 0);
    return lower_bound(s, key, UINT32_MAX) - *begin;
}
