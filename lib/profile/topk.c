/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that reach furthest: in files, and in the books. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

static const char *const ends[] = {"min", "max"};

static void put_end(struct tmk_json_out *to, const char *end, const struct tmk_topk_entry *topk,
                    uint32_t n) {
    cJSON *array = cJSON_CreateArray();
    struct tmk_json_out list = {array, !array};
    for (uint32_t i = 0; i < n; i++) {
        cJSON *item = cJSON_CreateObject();
        struct tmk_json_out top = {item, !item};
        tmk_json_put_float(&top, "value", topk[i].value);
        tmk_json_put_u64(&top, "sample", topk[i].sample);
        tmk_json_put_child(&list, NULL, &top);
    }
    tmk_json_put_child(to, end, &list);
}

void tmk_profile_put_topk(struct tmk_json_out *to, const char *key, const struct tmk_topk *topk) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out both = {item, !item};
    put_end(&both, ends[0], topk->min, topk->n);
    put_end(&both, ends[1], topk->max, topk->n);
    tmk_json_put_child(to, key, &both);
}

static enum tmk_status get_top(const cJSON *item, bool strict, struct tmk_topk_entry *out,
                               struct tmk_diag *diag) {
    static const char *const keys[] = {"value", "sample"};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), strict, diag));
    TMK_TRY(tmk_json_float(item, "value", &out->value, diag));
    return tmk_json_u64(item, "sample", &out->sample, diag);
}

static enum tmk_status get_end(const cJSON *item, const char *end, bool strict,
                               struct tmk_topk_entry *topk, uint32_t *n, struct tmk_diag *diag) {
    const cJSON *array, *top;
    *n = 0;
    TMK_TRY(tmk_json_array(item, end, &array, diag));
    cJSON_ArrayForEach(top, array) {
        if (*n == TMK_TOPK)
            return tmk_fail(diag, TMK_FORMAT, "'%s': more than %d samples", end, TMK_TOPK);
        TMK_TRY(tmk_in(diag, get_top(top, strict, &topk[(*n)++], diag), "'%s'", end));
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_get_topk(const cJSON *item, bool strict, struct tmk_topk *out,
                                     struct tmk_diag *diag) {
    uint32_t n;
    TMK_TRY(tmk_json_keys(item, ends, TMK_COUNT(ends), strict, diag));
    TMK_TRY(get_end(item, ends[0], strict, out->min, &n, diag));
    TMK_TRY(get_end(item, ends[1], strict, out->max, &out->n, diag));
    if (n != out->n)
        return tmk_fail(diag, TMK_FORMAT,
                        "%" PRIu32 " samples at one end, %" PRIu32 " at the other", n, out->n);
    return TMK_OK;
}

static enum tmk_status balance_end(const struct tmk_profile *profile,
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

enum tmk_status tmk_profile_balance_topk(const struct tmk_profile *profile,
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
    TMK_TRY(balance_end(profile, t->topk.min, t->topk.n, ends[0], is.min, is.min_at, -1, diag));
    return balance_end(profile, t->topk.max, t->topk.n, ends[1], is.max, is.max_at, 1, diag);
}
