/* SPDX-License-Identifier: Apache-2.0 */
/* One value of the report, as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "calib/grid.h"
#include "calib/method.h"
#include "export/report_internal.h"

enum { BINS = 64, MOST_CHANNELS = 1024 };

/* ---- what it is ---- */

static const char *shape_text(const struct tmk_profile_tensor *t, char out[128]) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < t->n_runs; i++)
        if (t->runs[i].runs > t->runs[most].runs)
            most = i;
    if (!t->n_runs && !t->has_shape)
        return "";
    return tmk_shape_text(t->n_runs ? &t->runs[most].shape : &t->shape, out, 128);
}

static void put_place(const struct tmk_profile_tensor *t, struct tmk_json_out *out) {
    struct tmk_json_out uses = tmk_json_new_array(), operands = tmk_json_new_array();
    char shape[128];
    tmk_json_put_id(out, "id", t->id);
    tmk_json_put_text(out, "name", t->name);
    if (t->path[0])
        tmk_json_put_text(out, "path", t->path);
    tmk_json_put_text(out, "kind", tmk_profile_kind_name(t->kind));
    tmk_json_put_text(out, "status", tmk_profile_status_name(t->status));
    tmk_json_put_text(out, "dtype", tmk_dtype_name(t->dtype));
    tmk_json_put_text(out, "shape", shape_text(t, shape));
    if (t->has_producer) {
        tmk_json_put_text(out, "op", t->producer.op);
        tmk_json_put_text(out, "node", t->producer.node);
        tmk_json_put_u64(out, "output", t->producer.output);
    }
    for (uint32_t i = 0; i < t->n_consumers; i++) {
        struct tmk_json_out use = tmk_json_new_array();
        tmk_json_put_text(&use, NULL, t->consumers[i].op);
        tmk_json_put_text(&use, NULL, t->consumers[i].node);
        tmk_json_put_child(&uses, NULL, &use);
    }
    tmk_json_put_child(out, "uses", &uses);
    for (uint32_t i = 0; i < t->n_operands; i++)
        tmk_json_put_id(&operands, NULL, t->operands[i]);
    tmk_json_put_child(out, "from", &operands);
    if (t->rule[0])
        tmk_json_put_text(out, "rule", t->rule);
}

/* ---- its numbers ---- */

static void put_where(struct tmk_json_out *out, const char *key, const struct tmk_where *where) {
    if (where->sample == TMK_NOWHERE)
        return;
    struct tmk_json_out place = tmk_json_new_array();
    tmk_json_put_u64(&place, NULL, where->sample);
    if (where->index != TMK_NOWHERE)
        tmk_json_put_u64(&place, NULL, where->index);
    tmk_json_put_child(out, key, &place);
}

static void put_topk(const struct tmk_topk *topk, struct tmk_json_out *out) {
    if (!topk->n)
        return;
    for (int end = 0; end < 2; end++) {
        const struct tmk_topk_entry *top = end ? topk->max : topk->min;
        struct tmk_json_out list = tmk_json_new_array();
        for (uint32_t i = 0; i < topk->n; i++) {
            struct tmk_json_out one = tmk_json_new_array();
            tmk_json_put_float(&one, NULL, top[i].value);
            tmk_json_put_u64(&one, NULL, top[i].sample);
            tmk_json_put_child(&list, NULL, &one);
        }
        tmk_json_put_child(out, end ? "top_max" : "top_min", &list);
    }
}

static void put_channels(const struct tmk_summary *s, struct tmk_json_out *out) {
    if (!s->channels)
        return;
    struct tmk_json_out channels = tmk_json_new_object();
    const size_t n = s->channels < MOST_CHANNELS ? s->channels : MOST_CHANNELS;
    tmk_json_put_i64(&channels, "axis", s->channel_axis);
    tmk_json_put_u64(&channels, "n", s->channels);
    tmk_json_put_floats(&channels, "min", s->channel_min, n);
    tmk_json_put_floats(&channels, "max", s->channel_max, n);
    tmk_json_put_child(out, "channels", &channels);
}

static enum tmk_status put_histogram(const struct tmk_stats *stats, const struct tmk_summary *s,
                                     struct tmk_json_out *out, struct tmk_diag *diag) {
    double bins[BINS];
    if (s->level != TMK_STATS_HISTOGRAM || !s->finite || !(s->min < s->max))
        return TMK_OK;
    TMK_TRY(tmk_stats_linear(stats, false, (double)s->min, (double)s->max, BINS, bins, diag));
    struct tmk_json_out list = tmk_json_new_array();
    for (int i = 0; i < BINS; i++)
        tmk_json_put_double(&list, NULL, round(bins[i] * 100) / 100);
    tmk_json_put_child(out, "bins", &list);
    return TMK_OK;
}

/* How the range grew: the extremes of the first 1, 2, 4, ... samples. */
static void put_growth(const struct tmk_profile_tensor *t, struct tmk_json_out *out) {
    if (!t->sample_min || t->kind == TMK_PROFILE_WEIGHT)
        return;
    struct tmk_json_out list = tmk_json_new_array();
    float low = INFINITY, high = -INFINITY;
    for (uint64_t i = 0, next = 1; i < t->n_samples; i++) {
        low = fminf(low, t->sample_min[i]);
        high = fmaxf(high, t->sample_max[i]);
        if (i + 1 != next && i + 1 != t->n_samples)
            continue;
        struct tmk_json_out step = tmk_json_new_array();
        tmk_json_put_u64(&step, NULL, i + 1);
        tmk_json_put_float(&step, NULL, low);
        tmk_json_put_float(&step, NULL, high);
        tmk_json_put_child(&list, NULL, &step);
        next = i + 1 == next ? 2 * next : next;
    }
    tmk_json_put_child(out, "growth", &list);
}

static enum tmk_status put_flags(const struct tmk_profile_tensor *t, struct tmk_json_out *out,
                                 struct tmk_diag *diag) {
    struct tmk_flags flags;
    TMK_TRY(tmk_profile_flags(t, &flags, diag));
    if (t->kind == TMK_PROFILE_WEIGHT)
        return TMK_OK;
    if (flags.dead_channels)
        tmk_json_put_u64(out, "dead_channels", flags.dead_channels);
    if (flags.saturated)
        tmk_json_put_u64(out, "saturated",
                         flags.at_min > flags.at_max ? flags.at_min : flags.at_max);
    if (flags.min_is || flags.max_is)
        tmk_json_put_text(out, "sentinel", flags.min_is ? flags.min_is : flags.max_is);
    if (flags.at_spike)
        tmk_json_put_float(out, "spike", flags.spike);
    return TMK_OK;
}

static enum tmk_status put_numbers(const struct tmk_profile_tensor *t, const struct tmk_summary *s,
                                   struct tmk_json_out *out, struct tmk_diag *diag) {
    tmk_json_put_u64(out, "count", s->count);
    tmk_json_put_float(out, "min", s->min);
    tmk_json_put_float(out, "max", s->max);
    tmk_json_put_double(out, "mean", s->mean);
    tmk_json_put_double(out, "std", s->std);
    if (!tmk_summary_std_is_close(s)) {
        tmk_json_put_double(out, "std_low", s->std_lo);
        tmk_json_put_double(out, "std_high", s->std_hi);
    }
    tmk_json_put_u64(out, "zeros", s->zeros);
    if (s->nan)
        tmk_json_put_u64(out, "nan", s->nan);
    if (s->posinf + s->neginf)
        tmk_json_put_u64(out, "inf", s->posinf + s->neginf);
    if (t->kind != TMK_PROFILE_WEIGHT) {
        put_where(out, "min_at", &s->min_at);
        put_where(out, "max_at", &s->max_at);
        put_topk(&t->topk, out);
    }
    put_channels(s, out);
    put_growth(t, out);
    TMK_TRY(put_histogram(t->stats, s, out, diag));
    return put_flags(t, out, diag);
}

/* ---- what would become of it ---- */

static void put_choice(struct tmk_json_out *list, const char *name, double low, double high,
                       const struct tmk_expectation *e) {
    struct tmk_json_out one = tmk_json_new_object();
    tmk_json_put_text(&one, "method", name);
    tmk_json_put_float(&one, "low", (float)low);
    tmk_json_put_float(&one, "high", (float)high);
    tmk_json_put_double(&one, "sqnr", isfinite(e->sqnr) ? round(e->sqnr * 100) / 100 : NAN);
    tmk_json_put_double(&one, "clipped", e->clipped);
    tmk_json_put_child(list, NULL, &one);
}

/* Every method at 8 bits, or every one that does not search. */
static enum tmk_status put_methods(const struct tmk_report_item *item, struct tmk_json_out *out,
                                   struct tmk_diag *diag) {
    const struct tmk_profile_tensor *t = item->tensor;
    const bool weight = t->kind == TMK_PROFILE_WEIGHT;
    const struct tmk_grid grid = {weight ? TMK_INT8 : TMK_UINT8, weight, weight, false};
    struct tmk_spread spread = {0};
    struct tmk_json_out list = tmk_json_new_array();
    enum tmk_status status =
        tmk_spread_make((const struct tmk_stats *const[]){t->stats}, 1, &spread, diag);
    if (status == TMK_OK && !tmk_spread_take_topk(&spread, item->profile, t))
        spread.topk.n = 0;
    for (const struct tmk_method *const *m = tmk_method_list(); status == TMK_OK && *m; m++) {
        struct tmk_clip_choice choice;
        struct tmk_expectation expected;
        float scale;
        int32_t zero;
        if ((*m)->searches && !item->searched)
            continue;
        enum tmk_status chosen = (*m)->choose(&spread, &grid, (*m)->parameter, &choice, NULL);
        if (chosen == TMK_NOMEM)
            status = tmk_nomem(diag);
        if (chosen != TMK_OK ||
            tmk_grid_fit(&grid, choice.low, choice.high, &scale, &zero, NULL) != TMK_OK)
            continue; /* it wants what this profile does not hold */
        tmk_expect(&spread, &grid, scale, zero, &expected);
        put_choice(&list, (*m)->name, (double)choice.low, (double)choice.high, &expected);
    }
    tmk_spread_finish(&spread);
    tmk_json_put_child(out, "methods", &list);
    return status;
}

static void put_encodings(const struct tmk_report_item *item, struct tmk_json_out *out) {
    const struct tmk_encoding *e = tmk_encodings_find(item->encodings, item->tensor->id, NULL, 0);
    struct tmk_json_out one = tmk_json_new_object();
    if (e) {
        tmk_json_put_text(&one, "dtype", tmk_dtype_name(e->dtype));
        tmk_json_put_text(&one, "method", e->method);
        tmk_json_put_text(&one, "rule", e->rule);
        tmk_json_put_u64(&one, "n", e->n);
        tmk_json_put_float(&one, "low", e->clip_min[0]);
        tmk_json_put_float(&one, "high", e->clip_max[0]);
        tmk_json_put_float(&one, "scale", e->scale[0]);
        tmk_json_put_i64(&one, "zero_point", e->zero_point[0]);
        if (e->expected.known && isfinite(e->expected.sqnr))
            tmk_json_put_double(&one, "sqnr", round(e->expected.sqnr * 100) / 100);
    }
    if (!e && item->left)
        tmk_json_put_text(&one, "float", item->left);
    tmk_json_put_child(out, "encoding", &one);
}

static void put_drift(const struct tmk_diff_item *item, struct tmk_json_out *out) {
    struct tmk_json_out one = tmk_json_new_object();
    if (item->ranged) {
        tmk_json_put_double(&one, "share", isfinite(item->range.share) ? item->range.share : NAN);
        tmk_json_put_float(&one, "min", (float)item->range.low_b);
        tmk_json_put_float(&one, "max", (float)item->range.high_b);
    }
    if (item->distance >= 0)
        tmk_json_put_double(&one, "distance", item->distance);
    tmk_json_put_text(&one, "change", item->change);
    tmk_json_put_child(out, "drift", &one);
}

enum tmk_status tmk_report_value(const struct tmk_report_item *item, struct tmk_json_out *out,
                                 struct tmk_diag *diag) {
    const struct tmk_profile_tensor *tensor = item->tensor;
    struct tmk_summary s;
    put_place(tensor, out);
    if (tensor->stats) {
        tmk_stats_summary(tensor->stats, &s);
        TMK_TRY(put_numbers(tensor, &s, out, diag));
        if (s.level == TMK_STATS_HISTOGRAM && s.finite && s.min < s.max)
            TMK_TRY(put_methods(item, out, diag));
    } else if (tensor->has_int_stats && tensor->int_stats.count) {
        tmk_json_put_u64(out, "count", tensor->int_stats.count);
        tmk_json_put_i64(out, "min", tensor->int_stats.min);
        tmk_json_put_i64(out, "max", tensor->int_stats.max);
        tmk_json_put_u64(out, "zeros", tensor->int_stats.zeros);
    }
    if (item->encodings)
        put_encodings(item, out);
    if (item->drift)
        put_drift(item->drift, out);
    return TMK_OK;
}
