/* SPDX-License-Identifier: Apache-2.0 */
/* Matching without numbers: by fingerprints, and where an edit upstream changed these, by what a
 * value is made of. Every rule takes a pair only if nothing else on either side would do as well.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "profile/link.h"

enum {
    MOST_CANDIDATES = 16, /* listed of an ambiguous original */
    TELLING_WEIGHT = 16   /* elements from which on equal weights are no coincidence */
};

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
    return (x->id > y->id) - (x->id < y->id);
}

/* content false: by structure alone. */
static enum tmk_status list_entries(const struct tmk_linking *l, bool content,
                                    struct entries *out) {
    const struct tmk_profile *sides[] = {l->from, l->to};
    out->n = 0;
    out->all = malloc(((size_t)l->from->n_tensors + l->to->n_tensors + 1) * sizeof *out->all);
    if (!out->all)
        return tmk_nomem(l->diag);
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < sides[side]->n_tensors; i++) {
            const struct tmk_profile_tensor *t = &sides[side]->tensors[i];
            if (t->fingerprint)
                out->all[out->n++] =
                    (struct entry){t->fingerprint, content ? t->content : 0, i, side == 0};
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
            tmk_linking_take(l, o, value->id, TMK_LINK_CONTENT);
    }
    tmk_map_finish(&named);
    return fits ? TMK_OK : tmk_nomem(l->diag);
}

/* Numbers of a group are equal, so it does not matter which is which; but bodies of different nodes
 * may compute alike from different operands. */
static enum tmk_status take_group(struct tmk_linking *l, const struct group *g,
                                  const bool *wanted) {
    bool inside = false;
    uint32_t next = 0;
    for (uint32_t i = 0; i < g->n_originals; i++)
        inside = inside || *l->from->tensors[g->originals[i].id].path;
    if (!g->n_originals || !g->n_values || (inside && g->n_originals != g->n_values))
        return TMK_OK;
    if (!inside)
        TMK_TRY(take_names(l, g, wanted));
    for (uint32_t i = 0; i < g->n_originals; i++) {
        uint32_t o = g->originals[i].id;
        if (l->value_of[o] != TMK_UNLINKED || (wanted && !wanted[o]))
            continue;
        while (!inside && next < g->n_values && l->original_of[g->values[next].id] != TMK_UNLINKED)
            next++;
        uint32_t k = inside ? i : next < g->n_values ? next : g->n_values - 1;
        tmk_linking_take(l, o, g->values[k].id, TMK_LINK_CONTENT);
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

static bool is_free(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    return original < l->from->n_tensors && value < l->to->n_tensors &&
           l->value_of[original] == TMK_UNLINKED && l->original_of[value] == TMK_UNLINKED;
}

/* Results whose whole past is alike, as often on either side. Of weights a fingerprint knows the
 * shape only. */
static bool take_alone(struct tmk_linking *l, const struct entries *entries) {
    struct group g;
    bool progress = false;
    for (uint32_t at = 0; next_group(entries, &at, &g);)
        if (g.n_originals == 1 && g.n_values == 1 &&
            is_free(l, g.originals[0].id, g.values[0].id) &&
            l->from->tensors[g.originals[0].id].kind != TMK_PROFILE_WEIGHT) {
            tmk_linking_take(l, g.originals[0].id, g.values[0].id, TMK_LINK_STRUCTURE);
            progress = true;
        }
    return progress;
}

/* What a matched pair is computed from: operand by operand. */
static bool take_operands(struct tmk_linking *l) {
    bool progress = false;
    for (uint32_t i = l->from->n_tensors; i-- > 0;) {
        if (l->value_of[i] == TMK_UNLINKED)
            continue;
        const struct tmk_profile_tensor *o = &l->from->tensors[i],
                                        *v = &l->to->tensors[l->value_of[i]];
        if (o->fingerprint != v->fingerprint || o->n_operands != v->n_operands)
            continue;
        for (uint32_t k = 0; k < o->n_operands; k++) {
            uint32_t a = o->operands[k], b = v->operands[k];
            if (is_free(l, a, b) &&
                l->from->tensors[a].fingerprint == l->to->tensors[b].fingerprint) {
                tmk_linking_take(l, a, b, TMK_LINK_STRUCTURE);
                progress = true;
            }
        }
    }
    return progress;
}

/* Two files of one network: IDs mean the same. */
static bool take_ordinals(struct tmk_linking *l, const struct entries *entries) {
    struct group g;
    bool progress = false;
    if (l->from->model.fingerprint != l->to->model.fingerprint)
        return false;
    for (uint32_t at = 0; next_group(entries, &at, &g);)
        for (uint32_t i = 0; g.n_originals == g.n_values && i < g.n_originals; i++)
            if (is_free(l, g.originals[i].id, g.values[i].id)) {
                tmk_linking_take(l, g.originals[i].id, g.values[i].id, TMK_LINK_STRUCTURE);
                progress = true;
            }
    return progress;
}

/* ---- behind an edit ---- */

typedef bool (*likeness)(const struct tmk_linking *l, uint32_t original, uint32_t value);

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

static bool by_weights(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    bool telling = false;
    if (!same_maker(l, original, value))
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++) {
        if (o->operands[k] >= l->from->n_tensors)
            return false;
        const struct tmk_profile_tensor *weight = &l->from->tensors[o->operands[k]];
        if (weight->kind != TMK_PROFILE_WEIGHT)
            continue;
        if (l->value_of[weight->id] == TMK_UNLINKED || l->value_of[weight->id] != v->operands[k])
            return false;
        telling = telling || is_telling(weight);
    }
    return telling;
}

/* Exporters number what has no name, and number it anew after an edit. */
static bool is_name(const char *name) {
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
    return is_name(o->name) && strcmp(o->name, v->name) == 0 && strcmp(o->path, v->path) == 0 &&
           (tmk_linking_same_op(o, v) || (!o->has_producer && !v->has_producer)) &&
           (o->kind == TMK_PROFILE_WEIGHT) == (v->kind == TMK_PROFILE_WEIGHT) &&
           !tmk_linking_shapes_differ(o, v) && !operands_differ(l, o, v);
}

void tmk_linking_namesakes(struct tmk_linking *l, const bool *originals, const bool *values) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++)
        for (uint32_t v = 0; originals[o] && v < l->to->n_tensors; v++)
            if (values[v] && is_free(l, o, v) && by_operands(l, o, v) && by_name(l, o, v))
                tmk_linking_take(l, o, v, TMK_LINK_OPERANDS);
}

/* The only free value that is like the original; TMK_UNLINKED: none, or *several. */
static uint32_t only_value(const struct tmk_linking *l, uint32_t original, likeness like,
                           bool *several) {
    uint32_t found = TMK_UNLINKED;
    for (uint32_t v = 0; v < l->to->n_tensors; v++)
        if (is_free(l, original, v) && like(l, original, v)) {
            if (found != TMK_UNLINKED) {
                *several = true;
                return TMK_UNLINKED;
            }
            found = v;
        }
    return found;
}

static bool is_only_original(const struct tmk_linking *l, uint32_t original, uint32_t value,
                             likeness like) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++)
        if (o != original && is_free(l, o, value) && like(l, o, value))
            return false;
    return true;
}

static bool take_like(struct tmk_linking *l, likeness like, enum tmk_link_evidence evidence) {
    bool progress = false, several = false;
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        if (l->value_of[o] != TMK_UNLINKED)
            continue;
        uint32_t v = only_value(l, o, like, &several);
        if (v == TMK_UNLINKED || !is_only_original(l, o, v, like))
            continue;
        tmk_linking_take(l, o, v, evidence);
        progress = true;
    }
    return progress;
}

/* ---- what could not be told ---- */

static enum tmk_status list_like(struct tmk_linking *l, uint32_t original, likeness like) {
    struct tmk_link_match *match = &l->link->matches[original];
    for (uint32_t v = 0; v < l->to->n_tensors && match->n_candidates < MOST_CANDIDATES; v++)
        if (is_free(l, original, v) && like(l, original, v))
            TMK_TRY(tmk_linking_add_candidate(l, original, v));
    match->ambiguous = match->n_candidates > 0;
    return TMK_OK;
}

static bool by_fingerprint(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    uint64_t fingerprint = l->from->tensors[original].fingerprint;
    return fingerprint && fingerprint == l->to->tensors[value].fingerprint;
}

static enum tmk_status list_ambiguous(struct tmk_linking *l) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        if (l->value_of[o] != TMK_UNLINKED)
            continue;
        TMK_TRY(list_like(l, o, by_fingerprint));
        if (!l->link->matches[o].ambiguous)
            TMK_TRY(list_like(l, o, by_operands));
    }
    return TMK_OK;
}

static enum tmk_status match(struct tmk_linking *l) {
    struct entries entries;
    TMK_TRY(tmk_linking_content(l, NULL));
    TMK_TRY(list_entries(l, false, &entries));
    /* a weaker rule only where the stronger ones have nothing more to say */
    while (take_alone(l, &entries) || take_operands(l) ||
           take_like(l, by_operands, TMK_LINK_OPERANDS) ||
           take_like(l, by_weights, TMK_LINK_WEIGHTS) || take_like(l, by_name, TMK_LINK_NAME) ||
           take_ordinals(l, &entries)) {
    }
    free(entries.all);
    return list_ambiguous(l);
}

enum tmk_status tmk_link_by_fingerprint(const struct tmk_profile *from,
                                        const struct tmk_profile *to, struct tmk_link **out,
                                        struct tmk_diag *diag) {
    struct tmk_linking l;
    enum tmk_status status = tmk_linking_init(&l, "fingerprint", from, to, diag);
    if (status == TMK_OK)
        status = match(&l);
    if (status == TMK_OK)
        status = tmk_linking_end(&l, "link:fingerprint", out);
    tmk_linking_finish(&l);
    return status;
}
