/* SPDX-License-Identifier: Apache-2.0 */
#include "link/index.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"

/* ---- buckets ---- */

static int by_key(const void *a, const void *b) {
    const struct tmk_link_entry *x = a, *y = b;
    return x->key != y->key ? TMK_ORDER(x->key, y->key) : TMK_ORDER(x->value, y->value);
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

/* ---- who is computed from whom ---- */

static bool init_readers(struct tmk_link_readers *r, const struct tmk_profile *profile) {
    size_t n = profile->n_tensors, edges = 0;
    for (size_t i = 0; i < n; i++)
        edges += profile->tensors[i].n_operands;
    r->begin = calloc(n + 2, sizeof *r->begin);
    r->ids = malloc((edges + 1) * sizeof *r->ids);
    if (!r->begin || !r->ids || edges > UINT32_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < profile->tensors[i].n_operands; k++)
            if (profile->tensors[i].operands[k] < n)
                r->begin[profile->tensors[i].operands[k] + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        r->begin[i] += r->begin[i - 1];
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < profile->tensors[i].n_operands; k++)
            if (profile->tensors[i].operands[k] < n)
                r->ids[r->begin[profile->tensors[i].operands[k] + 1]++] = (uint32_t)i;
    return true;
}

static void finish_readers(struct tmk_link_readers *r) {
    free(r->begin);
    free(r->ids);
}

/* ---- what a seeker finds ---- */

static bool is_like(const struct tmk_link_index *x, const struct tmk_link_seeker *s,
                    uint32_t value) {
    return tmk_link_is_like(x->l, s->rule, s->like, value);
}

static uint32_t next_value(const struct tmk_link_index *x, struct tmk_link_seeker *s) {
    while (s->cursor < s->end) {
        uint32_t value = x->buckets[s->rule].all[s->cursor++].value;
        if (x->l->original_of[value] == TMK_UNLINKED && is_like(x, s, value))
            return value;
    }
    return TMK_UNLINKED;
}

static void refill_seeker(const struct tmk_link_index *x, struct tmk_link_seeker *s) {
    if (s->first == TMK_UNLINKED) {
        s->first = s->second;
        s->second = TMK_UNLINKED;
    }
    if (s->first == TMK_UNLINKED)
        s->first = next_value(x, s);
    if (s->second == TMK_UNLINKED && s->first != TMK_UNLINKED)
        s->second = next_value(x, s);
}

static void look_again(struct tmk_link_index *x, const struct tmk_link_seeker *s) {
    if (s->n == 1 && s->first != TMK_UNLINKED && s->second == TMK_UNLINKED)
        tmk_idset_add(&x->pending[s->rule], s->sum);
}

static void unblock_seeker(struct tmk_link_index *x, struct tmk_link_seeker *s) {
    for (uint32_t i = s->blocked; i != TMK_UNLINKED; i = x->seekers[i].next_blocked) {
        x->seekers[i].blocker = TMK_UNLINKED;
        look_again(x, &x->seekers[i]);
    }
    s->blocked = TMK_UNLINKED;
}

/* A value was taken. */
static void drop_value(struct tmk_link_index *x, struct tmk_link_seeker *s, uint32_t value) {
    if (s->first != value && s->second != value)
        return;
    *(s->first == value ? &s->first : &s->second) = TMK_UNLINKED;
    refill_seeker(x, s);
    look_again(x, s);
}

/* Only a name is like less and less while operands are matched; where there is no other that
 * does not help. */
static void check_names(struct tmk_link_index *x, struct tmk_link_seeker *s) {
    if (s->second == TMK_UNLINKED && s->blocked == TMK_UNLINKED)
        return;
    if (s->first != TMK_UNLINKED && !is_like(x, s, s->first))
        s->first = TMK_UNLINKED;
    if (s->second != TMK_UNLINKED && !is_like(x, s, s->second))
        s->second = TMK_UNLINKED;
    refill_seeker(x, s);
    look_again(x, s);
    unblock_seeker(x, s);
}

/* ---- buckets of an original, and of a value ---- */

/* Sums up what it is made of, as matched. */
static uint64_t operands_key(const struct tmk_link_index *x, const struct tmk_profile_tensor *o) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < o->n_operands; k++)
        sum += tmk_link_operand_key(x->original_makers[o->id], k, x->l->value_of[o->operands[k]]);
    return sum;
}

static uint32_t bucket_of(const struct tmk_link_index *x, enum tmk_link_rule rule,
                          uint32_t original, uint32_t *begin) {
    const struct tmk_profile_tensor *o = &x->l->from->tensors[original];
    if (rule == TMK_LINK_BY_WEIGHTS) {
        /* The shortest bucket of all its weights. */
        uint32_t min = UINT32_MAX, at;
        for (uint32_t k = 0; k < o->n_operands; k++) {
            if (x->l->from->tensors[o->operands[k]].kind != TMK_PROFILE_WEIGHT)
                continue;
            uint64_t key =
                tmk_link_operand_key(x->original_makers[o->id], k, x->l->value_of[o->operands[k]]);
            uint32_t n = tmk_link_bucket(&x->buckets[TMK_LINK_BY_WEIGHTS], key, &at);
            if (n < min) {
                min = n;
                *begin = at;
            }
        }
        return min;
    }
    uint64_t key = rule == TMK_LINK_BY_NAME ? tmk_link_name_key(o) : operands_key(x, o);
    return tmk_link_bucket(&x->buckets[rule], key, begin);
}

/* Does it stop here? */
typedef bool (*visit)(struct tmk_link_index *x, struct tmk_link_seeker *s, uint32_t value);

static uint32_t visit_bucket(struct tmk_link_index *x, enum tmk_link_rule rule, uint64_t key,
                             uint32_t value, visit stops) {
    uint32_t begin;
    if (!tmk_link_bucket(&x->buckets[rule], key, &begin))
        return TMK_UNLINKED;
    uint32_t i = x->at[rule][begin];
    while (i != TMK_UNLINKED && !stops(x, &x->seekers[i], value))
        i = x->seekers[i].next;
    return i;
}

/* Those that may seek this value; TMK_UNLINKED: none stopped. */
static uint32_t visit_seekers(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t value,
                              visit stops) {
    const struct tmk_profile_tensor *v = &x->l->to->tensors[value];
    uint32_t found = TMK_UNLINKED;
    uint64_t sum = 0;
    if (rule == TMK_LINK_BY_NAME)
        return visit_bucket(x, rule, tmk_link_name_key(v), value, stops);
    for (uint32_t k = 0; k < v->n_operands && found == TMK_UNLINKED; k++) {
        uint64_t key = tmk_link_operand_key(x->value_makers[value], k, v->operands[k]);
        sum += key;
        if (rule == TMK_LINK_BY_WEIGHTS)
            found = visit_bucket(x, rule, key, value, stops);
    }
    return rule == TMK_LINK_BY_OPERANDS ? visit_bucket(x, rule, sum, value, stops) : found;
}

/* ---- originals that begin and end to seek ---- */

static uint32_t add_seeker(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original,
                           uint32_t begin, uint32_t n) {
    uint32_t id = x->n_seekers++;
    x->seekers[id] = (struct tmk_link_seeker){.rule = rule,
                                              .like = original,
                                              .cursor = begin,
                                              .end = begin + n,
                                              .first = TMK_UNLINKED,
                                              .second = TMK_UNLINKED,
                                              .next = x->at[rule][begin],
                                              .blocker = TMK_UNLINKED,
                                              .blocked = TMK_UNLINKED,
                                              .listed = TMK_UNLINKED};
    x->at[rule][begin] = id;
    refill_seeker(x, &x->seekers[id]);
    return id;
}

static void add_original(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original) {
    uint32_t begin = 0;
    const uint32_t n = bucket_of(x, rule, original, &begin);
    if (!n)
        return;
    uint32_t id = x->at[rule][begin];
    while (id != TMK_UNLINKED && (rule == TMK_LINK_BY_NAME ||
                                  !tmk_link_seek_alike(x->l, rule, x->seekers[id].like, original)))
        id = x->seekers[id].next;
    if (id == TMK_UNLINKED)
        id = add_seeker(x, rule, original, begin, n);
    x->of[rule][original] = id;
    x->seekers[id].n++;
    x->seekers[id].sum ^= original;
    look_again(x, &x->seekers[id]);
}

static void remove_original(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original) {
    uint32_t id = x->of[rule][original];
    if (id == TMK_UNLINKED)
        return;
    x->of[rule][original] = TMK_UNLINKED;
    x->seekers[id].n--;
    x->seekers[id].sum ^= original;
    look_again(x, &x->seekers[id]);
    if (!x->seekers[id].n)
        unblock_seeker(x, &x->seekers[id]);
}

/* Seeks by its operands, or weights, as soon as none is missing. */
static void join_complete(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original) {
    const struct tmk_profile_tensor *o = &x->l->from->tensors[original];
    if (x->l->value_of[original] == TMK_UNLINKED && !x->missing[rule][original] &&
        o->has_producer && o->n_operands &&
        (rule != TMK_LINK_BY_WEIGHTS || tmk_link_has_telling_weight(x->l, o)))
        add_original(x, rule, original);
}

/* ---- beginning and end ---- */

static uint64_t *maker_keys(const struct tmk_link_known *known, const struct tmk_profile *profile) {
    uint64_t *keys = calloc((size_t)profile->n_tensors + 1, sizeof *keys);
    for (uint32_t i = 0; keys && i < profile->n_tensors; i++)
        if (profile->tensors[i].has_producer)
            keys[i] = tmk_link_maker_key(known, &profile->tensors[i]);
    return keys;
}

static enum tmk_status allocate_index(struct tmk_link_index *x) {
    const struct tmk_linking *l = x->l;
    const struct tmk_link_known known = tmk_link_known(l);
    const size_t n = l->from->n_tensors;
    x->original_makers = maker_keys(&known, l->from);
    x->value_makers = maker_keys(&known, l->to);
    x->seekers = malloc((n * TMK_LINK_RULES + 1) * sizeof *x->seekers);
    TMK_TRY_ALLOC(init_readers(&x->originals, l->from) && init_readers(&x->values, l->to) &&
                      x->original_makers && x->value_makers && x->seekers &&
                      tmk_idset_init(&x->matched, l->from->n_tensors),
                  l->diag);
    for (int rule = 0; rule < TMK_LINK_RULES; rule++) {
        TMK_TRY(
            tmk_link_buckets_init(&x->buckets[rule], l, (enum tmk_link_rule)rule, x->value_makers));
        x->at[rule] = tmk_linking_none(x->buckets[rule].n);
        x->of[rule] = tmk_linking_none(l->from->n_tensors);
        x->missing[rule] = calloc(n + 1, sizeof *x->missing[rule]);
        TMK_TRY_ALLOC(x->at[rule] && x->of[rule] && x->missing[rule] &&
                          tmk_idset_init(&x->pending[rule], l->from->n_tensors),
                      l->diag);
    }
    return TMK_OK;
}

enum tmk_status tmk_link_index_init(struct tmk_link_index *x, struct tmk_linking *l) {
    *x = (struct tmk_link_index){.l = l};
    TMK_TRY(allocate_index(x));
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        const struct tmk_profile_tensor *t = &l->from->tensors[o];
        for (uint32_t k = 0; k < t->n_operands; k++) {
            uint32_t a = t->operands[k];
            bool known = a < x->l->from->n_tensors,
                 missing = !known || x->l->value_of[a] == TMK_UNLINKED;
            x->missing[TMK_LINK_BY_OPERANDS][t->id] += missing;
            x->missing[TMK_LINK_BY_WEIGHTS][t->id] +=
                missing && (!known || x->l->from->tensors[a].kind == TMK_PROFILE_WEIGHT);
        }
        if (l->value_of[o] != TMK_UNLINKED)
            tmk_idset_add(&x->matched, o);
        else if (tmk_link_is_name(l->from->tensors[o].name))
            add_original(x, TMK_LINK_BY_NAME, o);
        join_complete(x, TMK_LINK_BY_OPERANDS, o);
        join_complete(x, TMK_LINK_BY_WEIGHTS, o);
    }
    return TMK_OK;
}

void tmk_link_index_finish(struct tmk_link_index *x) {
    finish_readers(&x->originals);
    finish_readers(&x->values);
    free(x->original_makers);
    free(x->value_makers);
    free(x->seekers);
    tmk_idset_finish(&x->matched);
    for (int rule = 0; rule < TMK_LINK_RULES; rule++) {
        tmk_link_buckets_finish(&x->buckets[rule]);
        free(x->at[rule]);
        free(x->of[rule]);
        free(x->missing[rule]);
        tmk_idset_finish(&x->pending[rule]);
    }
    *x = (struct tmk_link_index){0};
}

/* ---- matching ---- */

static bool drop_and_continue(struct tmk_link_index *x, struct tmk_link_seeker *s, uint32_t value) {
    drop_value(x, s, value);
    return false;
}

static bool check_and_continue(struct tmk_link_index *x, struct tmk_link_seeker *s,
                               uint32_t value) {
    (void)value;
    check_names(x, s);
    return false;
}

static void update_reader(struct tmk_link_index *x, uint32_t reader, bool weight) {
    if (!--x->missing[TMK_LINK_BY_OPERANDS][reader])
        join_complete(x, TMK_LINK_BY_OPERANDS, reader);
    if (weight && !--x->missing[TMK_LINK_BY_WEIGHTS][reader])
        join_complete(x, TMK_LINK_BY_WEIGHTS, reader);
    uint32_t seeker = x->of[TMK_LINK_BY_NAME][reader];
    if (seeker != TMK_UNLINKED)
        check_names(x, &x->seekers[seeker]);
}

void tmk_link_index_take(struct tmk_link_index *x, uint32_t original, uint32_t value,
                         enum tmk_link_evidence evidence) {
    const struct tmk_link_readers *o = &x->originals, *v = &x->values;
    bool weight = x->l->from->tensors[original].kind == TMK_PROFILE_WEIGHT;
    tmk_linking_match(x->l, original, value, evidence);
    tmk_idset_add(&x->matched, original);
    for (int rule = 0; rule < TMK_LINK_RULES; rule++) {
        remove_original(x, (enum tmk_link_rule)rule, original);
        visit_seekers(x, (enum tmk_link_rule)rule, value, drop_and_continue);
    }
    for (uint32_t i = o->begin[original]; i < o->begin[original + 1]; i++)
        update_reader(x, o->ids[i], weight);
    for (uint32_t i = v->begin[value]; i < v->begin[value + 1]; i++)
        visit_seekers(x, TMK_LINK_BY_NAME, v->ids[i], check_and_continue);
}

static bool wants_value(struct tmk_link_index *x, struct tmk_link_seeker *s, uint32_t value) {
    return s->n && s->blocker != (uint32_t)(s - x->seekers) && is_like(x, s, value);
}

uint32_t tmk_link_index_find(struct tmk_link_index *x, enum tmk_link_rule rule, uint32_t original) {
    uint32_t id = x->of[rule][original];
    if (id == TMK_UNLINKED)
        return TMK_UNLINKED;
    struct tmk_link_seeker *s = &x->seekers[id];
    if (s->n != 1 || s->first == TMK_UNLINKED || s->second != TMK_UNLINKED ||
        s->blocker != TMK_UNLINKED || !is_like(x, s, s->first))
        return TMK_UNLINKED;
    s->blocker = id; /* it does not block itself */
    s->blocker = visit_seekers(x, rule, s->first, wants_value);
    if (s->blocker == TMK_UNLINKED)
        return s->first;
    s->next_blocked = x->seekers[s->blocker].blocked;
    x->seekers[s->blocker].blocked = id;
    return TMK_UNLINKED;
}

enum tmk_status tmk_link_index_list(struct tmk_link_index *x, uint32_t original, uint32_t most) {
    const struct tmk_link_match *match = &x->l->link->matches[original];
    uint32_t id = x->of[TMK_LINK_BY_OPERANDS][original];
    if (id == TMK_UNLINKED)
        return TMK_OK;
    struct tmk_link_seeker *s = &x->seekers[id];
    if (s->listed == TMK_UNLINKED) {
        s->listed = original;
        while (s->first != TMK_UNLINKED && match->n_candidates < most) {
            TMK_TRY(tmk_linking_add_candidate(x->l, original, s->first));
            s->first = TMK_UNLINKED;
            refill_seeker(x, s);
        }
        return TMK_OK;
    }
    const struct tmk_link_match *same = &x->l->link->matches[s->listed];
    for (uint32_t i = 0; i < same->n_candidates; i++)
        TMK_TRY(tmk_linking_add_candidate(x->l, original, same->candidates[i]));
    return TMK_OK;
}
