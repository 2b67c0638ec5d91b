/* SPDX-License-Identifier: Apache-2.0 */
/* The top samples of a value: in files, and their validation. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/row.h"

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

enum tmk_status tmk_profile_validate_topk(const struct tmk_profile *profile,
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
