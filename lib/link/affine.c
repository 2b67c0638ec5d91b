/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are a scale and a shift away from an original that is gone. Numbers that fit are not
 * enough where the value is known to be another original: then the original's own graph must lead
 * from the one to the other by nothing but scales and shifts. A Relu that cut nothing off fits too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "link/choose.h"
#include "link/fit.h"

/* ---- what the original's graph allows ---- */

static bool is_constant(const struct tmk_profile *p, uint32_t id) {
    if (id >= p->n_tensors)
        return false;
    const struct tmk_profile_tensor *t = &p->tensors[id];
    if (t->kind == TMK_PROFILE_WEIGHT)
        return true;
    for (uint32_t i = 0; i < t->n_operands; i++) /* one step back: a reshaped or cast weight */
        if (t->operands[i] >= p->n_tensors || p->tensors[t->operands[i]].kind != TMK_PROFILE_WEIGHT)
            return false;
    return t->kind != TMK_PROFILE_INPUT && t->n_operands > 0;
}

/* The operand that `t` is a scale and a shift of; TMK_UNLINKED: of none. */
static uint32_t scaled_by(const struct tmk_profile *p, const struct tmk_profile_tensor *t) {
    uint32_t found = TMK_UNLINKED;
    if (tmk_link_has(t, TMK_TRAIT_MOVES | TMK_TRAIT_CASTS) && t->n_operands)
        return t->operands[0];
    if (!tmk_link_has(t, TMK_TRAIT_AFFINE))
        return TMK_UNLINKED;
    for (uint32_t i = 0; i < t->n_operands; i++) {
        if (is_constant(p, t->operands[i]))
            continue;
        if (found != TMK_UNLINKED)
            return TMK_UNLINKED;
        found = t->operands[i];
    }
    return found;
}

static bool leads_to(const struct tmk_profile *p, uint32_t from, uint32_t to) {
    for (uint32_t at = to, steps = 0; at < p->n_tensors && steps < p->n_tensors; steps++) {
        if (at == from)
            return true;
        at = scaled_by(p, &p->tensors[at]);
    }
    return false;
}

/* ---- one pair ---- */

struct candidate {
    uint32_t value;
    enum tmk_link_layout from, to;
    struct tmk_link_fit fit;
};

/* The permutation between the layouts: the value's axis i is the original's perm[i]. */
static void describe_relation(const struct tmk_choosing *c, uint32_t original,
                              const struct candidate *found, struct tmk_lineage_original *o) {
    const struct tmk_shape *a = &c->originals->all[original].shape,
                           *b = &c->values->all[found->value].shape;
    o->view = (struct tmk_lineage_view){0};
    if (found->from == found->to) {
        o->view.reshaped = !tmk_shape_equal(a, b);
        return;
    }
    bool to_last = found->to == TMK_LINK_CHANNELS_LAST;
    o->view.rank = a->rank;
    for (int32_t i = 1; i < a->rank; i++)
        o->view.perm[i] = to_last ? (i == a->rank - 1 ? 1 : i + 1) : (i == 1 ? a->rank - 1 : i - 1);
}

static enum tmk_status take_candidate(const struct tmk_choosing *c, uint32_t original,
                                      const struct candidate *found) {
    struct tmk_lineage_record *record = c->l->link->record;
    struct tmk_lineage_original *o = &record->originals[original];
    struct tmk_link_match *match = &c->l->link->matches[original];
    const struct tmk_link_fit *fit = &found->fit;
    double *scale = tmk_lineage_record_array(record, fit->n, sizeof *scale);
    double *shift = tmk_lineage_record_array(record, fit->n, sizeof *shift);
    if (!scale || !shift)
        return tmk_nomem(c->l->diag);
    memcpy(scale, fit->scale, fit->n * sizeof *scale);
    memcpy(shift, fit->shift, fit->n * sizeof *shift);
    int32_t last = c->values->all[found->value].shape.rank - 1;
    int32_t axis = found->to == TMK_LINK_CHANNELS_FIRST ? 1 : last;
    describe_relation(c, original, found, o);
    o->verdict = TMK_LINEAGE_AFFINE;
    o->affine = (struct tmk_lineage_affine){fit->n, fit->n > 1 ? axis : 0, scale, shift};
    match->residual = fit->residual;
    match->points = fit->points;
    tmk_linking_relate(c->l, original, found->value, TMK_LINK_AFFINE);
    return TMK_OK;
}

/* Both layouts where they agree; across them only as a whole tensor of that rank. */
static bool layouts_fit(const struct tmk_choosing *c, uint32_t original, uint32_t value,
                        enum tmk_link_layout from, enum tmk_link_layout to) {
    const struct tmk_signature *o = &c->originals->all[original], *v = &c->values->all[value];
    if (!o->by[from].channels || o->by[from].channels != v->by[to].channels ||
        o->by[from].rows != v->by[to].rows)
        return false;
    if (from == to)
        return true;
    if (o->shape.rank != v->shape.rank)
        return false;
    const struct tmk_shape *first = from == TMK_LINK_CHANNELS_FIRST ? &o->shape : &v->shape,
                           *last = from == TMK_LINK_CHANNELS_FIRST ? &v->shape : &o->shape;
    if (first->dim[0] != last->dim[0])
        return false;
    for (int32_t i = 2; i < first->rank; i++)
        if (first->dim[i] != last->dim[i - 1])
            return false;
    return true;
}

static enum tmk_status fit_pair(const struct tmk_choosing *c, uint32_t original, uint32_t value,
                                struct candidate *out) {
    static const enum tmk_link_layout tries[][2] = {
        {TMK_LINK_CHANNELS_FIRST, TMK_LINK_CHANNELS_FIRST},
        {TMK_LINK_CHANNELS_LAST, TMK_LINK_CHANNELS_LAST},
        {TMK_LINK_CHANNELS_FIRST, TMK_LINK_CHANNELS_LAST},
        {TMK_LINK_CHANNELS_LAST, TMK_LINK_CHANNELS_FIRST}};
    for (size_t i = 0; i < TMK_COUNT(tries); i++) {
        *out = (struct candidate){.value = value, .from = tries[i][0], .to = tries[i][1]};
        if (!layouts_fit(c, original, value, out->from, out->to))
            continue;
        enum tmk_status status =
            tmk_link_fit(&c->originals->all[original].by[out->from],
                         &c->values->all[value].by[out->to], c->batches, &out->fit, c->l->diag);
        if (status != TMK_NOTFOUND)
            return status;
    }
    return TMK_NOTFOUND;
}

/* What was not seen to vary must not vary in all that the profile has seen, either. */
static bool is_whole(const struct tmk_choosing *c, uint32_t original,
                     const struct candidate *found) {
    const struct tmk_profile_tensor *t = &c->l->from->tensors[original];
    const struct tmk_link_fit *fit = &found->fit;
    struct tmk_summary summary = {0};
    int32_t axis =
        found->from == TMK_LINK_CHANNELS_FIRST ? 1 : c->originals->all[original].shape.rank - 1;
    if (t->stats)
        tmk_stats_quick_summary(t->stats, &summary);
    bool known = summary.channels == fit->n && summary.channel_axis == axis;
    double largest = fmax(fabs((double)summary.min), fabs((double)summary.max));
    for (uint32_t i = 0; i < fit->n; i++)
        if (!fit->seen[i] && (!known || tmk_link_varies((double)summary.channel_min[i],
                                                        (double)summary.channel_max[i], largest)))
            return false;
    return true;
}

/* ---- all pairs ---- */

/* Nearer in the original's order is better; a value that is not matched comes first: it may be the
 * original itself, scaled. */
static uint32_t order_distance(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    uint32_t other = c->l->original_of[value];
    return other == TMK_UNLINKED ? 0 : other > original ? other - original : original - other;
}

static bool may_be(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    uint32_t other = c->l->original_of[value];
    if (!tmk_link_is_sampled(c->values, value) ||
        c->l->to->tensors[value].kind == TMK_PROFILE_WEIGHT)
        return false;
    if (other == TMK_UNLINKED || c->l->link->record->originals[other].verdict ==
                                     TMK_LINEAGE_AFFINE) /* then it is not matched alone */
        return true;
    return leads_to(c->l->from, original, other) || leads_to(c->l->from, other, original);
}

static enum tmk_status find_one(const struct tmk_choosing *c, uint32_t original) {
    struct candidate best = {.value = TMK_UNLINKED};
    for (uint32_t v = 0; v < c->values->n; v++) {
        struct candidate one;
        if (!may_be(c, original, v))
            continue;
        enum tmk_status status = fit_pair(c, original, v, &one);
        if (status == TMK_NOTFOUND)
            continue;
        TMK_TRY(status);
        /* 0 * original + shift fits whatever the original is: only its graph can say so */
        if ((one.fit.lost && order_distance(c, original, v) == 0) || !is_whole(c, original, &one)) {
            tmk_link_fit_finish(&one.fit);
            continue;
        }
        if (best.value == TMK_UNLINKED ||
            order_distance(c, original, v) < order_distance(c, original, best.value)) {
            tmk_link_fit_finish(&best.fit);
            best = one;
        } else {
            tmk_link_fit_finish(&one.fit);
        }
        if (best.value != v)
            TMK_TRY(tmk_linking_add_candidate(c->l, original, v));
    }
    enum tmk_status status =
        best.value == TMK_UNLINKED ? TMK_OK : take_candidate(c, original, &best);
    tmk_link_fit_finish(&best.fit);
    return status;
}

enum tmk_status tmk_link_choose_affine(const struct tmk_choosing *c) {
    for (uint32_t o = 0; o < c->originals->n; o++)
        if (tmk_link_is_sampled(c->originals, o) && c->l->value_of[o] == TMK_UNLINKED &&
            c->l->from->tensors[o].kind != TMK_PROFILE_WEIGHT && !c->l->link->matches[o].ambiguous)
            TMK_TRY(find_one(c, o));
    return TMK_OK;
}

/* ---- integers ---- */

static bool same_bytes(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    const struct tmk_signature *o = &c->originals->all[original], *v = &c->values->all[value];
    return o->batches == c->batches && v->batches == c->batches && !o->uneven && !v->uneven &&
           o->dtype == v->dtype && o->dtype != TMK_FLOAT32 &&
           tmk_shape_equal(&o->shape, &v->shape) && o->hash == v->hash &&
           c->l->value_of[original] == TMK_UNLINKED && c->l->original_of[value] == TMK_UNLINKED;
}

static bool same_maker(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &c->l->from->tensors[original],
                                    *v = &c->l->to->tensors[value];
    return same_bytes(c, original, value) && *o->name && strcmp(o->name, v->name) == 0 &&
           (!c->made || tmk_linking_same_op(o, v));
}

enum tmk_status tmk_link_choose_integers(const struct tmk_choosing *c) {
    enum { MOST_CANDIDATES = 16 };
    for (uint32_t o = 0; o < c->originals->n; o++)
        for (uint32_t v = 0; v < c->values->n; v++)
            if (same_maker(c, o, v)) {
                c->l->link->matches[o].points = (uint64_t)c->originals->all[o].count * c->batches;
                tmk_linking_match(c->l, o, v, TMK_LINK_EQUAL);
            }
    for (uint32_t o = 0; o < c->originals->n; o++)
        for (uint32_t v = 0; v < c->values->n; v++) {
            struct tmk_link_match *match = &c->l->link->matches[o];
            if (c->fixed_originals[o] || !same_bytes(c, o, v) ||
                match->n_candidates == MOST_CANDIDATES)
                continue;
            match->ambiguous = true; /* few integers are often equal by chance */
            TMK_TRY(tmk_linking_add_candidate(c->l, o, v));
        }
    return TMK_OK;
}
