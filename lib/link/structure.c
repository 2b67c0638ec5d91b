/* SPDX-License-Identifier: Apache-2.0 */
/* Matching without numbers: by fingerprints, and where an edit upstream changed these, by what a
 * value is made of. Every rule takes a pair only if nothing else on either side would do as well.
 */
#include "link/structure.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/size.h"
#include "link/index.h"

enum { TELLING_WEIGHT = 16 }; /* elements from which on equal weights are no coincidence */

/* ---- rules ---- */

bool tmk_link_is_free(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    return original < l->from->n_tensors && value < l->to->n_tensors &&
           l->value_of[original] == TMK_UNLINKED && l->original_of[value] == TMK_UNLINKED;
}

static bool same_maker(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    return tmk_linking_same_op(o, v) && !tmk_linking_shapes_differ(o, v) &&
           !*o->path == !*v->path && o->n_operands == v->n_operands;
}

static bool by_operands(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    if (!o->n_operands || !same_maker(l, original, value))
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (o->operands[k] >= l->from->n_tensors || l->value_of[o->operands[k]] == TMK_UNLINKED ||
            l->value_of[o->operands[k]] != v->operands[k])
            return false;
    return true;
}

static bool is_telling(const struct tmk_profile_tensor *weight) {
    size_t n;
    return weight->has_shape && tmk_shape_count(&weight->shape, &n) && n >= TELLING_WEIGHT;
}

bool tmk_link_has_telling_weight(const struct tmk_linking *l, const struct tmk_profile_tensor *t) {
    for (uint32_t k = 0; k < t->n_operands; k++)
        if (t->operands[k] < l->from->n_tensors &&
            l->from->tensors[t->operands[k]].kind == TMK_PROFILE_WEIGHT &&
            is_telling(&l->from->tensors[t->operands[k]]))
            return true;
    return false;
}

static bool by_weights(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    if (!same_maker(l, original, value))
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++) {
        if (o->operands[k] >= l->from->n_tensors)
            return false;
        const struct tmk_profile_tensor *weight = &l->from->tensors[o->operands[k]];
        if (weight->kind == TMK_PROFILE_WEIGHT &&
            (l->value_of[weight->id] == TMK_UNLINKED || l->value_of[weight->id] != v->operands[k]))
            return false;
    }
    return tmk_link_has_telling_weight(l, o);
}

bool tmk_link_is_name(const char *name) {
    while (*name && !isalpha((unsigned char)*name))
        name++;
    return *name;
}

/* Does what they are made of speak against it? */
static bool operands_differ(const struct tmk_linking *l, const struct tmk_profile_tensor *o,
                            const struct tmk_profile_tensor *v) {
    for (uint32_t k = 0; k < o->n_operands && k < v->n_operands; k++) {
        uint32_t a = o->operands[k], b = v->operands[k];
        if (a < l->from->n_tensors && b < l->to->n_tensors && l->value_of[a] != TMK_UNLINKED &&
            l->original_of[b] != TMK_UNLINKED && l->value_of[a] != b)
            return true;
    }
    return false;
}

static bool by_name(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    return tmk_link_is_name(o->name) && strcmp(o->name, v->name) == 0 &&
           strcmp(o->path, v->path) == 0 &&
           (tmk_linking_same_op(o, v) || (!o->has_producer && !v->has_producer)) &&
           (o->kind == TMK_PROFILE_WEIGHT) == (v->kind == TMK_PROFILE_WEIGHT) &&
           !tmk_linking_shapes_differ(o, v) && !operands_differ(l, o, v);
}

bool tmk_link_is_like(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t original,
                      uint32_t value) {
    return rule == TMK_LINK_BY_OPERANDS  ? by_operands(l, original, value)
           : rule == TMK_LINK_BY_WEIGHTS ? by_weights(l, original, value)
                                         : by_name(l, original, value);
}

bool tmk_link_seek_alike(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t a,
                         uint32_t b) {
    const struct tmk_profile_tensor *x = &l->from->tensors[a], *y = &l->from->tensors[b];
    if (!tmk_linking_same_op(x, y) || !*x->path != !*y->path || x->n_operands != y->n_operands ||
        x->dtype != y->dtype || x->has_shape != y->has_shape ||
        (x->has_shape && !tmk_shape_equal(&x->shape, &y->shape)))
        return false;
    for (uint32_t k = 0; k < x->n_operands; k++) {
        uint32_t p = x->operands[k], q = y->operands[k];
        bool p_counts =
                 rule == TMK_LINK_BY_OPERANDS || l->from->tensors[p].kind == TMK_PROFILE_WEIGHT,
             q_counts =
                 rule == TMK_LINK_BY_OPERANDS || l->from->tensors[q].kind == TMK_PROFILE_WEIGHT;
        if (p_counts != q_counts || (p_counts && l->value_of[p] != l->value_of[q]))
            return false;
    }
    return true;
}

/* ---- keys ---- */

struct tmk_link_known tmk_link_known(const struct tmk_linking *l) {
    const struct tmk_profile *sides[] = {l->from, l->to};
    struct tmk_link_known known = {.dtypes = true, .ranks = true};
    memset(known.dims, true, sizeof known.dims);
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < sides[side]->n_tensors; i++) {
            const struct tmk_profile_tensor *t = &sides[side]->tensors[i];
            known.dtypes = known.dtypes && t->dtype != TMK_UNDEFINED;
            known.ranks = known.ranks && t->has_shape;
            for (int32_t k = 0; t->has_shape && k < t->shape.rank; k++)
                known.dims[k] = known.dims[k] && t->shape.dim[k] >= 0;
        }
    return known;
}

static uint64_t mix_hash(uint64_t a, uint64_t b) {
    const uint64_t both[] = {a, b};
    return tmk_hash64(both, sizeof both, 0);
}

static uint64_t text_key(const char *text, uint64_t seed) {
    return tmk_hash64(text, strlen(text), seed);
}

uint64_t tmk_link_maker_key(const struct tmk_link_known *known,
                            const struct tmk_profile_tensor *t) {
    uint64_t key = text_key(t->producer.domain, text_key(t->producer.op, t->producer.output));
    key = mix_hash(key, (uint64_t)t->n_operands << 1 | !*t->path);
    if (known->dtypes)
        key = mix_hash(key, (uint64_t)t->dtype);
    if (known->ranks)
        key = mix_hash(key, (uint64_t)t->shape.rank);
    for (int32_t k = 0; known->ranks && k < t->shape.rank; k++)
        if (known->dims[k])
            key = mix_hash(key, (uint64_t)t->shape.dim[k]);
    return key;
}

uint64_t tmk_link_operand_key(uint64_t maker, uint32_t k, uint32_t value) {
    return mix_hash(maker, (uint64_t)k << 32 | value);
}

uint64_t tmk_link_name_key(const struct tmk_profile_tensor *t) {
    return text_key(t->path, text_key(t->name, 1));
}

enum { MOST_CANDIDATES = 16 }; /* listed of an ambiguous original */

/* ---- values that are computed alike, side by side ---- */

struct entry {
    uint64_t fingerprint, content;
    uint32_t id;
    bool original;
};

struct entries {
    struct entry *all;
    uint32_t n;
};

/* Values computed alike: originals first, then values, each ascending. */
struct group {
    const struct entry *originals, *values;
    uint32_t n_originals, n_values;
};

static int by_computation(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->fingerprint != y->fingerprint)
        return x->fingerprint < y->fingerprint ? -1 : 1;
    if (x->content != y->content)
        return x->content < y->content ? -1 : 1;
    if (x->original != y->original)
        return x->original ? -1 : 1;
    return TMK_ORDER(x->id, y->id);
}

/* Of one side. contexts NULL: by structure alone; else only values whose content determines their
 * numbers, in a body together with what runs it. */
static void list_side(const struct tmk_linking *l, bool original, const uint64_t *contexts,
                      struct entries *out) {
    const struct tmk_profile *side = original ? l->from : l->to;
    for (uint32_t i = 0; i < side->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &side->tensors[i];
        if (!t->fingerprint ||
            (contexts && (contexts[i] == TMK_LINK_NO_CONTEXT || (original && l->differs[i]))))
            continue;
        uint64_t content = !contexts                            ? 0
                           : contexts[i] == TMK_LINK_MAIN_GRAPH ? t->content
                                                                : t->content ^ contexts[i];
        out->all[out->n++] = (struct entry){t->fingerprint, content, i, original};
    }
}

static enum tmk_status list_entries(const struct tmk_linking *l, bool content,
                                    struct entries *out) {
    uint64_t *contexts[2] = {0};
    enum tmk_status status = TMK_OK;
    out->n = 0;
    out->all = malloc(((size_t)l->from->n_tensors + l->to->n_tensors + 1) * sizeof *out->all);
    TMK_TRY_ALLOC(out->all, l->diag);
    for (int side = 0; content && side < 2 && status == TMK_OK; side++)
        status = tmk_link_contexts(side ? l->to : l->from, &contexts[side], l->diag);
    for (int side = 0; side < 2 && status == TMK_OK; side++)
        list_side(l, side == 0, contexts[side], out);
    free(contexts[0]);
    free(contexts[1]);
    if (status != TMK_OK) {
        free(out->all);
        return status;
    }
    if (out->n)
        qsort(out->all, out->n, sizeof *out->all, by_computation);
    return TMK_OK;
}

/* The group that begins at *at, which is moved behind it; false at the end. */
static bool next_group(const struct entries *entries, uint32_t *at, struct group *out) {
    uint32_t begin = *at, end = begin;
    if (begin == entries->n)
        return false;
    *out = (struct group){.originals = &entries->all[begin]};
    while (end < entries->n && entries->all[end].fingerprint == entries->all[begin].fingerprint &&
           entries->all[end].content == entries->all[begin].content)
        out->n_originals += entries->all[end++].original;
    out->values = out->originals + out->n_originals;
    out->n_values = end - begin - out->n_originals;
    *at = end;
    return true;
}

/* ---- equal weights ---- */

/* Those of a group that kept their names. */
static enum tmk_status take_names(struct tmk_linking *l, const struct group *g,
                                  const bool *wanted) {
    struct tmk_map named = {0};
    bool fits = true;
    for (uint32_t k = g->n_values; fits && k-- > 0;) { /* of equal names the first stays */
        uint32_t v = g->values[k].id;
        if (l->original_of[v] == TMK_UNLINKED && *l->to->tensors[v].name)
            fits = tmk_map_put(&named, l->to->tensors[v].name, (void *)&g->values[k]);
    }
    for (uint32_t i = 0; fits && i < g->n_originals; i++) {
        uint32_t o = g->originals[i].id;
        if (l->value_of[o] != TMK_UNLINKED || (wanted && !wanted[o]))
            continue;
        const struct entry *value = tmk_map_get(&named, l->from->tensors[o].name);
        if (value && l->original_of[value->id] == TMK_UNLINKED)
            tmk_linking_match(l, o, value->id, TMK_LINK_CONTENT);
    }
    tmk_map_finish(&named);
    return fits ? TMK_OK : tmk_nomem(l->diag);
}

/* Numbers of a group are equal, so it does not matter which is which. */
static enum tmk_status take_group(struct tmk_linking *l, const struct group *g,
                                  const bool *wanted) {
    uint32_t next = 0;
    if (!g->n_originals || !g->n_values)
        return TMK_OK;
    TMK_TRY(take_names(l, g, wanted));
    for (uint32_t i = 0; i < g->n_originals; i++) {
        uint32_t o = g->originals[i].id;
        if (l->value_of[o] != TMK_UNLINKED || (wanted && !wanted[o]))
            continue;
        while (next < g->n_values && l->original_of[g->values[next].id] != TMK_UNLINKED)
            next++;
        uint32_t k = next < g->n_values ? next : g->n_values - 1;
        tmk_linking_match(l, o, g->values[k].id, TMK_LINK_CONTENT);
    }
    return TMK_OK;
}

enum tmk_status tmk_linking_content(struct tmk_linking *l, const bool *wanted) {
    struct entries entries;
    struct group group;
    uint32_t at = 0;
    TMK_TRY(list_entries(l, true, &entries));
    enum tmk_status status = TMK_OK;
    while (status == TMK_OK && next_group(&entries, &at, &group))
        status = take_group(l, &group, wanted);
    free(entries.all);
    return status;
}

/* ---- other weights ---- */

/* What a matched pair is computed from: operand by operand. */
static bool take_operands_of(struct tmk_link_index *x, uint32_t original) {
    const struct tmk_linking *l = x->l;
    const struct tmk_profile_tensor *o = &l->from->tensors[original],
                                    *v = &l->to->tensors[l->value_of[original]];
    bool progress = false;
    if (o->fingerprint != v->fingerprint || o->n_operands != v->n_operands)
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++) {
        uint32_t a = o->operands[k], b = v->operands[k];
        if (tmk_link_is_free(l, a, b) &&
            l->from->tensors[a].fingerprint == l->to->tensors[b].fingerprint) {
            tmk_link_index_take(x, a, b, TMK_LINK_STRUCTURE);
            progress = true;
        }
    }
    return progress;
}

/* Of all pairs that were matched since the last time, results first. */
static bool take_operands(struct tmk_link_index *x) {
    uint32_t n = x->l->from->n_tensors;
    bool progress = false;
    for (uint32_t i = n; i-- > 0;) {
        i = tmk_idset_down(&x->matched, i);
        if (i == TMK_NO_ID)
            break;
        tmk_idset_remove(&x->matched, i);
        progress = take_operands_of(x, i) || progress;
    }
    return progress;
}

/* Two files of one network: IDs mean the same. */
static bool take_ordinals(struct tmk_link_index *x, const struct entries *entries) {
    const struct tmk_linking *l = x->l;
    struct group g;
    bool progress = false;
    if (l->from->model.fingerprint != l->to->model.fingerprint)
        return false;
    for (uint32_t at = 0; next_group(entries, &at, &g);)
        for (uint32_t i = 0; g.n_originals == g.n_values && i < g.n_originals; i++)
            if (tmk_link_is_free(l, g.originals[i].id, g.values[i].id)) {
                tmk_link_index_take(x, g.originals[i].id, g.values[i].id, TMK_LINK_STRUCTURE);
                progress = true;
            }
    return progress;
}

/* ---- behind an edit ---- */

static bool take_like(struct tmk_link_index *x, enum tmk_link_rule rule,
                      enum tmk_link_evidence evidence) {
    struct tmk_idset *pending = &x->pending[rule];
    bool progress = false;
    for (uint32_t o = 0; (o = tmk_idset_up(pending, o)) != TMK_NO_ID; o++) {
        tmk_idset_remove(pending, o);
        uint32_t v = tmk_link_index_find(x, rule, o);
        if (v == TMK_UNLINKED)
            continue;
        tmk_link_index_take(x, o, v, evidence);
        progress = true;
    }
    return progress;
}

enum tmk_status tmk_linking_namesakes(struct tmk_linking *l, const bool *originals,
                                      const bool *values) {
    struct tmk_link_buckets names;
    enum tmk_status status = tmk_link_buckets_init(&names, l, TMK_LINK_BY_NAME, NULL);
    for (uint32_t o = 0; status == TMK_OK && o < l->from->n_tensors; o++) {
        uint32_t at, n = tmk_link_bucket(&names, tmk_link_name_key(&l->from->tensors[o]), &at);
        for (; originals[o] && l->value_of[o] == TMK_UNLINKED && n; n--, at++) {
            uint32_t v = names.all[at].value;
            if (values[v] && tmk_link_is_free(l, o, v) &&
                tmk_link_is_like(l, TMK_LINK_BY_OPERANDS, o, v) &&
                tmk_link_is_like(l, TMK_LINK_BY_NAME, o, v))
                tmk_linking_match(l, o, v, TMK_LINK_OPERANDS);
        }
    }
    tmk_link_buckets_finish(&names);
    return status;
}

/* ---- what is ambiguous ---- */

static enum tmk_status list_ambiguous(struct tmk_link_index *x, const struct entries *entries) {
    struct group g;
    for (uint32_t at = 0; next_group(entries, &at, &g);) {
        /* Free values of a group, for all of its originals. */
        uint32_t free_ones[MOST_CANDIDATES], n = 0;
        for (uint32_t i = 0; i < g.n_values && n < MOST_CANDIDATES; i++)
            if (x->l->original_of[g.values[i].id] == TMK_UNLINKED)
                free_ones[n++] = g.values[i].id;
        for (uint32_t i = 0; i < g.n_originals; i++)
            for (uint32_t k = 0; k < n && x->l->value_of[g.originals[i].id] == TMK_UNLINKED; k++)
                TMK_TRY(tmk_linking_add_candidate(x->l, g.originals[i].id, free_ones[k]));
    }
    for (uint32_t o = 0; o < x->l->from->n_tensors; o++) {
        struct tmk_link_match *match = &x->l->link->matches[o];
        if (x->l->value_of[o] != TMK_UNLINKED)
            continue;
        if (!match->n_candidates)
            TMK_TRY(tmk_link_index_list(x, o, MOST_CANDIDATES));
        match->ambiguous = match->n_candidates > 0;
    }
    return TMK_OK;
}

static enum tmk_status match_structure(struct tmk_linking *l) {
    struct entries entries;
    struct tmk_link_index index, *x = &index;
    tmk_linking_inputs(l);
    TMK_TRY(tmk_linking_content(l, NULL));
    TMK_TRY(list_entries(l, false, &entries));
    /* Results whose whole past is alike, as often on either side. Of weights a fingerprint knows
     * the shape only. */
    struct group g;
    for (uint32_t at = 0; next_group(&entries, &at, &g);)
        if (g.n_originals == 1 && g.n_values == 1 &&
            tmk_link_is_free(l, g.originals[0].id, g.values[0].id) &&
            l->from->tensors[g.originals[0].id].kind != TMK_PROFILE_WEIGHT)
            tmk_linking_match(l, g.originals[0].id, g.values[0].id, TMK_LINK_STRUCTURE);
    enum tmk_status status = tmk_link_index_init(&index, l);
    if (status == TMK_OK) {
        /* a weaker rule only where the stronger ones have nothing more to match */
        while (take_operands(x) || take_like(x, TMK_LINK_BY_OPERANDS, TMK_LINK_OPERANDS) ||
               take_like(x, TMK_LINK_BY_WEIGHTS, TMK_LINK_WEIGHTS) ||
               take_like(x, TMK_LINK_BY_NAME, TMK_LINK_NAME) || take_ordinals(x, &entries))
            continue;
        status = list_ambiguous(&index, &entries);
    }
    TMK_THEN(status, tmk_linking_leave_out(l));
    tmk_link_index_finish(&index);
    free(entries.all);
    return status;
}

enum tmk_status tmk_link_by_fingerprint(const struct tmk_profile *from,
                                        const struct tmk_profile *to, struct tmk_link **out,
                                        struct tmk_diag *diag) {
    struct tmk_linking l;
    enum tmk_status status = tmk_linking_init(&l, "fingerprint", from, to, diag);
    TMK_THEN(status, match_structure(&l));
    TMK_THEN(status, tmk_linking_end(&l, "link:fingerprint", out));
    tmk_linking_finish(&l);
    return status;
}
