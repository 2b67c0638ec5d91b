/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/diff.h>

#include "command.h"
#include "pick.h"
#include "show.h"
#include "table.h"
#include "warnings.h"

/* Either a profile or another file's ranges; or, where the other side has ranges, both. */
struct side {
    struct tmk_profile *profile;
    struct tmk_ranges *ranges;
};

struct diff_args {
    double range, distance; /* more than so much is drift */
    const char *format;
    bool all, json, wide, given; /* given: the user set how much of a range */
    uint64_t limit;
    const char *sort;
    struct words filter;
};

static enum tmk_status read_side(const char *path, const char *format, struct side *out,
                                 struct tmk_diag *diag) {
    const enum tmk_status status = format ? TMK_OK : tmk_ranges_detect_format(path, &format, diag);
    if (status != TMK_OK)
        return status;
    return strcmp(format, "profile") == 0 ? tmk_profile_read(path, &out->profile, diag)
                                          : tmk_ranges_read(path, format, &out->ranges, diag);
}

static void drop_side(struct side *side) {
    tmk_profile_destroy(&side->profile);
    tmk_ranges_destroy(&side->ranges);
}

/* The result names values by what the sides hold. */
static enum tmk_status compare_sides(const struct side *a, struct side *b, struct tmk_diff **out,
                                     struct tmk_diag *diag) {
    if (a->profile && b->profile)
        return tmk_diff_profiles(a->profile, b->profile, out, diag);
    if (a->profile)
        return tmk_diff_coverage(a->profile, b->ranges, out, diag);
    if (b->profile) {
        const enum tmk_status status = tmk_ranges_of_profile(b->profile, &b->ranges, diag);
        if (status != TMK_OK)
            return status;
    }
    return tmk_diff_ranges(a->ranges, b->ranges, out, diag);
}

/* Two profiles may differ by a little; of a file that was made from one, only the meaning decides,
 * unless the user sets it. */
static bool has_drifted(const struct tmk_diff_item *item, const struct diff_args *args,
                        bool profiles) {
    if (item->change[0])
        return true;
    if (item->ranged && !profiles && !args->given)
        return !item->range.equal;
    return (item->ranged && item->range.share > args->range) || item->distance > args->distance;
}

/* NULL: the side is no profile. */
static const struct tmk_profile_tensor *find_record(const struct side *side, int64_t id) {
    return side->profile && id >= 0 ? tmk_profile_by_id(side->profile, (uint32_t)id) : NULL;
}

/* Keeps the values that pass the filter, by their record in A, or else in B. */
static enum tmk_status select_items(struct tmk_diff *diff, const struct side *a,
                                    const struct side *b, const struct words *texts,
                                    struct tmk_diag *diag) {
    struct filter filter;
    uint32_t kept = 0;
    enum tmk_status status = filter_init(&filter, texts, diag);
    if (status == TMK_OK && !filter.only_names && !a->profile && !b->profile) {
        snprintf(diag->text, sizeof diag->text,
                 "--filter: only names are known, since neither A nor B is a profile");
        status = diag->status = TMK_ARGUMENT;
    }
    for (uint32_t i = 0; status == TMK_OK && i < diff->n; i++) {
        const struct tmk_diff_item *item = &diff->items[i];
        const struct tmk_profile_tensor *tensor = find_record(a, item->id_a);
        tensor = tensor ? tensor : find_record(b, item->id_b);
        if ((tensor || filter.only_names) && filter_passes(&filter, item->name, tensor))
            diff->items[kept++] = *item;
    }
    if (status == TMK_OK)
        diff->n = kept;
    filter_finish(&filter);
    return status;
}

/* ---- order ---- */

static int compare_names(const void *a, const void *b) {
    const struct tmk_diff_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int compare_descending(double x, double y) {
    return (x < y) - (x > y);
}

static int compare_changes(const void *a, const void *b) {
    const struct tmk_diff_item *x = a, *y = b;
    int order =
        compare_descending(x->ranged ? x->range.share : -1, y->ranged ? y->range.share : -1);
    return order ? order : compare_names(a, b);
}

static int compare_reaches(const void *a, const void *b) {
    const struct tmk_diff_item *x = a, *y = b;
    int order =
        compare_descending(x->ranged ? x->range.beyond : -1, y->ranged ? y->range.beyond : -1);
    return order ? order : compare_names(a, b);
}

static int compare_distances(const void *a, const void *b) {
    const struct tmk_diff_item *x = a, *y = b;
    int order = compare_descending(x->distance, y->distance);
    return order ? order : compare_names(a, b);
}

static const struct order {
    const char *key;
    int (*compare)(const void *, const void *);
} orders[] = {
    {"worst", NULL}, /* as they come */
    {"change", compare_changes},
    {"beyond", compare_reaches},
    {"distance", compare_distances},
    {"name", compare_names},
};

/* NULL: no such key. */
static const struct order *find_order(const char *key) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].key, key) == 0)
            return &orders[i];
    return NULL;
}

/* ---- printing ---- */

enum column {
    MARK,
    NAME,
    MIN_A,
    MAX_A,
    MIN_B,
    MAX_B,
    CHANGE,
    BEYOND,
    MEANING,
    JS,
    SPARK_A,
    SPARK_B,
    NOTES
};
static const struct table_column columns[] = {
    [MARK] = {"", 1},
    [NAME] = {"value", 36, .min = 12},
    [MIN_A] = {"min A", 11, .leaves = 5, .right = true},
    [MAX_A] = {"max A", 11, .leaves = 5, .right = true},
    [MIN_B] = {"min B", 11, .leaves = 4, .right = true},
    [MAX_B] = {"max B", 11, .leaves = 4, .right = true},
    [CHANGE] = {"change", 9, .right = true},
    [BEYOND] = {"beyond", 9, .leaves = 3, .right = true},
    [MEANING] = {"meaning", 9, .leaves = 1},
    [JS] = {"JS", 6, .right = true},
    [SPARK_A] = {"A", SPARK_CELLS, .leaves = 2},
    [SPARK_B] = {"B", SPARK_CELLS, .leaves = 2},
    [NOTES] = {"", 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void share_text(double share, char out[SPARK_BYTES]) {
    if (isinf(share))
        snprintf(out, SPARK_BYTES, "all");
    else
        snprintf(out, SPARK_BYTES, "%.2f%%", 100 * share);
}

/* Both on the axis that holds both. */
static void put_histograms(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b,
                           char *out_a, char *out_b) {
    struct tmk_summary s, t;
    if (!a || !b || !a->stats || !b->stats)
        return;
    tmk_stats_quick_summary(a->stats, &s);
    tmk_stats_quick_summary(b->stats, &t);
    const double lo = fmin((double)s.min, (double)t.min), hi = fmax((double)s.max, (double)t.max);
    draw_sparkline(a->stats, lo, hi, out_a);
    draw_sparkline(b->stats, lo, hi, out_b);
}

static void put_row(const struct table *table, const struct tmk_diff_item *item,
                    const struct side *a, const struct side *b, bool drift) {
    char text[COLUMNS][SPARK_BYTES] = {{0}};
    const char *cells[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        cells[i] = text[i];
    cells[MARK] = drift ? "!" : "";
    cells[NAME] = item->name;
    cells[NOTES] = item->change;
    if (item->ranged) {
        const struct tmk_range_difference *r = &item->range;
        const double ends[] = {r->low_a, r->high_a, r->low_b, r->high_b};
        for (int i = 0; i < 4; i++)
            snprintf(text[MIN_A + i], SPARK_BYTES, "%.5g", ends[i]);
        share_text(r->share, text[CHANGE]);
        share_text(r->beyond, text[BEYOND]);
        cells[MEANING] = tmk_range_meaning_name(r->meaning);
    }
    if (item->distance >= 0)
        snprintf(text[JS], SPARK_BYTES, "%.3f", item->distance);
    put_histograms(find_record(a, item->id_a), find_record(b, item->id_b), text[SPARK_A],
                   text[SPARK_B]);
    table_row(table, cells, drift ? HUE_RED : HUE_NONE);
}

static void put_json_row(const struct tmk_diff_item *item, bool drift) {
    print_out("{\"name\":");
    put_quoted(stdout, item->name);
    if (item->id_a >= 0)
        print_out(",\"id\":\"p%lld\"", (long long)item->id_a);
    if (item->id_b >= 0)
        print_out(",\"id_b\":\"p%lld\"", (long long)item->id_b);
    if (item->ranged) {
        const struct tmk_range_difference *r = &item->range;
        print_out(
            ",\"meaning\":\"%s\",\"a\":[%.9g,%.9g],\"b\":[%.9g,%.9g],\"channel\":%u,\"equal\":%s",
            tmk_range_meaning_name(r->meaning), r->low_a, r->high_a, r->low_b, r->high_b,
            r->channel, r->equal ? "true" : "false");
        if (isfinite(r->share))
            print_out(",\"range_change\":%.9g,\"beyond\":%.9g", r->share, r->beyond);
        else
            print_out(",\"range_change\":null,\"beyond\":null");
        if (r->meaning == TMK_RANGE_STEP)
            print_out(",\"steps\":%.9g", r->steps);
    }
    if (item->distance >= 0)
        print_out(",\"distance\":%.9g", item->distance);
    if (item->change[0])
        print_out(",\"change\":\"%s\"", item->change);
    print_out(",\"drift\":%s}", drift ? "true" : "false");
}

static void put_names(const char *key, const char **names, uint32_t n) {
    print_out(",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        print_out("%s", i ? "," : "");
        put_quoted(stdout, names[i]);
    }
    print_out("]");
}

static void print_names(const char *what, const char **names, uint32_t n) {
    enum { MAX_REPORTED = 3 };
    if (!n)
        return;
    print_remark("%u only in %s: %s%s%s%s%s%s", n, what, names[0], n > 1 ? ", " : "",
                 n > 1 ? names[1] : "", n > 2 ? ", " : "", n > 2 ? names[2] : "",
                 n > MAX_REPORTED ? ", ..." : "");
}

static void put_json(const struct tmk_diff *diff, const struct diff_args *args, bool profiles,
                     uint32_t n_drifted) {
    uint32_t shown = 0;
    print_out("{\"compared\":%u,\"drifted\":%u,\"values\":[", diff->n, n_drifted);
    for (uint32_t i = 0; i < diff->n && (!args->limit || shown < args->limit); i++) {
        const bool drift = has_drifted(&diff->items[i], args, profiles);
        if (!drift && !args->all)
            continue;
        print_out("%s", shown++ ? "," : "");
        put_json_row(&diff->items[i], drift);
    }
    print_out("]");
    put_names("only_a", diff->only_a, diff->n_only_a);
    put_names("only_b", diff->only_b, diff->n_only_b);
    print_out("}\n");
}

static void put_table(const struct tmk_diff *diff, const struct side *a, const struct side *b,
                      const struct diff_args *args, uint32_t n_drifted) {
    const bool profiles = a->profile && b->profile;
    struct table table;
    uint32_t shown = 0;
    if (diff->n)
        table_begin(&table, columns, COLUMNS);
    for (uint32_t i = 0; i < diff->n && (!args->limit || shown < args->limit); i++) {
        const bool drift = has_drifted(&diff->items[i], args, profiles);
        if (!drift && !args->all)
            continue;
        put_row(&table, &diff->items[i], a, b, drift);
        shown++;
    }
    print_out("%u of %u values differ\n", n_drifted, diff->n);
    print_names("A", diff->only_a, diff->n_only_a);
    print_names("B", diff->only_b, diff->n_only_b);
}

/* How many drifted. */
static uint32_t put_diff(const struct tmk_diff *diff, const struct side *a, const struct side *b,
                         const struct diff_args *args) {
    const bool profiles = a->profile && b->profile;
    uint32_t n = 0;
    for (uint32_t i = 0; i < diff->n; i++)
        n += has_drifted(&diff->items[i], args, profiles);
    if (args->json)
        put_json(diff, args, profiles, n);
    else if (!is_quiet())
        put_table(diff, a, b, args, n);
    return n;
}

/* ---- the command ---- */

static void name_both(const char *a, const char *b, struct tmk_diag *diag) {
    const struct tmk_diag was = *diag;
    if (snprintf(diag->text, sizeof diag->text, "%s and %s: %s", a, b, was.text) < 0)
        *diag = was;
}

static enum tmk_status diff_files(const char *a, const char *b, const struct diff_args *args,
                                  uint32_t *drift, struct tmk_diag *diag) {
    struct side left = {0}, right = {0};
    struct tmk_diff *diff = NULL;
    enum tmk_status status = read_side(a, NULL, &left, diag);
    if (status == TMK_OK)
        status = read_side(b, args->format, &right, diag);
    if (status == TMK_OK) {
        status = compare_sides(&left, &right, &diff, diag);
        if (status != TMK_OK)
            name_both(a, b, diag);
    }
    if (status == TMK_OK)
        status = select_items(diff, &left, &right, &args->filter, diag);
    if (status == TMK_OK && find_order(args->sort)->compare)
        qsort(diff->items, diff->n, sizeof *diff->items, find_order(args->sort)->compare);
    if (status == TMK_OK)
        *drift = put_diff(diff, &left, &right, args);
    if (status == TMK_OK && (left.profile || right.profile))
        remark_on_thinned(left.profile ? left.profile : right.profile);
    tmk_diff_destroy(&diff);
    drop_side(&left);
    drop_side(&right);
    return status;
}

static int run_diff(const struct command *command, int argc, char **argv) {
    struct diff_args args = {.range = -1, .distance = 0.1, .sort = "worst"};
    struct words rest = {0};
    const struct option_row options[] = {
        {"range", 0, OPTION_REAL, "SHARE",
         "an end that moved by more than this share of A's range is drift (0.1; a consumer's file: "
         "by its meaning)",
         &args.range},
        {"distance", 0, OPTION_REAL, "D",
         "a Jensen-Shannon distance of the histograms beyond this is drift, 0 to 1 (0.1)",
         &args.distance},
        {"format", 0, OPTION_TEXT, "NAME",
         "the format of B, where its first bytes do not determine it", &args.format},
        {"all", 'a', OPTION_FLAG, NULL, "values that did not drift, too", &args.all},
        {"limit", 0, OPTION_COUNT, "N", "so many values at most, the first ones", &args.limit},
        {"sort", 0, OPTION_TEXT, "KEY", "by this: worst, change, beyond, distance, name (worst)",
         &args.sort},
        FILTER_OPTION_ROW(args.filter),
        WIDE_OPTION_ROW(args.wide),
        {"json", 0, OPTION_FLAG, NULL, "an object", &args.json},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        struct tmk_diag diag = {0};
        uint32_t drift = 0;
        if (args.wide)
            table_widen();
        args.given = args.range >= 0;
        args.range = args.given ? args.range : 0.1;
        if (rest.n != 2)
            exit_status = wrong_call(command, "it takes A and B");
        else if (!find_order(args.sort))
            exit_status = wrong_call(
                command, "--sort is worst, change, beyond, distance or name, not '%s'", args.sort);
        else if (diff_files(rest.items[0], rest.items[1], &args, &drift, &diag) != TMK_OK)
            exit_status = report_error(diag.status, &diag);
        else
            exit_status = drift ? EXIT_ANSWER_NO : EXIT_DONE;
    }
    free(args.filter.items);
    free(rest.items);
    return exit_status;
}

const struct command command_diff = {
    "diff",
    "compare two profiles, or a profile and a consumer's file",
    "A B",
    "Compares ranges and histograms, value by value, worst first. A and B are profiles (values "
    "are\n"
    "the same by what they compute, then by name), encodings, or files of consumers: ONNX "
    "Runtime's\n"
    "calibration cache, AIMET's encodings, LiteRT's, Quark's, RKNN's, Glow's, onert's and ncnn's\n"
    "files, TensorRT's cache, a QDQ model. Each keeps ranges exactly, to one step of its grid, or "
    "as\n"
    "a largest magnitude, and is compared so. Exit status 1: something drifted.\n\n"
    "--filter: what it does not pass is not compared. Its keys go by A, where that is a\n"
    "profile. " FILTER_TEXT "\n"
    "On a terminal drift is red, unless NO_COLOR is set.",
    "tidemark diff monday.json tuesday.json --range 0.2",
    run_diff,
};
