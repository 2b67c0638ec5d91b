/* SPDX-License-Identifier: Apache-2.0 */
/* Links between small random profiles full of ties, held against the rules as they are said: every
 * value is tried for every original, until there is nothing more to find. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/link.h>

#include "base/map.h"
#include "link/structure.h"

/* ---- random profiles ---- */

enum { MOST = 40, OPERANDS = 3 };

static uint32_t state_of_chance;

static uint32_t below(uint32_t n) {
    state_of_chance = state_of_chance * 1664525u + 1013904223u;
    return (state_of_chance >> 8) % n;
}

static bool once_in(uint32_t n) {
    return below(n) == 0;
}

struct value {
    uint32_t op, n, operands[OPERANDS], name;
    bool weight, body, open;
    uint64_t fingerprint, content;
};

static uint64_t mixed(uint64_t a, uint64_t b) {
    a = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (a ^ a >> 31) | 1;
}

/* Few operators, operands, names and weights, so that much is alike. */
static struct value any_value(uint32_t id) {
    struct value v = {.op = below(2), .name = once_in(4) ? below(3) : id, .body = once_in(12)};
    v.weight = id && once_in(3);
    v.open = once_in(6);
    for (uint32_t k = 0; id && !v.weight && k < 1 + below(OPERANDS); k++)
        v.operands[v.n++] = once_in(3) ? below(id < 4 ? id : 4) : below(id + once_in(8));
    return v;
}

static void put_fingerprints(struct value *all, uint32_t n, uint32_t weights) {
    for (uint32_t i = 0; i < n; i++) {
        struct value *v = &all[i];
        v->fingerprint = v->weight ? 1 : v->n ? 3 + 2 * v->op : 99;
        v->content = v->weight ? mixed(1, weights ? weights + i : below(4)) : v->fingerprint;
        for (uint32_t k = 0; k < v->n; k++) {
            v->fingerprint = mixed(v->fingerprint, all[v->operands[k]].fingerprint);
            v->content = mixed(v->content, all[v->operands[k]].content);
        }
    }
}

/* What an edit leaves of them: some are gone, some are twice, or by another operator. */
static uint32_t edited(const struct value *from, uint32_t n, struct value *out) {
    uint32_t now[MOST], used = 0;
    for (uint32_t i = 0; i < n && used < MOST - 2; i++) {
        struct value v = from[i];
        for (uint32_t k = 0; k < v.n; k++)
            v.operands[k] = v.operands[k] < i ? now[v.operands[k]] : used;
        now[i] = i && once_in(10) ? below(used) : used;
        v.op ^= once_in(12);
        v.name = once_in(8) ? below(3) : v.name;
        v.open = v.open || once_in(12);
        if (now[i] == used)
            out[used++] = v;
        if (once_in(10))
            out[used++] = v;
    }
    return used;
}

static struct tmk_profile *profile_of(const struct value *all, uint32_t n, uint64_t model) {
    static const char *const ops[] = {"Add", "Mul"};
    struct tmk_profile *profile = NULL;
    must(tmk_profile_create(&profile, DIAG));
    profile->model.file = profile->model.sha256 = profile->producer.version = "";
    profile->model.fingerprint = model;
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_profile_tensor *t = NULL;
        const char name[] = {'v', (char)('0' + all[i].name / 10), (char)('0' + all[i].name % 10),
                             0};
        must(tmk_profile_add_tensor(profile, i, &t, DIAG));
        t->name = tmk_profile_text(profile, name);
        t->path = all[i].body ? "body" : "";
        t->kind = all[i].weight ? TMK_PROFILE_WEIGHT : TMK_PROFILE_ACTIVATION;
        t->dtype = t->origin = TMK_FLOAT32;
        t->has_shape = true;
        t->shape = (struct tmk_shape){1, {all[i].open ? -1 : all[i].weight ? 16 : 4}};
        t->fingerprint = all[i].fingerprint;
        t->content = all[i].content;
        t->has_producer = all[i].n > 0;
        t->producer = (struct tmk_profile_producer){"", ops[all[i].op], "", 0};
        for (uint32_t k = 0; k < all[i].n; k++)
            must(tmk_profile_add_operand(t, all[i].operands[k], DIAG));
    }
    return profile;
}

/* ---- the rules as they are said ---- */

static uint32_t count_alike(const struct tmk_profile *p, uint64_t fingerprint, uint32_t before) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < before; i++)
        n += p->tensors[i].fingerprint == fingerprint;
    return n;
}

/* A value of as many alike on either side; the only one, or the one in the same place. */
static bool say_structure(struct tmk_linking *l, bool alone) {
    bool progress = false;
    for (uint32_t o = 0; o < l->from->n_tensors; o++)
        for (uint32_t v = 0; v < l->to->n_tensors; v++) {
            uint64_t f = l->from->tensors[o].fingerprint;
            uint32_t n = count_alike(l->from, f, l->from->n_tensors);
            if (!tmk_link_is_free(l, o, v) || l->to->tensors[v].fingerprint != f ||
                n != count_alike(l->to, f, l->to->n_tensors) ||
                (alone && (n != 1 || l->from->tensors[o].kind == TMK_PROFILE_WEIGHT)) ||
                count_alike(l->from, f, o) != count_alike(l->to, f, v))
                continue;
            tmk_linking_match(l, o, v, TMK_LINK_STRUCTURE);
            progress = true;
        }
    return progress;
}

static bool say_operands(struct tmk_linking *l) {
    bool progress = false;
    for (uint32_t i = l->from->n_tensors; i-- > 0;) {
        if (l->value_of[i] == TMK_UNLINKED)
            continue;
        const struct tmk_profile_tensor *o = &l->from->tensors[i],
                                        *v = &l->to->tensors[l->value_of[i]];
        for (uint32_t k = 0; o->fingerprint == v->fingerprint && k < o->n_operands; k++)
            if (o->n_operands == v->n_operands &&
                tmk_link_is_free(l, o->operands[k], v->operands[k]) &&
                l->from->tensors[o->operands[k]].fingerprint ==
                    l->to->tensors[v->operands[k]].fingerprint) {
                tmk_linking_match(l, o->operands[k], v->operands[k], TMK_LINK_STRUCTURE);
                progress = true;
            }
    }
    return progress;
}

static bool say_like(struct tmk_linking *l, enum tmk_link_rule rule,
                     enum tmk_link_evidence evidence) {
    bool progress = false;
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        uint32_t found = 0, value = 0, rivals = 0;
        for (uint32_t v = 0; v < l->to->n_tensors; v++)
            if (tmk_link_is_free(l, o, v) && tmk_link_is_like(l, rule, o, v)) {
                found++;
                value = v;
            }
        for (uint32_t other = 0; found == 1 && other < l->from->n_tensors; other++)
            rivals += tmk_link_is_free(l, other, value) && tmk_link_is_like(l, rule, other, value);
        if (rivals == 1) {
            tmk_linking_match(l, o, value, evidence);
            progress = true;
        }
    }
    return progress;
}

static void say_candidates(struct tmk_linking *l) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        struct tmk_link_match *match = &l->link->matches[o];
        for (int turn = 0; turn < 2 && !match->n_candidates; turn++)
            for (uint32_t v = 0; v < l->to->n_tensors && match->n_candidates < 16; v++)
                if (tmk_link_is_free(l, o, v) &&
                    (turn ? tmk_link_is_like(l, TMK_LINK_BY_OPERANDS, o, v)
                          : l->from->tensors[o].fingerprint == l->to->tensors[v].fingerprint))
                    assert_int_equal(tmk_linking_add_candidate(l, o, v), TMK_OK);
        match->ambiguous = match->n_candidates > 0;
    }
}

static struct tmk_link *as_said(const struct tmk_profile *from, const struct tmk_profile *to) {
    struct tmk_diag diag = {0};
    struct tmk_linking l;
    struct tmk_link *link = NULL;
    assert_ok(tmk_linking_init(&l, "fingerprint", from, to, &diag), &diag);
    assert_ok(tmk_linking_content(&l, NULL), &diag);
    bool same = from->model.fingerprint == to->model.fingerprint;
    while (say_structure(&l, true) || say_operands(&l) ||
           say_like(&l, TMK_LINK_BY_OPERANDS, TMK_LINK_OPERANDS) ||
           say_like(&l, TMK_LINK_BY_WEIGHTS, TMK_LINK_WEIGHTS) ||
           say_like(&l, TMK_LINK_BY_NAME, TMK_LINK_NAME) || (same && say_structure(&l, false))) {
    }
    say_candidates(&l);
    assert_ok(tmk_linking_leave_out(&l), &diag);
    assert_ok(tmk_linking_end(&l, "link:fingerprint", &link), &diag);
    tmk_linking_finish(&l);
    return link;
}

/* ---- tests ---- */

static void hold_against(const struct tmk_link *got, const struct tmk_link *want, uint32_t seed) {
    for (uint32_t i = 0; i < want->record->n_originals; i++) {
        const struct tmk_lineage_original *a = &got->record->originals[i],
                                          *b = &want->record->originals[i];
        const struct tmk_link_match *x = &got->matches[i], *y = &want->matches[i];
        if (a->value != b->value || a->verdict != b->verdict || x->evidence != y->evidence ||
            x->ambiguous != y->ambiguous || x->n_candidates != y->n_candidates ||
            (x->n_candidates &&
             memcmp(x->candidates, y->candidates, x->n_candidates * sizeof *x->candidates) != 0))
            fail_msg("pair %u, p%u: p%lld by %s, not p%lld by %s", seed, i, (long long)a->value,
                     tmk_link_evidence_name(x->evidence), (long long)b->value,
                     tmk_link_evidence_name(y->evidence));
    }
}

TEST(ties_are_decided_as_the_rules_say) {
    uint32_t by[TMK_LINK_EVIDENCES] = {0}, ambiguous = 0;
    for (uint32_t seed = 1; seed <= 3000; seed++) {
        struct value a[MOST], b[MOST];
        struct tmk_link *got = NULL;
        struct tmk_link_counts counts;
        state_of_chance = seed;
        uint32_t n = 1 + below(MOST);
        for (uint32_t i = 0; i < n; i++)
            a[i] = any_value(i);
        uint32_t m = edited(a, n, b);
        put_fingerprints(a, n, once_in(2) ? 100 : 0);
        put_fingerprints(b, m, once_in(2) ? 100 : 0);
        struct tmk_profile *from = profile_of(a, n, 1), *to = profile_of(b, m, 1 + once_in(2));
        must(tmk_link_by_fingerprint(from, to, &got, DIAG));
        struct tmk_link *want = as_said(from, to);
        hold_against(got, want, seed);
        tmk_link_count(got, &counts);
        for (int i = 0; i < TMK_LINK_EVIDENCES; i++)
            by[i] += i <= TMK_LINK_CONTENT ? counts.by[i] : 0;
        for (uint32_t i = 0; i < n; i++)
            by[got->matches[i].evidence] += got->matches[i].left_out;
        ambiguous += counts.ambiguous;
        tmk_link_destroy(&got);
        tmk_link_destroy(&want);
        tmk_profile_destroy(&from);
        tmk_profile_destroy(&to);
    }
    /* every rule was used */
    assert_true(by[TMK_LINK_NONE] && by[TMK_LINK_CONTENT] && by[TMK_LINK_STRUCTURE] &&
                by[TMK_LINK_OPERANDS] && by[TMK_LINK_WEIGHTS] && by[TMK_LINK_NAME] && ambiguous);
}

TEST(a_set_is_walked_in_order_while_it_changes) {
    static const uint32_t sizes[] = {1, 64, 65, 4096, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t n = sizes[s];
        bool *in = calloc(n, sizeof *in);
        struct tmk_idset set;
        assert_non_null(in);
        assert_true(tmk_idset_init(&set, n));
        state_of_chance = n;
        for (int i = 0; i < 2000; i++) {
            uint32_t id = below(n);
            in[id] = once_in(2);
            (in[id] ? tmk_idset_add : tmk_idset_remove)(&set, id);
            uint32_t up = id = below(n), down = id;
            while (up < n && !in[up])
                up++;
            while (down != TMK_NO_ID && !in[down])
                down--; /* below 0 is none */
            assert_int_equal(tmk_idset_up(&set, id), up < n ? up : TMK_NO_ID);
            assert_int_equal(tmk_idset_down(&set, id), down);
        }
        assert_int_equal(tmk_idset_up(&set, n), TMK_NO_ID);
        tmk_idset_finish(&set);
        free(in);
    }
}
