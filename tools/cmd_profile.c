/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/inputs.h>
#include <tidemark/session.h>

#include "command.h"
#include "memory.h"
#include "run_options.h"
#include "stop.h"
#include "warnings.h"

struct profile_args {
    struct run_args run;
    struct words outputs, observe, exclude, eos;
    float *excluded; /* the same as numbers */
    int64_t *stop;   /* likewise */
    uint64_t generate;
    const char *kind, *nan, *padding, *strata, *snapshots, *until_stable, *share;
    bool plan, per_sample, resume, round_half, stream_layers;
};

/* ---- --strata: labels of samples, and a profile a stratum next to each output ---- */

/* Zero-initialised is: none. */
struct strata {
    struct tmk_strata *labels;
    const struct words *outputs;
    uint32_t written;
};

enum { MAX_REPORTED = 20 };

static enum tmk_status fail_with(struct tmk_diag *diag, enum tmk_status status, const char *text) {
    diag->status = status;
    snprintf(diag->text, sizeof diag->text, "%s", text);
    return status;
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("._-+", c) || (unsigned char)c >= 0x80;
}

/* "dir/out.json" of the stratum "a/b" is "dir/out.a%2Fb.json": different labels, different names.
 * NULL when memory ran out. */
static char *file_of(const char *output, const char *label) {
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    size_t stem = dot ? (size_t)(dot - output) : strlen(output);
    char *name = malloc(strlen(output) + 3 * strlen(label) + 2), *to = name;
    if (!name)
        return NULL;
    memcpy(to, output, stem);
    to += stem;
    *to++ = '.';
    for (; *label; label++) {
        if (is_plain(*label))
            *to++ = *label;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*label);
    }
    strcpy(to, output + stem);
    return name;
}

static enum tmk_status check_file(const char *file, const char *label, const struct words *outputs,
                                  const char *checkpoint, struct tmk_diag *diag) {
    const char *same = tmk_same_file(checkpoint, file) ? "--checkpoint" : NULL;
    char text[512];
    for (size_t i = 0; i < outputs->n; i++)
        if (tmk_same_file(outputs->items[i], file))
            same = "-o";
    if (!same)
        return tmk_profile_can_write(file, diag);
    snprintf(text, sizeof text, "%s names %s, where the profile of the stratum '%s' goes", same,
             file, label);
    return fail_with(diag, TMK_ARGUMENT, text);
}

typedef enum tmk_status each_file(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag);

static enum tmk_status for_each_file(struct strata *strata, const char *label, each_file *call,
                                     const void *context, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < strata->outputs->n; i++) {
        char *file = file_of(strata->outputs->items[i], label);
        status = file ? call(strata, file, label, context, diag)
                      : fail_with(diag, TMK_NOMEM, "out of memory");
        free(file);
    }
    return status;
}

static enum tmk_status check_name(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag) {
    return check_file(file, label, strata->outputs, context, diag);
}

static enum tmk_status write_file(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag) {
    const struct tmk_profile *profile = context;
    enum tmk_status status = tmk_profile_write(profile, file, diag);
    if (status == TMK_OK && strata->written < MAX_REPORTED)
        print_remark("stratum '%s': %llu sample%s, wrote %s", label,
                     (unsigned long long)profile->ledger.run, profile->ledger.run == 1 ? "" : "s",
                     file);
    return status;
}

/* For tmk_strata_options. */
static enum tmk_status write_stratum(void *context, const char *label,
                                     const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct strata *strata = context;
    end_progress();
    stop_waits_for_files();
    enum tmk_status status = for_each_file(strata, label, write_file, profile, diag);
    if (status == TMK_OK && strata->written++ == MAX_REPORTED)
        print_remark("more strata are written and not listed");
    return status;
}

static void close_strata(struct strata *strata) {
    tmk_strata_destroy(&strata->labels);
}

/* Reads the labels (path NULL: nothing happens), sees that their profiles can be written next to
 * the outputs, and has the run distinguish them. TMK_ARGUMENT: a stratum's file is named by another
 * option. `out` and `outputs` must outlive the run. */
static enum tmk_status open_strata(struct strata *out, const char *path,
                                   const struct words *outputs, struct tmk_run_options *options,
                                   struct tmk_diag *diag) {
    if (!path)
        return TMK_OK;
    struct strata strata = {.outputs = outputs};
    enum tmk_status status = tmk_strata_read(path, &strata.labels, diag);
    uint32_t n = status == TMK_OK ? tmk_strata_count(strata.labels) : 0;
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        status = for_each_file(&strata, tmk_strata_label(strata.labels, i), check_name,
                               options->checkpoint.path, diag);
    if (status != TMK_OK) {
        close_strata(&strata);
        return status;
    }
    *out = strata;
    options->data.strata = strata.labels;
    options->strata = (struct tmk_strata_options){write_stratum, out};
    return TMK_OK;
}

/* ---- the run ---- */

enum { PRINTED_ELEMENTS = 8 };

/* For observers of kind "print". */
static void print_value(void *context, const char *label, uint64_t sample,
                        const struct tmk_tensor *tensor) {
    (void)context;
    char shape[256], elements[PRINTED_ELEMENTS * 24 + 8] = "";
    size_t n = tmk_tensor_count(tensor), used = 0;
    for (size_t i = 0; i < n && i < PRINTED_ELEMENTS; i++) {
        char *to = elements + used;
        size_t left = sizeof elements - used;
        int len = 0;
        if (tensor->dtype == TMK_FLOAT32)
            len = snprintf(to, left, " %.6g", (double)((const float *)tensor->data)[i]);
        else if (tensor->dtype == TMK_INT64)
            len = snprintf(to, left, " %lld", (long long)((const int64_t *)tensor->data)[i]);
        else if (tensor->dtype == TMK_INT32)
            len = snprintf(to, left, " %d", ((const int32_t *)tensor->data)[i]);
        else if (tmk_dtype_size(tensor->dtype) == 1)
            len = snprintf(to, left, " %d", ((const uint8_t *)tensor->data)[i]);
        used += (size_t)len;
    }
    print_event(LEVEL_INFO, "value", NULL, "sample %llu %s %s%s:%s%s", (unsigned long long)sample,
                label, tmk_dtype_name(tensor->dtype),
                tmk_shape_text(&tensor->shape, shape, sizeof shape), elements,
                n > PRINTED_ELEMENTS ? " ..." : "");
}

/* The summary of a run. */
static void remark_on(const struct tmk_profile *profile) {
    uint32_t by_status[16] = {0};
    for (uint32_t i = 0; i < profile->n_tensors; i++)
        by_status[profile->tensors[i].status]++;
    remark_on_numbers(profile);
    remark_on_thinned(profile);
    print_remark(
        "%u values: %u observed, %u derived, %u constant, %u integer, %u dead, %u never seen",
        profile->n_tensors, by_status[TMK_PROFILE_OBSERVED], by_status[TMK_PROFILE_DERIVED],
        by_status[TMK_PROFILE_CONSTANT], by_status[TMK_PROFILE_INTEGER],
        by_status[TMK_PROFILE_DEAD], by_status[TMK_PROFILE_NEVER]);
}

static void remark_on_resuming(void *context, uint64_t samples_done, uint64_t total) {
    (void)context;
    if (total)
        print_remark("resuming from a checkpoint: %llu of %llu samples are done",
                     (unsigned long long)samples_done, (unsigned long long)total);
    else
        print_remark("resuming from a checkpoint: %llu samples are done",
                     (unsigned long long)samples_done);
}

/* If one file cannot be written, the others still are. */
static enum tmk_status write_all(const struct tmk_profile *profile, const struct words *outputs,
                                 const struct tmk_meter *meter, const char *snapshots,
                                 struct tmk_diag *diag) {
    enum tmk_status status = write_profiles(profile, outputs, diag), last = TMK_OK;
    if (snapshots)
        last = tmk_meter_write(meter, snapshots, status == TMK_OK ? diag : NULL);
    return status == TMK_OK ? last : status;
}

static void forget_checkpoint(const char *path) {
    if (path && remove(path) != 0 && errno != ENOENT)
        warn_of("%s: the run is done, but its checkpoint cannot be removed: %s", path,
                strerror(errno));
}

static void remark_on_run(const struct tmk_profile *profile, const struct tmk_run_report *report,
                          const struct tmk_team *team) {
    char where[64];
    const struct figures figures = {.samples = report->samples,
                                    .rate = (double)report->samples / report->seconds,
                                    .peak_bytes = peak_bytes()};
    if (team)
        snprintf(where, sizeof where, "%u ranks", tmk_team_size(team));
    else
        snprintf(where, sizeof where, "%u threads", report->threads);
    if (profile->ledger.skipped)
        print_remark("%llu samples left over: they do not fill a batch",
                     (unsigned long long)profile->ledger.skipped);
    if (!is_quiet())
        print_event(LEVEL_INFO, "done", &figures,
                    "%llu samples in %.2f s (%.1f a second) on %s, set up in %.2f s, peak %.0f MiB",
                    (unsigned long long)figures.samples, report->seconds, figures.rate, where,
                    report->setup_seconds, (double)figures.peak_bytes / (1 << 20));
    if (report->checkpoints)
        print_remark("%u checkpoints took %.2f s of it", report->checkpoints,
                     report->checkpoint_seconds);
}

/* A network that may need most of the limit of this process is planned as with one that was asked
 * for: half weights take twice their size, other networks less than a quarter more. */
static void limit_large(const struct tmk_model *model, struct tmk_run_options *options) {
    enum { SHARE = 4 };
    const uint64_t limit = tmk_memory_limit();
    for (size_t i = 0; i < options->data.n_sources; i++)
        if (is_stream(options->data.sources[i])) /* cannot be planned */
            return;
    if (limit && tmk_model_file_bytes(model) > limit / SHARE)
        options->limits.memory = limit;
}

/* Only rank 0 writes files and messages. */
static enum tmk_status make_profile(const char *model_path, const struct profile_args *args,
                                    struct tmk_run_options *options, struct tmk_diag *diag) {
    const struct tmk_observe observe = {args->observe.items, args->observe.n, args->kind};
    const bool leads = tmk_team_rank(options->team) == 0;
    struct tmk_model *model = NULL;
    struct tmk_profile *profile = NULL;
    struct tmk_run_report report = {0};
    enum tmk_status status =
        args->plan ? tmk_model_open_to_plan(model_path, args->run.params, &model, diag)
                   : tmk_model_open_params(model_path, args->run.params, false, &model, diag);
    for (size_t i = 0; leads && status == TMK_OK && i < args->outputs.n; i++)
        status = tmk_profile_can_write(args->outputs.items[i], diag);
    if (leads && status == TMK_OK && args->snapshots)
        status = tmk_profile_can_write(args->snapshots, diag);
    if (status == TMK_OK)
        limit_large(model, options);
    if (status == TMK_OK && args->plan) {
        struct tmk_memory_plan plan;
        status = tmk_model_plan_memory(model, options, &observe, &plan, diag);
        if (status == TMK_OK && leads)
            print_memory_plan(&plan);
        tmk_model_close(&model);
        return status;
    }
    if (status == TMK_OK)
        status = tmk_model_profile(model, options, &observe, &profile, &report, diag);
    end_progress();
    stop_waits_for_files();
    if (status == TMK_OK && leads)
        status = write_all(profile, &args->outputs, report.meter, args->snapshots, diag);
    if (status == TMK_OK && leads) {
        remark_on(profile);
        if (report.meter)
            remark_on_meter(report.meter, report.stable);
        remark_on_run(profile, &report, options->team);
        for (size_t i = 0; i < args->outputs.n; i++)
            print_remark("wrote %s", args->outputs.items[i]);
        if (args->snapshots)
            print_remark("wrote %s", args->snapshots);
        forget_checkpoint(args->run.checkpoint);
    }
    tmk_meter_destroy(&report.meter);
    tmk_profile_destroy(&profile);
    tmk_model_close(&model);
    return status;
}

static bool parse_excluded(const struct command *command, struct profile_args *args,
                           int *exit_status) {
    args->excluded = calloc(args->exclude.n + 1, sizeof *args->excluded);
    if (!args->excluded) {
        *exit_status = out_of_memory();
        return false;
    }
    for (size_t i = 0; i < args->exclude.n; i++) {
        char *end;
        const char *word = args->exclude.items[i];
        args->excluded[i] = strtof(word, &end);
        if (end == word || *end || !isfinite(args->excluded[i])) {
            *exit_status =
                wrong_call(command, "--exclude takes a finite float32 number, not '%s'", word);
            return false;
        }
    }
    return true;
}

static bool parse_stop(const struct command *command, struct profile_args *args, int *exit_status) {
    *exit_status = EXIT_WRONG_CALL;
    if (args->generate > UINT32_MAX || (args->eos.n && !args->generate)) {
        wrong_call(command,
                   args->eos.n ? "--eos goes with --generate N" : "--generate is too large");
        return false;
    }
    args->stop = calloc(args->eos.n + 1, sizeof *args->stop);
    if (!args->stop) {
        *exit_status = out_of_memory();
        return false;
    }
    for (size_t i = 0; i < args->eos.n; i++) {
        char *end;
        const char *word = args->eos.items[i];
        errno = 0;
        args->stop[i] = strtoll(word, &end, 10);
        if (end == word || *end || errno || args->stop[i] < 0) {
            wrong_call(command, "--eos takes the ID of a token, not '%s'", word);
            return false;
        }
    }
    return true;
}

/* 0.5%, or 0.005. */
static bool parse_share(const struct command *command, const char *word, double *share) {
    char *end;
    if (!word)
        return true;
    *share = strtod(word, &end);
    if (end != word && strcmp(end, "%") == 0) {
        *share /= 100;
        end++;
    }
    if (end == word || *end || !(*share > 0 && *share < 1)) {
        wrong_call(command, "--until-stable takes a share such as 0.5%%, not '%s'", word);
        return false;
    }
    return true;
}

static int profile_model(const struct command *command, struct profile_args *args,
                         const struct words *rest) {
    struct tmk_run_options options;
    struct strata strata = {0};
    struct tmk_diag diag = {0};
    int exit_status;
    if (!make_run_options(command, &args->run, rest, 1, &options, &exit_status) ||
        !parse_excluded(command, args, &exit_status) || !parse_stop(command, args, &exit_status))
        return exit_status;
    if (!parse_share(command, args->until_stable, &options.snapshots.until_stable) ||
        !parse_histogram_share(command, args->share, &options.statistics.histogram_share))
        return EXIT_WRONG_CALL;
    options.snapshots.take = args->snapshots != NULL;
    options.data.generate =
        (struct tmk_generate){(uint32_t)args->generate, args->stop, args->eos.n};
    options.statistics.exclude = args->excluded;
    options.statistics.n_exclude = args->exclude.n;
    options.statistics.exclude_padding = args->padding;
    options.statistics.fail_on_nan = args->nan && strcmp(args->nan, "fail") == 0;
    options.statistics.per_sample = args->per_sample;
    options.round_half = args->round_half;
    options.events.print = print_value;
    options.limits.memory = memory_limit_asked();
    options.limits.stream_layers = args->stream_layers;
    options.events.resumed = remark_on_resuming;
    if (args->resume && access(args->run.checkpoint, F_OK) != 0)
        print_remark("there is no checkpoint %s yet: starting from the first sample",
                     args->run.checkpoint);
    options.events.stop = stop_was_asked;
    options.events.stopping = stop_is_kept;
    enum tmk_status status = options.shard.count ? TMK_OK : tmk_team_join(&options.team, &diag);
    const uint32_t rank = tmk_team_rank(options.team);
    if (status == TMK_OK) {
        silence_remarks(rank != 0);
        watch_for_stop(options.team != NULL);
        status = open_strata(&strata, args->strata, &args->outputs, &options, &diag);
    }
    if (status == TMK_OK)
        status = make_profile(rest->items[0], args, &options, &diag);
    close_strata(&strata);
    status = tmk_team_leave(&options.team, status, &diag);
    if (status == TMK_OK || rank != 0) /* rank 0 reports for all */
        return EXIT_DONE;
    exit_status = report_error(status, &diag);
    return status == TMK_INTERRUPTED ? stop_exit_status() : exit_status;
}

static bool has_hdf5(const struct words *outputs) {
    for (size_t i = 0; i < outputs->n; i++)
        if (has_ending(outputs->items[i], ".h5") || has_ending(outputs->items[i], ".hdf5"))
            return true;
    return false;
}

static int run_profile(const struct command *command, int argc, char **argv) {
    struct profile_args args = {0};
    struct words rest = {0};
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args.run),
        {"output", 'o', OPTION_OUTPUTS, "FILE", "where to write; .json or .h5, as often as wanted",
         &args.outputs},
        {"shard", 0, OPTION_TEXT, "K/N",
         "the K-th of N parts of the samples only (from 1); `tidemark merge` puts them together",
         &args.run.shard},
        {"checkpoint", 0, OPTION_OUTPUT, "FILE",
         "save progress in FILE; if FILE exists, resume from it", &args.run.checkpoint},
        {"resume", 0, OPTION_FLAG, NULL,
         "make explicit that an existing checkpoint is resumed; without one, print a remark and "
         "start",
         &args.resume},
        {"every", 0, OPTION_TEXT, "TIME", "time between checkpoints: 10s, 5m, 1h (60s)",
         &args.run.checkpoint_every},
        {"observe", 0, OPTION_TEXTS, "WHAT",
         "all (default), activations, weights, or a glob on names; may be repeated", &args.observe},
        {"kind", 0, OPTION_TEXT, "KIND", "minmax, range, histogram (default), print, guard",
         &args.kind},
        {"nan", 0, OPTION_TEXT, "WHAT",
         "warn (default): count and name where it began; fail: stop at the first NaN", &args.nan},
        {"per-sample", 0, OPTION_FLAG, NULL,
         "keep each sample's min and max of each value; .h5 only. Takes memory for every sample: "
         "about 20 bytes a value (10,000 samples, 300 values: 60 MB)",
         &args.per_sample},
        {"histogram-share", 0, OPTION_TEXT, "1/K",
         "histograms of inputs and activations count one run of 64 elements in K, which can be "
         "quicker; "
         "extremes, counts, zeros and sums stay those of all elements",
         &args.share},
        {"round-half", 0, OPTION_FLAG, NULL,
         "round inputs and results to float16 or bfloat16 where the model has these types, as a "
         "device does that computes in them (else they are kept in float32)",
         &args.round_half},
        {"stream-layers", 0, OPTION_FLAG, NULL,
         "run blocks of the network one after the other, each over many batches, so that the "
         "weights of one block are in memory at a time; chosen by itself where nothing else fits "
         "--memory-limit. The profile is the same",
         &args.stream_layers},
        {"strata", 0, OPTION_INPUT, "FILE.csv",
         "one label a line in the order of the samples, or sample,label lines below that header: "
         "also profiles each label's samples, as NAME.LABEL.json",
         &args.strata},
        {"exclude", 0, OPTION_TEXTS, "VALUE",
         "leave elements of inputs and activations that equal VALUE (such as -1e9 in "
         "masks) out of all statistics, and count them separately; may be repeated",
         &args.exclude},
        {"exclude-padding", 0, OPTION_TEXT, "MASK_INPUT",
         "leave elements of positions out where this input, [batch, length], is 0, of all values "
         "whose axes are known to count them",
         &args.padding},
        {"generate", 0, OPTION_COUNT, "N",
         "after each prompt N greedy steps of decoding, fed with the token of the largest logit "
         "and with the caches that the step before gave; --feedback LOGITS=IDS and OUT=IN name "
         "what names do not tell",
         &args.generate},
        {"eos", 0, OPTION_TEXTS, "ID",
         "with --generate: a token that ends a prompt; may be repeated", &args.eos},
        {"snapshots", 0, OPTION_OUTPUT, "FILE.json",
         "write how far thresholds moved between 1, 2, 4, 8, ... samples", &args.snapshots},
        {"until-stable", 0, OPTION_TEXT, "SHARE",
         "stop after 8, 16, 32, ... samples once no threshold moved by more than SHARE "
         "(0.5%) of its range since half as many; the result equals that of --limit",
         &args.until_stable},
        {"plan", 0, OPTION_FLAG, NULL, "print how much memory the run will take, and exit",
         &args.plan},
        {0}};
    int exit_status;
    silence_remarks(tmk_team_launched_as() != 0);
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        silence_remarks(tmk_team_launched_as() != 0 &&
                        !args.run.shard); /* shards are on their own */
        if (rest.n < 1)
            exit_status = wrong_call(command, "which MODEL?");
        else if (!args.outputs.n && !args.plan)
            exit_status = wrong_call(command, "where to? add -o FILE.json or -o FILE.h5");
        else if (args.resume && !args.run.checkpoint)
            exit_status = wrong_call(command, "--resume goes with --checkpoint FILE");
        else if (args.snapshots && !has_ending(args.snapshots, ".json"))
            exit_status = wrong_call(command, "--snapshots writes JSON: FILE.json");
        else if (args.nan && strcmp(args.nan, "fail") != 0 && strcmp(args.nan, "warn") != 0 &&
                 strcmp(args.nan, "record") != 0) /* warn, as it was called before */
            exit_status = wrong_call(command, "--nan takes warn or fail, not '%s'", args.nan);
        else if (args.per_sample && !args.plan && !has_hdf5(&args.outputs))
            exit_status = wrong_call(command, "--per-sample needs HDF5: add -o FILE.h5");
        else
            exit_status = profile_model(command, &args, &rest);
    }
    finish_run_args(&args.run);
    free(args.outputs.items);
    free(args.observe.items);
    free(args.exclude.items);
    free(args.eos.items);
    free(args.excluded);
    free(args.stop);
    free(rest.items);
    return exit_status;
}

const struct command command_profile = {
    "profile",
    "measure every tensor of a model over calibration data",
    "MODEL.onnx --data SRC... -o FILE...",
    "Runs the model over the data and writes, for every value, its extremes and where they were\n"
    "seen, counts, moments and an exact histogram. The processes that mpirun starts share one run.",
    "tidemark profile digits.onnx --data digits.npy -o profile.json -o profile.h5",
    run_profile,
};
