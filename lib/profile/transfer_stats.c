/* SPDX-License-Identifier: Apache-2.0 */
/* What the relation between two values leaves of the statistics of one as those of the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "profile/transfer.h"

/* ---- shapes ---- */

/* The axis of the value here that is `axis` of the source's; -1: dissolved. */
static int32_t axis_here(const struct tmk_transfer *c, const struct tmk_lineage_view *view,
                         int32_t axis) {
    if (view->reshaped)
        return -1;
    if (view->rank == 0)
        return axis;
    if (axis < 0 || axis >= view->rank)
        return -1;
    for (int32_t i = 0; i < view->rank && !c->back; i++)
        if (view->perm[i] == axis)
            return i;
    return view->perm[axis];
}

/* Fills the one size that is not known, so that there are `elements`; false: it can't be. */
static bool fit_shape(struct tmk_shape *shape, size_t elements) {
    int32_t unknown = -1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] >= 0)
            continue;
        if (unknown >= 0)
            return false;
        unknown = i;
        shape->dim[i] = 1;
    }
    size_t rest;
    if (!tmk_shape_count(shape, &rest))
        return false;
    if (unknown >= 0 && rest && elements % rest == 0)
        shape->dim[unknown] = (int64_t)(elements / rest);
    return tmk_shape_count(shape, &rest) && rest == elements;
}

static bool shape_here(const struct tmk_transfer *c, const struct tmk_lineage_view *view,
                       const struct tmk_profile_tensor *t, const struct tmk_shape *from,
                       struct tmk_shape *out) {
    if (view->reshaped) {
        size_t elements;
        *out = t->shape;
        return t->has_shape && tmk_shape_count(from, &elements) && fit_shape(out, elements);
    }
    *out = *from;
    if (view->rank && view->rank != from->rank)
        return false;
    for (int32_t i = 0; i < view->rank; i++)
        out->dim[axis_here(c, view, i)] = from->dim[i];
    return true;
}

static enum tmk_status transfer_shapes(struct tmk_transfer *c, const struct tmk_lineage_view *view,
                                       const struct tmk_profile_tensor *source, uint64_t times,
                                       struct tmk_profile_tensor *t) {
    bool all = !source->more_runs, fits = true;
    for (uint32_t i = 0; i < source->n_runs && fits; i++) {
        struct tmk_shape shape;
        uint64_t runs;
        fits = !__builtin_mul_overflow(source->runs[i].runs, times, &runs);
        if (!shape_here(c, view, t, &source->runs[i].shape, &shape))
            all = false;
        else if (fits)
            TMK_TRY(tmk_profile_add_runs(t, &shape, runs, c->diag));
    }
    if (!fits || __builtin_mul_overflow(source->expected_count, times, &t->expected_count))
        return tmk_fail(c->diag, TMK_RANGE, "more elements than can be counted");
    t->more_runs = t->more_runs || !all;
    return TMK_OK;
}

/* ---- equal numbers ---- */

static void forget_index(struct tmk_where *at) {
    at->index = TMK_NOWHERE;
}

/* The source's state, seen through the view. */
static enum tmk_status transfer_state(struct tmk_transfer *c, const struct tmk_lineage_view *view,
                                      const struct tmk_profile_tensor *source,
                                      struct tmk_profile_tensor *t) {
    struct tmk_summary is;
    tmk_stats_summary(source->stats, &is);
    tmk_stats_bins(source->stats, c->bins.bin, c->bins.count, c->bins.low);
    is.squares = tmk_stats_squares(source->stats, c->bins.squares) ? c->bins.squares : NULL;
    if (view->reshaped || view->rank) {
        forget_index(&is.min_at);
        forget_index(&is.max_at);
        forget_index(&is.first_nonfinite);
        is.channel_axis = is.channels ? axis_here(c, view, is.channel_axis) : -1;
        if (is.channel_axis < 0) {
            is.channels = 0;
            is.channel_conflict = false;
        }
    }
    return tmk_stats_restore(&is, c->bins.bin, c->bins.count, c->bins.low, &t->stats, c->diag);
}

static void transfer_integers(const struct tmk_lineage_view *view,
                              const struct tmk_profile_tensor *source,
                              struct tmk_profile_tensor *t) {
    t->has_int_stats = true;
    t->int_stats = source->int_stats;
    if (view->reshaped || view->rank) {
        forget_index(&t->int_stats.min_at);
        forget_index(&t->int_stats.max_at);
    }
}

static enum tmk_status multiply_counts(struct tmk_profile_tensor *t, uint64_t times,
                                       struct tmk_diag *diag) {
    if (t->has_int_stats) {
        const struct tmk_int_stats once = t->int_stats;
        t->int_stats = (struct tmk_int_stats){0};
        return tmk_int_stats_merge_times(&t->int_stats, &once, times, diag);
    }
    struct tmk_stats *all = NULL;
    TMK_TRY(tmk_stats_create(tmk_stats_level_of(t->stats), &all, diag));
    enum tmk_status status = tmk_stats_merge_times(all, t->stats, times, diag);
    tmk_stats_destroy(&t->stats);
    t->stats = all;
    return status;
}

static enum tmk_status transfer_equal(struct tmk_transfer *c, const struct tmk_lineage_view *view,
                                      const struct tmk_profile_tensor *source,
                                      struct tmk_profile_tensor *t) {
    /* Initializers are counted once, what a node of the main graph makes of them once a batch. */
    bool once = source->kind == TMK_PROFILE_WEIGHT && !source->has_producer;
    const uint64_t times = once && t->has_producer && !*t->path ? c->from->ledger.batches : 1;
    TMK_TRY(transfer_shapes(c, view, source, times, t));
    t->dtype = source->dtype;
    t->origin = source->origin;
    if (source->has_int_stats)
        transfer_integers(view, source, t);
    else
        TMK_TRY(transfer_state(c, view, source, t));
    if (times > 1)
        TMK_TRY(multiply_counts(t, times, c->diag));
    const size_t n = (size_t)source->n_samples;
    if (t->kind == TMK_PROFILE_WEIGHT)
        return TMK_OK;
    t->topk = source->topk;
    if (!source->sample_min)
        return TMK_OK;
    t->sample_min = calloc(n + 1, sizeof(float));
    t->sample_max = calloc(n + 1, sizeof(float));
    if (!t->sample_min || !t->sample_max)
        return tmk_nomem(c->diag);
    memcpy(t->sample_min, source->sample_min, n * sizeof(float));
    memcpy(t->sample_max, source->sample_max, n * sizeof(float));
    t->n_samples = source->n_samples;
    return TMK_OK;
}

/* ---- other numbers ---- */

struct extent {
    float min, max; /* +inf, -inf: nothing */
};

/* A float that is no negative zero. Too large ones are the largest: the run that would have shown
 * it has made an infinity of them, which is no range. */
static float as_float(double value) {
    const double most = 0x1.fffffep127;
    return (float)(value > most ? most : value < -most ? -most : value) + 0.0f;
}

static struct extent map_extent(struct extent from, double scale, double shift) {
    if (!(from.min <= from.max))
        return from;
    float a = as_float(scale * (double)from.min + shift),
          b = as_float(scale * (double)from.max + shift);
    return a <= b ? (struct extent){a, b} : (struct extent){b, a};
}

/* numbers here = scale * numbers there + shift, one each or by channels of the value here. */
struct line {
    uint32_t n;
    int32_t axis;
    double *scale, *shift; /* owned; scale NAN: the original numbers are unknown */
};

static enum tmk_status line_of(const struct tmk_transfer *c, const struct tmk_lineage_original *o,
                               struct line *out) {
    const struct tmk_lineage_affine *a = &o->affine;
    *out = (struct line){.n = a->n,
                         .axis = a->axis,
                         .scale = calloc(a->n, sizeof(double)),
                         .shift = calloc(a->n, sizeof(double))};
    if (!out->scale || !out->shift)
        return tmk_nomem(c->diag);
    for (uint32_t i = 0; i < a->n; i++) {
        out->scale[i] = c->back ? 1 / a->scale[i] : a->scale[i];
        out->shift[i] = c->back ? -a->shift[i] / a->scale[i] : a->shift[i];
        if (c->back && a->scale[i] == 0)
            out->scale[i] = NAN;
    }
    if (c->back && a->n > 1)
        out->axis = axis_here(c, &o->view, a->axis);
    return TMK_OK;
}

/* What a state of extremes alone holds. */
struct mapped {
    struct tmk_summary is;
    float *min, *max; /* owned; is.channels of them */
    bool part;        /* some channels are unknown */
};

/* How NaN and infinities come over: only when every scale has one sign. */
static bool map_nonfinite(const struct line *line, struct mapped *m) {
    bool up = true, down = true;
    for (uint32_t i = 0; i < line->n; i++) {
        up = up && line->scale[i] > 0;
        down = down && line->scale[i] < 0;
    }
    if (m->is.posinf + m->is.neginf == 0 || up)
        return true;
    uint64_t posinf = m->is.posinf;
    m->is.posinf = m->is.neginf;
    m->is.neginf = posinf;
    return down;
}

static bool map_channels(const struct tmk_transfer *c, const struct tmk_lineage_view *view,
                         const struct line *line, const struct tmk_summary *there, struct mapped *m,
                         struct extent *all) {
    const int32_t axis = there->channels ? axis_here(c, view, there->channel_axis) : -1;
    if (axis < 0 || (line->n > 1 && (axis != line->axis || there->channels != line->n)))
        return false;
    m->is.channels = there->channels;
    m->is.channel_axis = axis;
    *all = (struct extent){INFINITY, -INFINITY};
    for (size_t i = 0; i < there->channels; i++) {
        const size_t k = line->n == 1 ? 0 : i;
        struct extent e = {there->channel_min[i], there->channel_max[i]};
        if (isnan(line->scale[k])) {
            m->part = true;
            e = (struct extent){INFINITY, -INFINITY};
        } else {
            e = map_extent(e, line->scale[k], line->shift[k]);
        }
        m->min[i] = e.min;
        m->max[i] = e.max;
        all->min = e.min < all->min ? e.min : all->min;
        all->max = e.max > all->max ? e.max : all->max;
    }
    return true;
}

static bool map_line(const struct tmk_transfer *c, const struct tmk_lineage_view *view,
                     const struct line *line, const struct tmk_summary *there, struct mapped *m) {
    struct extent all = {there->min, there->max};
    m->is.level = TMK_STATS_MINMAX;
    m->is.count = there->count;
    m->is.excluded = there->excluded;
    m->is.nan = there->nan;
    m->is.posinf = there->posinf;
    m->is.neginf = there->neginf;
    m->is.samples = there->samples;
    m->is.updates = there->updates;
    m->is.channel_axis = -1;
    m->is.min_at = m->is.max_at = (struct tmk_where){TMK_NOWHERE, TMK_NOWHERE};
    m->is.first_nonfinite = there->first_nonfinite;
    if (!map_nonfinite(line, m))
        return false;
    if (!map_channels(c, view, line, there, m, &all)) {
        if (line->n > 1 || isnan(line->scale[0]))
            return false;
        all = map_extent(all, line->scale[0], line->shift[0]);
    }
    if (!(all.min <= all.max) && there->finite)
        return false; /* no channel is known */
    m->is.min = all.min;
    m->is.max = all.max;
    /* Zeros that are proven: all of them where nothing else is in the range, the extremes else. */
    const uint64_t finite = m->is.count - m->is.nan - m->is.posinf - m->is.neginf - m->is.excluded;
    m->is.zeros = all.min == 0 && all.max == 0 ? finite : all.min == 0 || all.max == 0;
    m->is.negative_zeros = 0;
    if (m->is.channels) {
        m->is.channel_min = m->min;
        m->is.channel_max = m->max;
    }
    return true;
}

static enum tmk_status restore_extremes(struct tmk_transfer *c, const struct tmk_lineage_view *view,
                                        const struct mapped *m, const char *rule,
                                        const struct tmk_profile_tensor *source,
                                        struct tmk_profile_tensor *t) {
    TMK_TRY(tmk_stats_restore(&m->is, c->bins.bin, c->bins.count, c->bins.low, &t->stats, c->diag));
    t->dtype = t->origin = TMK_FLOAT32;
    if (t->kind != TMK_PROFILE_WEIGHT)
        t->rule = rule;
    return transfer_shapes(c, view, source, 1, t);
}

/* ---- integers and the numbers that they represent ---- */

/* The real numbers of integers: original = scale * (value - zero point). */
static enum tmk_status transfer_dequantized(struct tmk_transfer *c,
                                            const struct tmk_lineage_original *o,
                                            const struct tmk_profile_tensor *source,
                                            struct tmk_profile_tensor *t, bool *known) {
    const struct tmk_int_stats *ints = &source->int_stats;
    double scale = o->quantized.scale[0], shift = -scale * (double)o->quantized.zero_point[0];
    struct line line = {1, 0, &scale, &shift};
    struct mapped m = {0};
    /* 8 and 16 bits, as floats exactly */
    const int64_t most = INT64_C(1) << 24;
    if (!source->has_int_stats || o->quantized.n != 1 || !ints->count || ints->min < -most ||
        ints->max > most)
        return TMK_OK;
    const struct tmk_summary there = {.count = ints->count,
                                      .finite = ints->count,
                                      .samples = ints->samples,
                                      .updates = ints->updates,
                                      .min = (float)ints->min,
                                      .max = (float)ints->max,
                                      .channel_axis = -1,
                                      .first_nonfinite = {TMK_NOWHERE, TMK_NOWHERE}};
    if (!map_line(c, &o->view, &line, &there, &m))
        return TMK_OK;
    *known = true;
    return restore_extremes(c, &o->view, &m, "lineage:quantized", source, t);
}

enum tmk_status tmk_transfer_stats(struct tmk_transfer *c, const struct tmk_lineage_original *o,
                                   const struct tmk_profile_tensor *source,
                                   struct tmk_profile_tensor *t, bool *known) {
    if (o->affine.n) {
        struct tmk_summary there;
        struct line line;
        struct mapped m = {0};
        if (!source->stats)
            return TMK_OK;
        tmk_stats_summary(source->stats, &there);
        m.min = calloc(there.channels + 1, sizeof(float));
        m.max = calloc(there.channels + 1, sizeof(float));
        enum tmk_status status = line_of(c, o, &line);
        if (status == TMK_OK && (!m.min || !m.max))
            status = tmk_nomem(c->diag);
        if (status == TMK_OK && map_line(c, &o->view, &line, &there, &m)) {
            status = restore_extremes(c, &o->view, &m,
                                      m.part ? "lineage:affine-part" : "lineage:affine", source, t);
            *known = true;
        }
        free(line.scale);
        free(line.shift);
        free(m.min);
        free(m.max);
        return status;
    }
    if (o->quantized.n)
        return c->back ? transfer_dequantized(c, o, source, t, known) : TMK_OK;
    *known = true;
    return transfer_equal(c, &o->view, source, t);
}
