/* SPDX-License-Identifier: Apache-2.0 */
#include "check_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "command.h"

struct tally {
    uint32_t kinds[TMK_N_COVERAGES];
    uint32_t compared, equal;
    uint32_t unnamed; /* values of the profile with numbers that the file does not name */
};

static void print_value(const struct tmk_range *range, const struct tmk_range_coverage *coverage) {
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

enum tmk_status hold_file(const struct tmk_profile *profile, const struct tmk_ranges *ranges,
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

void release_file(struct held_file *held) {
    free(held->coverage);
    free(held->named);
    *held = (struct held_file){0};
}

double print_file(const struct held_file *held, bool json) {
    const struct tmk_ranges *ranges = held->ranges;
    struct tally tally = {0};
    for (uint32_t i = 0; i < ranges->n; i++) {
        const struct tmk_range_coverage *coverage = &held->coverage[i];
        const bool equal = !coverage->compared || coverage->difference.equal;
        tally.kinds[coverage->kind]++;
        tally.compared += coverage->compared;
        tally.equal += coverage->compared && equal;
        if (!json && !is_quiet() && (coverage->kind != TMK_COVERAGE_MATCHED || !equal))
            print_value(&ranges->items[i], coverage);
    }
    count_unnamed(held, &tally);
    const uint32_t supplied = tally.kinds[TMK_COVERAGE_MATCHED] + tally.kinds[TMK_COVERAGE_DERIVED];
    const double covered = ranges->n ? supplied / (double)ranges->n : 1;
    put_tally(ranges, &tally, covered, json);
    return covered;
}
