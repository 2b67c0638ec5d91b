/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"

struct kind {
    const struct tmk_step_cost *first; /* one of them */
    size_t steps;
    double seconds, observe_seconds;
};

static bool is_same_kind(const struct tmk_step_cost *a, const struct tmk_step_cost *b) {
    return strcmp(a->what, b->what) == 0 && strcmp(a->kernel, b->kernel) == 0;
}

static int dearest_first(const void *a, const void *b) {
    const struct kind *x = a, *y = b;
    double s = x->seconds + x->observe_seconds, t = y->seconds + y->observe_seconds;
    return (s < t) - (s > t);
}

bool print_costs(const struct tmk_costs *costs, uint64_t samples) {
    struct kind *kinds = calloc(costs->n + 1, sizeof *kinds);
    size_t n = 0;
    double total = 0, observing = 0, ms = samples ? 1e3 / (double)samples : 0;
    if (!kinds)
        return false;
    for (size_t i = 0; i < costs->n; i++) {
        const struct tmk_step_cost *step = &costs->steps[i];
        size_t k = 0;
        while (k < n && !is_same_kind(kinds[k].first, step))
            k++;
        n += k == n;
        kinds[k].first = step;
        kinds[k].steps++;
        kinds[k].seconds += step->seconds;
        kinds[k].observe_seconds += step->observe_seconds;
        total += step->seconds;
        observing += step->observe_seconds;
    }
    static const struct table_column columns[] = {
        {"ms", 10, .right = true},   {"observing", 10, .right = true}, {"share", 6, .right = true},
        {"steps", 6, .right = true}, {"operators", 40, .min = 12},     {"kernel", 24, .min = 8},
    };
    enum { COLUMNS = sizeof columns / sizeof *columns, CELL = 32 };
    struct table table;
    print_out("\n");
    table_begin(&table, columns, COLUMNS);
    qsort(kinds, n, sizeof *kinds, dearest_first);
    for (size_t k = 0; k < n; k++) {
        char text[4][CELL];
        const char *const cells[] = {
            text[0], text[1], text[2], text[3], kinds[k].first->what, kinds[k].first->kernel};
        snprintf(text[0], CELL, "%.3f", kinds[k].seconds * ms);
        snprintf(text[1], CELL, "%.3f", kinds[k].observe_seconds * ms);
        snprintf(text[2], CELL, "%.1f%%",
                 100 * (kinds[k].seconds + kinds[k].observe_seconds) / (total + observing));
        snprintf(text[3], CELL, "%zu", kinds[k].steps);
        table_row(&table, cells, HUE_NONE);
    }
    print_out("%10.3f %10.3f  a sample, all threads together\n", total * ms, observing * ms);
    free(kinds);
    return true;
}

void print_costs_json(const struct tmk_costs *costs, uint64_t samples) {
    double ms = samples ? 1e3 / (double)samples : 0;
    print_out("\"per_op\": [");
    for (size_t i = 0; i < costs->n; i++) {
        const struct tmk_step_cost *step = &costs->steps[i];
        print_out("%s\n  {\"node\": ", i ? "," : "");
        put_quoted(stdout, step->name);
        print_out(", \"what\": ");
        put_quoted(stdout, step->what);
        print_out(", \"kernel\": ");
        put_quoted(stdout, step->kernel);
        print_out(", \"runs\": %llu, \"ms_per_sample\": %.6g, \"observe_ms_per_sample\": %.6g}",
                  (unsigned long long)step->runs, step->seconds * ms, step->observe_seconds * ms);
    }
    print_out("]");
}
