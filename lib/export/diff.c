/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/diff.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"

/* ---- the result ---- */

static enum tmk_status create_diff(size_t n_a, size_t n_b, struct tmk_diff **out,
                                   struct tmk_diag *diag) {
    struct tmk_diff *diff = calloc(1, sizeof *diff);
    if (diff) {
        diff->items = calloc(n_a + 1, sizeof *diff->items);
        diff->only_a = calloc(n_a + 1, sizeof *diff->only_a);
        diff->only_b = calloc(n_b + 1, sizeof *diff->only_b);
    }
    if (!diff || !diff->items || !diff->only_a || !diff->only_b) {
        tmk_diff_destroy(&diff);
        return tmk_nomem(diag);
    }
    *out = diff;
    return TMK_OK;
}

void tmk_diff_destroy(struct tmk_diff **slot) {
    struct tmk_diff *diff = slot ? *slot : NULL;
    if (!diff)
        return;
    *slot = NULL;
    free(diff->items);
    free(diff->only_a);
    free(diff->only_b);
    free(diff);
}

static double sort_weight(const struct tmk_diff_item *item) {
    return fmax(item->ranged ? item->range.share : item->change[0] ? 1 : 0, item->distance);
}

static int worst_first(const void *x, const void *y) {
    const struct tmk_diff_item *a = x, *b = y;
    const double left = sort_weight(a), right = sort_weight(b);
    if (left != right)
        return left > right ? -1 : 1;
    return a->id_a != b->id_a ? TMK_ORDER(a->id_a, b->id_a) : strcmp(a->name, b->name);
}

/* Sorted into *out; after a failure it is destroyed. */
static enum tmk_status finish_diff(enum tmk_status status, struct tmk_diff *diff,
                                   struct tmk_diff **out) {
    if (diff && status == TMK_OK) {
        qsort(diff->items, diff->n, sizeof *diff->items, worst_first);
        *out = diff;
    } else {
        tmk_diff_destroy(&diff);
    }
    return status;
}

/* ---- two profiles ---- */

/* Records by what they compute, and by their names. */
enum { KEY = 40 };
struct index {
    struct tmk_map by_print, by_name;
    char (*keys)[KEY];
};

/* Weights of one shape have one fingerprint: which of them is which, only the same graph or their
 * numbers can show. */
static void key_of(const struct tmk_profile_tensor *tensor, bool same_graph, char out[KEY]) {
    if (same_graph || tensor->kind != TMK_PROFILE_WEIGHT)
        snprintf(out, KEY, "%016llx/%u", (unsigned long long)tensor->fingerprint, tensor->ordinal);
    else
        snprintf(out, KEY, "=%016llx", (unsigned long long)tensor->content);
}

static bool fill_index(struct index *index, const struct tmk_profile *profile, bool same_graph) {
    index->keys = calloc(profile->n_tensors + 1, sizeof *index->keys);
    bool ok = index->keys != NULL;
    for (uint32_t i = 0; ok && i < profile->n_tensors; i++) {
        struct tmk_profile_tensor *tensor = &profile->tensors[i];
        key_of(tensor, same_graph, index->keys[i]);
        ok = tmk_map_put(&index->by_print, index->keys[i], tensor) &&
             (!tensor->name[0] || tmk_map_get(&index->by_name, tensor->name) ||
              tmk_map_put(&index->by_name, tensor->name, tensor));
    }
    return ok;
}

static void drop_index(struct index *index) {
    tmk_map_finish(&index->by_print);
    tmk_map_finish(&index->by_name);
    free(index->keys);
}

static const char *change_of(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b,
                             const struct tmk_summary *x, const struct tmk_summary *y) {
    if (!a->stats || !b->stats)
        return a->stats ? "was not seen" : b->stats ? "was never seen before" : "";
    if (y->nan && !x->nan)
        return "NaN is new";
    if (y->posinf + y->neginf && !(x->posinf + x->neginf))
        return "infinity is new";
    if (b->status == TMK_PROFILE_DEAD && a->status != TMK_PROFILE_DEAD)
        return "became dead";
    if (a->status == TMK_PROFILE_DEAD && b->status != TMK_PROFILE_DEAD)
        return "came alive";
    return "";
}

static enum tmk_status compare_facts(const struct tmk_summary *x, const struct tmk_summary *y,
                                     struct tmk_diff_item *item, struct tmk_diag *diag) {
    double low[2] = {(double)x->min, (double)y->min}, high[2] = {(double)x->max, (double)y->max};
    double step[2] = {0, 0};
    struct tmk_range a = {.name = item->name, .n = 1, .low = low, .high = high, .step = step};
    struct tmk_range b = {
        .name = item->name, .n = 1, .low = low + 1, .high = high + 1, .step = step + 1};
    item->ranged = !isnan(low[0]) && !isnan(low[1]);
    return item->ranged ? tmk_range_compare(&a, &b, &item->range, diag) : TMK_OK;
}

static enum tmk_status compare_records(const struct tmk_profile_tensor *a,
                                       const struct tmk_profile_tensor *b, struct tmk_diff *diff,
                                       struct tmk_diag *diag) {
    struct tmk_summary x = {0}, y = {0};
    struct tmk_diff_item item = {
        .name = a->name, .id_a = a->id, .id_b = b->id, .distance = -1, .change = ""};
    if (!a->stats && !b->stats) {
        diff->integers++;
        return TMK_OK;
    }
    if (a->stats)
        tmk_stats_quick_summary(a->stats, &x);
    if (b->stats)
        tmk_stats_quick_summary(b->stats, &y);
    item.change = change_of(a, b, &x, &y);
    if (a->stats && b->stats) {
        TMK_TRY(compare_facts(&x, &y, &item, diag));
        const enum tmk_stats_level level = tmk_stats_level_of(a->stats);
        if (x.count > x.excluded && y.count > y.excluded && level != TMK_STATS_MINMAX &&
            level == tmk_stats_level_of(b->stats))
            TMK_TRY(tmk_stats_distance(a->stats, b->stats, &item.distance, diag));
    }
    diff->items[diff->n++] = item;
    return TMK_OK;
}

static bool same_graph(const struct tmk_profile *a, const struct tmk_profile *b) {
    return a->model.fingerprint == b->model.fingerprint;
}

/* Other weights under a name that is there in both are the same value, retrained. */
static bool same_tensor(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    return a->kind != TMK_PROFILE_WEIGHT || a->fingerprint == b->fingerprint;
}

static enum tmk_status compare_profiles(const struct tmk_profile *a, const struct tmk_profile *b,
                                        const struct index *of_b, bool *taken,
                                        struct tmk_diff *diff, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct tmk_profile_tensor *tensor = &a->tensors[i];
        char key[KEY];
        key_of(tensor, same_graph(a, b), key);
        const struct tmk_profile_tensor *other = tmk_map_get(&of_b->by_print, key);
        if (!other && tensor->name[0])
            other = tmk_map_get(&of_b->by_name, tensor->name);
        if (!other || taken[other - b->tensors] || !same_tensor(tensor, other)) {
            diff->only_a[diff->n_only_a++] = tensor->name;
            continue;
        }
        taken[other - b->tensors] = true;
        TMK_TRY(compare_records(tensor, other, diff, diag));
    }
    for (uint32_t i = 0; i < b->n_tensors; i++)
        if (!taken[i])
            diff->only_b[diff->n_only_b++] = b->tensors[i].name;
    return TMK_OK;
}

enum tmk_status tmk_diff_profiles(const struct tmk_profile *a, const struct tmk_profile *b,
                                  struct tmk_diff **out, struct tmk_diag *diag) {
    struct tmk_diff *diff = NULL;
    struct index of_b = {0};
    bool *taken = calloc(b->n_tensors + 1, sizeof *taken);
    enum tmk_status status =
        taken && fill_index(&of_b, b, same_graph(a, b)) ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, create_diff(a->n_tensors, b->n_tensors, &diff, diag));
    TMK_THEN(status, compare_profiles(a, b, &of_b, taken, diff, diag));
    drop_index(&of_b);
    free(taken);
    return finish_diff(status, diff, out);
}

/* ---- with a consumer's file ---- */

static enum tmk_status compare_entries(const struct tmk_ranges *a, const struct tmk_ranges *b,
                                       struct tmk_map *of_b, struct tmk_diff *diff,
                                       struct tmk_diag *diag) {
    for (uint32_t i = 0; i < b->n; i++)
        TMK_TRY_ALLOC(tmk_map_put(of_b, b->items[i].name, &b->items[i]), diag);
    for (uint32_t i = 0; i < a->n; i++) {
        const struct tmk_range *other = tmk_map_get(of_b, a->items[i].name);
        struct tmk_diff_item item = {.name = a->items[i].name,
                                     .id_a = -1,
                                     .id_b = -1,
                                     .ranged = true,
                                     .distance = -1,
                                     .change = ""};
        if (!other) {
            diff->only_a[diff->n_only_a++] = item.name;
            continue;
        }
        TMK_TRY(tmk_range_compare(&a->items[i], other, &item.range, diag));
        diff->items[diff->n++] = item;
    }
    return TMK_OK;
}

static enum tmk_status list_rest(const struct tmk_ranges *a, const struct tmk_ranges *b,
                                 struct tmk_diff *diff, struct tmk_diag *diag) {
    struct tmk_map of_a = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < a->n; i++)
        ok = tmk_map_put(&of_a, a->items[i].name, &a->items[i]);
    for (uint32_t i = 0; ok && i < b->n; i++)
        if (!tmk_map_get(&of_a, b->items[i].name))
            diff->only_b[diff->n_only_b++] = b->items[i].name;
    tmk_map_finish(&of_a);
    return ok ? TMK_OK : tmk_nomem(diag);
}

enum tmk_status tmk_diff_ranges(const struct tmk_ranges *a, const struct tmk_ranges *b,
                                struct tmk_diff **out, struct tmk_diag *diag) {
    struct tmk_diff *diff = NULL;
    struct tmk_map of_b = {0};
    TMK_TRY(create_diff(a->n, b->n, &diff, diag));
    enum tmk_status status = compare_entries(a, b, &of_b, diff, diag);
    TMK_THEN(status, list_rest(a, b, diff, diag));
    tmk_map_finish(&of_b);
    return finish_diff(status, diff, out);
}

static void add_coverage(const struct tmk_profile *a, const struct tmk_ranges *b,
                         const struct tmk_range_coverage *coverage, bool *taken,
                         struct tmk_diff *diff) {
    for (uint32_t i = 0; i < b->n; i++) {
        const struct tmk_profile_tensor *record = coverage[i].record;
        if (!record) {
            diff->only_b[diff->n_only_b++] = b->items[i].name;
            continue;
        }
        taken[record - a->tensors] = true;
        diff->items[diff->n++] =
            (struct tmk_diff_item){.name = b->items[i].name,
                                   .id_a = record->id,
                                   .id_b = -1,
                                   .ranged = coverage[i].compared,
                                   .range = coverage[i].difference,
                                   .distance = -1,
                                   .change = record->stats ? "" : "was never seen before"};
    }
    for (uint32_t i = 0; i < a->n_tensors; i++)
        if (!taken[i] && a->tensors[i].stats && a->tensors[i].kind != TMK_PROFILE_WEIGHT)
            diff->only_a[diff->n_only_a++] = a->tensors[i].name;
}

enum tmk_status tmk_diff_coverage(const struct tmk_profile *a, const struct tmk_ranges *b,
                                  struct tmk_diff **out, struct tmk_diag *diag) {
    struct tmk_diff *diff = NULL;
    struct tmk_range_coverage *coverage = calloc(b->n + 1, sizeof *coverage);
    bool *taken = calloc(a->n_tensors + 1, sizeof *taken);
    enum tmk_status status = coverage && taken ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, tmk_ranges_cover(b, a, NULL, coverage, diag));
    TMK_THEN(status, create_diff((size_t)a->n_tensors + b->n, b->n, &diff, diag));
    if (status == TMK_OK)
        add_coverage(a, b, coverage, taken, diff);
    free(coverage);
    free(taken);
    return finish_diff(status, diff, out);
}
