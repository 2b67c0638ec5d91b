/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/session.h>

#include "command.h"
#include "run_options.h"

struct figure {
    const char *name, *kind; /* kind NULL: bare */
    double best;             /* samples a second */
    struct tmk_run_report report;
};

static enum tmk_status measure(struct tmk_model *model, const struct tmk_run_options *options,
                               struct figure *figure, struct tmk_diag *diag) {
    struct tmk_run_report report = {0};
    struct tmk_profile *profile = NULL;
    const struct tmk_observe observe = {.kind = figure->kind};
    enum tmk_status status =
        figure->kind ? tmk_model_profile(model, options, &observe, &profile, &report, diag)
                     : tmk_model_run_bare(model, options, &report, diag);
    tmk_profile_destroy(&profile);
    double rate = report.seconds > 0 ? (double)report.samples / report.seconds : 0;
    if (status == TMK_OK && rate > figure->best) {
        figure->best = rate;
        figure->report = report;
    }
    return status;
}

static void print_figures(const struct figure *figures, size_t n, bool json) {
    for (size_t i = 0; i < n; i++) {
        const struct figure *f = &figures[i];
        double cost = 100 * (figures[0].best / f->best - 1);
        if (json)
            printf("%s{\"what\": \"%s\", \"samples_per_s\": %.6g, \"cost_percent\": %.3g, "
                   "\"arena_bytes\": %zu, \"setup_s\": %.4g, \"threads\": %u}%s",
                   i ? " " : "[", f->name, f->best, cost, f->report.arena_bytes,
                   f->report.setup_seconds, f->report.threads, i + 1 < n ? ",\n" : "]\n");
        else
            printf("%-12s %12.2f samples/s %+8.1f %%  set up %.2f s, %.1f MiB a worker\n", f->name,
                   f->best, cost, f->report.setup_seconds,
                   (double)f->report.arena_bytes / (1 << 20));
    }
}

static int run_bench(const struct command *command, int argc, char **argv) {
    struct run_args args = {0};
    struct words rest = {0};
    uint64_t repeat = 5;
    bool json = false;
    const struct option_row options[] = {RUN_OPTION_ROWS(args),
                                         {"repeat", 0, OPTION_COUNT, "N",
                                          "rounds, interleaved; the best counts (default: 5)",
                                          &repeat},
                                         {"json", 0, OPTION_FLAG, NULL, "figures as JSON", &json},
                                         {0}};
    struct figure figures[] = {{.name = "bare"},
                               {.name = "ranges", .kind = "range"},
                               {.name = "histograms", .kind = "histogram"}};
    struct tmk_run_options run;
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    exit_status = EXIT_WRONG_CALL;
    if (rest.n < 1) {
        wrong_call(command, "which MODEL?");
        goto end;
    }
    if (!make_run_options(command, &args, &rest, 1, &run))
        goto end;
    run.progress = NULL;
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    enum tmk_status status = tmk_model_open(rest.items[0], false, &model, &diag);
    for (uint64_t r = 0; r < repeat; r++)
        for (size_t i = 0; status == TMK_OK && i < sizeof figures / sizeof *figures; i++)
            status = measure(model, &run, &figures[i], &diag);
    if (status == TMK_OK)
        print_figures(figures, sizeof figures / sizeof *figures, json);
    tmk_model_close(&model);
    exit_status = status == TMK_OK ? EXIT_DONE : complain(status, &diag);
end:
    finish_run_args(&args);
    free(rest.items);
    return exit_status;
}

const struct command command_bench = {
    "bench",
    "measure what observing costs",
    "MODEL.onnx --data SRC...",
    "Runs the model bare, with ranges, and with histograms, in turn, and prints the best rate of\n"
    "each and what observing cost over the bare run.",
    "tidemark bench digits.onnx --data digits.npy",
    run_bench,
};
