/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile has for the names of a consumer's file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/ranges.h>

#include "base/diag.h"

const char *tmk_supply_name(enum tmk_supply_kind kind) {
    static const char *const names[] = {
#define TMK_SUPPLY_TEXT(name, text, help) text,
        TMK_SUPPLY_LIST(TMK_SUPPLY_TEXT)
#undef TMK_SUPPLY_TEXT
    };
    return (size_t)kind < TMK_SUPPLIES ? names[kind] : "?";
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
                                        const struct tmk_summary *facts, struct tmk_supply *supply,
                                        bool *fits, struct tmk_diag *diag) {
    *fits = facts->channels == range->n;
    if (!*fits)
        return TMK_OK;
    double *numbers = calloc(range->n, 3 * sizeof *numbers);
    if (!numbers)
        return tmk_nomem(diag);
    struct tmk_range ours = {.name = range->name,
                             .meaning = TMK_RANGE_EXACT,
                             .n = range->n,
                             .low = numbers,
                             .high = numbers + range->n,
                             .step = numbers + 2 * (size_t)range->n};
    for (uint32_t c = 0; c < range->n; c++) {
        ours.low[c] = (double)facts->channel_min[c];
        ours.high[c] = (double)facts->channel_max[c];
        *fits = *fits && isfinite(ours.low[c]);
    }
    enum tmk_status status = TMK_OK;
    if (*fits)
        status = tmk_range_compare(&ours, range, &supply->difference, diag);
    supply->compared = *fits && status == TMK_OK;
    free(numbers);
    return status;
}

static enum tmk_status compare(const struct tmk_range *range, struct tmk_supply *supply,
                               struct tmk_diag *diag) {
    struct tmk_summary facts;
    tmk_stats_facts(supply->record->stats, &facts);
    double low = (double)facts.min, high = (double)facts.max, step = 0;
    struct tmk_range ours = {range->name, range->subject, TMK_RANGE_EXACT, 1, &low, &high, &step};
    if (isnan(low))
        return TMK_OK;
    bool fits = false;
    if (range->n > 1)
        TMK_TRY(compare_channels(range, &facts, supply, &fits, diag));
    if (fits)
        return TMK_OK;
    supply->compared = true;
    return tmk_range_compare(&ours, range, &supply->difference, diag);
}

enum tmk_status tmk_ranges_supply(const struct tmk_ranges *ranges,
                                  const struct tmk_profile *profile,
                                  const struct tmk_lineage_record *lineage, struct tmk_supply *out,
                                  struct tmk_diag *diag) {
    if (lineage && lineage->original.fingerprint != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the lineage is of another model ('%s') than the profile ('%s')",
                        lineage->original.file, profile->model.file);
    for (uint32_t i = 0; i < ranges->n; i++) {
        const struct tmk_range *range = &ranges->items[i];
        struct tmk_supply *supply = &out[i];
        *supply = (struct tmk_supply){.kind = TMK_SUPPLY_MATCHED};
        supply->record = lineage ? NULL : tmk_range_record(range, profile);
        if (lineage) {
            const struct tmk_lineage_original *o = original_of(lineage, range->name);
            supply->kind = TMK_SUPPLY_DERIVED;
            supply->record =
                o ? tmk_profile_by_id(profile, (uint32_t)(o - lineage->originals)) : NULL;
            supply->verdict = o ? o->verdict : TMK_LINEAGE_DEAD;
            if (supply->record && o->verdict == TMK_LINEAGE_SAME &&
                strcmp(supply->record->name, range->name) == 0)
                supply->kind = TMK_SUPPLY_MATCHED;
        }
        if (!supply->record)
            supply->kind = TMK_SUPPLY_MISSING;
        else if (!supply->record->stats)
            supply->kind = TMK_SUPPLY_UNSEEN;
        else if (supply->kind == TMK_SUPPLY_MATCHED || keeps_range(supply->verdict))
            TMK_TRY(compare(range, supply, diag));
    }
    return TMK_OK;
}
