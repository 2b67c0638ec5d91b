/* SPDX-License-Identifier: Apache-2.0 */
#include "check_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

struct tally {
    uint32_t kinds[TMK_SUPPLIES];
    uint32_t compared, equal;
    uint32_t unnamed; /* values of the profile with numbers that the file does not name */
};

static void tell(const struct tmk_range *range, const struct tmk_supply *supply) {
    printf("%-8s ", tmk_supply_name(supply->kind));
    put_escaped(stdout, range->name);
    if (range->subject == TMK_RANGE_OF_INPUT)
        printf(" (its input)");
    if (range->subject == TMK_RANGE_OF_PARAMETER)
        printf(" (its weight)");
    if (supply->kind == TMK_SUPPLY_DERIVED) {
        printf("  %s as p%u ", tmk_lineage_verdict_name(supply->verdict), supply->record->id);
        put_escaped(stdout, supply->record->name);
    }
    if (supply->compared && !supply->difference.equal) {
        const struct tmk_range_difference *d = &supply->difference;
        printf("  profile [%.6g, %.6g], file [%.6g, %.6g] (%s)", d->low_a, d->high_a, d->low_b,
               d->high_b, tmk_range_meaning_name(d->meaning));
    }
    printf("\n");
}

/* A file for a profile's own model names values; what a consumer of the file does about those that
 * it does not name is worth a word. */
static void count_unnamed(const struct tmk_profile *profile, const struct tmk_ranges *ranges,
                          const struct tmk_supply *supply, bool *named, struct tally *tally) {
    for (uint32_t i = 0; i < ranges->n; i++)
        if (supply[i].record)
            named[supply[i].record - profile->tensors] = true;
    for (uint32_t i = 0; i < profile->n_tensors; i++)
        if (!named[i] && profile->tensors[i].stats &&
            profile->tensors[i].kind != TMK_PROFILE_WEIGHT)
            tally->unnamed++;
}

static void put_tally(const struct tmk_ranges *ranges, const struct tally *tally, double covered,
                      bool json) {
    const uint32_t *k = tally->kinds;
    if (json) {
        printf(",\"against\":{\"format\":\"%s\"", ranges->format);
        for (int i = 0; i < TMK_SUPPLIES; i++)
            printf(",\"%s\":%u", tmk_supply_name((enum tmk_supply_kind)i), k[i]);
        printf(",\"compared\":%u,\"equal\":%u,\"unnamed\":%u,\"coverage\":%.6g,\"missing_means\":",
               tally->compared, tally->equal, tally->unnamed, covered);
        put_quoted(stdout, ranges->unknown);
        printf(",\"unnamed_means\":");
        put_quoted(stdout, ranges->unnamed);
        printf("}");
        return;
    }
    printf(
        "%s: %u matched, %u derived, %u unseen, %u missing: %.2f %% of %u names can be supplied\n",
        ranges->format, k[TMK_SUPPLY_MATCHED], k[TMK_SUPPLY_DERIVED], k[TMK_SUPPLY_UNSEEN],
        k[TMK_SUPPLY_MISSING], 100 * covered, ranges->n);
    printf("%u ranges compared, %u agree\n", tally->compared, tally->equal);
    if (k[TMK_SUPPLY_MISSING])
        printf("a name that its model does not have %s\n", ranges->unknown);
    if (tally->unnamed)
        printf("%u values of the profile are not in the file; such a tensor %s\n", tally->unnamed,
               ranges->unnamed);
}

static enum tmk_status hold_against(const struct tmk_profile *profile,
                                    const struct tmk_ranges *ranges,
                                    const struct tmk_lineage_record *lineage,
                                    const struct check_file_args *args, double *covered,
                                    struct tmk_diag *diag) {
    struct tally tally = {0};
    struct tmk_supply *supply = calloc(ranges->n + 1, sizeof *supply);
    bool *named = calloc(profile->n_tensors + 1, sizeof *named);
    enum tmk_status status = TMK_NOMEM;
    if (supply && named)
        status = tmk_ranges_supply(ranges, profile, lineage, supply, diag);
    if (status == TMK_OK) {
        for (uint32_t i = 0; i < ranges->n; i++) {
            tally.kinds[supply[i].kind]++;
            tally.compared += supply[i].compared;
            tally.equal += supply[i].compared && supply[i].difference.equal;
            if (!args->json && (supply[i].kind != TMK_SUPPLY_MATCHED ||
                                (supply[i].compared && !supply[i].difference.equal)))
                tell(&ranges->items[i], &supply[i]);
        }
        count_unnamed(profile, ranges, supply, named, &tally);
        *covered = ranges->n ? (tally.kinds[TMK_SUPPLY_MATCHED] + tally.kinds[TMK_SUPPLY_DERIVED]) /
                                   (double)ranges->n
                             : 1;
        put_tally(ranges, &tally, *covered, args->json);
    }
    free(supply);
    free(named);
    return status;
}

enum tmk_status check_file_of_ranges(const struct tmk_profile *profile,
                                     const struct check_file_args *args, double *covered,
                                     struct tmk_diag *diag) {
    struct tmk_lineage_record *lineage = NULL;
    enum tmk_status status = TMK_OK;
    if (args->lineage)
        status = tmk_lineage_record_read(args->lineage, &lineage, diag);
    if (status == TMK_OK)
        status = hold_against(profile, args->ranges, lineage, args, covered, diag);
    tmk_lineage_record_destroy(&lineage);
    return status;
}
