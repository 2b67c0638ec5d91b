/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile has for the names of a consumer's file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/ranges.h>

#include "base/diag.h"

const char *tmk_range_coverage_name(enum tmk_range_coverage_kind kind) {
    static const char *const names[] = {
#define TMK_COVERAGE_TEXT(name, text, help) text,
        TMK_COVERAGE_LIST(TMK_COVERAGE_TEXT)
#undef TMK_COVERAGE_TEXT
    };
    return (size_t)kind < TMK_N_COVERAGES ? names[kind] : "?";
}

/* The original whose numbers, perhaps in another layout or on a scale, the value of that name has.
 */
static const struct tmk_lineage_original *original_of(const struct tmk_lineage_record *lineage,
                                                      const char *name) {
    for (uint32_t v = 0; v < lineage->n_values; v++) {
        const struct tmk_lineage_value *value = &lineage->values[v];
        if (strcmp(value->is.name, name) != 0)
            continue;
        const struct tmk_lineage_original *best = NULL;
        for (uint32_t i = 0; i < value->n_originals; i++) {
            const struct tmk_lineage_original *o = &lineage->originals[value->originals[i]];
            if (!best || o->verdict < best->verdict)
                best = o;
        }
        return best;
    }
    return NULL;
}

static bool keeps_range(enum tmk_lineage_verdict verdict) {
    return verdict == TMK_LINEAGE_SAME || verdict == TMK_LINEAGE_VIEW ||
           verdict == TMK_LINEAGE_MERGED || verdict == TMK_LINEAGE_QUANTIZED ||
           verdict == TMK_LINEAGE_CONSTANT;
}

/* Channel by channel; *fits: false where the profile has other channels, or one without a finite
 * element. */
static enum tmk_status compare_channels(const struct tmk_range *range,
                                        const struct tmk_summary *summary,
                                        struct tmk_range_coverage *coverage, bool *fits,
                                        struct tmk_diag *diag) {
    *fits = summary->channels == range->n;
    if (!*fits)
        return TMK_OK;
    double *numbers = calloc(range->n, 3 * sizeof *numbers);
    TMK_TRY_ALLOC(numbers, diag);
    struct tmk_range ours = {.name = range->name,
                             .meaning = TMK_RANGE_EXACT,
                             .n = range->n,
                             .low = numbers,
                             .high = numbers + range->n,
                             .step = numbers + 2 * (size_t)range->n};
    for (uint32_t c = 0; c < range->n; c++) {
        ours.low[c] = (double)summary->channel_min[c];
        ours.high[c] = (double)summary->channel_max[c];
        *fits = *fits && isfinite(ours.low[c]);
    }
    enum tmk_status status = TMK_OK;
    if (*fits)
        status = tmk_range_compare(&ours, range, &coverage->difference, diag);
    coverage->compared = *fits && status == TMK_OK;
    free(numbers);
    return status;
}

static enum tmk_status compare_range(const struct tmk_range *range,
                                     struct tmk_range_coverage *coverage, struct tmk_diag *diag) {
    struct tmk_summary summary;
    tmk_stats_quick_summary(coverage->record->stats, &summary);
    double low = (double)summary.min, high = (double)summary.max, step = 0;
    struct tmk_range ours = {range->name, range->subject, TMK_RANGE_EXACT, 1, &low, &high, &step};
    if (isnan(low))
        return TMK_OK;
    bool fits = false;
    if (range->n > 1)
        TMK_TRY(compare_channels(range, &summary, coverage, &fits, diag));
    if (fits)
        return TMK_OK;
    coverage->compared = true;
    return tmk_range_compare(&ours, range, &coverage->difference, diag);
}

enum tmk_status tmk_ranges_cover(const struct tmk_ranges *ranges, const struct tmk_profile *profile,
                                 const struct tmk_lineage_record *lineage,
                                 struct tmk_range_coverage *out, struct tmk_diag *diag) {
    if (lineage && lineage->original.fingerprint != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the lineage is of another model ('%s') than the profile ('%s')",
                        lineage->original.file, profile->model.file);
    for (uint32_t i = 0; i < ranges->n; i++) {
        const struct tmk_range *range = &ranges->items[i];
        struct tmk_range_coverage *coverage = &out[i];
        *coverage = (struct tmk_range_coverage){.kind = TMK_COVERAGE_MATCHED};
        coverage->record = lineage ? NULL : tmk_range_record(range, profile);
        if (lineage) {
            const struct tmk_lineage_original *o = original_of(lineage, range->name);
            coverage->kind = TMK_COVERAGE_DERIVED;
            coverage->record =
                o ? tmk_profile_by_id(profile, (uint32_t)(o - lineage->originals)) : NULL;
            coverage->verdict = o ? o->verdict : TMK_LINEAGE_DEAD;
            if (coverage->record && o->verdict == TMK_LINEAGE_SAME &&
                strcmp(coverage->record->name, range->name) == 0)
                coverage->kind = TMK_COVERAGE_MATCHED;
        }
        if (!coverage->record)
            coverage->kind = TMK_COVERAGE_MISSING;
        else if (!coverage->record->stats)
            coverage->kind = TMK_COVERAGE_UNSEEN;
        else if (coverage->kind == TMK_COVERAGE_MATCHED || keeps_range(coverage->verdict))
            TMK_TRY(compare_range(range, coverage, diag));
    }
    return TMK_OK;
}
