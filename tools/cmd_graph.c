/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/lineage.h>
#include <tidemark/patterns.h>
#include <tidemark/session.h>

#include "command.h"
#include "show.h"

static enum tmk_status print_lineage(const struct tmk_model *model, const char *path, char **out,
                                     struct tmk_diag *diag) {
    struct tmk_lineage_record *lineage = NULL;
    enum tmk_status status = tmk_lineage_record_read(path, &lineage, diag);
    if (status == TMK_OK)
        status = tmk_model_print_lineage(model, lineage, out, diag);
    tmk_lineage_record_destroy(&lineage);
    return status;
}

/* What `show --patterns` has of a profile. */
static enum tmk_status graph_patterns(struct tmk_model *model, bool dot, bool json, char **out,
                                      struct tmk_diag *diag) {
    struct tmk_profile *values = NULL;
    struct tmk_pattern_node *nodes = NULL;
    size_t n = 0;
    enum tmk_status status = tmk_model_skeleton(model, &values, diag);
    if (status == TMK_OK)
        status = tmk_patterns_list(values, &nodes, &n, diag);
    if (status == TMK_OK && dot)
        status = tmk_model_draw_patterns(model, nodes, n, out, diag);
    else if (status == TMK_OK)
        print_patterns(nodes, n, json);
    free(nodes);
    tmk_profile_destroy(&values);
    return status;
}

static int run_graph(const struct command *command, int argc, char **argv) {
    bool dot = false, ops = false, json = false, patterns = false;
    const char *params = NULL, *lineage = NULL;
    struct words rest = {0};
    const struct option_row options[] = {
        PARAMS_OPTION_ROW(params),
        {"dot", 0, OPTION_FLAG, NULL, "as a picture, in Graphviz's language", &dot},
        {"ops", 0, OPTION_FLAG, NULL, "count operators and list those that are not supported",
         &ops},
        {"json", 0, OPTION_FLAG, NULL, "values and nodes as JSON", &json},
        {"patterns", 0, OPTION_FLAG, NULL,
         "the nodes that belong to LayerNorm, GELU and other patterns, which `calibrate` leaves "
         "float; with --dot the picture, where they are filled and named",
         &patterns},
        {"lineage", 0, OPTION_INPUT, "FILE",
         "what transform wrote: old and new values side by side; MODEL is either", &lineage},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (rest.n != 1 || dot + ops + json + (lineage != NULL) > 1 || (patterns && (ops || lineage))) {
        exit_status =
            wrong_call(command, rest.n != 1 ? "it takes one MODEL"
                                            : "choose one of --dot, --ops, --json and --lineage; "
                                              "--patterns goes with --dot and --json");
        goto end;
    }
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    char *text = NULL;
    enum tmk_view view = dot    ? TMK_VIEW_DOT
                         : ops  ? TMK_VIEW_OPS
                         : json ? TMK_VIEW_JSON
                                : TMK_VIEW_TEXT;
    enum tmk_status status = tmk_model_open_params(rest.items[0], params, true, &model, &diag);
    if (status == TMK_OK)
        status = lineage    ? print_lineage(model, lineage, &text, &diag)
                 : patterns ? graph_patterns(model, dot, json, &text, &diag)
                            : tmk_model_print(model, view, &text, NULL, &diag);
    if (status == TMK_OK && text && json)
        put_json_text(stdout, text);
    else if (status == TMK_OK && text)
        put_lines(stdout, text);
    free(text);
    tmk_model_close(&model);
    exit_status = status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
end:
    free(rest.items);
    return exit_status;
}

const struct command command_graph = {
    "graph",
    "print a model with its profile IDs",
    "MODEL.onnx",
    "Prints the model one line a node, each value with its profile ID (@p12). IDs depend on the\n"
    "structure only: names and the order of nodes in the file have no part in them.",
    "tidemark graph digits.onnx --ops",
    run_graph,
};
