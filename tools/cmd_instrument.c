/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <tidemark/session.h>

#include "command.h"

static int run_instrument(const struct command *command, int argc, char **argv) {
    const char *params = NULL, *output = NULL;
    struct words rest = {0}, patterns = {0};
    struct tmk_observe observe = {0};
    const struct option_row options[] = {
        PARAMS_OPTION_ROW(params),
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the instrumented model", &output},
        {"observe", 0, OPTION_TEXTS, "WHAT",
         "all (default), activations, weights, or a glob on names; may be repeated", &patterns},
        {"kind", 0, OPTION_TEXT, "KIND", "minmax, range, histogram (default), print, guard", &observe.kind},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (rest.n != 1 || !output) {
        exit_status = wrong_call(command, rest.n != 1 ? "it takes one MODEL" : "where to? add -o");
        goto end;
    }
    observe.patterns = patterns.items;
    observe.n_patterns = patterns.n;
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    uint32_t observers = 0;
    enum tmk_status status = tmk_model_open_params(rest.items[0], params, true, &model, &diag);
    if (status == TMK_OK)
        status = tmk_model_instrument(model, &observe, output, &observers, &diag);
    if (status == TMK_OK)
        print_remark("%u observers in %s", observers, output);
    tmk_model_close(&model);
    exit_status = status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
end:
    free(rest.items);
    free(patterns.items);
    return exit_status;
}

const struct command command_instrument = {
    "instrument",
    "write a model with an observer on every value",
    "MODEL.onnx -o OUT.onnx",
    "Puts an identity operator ai.tidemark::EdgeObserver, with its profile ID, on every value. "
    "The\n"
    "file brings the operator along as a function, so that any ONNX runtime runs it.",
    "tidemark instrument digits.onnx -o digits-observed.onnx",
    run_instrument,
};
