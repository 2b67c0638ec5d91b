/* SPDX-License-Identifier: Apache-2.0 */
/* One value of the report, as a JSON array in the order of tmk_report_columns. Pages of thousands
 * of values stay small: numbers for display have four digits, bins and channels are packed. */
#include <math.h>
#include <stdio.h>

#include "base/diag.h"
#include "calib/grid.h"
#include "calib/method.h"
#include "export/report.h"

enum { BINS = 64, CODES = 4095 };

const char *const tmk_report_columns[] = {
    "id",  "name", "kind", "status", "dtype", "shape", "op",   "node", "from",    "count", "min",
    "max", "p1",   "p99",  "mean",   "std",   "zeros", "peak", "bins", "methods", "more",  NULL};

/* Four digits: for pictures and estimates. */
static void put_short(struct tmk_json_out *out, const char *key, double value) {
    char digits[32];
    if (!isfinite(value)) {
        tmk_json_put_double(out, key, value);
        return;
    }
    snprintf(digits, sizeof digits, "%.4g", value);
    tmk_json_put(out, key, cJSON_CreateRaw(digits));
}

/* 12 bits as two letters of base64url; the page reads them. */
static void pack_code(struct tmk_text *out, double share) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned code = (unsigned)lrint(fmin(fmax(share, 0), 1) * CODES);
    tmk_text_append(out, &letters[code >> 6], 1);
    tmk_text_append(out, &letters[code & 63], 1);
}

static void put_packed(struct tmk_json_out *out, struct tmk_text *packed) {
    if (packed->failed)
        tmk_json_put(out, NULL, NULL);
    else
        tmk_json_put_text(out, NULL, packed->len ? packed->data : "");
    tmk_text_finish(packed);
}

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
    struct tmk_json_out operands = tmk_json_new_array();
    char shape[128];
    tmk_json_put_u64(out, NULL, t->id);
    tmk_json_put_text(out, NULL, t->name);
    tmk_json_put_u64(out, NULL, t->kind);
    tmk_json_put_u64(out, NULL, t->status);
    tmk_json_put_text(out, NULL, tmk_dtype_name(t->dtype));
    tmk_json_put_text(out, NULL, shape_text(t, shape));
    tmk_json_put_text(out, NULL, t->has_producer ? t->producer.op : "");
    tmk_json_put_text(out, NULL, t->has_producer ? t->producer.node : "");
    for (uint32_t i = 0; i < t->n_operands; i++)
        tmk_json_put_u64(&operands, NULL, t->operands[i]);
    tmk_json_put_child(out, NULL, &operands);
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
    for (int end = 0; topk->n && end < 2; end++) {
        const struct tmk_topk_entry *top = end ? topk->max : topk->min;
        struct tmk_json_out list = tmk_json_new_array();
        for (uint32_t i = 0; i < topk->n; i++) {
            struct tmk_json_out one = tmk_json_new_array();
            put_short(&one, NULL, (double)top[i].value);
            tmk_json_put_u64(&one, NULL, top[i].sample);
            tmk_json_put_child(&list, NULL, &one);
        }
        tmk_json_put_child(out, end ? "top_max" : "top_min", &list);
    }
}

/* Min and max of groups of neighbouring channels, as codes between the min and the max of all; a
 * group without finite numbers has a min above its max. */
static void put_channels(const struct tmk_summary *s, size_t most, struct tmk_json_out *out) {
    if (s->channels < 2 || !(s->min < s->max))
        return;
    const size_t n = s->channels < most ? s->channels : most;
    const double span = (double)s->max - (double)s->min;
    struct tmk_text packed = {0};
    struct tmk_json_out channels = tmk_json_new_array();
    for (size_t i = 0; i < n; i++) {
        float low = INFINITY, high = -INFINITY;
        for (size_t c = i * s->channels / n; c < (i + 1) * s->channels / n; c++) {
            low = fminf(low, s->channel_min[c]);
            high = fmaxf(high, s->channel_max[c]);
        }
        pack_code(&packed, ((double)low - (double)s->min) / span);
        pack_code(&packed, ((double)high - (double)s->min) / span);
    }
    tmk_json_put_i64(&channels, NULL, s->channel_axis);
    tmk_json_put_u64(&channels, NULL, s->channels);
    put_packed(&channels, &packed);
    tmk_json_put_child(out, "channels", &channels);
}

static enum tmk_status put_percentiles(const struct tmk_stats *stats, struct tmk_json_out *out,
                                       struct tmk_diag *diag) {
    double low, high, mid;
    TMK_TRY(tmk_stats_quantile(stats, 0.01, false, &low, &high, &mid, diag));
    put_short(out, NULL, mid);
    TMK_TRY(tmk_stats_quantile(stats, 0.99, false, &low, &high, &mid, diag));
    put_short(out, NULL, mid);
    return TMK_OK;
}

/* The highest bin, and the logarithm of each against it: small counts stay visible. */
static enum tmk_status put_histogram(const struct tmk_stats *stats, const struct tmk_summary *s,
                                     struct tmk_json_out *out, struct tmk_diag *diag) {
    double bins[BINS], most = 1;
    struct tmk_text packed = {0};
    TMK_TRY(tmk_stats_linear(stats, false, (double)s->min, (double)s->max, BINS, bins, diag));
    for (int i = 0; i < BINS; i++)
        most = fmax(most, bins[i]);
    for (int i = 0; i < BINS; i++)
        pack_code(&packed, log1p(bins[i]) / log1p(most));
    put_short(out, NULL, most);
    put_packed(out, &packed);
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
        put_short(&step, NULL, (double)low);
        put_short(&step, NULL, (double)high);
        tmk_json_put_child(&list, NULL, &step);
        next = i + 1 == next ? 2 * next : next;
    }
    tmk_json_put_child(out, "growth", &list);
}

static void put_flags(const struct tmk_profile_tensor *t, struct tmk_json_out *out) {
    const struct tmk_flags flags = tmk_profile_flags(t);
    if (t->kind == TMK_PROFILE_WEIGHT)
        return;
    if (flags.dead_channels)
        tmk_json_put_u64(out, "dead_channels", flags.dead_channels);
    if (flags.saturated)
        tmk_json_put_u64(out, "saturated",
                         flags.at_min > flags.at_max ? flags.at_min : flags.at_max);
    if (flags.min_is || flags.max_is)
        tmk_json_put_text(out, "sentinel", flags.min_is ? flags.min_is : flags.max_is);
    if (flags.at_spike)
        put_short(out, "spike", (double)flags.spike);
}

/* The columns from count to bins. */
static enum tmk_status put_numbers(const struct tmk_profile_tensor *t, const struct tmk_summary *s,
                                   struct tmk_json_out *out, struct tmk_diag *diag) {
    const bool spread = s->level == TMK_STATS_HISTOGRAM && s->finite && s->min < s->max;
    tmk_json_put_u64(out, NULL, s->count);
    tmk_json_put_float(out, NULL, s->min);
    tmk_json_put_float(out, NULL, s->max);
    if (spread)
        TMK_TRY(put_percentiles(t->stats, out, diag));
    for (int i = 0; !spread && i < 2; i++)
        put_short(out, NULL, NAN);
    put_short(out, NULL, s->mean);
    put_short(out, NULL, s->std);
    tmk_json_put_u64(out, NULL, s->zeros);
    if (spread)
        return put_histogram(t->stats, s, out, diag);
    put_short(out, NULL, NAN);
    tmk_json_put_text(out, NULL, "");
    return TMK_OK;
}

static void put_integers(const struct tmk_profile_tensor *t, struct tmk_json_out *out) {
    const bool seen = t->has_int_stats && t->int_stats.count;
    if (seen) {
        tmk_json_put_u64(out, NULL, t->int_stats.count);
        tmk_json_put_i64(out, NULL, t->int_stats.min);
        tmk_json_put_i64(out, NULL, t->int_stats.max);
    }
    for (int i = seen ? 3 : 0; i < 9; i++)
        if (seen && i == 7)
            tmk_json_put_u64(out, NULL, t->int_stats.zeros);
        else
            put_short(out, NULL, NAN);
}

/* What few values have. */
static void put_rest(const struct tmk_report_item *item, const struct tmk_summary *s,
                     struct tmk_json_out *out) {
    const struct tmk_profile_tensor *t = item->tensor;
    if (!tmk_summary_std_is_close(s)) {
        tmk_json_put_double(out, "std_low", s->std_lo);
        tmk_json_put_double(out, "std_high", s->std_hi);
    }
    if (s->nan)
        tmk_json_put_u64(out, "nan", s->nan);
    if (s->posinf)
        tmk_json_put_u64(out, "posinf", s->posinf);
    if (s->neginf)
        tmk_json_put_u64(out, "neginf", s->neginf);
    if (item->begins)
        tmk_json_put_u64(out, "begins", 1);
    if (t->kind != TMK_PROFILE_WEIGHT) {
        put_where(out, "min_at", &s->min_at);
        put_where(out, "max_at", &s->max_at);
        if (item->topk)
            put_topk(&t->topk, out);
    }
    put_channels(s, item->most_channels, out);
    put_growth(t, out);
    put_flags(t, out);
}

/* ---- what would become of it ---- */

/* Five numbers: position in the list of methods, low, high, decibels, share of clipped elements. */
static void put_choice(struct tmk_json_out *list, unsigned method, double low, double high,
                       const struct tmk_expectation *e) {
    tmk_json_put_u64(list, NULL, method);
    put_short(list, NULL, low);
    put_short(list, NULL, high);
    tmk_json_put_double(list, NULL, isfinite(e->sqnr) ? round(e->sqnr * 10) / 10 : NAN);
    put_short(list, NULL, e->clipped);
}

/* Every method at 8 bits, or every one that does not search. */
static enum tmk_status put_methods(const struct tmk_report_item *item, struct tmk_json_out *list,
                                   struct tmk_diag *diag) {
    const struct tmk_profile_tensor *t = item->tensor;
    const bool weight = t->kind == TMK_PROFILE_WEIGHT;
    const struct tmk_grid grid = {weight ? TMK_INT8 : TMK_UINT8, weight, weight, false};
    struct tmk_spread spread = {0};
    enum tmk_status status =
        tmk_spread_make((const struct tmk_stats *const[]){t->stats}, 1, &spread, diag);
    if (status == TMK_OK && !tmk_spread_take_topk(&spread, item->profile, t))
        spread.topk.n = 0;
    for (unsigned i = 0; status == TMK_OK && tmk_method_list()[i]; i++) {
        const struct tmk_method *m = tmk_method_list()[i];
        struct tmk_clip_choice choice;
        struct tmk_expectation expected;
        float scale;
        int32_t zero;
        if (m->searches && !item->searched)
            continue;
        enum tmk_status chosen = m->choose(&spread, &grid, m->parameter, &choice, NULL);
        if (chosen == TMK_NOMEM)
            status = tmk_nomem(diag);
        if (chosen != TMK_OK ||
            tmk_grid_fit(&grid, choice.low, choice.high, &scale, &zero, NULL) != TMK_OK)
            continue; /* it wants what this profile does not hold */
        tmk_expect(&spread, &grid, scale, zero, &expected);
        put_choice(list, i, (double)choice.low, (double)choice.high, &expected);
    }
    tmk_spread_finish(&spread);
    return status;
}

static void put_encodings(const struct tmk_report_item *item, struct tmk_json_out *out) {
    const struct tmk_encoding *e = tmk_encodings_find(item->encodings, item->tensor->id, NULL, 0);
    struct tmk_json_out one = tmk_json_new_object();
    if (e) {
        tmk_json_put_text(&one, "dtype", tmk_dtype_name(e->dtype));
        tmk_json_put_text(&one, "method", e->method);
        if (e->rule[0])
            tmk_json_put_text(&one, "rule", e->rule);
        tmk_json_put_u64(&one, "n", e->n);
        put_short(&one, "low", (double)e->clip_min[0]);
        put_short(&one, "high", (double)e->clip_max[0]);
        tmk_json_put_float(&one, "scale", e->scale[0]);
        tmk_json_put_i64(&one, "zero_point", e->zero_point[0]);
        if (e->expected.known && isfinite(e->expected.sqnr))
            tmk_json_put_double(&one, "sqnr", round(e->expected.sqnr * 10) / 10);
    }
    if (!e && item->left)
        tmk_json_put_text(&one, "float", item->left);
    tmk_json_put_child(out, "encoding", &one);
}

/* Of each earlier profile: [min, max, distance of the histograms, share of the range that moved,
 * change], or null. */
static void put_line(const struct tmk_report_item *item, struct tmk_json_out *out) {
    struct tmk_json_out line = tmk_json_new_array();
    for (size_t i = 0; i < item->n_earlier; i++) {
        const struct tmk_diff_item *d = item->earlier[i];
        struct tmk_json_out one = tmk_json_new_array();
        if (d) {
            tmk_json_put_float(&one, NULL, d->ranged ? (float)d->range.low_a : NAN);
            tmk_json_put_float(&one, NULL, d->ranged ? (float)d->range.high_a : NAN);
            put_short(&one, NULL, d->distance >= 0 ? d->distance : NAN);
            put_short(&one, NULL, d->ranged ? d->range.share : NAN);
            tmk_json_put_text(&one, NULL, d->change);
        }
        tmk_json_put_child(&line, NULL, &one);
    }
    tmk_json_put_child(out, "line", &line);
}

enum tmk_status tmk_report_value(const struct tmk_report_item *item, struct tmk_json_out *out,
                                 struct tmk_diag *diag) {
    const struct tmk_profile_tensor *tensor = item->tensor;
    struct tmk_json_out more = tmk_json_new_object(), methods = tmk_json_new_array();
    struct tmk_summary s;
    enum tmk_status status = TMK_OK;
    put_place(tensor, out);
    if (tensor->stats) {
        tmk_stats_summary(tensor->stats, &s);
        status = put_numbers(tensor, &s, out, diag);
        if (status == TMK_OK && s.level == TMK_STATS_HISTOGRAM && s.finite && s.min < s.max)
            status = put_methods(item, &methods, diag);
        put_rest(item, &s, &more);
    } else
        put_integers(tensor, out);
    tmk_json_put_child(out, NULL, &methods);
    if (tensor->path[0])
        tmk_json_put_text(&more, "path", tensor->path);
    if (tensor->rule[0])
        tmk_json_put_text(&more, "rule", tensor->rule);
    if (item->attributes)
        tmk_json_put_text(&more, "attributes", item->attributes);
    if (item->encodings)
        put_encodings(item, &more);
    if (item->n_earlier)
        put_line(item, &more);
    tmk_json_put_child(out, NULL, &more);
    return status;
}
