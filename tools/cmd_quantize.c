/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/export.h>
#include <tidemark/inputs.h>
#include <tidemark/lineage.h>
#include <tidemark/simulate.h>

#include "command.h"
#include "run_options.h"
#include "stop.h"
#include "target.h"

struct quantize_args {
    struct run_args run;
    const char *output, *target, *config, *labels, *profile, *encodings, *template, *folded,
        *method;
    bool json;
};

/* ---- BatchNormalization into the convolutions before it, as runtimes do before they quantize ----
 */

/* The file of the folded model; zero-initialised: there is none. */
struct folded {
    const char *path; /* NULL: the model was not changed */
    char folder[512], file[1024];
    uint32_t before, after; /* BatchNormalizations */
};

static const char *const passes[] = {"simplify-inference", "fold-scale-axis", "fold-bias"};

/* digits.folded.onnx, in a new folder: a profile has the name of its model's file, which is not to
 * change from one call to the next. */
static enum tmk_status name_file(struct folded *out, const char *path, struct tmk_diag *diag) {
    const char *temporary = getenv("TMPDIR"), *slash = strrchr(path, '/'),
               *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    const int stem = dot ? (int)(dot - name) : (int)strlen(name);
    snprintf(out->folder, sizeof out->folder, "%s/tidemark-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(out->folder)) {
        snprintf(diag->text, sizeof diag->text, "%s: no folder for the folded model: %s",
                 out->folder, strerror(errno));
        out->folder[0] = '\0';
        return diag->status = TMK_WRITE;
    }
    snprintf(out->file, sizeof out->file, "%s/%.*s.folded%s", out->folder, stem < 200 ? stem : 200,
             name, dot && strlen(dot) < 16 ? dot : "");
    out->path = out->file;
    return TMK_OK;
}

static enum tmk_status write_folded(struct tmk_model *model, const char *path, bool *fewer,
                                    struct tmk_diag *diag) {
    const struct tmk_transform_options options = {.passes = passes,
                                                  .n_passes = sizeof passes / sizeof *passes};
    struct tmk_transform_report report = {0};
    enum tmk_status status = tmk_model_transform(model, &options, path, NULL, &report, diag);
    *fewer = report.nodes_after < report.nodes_before;
    return status;
}

/* Removes the temporary file. */
static void finish_folded(struct folded *folded) {
    if (folded->folder[0]) {
        unlink(folded->file);
        rmdir(folded->folder);
    }
    folded->folder[0] = '\0';
    folded->path = NULL;
}

/* Replaces *model, read from `path`, by one that computes the same with fewer nodes, and writes
 * that to `keep` (NULL: a folder for temporary files). Without a BatchNormalization, or where none
 * can be folded, *model stays. */
static enum tmk_status fold_model(struct tmk_model **model, const char *path, const char *params,
                                  const char *keep, struct folded *out, struct tmk_diag *diag) {
    struct tmk_model *folded = NULL;
    bool fewer = false;
    out->before = tmk_model_count_op(*model, "BatchNormalization");
    if ((!out->before && !keep) || params)
        return TMK_OK;
    out->path = keep;
    enum tmk_status status = keep ? TMK_OK : name_file(out, path, diag);
    if (status == TMK_OK)
        status = write_folded(*model, out->path, &fewer, diag);
    if (status == TMK_OK && (fewer || keep))
        status = tmk_model_open(out->path, false, &folded, diag);
    if (!folded) {
        finish_folded(out);
        return status;
    }
    out->after = tmk_model_count_op(folded, "BatchNormalization");
    tmk_model_close(model);
    *model = folded;
    return TMK_OK;
}

/* Errors of the temporary file become those of the file that it was made of. */
static void name_original(const struct folded *folded, const char *path, struct tmk_diag *diag) {
    const size_t n = strlen(folded->file);
    struct tmk_diag was = *diag;
    if (folded->folder[0] && strncmp(was.text, folded->file, n) == 0)
        snprintf(diag->text, sizeof diag->text, "%s%s", path, was.text + n);
}

/* What is held between the steps. */
struct work {
    const char *path; /* of the model */
    struct tmk_model *model;
    struct tmk_target *target;
    struct tmk_profile *profile;
    struct tmk_method_choice methods;
    struct tmk_encodings *encodings;
    struct tmk_simulation *simulation;
    struct folded folded;
    struct tmk_export_format format;
    uint64_t float_bytes; /* of the files of the model that was given */
    uint64_t held_out;    /* samples that are judged and not calibrated on; 0: the same are both */
    uint32_t left_out;    /* encodings that the format cannot hold */
};

/* ---- which samples are for what ---- */

enum { FEWEST = 8, SHARE = 4, MOST = 64 };

static void keep_total(void *context, uint64_t done, uint64_t total) {
    (void)done;
    *(uint64_t *)context = total;
}

static bool stop_at_once(void *context) {
    (void)context;
    return true;
}

/* A quarter of the samples, the first ones, at most MOST; 0 where there are fewer than FEWEST. */
static enum tmk_status find_held_out(struct work *w, const struct tmk_run_options *run,
                                     struct tmk_diag *diag) {
    struct tmk_run_options probe = *run;
    uint64_t total = 0;
    probe.events.progress = keep_total;
    probe.events.stop = stop_at_once;
    probe.events.context = &total;
    enum tmk_status status = tmk_model_run_bare(w->model, &probe, NULL, diag);
    if (status != TMK_OK && status != TMK_INTERRUPTED)
        return status;
    *diag = (struct tmk_diag){0};
    const uint64_t share = total / SHARE;
    w->held_out = total < FEWEST ? 0 : share < MOST ? share : MOST;
    return TMK_OK;
}

/* ---- the steps ---- */

/* Runtimes of QDQ models fold BatchNormalization before they quantize, and other formats name what
 * is in a file of their own. */
static enum tmk_status fold_norms(struct work *w, const struct quantize_args *args,
                                  struct tmk_diag *diag) {
    if (strcmp(w->format.name, "qdq") != 0 || args->template)
        return TMK_OK;
    return fold_model(&w->model, w->path, args->run.params, args->folded, &w->folded, diag);
}

static struct tmk_calibrate_options calibrate_options(const struct work *w,
                                                      const struct quantize_args *args) {
    return (struct tmk_calibrate_options){
        .activations.method =
            w->methods.n ? w->methods.tried[w->methods.chosen].name : args->method,
        .weights.method =
            w->methods.n_weights ? w->methods.weights[w->methods.chosen_weights].name : NULL,
        .config = args->config,
        .target = w->target,
        .constant = tmk_model_constant,
        .codes = tmk_model_codes,
        .model = w->model,
        .remark = args->config ? hear_warning : NULL,
        .stop = stop_was_asked};
}

/* And chooses the method, where none is given. */
static enum tmk_status profile_model(struct work *w, const struct tmk_run_options *run,
                                     const struct quantize_args *args, struct tmk_diag *diag) {
    struct tmk_run_options options = *run;
    const struct tmk_calibrate_options how = calibrate_options(w, args);
    options.data.skip += w->held_out;
    if (options.data.limit)
        options.data.limit -= w->held_out;
    enum tmk_status status =
        tmk_model_choose_method(w->model, &options, &how, &w->profile, &w->methods, NULL, diag);
    end_progress();
    return status;
}

static enum tmk_status make_encodings(struct work *w, const struct quantize_args *args,
                                      struct tmk_diag *diag) {
    const struct tmk_calibrate_options options = calibrate_options(w, args);
    return tmk_calibrate(w->profile, &options, &w->encodings, diag);
}

static enum tmk_status compare_models(struct work *w, const struct tmk_run_options *run,
                                      const struct quantize_args *args, struct tmk_diag *diag) {
    struct tmk_run_options options = *run;
    const struct tmk_simulate_options how = {.labels = args->labels};
    if (w->held_out)
        options.data.limit = w->held_out;
    enum tmk_status status =
        tmk_model_simulate(w->model, w->encodings, &options, &how, &w->simulation, diag);
    end_progress();
    return status;
}

/* Where a quarter of the samples was judged, which is missed in ranges: encodings of all. */
static enum tmk_status include_judged(struct work *w, const struct tmk_run_options *run,
                                      const struct quantize_args *args, struct tmk_diag *diag) {
    const struct tmk_observe observe = {0};
    if (!w->held_out || w->held_out == MOST)
        return TMK_OK;
    tmk_encodings_destroy(&w->encodings);
    tmk_profile_destroy(&w->profile);
    enum tmk_status status = tmk_model_profile(w->model, run, &observe, &w->profile, NULL, diag);
    end_progress();
    return status == TMK_OK ? make_encodings(w, args, diag) : status;
}

static enum tmk_status write_parts(const struct work *w, const struct quantize_args *args,
                                   struct tmk_diag *diag) {
    const struct words file = {.items = (const char *[]){args->profile}, .n = 1};
    enum tmk_status status = args->profile ? write_profiles(w->profile, &file, diag) : TMK_OK;
    if (status == TMK_OK && args->encodings)
        status = tmk_encodings_write(w->encodings, args->encodings, diag);
    return status;
}

static void count_skipped(void *context, uint32_t id, const char *name, const char *why) {
    (void)id;
    (void)name;
    (void)why;
    ++*(uint32_t *)context;
}

static enum tmk_status export_model(struct work *w, const struct quantize_args *args,
                                    struct tmk_diag *diag) {
    const struct tmk_export_options options = {.format = w->format.name,
                                               .path = args->output,
                                               .template_file = args->template,
                                               .target = w->target,
                                               .skip = count_skipped,
                                               .context = &w->left_out};
    return tmk_export(w->encodings, w->model, &options, diag);
}

/* ---- the verdict ---- */

struct verdict {
    double decibels; /* of the output that is worst */
    const struct tmk_simulated *worst;
    bool none;          /* an output without finite numbers: nothing is known of it */
    uint32_t quantized; /* values with codes */
};

/* What the Relu behind a value clips is no error of its codes. */
static bool is_clipped_later(const struct tmk_encodings *encodings, uint32_t id) {
    for (uint32_t i = 0; i < encodings->n_items; i++)
        if (encodings->items[i].id == id)
            return strcmp(encodings->items[i].rule, "activation-after-relu") == 0;
    return false;
}

static struct verdict judge_simulation(const struct work *w) {
    const struct tmk_simulation *s = w->simulation;
    struct verdict v = {.decibels = HUGE_VAL};
    for (uint32_t i = 0; i < s->n_values; i++) {
        const struct tmk_simulated *value = &s->values[i];
        if (value->output && value->sqnr < v.decibels)
            v.decibels = value->sqnr;
        v.none |= value->output && !value->elements;
        if (!value->output && !value->constant && (!v.worst || value->sqnr < v.worst->sqnr) &&
            !is_clipped_later(w->encodings, value->id))
            v.worst = value;
        v.quantized += value->dtype != TMK_UNDEFINED;
    }
    return v;
}

static double percent_of(uint64_t part, uint64_t whole) {
    return whole ? 100 * (double)part / (double)whole : 100;
}

static const char *word_for(double decibels) {
    return decibels >= 30 ? "good" : decibels >= 20 ? "fair: check the accuracy" : "poor";
}

/* Of the result with the file that belongs to it: weights that an .onnx has beside it, and those of
 * .param and .xml. */
static double output_bytes(const char *path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const int stem = (int)(dot && (!slash || dot > slash) ? dot - path : (ptrdiff_t)strlen(path));
    struct stat file;
    char beside[4096];
    double bytes = stat(path, &file) == 0 ? (double)file.st_size : 0;
    if (strcmp(path + stem, ".onnx") == 0)
        snprintf(beside, sizeof beside, "%s.data", path);
    else if (strcmp(path + stem, ".param") == 0 || strcmp(path + stem, ".xml") == 0)
        snprintf(beside, sizeof beside, "%.*s.bin", stem, path);
    else
        return bytes;
    return bytes + (stat(beside, &file) == 0 ? (double)file.st_size : 0);
}

static void print_verdict(const struct work *w, const struct quantize_args *args) {
    const struct tmk_simulation *s = w->simulation;
    const struct verdict v = judge_simulation(w);
    if (!v.quantized)
        print_out("nothing is quantized: outputs as before");
    else if (v.none)
        print_out("unknown: an output has no finite numbers");
    else if (isfinite(v.decibels))
        print_out("%s: outputs %.1f dB", word_for(v.decibels), v.decibels);
    else
        print_out("exact: outputs equal");
    if (s->labelled)
        print_out(", accuracy %.2f%% (float %.2f%%; change 95%% %+.2f to %+.2f)",
                  percent_of(s->right_quantized, s->predictions),
                  percent_of(s->right_float, s->predictions), 100 * s->change.low,
                  100 * s->change.high);
    else if (s->predictions && !v.none)
        print_out(", same class %.2f%%", percent_of(s->agree, s->predictions));
    print_out(", on %llu samples that were %scalibrated on\n", (unsigned long long)s->samples,
              w->held_out ? "not " : "also ");
    print_out("%s: ", args->output);
    if (w->format.writes_model)
        print_out("%.2f MB (float %.2f MB)", output_bytes(args->output) / 1e6,
                  (double)w->float_bytes / 1e6);
    else
        print_out("a table for %s", w->format.consumer);
    print_out("; %u values in codes, %u float", v.quantized, w->encodings->n_left);
    if (w->methods.n)
        print_out("; ranges by %s", w->methods.tried[w->methods.chosen].name);
    if (w->methods.n_weights)
        print_out("%s of weights by %s", w->methods.n ? "," : "; ranges",
                  w->methods.weights[w->methods.chosen_weights].name);
    if (v.worst && isfinite(v.worst->sqnr))
        print_out("; worst is p%u '%s' with %.1f dB", v.worst->id, v.worst->name, v.worst->sqnr);
    print_out("\n");
}

static void put_methods(const struct tmk_method_choice *methods) {
    print_out(",\"methods\":[");
    for (uint32_t i = 0; i < methods->n; i++) {
        const struct tmk_method_tried *tried = &methods->tried[i];
        print_out("%s{\"method\":\"%s\",\"chosen\":%s", i ? "," : "", tried->name,
                  i == methods->chosen ? "true" : "false");
        put_member("typical", tried->typical);
        put_member("first_half", tried->half[0]);
        put_member("second_half", tried->half[1]);
        put_member("sqnr", tried->sqnr);
        print_out("}");
    }
    print_out("],\"weights\":[");
    for (uint32_t i = 0; i < methods->n_weights; i++) {
        const struct tmk_weights_tried *tried = &methods->weights[i];
        print_out("%s{\"method\":\"%s\",\"chosen\":%s", i ? "," : "", tried->name,
                  i == methods->chosen_weights ? "true" : "false");
        put_member("typical", tried->typical);
        print_out("}");
    }
    print_out("]");
}

static void put_json(const struct work *w, const struct quantize_args *args) {
    const struct tmk_simulation *s = w->simulation;
    const struct verdict v = judge_simulation(w);
    print_out("{\"file\":");
    put_quoted(stdout, args->output);
    print_out(",\"format\":\"%s\",\"target\":", w->format.name);
    put_quoted(stdout, w->target ? tmk_target_name(w->target) : "");
    print_out(",\"folded\":%u", w->folded.before - w->folded.after);
    print_out(",\"calibrated_on\":%llu,\"judged_on\":%llu,\"held_out\":%s",
              (unsigned long long)w->encodings->samples, (unsigned long long)s->samples,
              w->held_out ? "true" : "false");
    put_member("sqnr", v.decibels);
    if (s->predictions)
        print_out(",\"agreement\":%.9g,\"agreement_interval\":[%.9g,%.9g]",
                  percent_of(s->agree, s->predictions) / 100, s->agreement.low, s->agreement.high);
    if (s->labelled) {
        put_member("accuracy_float", percent_of(s->right_float, s->predictions) / 100);
        put_member("accuracy_quantized", percent_of(s->right_quantized, s->predictions) / 100);
        print_out(",\"accuracy_interval\":[%.9g,%.9g]", s->change.low, s->change.high);
    }
    put_methods(&w->methods);
    print_out(",\"bytes\":%.0f,\"float_bytes\":%llu", output_bytes(args->output),
              (unsigned long long)w->float_bytes);
    print_out(",\"quantized\":%u,\"left_float\":%u,\"left_out\":%u}\n", v.quantized,
              w->encodings->n_left, w->left_out);
}

/* ---- the command ---- */

static void find_format(struct work *w, const char *name) {
    for (size_t i = 0; tmk_export_format(i, &w->format) && strcmp(w->format.name, name) != 0;)
        i++;
}

/* QDQ for a file .onnx and where no target is given; else what the target reads. */
static enum tmk_status choose_format(struct work *w, const char *output, struct tmk_diag *diag) {
    const bool onnx = has_ending(output, ".onnx");
    find_format(w, "qdq");
    if (!w->target && !onnx) {
        snprintf(diag->text, sizeof diag->text,
                 "%s: without --target an ONNX model is written, whose name ends in .onnx", output);
        return diag->status = TMK_ARGUMENT;
    }
    if (!w->target)
        return TMK_OK;
    for (size_t i = 0; tmk_target_export(w->target, i); i++)
        if (onnx && strcmp(tmk_target_export(w->target, i), "qdq") == 0)
            return TMK_OK;
    find_format(w, tmk_target_export(w->target, 0));
    if (!onnx)
        return TMK_OK;
    snprintf(diag->text, sizeof diag->text,
             "%s reads no ONNX model with codes; an output named .%.*s becomes %s",
             tmk_target_name(w->target), (int)strcspn(w->format.endings, " "), w->format.endings,
             w->format.name);
    return diag->status = TMK_ARGUMENT;
}

static int quantize_model(const struct quantize_args *args, const char *path,
                          const struct tmk_run_options *run) {
    struct tmk_diag diag = {0};
    struct work w = {.path = path};
    enum tmk_status status = open_target(args->target, &w.target, &diag);
    if (status == TMK_OK)
        status = choose_format(&w, args->output, &diag);
    const struct {
        const char *path, *endings;
    } outputs[] = {{args->output, w.format.endings},
                   {args->profile, "json h5 hdf5"},
                   {args->encodings, "json"},
                   {args->folded, "onnx"}};
    for (size_t i = 0; status == TMK_OK && i < sizeof outputs / sizeof *outputs; i++)
        status =
            outputs[i].path ? tmk_can_write(outputs[i].path, outputs[i].endings, &diag) : TMK_OK;
    if (status == TMK_OK)
        status = tmk_model_open_params(path, args->run.params, false, &w.model, &diag);
    if (status == TMK_OK)
        w.float_bytes = tmk_model_file_bytes(w.model);
    if (status == TMK_OK)
        status = fold_norms(&w, args, &diag);
    if (status == TMK_OK)
        status = find_held_out(&w, run, &diag);
    if (status == TMK_OK)
        status = profile_model(&w, run, args, &diag);
    if (status == TMK_OK)
        status = make_encodings(&w, args, &diag);
    if (status == TMK_OK)
        status = compare_models(&w, run, args, &diag);
    if (status == TMK_OK)
        status = include_judged(&w, run, args, &diag);
    if (status == TMK_OK)
        status = write_parts(&w, args, &diag);
    if (status == TMK_OK)
        status = export_model(&w, args, &diag);
    if (status == TMK_OK)
        (args->json ? put_json : print_verdict)(&w, args);
    if (status == TMK_OK && w.folded.path)
        print_remark("%u of %u BatchNormalizations are folded into their convolutions%s",
                     w.folded.before - w.folded.after, w.folded.before,
                     !args->folded && (args->profile || args->encodings)
                         ? "; profile and encodings are of the folded model (--folded FILE)"
                         : "");
    if (status == TMK_OK && w.left_out)
        print_remark("%s has no place for %u of %u encodings; `export --json` lists them",
                     w.format.name, w.left_out, w.encodings->n_items);
    tmk_simulation_destroy(&w.simulation);
    tmk_encodings_destroy(&w.encodings);
    tmk_profile_destroy(&w.profile);
    tmk_model_close(&w.model);
    name_original(&w.folded, path, &diag);
    finish_folded(&w.folded);
    tmk_target_close(&w.target);
    if (status == TMK_OK)
        return EXIT_DONE;
    const int exit_status = report_error(status, &diag);
    return status == TMK_INTERRUPTED ? stop_exit_status() : exit_status;
}

static int run_quantize(const struct command *command, int argc, char **argv) {
    struct quantize_args args = {0};
    struct words rest = {0};
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args.run),
        {"output", 'o', OPTION_OUTPUT, "FILE",
         "the quantized model: .onnx, or what the target reads", &args.output},
        TARGET_OPTION_ROW(args.target),
        {"config", 0, OPTION_INPUT, "FILE", "as of `tidemark calibrate`", &args.config},
        {"method", 0, OPTION_TEXT, "NAME",
         "of activations, as of `tidemark calibrate`; by default the best of them on samples that "
         "were not calibrated on",
         &args.method},
        {"labels", 0, OPTION_INPUT, "WHICH", "the right classes, as of `tidemark simulate`",
         &args.labels},
        {"template", 0, OPTION_INPUT, "FILE", "the consumer's own file, as of `tidemark export`",
         &args.template},
        {"profile", 0, OPTION_OUTPUT, "FILE", "also write the profile", &args.profile},
        {"encodings", 0, OPTION_OUTPUT, "FILE", "also write the encodings", &args.encodings},
        {"folded", 0, OPTION_OUTPUT, "FILE",
         "also write the float model with BatchNormalization folded, which profile and encodings "
         "are of",
         &args.folded},
        {"json", 0, OPTION_FLAG, NULL, "the verdict as an object", &args.json},
        {0}};
    struct tmk_run_options run;
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    exit_status = EXIT_WRONG_CALL;
    if (wants_targets(args.target))
        exit_status = list_targets();
    else if (!rest.n)
        wrong_call(command, "which MODEL?");
    else if (!args.output)
        wrong_call(command, "where to? add -o FILE.onnx");
    else if (args.run.feedback.n)
        wrong_call(command, "models with --feedback take profile, calibrate and export");
    else if (make_run_options(command, &args.run, &rest, 1, &run, &exit_status) &&
             can_read_again(command, &run.data, &exit_status)) {
        run.events.stop = stop_was_asked;
        run.limits.memory = 0;
        watch_for_stop(false);
        exit_status = quantize_model(&args, rest.items[0], &run);
    }
end:
    finish_run_args(&args.run);
    free(rest.items);
    return exit_status;
}

const struct command command_quantize = {
    "quantize",
    "profile, calibrate, compare and export in one go",
    "MODEL --data SRC... -o OUT.onnx [--target NAME]",
    "Chooses scales from three quarters of the samples, runs the quantized network beside the\n"
    "float one on the first quarter (at most 64 samples; of fewer than 8, on all), and writes it\n"
    "for ONNX Runtime and other readers of QDQ models, or for the target. Prints two lines: how\n"
    "near the outputs come, and what was written. Of fewer than 256 samples the file is then made\n"
    "from all, by the same methods. The method of activations is `auto`, unless\n"
    "another one is better on samples that it was not calibrated on. For readers of QDQ models\n"
    "BatchNormalization is first folded into the convolutions before it, as these do themselves.",
    "tidemark quantize digits.onnx --data digits.npy -o digits.int8.onnx",
    run_quantize,
};
