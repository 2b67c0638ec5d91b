/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/guess.h>
#include <tidemark/session.h>

#include "command.h"
#include "pick.h"
#include "show.h"
#include "table.h"

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Positions of the records that the patterns mean, ascending, each once; all without patterns. */
static enum tmk_status choose_values(const struct tmk_profile *profile, const char *path,
                                     const char *const *patterns, size_t n_patterns, uint32_t **out,
                                     uint32_t *n, struct tmk_diag *diag) {
    uint32_t *chosen = malloc(((size_t)profile->n_tensors * (n_patterns + 1) + 1) * sizeof *chosen);
    uint32_t used = 0;
    if (!chosen)
        return TMK_NOMEM;
    for (uint32_t i = 0; !n_patterns && i < profile->n_tensors; i++)
        chosen[used++] = i;
    for (size_t p = 0; p < n_patterns; p++) {
        uint32_t before = used;
        for (uint32_t i = 0; (i = tmk_profile_find(profile, patterns[p], i)) < profile->n_tensors;
             i++)
            chosen[used++] = i;
        if (used == before) {
            struct tmk_guess guess = {.wanted = patterns[p]};
            char meant[TMK_GUESS_SIZE];
            for (uint32_t i = 0; i < profile->n_tensors; i++)
                tmk_guess_try(&guess, profile->tensors[i].name);
            snprintf(diag->text, sizeof diag->text,
                     "'%.200s'%s names no value of the profile; `tidemark show %.300s` lists them",
                     patterns[p], tmk_guess_text(&guess, meant), path);
            free(chosen);
            return TMK_NOTFOUND;
        }
    }
    qsort(chosen, used, sizeof *chosen, compare_ids);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < used; i++)
        if (!distinct || chosen[distinct - 1] != chosen[i])
            chosen[distinct++] = chosen[i];
    *out = chosen;
    *n = distinct;
    return TMK_OK;
}

struct show_args {
    bool json, convergence, nodes, patterns, wide;
    struct some outliers;
    const char *sort;
    struct words filter;
};

/* Filters and sorts the chosen values. */
static enum tmk_status pick_values(const struct tmk_profile *profile, const struct show_args *args,
                                   uint32_t *chosen, uint32_t *n, struct tmk_diag *diag) {
    struct filter filter;
    uint32_t kept = 0;
    enum tmk_status status = filter_init(&filter, &args->filter, diag);
    for (uint32_t i = 0; status == TMK_OK && i < *n; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[chosen[i]];
        if (filter_passes(&filter, tensor->name, tensor))
            chosen[kept++] = chosen[i];
    }
    filter_finish(&filter);
    if (status == TMK_OK && args->sort)
        status = sort_values(args->sort, profile, chosen, kept, diag);
    *n = kept;
    return status;
}

static int show_profile(const struct words *rest, const struct show_args *args) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    uint32_t *chosen = NULL, n = 0;
    enum tmk_status status = tmk_profile_read(rest->items[0], &profile, &diag);
    if (status == TMK_OK)
        status = choose_values(profile, rest->items[0], rest->items + 1, rest->n - 1, &chosen, &n,
                               &diag);
    if (status == TMK_OK)
        status = pick_values(profile, args, chosen, &n, &diag);
    if (status == TMK_OK && args->outliers.given)
        status = show_outliers(profile, chosen, n, args->outliers.n, args->json, &diag);
    else if (status == TMK_OK && args->convergence)
        status = show_convergence(profile, chosen, n, args->json, &diag);
    else if (status == TMK_OK && args->nodes)
        status = show_nodes(profile, chosen, n, args->json);
    else if (status == TMK_OK && args->patterns)
        status = show_patterns(profile, chosen, n, args->json, &diag);
    else if (status == TMK_OK && args->json)
        show_json(profile, chosen, n);
    else if (status == TMK_OK && n == 1 && rest->n > 1)
        show_value(profile, &profile->tensors[chosen[0]]);
    else if (status == TMK_OK)
        show_table(profile, chosen, n);
    free(chosen);
    tmk_profile_destroy(&profile);
    return status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
}

static int run_show(const struct command *command, int argc, char **argv) {
    struct show_args args = {.outliers.n = 10};
    struct words rest = {0};
    const struct option_row options[] = {
        {"json", 0, OPTION_FLAG, NULL, "as JSON, one object a value", &args.json},
        {"nodes", 0, OPTION_FLAG, NULL,
         "by the nodes that make the values: what is on their inputs and outputs", &args.nodes},
        {"patterns", 0, OPTION_FLAG, NULL,
         "the nodes that belong to LayerNorm, GELU and other patterns, which `calibrate` leaves "
         "float",
         &args.patterns},
        {"outliers", 0, OPTION_SOME, "N",
         "the samples that set the extremes, worst first (10, or N of them)", &args.outliers},
        {"convergence", 0, OPTION_FLAG, NULL,
         "how many samples the ranges needed (needs `profile --per-sample`)", &args.convergence},
        {"sort", 0, OPTION_TEXT, "KEY",
         "sort by KEY: numbers descend except min, names ascend (id)", &args.sort},
        FILTER_OPTION_ROW(args.filter),
        WIDE_OPTION_ROW(args.wide),
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        if (args.wide)
            table_widen();
        if (!rest.n)
            exit_status = wrong_call(command, "which PROFILE?");
        else if (args.outliers.given + args.convergence + args.nodes + args.patterns > 1)
            exit_status = wrong_call(
                command, "--nodes, --patterns, --outliers or --convergence, one at a time");
        else if (args.sort &&
                 (args.outliers.given || args.convergence || args.nodes || args.patterns))
            exit_status = wrong_call(command, "--sort is for the table and its JSON");
        else
            exit_status = show_profile(&rest, &args);
    }
    free(args.filter.items);
    free(rest.items);
    return exit_status;
}

const struct command command_show = {
    "show",
    "print a profile as a table, or one value in full",
    "PROFILE [ID or name or pattern]...",
    "PROFILE is a .json or .h5 file that `tidemark profile` wrote. A pattern that matches one\n"
    "value prints it in full.\n\n"
    "Marks in the table: N, NaN or infinity begins here; n, inherited from an operand; C,\n"
    "constant: all elements are one number; D9, nine channels are 0 in all samples; S, saturated:\n"
    "more than 1 % of the elements (and 16) are the min or the max, which is not 0; M, min or max\n"
    "is a typical mask value, such as -1e9 or the end of a float type; P, more than 10 % of the\n"
    "elements (and 16) are one number, not 0.\n\n"
    "--outliers ranks samples by how much wider the range of some value is by that sample alone\n"
    "(derived values follow theirs, unless there is `profile --per-sample`);\n"
    "--convergence prints after how many samples a value's min and max stayed within 1 % and 5 %\n"
    "of its final range. Both take the chosen values, without weights.\n\n"
    "--sort and --filter take keys. " FILTER_TEXT "\n"
    "On a terminal lines with NaN or infinity are red, dead and saturated ones yellow, unless\n"
    "NO_COLOR is set.",
    "tidemark show profile.json --filter kind=activation --filter 'zeros>0.5' --sort range",
    run_show,
};
