/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/profile.h>
#include <tidemark/ranges.h>
#include <tidemark/session.h>

#include "command.h"
#include "target.h"

/* Values of a consumer's model, by what the profile has for them. */
struct coverage {
    unsigned matched, renamed, unseen, missing;
};

struct check_args {
    const char *against, *params, *target;
    const char *lineage;
    double coverage;
    bool json;
};

/* ---- consistency ---- */

static void put_consistency(const struct tmk_profile *profile, const char *path,
                            const char *wrong) {
    print_out("{\"profile\":");
    put_quoted(stdout, path);
    print_out(",\"balances\":%s", wrong ? "false" : "true");
    if (wrong) {
        print_out(",\"wrong\":");
        put_quoted(stdout, wrong);
    } else {
        print_out(",\"values\":%u,\"offered\":%llu,\"run\":%llu,\"skipped\":%llu,\"failed\":%llu",
                  profile->n_tensors, (unsigned long long)profile->ledger.offered,
                  (unsigned long long)profile->ledger.run,
                  (unsigned long long)profile->ledger.skipped,
                  (unsigned long long)profile->ledger.failed);
    }
}

static void print_consistency(const struct tmk_profile *profile, const char *path,
                              const char *wrong) {
    put_escaped(stdout, path);
    if (wrong) {
        print_out(": invalid: %s\n", wrong);
        return;
    }
    print_out(": valid: %u values; %llu samples offered = %llu run + %llu skipped + %llu failed\n",
              profile->n_tensors, (unsigned long long)profile->ledger.offered,
              (unsigned long long)profile->ledger.run, (unsigned long long)profile->ledger.skipped,
              (unsigned long long)profile->ledger.failed);
}

/* ---- a consumer's model ---- */

/* A profile's records in the order of what they compute, that of the file among equals. */
struct by_computation {
    const struct tmk_profile_tensor **tensors; /* [n] */
    size_t n;
};

static int compare_computations(const struct tmk_profile_tensor *a,
                                const struct tmk_profile_tensor *b) {
    if (a->fingerprint != b->fingerprint)
        return a->fingerprint < b->fingerprint ? -1 : 1;
    if (a->content != b->content)
        return a->content < b->content ? -1 : 1;
    return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

static int in_order(const void *a, const void *b) {
    const struct tmk_profile_tensor *x = *(const struct tmk_profile_tensor *const *)a,
                                    *y = *(const struct tmk_profile_tensor *const *)b;
    int order = compare_computations(x, y);
    return order ? order : (x > y) - (x < y);
}

/* False when memory ran out. */
static bool sort_computations(const struct tmk_profile *profile, struct by_computation *out) {
    out->tensors = calloc(profile->n_tensors + (size_t)1, sizeof *out->tensors);
    if (!out->tensors)
        return false;
    out->n = profile->n_tensors;
    for (size_t i = 0; i < out->n; i++)
        out->tensors[i] = &profile->tensors[i];
    qsort(out->tensors, out->n, sizeof *out->tensors, in_order);
    return true;
}

/* The first record of the same computation; NULL: there is none. */
static const struct tmk_profile_tensor *find_computation(const struct by_computation *sorted,
                                                         const struct tmk_profile_tensor *wanted) {
    size_t low = 0, high = sorted->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_computations(sorted->tensors[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sorted->n && compare_computations(sorted->tensors[low], wanted) == 0
               ? sorted->tensors[low]
               : NULL;
}

static void print_value(const struct tmk_profile_tensor *value, const char *what,
                        const char *more) {
    print_out("%-8s p%-5u ", what, value->id);
    put_escaped(stdout, value->name);
    if (more) {
        print_out("  was ");
        put_escaped(stdout, more);
    }
    print_out("\n");
}

/* Values of floats and not of weights: a range of those is wanted, of these everybody has one. */
static bool wants_range(const struct tmk_profile_tensor *value) {
    return value->kind != TMK_PROFILE_WEIGHT &&
           (value->dtype == TMK_FLOAT32 || value->dtype == TMK_UNDEFINED);
}

static void hold_against(const struct by_computation *sorted, const struct tmk_profile *model,
                         bool quiet, struct coverage *out) {
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct tmk_profile_tensor *value = &model->tensors[i];
        if (!wants_range(value))
            continue;
        const struct tmk_profile_tensor *found = find_computation(sorted, value);
        if (found && found->status == TMK_PROFILE_INTEGER)
            continue;
        const bool renamed = found && strcmp(found->name, value->name) != 0;
        if (!found)
            out->missing++;
        else if (!found->stats)
            out->unseen++;
        else if (renamed)
            out->renamed++;
        else
            out->matched++;
        if (!quiet && (!found || !found->stats || renamed))
            print_value(value,
                        !found         ? "missing"
                        : found->stats ? "renamed"
                                       : "unseen",
                        renamed ? found->name : NULL);
    }
}

/* ---- a consumer's file of ranges ---- */

/* What a profile has for a file's names. */
struct held_file {
    const struct tmk_profile *profile;
    const struct tmk_ranges *ranges;
    struct tmk_range_coverage *coverage; /* [ranges->n], owned */
    bool *named;                         /* by the profile's value, owned: the file names it */
};

struct tally {
    uint32_t kinds[TMK_N_COVERAGES];
    uint32_t compared, equal;
    uint32_t unnamed; /* values of the profile with numbers that the file does not name */
};

static void print_coverage(const struct tmk_range *range,
                           const struct tmk_range_coverage *coverage) {
    print_out("%-8s ", tmk_range_coverage_name(coverage->kind));
    put_escaped(stdout, range->name);
    if (range->subject == TMK_RANGE_OF_INPUT)
        print_out(" (its input)");
    if (range->subject == TMK_RANGE_OF_PARAMETER)
        print_out(" (its weight)");
    if (coverage->kind == TMK_COVERAGE_DERIVED) {
        print_out("  %s as p%u ", tmk_lineage_verdict_name(coverage->verdict),
                  coverage->record->id);
        put_escaped(stdout, coverage->record->name);
    }
    if (coverage->compared && !coverage->difference.equal) {
        const struct tmk_range_difference *d = &coverage->difference;
        print_out("  profile [%.6g, %.6g], file [%.6g, %.6g] (%s)", d->low_a, d->high_a, d->low_b,
                  d->high_b, tmk_range_meaning_name(d->meaning));
    }
    print_out("\n");
}

/* A file for a profile's own model names values; what a consumer of the file does about those that
 * it does not name is worth a word. */
static void count_unnamed(const struct held_file *held, struct tally *tally) {
    const struct tmk_profile *profile = held->profile;
    for (uint32_t i = 0; i < profile->n_tensors; i++)
        if (!held->named[i] && profile->tensors[i].stats &&
            profile->tensors[i].kind != TMK_PROFILE_WEIGHT)
            tally->unnamed++;
}

static void put_tally(const struct tmk_ranges *ranges, const struct tally *tally, double covered,
                      bool json) {
    const uint32_t *k = tally->kinds;
    if (json) {
        print_out(",\"against\":{\"format\":\"%s\"", ranges->format);
        for (int i = 0; i < TMK_N_COVERAGES; i++)
            print_out(",\"%s\":%u", tmk_range_coverage_name((enum tmk_range_coverage_kind)i), k[i]);
        print_out(
            ",\"compared\":%u,\"equal\":%u,\"unnamed\":%u,\"coverage\":%.6g,\"missing_means\":",
            tally->compared, tally->equal, tally->unnamed, covered);
        put_quoted(stdout, ranges->unknown);
        print_out(",\"unnamed_means\":");
        put_quoted(stdout, ranges->unnamed);
        print_out("}");
        return;
    }
    if (is_quiet())
        return;
    print_out(
        "%s: %u matched, %u derived, %u unseen, %u missing: %.2f %% of %u names have a range\n",
        ranges->format, k[TMK_COVERAGE_MATCHED], k[TMK_COVERAGE_DERIVED], k[TMK_COVERAGE_UNSEEN],
        k[TMK_COVERAGE_MISSING], 100 * covered, ranges->n);
    print_out("%u ranges compared, %u agree\n", tally->compared, tally->equal);
    if (k[TMK_COVERAGE_MISSING])
        print_out("a name that its model does not have %s\n", ranges->unknown);
    if (tally->unnamed)
        print_out("%u values of the profile are not in the file; such a tensor %s\n",
                  tally->unnamed, ranges->unnamed);
}

/* All that can fail; prints nothing. lineage NULL: names only. End with release_file, after a
 * failure too. */
static enum tmk_status hold_file(const struct tmk_profile *profile, const struct tmk_ranges *ranges,
                                 const struct tmk_lineage_record *lineage, struct held_file *out,
                                 struct tmk_diag *diag) {
    *out = (struct held_file){profile, ranges, calloc(ranges->n + 1, sizeof *out->coverage),
                              calloc(profile->n_tensors + 1, sizeof *out->named)};
    if (!out->coverage || !out->named)
        return TMK_NOMEM;
    enum tmk_status status = tmk_ranges_cover(ranges, profile, lineage, out->coverage, diag);
    for (uint32_t i = 0; status == TMK_OK && i < ranges->n; i++)
        if (out->coverage[i].record)
            out->named[out->coverage[i].record - profile->tensors] = true;
    return status;
}

static void release_file(struct held_file *held) {
    free(held->coverage);
    free(held->named);
    *held = (struct held_file){0};
}

/* Prints which of the file's names the profile has, how far the ranges agree, and what the consumer
 * does about the rest. Returns the share that it can. With json, a member ",\"against\":" of an
 * object. */
static double print_file(const struct held_file *held, bool json) {
    const struct tmk_ranges *ranges = held->ranges;
    struct tally tally = {0};
    for (uint32_t i = 0; i < ranges->n; i++) {
        const struct tmk_range_coverage *coverage = &held->coverage[i];
        const bool equal = !coverage->compared || coverage->difference.equal;
        tally.kinds[coverage->kind]++;
        tally.compared += coverage->compared;
        tally.equal += coverage->compared && equal;
        if (!json && !is_quiet() && (coverage->kind != TMK_COVERAGE_MATCHED || !equal))
            print_coverage(&ranges->items[i], coverage);
    }
    count_unnamed(held, &tally);
    const uint32_t supplied = tally.kinds[TMK_COVERAGE_MATCHED] + tally.kinds[TMK_COVERAGE_DERIVED];
    const double covered = ranges->n ? supplied / (double)ranges->n : 1;
    put_tally(ranges, &tally, covered, json);
    return covered;
}

/* What profiles are held against: one of them, or none of both. */
struct consumer {
    struct tmk_ranges *ranges;          /* owned */
    struct tmk_lineage_record *lineage; /* for them, owned; NULL: names only */
    struct tmk_profile *values;         /* a model's, owned */
};

/* A profile, too. */
struct held {
    struct by_computation sorted;
    struct held_file file;
};

/* All that can fail, before a word is printed; its end is let_go. */
static enum tmk_status compare_consumer(const struct tmk_profile *profile,
                                        const struct consumer *consumer, struct held *out,
                                        struct tmk_diag *diag) {
    if (consumer->values && !sort_computations(profile, &out->sorted))
        return TMK_NOMEM;
    return consumer->ranges
               ? hold_file(profile, consumer->ranges, consumer->lineage, &out->file, diag)
               : TMK_OK;
}

static void let_go(struct held *held) {
    free(held->sorted.tensors);
    release_file(&held->file);
}

/* The share of values with a range, 1 where there are none. */
static double print_model(const struct held *held, const struct tmk_profile *values, bool json) {
    struct coverage c = {0};
    hold_against(&held->sorted, values, json || is_quiet(), &c);
    const unsigned all = c.matched + c.renamed + c.unseen + c.missing;
    const double covered = all ? (c.matched + c.renamed) / (double)all : 1;
    if (json)
        print_out(",\"against\":{\"matched\":%u,\"renamed\":%u,\"unseen\":%u,\"missing\":%u,"
                  "\"coverage\":%.6g}",
                  c.matched, c.renamed, c.unseen, c.missing, covered);
    else if (!is_quiet())
        print_out("%u matched, %u renamed, %u unseen, %u missing: %.2f %% of %u values have a "
                  "range\n",
                  c.matched, c.renamed, c.unseen, c.missing, 100 * covered, all);
    return covered;
}

static enum tmk_status read_values(const char *path, const char *params,
                                   struct tmk_profile **values, struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    enum tmk_status status = tmk_model_open_params(path, params, true, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_skeleton(model, values, diag);
    tmk_model_close(&model);
    return status;
}

/* What is none of the forms of ranges, or an ONNX model without quantized values, is held as a
 * model by what it computes; a quantized model like the file of ranges that it is. */
static enum tmk_status read_consumer(const struct check_args *args, struct consumer *consumer,
                                     struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    if (!args->against)
        return TMK_OK;
    enum tmk_status status = tmk_ranges_read(args->against, NULL, &consumer->ranges, &why);
    if (status == TMK_UNSUPPORTED || (status != TMK_OK && has_ending(args->against, ".onnx")))
        return read_values(args->against, args->params, &consumer->values, diag);
    if (status == TMK_OK && args->lineage)
        return tmk_lineage_record_read(args->lineage, &consumer->lineage, diag);
    if (status != TMK_OK)
        *diag = why;
    return status;
}

static double print_consumer(const struct consumer *consumer, const struct held *held, bool json) {
    if (consumer->values)
        return print_model(held, consumer->values, json);
    return consumer->ranges ? print_file(&held->file, json) : 1;
}

/* ---- encodings under a target ---- */

struct findings {
    bool json;
    uint32_t n;
};

static void print_finding(void *context, const char *text) {
    struct findings *findings = context;
    if (findings->json) {
        print_out("%s", findings->n ? "," : "");
        put_quoted(stdout, text);
    } else if (!is_quiet()) {
        print_out("%s\n", text);
    }
    findings->n++;
}

/* The network that the encodings are of: a profile's, or a model's; NULL: no file was given. */
static enum tmk_status read_network(const char *path, const char *params, struct tmk_profile **out,
                                    struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    if (!path)
        return TMK_OK;
    if ((has_ending(path, ".json") || has_ending(path, ".h5")) &&
        tmk_profile_read(path, out, &why) == TMK_OK)
        return TMK_OK;
    return read_values(path, params, out, diag);
}

static enum tmk_status check_encodings(const char *path, const struct tmk_target *target,
                                       const struct tmk_profile *network, bool json, bool *good,
                                       struct tmk_diag *diag) {
    struct tmk_encodings *encodings = NULL;
    struct findings findings = {.json = json};
    uint32_t found = 0;
    enum tmk_status status = tmk_encodings_read(path, &encodings, diag);
    if (status == TMK_OK && json) {
        print_out("{\"encodings\":");
        put_quoted(stdout, path);
        print_out(",\"target\":");
        put_quoted(stdout, tmk_target_name(target));
        print_out(",\"by\":\"%s\",\"findings\":[", network ? "operator" : "type");
    }
    if (status == TMK_OK)
        status =
            tmk_target_check(target, encodings, network, print_finding, &findings, &found, diag);
    if (json && encodings)
        print_out("]}\n");
    if (status == TMK_OK && !json && !is_quiet()) {
        print_out("%s: %u uses of codes that %s does not allow", path, found,
                  tmk_target_name(target));
        print_out("%s\n",
                  network ? "" : "; by types alone, --against MODEL compares operators, too");
    }
    *good = *good && !found;
    tmk_encodings_destroy(&encodings);
    return status;
}

/* Prints what the encodings use and the target does not allow; against: a profile or a model, NULL:
 * none. The exit status. */
static int check_for_target(const struct words *files, const char *name, const char *against,
                            const char *params, bool json) {
    struct tmk_diag diag = {0};
    struct tmk_target *target = NULL;
    struct tmk_profile *network = NULL;
    bool good = true;
    enum tmk_status status = open_target(name, &target, &diag);
    if (status == TMK_OK)
        status = read_network(against, params, &network, &diag);
    for (size_t i = 0; status == TMK_OK && i < files->n; i++)
        status = check_encodings(files->items[i], target, network, json, &good, &diag);
    tmk_profile_destroy(&network);
    tmk_target_close(&target);
    return status != TMK_OK ? report_error(status, &diag) : good ? EXIT_DONE : EXIT_ANSWER_NO;
}

/* ---- the command ---- */

/* *good: the result is positive. A file that can't be read, or is no profile, is an error. */
static enum tmk_status check_file(const char *path, const struct consumer *consumer,
                                  const struct check_args *args, bool *good,
                                  struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    enum tmk_status status = tmk_profile_read(path, &profile, diag);
    const bool consistent = status != TMK_MISMATCH;
    struct held held = {0};
    double covered = 1;
    if (consistent && status == TMK_OK)
        status = compare_consumer(profile, consumer, &held, diag);
    if (status == TMK_OK || !consistent) {
        if (args->json || !is_quiet())
            (args->json ? put_consistency : print_consistency)(profile, path,
                                                               consistent ? NULL : diag->text);
        if (consistent)
            covered = print_consumer(consumer, &held, args->json);
        if (args->json)
            print_out("}\n");
        *good = *good && consistent && 100 * covered >= args->coverage;
        status = TMK_OK;
    }
    let_go(&held);
    tmk_profile_destroy(&profile);
    return status;
}

static int run_check(const struct command *command, int argc, char **argv) {
    struct check_args args = {.coverage = 100};
    struct words rest = {0};
    const struct option_row options[] = {
        {"against", 0, OPTION_INPUT, "FILE",
         "a consumer's model, encodings or table: which of its values have a range in the profile",
         &args.against},
        PARAMS_OPTION_ROW(args.params),
        TARGET_OPTION_ROW(args.target),
        {"lineage", 0, OPTION_INPUT, "FILE",
         "with --against: which of the consumer's values is which, from transform or link",
         &args.lineage},
        {"coverage", 0, OPTION_REAL, "PERCENT", "of them that must have one (100)", &args.coverage},
        {"json", 0, OPTION_FLAG, NULL, "an object a profile and line", &args.json},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status)) {
        free(rest.items);
        return exit_status;
    }
    if (wants_targets(args.target)) {
        exit_status = list_targets();
    } else if (args.target && rest.n) {
        exit_status = check_for_target(&rest, args.target, args.against, args.params, args.json);
    } else {
        struct tmk_diag diag = {0};
        struct consumer consumer = {0};
        bool good = true;
        enum tmk_status status = rest.n ? read_consumer(&args, &consumer, &diag) : TMK_OK;
        if (!rest.n)
            exit_status = wrong_call(command, "which PROFILE?");
        for (size_t i = 0; status == TMK_OK && i < rest.n; i++) {
            diag = (struct tmk_diag){0};
            status = check_file(rest.items[i], &consumer, &args, &good, &diag);
        }
        tmk_ranges_destroy(&consumer.ranges);
        tmk_lineage_record_destroy(&consumer.lineage);
        tmk_profile_destroy(&consumer.values);
        if (rest.n)
            exit_status = status != TMK_OK ? report_error(status, &diag)
                          : good           ? EXIT_DONE
                                           : EXIT_ANSWER_NO;
    }
    free(rest.items);
    return exit_status;
}

const struct command command_check = {
    "check",
    "validate a profile; compare a model or a target with it",
    "PROFILE...",
    "Validates the counts of each PROFILE: samples offered = run + skipped + failed; each value\n"
    "has as many elements as the shapes that ran; each histogram counts all of them. With\n"
    "--against, prints for each value of another model whether the profile has a range of the\n"
    "same computation, under the same name or another. Exit status 1: a count is wrong, or fewer\n"
    "values than required have a range; 3: the file is damaged. With --target, each file is of\n"
    "encodings: prints what they use that the target's table does not allow; --against names the\n"
    "profile or the model they are of.",
    "tidemark check profile.json --against model.onnx",
    run_check,
};
