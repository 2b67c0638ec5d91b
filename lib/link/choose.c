/* SPDX-License-Identifier: Apache-2.0 */
/* Values of equal numbers. Originals and values that are equal to each other form an equivalence
 * class. In a class, values that are equal for a reason (one only moves the other, or they are
 * computed alike) form a subclass: any of its members may be matched. Equality between subclasses
 * is chance (a Relu without negative input); a name, an operator or their order decides which
 * subclasses are matched. */
#include "link/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/forest.h"
#include "base/memory.h"
#include "base/size.h"
#include "link/signature.h"

enum how { FLAT, TO_LAST, TO_FIRST }; /* element by element; channels went last; went to axis 1 */

struct edge {
    uint32_t original, value;
    enum how how;
    double residual;
};

struct classes {
    const struct tmk_choosing *c;
    struct edge *edges; /* ascending by original */
    size_t n_edges, size;
    uint32_t *begin;    /* [original]: its first edge; n + 1 of them */
    uint32_t *parent;   /* union-find over originals, then values: classes */
    uint32_t *subclass; /* the same: subclasses, which are parts of classes */
    uint32_t *order;    /* members by class, subclass, number */
    uint32_t n_originals, n;
};

bool tmk_link_is_sampled(const struct tmk_signatures *side, uint32_t id) {
    return side->all[id].flat && side->all[id].batches >= side->batches;
}

/* ---- pairs of equal values ---- */

static bool same_numbers(const struct classes *k, const float *x, const float *y, size_t n,
                         double *residual) {
    return k->c->noise > 0 ? tmk_link_near(x, y, n, k->c->noise, residual)
                           : tmk_link_same(x, y, n, residual);
}

static const struct tmk_link_matrix *layout_of(const struct tmk_signature *s,
                                               enum tmk_link_layout layout) {
    return &s->by[layout];
}

static bool same_matrix(const struct classes *k, const struct tmk_link_matrix *x,
                        const struct tmk_link_matrix *y, double *residual) {
    return x->channels && x->channels == y->channels && x->rows == y->rows &&
           same_numbers(k, x->x, y->x, x->channels * x->kept * k->c->batches, residual);
}

void tmk_link_permute(bool to_last, int32_t rank, int32_t *perm) {
    perm[0] = 0;
    for (int32_t i = 1; i < rank; i++)
        perm[i] = to_last ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
}

bool tmk_link_is_permuted(const struct tmk_shape *original, const struct tmk_shape *value,
                          bool to_last) {
    int32_t perm[TMK_MAX_RANK];
    if (original->rank != value->rank || original->rank < 3)
        return false;
    tmk_link_permute(to_last, original->rank, perm);
    for (int32_t i = 0; i < value->rank; i++)
        if (value->dim[i] != original->dim[perm[i]])
            return false;
    return true;
}

static bool is_equal(const struct classes *k, uint32_t original, uint32_t value, struct edge *out) {
    const struct tmk_signature *o = &k->c->originals->all[original], *v = &k->c->values->all[value];
    *out = (struct edge){original, value, FLAT, 0};
    if (same_numbers(k, o->flat, v->flat, (size_t)o->n_flat * k->c->batches, &out->residual))
        return true;
    out->how = TO_LAST;
    if (tmk_link_is_permuted(&o->shape, &v->shape, true) &&
        same_matrix(k, layout_of(o, TMK_LINK_CHANNELS_FIRST), layout_of(v, TMK_LINK_CHANNELS_LAST),
                    &out->residual))
        return true;
    out->how = TO_FIRST;
    return tmk_link_is_permuted(&o->shape, &v->shape, false) &&
           same_matrix(k, layout_of(o, TMK_LINK_CHANNELS_LAST),
                       layout_of(v, TMK_LINK_CHANNELS_FIRST), &out->residual);
}

static bool may_be_equal(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    return tmk_link_is_sampled(c->values, value) &&
           c->values->all[value].count == c->originals->all[original].count &&
           (!(c->noise > 0) || (c->l->original_of[value] == TMK_UNLINKED &&
                                c->fixed_originals[original] == c->fixed_values[value]));
}

static enum tmk_status find_edges(struct classes *k) {
    const struct tmk_choosing *c = k->c;
    for (uint32_t o = 0; o < k->n_originals; o++) {
        if (!tmk_link_is_sampled(c->originals, o) || c->l->value_of[o] != TMK_UNLINKED)
            continue;
        for (uint32_t v = 0; v < c->values->n; v++) {
            struct edge edge;
            if (!may_be_equal(c, o, v) || !is_equal(k, o, v, &edge))
                continue;
            TMK_TRY_ALLOC(TMK_GROW(k->edges, k->n_edges, k->size), c->l->diag);
            k->edges[k->n_edges++] = edge;
        }
    }
    return TMK_OK;
}

/* A pair that is much worse than the best pair of either end is dropped: the value is another one
 * that is near by chance, such as a sum with a small bias. */
static enum tmk_status drop_near_misses(struct classes *k) {
    const double as_good = 4e-6, much_worse = k->c->noise > 0 ? 2 : 16;
    double *best = malloc(((size_t)k->n + 1) * sizeof *best);
    size_t kept = 0;
    TMK_TRY_ALLOC(best, k->c->l->diag);
    for (uint32_t i = 0; i < k->n; i++)
        best[i] = INFINITY;
    for (size_t i = 0; i < k->n_edges; i++) {
        const struct edge *e = &k->edges[i];
        uint32_t v = k->n_originals + e->value;
        best[e->original] = fmin(best[e->original], e->residual);
        best[v] = fmin(best[v], e->residual);
    }
    for (size_t i = 0; i < k->n_edges; i++) {
        const struct edge *e = &k->edges[i];
        double other = fmin(best[e->original], best[k->n_originals + e->value]);
        if (e->residual <= fmax(much_worse * other, as_good))
            k->edges[kept++] = *e;
    }
    k->n_edges = kept;
    free(best);
    return TMK_OK;
}

/* ---- classes and subclasses ---- */

static const struct tmk_profile_tensor *tensor_of(const struct classes *k, uint32_t member) {
    return member < k->n_originals ? &k->c->l->from->tensors[member]
                                   : &k->c->l->to->tensors[member - k->n_originals];
}

static bool same_name(const struct classes *k, uint32_t original, uint32_t value) {
    const char *name = k->c->l->from->tensors[original].name;
    return *name && strcmp(name, k->c->l->to->tensors[value].name) == 0;
}

/* Is it the other one moved, or quantized and back? */
static bool derives_from(const struct classes *k, uint32_t member, uint32_t other) {
    enum { STEPS = 4 };
    const struct tmk_profile *p = member < k->n_originals ? k->c->l->from : k->c->l->to;
    const struct tmk_profile_tensor *t = tensor_of(k, member), *of = tensor_of(k, other);
    for (int i = 0; i < STEPS && t != of; i++) {
        if (!tmk_link_has(t, TMK_TRAIT_MOVES | TMK_TRAIT_CASTS | TMK_TRAIT_RECODES) ||
            !t->n_operands || t->operands[0] >= p->n_tensors)
            return false;
        t = &p->tensors[t->operands[0]];
    }
    return t == of;
}

/* Members of one class and one model: is there a reason for them to be equal? */
static bool is_reason(const struct classes *k, uint32_t a, uint32_t b) {
    const struct tmk_profile_tensor *x = tensor_of(k, a), *y = tensor_of(k, b);
    return (x->content == y->content && x->fingerprint == y->fingerprint && !*x->path &&
            !*y->path) ||
           derives_from(k, a, b) || derives_from(k, b, a);
}

/* The subclass of the original in this class that has the value's name; k->n: none. */
static uint32_t named_subclass(const struct classes *k, uint32_t begin, uint32_t end,
                               uint32_t value) {
    for (uint32_t i = begin; i < end && k->order[i] < k->n_originals; i++)
        if (same_name(k, k->order[i], value - k->n_originals))
            return tmk_forest_root(k->subclass, k->order[i]);
    return k->n;
}

/* No operator is known of values that other programs recorded: equal names are the reason. */
static void join_named(const struct classes *k, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        if (k->order[i] < k->n_originals)
            continue;
        uint32_t subclass = named_subclass(k, begin, end, k->order[i]);
        for (uint32_t j = begin; subclass < k->n && j < i; j++)
            if (k->order[j] >= k->n_originals &&
                named_subclass(k, begin, end, k->order[j]) == subclass)
                tmk_forest_join(k->subclass, k->order[i], k->order[j]);
    }
}

struct sorting {
    uint32_t class, subclass, member;
};

static int by_subclass(const void *a, const void *b) {
    const struct sorting *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->subclass != y->subclass ? TMK_ORDER(x->subclass, y->subclass)
                                      : TMK_ORDER(x->member, y->member);
}

static enum tmk_status sort_members(struct classes *k) {
    struct sorting *all = malloc(((size_t)k->n + 1) * sizeof *all);
    TMK_TRY_ALLOC(all, k->c->l->diag);
    for (uint32_t i = 0; i < k->n; i++)
        all[i] =
            (struct sorting){tmk_forest_root(k->parent, i), tmk_forest_root(k->subclass, i), i};
    qsort(all, k->n, sizeof *all, by_subclass);
    for (uint32_t i = 0; i < k->n; i++)
        k->order[i] = all[i].member;
    free(all);
    return TMK_OK;
}

static uint32_t class_end(const struct classes *k, uint32_t begin) {
    uint32_t end = begin;
    while (end < k->n &&
           tmk_forest_root(k->parent, k->order[end]) == tmk_forest_root(k->parent, k->order[begin]))
        end++;
    return end;
}

static enum tmk_status make_classes(struct classes *k) {
    enum { LARGEST = 512 }; /* members that are compared with each other */
    k->begin = calloc((size_t)k->n_originals + 2, sizeof *k->begin);
    k->parent = malloc(((size_t)k->n + 1) * sizeof *k->parent);
    k->subclass = malloc(((size_t)k->n + 1) * sizeof *k->subclass);
    k->order = malloc(((size_t)k->n + 1) * sizeof *k->order);
    TMK_TRY_ALLOC(k->begin && k->parent && k->subclass && k->order, k->c->l->diag);
    for (uint32_t i = 0; i < k->n; i++)
        k->parent[i] = k->subclass[i] = i;
    for (size_t i = 0; i < k->n_edges; i++) {
        k->begin[k->edges[i].original + 1]++;
        tmk_forest_join(k->parent, k->edges[i].original, k->n_originals + k->edges[i].value);
    }
    for (uint32_t i = 0; i < k->n_originals; i++)
        k->begin[i + 1] += k->begin[i];
    TMK_TRY(sort_members(k));
    for (uint32_t at = 0; at < k->n;) {
        uint32_t end = class_end(k, at);
        for (uint32_t i = at; end - at <= LARGEST && i < end; i++)
            for (uint32_t j = at; j < i; j++)
                if ((k->order[i] < k->n_originals) == (k->order[j] < k->n_originals) &&
                    is_reason(k, k->order[i], k->order[j]))
                    tmk_forest_join(k->subclass, k->order[i], k->order[j]);
        if (!k->c->made && end - at <= LARGEST)
            join_named(k, at, end);
        at = end;
    }
    return sort_members(k);
}

/* ---- within a subclass ---- */

static const struct edge *edge_of(const struct classes *k, uint32_t original, uint32_t value) {
    for (uint32_t i = k->begin[original]; i < k->begin[original + 1]; i++)
        if (k->edges[i].value == value)
            return &k->edges[i];
    return NULL;
}

static bool same_layout(const struct classes *k, const struct edge *e) {
    return e->how == FLAT && tmk_shape_equal(&k->c->originals->all[e->original].shape,
                                             &k->c->values->all[e->value].shape);
}

static bool same_op(const struct classes *k, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &k->c->l->from->tensors[original],
                                    *v = &k->c->l->to->tensors[value];
    return o->has_producer ? tmk_linking_same_op(o, v)
                           : k->c->made && !v->has_producer && v->kind == o->kind;
}

static void take_edge(const struct classes *k, const struct edge *e) {
    struct tmk_linking *l = k->c->l;
    struct tmk_lineage_original *o = &l->link->record->originals[e->original];
    struct tmk_link_match *match = &l->link->matches[e->original];
    int32_t rank = k->c->originals->all[e->original].shape.rank;
    if (same_layout(k, e)) {
        tmk_linking_match(l, e->original, e->value, TMK_LINK_EQUAL);
    } else {
        o->verdict = TMK_LINEAGE_VIEW;
        o->view.reshaped = e->how == FLAT;
        o->view.rank = e->how == FLAT ? 0 : rank;
        if (e->how != FLAT)
            tmk_link_permute(e->how == TO_LAST, rank, o->view.perm);
        tmk_linking_relate(l, e->original, e->value, TMK_LINK_EQUAL);
    }
    match->residual = e->residual;
    match->points = (uint64_t)k->c->originals->all[e->original].n_flat * k->c->batches;
}

static const struct edge *best_edge(const struct classes *k, uint32_t original,
                                    const uint32_t *values, uint32_t n) {
    const struct edge *best = NULL;
    double smallest = INFINITY;
    int most = -1;
    for (uint32_t i = 0; i < n; i++) {
        const struct edge *e = edge_of(k, original, values[i] - k->n_originals);
        smallest = e ? fmin(smallest, e->residual) : smallest;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct edge *e = edge_of(k, original, values[i] - k->n_originals);
        if (!e || (k->c->noise > 0 &&
                   e->residual > 1.25 * smallest)) /* its name may belong to another value */
            continue;
        int score = 16 * same_layout(k, e) + 8 * same_name(k, original, e->value) +
                    4 * (k->c->l->original_of[e->value] == TMK_UNLINKED) +
                    2 * same_op(k, original, e->value) + (e->how == FLAT);
        if (score > most) {
            most = score;
            best = e;
        }
    }
    return best;
}

/* ---- between subclasses ---- */

struct subclass {
    const uint32_t *members; /* ascending */
    uint32_t n;
    bool done;
};

typedef bool (*support)(const struct classes *k, const struct subclass *a,
                        const struct subclass *b);

static bool names_agree(const struct classes *k, const struct subclass *a,
                        const struct subclass *b) {
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++)
            if (same_name(k, a->members[i], b->members[j] - k->n_originals))
                return true;
    return false;
}

static bool computations_agree(const struct classes *k, const struct subclass *a,
                               const struct subclass *b) {
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++) {
            const struct tmk_profile_tensor *o = tensor_of(k, a->members[i]),
                                            *v = tensor_of(k, b->members[j]);
            if (o->fingerprint == v->fingerprint && o->content == v->content)
                return true;
        }
    return false;
}

static bool operators_agree(const struct classes *k, const struct subclass *a,
                            const struct subclass *b) {
    return same_op(k, a->members[0], b->members[0] - k->n_originals);
}

/* The only one of n subclasses that is unmatched (or any) and agrees; NULL: none, or several. */
static struct subclass *only_subclass(const struct classes *k, const struct subclass *one,
                                      struct subclass *all, uint32_t n, bool originals,
                                      support agree, bool any) {
    struct subclass *found = NULL;
    for (uint32_t i = 0; i < n; i++)
        if ((any || !all[i].done) &&
            (originals ? agree(k, &all[i], one) : agree(k, one, &all[i]))) {
            if (found)
                return NULL;
            found = &all[i];
        }
    return found;
}

static void pair_subclasses(const struct classes *k, struct subclass *a, struct subclass *b) {
    /* Names first, so that a value is not taken from under its name. */
    const uint32_t *originals = a->members;
    for (int turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < a->n; i++) {
            if (k->c->l->value_of[originals[i]] != TMK_UNLINKED)
                continue;
            const struct edge *e = best_edge(k, originals[i], b->members, b->n);
            bool named = e && same_name(k, originals[i], e->value),
                 alike = e && same_op(k, originals[i], e->value) &&
                         k->c->l->original_of[e->value] == TMK_UNLINKED;
            if (e && (turn == 2 || named || (turn == 1 && alike)))
                take_edge(k, e);
        }
    a->done = b->done = true;
}

static enum tmk_status leave_out(const struct classes *k, const struct subclass *a) {
    enum { MOST_CANDIDATES = 16 };
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t o = a->members[i];
        struct tmk_link_match *match = &k->c->l->link->matches[o];
        match->ambiguous = true;
        for (uint32_t e = k->begin[o]; e < k->begin[o + 1] && match->n_candidates < MOST_CANDIDATES;
             e++)
            TMK_TRY(tmk_linking_add_candidate(k->c->l, o, k->edges[e].value));
    }
    return TMK_OK;
}

static enum tmk_status match_class(const struct classes *k, struct subclass *originals,
                                   uint32_t n_a, struct subclass *values, uint32_t n_b) {
    static const support supports[] = {computations_agree, names_agree, operators_agree};
    if (n_a == 1 && n_b == 1)
        pair_subclasses(k, &originals[0], &values[0]);
    for (size_t s = 0; s < TMK_COUNT(supports); s++)
        for (uint32_t i = 0; i < n_a; i++) {
            /* with rounding, different values with names of their own may be equal */
            bool many = k->c->noise > 0 && supports[s] == names_agree;
            struct subclass *a = &originals[i],
                            *b = a->done
                                     ? NULL
                                     : only_subclass(k, a, values, n_b, false, supports[s], many);
            if (b && (many || only_subclass(k, b, originals, n_a, true, supports[s], false)))
                pair_subclasses(k, a, b);
        }
    uint32_t left_a = 0, left_b = 0;
    for (uint32_t i = 0; i < n_a; i++)
        left_a += !originals[i].done;
    for (uint32_t i = 0; i < n_b; i++)
        left_b += !values[i].done;
    bool in_order = k->c->made && left_a == left_b && !(k->c->noise > 0);
    for (uint32_t i = 0, j = 0; in_order && i < n_a; i++) {
        while (j < n_b && values[j].done)
            j++;
        if (!originals[i].done && j < n_b)
            pair_subclasses(k, &originals[i], &values[j]);
    }
    for (uint32_t i = 0; i < n_a; i++)
        if (!originals[i].done)
            TMK_TRY(leave_out(k, &originals[i]));
    return TMK_OK;
}

static enum tmk_status match_classes(const struct classes *k) {
    struct subclass *subclasses = malloc(((size_t)k->n + 1) * sizeof *subclasses);
    enum tmk_status status = subclasses ? TMK_OK : tmk_nomem(k->c->l->diag);
    for (uint32_t at = 0; status == TMK_OK && at < k->n;) {
        uint32_t end = class_end(k, at), n = 0, n_originals = 0;
        for (uint32_t i = at; i < end; i++) {
            if (i == at || tmk_forest_root(k->subclass, k->order[i]) !=
                               tmk_forest_root(k->subclass, k->order[i - 1])) {
                subclasses[n++] = (struct subclass){&k->order[i], 0, false};
                n_originals += k->order[i] < k->n_originals;
            }
            subclasses[n - 1].n++;
        }
        if (end - at > 1) /* originals have smaller numbers, and so their subclasses */
            status =
                match_class(k, subclasses, n_originals, subclasses + n_originals, n - n_originals);
        at = end;
    }
    free(subclasses);
    return status;
}

enum tmk_status tmk_link_choose_equal(const struct tmk_choosing *c) {
    struct classes k = {
        .c = c, .n_originals = c->originals->n, .n = c->originals->n + c->values->n};
    enum tmk_status status = find_edges(&k);
    TMK_THEN(status, drop_near_misses(&k));
    TMK_THEN(status, make_classes(&k));
    TMK_THEN(status, match_classes(&k));
    free(k.edges);
    free(k.begin);
    free(k.parent);
    free(k.subclass);
    free(k.order);
    return status;
}
