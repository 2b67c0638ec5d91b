/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from one end of a lineage to the other. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lineage.h>

#include "base/diag.h"
#include "profile/format.h"

struct transfer {
    const struct tmk_profile *from;
    const struct tmk_lineage_record *lineage;
    bool back;
    struct tmk_profile *to;
    struct tmk_profile_bins bins; /* scratch */
    struct tmk_diag *diag;
};

/* ---- what a relation leaves of the statistics of one value as those of the other ---- */

/* The axis of the value here that is `axis` of the source's; -1: dissolved. */
static int32_t axis_here(const struct transfer *c, const struct tmk_lineage_view *view,
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

static bool shape_here(const struct transfer *c, const struct tmk_lineage_view *view,
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

static enum tmk_status transfer_shapes(struct transfer *c, const struct tmk_lineage_view *view,
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
static enum tmk_status transfer_state(struct transfer *c, const struct tmk_lineage_view *view,
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

static enum tmk_status transfer_equal(struct transfer *c, const struct tmk_lineage_view *view,
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
    TMK_TRY_ALLOC(t->sample_min && t->sample_max, c->diag);
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

static enum tmk_status line_of(const struct transfer *c, const struct tmk_lineage_original *o,
                               struct line *out) {
    const struct tmk_lineage_affine *a = &o->affine;
    *out = (struct line){.n = a->n,
                         .axis = a->axis,
                         .scale = calloc(a->n, sizeof(double)),
                         .shift = calloc(a->n, sizeof(double))};
    TMK_TRY_ALLOC(out->scale && out->shift, c->diag);
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

static bool map_channels(const struct transfer *c, const struct tmk_lineage_view *view,
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

static bool map_line(const struct transfer *c, const struct tmk_lineage_view *view,
                     const struct line *line, const struct tmk_summary *there, struct mapped *m) {
    struct extent all = {there->min, there->max};
    m->is.level = TMK_STATS_MINMAX;
    m->is.count = there->count;
    m->is.excluded = there->excluded;
    m->is.padding = there->padding;
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

static enum tmk_status restore_extremes(struct transfer *c, const struct tmk_lineage_view *view,
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
static enum tmk_status transfer_dequantized(struct transfer *c,
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

/* Gives `t` the shapes that ran, and what the relation of `o` keeps of the source's statistics; the
 * rule too where it is a lineage's. *known false: nothing is left, and t is as it was. */
static enum tmk_status transfer_stats(struct transfer *c, const struct tmk_lineage_original *o,
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

/* ---- which original a value's statistics come from ---- */

static enum tmk_status same_value(const struct tmk_profile_tensor *t,
                                  const struct tmk_lineage_identity *is, struct tmk_diag *diag) {
    if (t->fingerprint == is->fingerprint && t->content == is->content)
        return TMK_OK;
    return tmk_fail(diag, TMK_MISMATCH,
                    "p%" PRIu32 " '%s' is not what the lineage has as p%" PRIu32 " '%s': %s", t->id,
                    t->name, t->id, is->name,
                    t->fingerprint == is->fingerprint ? "it has other weights"
                                                      : "it is another model");
}

static enum tmk_status same_end(const struct tmk_profile *profile,
                                const struct tmk_lineage_record *lineage, bool original,
                                struct tmk_diag *diag) {
    uint32_t n = original ? lineage->n_originals : lineage->n_values;
    if (profile->n_tensors != n)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s is another model: it has %" PRIu32 " values, the lineage's %s %" PRIu32,
                        profile->model.file, profile->n_tensors,
                        original ? "original" : "transformed model", n);
    for (uint32_t i = 0; i < n; i++)
        TMK_TRY(
            tmk_in(diag,
                   same_value(&profile->tensors[i],
                              original ? &lineage->originals[i].is : &lineage->values[i].is, diag),
                   "%s", profile->model.file));
    return TMK_OK;
}

/* ---- the source of a value's statistics ---- */

/* How much of the numbers a verdict keeps: less is better. */
static int loss_of(enum tmk_lineage_verdict verdict) {
    static const int losses[TMK_LINEAGE_VERDICTS] = {
        [TMK_LINEAGE_SAME] = 0,     [TMK_LINEAGE_MERGED] = 1, [TMK_LINEAGE_CONSTANT] = 2,
        [TMK_LINEAGE_VIEW] = 3,     [TMK_LINEAGE_AFFINE] = 4, [TMK_LINEAGE_QUANTIZED] = 5,
        [TMK_LINEAGE_ABSORBED] = 6, [TMK_LINEAGE_DEAD] = 6,
    };
    return losses[verdict];
}

static const struct tmk_lineage_original *source_of(const struct transfer *c, uint32_t id,
                                                    const struct tmk_profile_tensor **source) {
    if (!c->back) {
        /* The original whose verdict keeps most of the value's statistics; NULL: none. */
        const struct tmk_lineage_original *best = NULL;
        for (uint32_t i = 0; i < c->lineage->values[id].n_originals; i++) {
            const struct tmk_lineage_original *o =
                &c->lineage->originals[c->lineage->values[id].originals[i]];
            const struct tmk_profile_tensor *t =
                &c->from->tensors[c->lineage->values[id].originals[i]];
            if (!t->stats && !t->has_int_stats)
                continue;
            if (best && loss_of(o->verdict) >= loss_of(best->verdict))
                continue;
            best = o;
            *source = t;
        }
        return best;
    }
    const struct tmk_lineage_original *o = &c->lineage->originals[id];
    if (o->value < 0 || o->verdict == TMK_LINEAGE_ABSORBED)
        return NULL;
    *source = &c->from->tensors[o->value];
    return (*source)->stats || (*source)->has_int_stats ? o : NULL;
}

/* The value at the other end with exactly the numbers of `id` here; false: there is none. */
static bool equal_value_of(const struct transfer *c, uint32_t id, uint32_t *out) {
    if (!c->back) {
        const struct tmk_lineage_original *o = &c->lineage->originals[id];
        *out = (uint32_t)o->value;
        return o->verdict == TMK_LINEAGE_SAME || o->verdict == TMK_LINEAGE_MERGED;
    }
    const struct tmk_lineage_value *value = &c->lineage->values[id];
    for (uint32_t i = 0; i < value->n_originals; i++)
        if (c->lineage->originals[value->originals[i]].verdict == TMK_LINEAGE_SAME) {
            *out = value->originals[i];
            return true;
        }
    return false;
}

/* Keeps the rule by which the source's statistics were derived, if its inputs are there too. */
static enum tmk_status transfer_rule(const struct transfer *c,
                                     const struct tmk_profile_tensor *source,
                                     struct tmk_profile_tensor *t) {
    uint32_t id;
    for (uint32_t i = 0; i < source->n_sources; i++)
        if (!equal_value_of(c, source->sources[i], &id) || id == t->id)
            return TMK_OK;
    for (uint32_t i = 0; i < source->n_sources; i++)
        if (equal_value_of(c, source->sources[i], &id))
            TMK_TRY(tmk_profile_add_derivation(t, id, c->diag));
    t->rule = tmk_profile_text(c->to, source->rule);
    return t->rule ? TMK_OK : tmk_nomem(c->diag);
}

static enum tmk_status transfer_value(struct transfer *c, struct tmk_profile_tensor *t,
                                      struct tmk_transfer_report *report) {
    const struct tmk_profile_tensor *source = NULL;
    if (t->stats || t->has_int_stats) {
        report->own++;
        return TMK_OK;
    }
    const struct tmk_lineage_original *o = source_of(c, t->id, &source);
    bool known = false;
    if (o)
        TMK_TRY(transfer_stats(c, o, source, t, &known));
    if (!known) {
        report->unknown++;
        return TMK_OK;
    }
    const bool derived = tmk_profile_is_transferred(t);
    if (!derived && *source->rule)
        TMK_TRY(transfer_rule(c, source, t));
    report->derived += derived;
    report->same += !derived;
    t->status = tmk_profile_status_of(t);
    return TMK_OK;
}

enum tmk_status tmk_profile_transfer(const struct tmk_profile *from,
                                     const struct tmk_lineage_record *lineage, bool back,
                                     struct tmk_profile *to, struct tmk_transfer_report *report,
                                     struct tmk_diag *diag) {
    struct transfer c = {.from = from, .lineage = lineage, .back = back, .to = to, .diag = diag};
    struct tmk_transfer_report counts = {0};
    TMK_TRY(same_end(from, lineage, !back, diag));
    TMK_TRY(same_end(to, lineage, back, diag));
    for (uint32_t i = 0; i < from->n_sources; i++)
        TMK_TRY(tmk_profile_add_source(to, from->sources[i].input, from->sources[i].source,
                                       from->sources[i].samples, from->sources[i].hash, diag));
    for (uint32_t i = 0; i < from->n_settings; i++)
        if (strcmp(from->settings[i].key, "carried-from") != 0)
            TMK_TRY(
                tmk_profile_add_setting(to, from->settings[i].key, from->settings[i].value, diag));
    TMK_TRY(tmk_profile_add_setting(to, "carried-from", from->model.file, diag));
    for (uint32_t i = 0; i < from->n_bad; i++)
        TMK_TRY(tmk_profile_add_bad(to, from->bad[i].sample, from->bad[i].file, from->bad[i].why,
                                    diag));
    if (from->coverage.n_ranges)
        TMK_TRY(tmk_profile_set_ranges(to, from->coverage.ranges, from->coverage.n_ranges, diag));
    to->ledger = from->ledger;
    to->coverage.total = from->coverage.total;
    to->producer.name = tmk_profile_text(to, from->producer.name);
    to->producer.version = tmk_profile_text(to, from->producer.version);
    to->producer.isa = tmk_profile_text(to, from->producer.isa);
    to->producer.kernels = tmk_profile_text(to, from->producer.kernels);
    TMK_TRY_ALLOC(to->producer.name && to->producer.version && to->producer.isa &&
                      to->producer.kernels,
                  diag);
    TMK_TRY(tmk_profile_bins_init(&c.bins, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < to->n_tensors && status == TMK_OK; i++)
        status = tmk_in(diag, transfer_value(&c, &to->tensors[i], &counts), "p%" PRIu32 " '%s'",
                        to->tensors[i].id, to->tensors[i].name);
    tmk_profile_bins_finish(&c.bins);
    TMK_TRY(status);
    if (report)
        *report = counts;
    return tmk_profile_validate(to, diag);
}
