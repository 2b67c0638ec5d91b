/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/session.h>

#include "command.h"
#include "run_options.h"

static void print_verdict(void *context, const struct tmk_verdict *verdict) {
    uint32_t *outputs = context;
    (*outputs)++;
    if (is_quiet()) /* the exit status has the result */
        return;
    put_escaped(stdout, verdict->set);
    print_out(": '");
    put_escaped(stdout, verdict->output);
    if (!verdict->ok)
        print_out("': %s\n", verdict->why);
    else
        print_out("': ok (%.3g of the tolerance)\n", verdict->worst);
}

static int run_verify(const struct command *command, int argc, char **argv) {
    struct tmk_verify_options tolerance = {.rtol = 1e-3, .atol = 1e-7};
    struct words rest = {0};
    const char *params = NULL;
    uint64_t threads = 0;
    const struct option_row options[] = {
        PARAMS_OPTION_ROW(params),
        MAX_ITERATIONS_ROW(tolerance.limits.iterations),
        {"threads", 't', OPTION_COUNT, "N", "test sets at once (default: all processors)",
         &threads},
        {"rtol", 0, OPTION_REAL, "X", "relative tolerance (default: 1e-3, ONNX's own)",
         &tolerance.rtol},
        {"atol", 0, OPTION_REAL, "X", "absolute tolerance (default: 1e-7)", &tolerance.atol},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (rest.n < 2) {
        exit_status = wrong_call(command, "give a MODEL and at least one DIR");
        goto end;
    }
    if (threads > MAX_THREADS) {
        exit_status = wrong_call(command, "--threads must be a reasonable number");
        goto end;
    }
    tolerance.limits.threads = (uint32_t)threads;
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    uint32_t outputs = 0, failed = 0;
    enum tmk_status status = tmk_model_open_params(rest.items[0], params, false, &model, &diag);
    for (size_t i = 1; status == TMK_OK && i < rest.n; i++) {
        uint32_t here = 0;
        status = tmk_model_verify(model, rest.items[i], &tolerance, print_verdict, &outputs, &here,
                                  &diag);
        failed += here;
    }
    tmk_model_close(&model);
    if (status != TMK_OK)
        exit_status = report_error(status, &diag);
    else
        exit_status = failed ? EXIT_ANSWER_NO : EXIT_DONE;
    if (status == TMK_OK)
        print_remark("%u outputs compared, %u differ", outputs, failed);
end:
    free(rest.items);
    return exit_status;
}

const struct command command_verify = {
    "verify",
    "compare a model's outputs with ONNX test sets",
    "MODEL.onnx DIR...",
    "DIR is a folder of input_0.pb, output_0.pb, ..., or a folder of test_data_set_* folders. "
    "Exit\n"
    "status 1 when an output differs: |actual - expected| > atol + rtol * |expected|.",
    "tidemark verify model.onnx test_data_set_0",
    run_verify,
};
