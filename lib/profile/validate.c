/* SPDX-License-Identifier: Apache-2.0 */
/* Validation: whether the fields of a profile are consistent. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "base/text.h"
#include "profile/format.h"

/* The top samples of a value: in files, and their validation. */

static const char *const ends[] = {"min", "max"};

#define RECORD tmk_topk_entry
static const struct tmk_field entry_table[] = {
    TMK_FIELD("value", F32, value),
    TMK_FIELD("sample", U64, sample),
};
#undef RECORD
static const struct tmk_fields entry_fields = TMK_FIELDS(entry_table, );

static void put_end(struct tmk_json_out *to, const char *end, const struct tmk_topk_entry *topk,
                    uint32_t n) {
    struct tmk_json_out list = tmk_json_new_array();
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_json_out top = tmk_json_new_object();
        tmk_fields_put(&top, &entry_fields, &topk[i], i);
        tmk_json_put_child(&list, NULL, &top);
    }
    tmk_json_put_child(to, end, &list);
}

static void put_topk(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_topk *topk = &((const struct tmk_profile_row *)record)->t.topk;
    struct tmk_json_out both = tmk_json_new_object();
    put_end(&both, ends[0], topk->min, topk->n);
    put_end(&both, ends[1], topk->max, topk->n);
    tmk_json_put_child(to, key, &both);
}

static enum tmk_status get_end(struct tmk_field_reader *r, const cJSON *item, const char *end,
                               struct tmk_topk_entry *topk, uint32_t *n) {
    const cJSON *array, *top;
    *n = 0;
    TMK_TRY(tmk_json_array(item, end, &array, r->diag));
    cJSON_ArrayForEach(top, array) {
        if (*n == TMK_TOPK)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s': more than %d samples", end, TMK_TOPK);
        TMK_TRY(tmk_in(r->diag, tmk_fields_get(r, &entry_fields, top, &topk[(*n)++]), "'%s'", end));
    }
    return TMK_OK;
}

static enum tmk_status get_topk(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_topk *out = &((struct tmk_profile_row *)record)->t.topk;
    uint32_t n;
    TMK_TRY(tmk_json_keys(item, ends, TMK_COUNT(ends), !r->lenient, r->diag));
    TMK_TRY(get_end(r, item, ends[0], out->min, &n));
    TMK_TRY(get_end(r, item, ends[1], out->max, &out->n));
    if (n != out->n)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "%" PRIu32 " samples at one end, %" PRIu32 " at the other", n, out->n);
    return TMK_OK;
}

const struct tmk_field_codec tmk_profile_topk_codec = {put_topk, get_topk};

static enum tmk_status validate_end(const struct tmk_profile *profile,
                                    const struct tmk_topk_entry *topk, uint32_t n, const char *end,
                                    float extreme, struct tmk_where at, float sign,
                                    struct tmk_diag *diag) {
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    if (memcmp(&topk[0].value, &extreme, sizeof extreme) != 0 ||
        (at.sample != TMK_NOWHERE && at.sample != topk[0].sample))
        return tmk_fail(diag, TMK_MISMATCH,
                        "its %s is %g in sample %" PRIu64 ", but the first of its top samples has "
                        "%g in sample %" PRIu64,
                        end, (double)extreme, at.sample, (double)topk[0].value, topk[0].sample);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_topk_entry *top = &topk[i];
        bool ordered = i == 0 || sign * top->value < sign * top[-1].value ||
                       (top->value == top[-1].value && top->sample != top[-1].sample);
        for (uint32_t k = 0; k < i; k++)
            ordered &= topk[k].sample != top->sample;
        if (!isfinite(top->value) || !ordered || top->sample < ledger->first_sample ||
            top->sample >= ledger->end_sample)
            return tmk_fail(diag, TMK_MISMATCH,
                            "top sample %" PRIu64
                            " (%s %g) is out of order or of the ledger's range",
                            top->sample, end, (double)top->value);
    }
    return TMK_OK;
}

/* Are the top samples consistent? TMK_MISMATCH. */
static enum tmk_status profile_validate_topk(const struct tmk_profile *profile,
                                             const struct tmk_profile_tensor *t,
                                             struct tmk_diag *diag) {
    struct tmk_summary is = {.samples = 0};
    if (!t->topk.n)
        return TMK_OK;
    if (t->stats)
        tmk_stats_quick_summary(t->stats, &is);
    if (t->topk.n > TMK_TOPK || t->topk.n > is.samples || !is.finite)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%" PRIu32 " top samples of %" PRIu64 " samples, with %" PRIu64
                        " finite elements",
                        t->topk.n, is.samples, is.finite);
    TMK_TRY(validate_end(profile, t->topk.min, t->topk.n, ends[0], is.min, is.min_at, -1, diag));
    return validate_end(profile, t->topk.max, t->topk.n, ends[1], is.max, is.max_at, 1, diag);
}

static enum tmk_status is_text(const char *text, const char *what, struct tmk_diag *diag) {
    if (!text || !tmk_utf8_valid(text, strlen(text)))
        return tmk_fail(diag, TMK_MISMATCH, "%s is not UTF-8", what);
    return TMK_OK;
}

static enum tmk_status settings_are_distinct(const struct tmk_profile *p, struct tmk_diag *diag) {
    struct tmk_map seen = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < p->n_settings && status == TMK_OK; i++) {
        const char *key = p->settings[i].key;
        if (i > 0 && strcmp(p->settings[i - 1].key, key) == 0)
            continue; /* one more entry of a list */
        if (tmk_map_get(&seen, key))
            status = tmk_fail(diag, TMK_MISMATCH, "the setting '%s' stands in two places", key);
        else if (!tmk_map_put(&seen, key, &p->settings[i]))
            status = tmk_nomem(diag);
    }
    tmk_map_finish(&seen);
    return status;
}

static enum tmk_status validate_bad(const struct tmk_profile *p, struct tmk_diag *diag) {
    const struct tmk_profile_ledger *ledger = &p->ledger;
    if (p->n_bad > ledger->failed)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%" PRIu32 " bad samples are listed, but %" PRIu64 " failed", p->n_bad,
                        ledger->failed);
    for (uint32_t i = 0; i < p->n_bad; i++) {
        const struct tmk_profile_bad *bad = &p->bad[i];
        if (bad->sample < ledger->first_sample || bad->sample >= ledger->end_sample ||
            (i && bad->sample <= bad[-1].sample))
            return tmk_fail(diag, TMK_MISMATCH,
                            "the bad sample %" PRIu64 " is out of the ledger's range, or of order",
                            bad->sample);
    }
    return TMK_OK;
}

static enum tmk_status validate_count(const struct tmk_profile_tensor *t, uint64_t count,
                                      struct tmk_diag *diag) {
    if (count != t->expected_count)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%" PRIu64 " elements were counted, but the shapes that ran have %" PRIu64,
                        count, t->expected_count);
    return TMK_OK;
}

static enum tmk_status validate_stats(const struct tmk_profile_tensor *t,
                                      const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    struct tmk_summary is;
    tmk_stats_summary(t->stats, &is);
    tmk_stats_bins(t->stats, bins->bin, bins->count, bins->low);
    uint64_t sum = is.zeros + is.nan + is.posinf + is.neginf + is.excluded;
    for (uint32_t i = 0; i < is.bins_used; i++)
        sum += bins->count[i];
    if (t->has_int_stats)
        return tmk_fail(diag, TMK_MISMATCH, "it was counted as floats and as integers");
    if (t->dtype != TMK_FLOAT32)
        return tmk_fail(diag, TMK_MISMATCH, "floats were counted, but its type is %s",
                        tmk_dtype_name(t->dtype));
    /* the rest is in no bin */
    const bool apart = tmk_stats_level_of(t->stats) == TMK_STATS_MINMAX || is.share;
    if (apart ? sum > is.count : sum != is.count)
        return tmk_fail(diag, TMK_MISMATCH,
                        "zeros, NaN, infinities, what was excluded and the histogram hold %" PRIu64
                        " elements, the count is %" PRIu64,
                        sum, is.count);
    if (t->status == TMK_PROFILE_DEAD && !(is.finite == is.count && is.min == is.max))
        return tmk_fail(diag, TMK_MISMATCH, "it is dead, but was not one number all the time");
    return validate_count(t, is.count, diag);
}

static enum tmk_status validate_int_stats(const struct tmk_profile_tensor *t,
                                          struct tmk_diag *diag) {
    const struct tmk_int_stats *is = &t->int_stats;
    if (!tmk_int_stats_supports(t->dtype))
        return tmk_fail(diag, TMK_MISMATCH, "integers were counted, but its type is %s",
                        tmk_dtype_name(t->dtype));
    if (is->zeros > is->count || is->saturated > is->count || (is->count && is->min > is->max))
        return tmk_fail(diag, TMK_MISMATCH, "its integer counts contradict each other");
    return validate_count(t, is->count, diag);
}

bool tmk_profile_is_transferred(const struct tmk_profile_tensor *tensor) {
    static const char prefix[] = "lineage:";
    return strncmp(tensor->rule, prefix, sizeof prefix - 1) == 0;
}

static enum tmk_status validate_status(const struct tmk_profile *profile,
                                       const struct tmk_profile_tensor *t, struct tmk_diag *diag) {
    bool counted = t->stats || t->has_int_stats;
    const char *status = tmk_profile_status_name(t->status);
    if (t->status == TMK_PROFILE_NEVER && t->expected_count)
        return tmk_fail(diag, TMK_MISMATCH, "it is '%s', but %" PRIu64 " elements ran", status,
                        t->expected_count);
    bool needs = t->status == TMK_PROFILE_OBSERVED || t->status == TMK_PROFILE_DEAD ||
                 t->status == TMK_PROFILE_DERIVED ||
                 (t->status == TMK_PROFILE_INTEGER && tmk_int_stats_supports(t->dtype));
    if (needs && !counted)
        return tmk_fail(diag, TMK_MISMATCH, "it is '%s', but has no statistics", status);
    if (t->status == TMK_PROFILE_INTEGER && t->stats)
        return tmk_fail(diag, TMK_MISMATCH, "it is '%s', but floats were counted", status);
    if (t->status != TMK_PROFILE_INTEGER && t->has_int_stats)
        return tmk_fail(diag, TMK_MISMATCH, "it is '%s', but integers were counted", status);
    bool derived = t->status == TMK_PROFILE_DERIVED || (t->status == TMK_PROFILE_DEAD && *t->rule);
    bool elsewhere = tmk_profile_is_transferred(t); /* what it derives from is in another profile */
    if (derived != (t->n_sources > 0 || elsewhere) || derived != (*t->rule != '\0'))
        return tmk_fail(diag, TMK_MISMATCH,
                        "it is '%s', with the rule '%s' from %" PRIu32 " values", status, t->rule,
                        t->n_sources);
    for (uint32_t i = 0; i < t->n_operands; i++)
        if (!tmk_profile_by_id(profile, t->operands[i]))
            return tmk_fail(diag, TMK_MISMATCH,
                            "it is computed from p%" PRIu32 ", which is not in the profile",
                            t->operands[i]);
    for (uint32_t i = 0; i < t->n_sources; i++)
        if (t->sources[i] == t->id || !tmk_profile_by_id(profile, t->sources[i]))
            return tmk_fail(diag, TMK_MISMATCH, "it derives from p%" PRIu32 ", which is %s",
                            t->sources[i],
                            t->sources[i] == t->id ? "itself" : "not in the profile");
    return TMK_OK;
}

static enum tmk_status validate_samples(const struct tmk_profile *profile,
                                        const struct tmk_profile_tensor *t, struct tmk_diag *diag) {
    uint64_t span = profile->ledger.end_sample - profile->ledger.first_sample;
    if (!t->sample_min && !t->sample_max && t->n_samples == 0)
        return TMK_OK;
    if (!t->sample_min || !t->sample_max || t->n_samples != span)
        return tmk_fail(diag, TMK_MISMATCH,
                        "it has extremes for %" PRIu64
                        " samples; the ledger's range holds %" PRIu64,
                        t->n_samples, span);
    struct tmk_summary is = {.min = NAN, .max = NAN};
    if (t->stats)
        tmk_stats_quick_summary(t->stats, &is);
    for (uint64_t i = 0; i < span; i++) {
        float min = t->sample_min[i], max = t->sample_max[i];
        bool nothing = isnan(min) && isnan(max);
        if (!nothing && !(is.min <= min && min <= max && max <= is.max))
            return tmk_fail(diag, TMK_MISMATCH,
                            "sample %" PRIu64 " has the extremes %g and %g, all samples %g and %g",
                            profile->ledger.first_sample + i, (double)min, (double)max,
                            (double)is.min, (double)is.max);
    }
    return TMK_OK;
}

static enum tmk_status validate_tensor(const struct tmk_profile *profile,
                                       const struct tmk_profile_tensor *t,
                                       const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    const struct tmk_profile_row row = {.t = *t};
    TMK_TRY(tmk_fields_check_texts(&tmk_profile_value_fields, &row, diag));
    for (int32_t i = 0; t->has_shape && i < t->shape.rank; i++)
        if (t->symbol[i])
            TMK_TRY(is_text(t->symbol[i], "a dimension's name", diag));
    uint64_t sum = 0;
    bool fits = true;
    if (t->has_shape && (t->shape.rank < 0 || t->shape.rank > TMK_MAX_RANK))
        return tmk_fail(diag, TMK_MISMATCH, "its shape has rank %" PRId32, t->shape.rank);
    for (uint32_t i = 0; i < t->n_runs && fits; i++) {
        size_t count;
        uint64_t elements;
        fits = tmk_shape_count(&t->runs[i].shape, &count) &&
               !__builtin_mul_overflow(count, t->runs[i].runs, &elements) &&
               !__builtin_add_overflow(sum, elements, &sum);
    }
    if (!fits || sum > t->expected_count || (sum != t->expected_count && !t->more_runs))
        return tmk_fail(diag, TMK_MISMATCH,
                        "the shapes that ran have %" PRIu64
                        " elements, expected_count says %" PRIu64,
                        sum, t->expected_count);
    if (t->stats)
        TMK_TRY(validate_stats(t, bins, diag));
    else if (t->has_int_stats)
        TMK_TRY(validate_int_stats(t, diag));
    TMK_TRY(validate_status(profile, t, diag));
    TMK_TRY(profile_validate_topk(profile, t, diag));
    return validate_samples(profile, t, diag);
}

enum tmk_status tmk_profile_validate(const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct tmk_profile_bins bins;
    TMK_TRY(tmk_fields_check_texts(&tmk_profile_header_fields, profile, diag));
    size_t digits = strspn(profile->model.sha256, "0123456789abcdef");
    if (profile->model.sha256[digits] || (digits != 0 && digits != 64))
        return tmk_fail(diag, TMK_MISMATCH, "'sha256' of the model is not 64 hex digits");
    for (uint32_t i = 0; i < profile->n_settings; i++) {
        TMK_TRY(is_text(profile->settings[i].key, "a setting's name", diag));
        TMK_TRY(is_text(profile->settings[i].value, "a setting", diag));
    }
    TMK_TRY(settings_are_distinct(profile, diag));
    uint64_t sum;
    if (__builtin_add_overflow(profile->ledger.run, profile->ledger.skipped, &sum) ||
        __builtin_add_overflow(sum, profile->ledger.failed, &sum) || sum != profile->ledger.offered)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the ledger does not add up: %" PRIu64 " samples offered, but %" PRIu64
                        " run, %" PRIu64 " skipped, %" PRIu64 " failed",
                        profile->ledger.offered, profile->ledger.run, profile->ledger.skipped,
                        profile->ledger.failed);
    if ((profile->ledger.batches == 0) != (profile->ledger.run == 0) ||
        profile->ledger.batches > profile->ledger.run)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the ledger does not add up: %" PRIu64 " samples run in %" PRIu64
                        " batches",
                        profile->ledger.run, profile->ledger.batches);
    TMK_TRY(tmk_profile_validate_coverage(profile, diag));
    TMK_TRY(validate_bad(profile, diag));
    TMK_TRY(tmk_profile_bins_init(&bins, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < profile->n_tensors && status == TMK_OK; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        if (i > 0 && t->id <= t[-1].id)
            status = tmk_fail(diag, TMK_MISMATCH, "it comes after p%" PRIu32, t[-1].id);
        TMK_THEN(status, validate_tensor(profile, t, &bins, diag));
        status = tmk_in(diag, status, "p%" PRIu32 " '%s'", t->id,
                        is_text(t->name, "", NULL) == TMK_OK ? t->name : "");
    }
    tmk_profile_bins_finish(&bins);
    return status;
}
