/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <tidemark/session.h>

#include "command.h"
#include "run_options.h"

static int run_run(const struct command *command, int argc, char **argv) {
    struct run_args args = {0};
    struct words rest = {0}, values = {0};
    const char *output = NULL;
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args),
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the arrays: .npz, or .npy for one",
         &output},
        {"values", 0, OPTION_TEXTS, "PATTERN",
         "which values, by name or glob (default: the model's outputs); may be repeated", &values},
        {0}};
    struct tmk_run_options run;
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (rest.n < 1 || !output) {
        exit_status = wrong_call(command, rest.n < 1 ? "which MODEL?" : "where to? add -o");
        goto end;
    }
    if (!make_run_options(command, &args, &rest, 1, &run, &exit_status))
        goto end;
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    enum tmk_status status =
        tmk_model_open_params(rest.items[0], args.params, false, &model, &diag);
    if (status == TMK_OK)
        status = tmk_model_run(model, &run, values.items, values.n, output, &diag);
    end_progress();
    if (status == TMK_OK)
        print_remark("wrote %s", output);
    tmk_model_close(&model);
    exit_status = status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
end:
    finish_run_args(&args);
    free(rest.items);
    free(values.items);
    return exit_status;
}

const struct command command_run = {
    "run",
    "run a model, write its outputs as arrays",
    "MODEL.onnx --data SRC... -o OUT.npz",
    "Plain inference. Batches are joined along the first axis where the data was cut along its "
    "own,\n"
    "and stacked on a new one otherwise.",
    "tidemark run digits.onnx --data digits.npy --values '*relu*' -o relu.npz",
    run_run,
};
