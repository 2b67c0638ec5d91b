/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <tidemark/model.h>
#include <tidemark/report.h>

#include "command.h"

struct report_args {
    struct words profiles, results;
    const char *since, *encodings, *model, *params, *output, *title;
};

/* What the page is made of. */
struct report_parts {
    struct tmk_profile **profiles; /* the last one is shown */
    size_t n_profiles;
    struct tmk_encodings *encodings;
    struct tmk_model *model;
};

/* A failure may leave some of them. */
static enum tmk_status read_parts(const struct report_args *args, struct report_parts *parts,
                                  struct tmk_diag *diag) {
    parts->profiles = calloc(args->profiles.n + 1, sizeof(struct tmk_profile *));
    if (!parts->profiles)
        return TMK_NOMEM;
    enum tmk_status status = TMK_OK;
    if (args->since)
        status = tmk_profile_read(args->since, &parts->profiles[parts->n_profiles++], diag);
    for (size_t i = 0; status == TMK_OK && i < args->profiles.n; i++)
        status =
            tmk_profile_read(args->profiles.items[i], &parts->profiles[parts->n_profiles++], diag);
    if (status == TMK_OK && args->encodings)
        status = tmk_encodings_read(args->encodings, &parts->encodings, diag);
    if (status == TMK_OK && args->model)
        status = tmk_model_open_params(args->model, args->params, true, &parts->model, diag);
    return status;
}

static void finish_parts(struct report_parts *parts) {
    tmk_model_close(&parts->model);
    tmk_encodings_destroy(&parts->encodings);
    for (size_t i = 0; i < parts->n_profiles; i++)
        tmk_profile_destroy(&parts->profiles[i]);
    free(parts->profiles);
}

static enum tmk_status write_report(const struct report_args *args, struct tmk_diag *diag) {
    struct report_parts parts = {0};
    enum tmk_status status = read_parts(args, &parts, diag);
    if (status == TMK_OK) {
        const size_t last = parts.n_profiles - 1;
        const struct tmk_report_options options = {
            .earlier = (const struct tmk_profile *const *)parts.profiles,
            .n_earlier = last,
            .encodings = parts.encodings,
            .title = args->title,
            .results = args->results.items,
            .n_results = args->results.n,
            .model = parts.model};
        status = tmk_report_write(parts.profiles[last], &options, args->output, diag);
        if (status == TMK_OK)
            print_remark("%u values in %s", parts.profiles[last]->n_tensors, args->output);
    }
    finish_parts(&parts);
    return status;
}

static int run_report(const struct command *command, int argc, char **argv) {
    struct report_args args = {0};
    const struct option_row options[] = {
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the page", &args.output},
        {"since", 0, OPTION_INPUT, "PROFILE", "an earlier profile, before all others", &args.since},
        {"encodings", 0, OPTION_INPUT, "FILE",
         "what `tidemark calibrate` chose: size, share of multiplications in 8 bits, ranges",
         &args.encodings},
        {"simulation", 0, OPTION_INPUTS, "FILE",
         "what `tidemark simulate --json` printed, alone, with --rank or with --search; may be "
         "repeated",
         &args.results},
        {"model", 0, OPTION_INPUT, "FILE", "the model, for the attributes of its nodes",
         &args.model},
        PARAMS_OPTION_ROW(args.params),
        {"title", 0, OPTION_TEXT, "TEXT", "of the page (the model's file name)", &args.title},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &args.profiles, &exit_status)) {
        struct tmk_diag diag = {0};
        if (!args.profiles.n)
            exit_status = wrong_call(command, "which PROFILE?");
        else if (!args.output)
            exit_status = wrong_call(command, "where to? add -o");
        else if (args.params && !args.model)
            exit_status = wrong_call(command, "--params goes with --model");
        else
            exit_status =
                write_report(&args, &diag) == TMK_OK ? EXIT_DONE : report_error(diag.status, &diag);
    }
    free(args.results.items);
    free(args.profiles.items);
    return exit_status;
}

const struct command command_report = {
    "report",
    "a profile as one HTML page that needs nothing else",
    "PROFILE... -o OUT.html",
    "Writes a page that says what is wrong and what to do, and shows the ranges along the\n"
    "network, the worst values at 8 bits, the network as a graph, and every value with its\n"
    "histogram. Of several profiles, oldest first, the last one is shown, with a time line of\n"
    "each value and what drifted since the first. The page loads nothing.",
    "tidemark report profile.json -o report.html",
    run_report,
};
