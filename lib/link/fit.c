/* SPDX-License-Identifier: Apache-2.0 */
#include "link/signature.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "link/choose.h"

enum { LEAST_POINTS = 10 }; /* 8 more than unknowns */

/* What float32 arithmetic leaves of a number, of the largest that took part. */
static const double float_rounding = 4e-7;

/* ---- equal ---- */

bool tmk_link_same(const float *x, const float *y, size_t n, double *residual) {
    double min = INFINITY, most = -INFINITY, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        if (!isfinite(a) || !isfinite(b)) {
            if (!(a == b || (isnan(a) && isnan(b))))
                return false;
            continue;
        }
        min = fmin(min, a);
        most = fmax(most, a);
        worst = fmax(worst, fabs(a - b));
    }
    double range = most - min, largest = fmax(fabs(min), fabs(most));
    if (!(range > 0) || worst > fmax(TMK_LINK_TOLERANCE * range, float_rounding * largest))
        return false;
    *residual = worst / range;
    return true;
}

bool tmk_link_near(const float *x, const float *y, size_t n, double tolerance, double *residual) {
    double first = NAN, sum = 0, squares = 0, off = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        if (!isfinite(a) || !isfinite(b)) {
            if (!(a == b || (isnan(a) && isnan(b))))
                return false;
            continue;
        }
        first = isnan(first) ? a : first; /* near the mean: squares keep their digits */
        sum += a - first;
        squares += (a - first) * (a - first);
        off += (a - b) * (a - b);
        count++;
    }
    double variance = count > 0 ? (squares - sum * sum / count) / count : 0;
    if (!(variance > 0))
        return false;
    *residual = sqrt(off / count / variance);
    return *residual <= tolerance;
}

/* ---- affine ---- */

struct channel {
    double scale, shift, residual;
    bool seen; /* something was to be seen */
    bool lost;
};

struct extent {
    double min, most;
};

static struct extent extent_of(const float *x, size_t n, size_t step) {
    struct extent e = {INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i * step];
        if (!isfinite(a))
            return (struct extent){NAN, NAN};
        e.min = fmin(e.min, a);
        e.most = fmax(e.most, a);
    }
    return e;
}

static double largest_of(struct extent e) {
    return fmax(fabs(e.min), fabs(e.most));
}

/* Is [min, most] more than what rounding makes of one number, in a tensor with such numbers? */
static bool link_varies(double min, double most, double largest) {
    double own = fmax(fabs(min), fabs(most));
    return most - min > 1e-4 * own && most - min > 1e-5 * largest;
}

static double worst_of(const float *x, const float *y, size_t n, size_t step, double scale,
                       double shift) {
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(scale * (double)x[i * step] + shift - (double)y[i * step]));
    return worst;
}

/* n points, `step` apart; x_largest and y_largest of all channels. */
static bool fit_channel(const float *x, const float *y, size_t n, size_t step, double x_largest,
                        double y_largest, struct channel *out) {
    struct extent ex = extent_of(x, n, step), ey = extent_of(y, n, step);
    if (isnan(ex.min) || isnan(ey.min))
        return false;
    bool x_varies = link_varies(ex.min, ex.most, x_largest),
         y_varies = link_varies(ey.min, ey.most, y_largest);
    if (!x_varies) {
        *out = (struct channel){.scale = 1, .shift = (ey.min + ey.most - ex.min - ex.most) / 2};
        return !y_varies;
    }
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += (double)x[i * step];
        mean_y += (double)y[i * step];
    }
    mean_x /= (double)n;
    mean_y /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double dx = (double)x[i * step] - mean_x;
        xx += dx * dx;
        xy += dx * ((double)y[i * step] - mean_y);
    }
    double scale = y_varies ? xy / xx : 0, shift = mean_y - scale * mean_x;
    double worst = worst_of(x, y, n, step, scale, shift), range = ey.most - ey.min;
    double noise = float_rounding * (largest_of(ey) + fabs(scale) * largest_of(ex));
    *out = (struct channel){scale, shift, y_varies ? worst / range : 0, true, !y_varies};
    return !y_varies || worst <= TMK_LINK_TOLERANCE * range + noise;
}

/* One scale and one shift for all, if that fits as well. */
static void collapse_fit(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y, size_t n,
                         struct tmk_link_fit *fit) {
    struct channel all;
    size_t count = n * x->channels;
    struct extent ex = extent_of(x->x, count, 1), ey = extent_of(y->x, count, 1);
    if (fit->n == 1 || fit->lost ||
        !fit_channel(x->x, y->x, count, 1, largest_of(ex), largest_of(ey), &all) || !all.seen)
        return;
    for (uint32_t c = 0; c < fit->n; c++)
        if (fabs(fit->scale[c] - all.scale) > 1e-3 * fabs(all.scale))
            return;
    fit->n = 1;
    fit->seen[0] = true;
    fit->scale[0] = all.scale;
    fit->shift[0] = all.shift;
    fit->residual = all.residual;
}

static bool fit_all(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y, size_t n,
                    struct tmk_link_fit *fit) {
    size_t channels = x->channels, seen = 0, count = n * channels;
    double x_largest = largest_of(extent_of(x->x, count, 1)),
           y_largest = largest_of(extent_of(y->x, count, 1));
    for (size_t c = 0; c < channels; c++) {
        struct channel channel;
        if (!fit_channel(x->x + c, y->x + c, n, channels, x_largest, y_largest, &channel))
            return false;
        seen += channel.seen && !channel.lost;
        fit->lost = fit->lost || channel.lost;
        fit->seen[c] = channel.seen;
        fit->scale[c] = channel.scale;
        fit->shift[c] = channel.shift;
        fit->residual = fmax(fit->residual, channel.residual);
    }
    return seen > 0 && seen * 2 >= channels;
}

/* The same numbers, of which one side computes less exactly: no optimiser scales by so little. A
 * bias may be as small, but leaves the scale at 1. */
static bool is_nearly_same(const struct tmk_link_matrix *y, size_t n,
                           const struct tmk_link_fit *fit) {
    const double little = 1e-3, exact = 1e-6;
    struct extent e = extent_of(y->x, n * y->channels, 1);
    bool scaled = false;
    for (uint32_t c = 0; c < fit->n; c++) {
        if (fit->seen[c] && !(fabs(fit->scale[c] - 1) <= little &&
                              fabs(fit->shift[c]) <= little * (e.most - e.min)))
            return false;
        scaled = scaled || (fit->seen[c] && fabs(fit->scale[c] - 1) > exact);
    }
    return scaled;
}

enum tmk_status tmk_link_fit(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y,
                             uint32_t batches, struct tmk_link_fit *out, struct tmk_diag *diag) {
    size_t n = (size_t)x->kept * batches, channels = x->channels;
    if (!channels || channels != y->channels || x->rows != y->rows || n < LEAST_POINTS)
        return TMK_NOTFOUND;
    struct tmk_link_fit fit = {.n = (uint32_t)channels, .points = n * channels};
    fit.scale = calloc(channels, sizeof *fit.scale);
    fit.shift = calloc(channels, sizeof *fit.shift);
    fit.seen = calloc(channels, sizeof *fit.seen);
    bool there = fit.scale && fit.shift && fit.seen,
         fits = there && fit_all(x, y, n, &fit) && !is_nearly_same(y, n, &fit);
    if (!fits) {
        tmk_link_fit_finish(&fit);
        return there ? TMK_NOTFOUND : tmk_nomem(diag);
    }
    collapse_fit(x, y, n, &fit);
    *out = fit;
    return TMK_OK;
}

void tmk_link_fit_finish(struct tmk_link_fit *fit) {
    free(fit->scale);
    free(fit->shift);
    free(fit->seen);
    *fit = (struct tmk_link_fit){0};
}

/* Values that are a scale and a shift away from an original that is gone. Numbers that fit are not
 * enough where the value is known to be another original: then the original's own graph must lead
 * from the one to the other by nothing but scales and shifts. A Relu that cut nothing off fits too.
 */

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

static void describe_relation(const struct tmk_choosing *c, uint32_t original,
                              const struct candidate *found, struct tmk_lineage_original *o) {
    const struct tmk_shape *a = &c->originals->all[original].shape,
                           *b = &c->values->all[found->value].shape;
    o->view = (struct tmk_lineage_view){0};
    if (found->from == found->to) {
        o->view.reshaped = !tmk_shape_equal(a, b);
        return;
    }
    o->view.rank = a->rank;
    tmk_link_permute(found->to == TMK_LINK_CHANNELS_LAST, a->rank, o->view.perm);
}

static enum tmk_status take_candidate(const struct tmk_choosing *c, uint32_t original,
                                      const struct candidate *found) {
    struct tmk_lineage_record *record = c->l->link->record;
    struct tmk_lineage_original *o = &record->originals[original];
    struct tmk_link_match *match = &c->l->link->matches[original];
    const struct tmk_link_fit *fit = &found->fit;
    double *scale = tmk_lineage_record_array(record, fit->n, sizeof *scale);
    double *shift = tmk_lineage_record_array(record, fit->n, sizeof *shift);
    TMK_TRY_ALLOC(scale && shift, c->l->diag);
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
    return from == to || tmk_link_is_permuted(&o->shape, &v->shape, to == TMK_LINK_CHANNELS_LAST);
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
        if (!fit->seen[i] && (!known || link_varies((double)summary.channel_min[i],
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

static enum tmk_status find_fit(const struct tmk_choosing *c, uint32_t original) {
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
            TMK_TRY(find_fit(c, o));
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

static bool same_named_op(const struct tmk_choosing *c, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &c->l->from->tensors[original],
                                    *v = &c->l->to->tensors[value];
    return same_bytes(c, original, value) && *o->name && strcmp(o->name, v->name) == 0 &&
           (!c->made || tmk_linking_same_op(o, v));
}

enum tmk_status tmk_link_choose_integers(const struct tmk_choosing *c) {
    enum { MOST_CANDIDATES = 16 };
    for (uint32_t o = 0; o < c->originals->n; o++)
        for (uint32_t v = 0; v < c->values->n; v++)
            if (same_named_op(c, o, v)) {
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
