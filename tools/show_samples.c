/* SPDX-License-Identifier: Apache-2.0 */
/* What single samples did to the ranges. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "show.h"
#include "table.h"

enum { NAME_CELLS = 32 };

static bool has_samples(const struct tmk_profile_tensor *t) {
    return t->stats && t->sample_min && t->kind != TMK_PROFILE_WEIGHT;
}

/* By how much its extreme samples exceed the others. */
static bool has_topk(const struct tmk_profile_tensor *t) {
    return has_samples(t) || t->topk.n;
}

static enum tmk_status no_memory(struct tmk_diag *diag) {
    snprintf(diag->text, sizeof diag->text, "out of memory");
    return diag->status = TMK_NOMEM;
}

/* ---- outliers ---- */

enum end { MIN, MAX };
static const char *const end_names[] = {"min", "max"};

/* What one sample did. */
struct culprit {
    uint64_t sample;
    uint32_t extremes; /* that it holds */
    double widens;     /* the most that the range of a value is wider by it alone; NAN: not known */
    const struct tmk_profile_tensor *worst; /* that value */
    enum end end;
    float value, next; /* its extreme, and the next sample's */
    uint64_t next_sample;
};

struct culprits {
    struct culprit *items;
    size_t n, size;
};

static struct culprit *culprit_of(struct culprits *all, uint64_t sample) {
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].sample == sample)
            return &all->items[i];
    if (all->n == all->size) {
        size_t size = all->size ? 2 * all->size : 64;
        struct culprit *items = realloc(all->items, size * sizeof *items);
        if (!items)
            return NULL;
        all->items = items;
        all->size = size;
    }
    all->items[all->n] = (struct culprit){.sample = sample, .widens = NAN};
    return &all->items[all->n++];
}

static struct tmk_topk tops_of(const struct tmk_profile *profile,
                               const struct tmk_profile_tensor *t) {
    struct tmk_topk topk = {0};
    if (!has_samples(t))
        return t->topk;
    for (uint64_t i = 0; i < t->n_samples; i++) {
        const struct tmk_minmax range = {t->sample_min[i], t->sample_max[i], false, false};
        tmk_topk_add(&topk, profile->ledger.first_sample + i, &range);
    }
    return topk;
}

/* How much wider the range is by this sample; NAN: the others have none. */
static double range_growth(const struct tmk_topk *topk, uint64_t sample) {
    float min, max;
    if (!tmk_topk_without(topk, sample, &min, &max) || !(min < max))
        return NAN;
    return ((double)topk->max[0].value - (double)topk->min[0].value) / ((double)max - (double)min) -
           1;
}

static bool add_sample(struct culprits *all, const struct tmk_profile_tensor *t, enum end end,
                       const struct tmk_topk *topk) {
    const struct tmk_topk_entry *top = end == MIN ? topk->min : topk->max;
    if (top[0].value == top[1].value) /* reached by more than one sample */
        return true;
    struct culprit *c = culprit_of(all, top[0].sample);
    if (!c)
        return false;
    c->extremes++;
    double widens = range_growth(topk, top[0].sample);
    if (isnan(widens) || c->widens >= widens)
        return true;
    c->widens = widens;
    c->worst = t;
    c->end = end;
    c->value = top[0].value;
    c->next = top[1].value;
    c->next_sample = top[1].sample;
    return true;
}

static bool blame_samples(struct culprits *all, const struct tmk_profile *profile,
                          const struct tmk_profile_tensor *t) {
    const struct tmk_topk topk = tops_of(profile, t);
    if (topk.n < 2)
        return true; /* one sample, or none: there is nothing to compare */
    return add_sample(all, t, MIN, &topk) && add_sample(all, t, MAX, &topk);
}

static void print_end(const char *label, const struct tmk_topk_entry *top, uint32_t n) {
    int used = print_out("  %-18s", label);
    for (uint32_t i = 0; i < n; i++)
        print_item(&used, "%.6g in %" PRIu64 "%s", (double)top[i].value, top[i].sample,
                   i + 1 < n ? "," : "");
    if (n)
        print_out("\n");
}

void print_tops(const struct tmk_profile_tensor *t) {
    const struct tmk_topk *topk = &t->topk;
    float min, max;
    if (!topk->n) {
        if (t->n_sources)
            print_entry("top samples", "follow from those of p%" PRIu32 "%s", t->sources[0],
                        t->n_sources > 1 ? " and the others that it derives from" : "");
        return;
    }
    print_end("min, by sample", topk->min, topk->n);
    print_end("max, by sample", topk->max, topk->n);
    uint64_t low = topk->min[0].sample, high = topk->max[0].sample;
    double by_low = range_growth(topk, low), by_high = range_growth(topk, high);
    uint64_t worst = !(by_high > by_low) && !isnan(by_low) ? low : high;
    if (tmk_topk_without(topk, worst, &min, &max))
        print_entry("range", "[%.6g, %.6g] without sample %" PRIu64, (double)min, (double)max,
                    worst);
}

/* Only the places of the extremes are there. */
static bool blame_places(struct culprits *all, const struct tmk_profile_tensor *t) {
    struct tmk_summary s;
    tmk_stats_summary(t->stats, &s);
    const struct tmk_where at[] = {s.min_at, s.max_at};
    for (int end = MIN; end <= MAX; end++) {
        if (!s.finite || at[end].sample == TMK_NOWHERE)
            continue;
        struct culprit *c = culprit_of(all, at[end].sample);
        if (!c)
            return false;
        c->extremes++;
    }
    return true;
}

static int worst_first(const void *a, const void *b) {
    const struct culprit *x = a, *y = b;
    double p = isnan(x->widens) ? -1 : x->widens, q = isnan(y->widens) ? -1 : y->widens;
    if (p != q)
        return p < q ? 1 : -1;
    if (x->extremes != y->extremes)
        return x->extremes < y->extremes ? 1 : -1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

static void print_culprits(const struct culprits *all, size_t n, uint32_t values, bool complete) {
    print_out("%zu samples set the extremes of %" PRIu32 " values\n", all->n, values);
    if (!complete)
        print_out("how much they exceed the others is not known: an earlier release made it\n");
    static const struct table_column columns[] = {
        {"sample", 10, .right = true},
        {"extremes", 8, .right = true},
        {"widens", 8, .right = true},
        {"id", 6},
        {"most", NAME_CELLS, .min = 12},
        {"end", 3},
        {"value", 11, .right = true},
        {"then", 11, .right = true},
        {"of sample", 10, .leaves = 1, .right = true},
    };
    enum { COLUMNS = sizeof columns / sizeof *columns, CELL = 32 };
    struct table table;
    table_begin(&table, columns, complete ? COLUMNS : 2);
    for (size_t i = 0; i < n; i++) {
        const struct culprit *c = &all->items[i];
        char text[COLUMNS][CELL] = {{0}};
        const char *cells[COLUMNS];
        for (int k = 0; k < COLUMNS; k++)
            cells[k] = text[k];
        snprintf(text[0], CELL, "%" PRIu64, c->sample);
        snprintf(text[1], CELL, "%" PRIu32, c->extremes);
        if (c->worst) {
            snprintf(text[2], CELL, "%+.1f%%", 100 * c->widens);
            snprintf(text[3], CELL, "p%" PRIu32, c->worst->id);
            cells[4] = c->worst->name;
            cells[5] = end_names[c->end];
            snprintf(text[6], CELL, "%.6g", (double)c->value);
            snprintf(text[7], CELL, "%.6g", (double)c->next);
            snprintf(text[8], CELL, "%" PRIu64, c->next_sample);
        }
        table_row(&table, cells, HUE_NONE);
    }
}

static void print_culprits_json(const struct culprits *all, size_t n, uint32_t values,
                                bool per_sample) {
    print_out("{\"per_sample\": %s, \"values\": %" PRIu32 ", \"samples\": [",
              per_sample ? "true" : "false", values);
    for (size_t i = 0; i < n; i++) {
        const struct culprit *c = &all->items[i];
        print_out("%s\n {\"sample\": %" PRIu64 ", \"extremes\": %" PRIu32, i ? "," : "", c->sample,
                  c->extremes);
        if (c->worst) {
            print_out(", \"widens\": %.9g, \"worst\": {\"id\": \"p%" PRIu32 "\", \"name\": ",
                      c->widens, c->worst->id);
            put_quoted(stdout, c->worst->name);
            print_out(
                ", \"end\": \"%s\", \"value\": %.9g, \"next\": %.9g, \"next_sample\": %" PRIu64 "}",
                end_names[c->end], (double)c->value, (double)c->next, c->next_sample);
        }
        print_out("}");
    }
    print_out("]}\n");
}

enum tmk_status show_outliers(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                              uint64_t most, bool json, struct tmk_diag *diag) {
    struct culprits all = {0};
    bool complete = false, per_sample = false, ok = true;
    uint32_t values = 0;
    for (uint32_t i = 0; i < n; i++) {
        complete |= has_topk(&profile->tensors[chosen[i]]);
        per_sample |= has_samples(&profile->tensors[chosen[i]]);
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[chosen[i]];
        if (!t->stats || t->kind == TMK_PROFILE_WEIGHT || (complete && !has_topk(t)))
            continue;
        values++;
        ok = complete ? blame_samples(&all, profile, t) : blame_places(&all, t);
    }
    if (ok && all.n)
        qsort(all.items, all.n, sizeof *all.items, worst_first);
    size_t shown = all.n < most ? all.n : (size_t)most;
    if (ok && json)
        print_culprits_json(&all, shown, values, per_sample);
    else if (ok)
        print_culprits(&all, shown, values, complete);
    free(all.items);
    return ok ? TMK_OK : no_memory(diag);
}

/* ---- convergence ---- */

enum { TOLERANCES = 2, SLOWEST_SHOWN = 10 };
static const double tolerances[TOLERANCES] = {0.01, 0.05};
static const double quantiles[] = {0.5, 0.9, 0.99, 1};
enum { QUANTILES = sizeof quantiles / sizeof *quantiles };

/* A value, and after how many samples its range stayed within each tolerance of the final one. */
struct settled {
    const struct tmk_profile_tensor *tensor;
    uint64_t after[TOLERANCES];
};

/* Samples that ran have numbers in some value. Positions to how many ran so far. */
static uint64_t count_ran(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                          uint64_t *number, uint64_t span) {
    uint64_t ran = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[chosen[i]];
        for (uint64_t s = 0; has_samples(t) && s < span; s++)
            number[s] |= !isnan(t->sample_min[s]);
    }
    for (uint64_t s = 0; s < span; s++) {
        ran += number[s];
        number[s] = ran;
    }
    return ran;
}

static bool find_convergence(const struct tmk_profile_tensor *t, const uint64_t *number,
                             struct settled *out) {
    float min = INFINITY, max = -INFINITY;
    for (uint64_t s = 0; s < t->n_samples; s++) {
        min = t->sample_min[s] < min ? t->sample_min[s] : min;
        max = t->sample_max[s] > max ? t->sample_max[s] : max;
    }
    if (!(min <= max))
        return false;
    *out = (struct settled){.tensor = t};
    double range = (double)max - (double)min, low = INFINITY, high = -INFINITY;
    bool done[TOLERANCES] = {false};
    for (uint64_t s = 0; s < t->n_samples; s++) {
        if (isnan(t->sample_min[s]))
            continue;
        low = fmin(low, (double)t->sample_min[s]);
        high = fmax(high, (double)t->sample_max[s]);
        for (int k = 0; k < TOLERANCES; k++)
            if (!done[k] && low - (double)min <= tolerances[k] * range &&
                (double)max - high <= tolerances[k] * range) {
                done[k] = true;
                out->after[k] = number[s];
            }
    }
    return true;
}

static int slowest_first(const void *a, const void *b) {
    const struct settled *x = a, *y = b;
    for (int k = 0; k < TOLERANCES; k++)
        if (x->after[k] != y->after[k])
            return x->after[k] < y->after[k] ? 1 : -1;
    return (x->tensor->id > y->tensor->id) - (x->tensor->id < y->tensor->id);
}

static int by_count(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest count that is enough for this share of the values. */
static void find_quantiles(const struct settled *settled, uint32_t n, uint64_t *sorted,
                           uint64_t out[TOLERANCES][QUANTILES]) {
    for (int k = 0; k < TOLERANCES; k++) {
        for (uint32_t i = 0; i < n; i++)
            sorted[i] = settled[i].after[k];
        qsort(sorted, n, sizeof *sorted, by_count);
        for (int q = 0; q < QUANTILES; q++) {
            uint32_t at = (uint32_t)ceil(quantiles[q] * n);
            out[k][q] = n ? sorted[at ? at - 1 : 0] : 0;
        }
    }
}

static void print_settled(const struct settled *settled, uint32_t n, uint64_t ran,
                          uint64_t summary[TOLERANCES][QUANTILES]) {
    print_out("samples, of %" PRIu64
              ", after which min and max stayed near those of the whole run\n\n"
              "  %-24s %10s %10s\n",
              ran, "share of the values", "1 %", "5 %");
    for (int q = 0; q < QUANTILES; q++)
        print_out("  %-22g %% %10" PRIu64 " %10" PRIu64 "\n", 100 * quantiles[q], summary[0][q],
                  summary[1][q]);
    print_out("\n  %-5s %-*s %10s %10s\n", "id", NAME_CELLS, "the slowest", "1 %", "5 %");
    for (uint32_t i = 0; i < n && i < SLOWEST_SHOWN; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%" PRIu32, settled[i].tensor->id);
        print_out("  %-5s ", id);
        print_name(settled[i].tensor->name, NAME_CELLS);
        print_out(" %10" PRIu64 " %10" PRIu64 "\n", settled[i].after[0], settled[i].after[1]);
    }
}

static void print_settled_json(const struct settled *settled, uint32_t n, uint64_t ran,
                               uint64_t summary[TOLERANCES][QUANTILES]) {
    print_out("{\"samples\": %" PRIu64 ", \"quantiles\": [", ran);
    for (int q = 0; q < QUANTILES; q++)
        print_out("%s{\"share\": %g, \"within_1_percent\": %" PRIu64
                  ", \"within_5_percent\": %" PRIu64 "}",
                  q ? ", " : "", quantiles[q], summary[0][q], summary[1][q]);
    print_out("], \"values\": [");
    for (uint32_t i = 0; i < n; i++) {
        print_out("%s\n {\"id\": \"p%" PRIu32 "\", \"name\": ", i ? "," : "",
                  settled[i].tensor->id);
        put_quoted(stdout, settled[i].tensor->name);
        print_out(", \"within_1_percent\": %" PRIu64 ", \"within_5_percent\": %" PRIu64 "}",
                  settled[i].after[0], settled[i].after[1]);
    }
    print_out("]}\n");
}

enum tmk_status show_convergence(const struct tmk_profile *profile, const uint32_t *chosen,
                                 uint32_t n, bool json, struct tmk_diag *diag) {
    uint64_t span = profile->ledger.end_sample - profile->ledger.first_sample,
             summary[TOLERANCES][QUANTILES];
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= has_samples(&profile->tensors[chosen[i]]);
    if (!any) {
        snprintf(diag->text, sizeof diag->text,
                 "the extremes of each sample are not there: `tidemark profile --per-sample -o "
                 "FILE.h5` keeps them");
        return diag->status = TMK_NOTFOUND;
    }
    uint64_t *number = calloc((size_t)span + 1, sizeof *number),
             *sorted = calloc((size_t)n + 1, sizeof *sorted);
    struct settled *settled = calloc((size_t)n + 1, sizeof *settled);
    bool ok = number && sorted && settled;
    if (ok) {
        uint32_t values = 0;
        uint64_t ran = count_ran(profile, chosen, n, number, span);
        for (uint32_t i = 0; i < n; i++)
            if (has_samples(&profile->tensors[chosen[i]]))
                values += find_convergence(&profile->tensors[chosen[i]], number, &settled[values]);
        qsort(settled, values, sizeof *settled, slowest_first);
        find_quantiles(settled, values, sorted, summary);
        if (json)
            print_settled_json(settled, values, ran, summary);
        else
            print_settled(settled, values, ran, summary);
    }
    free(number);
    free(sorted);
    free(settled);
    return ok ? TMK_OK : no_memory(diag);
}
