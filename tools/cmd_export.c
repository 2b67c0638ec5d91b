/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <tidemark/export.h>

#include "command.h"
#include "table.h"
#include "target.h"

/* Messages of the library during an export. */
struct export_log {
    struct skipped {
        uint32_t id;
        char *name, *why;
        bool listed; /* with another of the same reason */
    } * skipped;
    char **remarks;
    size_t n_skipped, n_remarks;
    bool failed; /* memory ran out */
};

static void keep_skip(void *context, uint32_t id, const char *name, const char *why) {
    struct export_log *export_log = context;
    struct skipped *grown =
        realloc(export_log->skipped, (export_log->n_skipped + 1) * sizeof *grown);
    if (grown) {
        export_log->skipped = grown;
        struct skipped *last = &grown[export_log->n_skipped++];
        *last = (struct skipped){.id = id, .name = strdup(name), .why = strdup(why)};
        export_log->failed = export_log->failed || !last->name || !last->why;
    } else {
        export_log->failed = true;
    }
}

static void keep_remark(void *context, const char *text) {
    struct export_log *export_log = context;
    char **grown = realloc(export_log->remarks, (export_log->n_remarks + 1) * sizeof *grown);
    if (grown) {
        export_log->remarks = grown;
        grown[export_log->n_remarks++] = strdup(text);
        export_log->failed = export_log->failed || !grown[export_log->n_remarks - 1];
    } else {
        export_log->failed = true;
    }
}

static void finish_report(struct export_log *export_log) {
    for (size_t i = 0; i < export_log->n_skipped; i++) {
        free(export_log->skipped[i].name);
        free(export_log->skipped[i].why);
    }
    for (size_t i = 0; i < export_log->n_remarks; i++)
        free(export_log->remarks[i]);
    free(export_log->skipped);
    free(export_log->remarks);
}

static void list_formats(void) {
    struct tmk_export_format f;
    for (size_t i = 0; tmk_export_format(i, &f); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s%s", f.consumer,
                 f.needs_model ? "; needs --model" : "",
                 f.needs_template ? "; needs --template" : "", f.settings[0] ? "; --set " : "",
                 f.settings);
        print_wrapped(text, print_out("%-18s ", f.name), 19);
    }
}

static void put_json(const struct export_log *export_log, const struct tmk_export_options *options,
                     const struct tmk_encodings *encodings) {
    print_out("{\"format\":");
    put_quoted(stdout, options->format);
    print_out(",\"file\":");
    put_quoted(stdout, options->path);
    print_out(",\"encodings\":%u,\"written\":%zu,\"left_float\":%u,\"skipped\":[",
              encodings->n_items, encodings->n_items - export_log->n_skipped, encodings->n_left);
    for (size_t i = 0; i < export_log->n_skipped; i++) {
        print_out("%s{\"id\":\"p%u\",\"name\":", i ? "," : "", export_log->skipped[i].id);
        put_quoted(stdout, export_log->skipped[i].name);
        print_out(",\"why\":");
        put_quoted(stdout, export_log->skipped[i].why);
        print_out("}");
    }
    print_out("],\"remarks\":[");
    for (size_t i = 0; i < export_log->n_remarks; i++) {
        print_out("%s", i ? "," : "");
        put_quoted(stdout, export_log->remarks[i]);
    }
    print_out("]}\n");
}

/* The first few that were left out for the reason of this one. */
static void print_reason(struct export_log *export_log, const struct skipped *first) {
    enum { FIRST = 3 };
    char names[256] = "";
    size_t n = 0, len = 0;
    for (size_t i = 0; i < export_log->n_skipped; i++) {
        struct skipped *one = &export_log->skipped[i];
        if (strcmp(one->why, first->why) != 0)
            continue;
        one->listed = true;
        if (n++ < FIRST && len < sizeof names)
            len += (size_t)snprintf(names + len, sizeof names - len, "%sp%u '%.60s'",
                                    n > 1 ? ", " : "", one->id, one->name);
    }
    print_remark("%zu left out: %s (%s%s)", n, first->why, names, n > FIRST ? ", ..." : "");
}

/* What was left out is a loss, not a remark: --quiet keeps its summary, unless JSON has it. */
static void print_report(struct export_log *export_log, const struct tmk_encodings *encodings,
                         bool json) {
    for (size_t i = 0; i < export_log->n_remarks; i++)
        print_remark("%s", export_log->remarks[i]);
    for (size_t i = 0; !export_log->failed && i < export_log->n_skipped; i++)
        if (!export_log->skipped[i].listed)
            print_reason(export_log, &export_log->skipped[i]);
    if (export_log->n_skipped && !(json && is_quiet()))
        print_event(LEVEL_WARNING, "left-out", NULL,
                    "%zu of %u encodings were left out; --json lists them", export_log->n_skipped,
                    encodings->n_items);
}

struct job {
    const char *encodings, *model, *params, *target;
    struct tmk_export_options options;
    struct words settings;
    bool json;
};

static int export_them(const struct job *job) {
    struct tmk_diag diag = {0};
    struct export_log export_log = {0};
    struct tmk_encodings *encodings = NULL;
    struct tmk_model *model = NULL;
    struct tmk_export_options options = job->options;
    options.settings = job->settings.items;
    options.n_settings = job->settings.n;
    options.skip = keep_skip;
    options.remark = keep_remark;
    options.context = &export_log;
    struct tmk_target *target = NULL;
    enum tmk_status status = open_target(job->target, &target, &diag);
    options.target = target;
    if (target && !options.format)
        options.format = tmk_target_export(target, 0);
    if (status == TMK_OK)
        status = tmk_encodings_read(job->encodings, &encodings, &diag);
    if (status == TMK_OK && job->model)
        status = tmk_model_open_params(job->model, job->params, true, &model, &diag);
    if (status == TMK_OK)
        status = tmk_export(encodings, model, &options, &diag);
    if (status == TMK_OK && export_log.failed)
        status = TMK_NOMEM;
    bool written = status == TMK_OK;
    if (encodings && (written || status == TMK_NOTFOUND) && job->json)
        put_json(&export_log, &options, encodings);
    if (written && encodings) {
        print_report(&export_log, encodings, job->json);
        print_remark("%s for %s: %zu of %u encodings; %u values stay float", options.path,
                     options.format, encodings->n_items - export_log.n_skipped, encodings->n_items,
                     encodings->n_left);
    }
    int exit_status = written ? EXIT_DONE : report_error(status, &diag);
    if (status == TMK_NOTFOUND)
        exit_status = EXIT_ANSWER_NO;
    tmk_model_close(&model);
    tmk_encodings_destroy(&encodings);
    tmk_target_close(&target);
    finish_report(&export_log);
    return exit_status;
}

static int run_export(const struct command *command, int argc, char **argv) {
    struct words rest = {0};
    struct job job = {0};
    const struct option_row options[] = {
        {"to", 0, OPTION_TEXT, "FORMAT",
         "what to write; help lists the formats and who reads them (default: the first that "
         "--target reads)",
         &job.options.format},
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write it", &job.options.path},
        {"model", 0, OPTION_INPUT, "MODEL", "the model that was profiled, for formats that need it",
         &job.model},
        PARAMS_OPTION_ROW(job.params),
        TARGET_OPTION_ROW(job.target),
        {"names", 0, OPTION_INPUT, "MAP.json",
         "what the consumer calls the values: {\"p12\": \"its name\", \"our name\": \"its name\"}",
         &job.options.names},
        {"keep-names", 0, OPTION_FLAG, NULL,
         "with --names: values that the map does not have keep their name",
         &job.options.keep_names},
        {"template", 0, OPTION_INPUT, "FILE",
         "the consumer's own file, for formats that replace numbers in it",
         &job.options.template_file},
        {"set", 0, OPTION_TEXTS, "KEY=VALUE", "a setting of the format; may be repeated",
         &job.settings},
        {"json", 0, OPTION_FLAG, NULL, "what was left out and why, as JSON, to stdout", &job.json},
        {0}};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (job.options.format && strcmp(job.options.format, "help") == 0) {
        list_formats();
        goto end;
    }
    if (wants_targets(job.target)) {
        exit_status = list_targets();
        goto end;
    }
    const char *wrong =
        rest.n != 1                          ? "it takes one file of encodings"
        : !job.options.format && !job.target ? "which format? add --to; --to help lists them"
        : !job.options.path                  ? "where to? add -o"
        : job.params && !job.model           ? "--params goes with --model"
        : job.options.keep_names && !job.options.names ? "--keep-names goes with --names"
                                                       : NULL;
    if (wrong) {
        exit_status = wrong_call(command, "%s", wrong);
        goto end;
    }
    job.encodings = rest.items[0];
    exit_status = export_them(&job);
end:
    free(rest.items);
    free(job.settings.items);
    return exit_status;
}

const struct command command_export = {
    "export",
    "write encodings as the files that quantizers and compilers read",
    "ENC.json --to FORMAT -o OUT [--model MODEL] [--names MAP.json] [--template FILE]",
    "Writes the encodings that `tidemark calibrate` chose in a consumer's own format. Encodings\n"
    "that the format cannot represent, or of values that the consumer does not have, are left out\n"
    "and counted by reason; --json lists them. If none can be written, no file is written and the\n"
    "exit status is 1. With --target, encodings that its table does not allow are an error.",
    "tidemark export enc.json --to csv -o enc.csv",
    run_export,
};
