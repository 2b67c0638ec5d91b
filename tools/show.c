/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"

/* ---- pieces of text ---- */

/* Of those that ran, the one that ran most often: the last batch may be a smaller one. */
static void shape_text(const struct tmk_profile_tensor *tensor, char *out, size_t size) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < tensor->n_runs; i++)
        if (tensor->runs[i].runs > tensor->runs[most].runs)
            most = i;
    if (tensor->n_runs)
        tmk_shape_text(&tensor->runs[most].shape, out, size);
    else if (tensor->has_shape)
        tmk_shape_text(&tensor->shape, out, size);
    else
        snprintf(out, size, "?");
    if (tensor->n_runs > 1 && strlen(out) + 4 < size)
        strcat(out, " …");
}

void draw_sparkline(const struct tmk_stats *stats, double lo, double hi, char out[SPARK_BYTES]) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double cells[SPARK_CELLS], most = 0;
    out[0] = '\0';
    if (!(lo < hi) || tmk_stats_linear(stats, false, lo, hi, SPARK_CELLS, cells, NULL) != TMK_OK)
        return;
    for (int i = 0; i < SPARK_CELLS; i++)
        most = cells[i] > most ? cells[i] : most;
    for (int i = 0; i < SPARK_CELLS; i++) {
        int height = most > 0 ? (int)ceil(8 * sqrt(cells[i] / most)) : 0; /* roots show the tails */
        strcat(out, blocks[height > 8 ? 8 : height]);
    }
}

/* ---- the table ---- */

/* NULL: it was always finite. */
static const struct tmk_nonfinite *nonfinite_of(const struct tmk_nonfinite *all, uint32_t n,
                                                uint32_t id) {
    for (uint32_t i = 0; i < n; i++)
        if (all[i].id == id)
            return &all[i];
    return NULL;
}

/* What a line is marked with: N NaN or infinity begins here, n they were inherited, C constant,
 * D17 dead channels, S saturated, M an extreme as in masks, P one number between the extremes is a
 * tenth or more. */
static void marks_of(const struct tmk_profile_tensor *tensor, const struct tmk_nonfinite *nonfinite,
                     char out[32]) {
    const struct tmk_flags flags = tmk_profile_flags(tensor);
    int at = 0;
    out[0] = '\0';
    if (nonfinite)
        at += snprintf(out, 32, "%s", nonfinite->n_from ? "n" : "N");
    if (flags.constant)
        at += snprintf(out + at, 32 - (size_t)at, "C");
    else if (flags.dead_channels)
        at += snprintf(out + at, 32 - (size_t)at, "D%zu", flags.dead_channels);
    snprintf(out + at, 32 - (size_t)at, "%s%s%s", flags.saturated ? "S" : "",
             flags.min_is || flags.max_is ? "M" : "",
             flags.at_spike && !flags.saturated ? "P" : "");
}

enum { NUMBER = 11 }; /* as wide as numbers are */

enum column { ID, NAME, KIND, STATUS, SHAPE, MIN, MAX, MEAN, STD, ZEROS, MARKS, HISTOGRAM, NOTES };
static const struct table_column columns[] = {
    [ID] = {"id", 5},
    [NAME] = {"name", 40, .min = 12},
    [KIND] = {"kind", 10, .leaves = 6},
    [STATUS] = {"status", 8, .leaves = 7},
    [SHAPE] = {"shape", 20, .min = 12, .leaves = 4},
    [MIN] = {"min", NUMBER, .right = true},
    [MAX] = {"max", NUMBER, .right = true},
    [MEAN] = {"mean", NUMBER, .leaves = 2, .right = true},
    [STD] = {"std", NUMBER, .leaves = 1, .right = true},
    [ZEROS] = {"zeros", 6, .leaves = 3, .right = true},
    [MARKS] = {"marks", 6, .leaves = 8},
    [HISTOGRAM] = {"histogram", SPARK_CELLS, .leaves = 5},
    [NOTES] = {"", 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Of one line. */
struct cells {
    char text[COLUMNS][128];
};

static void put_floats(const struct tmk_stats *stats, struct cells *cells) {
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    draw_sparkline(stats, (double)s.min, (double)s.max, cells->text[HISTOGRAM]);
    if (s.finite) {
        snprintf(cells->text[MIN], 32, "%.5g", (double)s.min);
        snprintf(cells->text[MAX], 32, "%.5g", (double)s.max);
        snprintf(cells->text[MEAN], 32, "%.4g", s.mean);
        snprintf(cells->text[STD], 32, "%s%.4g", tmk_summary_std_is_close(&s) ? "" : "~", s.std);
    } else {
        for (int c = MIN; c <= STD; c++)
            snprintf(cells->text[c], 32, "-");
    }
    snprintf(cells->text[ZEROS], 32, "%.1f%%",
             s.count ? 100 * (double)s.zeros / (double)s.count : 0.0);
    if (s.nan || s.posinf || s.neginf)
        snprintf(cells->text[NOTES], 64, "%llu NaN, %llu inf", (unsigned long long)s.nan,
                 (unsigned long long)(s.posinf + s.neginf));
}

static void put_integer(int64_t value, char out[32]) {
    if (snprintf(out, 32, "%lld", (long long)value) > NUMBER)
        snprintf(out, 32, "%.5g", (double)value);
}

/* Red: it has NaN or infinity; yellow: it is dead, or partly, or saturated. */
static enum hue hue_of(const struct tmk_profile_tensor *tensor,
                       const struct tmk_nonfinite *nonfinite) {
    if (nonfinite)
        return HUE_RED;
    if (tensor->status == TMK_PROFILE_DEAD)
        return HUE_YELLOW;
    const struct tmk_flags flags = tmk_profile_flags(tensor);
    return flags.dead_channels || flags.saturated ? HUE_YELLOW : HUE_NONE;
}

static void print_line(const struct table *table, const struct tmk_profile_tensor *tensor,
                       const struct tmk_nonfinite *nonfinite) {
    struct cells cells = {0};
    const char *texts[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        texts[i] = cells.text[i];
    texts[NAME] = tensor->name;
    texts[KIND] = tmk_profile_kind_name(tensor->kind);
    texts[STATUS] = tmk_profile_status_name(tensor->status);
    snprintf(cells.text[ID], 16, "p%u", tensor->id);
    shape_text(tensor, cells.text[SHAPE], sizeof cells.text[SHAPE]);
    if (tensor->stats) {
        marks_of(tensor, nonfinite, cells.text[MARKS]);
        put_floats(tensor->stats, &cells);
    } else if (tensor->has_int_stats && tensor->int_stats.count) {
        put_integer(tensor->int_stats.min, cells.text[MIN]);
        put_integer(tensor->int_stats.max, cells.text[MAX]);
    }
    table_row(table, texts, hue_of(tensor, nonfinite));
}

/* NULL: its samples are of no one stratum. */
static const char *stratum_of(const struct tmk_profile *profile) {
    for (uint32_t i = 0; i < profile->n_settings; i++)
        if (strcmp(profile->settings[i].key, "stratum") == 0)
            return profile->settings[i].value;
    return NULL;
}

static void print_thinned(const struct tmk_profile *profile) {
    char text[512];
    if (!tmk_profile_thinned(profile, text, sizeof text))
        return;
    print_wrapped(text, 0, 0);
}

void show_table(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n) {
    struct tmk_nonfinite *nonfinite = NULL;
    uint32_t n_nonfinite = 0;
    struct table table;
    (void)!tmk_profile_nonfinite(profile, &nonfinite, &n_nonfinite, NULL);
    const char *stratum = stratum_of(profile);
    print_out("%s: %llu of %llu samples%s%s%s, %u values; --help explains the marks\n",
              profile->model.file, (unsigned long long)profile->ledger.run,
              (unsigned long long)profile->ledger.offered, stratum ? " of the stratum '" : "",
              stratum ? stratum : "", stratum ? "'" : "", profile->n_tensors);
    print_thinned(profile);
    table_begin(&table, columns, COLUMNS);
    for (uint32_t i = 0; i < n; i++)
        print_line(&table, &profile->tensors[chosen[i]],
                   nonfinite_of(nonfinite, n_nonfinite, profile->tensors[chosen[i]].id));
    free(nonfinite);
}

/* ---- one value ---- */

void print_entry(const char *label, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_wrapped(text, print_out("  %-18s ", label), 21);
}

void print_item(int *used, const char *fmt, ...) {
    char text[64];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (*used + 1 + n > 80)
        *used = print_out("\n%20s", "") - 1;
    *used += print_out(" %s", text);
}

static void print_where(const char *label, float value, struct tmk_where at) {
    print_out("  %-18s %.9g", label, (double)value);
    if (at.sample != TMK_NOWHERE)
        print_out("  (sample %llu, element %llu)", (unsigned long long)at.sample,
                  (unsigned long long)at.index);
    print_out("\n");
}

static void print_quantiles(const struct tmk_stats *stats) {
    static const double at[] = {0.0001, 0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999, 0.9999};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        double lo, hi, mid;
        if (tmk_stats_quantile(stats, at[i], false, &lo, &hi, &mid, NULL) != TMK_OK)
            return;
        print_out("  %-6g %%           %.6g  in [%.6g, %.6g]\n", at[i] * 100, mid, lo, hi);
    }
}

static void print_channels(const struct tmk_summary *s) {
    enum { MOST = 8 };
    if (!s->channels)
        return;
    print_out("  %zu channels along axis %d\n", s->channels, s->channel_axis);
    for (size_t c = 0; c < s->channels && c < MOST; c++)
        print_out("    %-6zu [%.6g, %.6g]\n", c, (double)s->channel_min[c],
                  (double)s->channel_max[c]);
    if (s->channels > MOST)
        print_out("    ... and %zu more\n", s->channels - MOST);
}

static void print_statistics(const struct tmk_stats *stats) {
    struct tmk_summary s;
    char spark[SPARK_BYTES];
    tmk_stats_summary(stats, &s);
    print_entry("count", "%llu elements in %llu samples", (unsigned long long)s.count,
                (unsigned long long)s.samples);
    if (s.finite) {
        print_where("min", s.min, s.min_at);
        print_where("max", s.max, s.max_at);
        print_entry("mean", "%.9g", s.mean);
        if (tmk_summary_std_is_close(&s))
            print_entry("std", "%.9g", s.std);
        else
            print_entry("std", "%.9g (estimated; between %.9g and %.9g)", s.std, s.std_lo,
                        s.std_hi);
        print_entry("sum", "%.17g", s.sum);
    }
    print_entry("zeros", "%llu (%llu of them -0)%s%llu negative, %llu denormal",
                (unsigned long long)s.zeros, (unsigned long long)s.negative_zeros,
                s.share ? "; of those in the histogram " : ", ", (unsigned long long)s.negatives,
                (unsigned long long)s.denormals);
    print_entry("not finite", "%llu NaN, %llu +inf, %llu -inf", (unsigned long long)s.nan,
                (unsigned long long)s.posinf, (unsigned long long)s.neginf);
    if (s.excluded)
        print_entry("excluded", "%llu", (unsigned long long)s.excluded);
    if (s.padding)
        print_entry("of them padding", "%llu", (unsigned long long)s.padding);
    if (s.first_nonfinite.sample != TMK_NOWHERE)
        print_entry("first not finite", "sample %llu, element %llu",
                    (unsigned long long)s.first_nonfinite.sample,
                    (unsigned long long)s.first_nonfinite.index);
    draw_sparkline(stats, (double)s.min, (double)s.max, spark);
    if (spark[0])
        print_out("  %-18s %s  %u bins used\n", "histogram", spark, s.bins_used);
    if (s.share)
        print_entry(
            "thinned",
            "1/%u: %llu of %llu nonzero elements are in the histogram; quantiles are off by "
            "at most %.2g in rank with 99 %% confidence (%.2g if elements of a run of 64 "
            "are the same)",
            (unsigned)s.share, (unsigned long long)s.counted,
            (unsigned long long)(s.finite - s.zeros), tmk_stats_rank_error(stats, 0.99, false),
            tmk_stats_rank_error(stats, 0.99, true));
    print_quantiles(stats);
    print_channels(&s);
}

static void print_flags(const struct tmk_profile_tensor *tensor,
                        const struct tmk_nonfinite *nonfinite) {
    if (nonfinite && !nonfinite->n_from)
        print_entry("warning", "NaN or infinity begins here: no operand had any before");
    if (nonfinite && nonfinite->n_from) {
        int used = print_out("  %-18s inherits NaN or infinity from", "warning");
        for (uint32_t i = 0; i < nonfinite->n_from; i++)
            print_item(&used, "p%u%s", nonfinite->from[i], i + 1 < nonfinite->n_from ? "," : "");
        print_out("\n");
    }
    const struct tmk_flags flags = tmk_profile_flags(tensor);
    if (flags.constant)
        print_entry("warning", "constant: one number all the time");
    if (flags.dead_channels)
        print_entry("warning", "%zu of %zu channels are 0 in all samples", flags.dead_channels,
                    flags.channels);
    if (flags.saturated)
        print_entry("warning", "saturated: at least %llu elements are min, %llu are max",
                    (unsigned long long)flags.at_min, (unsigned long long)flags.at_max);
    if (flags.min_is)
        print_entry("warning", "min is %s", flags.min_is);
    if (flags.max_is)
        print_entry("warning", "max is %s", flags.max_is);
    if (flags.at_spike)
        print_entry("warning", "at least %llu elements are %.9g",
                    (unsigned long long)flags.at_spike, (double)flags.spike);
}

/* How often it was seen: of a branch, how often that was taken; of a loop's body, all rounds
 * together. */
static void print_runs(const struct tmk_profile_tensor *tensor) {
    struct tmk_summary s = {.updates = tensor->int_stats.updates,
                            .samples = tensor->int_stats.samples};
    if (tensor->kind == TMK_PROFILE_WEIGHT)
        return;
    if (tensor->stats)
        tmk_stats_quick_summary(tensor->stats, &s);
    print_entry("seen", "%llu times in %llu samples", (unsigned long long)s.updates,
                (unsigned long long)s.samples);
}

static void print_text(const char *what, const char *text) {
    print_out("  %-18s ", what);
    put_escaped(stdout, text);
    print_out("\n");
}

/* A name that does not fit behind the rest stands on a line of its own. */
static void print_end(const char *what, const char *end, uint32_t number, const char *op,
                      const char *node) {
    const int used = print_out("  %-18s %s %u of ", what, end, number) + text_cells(op);
    put_escaped(stdout, op);
    if (used + text_cells(node) + 3 > 80)
        print_out("\n%21s'", "");
    else
        print_out(" '");
    put_escaped(stdout, node);
    print_out("'\n");
}

static void print_ends(const struct tmk_profile_tensor *tensor) {
    if (tensor->has_producer)
        print_end("produced by", "output", tensor->producer.output, tensor->producer.op,
                  tensor->producer.node);
    for (uint32_t i = 0; i < tensor->n_consumers; i++)
        print_end(i ? "" : "consumed by", "input", tensor->consumers[i].input,
                  tensor->consumers[i].op, tensor->consumers[i].node);
}

void show_value(const struct tmk_profile *profile, const struct tmk_profile_tensor *tensor) {
    struct tmk_nonfinite *nonfinite = NULL;
    uint32_t n = 0;
    (void)!tmk_profile_nonfinite(profile, &nonfinite, &n, NULL);
    char shape[128];
    shape_text(tensor, shape, sizeof shape);
    print_out("p%u ", tensor->id);
    print_name(tensor->name, text_cells(tensor->name));
    print_out("\n");
    print_entry("is", "%s, %s, %s%s", tmk_profile_kind_name(tensor->kind),
                tmk_profile_status_name(tensor->status), tmk_dtype_name(tensor->dtype), shape);
    if (tensor->origin != tensor->dtype)
        print_entry("type in the file", "%s", tmk_dtype_name(tensor->origin));
    if (tensor->path[0])
        print_text("inside", tensor->path);
    print_entry("fingerprint", "%016llx, number %u of its kind",
                (unsigned long long)tensor->fingerprint, tensor->ordinal);
    print_ends(tensor);
    print_runs(tensor);
    const struct tmk_nonfinite *own = nonfinite_of(nonfinite, n, tensor->id);
    const enum hue hue = hue_of(tensor, own);
    hue_on(hue);
    print_flags(tensor, own);
    hue_off(hue);
    free(nonfinite);
    if (tensor->stats)
        print_statistics(tensor->stats);
    if (tensor->stats)
        print_tops(tensor);
    if (tensor->has_int_stats && tensor->int_stats.count)
        print_entry("integers", "%llu elements, %lld to %lld, %llu zeros",
                    (unsigned long long)tensor->int_stats.count, (long long)tensor->int_stats.min,
                    (long long)tensor->int_stats.max, (unsigned long long)tensor->int_stats.zeros);
}

/* ---- JSON ---- */

static void print_json_flags(const struct tmk_profile_tensor *tensor,
                             const struct tmk_nonfinite *nonfinite) {
    if (nonfinite && !nonfinite->n_from)
        print_out(", \"nonfinite\": {\"origin\": true}");
    for (uint32_t i = 0; nonfinite && i < nonfinite->n_from; i++)
        print_out("%s\"p%u\"%s", i ? ", " : ", \"nonfinite\": {\"inherits\": [", nonfinite->from[i],
                  i + 1 == nonfinite->n_from ? "]}" : "");
    if (!tensor->stats)
        return;
    const struct tmk_flags flags = tmk_profile_flags(tensor);
    print_out(", \"constant\": %s, \"saturated\": %s, \"at_min\": %llu, \"at_max\": %llu",
              flags.constant ? "true" : "false", flags.saturated ? "true" : "false",
              (unsigned long long)flags.at_min, (unsigned long long)flags.at_max);
    if (flags.min_is)
        print_out(", \"min_is\": \"%s\"", flags.min_is);
    if (flags.max_is)
        print_out(", \"max_is\": \"%s\"", flags.max_is);
    if (flags.at_spike)
        print_out(", \"spike\": %.9g, \"at_spike\": %llu", (double)flags.spike,
                  (unsigned long long)flags.at_spike);
    if (flags.channels)
        print_out(", \"channels\": %zu, \"dead_channels\": %zu", flags.channels,
                  flags.dead_channels);
}

static void print_json_tops(const struct tmk_topk *topk) {
    const struct tmk_topk_entry *const ends[] = {topk->min, topk->max};
    for (int end = 0; end < 2 && topk->n; end++) {
        print_out("%s", end ? ", \"max\": [" : ", \"top_samples\": {\"min\": [");
        for (uint32_t i = 0; i < topk->n; i++)
            print_out("%s{\"value\": %.9g, \"sample\": %llu}", i ? ", " : "",
                      (double)ends[end][i].value, (unsigned long long)ends[end][i].sample);
        print_out("%s", end ? "]}" : "]");
    }
}

static void print_json_figures(const struct tmk_profile_tensor *tensor) {
    struct tmk_summary s;
    tmk_stats_summary(tensor->stats, &s);
    print_out(", \"updates\": %llu, \"count\": %llu, \"nan\": %llu, \"posinf\": %llu, \"neginf\": "
              "%llu, \"zeros\": %llu, "
              "\"denormals\": %llu",
              (unsigned long long)s.updates, (unsigned long long)s.count, (unsigned long long)s.nan,
              (unsigned long long)s.posinf, (unsigned long long)s.neginf,
              (unsigned long long)s.zeros, (unsigned long long)s.denormals);
    if (s.excluded)
        print_out(", \"excluded\": %llu", (unsigned long long)s.excluded);
    if (s.padding)
        print_out(", \"padding\": %llu", (unsigned long long)s.padding);
    if (s.finite)
        print_out(", \"min\": %.9g, \"max\": %.9g, \"mean\": %.17g, \"std\": %.17g", (double)s.min,
                  (double)s.max, s.mean, s.std);
    if (s.finite && !tmk_summary_std_is_close(&s))
        print_out(", \"std_bracket\": {\"low\": %.17g, \"high\": %.17g}", s.std_lo, s.std_hi);
    if (s.share)
        print_out(", \"thinned\": {\"share\": %u, \"counted\": %llu, \"rank_error\": %.6g, "
                  "\"rank_error_runs\": %.6g}",
                  (unsigned)s.share, (unsigned long long)s.counted,
                  tmk_stats_rank_error(tensor->stats, 0.99, false),
                  tmk_stats_rank_error(tensor->stats, 0.99, true));
    print_json_tops(&tensor->topk);
}

void show_json(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n) {
    struct tmk_nonfinite *nonfinite = NULL;
    uint32_t n_nonfinite = 0;
    (void)!tmk_profile_nonfinite(profile, &nonfinite, &n_nonfinite, NULL);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[chosen[i]];
        print_out("%s{\"id\": \"p%u\", \"name\": ", i ? " " : "[", tensor->id);
        put_quoted(stdout, tensor->name);
        print_out(", \"kind\": \"%s\", \"status\": \"%s\", \"dtype\": \"%s\"",
                  tmk_profile_kind_name(tensor->kind), tmk_profile_status_name(tensor->status),
                  tmk_dtype_name(tensor->dtype));
        if (tensor->stats)
            print_json_figures(tensor);
        else if (tensor->has_int_stats && tensor->int_stats.count)
            print_out(", \"updates\": %llu, \"count\": %llu, \"min\": %lld, \"max\": %lld",
                      (unsigned long long)tensor->int_stats.updates,
                      (unsigned long long)tensor->int_stats.count, (long long)tensor->int_stats.min,
                      (long long)tensor->int_stats.max);
        print_json_flags(tensor, nonfinite_of(nonfinite, n_nonfinite, tensor->id));
        print_out(i + 1 < n ? "},\n" : "}");
    }
    free(nonfinite);
    print_out(n ? "]\n" : "[]\n");
}
