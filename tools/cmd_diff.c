/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/diff.h>

#include "command.h"
#include "show.h"

/* Either a profile or another file's ranges. */
struct side {
    struct tmk_profile *profile;
    struct tmk_ranges *ranges;
};

struct diff_args {
    double range, distance; /* more than so much is drift */
    const char *format;
    bool all, json, given; /* given: the user said how much of a range */
    uint64_t limit;
};

static enum tmk_status read_side(const char *path, const char *format, struct side *out,
                                 struct tmk_diag *diag) {
    enum tmk_status status = tmk_ranges_read(path, format, &out->ranges, diag);
    if (status == TMK_OK && strcmp(out->ranges->format, "profile") == 0) {
        tmk_ranges_destroy(&out->ranges);
        status = tmk_profile_read(path, &out->profile, diag);
    }
    return status;
}

static void drop_side(struct side *side) {
    tmk_profile_destroy(&side->profile);
    tmk_ranges_destroy(&side->ranges);
}

static enum tmk_status compare(const struct side *a, const struct side *b, struct tmk_diff **out,
                               struct tmk_diag *diag) {
    if (a->profile && b->profile)
        return tmk_diff_profiles(a->profile, b->profile, out, diag);
    if (a->profile)
        return tmk_diff_supply(a->profile, b->ranges, out, diag);
    struct tmk_ranges *of_b = NULL;
    if (b->profile) {
        enum tmk_status status = tmk_ranges_of_profile(b->profile, &of_b, diag);
        if (status == TMK_OK)
            status = tmk_diff_ranges(a->ranges, of_b, out, diag);
        tmk_ranges_destroy(&of_b);
        return status;
    }
    return tmk_diff_ranges(a->ranges, b->ranges, out, diag);
}

/* Two profiles may differ by a little; of a file that was made from one, only the meaning decides,
 * unless the user says otherwise. */
static bool drifted(const struct tmk_diff_item *item, const struct diff_args *args, bool profiles) {
    if (item->change[0])
        return true;
    if (item->ranged && !profiles && !args->given)
        return !item->range.equal;
    return (item->ranged && item->range.share > args->range) || item->distance > args->distance;
}

/* ---- printing ---- */

static void put_share(double share) {
    if (isinf(share))
        printf("%9s", "all");
    else
        printf("%8.2f%%", 100 * share);
}

static void put_row(const struct tmk_diff_item *item, bool drift) {
    enum { NAME = 36 };
    printf("%c ", drift ? '!' : ' ');
    print_name(item->name, NAME);
    if (item->ranged) {
        const struct tmk_range_difference *r = &item->range;
        printf(" %11.5g %11.5g %11.5g %11.5g ", r->low_a, r->high_a, r->low_b, r->high_b);
        put_share(r->share);
        put_share(r->beyond);
        printf("  %-8s", tmk_range_meaning_name(r->meaning));
    } else {
        printf(" %11s %11s %11s %11s %9s%9s  %-8s", "", "", "", "", "", "", "");
    }
    if (item->distance >= 0)
        printf(" %6.3f", item->distance);
    if (item->change[0])
        printf("  %s", item->change);
    printf("\n");
}

static void put_json_row(const struct tmk_diff_item *item, bool drift) {
    printf("{\"name\":");
    put_quoted(stdout, item->name);
    if (item->id_a >= 0)
        printf(",\"id\":\"p%lld\"", (long long)item->id_a);
    if (item->id_b >= 0)
        printf(",\"id_b\":\"p%lld\"", (long long)item->id_b);
    if (item->ranged) {
        const struct tmk_range_difference *r = &item->range;
        printf(
            ",\"meaning\":\"%s\",\"a\":[%.9g,%.9g],\"b\":[%.9g,%.9g],\"channel\":%u,\"equal\":%s",
            tmk_range_meaning_name(r->meaning), r->low_a, r->high_a, r->low_b, r->high_b,
            r->channel, r->equal ? "true" : "false");
        if (isfinite(r->share))
            printf(",\"range_change\":%.9g,\"beyond\":%.9g", r->share, r->beyond);
        else
            printf(",\"range_change\":null,\"beyond\":null");
        if (r->meaning == TMK_RANGE_STEP)
            printf(",\"steps\":%.9g", r->steps);
    }
    if (item->distance >= 0)
        printf(",\"distance\":%.9g", item->distance);
    if (item->change[0])
        printf(",\"change\":\"%s\"", item->change);
    printf(",\"drift\":%s}", drift ? "true" : "false");
}

static void put_names(const char *key, const char **names, uint32_t n) {
    printf(",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        printf("%s", i ? "," : "");
        put_quoted(stdout, names[i]);
    }
    printf("]");
}

static void tell_names(const char *what, const char **names, uint32_t n) {
    enum { TOLD = 3 };
    if (!n)
        return;
    remark("%u only in %s: %s%s%s%s%s%s", n, what, names[0], n > 1 ? ", " : "",
           n > 1 ? names[1] : "", n > 2 ? ", " : "", n > 2 ? names[2] : "",
           n > TOLD ? ", ..." : "");
}

/* How many drifted. */
static uint32_t put_diff(const struct tmk_diff *diff, const struct diff_args *args, bool profiles) {
    uint32_t n = 0, shown = 0;
    for (uint32_t i = 0; i < diff->n; i++)
        n += drifted(&diff->items[i], args, profiles);
    if (args->json)
        printf("{\"compared\":%u,\"drifted\":%u,\"values\":[", diff->n, n);
    else if (diff->n)
        printf("  %-36s %11s %11s %11s %11s %9s%9s  %-8s %6s\n", "value", "min A", "max A", "min B",
               "max B", "change", "beyond", "meaning", "JS");
    for (uint32_t i = 0; i < diff->n; i++) {
        const bool drift = drifted(&diff->items[i], args, profiles);
        if ((!drift && !args->all) || (args->limit && shown >= args->limit))
            continue;
        if (args->json)
            printf("%s", shown ? "," : "");
        (args->json ? put_json_row : put_row)(&diff->items[i], drift);
        shown++;
    }
    if (args->json) {
        printf("]");
        put_names("only_a", diff->only_a, diff->n_only_a);
        put_names("only_b", diff->only_b, diff->n_only_b);
        printf("}\n");
    } else {
        printf("%u of %u values differ\n", n, diff->n);
        tell_names("A", diff->only_a, diff->n_only_a);
        tell_names("B", diff->only_b, diff->n_only_b);
    }
    return n;
}

/* ---- the command ---- */

static enum tmk_status diff_files(const char *a, const char *b, const struct diff_args *args,
                                  uint32_t *drift, struct tmk_diag *diag) {
    struct side left = {0}, right = {0};
    struct tmk_diff *diff = NULL;
    enum tmk_status status = read_side(a, NULL, &left, diag);
    if (status == TMK_OK)
        status = read_side(b, args->format, &right, diag);
    if (status == TMK_OK)
        status = compare(&left, &right, &diff, diag);
    if (status == TMK_OK)
        *drift = put_diff(diff, args, left.profile && right.profile);
    tmk_diff_destroy(&diff);
    drop_side(&left);
    drop_side(&right);
    return status;
}

static int run_diff(const struct command *command, int argc, char **argv) {
    struct diff_args args = {.range = -1, .distance = 0.1};
    struct words rest = {0};
    const struct option_row options[] = {
        {"range", 0, OPTION_REAL, "SHARE",
         "an end that moved by more than this share of A's range is drift (0.1; a consumer's file: "
         "by its meaning)",
         &args.range},
        {"distance", 0, OPTION_REAL, "D",
         "a Jensen-Shannon distance of the histograms beyond this is drift, 0 to 1 (0.1)",
         &args.distance},
        {"format", 0, OPTION_TEXT, "NAME", "what B is, where its first bytes don't tell",
         &args.format},
        {"all", 'a', OPTION_FLAG, NULL, "values that did not drift, too", &args.all},
        {"limit", 0, OPTION_COUNT, "N", "so many values at most, worst first", &args.limit},
        {"json", 0, OPTION_FLAG, NULL, "an object", &args.json},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        struct tmk_diag diag = {0};
        uint32_t drift = 0;
        args.given = args.range >= 0;
        args.range = args.given ? args.range : 0.1;
        if (rest.n != 2)
            exit_status = wrong_call(command, "it takes A and B");
        else if (diff_files(rest.items[0], rest.items[1], &args, &drift, &diag) != TMK_OK)
            exit_status = complain(diag.status, &diag);
        else
            exit_status = drift ? EXIT_ANSWER_NO : EXIT_DONE;
    }
    free(rest.items);
    return exit_status;
}

const struct command command_diff = {
    "diff",
    "what moved between two profiles, or between a profile and a consumer's file",
    "A B",
    "Compares ranges and histograms, value by value, worst first. A and B are profiles (values "
    "are\n"
    "the same by what they compute, then by name), encodings, or files of consumers: ONNX "
    "Runtime's\n"
    "calibration cache, AIMET's encodings, LiteRT's, Quark's, RKNN's, Glow's, onert's and ncnn's\n"
    "files, TensorRT's cache, a QDQ model. Each keeps ranges exactly, to one step of its grid, or "
    "as\n"
    "a largest magnitude, and is compared so. Exit status 1: something drifted.",
    "tidemark diff monday.json tuesday.json --range 0.2",
    run_diff,
};
