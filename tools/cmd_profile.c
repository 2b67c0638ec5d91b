/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>

#include "command.h"
#include "run_options.h"

struct profile_args {
    struct run_args run;
    struct words outputs, observe;
    const char *kind, *nan;
};

enum { PRINTED_ELEMENTS = 8 };

/* For observers of kind "print". */
static void print_value(void *context, const char *label, uint64_t sample,
                        const struct tmk_tensor *tensor) {
    (void)context;
    char shape[256];
    size_t n = tmk_tensor_count(tensor);
    end_progress();
    fprintf(stderr, "sample %llu %s %s%s:", (unsigned long long)sample, label,
            tmk_dtype_name(tensor->dtype), tmk_shape_text(&tensor->shape, shape, sizeof shape));
    for (size_t i = 0; i < n && i < PRINTED_ELEMENTS; i++) {
        if (tensor->dtype == TMK_FLOAT32)
            fprintf(stderr, " %.6g", (double)((const float *)tensor->data)[i]);
        else if (tensor->dtype == TMK_INT64)
            fprintf(stderr, " %lld", (long long)((const int64_t *)tensor->data)[i]);
        else if (tensor->dtype == TMK_INT32)
            fprintf(stderr, " %d", ((const int32_t *)tensor->data)[i]);
        else if (tmk_dtype_size(tensor->dtype) == 1)
            fprintf(stderr, " %d", ((const uint8_t *)tensor->data)[i]);
    }
    fprintf(stderr, "%s\n", n > PRINTED_ELEMENTS ? " ..." : "");
}

/* What a person wants to know at once: values with NaN or infinities, and dead ones. */
static void remark_on(const struct tmk_profile *profile) {
    uint32_t by_status[16] = {0};
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[i];
        struct tmk_summary s;
        by_status[tensor->status]++;
        if (!tensor->stats)
            continue;
        tmk_stats_summary(tensor->stats, &s);
        if (s.nan + s.posinf + s.neginf)
            remark("p%u '%s': %llu NaN, %llu +inf, %llu -inf; the first in sample %llu at element "
                   "%llu",
                   tensor->id, tensor->name, (unsigned long long)s.nan,
                   (unsigned long long)s.posinf, (unsigned long long)s.neginf,
                   (unsigned long long)s.first_nonfinite.sample,
                   (unsigned long long)s.first_nonfinite.index);
    }
    remark("%u values: %u observed, %u constant, %u integer, %u dead, %u never seen",
           profile->n_tensors, by_status[TMK_PROFILE_OBSERVED], by_status[TMK_PROFILE_CONSTANT],
           by_status[TMK_PROFILE_INTEGER], by_status[TMK_PROFILE_DEAD],
           by_status[TMK_PROFILE_NEVER]);
}

static enum tmk_status write_all(const struct tmk_profile *profile, const struct words *outputs,
                                 struct tmk_diag *diag) {
    for (size_t i = 0; i < outputs->n; i++) {
        enum tmk_status status = tmk_profile_write(profile, outputs->items[i], diag);
        if (status != TMK_OK)
            return status;
    }
    return TMK_OK;
}

static int profile_model(const struct command *command, struct profile_args *args,
                         const struct words *rest) {
    struct tmk_run_options options;
    if (!make_run_options(command, &args->run, rest, 1, &options))
        return EXIT_WRONG_CALL;
    options.fail_on_nan = args->nan && strcmp(args->nan, "fail") == 0;
    options.print = print_value;
    const struct tmk_observe observe = {args->observe.items, args->observe.n, args->kind};
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    struct tmk_profile *profile = NULL;
    struct tmk_run_report report = {0};
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < args->outputs.n; i++)
        status = tmk_profile_can_write(args->outputs.items[i], &diag);
    if (status == TMK_OK)
        status = tmk_model_open(rest->items[0], false, &model, &diag);
    if (status == TMK_OK)
        status = tmk_model_profile(model, &options, &observe, &profile, &report, &diag);
    end_progress();
    if (status == TMK_OK)
        status = write_all(profile, &args->outputs, &diag);
    if (status == TMK_OK) {
        remark_on(profile);
        if (profile->ledger.skipped)
            remark("%llu samples left over: they do not fill a batch",
                   (unsigned long long)profile->ledger.skipped);
        remark("%llu samples in %.2f s (%.1f a second) on %u threads, set up in %.2f s",
               (unsigned long long)report.samples, report.seconds,
               (double)report.samples / report.seconds, report.threads, report.setup_seconds);
        for (size_t i = 0; i < args->outputs.n; i++)
            remark("wrote %s", args->outputs.items[i]);
    }
    tmk_profile_destroy(&profile);
    tmk_model_close(&model);
    return status == TMK_OK ? EXIT_DONE : complain(status, &diag);
}

static int run_profile(const struct command *command, int argc, char **argv) {
    struct profile_args args = {0};
    struct words rest = {0};
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args.run),
        {"output", 'o', OPTION_TEXTS, "FILE", "where to write; .json or .h5, as often as wanted",
         &args.outputs},
        {"observe", 0, OPTION_TEXTS, "WHAT",
         "all (default), activations, weights, or a glob on names; may be repeated", &args.observe},
        {"kind", 0, OPTION_TEXT, "KIND", "range, histogram (default), print, guard", &args.kind},
        {"nan", 0, OPTION_TEXT, "WHAT", "record (default), or fail: stop at the first NaN",
         &args.nan},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        if (rest.n < 1)
            exit_status = wrong_call(command, "which MODEL?");
        else if (!args.outputs.n)
            exit_status = wrong_call(command, "where to? add -o FILE.json or -o FILE.h5");
        else if (args.nan && strcmp(args.nan, "fail") != 0 && strcmp(args.nan, "record") != 0)
            exit_status = wrong_call(command, "--nan takes record or fail, not '%s'", args.nan);
        else
            exit_status = profile_model(command, &args, &rest);
    }
    finish_run_args(&args.run);
    free(args.outputs.items);
    free(args.observe.items);
    free(rest.items);
    return exit_status;
}

const struct command command_profile = {
    "profile",
    "measure every tensor of a model over calibration data",
    "MODEL.onnx --data SRC... -o FILE...",
    "Runs the model over the data and writes, for every value, its extremes and where they were\n"
    "seen, counts, moments and an exact histogram.",
    "tidemark profile digits.onnx --data digits.npy -o profile.json -o profile.h5",
    run_profile,
};
