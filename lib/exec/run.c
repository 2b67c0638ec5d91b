/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/spare.h"
#include "exec/derive.h"
#include "exec/queue.h"
#include "exec/worker.h"
#include "stats/state.h"

enum { IDLE_PLANS_KEPT = 8, PROGRESS_MS = 200 };

void tmk_batch_finish(struct tmk_batch *batch) {
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        tmk_tensor_finish(&batch->inputs[i]);
    free(batch->inputs);
    *batch = (struct tmk_batch){0};
}

/* What all threads of a run share. */
struct run {
    const struct tmk_graph *graph;
    const struct tmk_feed *feed;
    const struct tmk_exec_options *options;
    struct tmk_queue *queue;
    struct tmk_cache *cache;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t samples, batches;
    uint32_t running; /* threads */
    uint32_t workers; /* of the leg at hand */
    bool told;        /* that threads are missing */
    enum tmk_status status;
    uint64_t failed_sample; /* of the earliest failing batch */
    struct tmk_diag diag;
};

struct crew {
    struct run *run;
    uint32_t number; /* among the workers */
    pthread_t thread;
    struct tmk_worker *worker;
    struct tmk_account *all;        /* [groups][n_slots] */
    struct tmk_exec_tally *tallies; /* [groups]: of batches that were begun */
    struct tmk_account *accounts;   /* of the group at hand */
    struct tmk_stats_at at;         /* of the batch at hand */
    struct tmk_timing timing;
    struct tmk_lane *lane; /* the sequence that it runs */
    struct tmk_carried carried;
};

/* Sequences are handed out in order, so whatever could fail earlier is at hand in some worker, or
 * waits for it: what comes before the failing sample is run to its end, and the earliest failure
 * wins. */
static void report(struct run *run, enum tmk_status status, uint64_t sample,
                   const struct tmk_diag *diag) {
    pthread_mutex_lock(&run->lock);
    if (run->status == TMK_OK || sample < run->failed_sample) {
        run->status = status;
        run->failed_sample = sample;
        run->diag = *diag;
    }
    pthread_mutex_unlock(&run->lock);
    tmk_queue_close(run->queue, sample == UINT64_MAX ? 0 : sample);
}

static void leave(struct run *run) {
    pthread_mutex_lock(&run->lock);
    run->running--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* False: there is no more. */
static bool load_one(struct run *run) {
    struct tmk_batch batch = {0};
    struct tmk_diag diag = {0};
    bool more = true, taken = false;
    enum tmk_status status = run->feed->next(run->feed->context, &batch, &more, &diag);
    if (status != TMK_OK)
        report(run, status, UINT64_MAX, &diag);
    if (status != TMK_OK || !more)
        return false;
    status = tmk_queue_push(run->queue, &batch, &taken, &diag);
    if (status != TMK_OK)
        report(run, status, UINT64_MAX, &diag);
    if (!taken)
        tmk_batch_finish(&batch);
    return taken;
}

static void *load(void *argument) {
    struct run *run = argument;
    while (load_one(run)) {
    }
    tmk_queue_close(run->queue, UINT64_MAX);
    leave(run);
    return NULL;
}

/* Where the batch at hand stands, for a tensor that lies so. */
static struct tmk_stats_at at_of(const struct crew *crew, int32_t channel_axis, uint32_t block) {
    struct tmk_stats_at at = crew->at;
    at.channel_axis = channel_axis;
    at.block = block;
    return at;
}

static void print(struct crew *crew, uint32_t slot, const struct tmk_tensor *tensor) {
    const struct tmk_exec_options *options = crew->run->options;
    if (!options->slots[slot].print || !options->print.print)
        return;
    pthread_mutex_lock(&crew->run->lock);
    options->print.print(options->print.context, options->slots[slot].label, crew->at.sample,
                         tensor);
    pthread_mutex_unlock(&crew->run->lock);
}

/* What nodes make of constants was made while planning. */
static void print_constants(struct crew *crew, const struct tmk_plan *plan) {
    for (uint32_t i = 0; i < plan->n_constant_taps; i++) {
        const struct tmk_plan_tap *tap = &plan->constant_taps[i];
        if (!plan->values[tap->value].initializer)
            print(crew, tap->slot, &plan->values[tap->value].constant);
    }
}

static enum tmk_status look(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                            int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct crew *crew = context;
    const struct tmk_exec_options *options = crew->run->options;
    if (tensor->kind !=
        TMK_TYPE_TENSOR) /* a sequence has no range, and what is absent none either */
        return TMK_OK;
    const struct tmk_slot_config *config = &options->slots[slot];
    const struct tmk_stats_at at = at_of(crew, channel_axis, block);
    print(crew, slot, tensor);
    if (config->see && options->print.see) {
        const struct tmk_sight sight = {crew->number, config->id, at.sample, at.samples, tensor};
        TMK_TRY(options->print.see(options->print.see_context, &sight, diag));
    }
    return tmk_derive_look(crew->accounts, options->slots, slot, tensor, &at, diag);
}

static enum tmk_status begin(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                             int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct crew *crew = context;
    const struct tmk_stats_at at = at_of(crew, channel_axis, block);
    return tmk_account_begin(&crew->accounts[slot], &crew->run->options->slots[slot], tensor, &at,
                             diag);
}

static enum tmk_status piece(void *context, uint32_t slot, const float *x, size_t first, size_t n,
                             struct tmk_diag *diag) {
    struct crew *crew = context;
    return tmk_account_piece(&crew->accounts[slot], &crew->run->options->slots[slot], x, first, n,
                             diag);
}

static enum tmk_status end(void *context, uint32_t slot, struct tmk_diag *diag) {
    struct crew *crew = context;
    return tmk_account_end(&crew->accounts[slot], &crew->run->options->slots[slot], diag);
}

static struct tmk_account *accounts_of(const struct tmk_exec_options *options,
                                       struct tmk_account *all, uint32_t group) {
    return all + (size_t)group * options->n_slots;
}

static enum tmk_status run_batch(struct crew *crew, const struct tmk_batch *batch,
                                 struct tmk_planned **held, struct tmk_diag *diag) {
    struct run *run = crew->run;
    struct tmk_planned *planned = NULL;
    const struct tmk_feedback *feedback = &run->options->feedback;
    if (batch->goes_on)
        tmk_carried_give(&crew->carried, feedback, batch->inputs);
    TMK_TRY(tmk_cache_get(run->cache, batch->inputs, &planned, diag));
    /* the old plan is held until the worker has entered the new one: it knows plans by address */
    struct tmk_planned *old = *held;
    *held = planned;
    crew->at = (struct tmk_stats_at){batch->sample, batch->samples, -1, false, 0};
    crew->accounts = accounts_of(run->options, crew->all, batch->group);
    crew->tallies[batch->group].samples += batch->samples;
    crew->tallies[batch->group].batches++;
    const struct tmk_watch watch = {look, begin, piece, end, crew};
    enum tmk_status status = tmk_worker_run(crew->worker, planned->plan, batch->inputs,
                                            run->options->observe ? &watch : NULL, diag);
    if (status == TMK_OK && run->options->observe)
        print_constants(crew, planned->plan);
    if (status == TMK_OK)
        status = tmk_carried_keep(&crew->carried, feedback, run->graph, crew->worker, diag);
    if (status == TMK_OK && run->options->observe)
        tmk_derive_note(crew->accounts, run->options->slots, run->options->n_slots, &crew->at);
    if (status == TMK_OK)
        tmk_cache_ran(run->cache, planned, batch->group, batch->sample, batch->samples);
    enum tmk_status released = tmk_cache_release(run->cache, old, diag);
    return status != TMK_OK ? status : released;
}

/* Waits for a batch and runs it; false: there is none, or it failed. */
static bool work_one(struct crew *crew, struct tmk_planned **held) {
    struct run *run = crew->run;
    struct tmk_batch batch;
    struct tmk_diag diag = {0};
    if (!tmk_queue_pop(run->queue, &crew->lane, &batch))
        return false;
    enum tmk_status status = run_batch(crew, &batch, held, &diag);
    uint64_t sample = batch.sample, samples = batch.samples;
    tmk_batch_finish(&batch);
    if (status != TMK_OK) {
        status = samples > 1
                     ? tmk_in(&diag, status, "samples %llu to %llu", (unsigned long long)sample,
                              (unsigned long long)(sample + samples - 1))
                     : tmk_in(&diag, status, "sample %llu", (unsigned long long)sample);
        report(run, status, sample, &diag);
        return false;
    }
    pthread_mutex_lock(&run->lock);
    run->samples += samples;
    run->batches++;
    pthread_mutex_unlock(&run->lock);
    return true;
}

/* While others still work: what was counted takes its last form, which is quick to add up. */
static enum tmk_status settle(struct crew *crew, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = crew->run->options;
    for (uint32_t g = 0; g < options->groups; g++) {
        struct tmk_account *accounts = accounts_of(options, crew->all, g);
        for (uint32_t s = 0; crew->tallies[g].batches && s < options->n_slots; s++)
            if (accounts[s].floats)
                TMK_TRY(tmk_stats_settle(accounts[s].floats, diag));
    }
    return TMK_OK;
}

static void end_work(struct crew *crew, struct tmk_planned *held) {
    struct tmk_diag diag = {0};
    if (settle(crew, &diag) != TMK_OK)
        report(crew->run, diag.status, UINT64_MAX, &diag);
    tmk_worker_forget(crew->worker); /* between legs a plan may go, and another take its address */
    if (tmk_cache_release(crew->run->cache, held, &diag) != TMK_OK)
        report(crew->run, diag.status, UINT64_MAX, &diag);
    leave(crew->run);
}

static void *work(void *argument) {
    struct crew *crew = argument;
    struct tmk_planned *held = NULL;
    tmk_kernel_enter_thread();
    while (work_one(crew, &held)) {
    }
    end_work(crew, held);
    return NULL;
}

/* Loads and works in turn, which a queue without other threads never makes wait. */
static void load_and_work(struct run *run, struct crew *crew) {
    const struct tmk_exec_options *options = run->options;
    struct tmk_planned *held = NULL;
    tmk_kernel_enter_thread();
    while (load_one(run) && work_one(crew, &held))
        if (options->progress)
            options->progress(options->progress_context, run->samples);
    tmk_queue_close(run->queue, UINT64_MAX);
    (void)work_one(crew, &held); /* nothing is left: it lets go of its sequence */
    end_work(crew, held);
}

/* ---- threads ---- */

static void enter(struct run *run) {
    pthread_mutex_lock(&run->lock);
    run->running++;
    pthread_mutex_unlock(&run->lock);
}

/* An errno, 0 where it runs. */
static int start(struct run *run, pthread_t *thread, void *(*main)(void *), void *argument) {
    enter(run);
    int error = pthread_create(thread, NULL, main, argument);
    if (error)
        leave(run);
    return error;
}

static void wait_for_all(struct run *run) {
    const struct tmk_exec_options *options = run->options;
    pthread_mutex_lock(&run->lock);
    while (run->running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        int woken = pthread_cond_timedwait(&run->changed, &run->lock, &until);
        uint64_t samples = run->samples;
        if (woken == ETIMEDOUT && options->progress) {
            pthread_mutex_unlock(&run->lock);
            options->progress(options->progress_context, samples);
            pthread_mutex_lock(&run->lock);
        }
    }
    pthread_mutex_unlock(&run->lock);
}

static void tell_of_missing(struct run *run, uint32_t missing, int why) {
    const struct tmk_exec_options *options = run->options;
    if (missing && !run->told && options->fewer_threads)
        options->fewer_threads(options->fewer_context, missing, options->threads + 1, why);
    run->told |= missing > 0;
}

/* What no thread could be started for, the calling one does. */
static void stand_in(struct run *run, struct crew *crew, bool loading, uint32_t working) {
    if (!loading || !working)
        enter(run);
    if (!loading && !working)
        load_and_work(run, crew);
    else if (!loading)
        load(run);
    else if (!working)
        work(crew);
}

static void run_all(struct run *run, struct crew *crew) {
    const struct tmk_exec_options *options = run->options;
    uint32_t n = options->threads, started = 0;
    int error = 0, why;
    pthread_t loader;
    if (options->progress) /* whoever tells a rate begins to count now */
        options->progress(options->progress_context, run->samples);
    why = start(run, &loader, load, run);
    const bool loading = !why;
    while (started < n && (error = start(run, &crew[started].thread, work, &crew[started])) == 0)
        started++;
    why = started < n ? error : why;
    tell_of_missing(run, n - started + !loading, why);
    run->workers = started ? started : 1;
    stand_in(run, crew, loading, started);
    wait_for_all(run);
    if (loading)
        pthread_join(loader, NULL);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(crew[i].thread, NULL);
}

/* Empty accounts and tallies of all groups. */
static enum tmk_status open_books(const struct tmk_exec_options *options,
                                  struct tmk_account **accounts, struct tmk_exec_tally **tallies,
                                  struct tmk_diag *diag) {
    size_t n;
    if (!tmk_mul_size(options->groups, options->n_slots, &n))
        return tmk_nomem(diag);
    struct tmk_account *empty = calloc(n + 1, sizeof *empty);
    struct tmk_exec_tally *zero = calloc(options->groups, sizeof *zero);
    if (!empty || !zero) {
        free(empty);
        free(zero);
        return tmk_nomem(diag);
    }
    *accounts = empty;
    *tallies = zero;
    return TMK_OK;
}

/* Accounts of groups that never ran are memory that was never touched, and stays so. */
static void close_books(uint32_t groups, uint32_t n_slots, struct tmk_account *accounts,
                        struct tmk_exec_tally *tallies) {
    for (uint32_t g = 0; tallies && g < groups; g++)
        for (uint32_t s = 0; tallies[g].batches && s < n_slots; s++)
            tmk_account_finish(&accounts[(size_t)g * n_slots + s]);
    free(accounts);
    free(tallies);
}

static enum tmk_status hire(struct run *run, struct crew *crew, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = run->options;
    for (uint32_t i = 0; i < options->threads; i++) {
        crew[i].run = run;
        crew[i].number = i;
        TMK_TRY(open_books(options, &crew[i].all, &crew[i].tallies, diag));
        TMK_TRY(tmk_worker_create(&crew[i].worker, diag));
        tmk_worker_limit(crew[i].worker, options->max_iterations);
        tmk_worker_time(crew[i].worker, options->timing ? &crew[i].timing : NULL);
    }
    return TMK_OK;
}

/* A group's accounts of everybody into the first's, the constants into those. */
static enum tmk_status add_up_group(struct run *run, struct crew *crew, uint32_t group,
                                    struct tmk_diag *diag) {
    const struct tmk_exec_options *options = run->options;
    struct tmk_account *sum = accounts_of(options, crew[0].all, group);
    struct tmk_exec_tally *tally = &crew[0].tallies[group];
    for (uint32_t i = 1; i < options->threads; i++) {
        struct tmk_account *accounts = accounts_of(options, crew[i].all, group);
        struct tmk_exec_tally *more = &crew[i].tallies[group];
        for (uint32_t s = 0; more->batches && s < options->n_slots; s++) {
            TMK_TRY(tmk_account_merge(&sum[s], &accounts[s], 1, &options->slots[s], diag));
            tmk_account_finish(&accounts[s]);
        }
        tally->samples += more->samples;
        tally->batches += more->batches;
        *more = (struct tmk_exec_tally){0};
    }
    if (!options->observe || !tally->batches)
        return TMK_OK;
    TMK_TRY(tmk_derive_all(sum, options->slots, options->n_slots, diag));
    return tmk_cache_settle(run->cache, group, sum, diag);
}

static enum tmk_status add_up(struct run *run, struct crew *crew, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = run->options;
    for (uint32_t i = 1; i < options->threads; i++) {
        TMK_TRY(tmk_timing_merge(&crew[0].timing, &crew[i].timing, diag));
        tmk_timing_finish(&crew[i].timing);
    }
    for (uint32_t g = 0; g < options->groups; g++)
        TMK_TRY(add_up_group(run, crew, g, diag));
    return TMK_OK;
}

/* What was counted becomes the caller's; the crew begins anew. */
static enum tmk_status hand_over(struct run *run, struct crew *first, uint64_t samples,
                                 uint64_t batches, struct tmk_exec_result *out,
                                 struct tmk_diag *diag) {
    struct tmk_account *accounts;
    struct tmk_exec_tally *tallies;
    TMK_TRY(open_books(run->options, &accounts, &tallies, diag));
    *out = (struct tmk_exec_result){.accounts = first->all,
                                    .n_slots = run->options->n_slots,
                                    .n_groups = run->options->groups,
                                    .tallies = first->tallies,
                                    .samples = samples,
                                    .batches = batches,
                                    .workers = run->workers,
                                    .figures = tmk_cache_figures(run->cache),
                                    .timing = first->timing};
    first->all = accounts;
    first->tallies = tallies;
    first->timing = (struct tmk_timing){0};
    return TMK_OK;
}

static void dismiss(const struct tmk_exec_options *options, struct crew *crew) {
    for (uint32_t i = 0; crew && i < options->threads; i++) {
        close_books(options->groups, options->n_slots, crew[i].all, crew[i].tallies);
        tmk_timing_finish(&crew[i].timing);
        tmk_carried_finish(&crew[i].carried, &options->feedback);
        tmk_worker_destroy(&crew[i].worker);
    }
    free(crew);
}

struct tmk_exec {
    struct tmk_exec_options options;
    struct run run;
    struct crew *crew;
};

enum tmk_status tmk_exec_open(const struct tmk_graph *graph, const struct tmk_exec_options *options,
                              struct tmk_exec **out, struct tmk_diag *diag) {
    struct tmk_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return tmk_nomem(diag);
    exec->options = *options;
    exec->options.groups = options->groups ? options->groups : 1;
    exec->run.graph = graph;
    exec->run.options = &exec->options;
    pthread_mutex_init(&exec->run.lock, NULL);
    pthread_cond_init(&exec->run.changed, NULL);
    exec->crew = calloc(options->threads, sizeof *exec->crew);
    enum tmk_status status = exec->crew ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK)
        status = hire(&exec->run, exec->crew, diag);
    if (status == TMK_OK)
        status = tmk_cache_create(graph, options->slots, options->n_slots, exec->options.groups,
                                  IDLE_PLANS_KEPT, &exec->run.cache, diag);
    if (status == TMK_OK)
        *out = exec;
    else
        tmk_exec_close(&exec);
    return status;
}

void tmk_exec_close(struct tmk_exec **slot) {
    struct tmk_exec *exec = slot ? *slot : NULL;
    if (!exec)
        return;
    *slot = NULL;
    dismiss(&exec->options, exec->crew);
    (void)tmk_spare_drop();
    tmk_cache_destroy(&exec->run.cache);
    pthread_cond_destroy(&exec->run.changed);
    pthread_mutex_destroy(&exec->run.lock);
    free(exec);
}

enum tmk_status tmk_exec_leg(struct tmk_exec *exec, const struct tmk_feed *feed,
                             struct tmk_exec_result *out, struct tmk_diag *diag) {
    struct run *run = &exec->run;
    uint64_t samples = run->samples, batches = run->batches;
    TMK_TRY(tmk_queue_create(2 * exec->options.threads, &run->queue, diag));
    run->feed = feed;
    run_all(run, exec->crew);
    tmk_queue_destroy(&run->queue);
    if (run->status != TMK_OK)
        return tmk_fail(diag, run->status, "%s", run->diag.text);
    TMK_TRY(add_up(run, exec->crew, diag));
    return hand_over(run, &exec->crew[0], run->samples - samples, run->batches - batches, out,
                     diag);
}

enum tmk_status tmk_exec_run(const struct tmk_graph *graph, const struct tmk_feed *feed,
                             const struct tmk_exec_options *options, struct tmk_exec_result *out,
                             struct tmk_diag *diag) {
    struct tmk_exec *exec;
    TMK_TRY(tmk_exec_open(graph, options, &exec, diag));
    enum tmk_status status = tmk_exec_leg(exec, feed, out, diag);
    tmk_exec_close(&exec);
    return status;
}

void tmk_exec_result_finish(struct tmk_exec_result *result) {
    close_books(result->n_groups, result->n_slots, result->accounts, result->tallies);
    tmk_timing_finish(&result->timing);
    *result = (struct tmk_exec_result){0};
}
