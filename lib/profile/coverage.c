/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a profile covers, of how many. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

bool tmk_profile_range(const struct tmk_profile *profile, uint32_t i,
                       struct tmk_profile_range *out) {
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    const struct tmk_profile_coverage *coverage = &profile->coverage;
    if (coverage->n_ranges) {
        if (i >= coverage->n_ranges)
            return false;
        *out = coverage->ranges[i];
        return true;
    }
    if (i > 0 || ledger->first_sample >= ledger->end_sample)
        return false;
    *out = (struct tmk_profile_range){ledger->first_sample, ledger->end_sample};
    return true;
}

uint64_t tmk_profile_total(const struct tmk_profile *profile) {
    return profile->coverage.total ? profile->coverage.total : profile->ledger.end_sample;
}

const char *tmk_profile_setting_text(const struct tmk_profile *profile, const char *key) {
    for (uint32_t i = 0; i < profile->n_settings; i++)
        if (strcmp(profile->settings[i].key, key) == 0)
            return profile->settings[i].value;
    return NULL;
}

uint64_t tmk_profile_setting_number(const struct tmk_profile *profile, const char *key,
                                    uint64_t otherwise) {
    const char *text = tmk_profile_setting_text(profile, key);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

void tmk_profile_drop_setting(struct tmk_profile *profile, const char *key) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < profile->n_settings; i++)
        if (strcmp(profile->settings[i].key, key) != 0)
            profile->settings[kept++] = profile->settings[i];
    profile->n_settings = kept;
}

bool tmk_profile_is_whole(const struct tmk_profile *profile) {
    struct tmk_profile_range first;
    if (!tmk_profile_range(profile, 0, &first))
        return tmk_profile_total(profile) == 0;
    return first.begin == tmk_profile_setting_number(profile, "skip", 0) &&
           first.end == tmk_profile_total(profile);
}

/* The list with what touches put together, and its new length. */
static uint32_t close_up(struct tmk_profile_range *ranges, uint32_t n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (kept && ranges[kept - 1].end == ranges[i].begin)
            ranges[kept - 1].end = ranges[i].end;
        else
            ranges[kept++] = ranges[i];
    }
    return kept;
}

enum tmk_status tmk_profile_set_ranges(struct tmk_profile *profile,
                                       const struct tmk_profile_range *ranges, uint32_t n,
                                       struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i++)
        if (ranges[i].begin >= ranges[i].end || (i && ranges[i].begin < ranges[i - 1].end))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "samples %" PRIu64 " to %" PRIu64 " are no range, or out of order",
                            ranges[i].begin, ranges[i].end);
    struct tmk_profile_range *copy = calloc((size_t)n + 1, sizeof *copy);
    TMK_TRY_ALLOC(copy, diag);
    if (n)
        memcpy(copy, ranges, n * sizeof *copy);
    n = close_up(copy, n);
    profile->ledger.first_sample = n ? copy[0].begin : 0;
    profile->ledger.end_sample = n ? copy[n - 1].end : 0;
    free(profile->coverage.ranges);
    profile->coverage.ranges = n > 1 ? copy : NULL;
    profile->coverage.n_ranges = n > 1 ? n : 0;
    if (n <= 1)
        free(copy);
    return TMK_OK;
}

static uint32_t count_ranges(const struct tmk_profile *profile) {
    struct tmk_profile_range any;
    return profile->coverage.n_ranges ? profile->coverage.n_ranges
                                      : (uint32_t)tmk_profile_range(profile, 0, &any);
}

enum tmk_status tmk_profile_join_ranges(const struct tmk_profile *a, const struct tmk_profile *b,
                                        struct tmk_profile_range **out, uint32_t *n,
                                        struct tmk_diag *diag) {
    uint32_t of_a = count_ranges(a), of_b = count_ranges(b), i = 0, k = 0, used = 0;
    if (of_a > UINT32_MAX - of_b)
        return tmk_fail(diag, TMK_RANGE, "more ranges of samples than can be counted");
    struct tmk_profile_range *joined = calloc((size_t)of_a + of_b + 1, sizeof *joined);
    TMK_TRY_ALLOC(joined, diag);
    while (i < of_a || k < of_b) {
        struct tmk_profile_range x, y;
        bool has_x = tmk_profile_range(a, i, &x), has_y = tmk_profile_range(b, k, &y);
        if (has_x && has_y && x.begin < y.end && y.begin < x.end) {
            free(joined);
            return tmk_fail(diag, TMK_MISMATCH, "both hold samples %" PRIu64 " to %" PRIu64,
                            x.begin > y.begin ? x.begin : y.begin, x.end < y.end ? x.end : y.end);
        }
        if (has_x && (!has_y || x.begin < y.begin)) {
            joined[used++] = x;
            i++;
        } else {
            joined[used++] = y;
            k++;
        }
    }
    *n = close_up(joined, used);
    *out = joined;
    return TMK_OK;
}

enum tmk_status tmk_profile_validate_coverage(const struct tmk_profile *profile,
                                              struct tmk_diag *diag) {
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    const struct tmk_profile_coverage *coverage = &profile->coverage;
    struct tmk_profile_range range;
    uint64_t covered = 0;
    if (ledger->end_sample < ledger->first_sample)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the ledger does not add up: samples from the range %" PRIu64
                        " to %" PRIu64,
                        ledger->first_sample, ledger->end_sample);
    for (uint32_t i = 0; i < coverage->n_ranges; i++)
        if (coverage->ranges[i].begin >= coverage->ranges[i].end ||
            (i && coverage->ranges[i].begin <= coverage->ranges[i - 1].end))
            return tmk_fail(diag, TMK_MISMATCH,
                            "the ranges of samples are empty, touch or are out of order at "
                            "%" PRIu64 " to %" PRIu64,
                            coverage->ranges[i].begin, coverage->ranges[i].end);
    if (coverage->n_ranges && (coverage->ranges[0].begin != ledger->first_sample ||
                               coverage->ranges[coverage->n_ranges - 1].end != ledger->end_sample))
        return tmk_fail(diag, TMK_MISMATCH,
                        "the ranges of samples do not fill the ledger's, %" PRIu64 " to %" PRIu64,
                        ledger->first_sample, ledger->end_sample);
    for (uint32_t i = 0; tmk_profile_range(profile, i, &range); i++)
        covered += range.end - range.begin;
    if (covered < ledger->offered)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the ledger does not add up: %" PRIu64 " samples offered from the range "
                        "%" PRIu64 " to %" PRIu64 ", which holds %" PRIu64,
                        ledger->offered, ledger->first_sample, ledger->end_sample, covered);
    if (tmk_profile_total(profile) < ledger->end_sample)
        return tmk_fail(diag, TMK_MISMATCH,
                        "samples up to %" PRIu64 " are covered, of %" PRIu64 " in all",
                        ledger->end_sample, tmk_profile_total(profile));
    return TMK_OK;
}

/* ---- as JSON ---- */

static void put_coverage(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile *profile = record;
    struct tmk_json_out out = tmk_json_new_object(), ranges = tmk_json_new_array();
    struct tmk_profile_range range;
    for (uint32_t i = 0; tmk_profile_range(profile, i, &range); i++) {
        struct tmk_json_out pair = tmk_json_new_array();
        tmk_json_put_u64(&pair, NULL, range.begin);
        tmk_json_put_u64(&pair, NULL, range.end);
        tmk_json_put_child(&ranges, NULL, &pair);
    }
    tmk_json_put_u64(&out, "total", tmk_profile_total(profile));
    tmk_json_put_child(&out, "ranges", &ranges);
    tmk_json_put_child(to, key, &out);
}

static enum tmk_status get_range(const cJSON *item, struct tmk_profile_range *out,
                                 struct tmk_diag *diag) {
    const cJSON *begin = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *end = begin ? begin->next : NULL;
    if (!end || end->next || !tmk_json_as_u64(begin, &out->begin) ||
        !tmk_json_as_u64(end, &out->end))
        return tmk_fail(diag, TMK_FORMAT, "'ranges': an entry is not a pair of samples");
    return TMK_OK;
}

static enum tmk_status get_coverage(struct tmk_field_reader *r, const cJSON *coverage,
                                    void *record) {
    static const char *const keys[] = {"total", "ranges"};
    const cJSON *list, *item;
    struct tmk_profile *profile = record;
    struct tmk_diag *diag = r->diag;
    uint32_t n = 0;
    TMK_TRY(tmk_json_keys(coverage, keys, TMK_COUNT(keys), !r->lenient, diag));
    TMK_TRY(tmk_json_u64(coverage, "total", &profile->coverage.total, diag));
    TMK_TRY(tmk_json_array(coverage, "ranges", &list, diag));
    struct tmk_profile_range *ranges = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *ranges);
    TMK_TRY_ALLOC(ranges, diag);
    cJSON_ArrayForEach(item, list) {
        enum tmk_status status = get_range(item, &ranges[n++], diag);
        if (status != TMK_OK) {
            free(ranges);
            return status;
        }
    }
    /* One range without gaps is the ledger's, so that equal profiles are equal structs. */
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    if (n > 1) {
        profile->coverage.ranges = ranges;
        profile->coverage.n_ranges = n;
        return TMK_OK;
    }
    struct tmk_profile_range only = n ? ranges[0] : (struct tmk_profile_range){0, 0};
    free(ranges);
    bool same = n ? only.begin == ledger->first_sample && only.end == ledger->end_sample &&
                        only.begin < only.end
                  : ledger->first_sample == ledger->end_sample;
    if (!same)
        return tmk_fail(diag, TMK_MISMATCH,
                        "'ranges' is %" PRIu64 " to %" PRIu64 ", but the ledger's range %" PRIu64
                        " to %" PRIu64,
                        only.begin, only.end, ledger->first_sample, ledger->end_sample);
    return TMK_OK;
}

const struct tmk_field_codec tmk_profile_coverage_codec = {put_coverage, get_coverage};
