/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <tidemark/report.h>

#include "command.h"

struct report_args {
    const char *profile, *other, *encodings, *output, *title;
};

static enum tmk_status write_report(const struct report_args *args, struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL, *other = NULL;
    struct tmk_encodings *encodings = NULL;
    enum tmk_status status = tmk_profile_read(args->profile, &profile, diag);
    if (status == TMK_OK && args->other)
        status = tmk_profile_read(args->other, &other, diag);
    if (status == TMK_OK && args->encodings)
        status = tmk_encodings_read(args->encodings, &encodings, diag);
    const struct tmk_report_options options = {other, encodings, args->title};
    if (status == TMK_OK)
        status = tmk_report_write(profile, &options, args->output, diag);
    if (status == TMK_OK)
        print_remark("%u values in %s", profile->n_tensors, args->output);
    tmk_encodings_destroy(&encodings);
    tmk_profile_destroy(&other);
    tmk_profile_destroy(&profile);
    return status;
}

static int run_report(const struct command *command, int argc, char **argv) {
    struct report_args args = {0};
    struct words rest = {0};
    const struct option_row options[] = {
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the page", &args.output},
        {"since", 0, OPTION_INPUT, "PROFILE", "an earlier profile: shows what moved since then",
         &args.other},
        {"encodings", 0, OPTION_INPUT, "FILE", "what `tidemark calibrate` chose, to be shown, too",
         &args.encodings},
        {"title", 0, OPTION_TEXT, "TEXT", "of the page (the model's file name)", &args.title},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        struct tmk_diag diag = {0};
        if (rest.n != 1)
            exit_status = wrong_call(command, "it takes one PROFILE");
        else if (!args.output)
            exit_status = wrong_call(command, "where to? add -o");
        else {
            args.profile = rest.items[0];
            exit_status =
                write_report(&args, &diag) == TMK_OK ? EXIT_DONE : report_error(diag.status, &diag);
        }
    }
    free(rest.items);
    return exit_status;
}

const struct command command_report = {
    "report",
    "a profile as one HTML page that needs nothing else",
    "PROFILE -o OUT.html",
    "Writes a page with everything of the profile: what to look at first, the network with ranges "
    "on\n"
    "its edges, a table of all values that sorts and searches, each value's histogram with the\n"
    "thresholds of every method and what is to be expected of them, the worst values at 8 bits, "
    "and\n"
    "with --since what moved. It loads nothing, and works offline, on a phone and in print.",
    "tidemark report profile.json -o report.html",
    run_report,
};
