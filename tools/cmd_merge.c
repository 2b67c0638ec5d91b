/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/profile.h>

#include "command.h"

enum { MAX_REPORTED = 8 };

/* One line: how many samples there are, and which where that is not all of them. */
static void remark_on(const struct tmk_profile *profile, size_t files) {
    char list[512] = "";
    size_t used = 0;
    unsigned long long covered = 0;
    struct tmk_profile_range range;
    for (uint32_t i = 0; tmk_profile_range(profile, i, &range); i++) {
        covered += range.end - range.begin;
        if (i < MAX_REPORTED)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%llu to %llu", i ? ", " : "",
                                 (unsigned long long)range.begin, (unsigned long long)range.end);
        else if (i == MAX_REPORTED)
            used += (size_t)snprintf(list + used, sizeof list - used, ", ...");
    }
    if (tmk_profile_is_whole(profile))
        print_remark("%zu profile%s, %llu samples: the whole run", files, files == 1 ? "" : "s",
                     covered);
    else
        print_remark("%zu profile%s, with gaps: %llu of %llu samples (%s)", files,
                     files == 1 ? "" : "s", covered, (unsigned long long)tmk_profile_total(profile),
                     covered ? list : "none");
}

static int merge_files(const struct words *files, const struct words *outputs) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < outputs->n; i++)
        status = tmk_profile_can_write(outputs->items[i], &diag);
    if (status == TMK_OK)
        status = tmk_profile_merge_files(files->items, files->n, &profile, &diag);
    if (status == TMK_OK)
        status = write_profiles(profile, outputs, &diag);
    if (status == TMK_OK)
        remark_on(profile, files->n);
    for (size_t i = 0; status == TMK_OK && i < outputs->n; i++)
        print_remark("wrote %s", outputs->items[i]);
    tmk_profile_destroy(&profile);
    return status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
}

static int run_merge(const struct command *command, int argc, char **argv) {
    struct words rest = {0}, outputs = {0};
    const struct option_row options[] = {{"output", 'o', OPTION_OUTPUTS, "FILE",
                                          "where to write; .json or .h5, as often as wanted",
                                          &outputs},
                                         {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        if (!rest.n)
            exit_status = wrong_call(command, "which PROFILEs?");
        else if (!outputs.n)
            exit_status = wrong_call(command, "where to? add -o FILE.json or -o FILE.h5");
        else
            exit_status = merge_files(&rest, &outputs);
    }
    free(outputs.items);
    free(rest.items);
    return exit_status;
}

const struct command command_merge = {
    "merge",
    "merge the profiles of shards, exactly",
    "PROFILE... -o FILE...",
    "Each PROFILE is a part of one run: the same model, data and settings, other samples. The\n"
    "result is the profile of all samples, with the same bytes for any order and grouping.\n"
    "Missing samples are reported; samples in two files are an error.",
    "tidemark merge shard-1.json shard-2.json -o profile.json",
    run_merge,
};
