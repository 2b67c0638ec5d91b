/* SPDX-License-Identifier: Apache-2.0 */
/* The main job: import has happened; instrument, run, and write down what was seen. Reads from top
 * to bottom as the data flows. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "base/hash.h"
#include "exec/run.h"
#include "kernel/accel.h"
#include "pass/instrument.h"
#include "session/feed.h"
#include "session/model.h"
#include "session/record.h"
#include "tmk_version.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t processors(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

struct story {
    const struct tmk_run_options *options;
    struct tmk_graph *original, *graph; /* without and with observers */
    struct tmk_session_feed *feed;
    struct tmk_observer *observers;
    struct tmk_slot_config *slots;
    char (*labels)[300];
    uint32_t n_slots;
    struct tmk_exec_result result;
    struct tmk_run_report report;
};

static void finish(struct story *story) {
    tmk_exec_result_finish(&story->result);
    tmk_session_feed_close(&story->feed);
    tmk_graph_destroy(&story->graph);
    tmk_graph_destroy(&story->original);
    free(story->observers);
    free(story->slots);
    free(story->labels);
}

static enum tmk_status configure_slots(struct story *story, struct tmk_diag *diag) {
    TMK_TRY(tmk_observer_slots(story->graph, &story->observers, &story->n_slots, diag));
    story->slots = calloc(story->n_slots + 1u, sizeof *story->slots);
    story->labels = calloc(story->n_slots + 1u, sizeof *story->labels);
    if (!story->slots || !story->labels)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < story->n_slots; i++) {
        const struct tmk_observer *observer = &story->observers[i];
        enum tmk_observer_kind kind;
        if (!tmk_observer_kind_by_name(observer->kind, &kind))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "the model holds an observer of kind '%s', which is not known",
                            observer->kind);
        snprintf(story->labels[i], sizeof story->labels[i], "p%lld '%s'",
                 (long long)observer->profile_id, observer->tensor_name);
        story->slots[i] = (struct tmk_slot_config){
            .level = kind == TMK_OBSERVER_HISTOGRAM ? TMK_STATS_HISTOGRAM : TMK_STATS_RANGE,
            .guard = kind == TMK_OBSERVER_GUARD || story->options->fail_on_nan,
            .print = kind == TMK_OBSERVER_PRINT,
            .label = story->labels[i]};
    }
    return TMK_OK;
}

static void progress(void *context, uint64_t samples_done) {
    const struct story *story = context;
    story->options->progress(story->options->context, samples_done,
                             tmk_session_feed_plan(story->feed).run);
}

static enum tmk_status run(struct story *story, bool observe, struct tmk_diag *diag) {
    const struct tmk_run_options *options = story->options;
    const struct tmk_feed feed = tmk_session_feed_of(story->feed);
    const struct tmk_exec_options exec = {.threads = story->report.threads,
                                          .observe = observe,
                                          .slots = story->slots,
                                          .n_slots = story->n_slots,
                                          .print = {options->print, options->context},
                                          .progress = options->progress ? progress : NULL,
                                          .progress_context = story};
    double begin = now();
    TMK_TRY(tmk_exec_run(story->graph, &feed, &exec, &story->result, diag));
    story->report.seconds = now() - begin;
    story->report.samples = story->result.samples;
    story->report.batches = story->result.batches;
    story->report.arena_bytes =
        story->result.figures.arena_bytes + story->result.figures.scratch_bytes;
    return TMK_OK;
}

static enum tmk_status prepare(struct story *story, struct tmk_diag *diag) {
    story->report.threads = story->options->threads ? story->options->threads : processors();
    tmk_graph_number(story->graph);
    TMK_TRY(configure_slots(story, diag));
    return tmk_session_feed_open(story->graph, story->options, &story->feed, diag);
}

/* ---- the profile's header ---- */

static const char *isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return "x86_64 avx512";
    return __builtin_cpu_supports("avx2") ? "x86_64 avx2" : "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static const char *copy(struct tmk_profile *profile, const char *text, bool *ok) {
    const char *c = tmk_profile_text(profile, text);
    *ok &= c != NULL;
    return c;
}

static uint64_t graph_fingerprint(const struct tmk_graph *graph) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        hash = tmk_hash64(&graph->outputs[i]->fingerprint, sizeof hash, hash);
    return hash;
}

static enum tmk_status describe_model(struct tmk_profile *profile, const struct tmk_model *model,
                                      const struct story *story, struct tmk_diag *diag) {
    bool ok = true;
    const struct tmk_graph *graph = model->graph;
    profile->producer.name = copy(profile, "tidemark", &ok);
    profile->producer.version = copy(profile, TMK_VERSION, &ok);
    profile->producer.isa = copy(profile, isa(), &ok);
    profile->producer.kernels = copy(profile, tmk_kernel_library(), &ok);
    profile->model.file = copy(profile, base_name(model->path), &ok);
    profile->model.sha256 = copy(profile, model->sha256, &ok);
    profile->model.format = copy(profile, "onnx", &ok);
    profile->model.ir_version = graph->ir_version;
    profile->model.fingerprint = graph_fingerprint(story->original);
    for (uint32_t i = 0; i < graph->n_opsets; i++)
        TMK_TRY(tmk_profile_add_opset(profile, graph->opsets[i].domain, graph->opsets[i].version,
                                      diag));
    return ok ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status describe_data(struct tmk_profile *profile, const struct story *story,
                                     struct tmk_diag *diag) {
    struct tmk_feed_plan plan = tmk_session_feed_plan(story->feed);
    for (uint32_t i = 0; i < story->graph->n_inputs; i++) {
        const struct tmk_source_info *info = tmk_session_feed_source(story->feed, i);
        char hash[80];
        snprintf(hash, sizeof hash, "sha256:%s", info->hash);
        TMK_TRY(tmk_profile_add_source(profile, story->graph->inputs[i]->name,
                                       base_name(info->path),
                                       tmk_session_feed_entries(story->feed, i), hash, diag));
    }
    profile->ledger.offered = plan.offered;
    profile->ledger.run = story->result.samples;
    profile->ledger.skipped = plan.offered - plan.run;
    profile->ledger.batches = story->result.batches;
    profile->ledger.end_sample = plan.offered;
    return TMK_OK;
}

static enum tmk_status describe_settings(struct tmk_profile *profile, const struct story *story,
                                         const struct tmk_observe *observe, struct tmk_diag *diag) {
    char text[64];
    snprintf(text, sizeof text, "%llu",
             (unsigned long long)tmk_session_feed_plan(story->feed).batch);
    TMK_TRY(tmk_profile_add_setting(profile, "batch", text, diag));
    TMK_TRY(tmk_profile_add_setting(profile, "kind",
                                    observe && observe->kind ? observe->kind : "histogram", diag));
    if (!observe || !observe->n_patterns)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", "all", diag));
    for (size_t i = 0; observe && i < observe->n_patterns; i++)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", observe->patterns[i], diag));
    return TMK_OK;
}

static enum tmk_status write_down(const struct tmk_model *model, struct story *story,
                                  const struct tmk_observe *observe, struct tmk_profile **out,
                                  struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = describe_model(profile, model, story, diag);
    if (status == TMK_OK)
        status = describe_data(profile, story, diag);
    if (status == TMK_OK)
        status = describe_settings(profile, story, observe, diag);
    if (status == TMK_OK)
        status = tmk_record_values(profile, story->original, story->observers,
                                   story->result.accounts, story->n_slots, diag);
    if (status == TMK_OK)
        status = tmk_profile_balance(profile, diag);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}

enum tmk_status tmk_model_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                  const struct tmk_observe *observe, struct tmk_profile **out,
                                  struct tmk_run_report *report, struct tmk_diag *diag) {
    struct story story = {.options = options};
    double begin = now();
    enum tmk_status status = tmk_original(model, &story.original, diag);
    if (status == TMK_OK)
        status = tmk_instrumented(story.original, observe, &story.graph, NULL, diag);
    if (status == TMK_OK)
        status = prepare(&story, diag);
    story.report.setup_seconds = now() - begin;
    if (status == TMK_OK)
        status = tmk_in(diag, run(&story, true, diag), "%s", model->path);
    if (status == TMK_OK)
        status = write_down(model, &story, observe, out, diag);
    if (status == TMK_OK && report)
        *report = story.report;
    finish(&story);
    return status;
}

enum tmk_status tmk_model_run_bare(struct tmk_model *model, const struct tmk_run_options *options,
                                   struct tmk_run_report *report, struct tmk_diag *diag) {
    struct story story = {.options = options};
    double begin = now();
    enum tmk_status status = tmk_original(model, &story.graph, diag);
    if (status == TMK_OK)
        status = prepare(&story, diag);
    story.report.setup_seconds = now() - begin;
    if (status == TMK_OK)
        status = tmk_in(diag, run(&story, false, diag), "%s", model->path);
    if (status == TMK_OK && report)
        *report = story.report;
    finish(&story);
    return status;
}
