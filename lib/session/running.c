/* SPDX-License-Identifier: Apache-2.0 */
#include "session/running.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/guess.h>

#include "base/bits.h"
#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "data/role.h"
#include "dist/team.h"
#include "exec/derive.h"
#include "feed/feed.h"
#include "graph/graph.h"
#include "pass/instrument.h"
#include "tensor/elements.h"
#include "tensor/positions.h"
#include "tensor/shape.h"

/* Those of the options. TMK_ARGUMENT: one of them is not finite. On success end with
 * excluded_finish. */
static enum tmk_status excluded_of(const struct tmk_run_options *options, struct tmk_excluded *out,
                                   struct tmk_diag *diag) {
    size_t given = options->statistics.n_exclude, n = 0;
    for (size_t i = 0; i < given; i++)
        if (!isfinite(options->statistics.exclude[i]))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "NaN and infinities are counted apart anyway, and cannot be excluded");
    uint32_t *bits = calloc(given + 1, sizeof *bits);
    TMK_TRY_ALLOC(bits, diag);
    if (given)
        memcpy(bits, options->statistics.exclude, given * sizeof *bits);
    qsort(bits, given, sizeof *bits, tmk_compare_u32);
    for (size_t i = 0; i < given; i++)
        if (!n || bits[n - 1] != bits[i])
            bits[n++] = bits[i];
    *out = (struct tmk_excluded){bits, n};
    return TMK_OK;
}

static void excluded_finish(struct tmk_excluded *excluded) {
    free(excluded->bits);
    *excluded = (struct tmk_excluded){0};
}

enum tmk_status tmk_excluded_describe(const struct tmk_excluded *excluded,
                                      struct tmk_profile *profile, struct tmk_diag *diag) {
    for (size_t i = 0; i < excluded->n; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", (double)tmk_float_of_bits(excluded->bits[i]));
        TMK_TRY(tmk_profile_add_setting(profile, "exclude", text, diag));
    }
    return TMK_OK;
}

static enum tmk_status find_mask(const struct tmk_graph *graph, const char *name, uint32_t *out,
                                 struct tmk_diag *diag) {
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE];
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        tmk_guess_try(&guess, graph->inputs[i]->name);
        if (strcmp(graph->inputs[i]->name, name) != 0)
            continue;
        *out = i;
        if (tmk_number_takes(type->dtype) && (!type->has_shape || type->shape.rank == 2))
            return TMK_OK;
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--exclude-padding: '%s' is %s%s; a mask of padding is [batch, length]",
                        name, tmk_dtype_name(type->dtype), TMK_SHAPE_TEXT(&type->shape));
    }
    return tmk_fail(diag, TMK_ARGUMENT, "--exclude-padding: the model has no input '%s'%s", name,
                    tmk_guess_text(&guess, meant));
}

/* The axis with the name of the mask's axis `of`; -1: none. */
static int32_t axis_named(const struct tmk_type *type, const struct tmk_type *mask, int32_t of) {
    const char *symbol = mask->has_shape ? mask->symbol[of] : NULL;
    for (int32_t k = 0; symbol && type->has_shape && k < type->shape.rank; k++)
        if (type->symbol[k] && strcmp(type->symbol[k], symbol) == 0)
            return k;
    return -1;
}

/* Tokens and the like are [..., batch, length]; a cache has one free axis beside its first. */
static void seed_by_role(const struct tmk_value *input, struct tmk_position_seed *seed) {
    const struct tmk_type *type = &input->type;
    const struct tmk_source_input what = {input->name, type->dtype, type->has_shape, type->shape};
    const enum tmk_role role = tmk_role_of(&what, false);
    const int32_t rank = type->has_shape ? type->shape.rank : 0;
    int32_t grows = -1, n = 0;
    for (int32_t k = 1; k < rank; k++)
        if (type->shape.dim[k] < 0) {
            grows = k;
            n++;
        }
    if (role == TMK_ROLE_CACHE && n == 1)
        *seed = (struct tmk_position_seed){0, grows, true};
    else if (rank >= 2 &&
             (role == TMK_ROLE_TOKENS || role == TMK_ROLE_POSITIONS || role == TMK_ROLE_TYPES))
        *seed = (struct tmk_position_seed){rank - 2, rank - 1, false};
}

/* What is known of the graph's inputs, by the names of their dimensions, which are the mask's, or
 * by their own names. TMK_ARGUMENT: no input of this name is a mask. *out is malloc'ed. */
static enum tmk_status padding_seeds(const struct tmk_graph *graph, const char *mask,
                                     struct tmk_position_seed **out, uint32_t *input,
                                     struct tmk_diag *diag) {
    TMK_TRY(find_mask(graph, mask, input, diag));
    const struct tmk_type *type = &graph->inputs[*input]->type;
    struct tmk_position_seed *seeds = calloc(graph->n_inputs, sizeof *seeds);
    TMK_TRY_ALLOC(seeds, diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *own = &graph->inputs[i]->type;
        seeds[i] =
            (struct tmk_position_seed){axis_named(own, type, 0), axis_named(own, type, 1), false};
        if (i == *input)
            seeds[i] = (struct tmk_position_seed){0, 1, false};
        else if (seeds[i].prompt < 0 || seeds[i].position < 0)
            seed_by_role(graph->inputs[i], &seeds[i]);
    }
    *out = seeds;
    return TMK_OK;
}

double tmk_running_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint32_t tmk_running_threads(const struct tmk_run_limits *limits) {
    cpu_set_t set;
    if (limits->threads)
        return limits->threads;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

void tmk_running_finish(struct tmk_running *run) {
    tmk_exec_result_finish(&run->result);
    tmk_feed_close(&run->feed);
    tmk_graph_destroy(&run->graph);
    tmk_graph_destroy(&run->original);
    free(run->observers);
    for (uint32_t i = 0; run->slots && i < run->n_slots; i++)
        free(run->slots[i].sources);
    free(run->slots);
    free(run->unruled);
    tmk_cuts_finish(&run->cuts);
    free(run->labels);
    free(run->padding);
    free(run->whole);
    excluded_finish(&run->excluded);
    tmk_watched_finish(&run->watched);
}

static enum tmk_status check_share(const struct tmk_running *run, uint32_t share,
                                   struct tmk_diag *diag) {
    const char *kind = run->n_slots ? run->observers[0].kind : "histogram";
    if (share > TMK_STATS_MOST_THINNED)
        return tmk_fail(diag, TMK_ARGUMENT, "a histogram counts 1/1 to 1/%d of the runs, not 1/%u",
                        TMK_STATS_MOST_THINNED, (unsigned)share);
    if (share && (strcmp(kind, "range") == 0 || strcmp(kind, "minmax") == 0))
        return tmk_fail(diag, TMK_ARGUMENT, "there are no histograms to thin at the kind '%s'",
                        kind);
    return TMK_OK;
}

static enum tmk_status configure_slots(struct tmk_running *run, struct tmk_diag *diag) {
    TMK_TRY(excluded_of(run->options, &run->excluded, diag));
    TMK_TRY(tmk_observer_slots(run->graph, &run->observers, &run->n_slots, diag));
    /* An observer of the file that prints or guards does so here, where no other kind was asked
     * for. */
    const struct tmk_watched *watched = &run->watched;
    struct tmk_ptrmap kinds = {0};
    const uint32_t asked = run->options->statistics.histogram_share, share = asked > 1 ? asked : 0;
    enum tmk_status status = check_share(run, share, diag);
    for (uint32_t i = 0; status == TMK_OK && i < watched->n; i++)
        if ((watched->kinds[i] == TMK_OBSERVER_PRINT || watched->kinds[i] == TMK_OBSERVER_GUARD) &&
            !tmk_ptrmap_put(&kinds, (void *)((uintptr_t)watched->ids[i] + 1), &watched->kinds[i]))
            status = tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < run->n_slots; i++) {
        const uintptr_t id = (uintptr_t)run->observers[i].profile_id;
        const enum tmk_observer_kind *kind = tmk_ptrmap_get(&kinds, (void *)(id + 1));
        if (kind)
            run->observers[i].kind =
                tmk_observer_kinds()[2 * (size_t)*kind] /* each with its help */;
    }
    tmk_ptrmap_finish(&kinds);
    TMK_TRY(status);
    run->slots = calloc(run->n_slots + 1u, sizeof *run->slots);
    run->labels = calloc(run->n_slots + 1u, sizeof *run->labels);
    run->whole = calloc(run->n_slots + 1u, sizeof *run->whole);
    TMK_TRY_ALLOC(run->slots && run->labels && run->whole, diag);
    for (uint32_t i = 0; i < run->n_slots; i++) {
        const struct tmk_observer *observer = &run->observers[i];
        enum tmk_observer_kind kind;
        if (!tmk_observer_kind_by_name(observer->kind, &kind))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "the model holds an observer of kind '%s', which is not known",
                            observer->kind);
        snprintf(run->labels[i], sizeof run->labels[i], "p%lld '%s'",
                 (long long)observer->profile_id, observer->tensor_name);
        bool weight = tmk_is_weight(tmk_value_source(observer->node->outputs[0]));
        run->slots[i] = (struct tmk_slot_config){
            .level = kind == TMK_OBSERVER_HISTOGRAM ? TMK_STATS_HISTOGRAM
                     : kind == TMK_OBSERVER_MINMAX  ? TMK_STATS_MINMAX
                                                    : TMK_STATS_RANGE,
            .guard = kind == TMK_OBSERVER_GUARD || run->options->statistics.fail_on_nan,
            .print = kind == TMK_OBSERVER_PRINT,
            .see = run->options->observe.call != NULL,
            .id = (uint32_t)observer->profile_id,
            .per_sample = run->options->statistics.per_sample,
            .topk = true,
            .exclude = run->excluded.bits,
            .n_exclude = weight ? 0 : run->excluded.n,
            .share = weight || kind != TMK_OBSERVER_HISTOGRAM ? 0 : share,
            .label = run->labels[i]};
    }
    if (run->options->statistics.exclude_padding)
        TMK_TRY(padding_seeds(run->graph, run->options->statistics.exclude_padding, &run->padding,
                              &run->mask, diag));
    /* places in a sample that runs again are ambiguous, and padding is elsewhere in a view */
    if (run->options->data.generate.steps || run->padding)
        return TMK_OK;
    return tmk_derive_rules(run->graph, run->observers, run->slots, run->n_slots, diag);
}

/* ---- what a run reports and requests ---- */

static void report_progress(void *context, uint64_t samples_done) {
    const struct tmk_running *run = context;
    const struct tmk_run_events *events = &run->options->events;
    struct tmk_team *team = run->options->team;
    uint64_t done = run->done + samples_done;
    if (events->waiting)
        events->waiting(events->context);
    if (!events->progress || tmk_team_rank(team) != 0)
        return;
    if (team) /* of all ranks; which batches those were does not matter */
        done = tmk_feed_share(run->feed, 0, tmk_feed_begin(run->feed, tmk_team_done(team)));
    events->progress(events->context, done, run->to_run);
}

static void fewer_threads(void *context, uint32_t missing, uint32_t wanted, int why) {
    const struct tmk_notices *notices = &((const struct tmk_running *)context)->options->notices;
    notices->fewer_threads(notices->context, TMK_THREADS_RUN, missing, wanted, strerror(why));
}

enum tmk_status tmk_running_goes_on(const struct tmk_run_events *events, struct tmk_diag *diag) {
    if (events->stop && events->stop(events->context))
        return tmk_fail(diag, TMK_INTERRUPTED, "stopped before the end, and nothing is written");
    return TMK_OK;
}

bool tmk_running_stops(void *of) {
    const struct tmk_run_events *events = of;
    if (events->waiting)
        events->waiting(events->context);
    return events->stop && events->stop(events->context);
}

static enum tmk_status check_stop(void *context, struct tmk_diag *diag) {
    return tmk_running_goes_on(&((const struct tmk_running *)context)->options->events, diag);
}

static enum tmk_status control_simple_run(void *context, bool *pause, struct tmk_diag *diag) {
    (void)pause;
    return check_stop(context, diag);
}

struct tmk_exec_options tmk_running_exec_options(struct tmk_running *run) {
    const struct tmk_run_options *options = run->options;
    const struct tmk_run_events *events = &options->events;
    return (struct tmk_exec_options){
        .threads = run->report.threads,
        .observe = {.slots = run->cuts.n ? run->unruled : run->slots,
                    .n_slots = run->n_slots,
                    .groups = tmk_feed_strata(run->feed),
                    .print = {events->print, events->context, options->observe.call,
                              options->observe.context},
                    .seeds = {run->padding, run->mask}},
        .control = {control_simple_run, check_stop, run},
        .progress = events->progress || events->waiting ? report_progress : NULL,
        .progress_context = run,
        .fewer_threads = options->notices.fewer_threads ? fewer_threads : NULL,
        .fewer_context = run,
        .max_iterations = options->limits.iterations,
        .timing = run->timing,
        .feedback = tmk_feed_recurrence(run->feed),
        .generation = tmk_feed_generation(run->feed),
        .cuts = run->cuts.n ? &run->cuts : NULL,
        .together = run->together};
}

/* ---- from graphs to a result ---- */

static enum tmk_status round_half(struct tmk_running *run, struct tmk_diag *diag) {
    uint32_t n;
    TMK_TRY(tmk_in(diag, tmk_round_half(run->graph, &n, diag), "%s", run->path));
    if (n == 0)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s has no float16 or bfloat16 values: there is nothing to round",
                        run->path);
    return TMK_OK;
}

enum tmk_status tmk_running_graph(struct tmk_running *run, const struct tmk_model *model,
                                  const struct tmk_observe *observe, struct tmk_diag *diag) {
    run->path = model->path;
    TMK_TRY(tmk_in(diag, tmk_feed_takes(model->graph, diag), "%s", model->path));
    if (observe && !observe->kind)
        TMK_TRY(tmk_original_watched(model, true, &run->original, &run->watched, diag));
    else
        TMK_TRY(tmk_original_to_run(model, observe ? &run->original : &run->graph, diag));
    if (observe) {
        TMK_TRY(tmk_in(diag, tmk_check_names(run->original, diag), "%s", model->path));
        TMK_TRY(tmk_show_inner(run->original, diag));
        TMK_TRY(tmk_in(diag, tmk_instrumented(run->original, observe, &run->graph, NULL, diag),
                       "%s", model->path));
    }
    if (run->options->round_half)
        TMK_TRY(round_half(run, diag));
    tmk_graph_number(run->graph);
    return configure_slots(run, diag);
}

struct tmk_memory_request tmk_running_memory(const struct tmk_running *run,
                                             const struct tmk_graph *graph) {
    return (struct tmk_memory_request){.path = run->path,
                                       .graph = graph,
                                       .options = run->options,
                                       .slots = run->slots,
                                       .unruled = run->unruled,
                                       .n_slots = run->n_slots,
                                       .threads = tmk_running_threads(&run->options->limits)};
}

enum tmk_status tmk_running_may_divide(struct tmk_running *run, struct tmk_diag *diag) {
    const struct tmk_run_options *options = run->options;
    const bool fed_back = options->data.recurrence.n_feedback || options->data.generate.steps;
    if (options->limits.stream_layers && (options->team || fed_back))
        return tmk_fail(diag, TMK_UNSUPPORTED, "layers can't be streamed %s",
                        fed_back ? "where outputs are fed back: a sample needs all of the network "
                                   "before the next can run"
                                 : "by several processes together: give each a shard");
    if (options->limits.stream_layers && options->statistics.histogram_share > 1)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "layers can't be streamed with thinned histograms: values that follow from "
                        "others would count other elements than in an ordinary run");
    if (options->team || fed_back || options->statistics.histogram_share > 1)
        return TMK_OK;
    run->unruled = calloc(run->n_slots + 1u, sizeof *run->unruled);
    TMK_TRY_ALLOC(run->unruled, diag);
    for (uint32_t i = 0; i < run->n_slots; i++) {
        run->unruled[i] = run->slots[i];
        tmk_slot_drop_rule(&run->unruled[i]);
    }
    return TMK_OK;
}

enum tmk_status tmk_running_open(struct tmk_running *run, const struct tmk_graph *graph,
                                 struct tmk_diag *diag) {
    const uint32_t threads = tmk_running_threads(&run->options->limits);
    run->report.threads = threads;
    if (run->options->limits.memory || run->options->limits.stream_layers) {
        const struct tmk_memory_request request = tmk_running_memory(run, graph);
        struct tmk_memory_plan plan;
        TMK_TRY(tmk_memory_planned(&request, &plan, &run->cuts, diag));
        run->together = plan.together;
        run->limited = *run->options;
        run->limited.data.batch = (uint32_t)plan.batch;
        run->options = &run->limited;
        run->report.threads = plan.threads;
    }
    TMK_TRY(tmk_feed_open_batched(graph, &run->options->data, threads, &run->options->notices,
                                  &run->feed, NULL, diag));
    run->to_run = tmk_feed_plan(run->feed).run;
    run->report.threads = tmk_feed_workers(run->feed, run->report.threads);
    return TMK_OK;
}

void tmk_running_note(struct tmk_running *run, double seconds) {
    const struct tmk_exec_result *result = &run->result;
    run->report.seconds += seconds;
    run->report.samples += result->samples;
    run->report.batches += result->batches;
    run->report.threads = result->workers;
    run->report.arena_bytes = result->figures.arena_bytes + result->figures.scratch_bytes;
}

enum tmk_status tmk_running_execute(struct tmk_running *run, struct tmk_graph *const *graphs,
                                    uint32_t n_graphs, const struct tmk_sink *sink,
                                    struct tmk_diag *diag) {
    const struct tmk_batch_source source = tmk_feed_batch_source(run->feed);
    struct tmk_exec_options options = tmk_running_exec_options(run);
    const double begin = tmk_running_now();
    if (sink)
        options.sink = *sink;
    enum tmk_status status = tmk_exec_run(graphs, n_graphs, &source, &options, &run->result, diag);
    if (status == TMK_OK)
        tmk_running_note(run, tmk_running_now() - begin);
    return run->path ? tmk_in(diag, status, "%s", run->path) : status;
}
