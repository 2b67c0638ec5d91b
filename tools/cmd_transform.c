/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <tidemark/lineage.h>
#include <tidemark/session.h>

#include "command.h"
#include "table.h"

/* The names of a list with commas; the words show into *copy. */
static bool split_names(const char *list, struct words *names, char **copy) {
    char *rest, *name;
    *copy = strdup(list);
    if (!*copy)
        return false;
    for (name = strtok_r(*copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (!add_word(names, name))
            return false;
    return true;
}

static void list_pass(const char *name, const char *help) {
    print_wrapped(help, print_out("%-26s ", name), 27);
}

static void list_passes(void) {
    const char *name, *help;
    for (size_t i = 0; tmk_transform_pass(i, &name, &help); i++)
        list_pass(name, help);
    list_pass("all", "all whose operators OUT's format has, in this order");
    list_pass("none", "no pass: the model in the format of OUT");
}

static void print_after(void *context, const char *pass, bool progress, const char *text) {
    (void)context;
    print_out("// after %s%s\n", pass, progress ? "" : ", which changed nothing");
    put_lines(stdout, text);
}

static void put_json(const struct tmk_lineage_record *record,
                     const struct tmk_transform_report *report) {
    uint32_t counts[TMK_LINEAGE_VERDICTS];
    tmk_lineage_record_count(record, counts);
    print_out("{\"originals\":%u,\"values\":%u", record->n_originals, record->n_values);
    for (int v = 0; v < TMK_LINEAGE_VERDICTS; v++)
        print_out(",\"%s\":%u", tmk_lineage_verdict_name((enum tmk_lineage_verdict)v), counts[v]);
    print_out(",\"nodes_before\":%u,\"nodes_after\":%u,\"observers_before\":%u,"
              "\"observers_after\":%u,\"changed\":%s}\n",
              report->nodes_before, report->nodes_after, report->observers_before,
              report->observers_after, report->progress ? "true" : "false");
}

/* Remarks of passes on single values; the lineage has all of them. */
static void print_remarks(const struct tmk_lineage_record *record) {
    enum { MAX_REPORTED = 3 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < record->n_originals; i++) {
        const struct tmk_lineage_original *o = &record->originals[i];
        if (o->remark[0] && n++ < MAX_REPORTED)
            print_remark("p%u '%s': %s", i, o->is.name, o->remark);
    }
    if (n > MAX_REPORTED)
        print_remark("and %u more with a remark in the lineage", n - MAX_REPORTED);
}

static void print_summary(const struct tmk_lineage_record *record,
                          const struct tmk_transform_report *report, const char *output) {
    uint32_t counts[TMK_LINEAGE_VERDICTS];
    char fates[256] = "";
    tmk_lineage_record_count(record, counts);
    for (int v = 0; v < TMK_LINEAGE_VERDICTS; v++) {
        size_t len = strlen(fates);
        if (counts[v])
            snprintf(fates + len, sizeof fates - len, "%s%u %s", len ? ", " : "", counts[v],
                     tmk_lineage_verdict_name((enum tmk_lineage_verdict)v));
    }
    print_remark("%u original values: %s", record->n_originals, fates);
    print_remarks(record);
    if (report->observers_before)
        print_remark("%u observers, of %u", report->observers_after, report->observers_before);
    print_remark("%u nodes, of %u, in %s%s", report->nodes_after, report->nodes_before, output,
                 report->progress ? "" : "; nothing was there to change");
}

struct job {
    const char *model, *params, *output, *profile;
    struct words lineages;
    struct tmk_transform_options options;
    bool json;
};

static enum tmk_status transform_model(const struct job *job, struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    struct tmk_lineage_record *record = NULL;
    struct tmk_transform_report report;
    struct tmk_transform_options passes = job->options;
    struct tmk_profile *profile = NULL;
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < job->lineages.n; i++)
        status = tmk_lineage_record_can_write(job->lineages.items[i], diag);
    if (status == TMK_OK)
        status = tmk_model_open_params(job->model, job->params, false, &model, diag);
    if (status == TMK_OK && job->profile)
        status = tmk_profile_read(job->profile, &profile, diag);
    passes.profile = profile;
    if (status == TMK_OK)
        status = tmk_model_transform(model, &passes, job->output, &record, &report, diag);
    tmk_model_close(&model);
    tmk_profile_destroy(&profile);
    for (size_t i = 0; status == TMK_OK && i < job->lineages.n; i++)
        status = tmk_lineage_record_write(record, job->lineages.items[i], diag);
    if (status == TMK_OK && job->json)
        put_json(record, &report);
    if (status == TMK_OK)
        print_summary(record, &report, job->output);
    tmk_lineage_record_destroy(&record);
    return status;
}

static int run_transform(const struct command *command, int argc, char **argv) {
    const char *passes = NULL, *observers = "transparent";
    bool print = false;
    struct words rest = {0}, names = {0};
    struct job job = {0};
    char *copy = NULL;
    const struct option_row options[] = {
        PARAMS_OPTION_ROW(job.params),
        {"passes", 0, OPTION_TEXT, "LIST", "names with commas, all, or none; help lists them",
         &passes},
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the model", &job.output},
        {"params-out", 0, OPTION_OUTPUT, "FILE",
         "with -o OUT.relay: where to write the weights (default: the metadata section)",
         &job.options.params_path},
        {"lineage", 0, OPTION_OUTPUTS, "FILE",
         "where to write what became of each value: .json or .h5; may be repeated", &job.lineages},
        {"profile", 0, OPTION_INPUT, "FILE",
         "a profile of MODEL, for the pass equalize, which goes by its ranges", &job.profile},
        {"observers", 0, OPTION_TEXT, "HOW",
         "transparent (default): passes don't see them; barrier: their values stay", &observers},
        {"print-after", 0, OPTION_FLAG, NULL, "print the model after each pass", &print},
        {"json", 0, OPTION_FLAG, NULL, "the summary as JSON, to stdout", &job.json},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (passes && strcmp(passes, "help") == 0) {
        list_passes();
        goto end;
    }
    job.options.barrier = strcmp(observers, "barrier") == 0;
    const char *wrong = rest.n != 1   ? "it takes one MODEL"
                        : !passes     ? "which passes? add --passes"
                        : !job.output ? "where to? add -o"
                        : !job.options.barrier && strcmp(observers, "transparent") != 0
                            ? "--observers is transparent or barrier"
                        : job.options.params_path && !tmk_is_relay_path(job.output)
                            ? "--params-out goes with -o OUT.relay"
                        : print && job.json ? "choose one of --print-after and --json"
                                            : NULL;
    if (wrong) {
        exit_status = wrong_call(command, "%s", wrong);
        goto end;
    }
    struct tmk_diag diag = {0};
    const bool none = strcmp(passes, "none") == 0;
    enum tmk_status status = none || split_names(passes, &names, &copy) ? TMK_OK : TMK_NOMEM;
    if (status == TMK_OK && !names.n && !none) {
        exit_status = wrong_call(command, "--passes names none");
        goto end;
    }
    job.model = rest.items[0];
    job.options.passes = names.items;
    job.options.n_passes = names.n;
    job.options.after = print ? print_after : NULL;
    if (status == TMK_OK)
        status = transform_model(&job, &diag);
    exit_status = status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
end:
    free(copy);
    free(names.items);
    free(rest.items);
    free(job.lineages.items);
    return exit_status;
}

const struct command command_transform = {
    "transform",
    "run graph passes over a model, write their lineage",
    "MODEL --passes LIST -o OUT.onnx|OUT.relay --lineage L.json",
    "Runs graph passes and writes the model and the lineage: for each original value the value of\n"
    "the new model that it equals, and the relation between them, or why there is none.\n"
    "`tidemark transform --passes help` lists the passes.",
    "tidemark transform digits.onnx --passes all -o small.onnx --lineage small.json",
    run_transform,
};
