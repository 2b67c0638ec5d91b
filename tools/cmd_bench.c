/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>

#include "command.h"
#include "memory.h"
#include "run_options.h"
#include "table.h"

/* Everything that can be measured: X(name, observer kind; NULL: no observer; are histograms
 * thinned). In order of cost, so that the peak of the process, which only grows, belongs to the
 * figure next to it. */
#define BENCH_FIGURES(X)                                                                           \
    X("bare", NULL, false)                                                                         \
    X("minmax", "minmax", false)                                                                   \
    X("thinned", "histogram", true)                                                                \
    X("ranges", "range", false)                                                                    \
    X("histograms", "histogram", false)

#define COUNT_FIGURE(name, kind, thinned) +1
enum { MOST_FIGURES = 0 BENCH_FIGURES(COUNT_FIGURE) };
#undef COUNT_FIGURE

struct figure {
    const char *name, *kind;
    bool thinned;
    double best;                  /* samples a second, of the best round */
    struct tmk_run_report report; /* of the last run of that round */
    uint64_t peak_bytes;          /* of the process, once this has run */
};

struct bench {
    struct tmk_model *model;
    struct tmk_run_options run;
    struct figure figures[MOST_FIGURES];
    size_t n;
    double open_seconds;
    uint32_t share; /* of thinned histograms; 0: they are not measured */
    bool per_op;
    struct tmk_costs costs; /* of the last figure */
};

static bool library_knows(const char *kind) {
    for (const char *const *k = tmk_observer_kinds(); *k; k += 2)
        if (strcmp(*k, kind) == 0)
            return true;
    return false;
}

/* The place of the figure with this name; n when there is none. */
static size_t place_of(const char *word, const struct figure *figures, size_t n) {
    size_t i = 0;
    while (i < n && strcmp(figures[i].name, word) != 0)
        i++;
    return i;
}

/* The figures that this library can measure, restricted to the requested ones (none requested:
 * all). NULL, or the first word that names no figure. */
static const char *choose_figures(const struct words *wanted, struct bench *bench) {
    const struct figure all[] = {
#define FIGURE_ROW(text, observer, thin) {.name = text, .kind = observer, .thinned = thin},
        BENCH_FIGURES(FIGURE_ROW)
#undef FIGURE_ROW
    };
    struct figure known[MOST_FIGURES];
    bool chosen[MOST_FIGURES] = {false};
    size_t n = 0;
    for (size_t i = 0; i < MOST_FIGURES; i++)
        if ((!all[i].kind || library_knows(all[i].kind)) && (bench->share || !all[i].thinned))
            known[n++] = all[i];
    for (size_t k = 0; k < wanted->n; k++) {
        size_t place = place_of(wanted->items[k], known, n);
        if (place == n)
            return wanted->items[k];
        chosen[place] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (!wanted->n || chosen[i])
            bench->figures[bench->n++] = known[i];
    return NULL;
}

static enum tmk_status run_once(const struct bench *bench, const struct figure *figure,
                                struct tmk_run_report *report, struct tmk_diag *diag) {
    if (!figure->kind)
        return tmk_model_run_bare(bench->model, &bench->run, report, diag);
    struct tmk_profile *profile = NULL;
    const struct tmk_observe observe = {.kind = figure->kind};
    struct tmk_run_options run = bench->run;
    run.statistics.histogram_share = figure->thinned ? bench->share : 0;
    enum tmk_status status =
        tmk_model_profile(bench->model, &run, &observe, &profile, report, diag);
    tmk_profile_destroy(&profile);
    return status;
}

/* One round: the data again and again until `seconds` have gone by. One run over few samples of a
 * small model ends before the clock can measure it; all runs of the round together are not. */
static enum tmk_status measure_figure(const struct bench *bench, struct figure *figure,
                                      double seconds, struct tmk_diag *diag) {
    struct tmk_run_report report = {0};
    double begin = clock_seconds(), spent = 0;
    uint64_t samples = 0;
    do {
        enum tmk_status status = run_once(bench, figure, &report, diag);
        if (status != TMK_OK)
            return status;
        samples += report.samples;
        spent += report.seconds;
    } while (clock_seconds() - begin < seconds);
    double rate = spent > 0 ? (double)samples / spent : 0;
    if (rate > figure->best) {
        figure->best = rate;
        figure->report = report;
    }
    if (!figure->peak_bytes)
        figure->peak_bytes = peak_bytes();
    return TMK_OK;
}

/* What observing costs over the bare run, in percent; `missing` where one of the two is not known.
 */
static const char *cost_of(const struct bench *bench, const struct figure *figure,
                           const char *missing, char text[32]) {
    const struct figure *bare = &bench->figures[0];
    if (bare->kind || bare->best <= 0 || figure->best <= 0)
        return missing;
    snprintf(text, 32, "%.1f", 100 * (bare->best / figure->best - 1));
    return text;
}

/* ---- --per-op: where the time of a run goes ---- */

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

/* Operators that run alike together, dearest first: milliseconds a sample, without and for their
 * observers. False when memory ran out. */
static bool print_costs(const struct tmk_costs *costs, uint64_t samples) {
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

/* `"per_op": [...]`, a row a step, in the order of the run. */
static void print_costs_json(const struct tmk_costs *costs, uint64_t samples) {
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

/* ---- the figures ---- */

static bool print_json(const struct bench *bench) {
    print_out("{\"tidemark\": \"%s\", \"open_s\": %.4g, \"figures\": [", tmk_version(),
              bench->open_seconds);
    for (size_t i = 0; i < bench->n; i++) {
        const struct figure *f = &bench->figures[i];
        const struct tmk_run_report *r = &f->report;
        char cost[32];
        print_out("%s\n {\"what\": \"%s\", \"samples_per_s\": %.6g, \"cost_percent\": %s, "
                  "\"arena_bytes\": %zu, \"peak_bytes\": %llu, \"setup_s\": %.4g, \"threads\": %u, "
                  "\"samples\": %llu, \"batches\": %llu}",
                  i ? "," : "", f->name, f->best, cost_of(bench, f, "null", cost), r->arena_bytes,
                  (unsigned long long)f->peak_bytes, r->setup_seconds, r->threads,
                  (unsigned long long)r->samples, (unsigned long long)r->batches);
    }
    print_out("]");
    if (bench->per_op) {
        print_out(",\n ");
        print_costs_json(&bench->costs, bench->figures[bench->n - 1].report.samples);
    }
    print_out("}\n");
    return true;
}

static bool print_table(const struct bench *bench) {
    static const struct table_column columns[] = {
        {"", 12},
        {"samples/s", 12, .right = true},
        {"cost", 8, .right = true},
        {"set up s", 8, .right = true},
        {"MiB a worker", 12, .right = true},
        {"peak MiB", 9, .right = true},
    };
    enum { COLUMNS = sizeof columns / sizeof *columns, CELL = 32 };
    const double mib = 1 << 20;
    struct table table;
    table_begin(&table, columns, COLUMNS);
    for (size_t i = 0; i < bench->n; i++) {
        const struct figure *f = &bench->figures[i];
        char cost[32];
        char text[COLUMNS][CELL];
        const char *const cells[] = {f->name, text[1], text[2], text[3], text[4], text[5]};
        snprintf(text[1], CELL, "%.2f", f->best);
        snprintf(text[2], CELL, "%.29s %%", cost_of(bench, f, "-", cost));
        snprintf(text[3], CELL, "%.2f", f->report.setup_seconds);
        snprintf(text[4], CELL, "%.1f", (double)f->report.arena_bytes / mib);
        snprintf(text[5], CELL, "%.1f", (double)f->peak_bytes / mib);
        table_row(&table, cells, HUE_NONE);
    }
    return !bench->per_op ||
           print_costs(&bench->costs, bench->figures[bench->n - 1].report.samples);
}

static enum tmk_status measure_steps(struct bench *bench, struct tmk_diag *diag) {
    const struct tmk_observe observe = {.kind = bench->figures[bench->n - 1].kind};
    return tmk_model_costs(bench->model, &bench->run, observe.kind ? &observe : NULL, &bench->costs,
                           diag);
}

static enum tmk_status measure_all(struct bench *bench, const char *path, const char *params,
                                   uint64_t rounds, double seconds, struct tmk_diag *diag) {
    double begin = clock_seconds();
    enum tmk_status status = tmk_model_open_params(path, params, false, &bench->model, diag);
    bench->open_seconds = clock_seconds() - begin;
    for (uint64_t r = 0; r < rounds; r++)
        for (size_t i = 0; status == TMK_OK && i < bench->n; i++)
            status = measure_figure(bench, &bench->figures[i], seconds / (double)rounds, diag);
    if (status == TMK_OK && bench->per_op)
        status = measure_steps(bench, diag);
    tmk_model_close(&bench->model);
    return status;
}

static int run_bench(const struct command *command, int argc, char **argv) {
    struct run_args args = {0};
    struct words rest = {0}, wanted = {0};
    const char *share = NULL;
    uint64_t repeat = 5;
    double seconds = 1;
    bool json = false;
    struct bench bench = {0};
    struct tmk_diag diag = {0};
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args),
        {"figure", 0, OPTION_TEXTS, "WHAT",
         "only bare, minmax, thinned, ranges or histograms (default: all)", &wanted},
        {"histogram-share", 0, OPTION_TEXT, "1/K",
         "also what thinned histograms cost, of one run of 64 elements in K", &share},
        {"repeat", 0, OPTION_COUNT, "N", "rounds, interleaved; the best counts (default: 5)",
         &repeat},
        {"seconds", 0, OPTION_REAL, "S",
         "go over the data again until each figure ran for S in all rounds (default: 1)", &seconds},
        {"per-op", 0, OPTION_FLAG, NULL,
         "also what each kind of step costs, from one more run of the last figure", &bench.per_op},
        {"json", 0, OPTION_FLAG, NULL, "figures as JSON", &json},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    exit_status = EXIT_WRONG_CALL;
    if (rest.n < 1) {
        wrong_call(command, "which MODEL?");
        goto end;
    }
    if (!repeat) {
        wrong_call(command, "--repeat must be at least 1");
        goto end;
    }
    if (!parse_histogram_share(command, share, &bench.share))
        goto end;
    const char *wrong_word = choose_figures(&wanted, &bench);
    if (wrong_word) {
        wrong_call(command, "--figure: '%s' is nothing that can be measured", wrong_word);
        goto end;
    }
    if (!make_run_options(command, &args, &rest, 1, &bench.run, &exit_status) ||
        !can_read_again(command, &bench.run.data, &exit_status))
        goto end;
    bench.run.events.progress = NULL;
    enum tmk_status status =
        measure_all(&bench, rest.items[0], args.params, repeat, seconds, &diag);
    if (status != TMK_OK)
        exit_status = report_error(status, &diag);
    else
        exit_status = (json ? print_json : print_table)(&bench) ? EXIT_DONE : out_of_memory();
end:
    tmk_costs_finish(&bench.costs);
    finish_run_args(&args);
    free(wanted.items);
    free(rest.items);
    return exit_status;
}

const struct command command_bench = {
    "bench",
    "measure what observing costs",
    "MODEL.onnx --data SRC...",
    "Runs the model without observers, with min and max only, with ranges, and with histograms,\n"
    "in turn. Prints the best rate of each, its cost relative to the run without observers, a\n"
    "worker's buffers, and the peak memory of the process so far (--figure WHAT: of one figure\n"
    "alone).",
    "tidemark bench digits.onnx --data digits.npy",
    run_bench,
};
