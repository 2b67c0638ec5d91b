/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/diag.h"
#include "base/memory.h"
#include "exec/batch_set.h"
#include "exec/queue.h"
#include "exec/sink.h"

enum { PROGRESS_MS = 200, MOST_SINKS = 2 };

void tmk_batch_finish(struct tmk_batch *batch) {
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        tmk_tensor_finish(&batch->inputs[i]);
    free(batch->inputs);
    *batch = (struct tmk_batch){0};
}

/* One worker thread of a run. */
struct runner {
    struct tmk_exec *exec;
    uint32_t number;
    pthread_t thread;
    struct tmk_worker **workers;  /* [n_graphs] */
    struct tmk_planned **planned; /* [n_graphs]: that a worker runs */
    struct tmk_timing timing;
    struct tmk_queued_sequence *sequence; /* that it runs */
    struct tmk_loop_state carried;
};

struct tmk_exec {
    struct tmk_exec_options options;
    struct tmk_graph *const *graphs;
    uint32_t n_graphs;
    struct tmk_statistics *statistics;
    struct tmk_sink sinks[MOST_SINKS];
    uint32_t n_sinks;
    struct tmk_order order; /* of the records of options.sink */
    struct tmk_cache **caches;
    struct runner *runners;
    const struct tmk_batch_source *source; /* of the segment */
    struct tmk_batch_set *set;             /* batches that go through blocks; NULL: none do */
    struct tmk_queue *queue;
    uint64_t place; /* of the next batch; the loader's */
    bool paused;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t samples, batches;
    uint32_t running; /* threads */
    uint32_t workers; /* of the segment */
    bool reported;    /* that threads are missing */
    atomic_bool stop; /* workers, in the middle of their batches */
    enum tmk_status status;
    uint64_t failed_sample; /* of the earliest failing batch */
    struct tmk_diag diag;
};

/* Sequences are assigned in order, so whatever could fail earlier is at hand in some worker, or
 * waits for it: what comes before the failing sample is run to its end, and the earliest failure
 * wins. UINT64_MAX: what fails is not in a batch, or is behind all that wait. */
static void report_failure(struct tmk_exec *exec, enum tmk_status status, uint64_t sample,
                           const struct tmk_diag *diag) {
    pthread_mutex_lock(&exec->lock);
    if (exec->status == TMK_OK || sample < exec->failed_sample) {
        exec->status = status;
        exec->failed_sample = sample;
        exec->diag = *diag;
    }
    pthread_mutex_unlock(&exec->lock);
    tmk_batch_set_stop(exec->set);
    tmk_queue_close(exec->queue, status == TMK_INTERRUPTED ? 0 : sample);
}

static void report_batch(struct tmk_exec *exec, enum tmk_status status,
                         const struct tmk_batch *batch, struct tmk_diag *diag) {
    const unsigned long long first = batch->sample, last = batch->sample + batch->samples - 1;
    if (status == TMK_INTERRUPTED) {
        report_failure(exec, status, UINT64_MAX, diag);
        return;
    }
    status = batch->label   ? tmk_in(diag, status, "%s", batch->label)
             : first < last ? tmk_in(diag, status, "samples %llu to %llu", first, last)
                            : tmk_in(diag, status, "sample %llu", first);
    report_failure(exec, status, batch->sample, diag);
}

static void end_thread(struct tmk_exec *exec) {
    pthread_mutex_lock(&exec->lock);
    exec->running--;
    pthread_cond_broadcast(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
}

/* ---- loading ---- */

static enum tmk_status next_batch(void *context, struct tmk_batch *batch, bool *more,
                                  struct tmk_diag *diag) {
    struct tmk_exec *exec = context;
    const struct tmk_control *control = &exec->options.control;
    *more = true;
    while (*more && !batch->samples) {
        if (control->decide && !exec->paused)
            TMK_TRY(control->decide(control->context, &exec->paused, diag));
        *more = !exec->paused;
        if (*more)
            TMK_TRY(exec->source->next(exec->source->context, batch, more, diag));
    }
    return TMK_OK;
}

/* Of a run in blocks. Batches that run together run to the end before the run pauses. */
static enum tmk_status next_part(struct tmk_exec *exec, struct tmk_batch *batch, bool *more,
                                 struct tmk_diag *diag) {
    const struct tmk_control *control = &exec->options.control;
    if (control->decide && !exec->paused && !tmk_batch_set_loads(exec->set))
        TMK_TRY(control->decide(control->context, &exec->paused, diag));
    return tmk_batch_set_next(exec->set, next_batch, exec, batch, more, diag);
}

/* False: there is no more. */
static bool load_one(struct tmk_exec *exec) {
    struct tmk_batch batch = {0};
    struct tmk_diag diag = {0};
    bool more = true, taken = false;
    enum tmk_status status =
        exec->set ? next_part(exec, &batch, &more, &diag) : next_batch(exec, &batch, &more, &diag);
    if (status == TMK_OK && more) {
        batch.place = exec->place++;
        status = tmk_queue_push(exec->queue, &batch, &taken, &diag);
        if (!taken)
            tmk_batch_finish(&batch);
    }
    if (status != TMK_OK)
        report_failure(exec, status, UINT64_MAX, &diag);
    return taken;
}

static void *load_batches(void *argument) {
    struct tmk_exec *exec = argument;
    while (load_one(exec)) {
    }
    tmk_queue_close(exec->queue, UINT64_MAX);
    end_thread(exec);
    return NULL;
}

/* ---- a batch ---- */

static enum tmk_status run_graph(struct runner *r, uint32_t graph, const struct tmk_batch *batch,
                                 const struct tmk_watch *watch, struct tmk_diag *diag) {
    struct tmk_cache *cache = r->exec->caches[graph];
    struct tmk_planned *planned = NULL, *old = r->planned[graph];
    TMK_TRY(tmk_cache_get(cache, batch->inputs, &planned, diag));
    /* the old plan is held until the worker has entered the new one: it knows plans by address */
    r->planned[graph] = planned;
    enum tmk_status status = TMK_OK;
    if (planned->blocks)
        status = tmk_cache_load(cache, planned, batch->part.block, diag);
    TMK_THEN(status,
             planned->blocks
                 ? tmk_worker_run_block(r->workers[graph], planned->plan, planned->blocks,
                                        &batch->part, batch->inputs, watch, diag)
                 : tmk_worker_run(r->workers[graph], planned->plan, batch->inputs, watch, diag));
    if (status == TMK_OK && !batch->part.more)
        tmk_cache_ran(cache, planned, batch->group, batch->sample, batch->samples, batch->again);
    enum tmk_status released = tmk_cache_release(cache, old, diag);
    return status != TMK_OK ? status : released;
}

/* The watch of the first sink that has one. */
static const struct tmk_watch *watch_batch(struct runner *r, const struct tmk_batch *batch) {
    const struct tmk_watch *watch = NULL;
    for (uint32_t i = 0; i < r->exec->n_sinks; i++) {
        const struct tmk_sink *sink = &r->exec->sinks[i];
        const struct tmk_watch *own =
            sink->watch ? sink->watch(sink->context, r->number, batch) : NULL;
        watch = watch ? watch : own;
    }
    return watch;
}

static enum tmk_status end_batch_in_sinks(struct runner *r, const struct tmk_batch *batch,
                                          struct tmk_diag *diag) {
    const struct tmk_ran ran = {r->number, batch, r->workers, r->planned[0]->plan};
    for (uint32_t i = 0; i < r->exec->n_sinks; i++) {
        const struct tmk_sink *sink = &r->exec->sinks[i];
        if (sink->end)
            TMK_TRY(sink->end(sink->context, &ran, diag));
    }
    return TMK_OK;
}

static enum tmk_status run_step(struct runner *r, const struct tmk_batch *batch,
                                struct tmk_diag *diag) {
    struct tmk_exec *exec = r->exec;
    const struct tmk_watch *watch = watch_batch(r, batch);
    for (uint32_t g = 0; g < exec->n_graphs; g++)
        TMK_TRY(run_graph(r, g, batch, g ? NULL : watch, diag));
    TMK_TRY(tmk_loop_state_store(&r->carried, &exec->options.feedback, exec->graphs[0],
                                 r->workers[0], diag));
    return batch->part.more ? TMK_OK : end_batch_in_sinks(r, batch, diag);
}

/* The inputs of the next step that the batch generates. */
static enum tmk_status next_step(struct runner *r, struct tmk_batch *batch, bool **stopped,
                                 bool *more, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = &r->exec->options;
    if (options->control.between_steps)
        TMK_TRY(options->control.between_steps(options->control.context, diag));
    TMK_TRY(tmk_generation_step(&options->generation, r->exec->graphs[0], r->workers[0],
                                batch->inputs, stopped, more, diag));
    for (uint32_t i = 0; i < options->feedback.n; i++)
        tmk_tensor_finish(&batch->inputs[options->feedback.loops[i].input]);
    tmk_loop_state_load(&r->carried, &options->feedback, batch->inputs);
    batch->again = true;
    return TMK_OK;
}

static enum tmk_status run_batch(struct runner *r, struct tmk_batch *batch, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = &r->exec->options;
    bool *stopped = NULL, more = true;
    if (batch->continues_sequence)
        tmk_loop_state_load(&r->carried, &options->feedback, batch->inputs);
    else
        tmk_loop_state_finish(&r->carried, &options->feedback);
    enum tmk_status status = run_step(r, batch, diag);
    for (uint32_t i = 0; status == TMK_OK && more && i < options->generation.steps; i++) {
        status = next_step(r, batch, &stopped, &more, diag);
        if (status == TMK_OK && more)
            status = run_step(r, batch, diag);
    }
    free(stopped);
    return status;
}

/* A failure may be that of an earlier batch, whose record was waiting. */
static enum tmk_status record_batch(struct runner *r, const struct tmk_batch *batch,
                                    struct tmk_batch *failed, struct tmk_diag *diag) {
    const struct tmk_ran ran = {r->number, batch, r->workers, r->planned[0]->plan};
    return r->exec->options.sink.record ? tmk_order_add(&r->exec->order, &ran, failed, diag)
                                        : TMK_OK;
}

/* Waits for a batch and runs it; false: there is none, or it failed. */
static bool work_one(struct runner *r) {
    struct tmk_exec *exec = r->exec;
    struct tmk_batch batch, failed;
    struct tmk_diag diag = {0};
    if (!tmk_queue_pop(exec->queue, &r->sequence, &batch))
        return false;
    failed = batch;
    enum tmk_status status = run_batch(r, &batch, &diag);
    if (status == TMK_OK && !batch.part.more)
        status = record_batch(r, &batch, &failed, &diag);
    if (status != TMK_OK)
        report_batch(exec, status, &failed, &diag);
    const bool done = status == TMK_OK && !batch.part.more;
    pthread_mutex_lock(&exec->lock);
    exec->samples += done ? batch.samples : 0;
    exec->batches += done;
    pthread_mutex_unlock(&exec->lock);
    if (exec->set)
        tmk_batch_set_ran(exec->set);
    tmk_batch_finish(&batch);
    return status == TMK_OK;
}

static void end_work(struct runner *r) {
    struct tmk_exec *exec = r->exec;
    struct tmk_diag diag = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < exec->n_sinks; i++)
        if (exec->sinks[i].leave)
            status = exec->sinks[i].leave(exec->sinks[i].context, r->number, &diag);
    for (uint32_t g = 0; g < exec->n_graphs; g++) {
        /* between segments a plan may go, and another take its address */
        tmk_worker_forget(r->workers[g]);
        enum tmk_status released = tmk_cache_release(exec->caches[g], r->planned[g], &diag);
        status = status != TMK_OK ? status : released;
        r->planned[g] = NULL;
    }
    if (status != TMK_OK)
        report_failure(exec, status, UINT64_MAX, &diag);
    end_thread(exec);
}

static bool enter_thread(struct tmk_exec *exec) {
    struct tmk_diag diag = {0};
    if (tmk_kernel_enter_thread())
        return true;
    report_failure(exec, tmk_nomem(&diag), UINT64_MAX, &diag);
    return false;
}

static void *run_worker(void *argument) {
    struct runner *r = argument;
    if (enter_thread(r->exec))
        while (work_one(r)) {
        }
    end_work(r);
    return NULL;
}

/* Loads and works in turn, which a queue without other threads never makes wait. */
static void load_and_work(struct tmk_exec *exec, struct runner *r) {
    if (enter_thread(exec))
        while (load_one(exec) && work_one(r))
            if (exec->options.progress)
                exec->options.progress(exec->options.progress_context, exec->samples);
    tmk_queue_close(exec->queue, UINT64_MAX);
    (void)work_one(r); /* nothing is left: it lets go of its sequence */
    end_work(r);
}

/* ---- threads ---- */

static void begin_thread(struct tmk_exec *exec) {
    pthread_mutex_lock(&exec->lock);
    exec->running++;
    pthread_mutex_unlock(&exec->lock);
}

/* An errno, 0 where it runs. */
static int start_thread(struct tmk_exec *exec, pthread_t *thread, void *(*main)(void *),
                        void *argument) {
    begin_thread(exec);
    int error = pthread_create(thread, NULL, main, argument);
    if (error)
        end_thread(exec);
    return error;
}

/* By the thread that called, now and then. */
static void look_around(struct tmk_exec *exec, uint64_t samples) {
    const struct tmk_exec_options *options = &exec->options;
    const struct tmk_control *control = &options->control;
    struct tmk_diag diag = {0};
    if (options->progress)
        options->progress(options->progress_context, samples);
    if (!control->between_steps || atomic_load(&exec->stop))
        return;
    const enum tmk_status status = control->between_steps(control->context, &diag);
    if (status != TMK_OK) {
        report_failure(exec, status, UINT64_MAX, &diag);
        atomic_store(&exec->stop, true);
    }
}

static void wait_for_all(struct tmk_exec *exec) {
    pthread_mutex_lock(&exec->lock);
    while (exec->running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        int woken = pthread_cond_timedwait(&exec->changed, &exec->lock, &until);
        uint64_t samples = exec->samples;
        if (woken == ETIMEDOUT) {
            pthread_mutex_unlock(&exec->lock);
            look_around(exec, samples);
            pthread_mutex_lock(&exec->lock);
        }
    }
    pthread_mutex_unlock(&exec->lock);
}

static void report_missing(struct tmk_exec *exec, uint32_t missing, int why) {
    const struct tmk_exec_options *options = &exec->options;
    if (missing && !exec->reported && options->fewer_threads)
        options->fewer_threads(options->fewer_context, missing, options->threads + 1, why);
    exec->reported |= missing > 0;
}

/* What no thread could be started for, the calling one does. */
static void stand_in(struct tmk_exec *exec, bool loading, uint32_t working) {
    if (!loading || !working)
        begin_thread(exec);
    if (!loading && !working)
        load_and_work(exec, exec->runners);
    else if (!loading)
        load_batches(exec);
    else if (!working)
        run_worker(exec->runners);
}

static void run_threads(struct tmk_exec *exec) {
    const struct tmk_exec_options *options = &exec->options;
    uint32_t n = options->threads, started = 0;
    int error = 0, why;
    pthread_t loader;
    if (options->progress) /* a caller that shows a rate begins to count now */
        options->progress(options->progress_context, exec->samples);
    why = start_thread(exec, &loader, load_batches, exec);
    const bool loading = !why;
    while (started < n && (error = start_thread(exec, &exec->runners[started].thread, run_worker,
                                                &exec->runners[started])) == 0)
        started++;
    why = started < n ? error : why;
    report_missing(exec, n - started + !loading, why);
    exec->workers = started ? started : 1;
    stand_in(exec, loading, started);
    wait_for_all(exec);
    if (loading)
        pthread_join(loader, NULL);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(exec->runners[i].thread, NULL);
    if (options->progress && exec->status == TMK_OK)
        options->progress(options->progress_context, exec->samples);
}

/* ---- setting up ---- */

static enum tmk_status create_runner(struct tmk_exec *exec, uint32_t i, struct tmk_diag *diag) {
    struct runner *r = &exec->runners[i];
    r->exec = exec;
    r->number = i;
    r->workers = calloc(exec->n_graphs, sizeof(struct tmk_worker *));
    r->planned = calloc(exec->n_graphs, sizeof(struct tmk_planned *));
    TMK_TRY_ALLOC(r->workers && r->planned, diag);
    for (uint32_t g = 0; g < exec->n_graphs; g++) {
        TMK_TRY(tmk_worker_create(&r->workers[g], diag));
        tmk_worker_limit(r->workers[g], exec->options.max_iterations);
        tmk_worker_heed(r->workers[g], &exec->stop);
        tmk_worker_time(r->workers[g], exec->options.timing ? &r->timing : NULL);
    }
    return TMK_OK;
}

static void destroy_runner(struct tmk_exec *exec, struct runner *r) {
    for (uint32_t g = 0; r->workers && g < exec->n_graphs; g++)
        tmk_worker_destroy(&r->workers[g]);
    free(r->workers);
    free(r->planned);
    tmk_timing_finish(&r->timing);
    tmk_loop_state_finish(&r->carried, &exec->options.feedback);
}

static enum tmk_status create_caches(struct tmk_exec *exec, struct tmk_diag *diag) {
    const struct tmk_statistics_config *observe = &exec->options.observe;
    exec->caches = calloc(exec->n_graphs, sizeof(struct tmk_cache *));
    TMK_TRY_ALLOC(exec->caches, diag);
    for (uint32_t g = 0; g < exec->n_graphs; g++)
        TMK_TRY(tmk_cache_create(exec->graphs[g], g ? NULL : observe->slots,
                                 g ? 0 : observe->n_slots, observe->groups, TMK_IDLE_PLANS,
                                 &observe->seeds, exec->options.cuts, &exec->caches[g], diag));
    return TMK_OK;
}

static enum tmk_status set_up(struct tmk_exec *exec, struct tmk_diag *diag) {
    const struct tmk_exec_options *options = &exec->options;
    TMK_TRY(tmk_statistics_create(&options->observe, options->threads, &exec->statistics, diag));
    exec->sinks[exec->n_sinks++] = tmk_statistics_sink(exec->statistics);
    exec->sinks[exec->n_sinks++] = options->sink;
    exec->runners = calloc(options->threads, sizeof *exec->runners);
    TMK_TRY_ALLOC(exec->runners, diag);
    for (uint32_t i = 0; i < options->threads; i++)
        TMK_TRY(create_runner(exec, i, diag));
    if (options->cuts)
        TMK_TRY(tmk_batch_set_create(options->cuts->n, options->together, &exec->set, diag));
    return create_caches(exec, diag);
}

enum tmk_status tmk_exec_open(struct tmk_graph *const *graphs, uint32_t n_graphs,
                              const struct tmk_exec_options *options, struct tmk_exec **out,
                              struct tmk_diag *diag) {
    if ((options->feedback.n || options->generation.steps) && n_graphs > 1)
        return tmk_fail(diag, TMK_UNSUPPORTED, "outputs can't be fed back here");
    struct tmk_exec *exec = calloc(1, sizeof *exec);
    TMK_TRY_ALLOC(exec, diag);
    exec->options = *options;
    exec->options.observe.groups = options->observe.groups ? options->observe.groups : 1;
    exec->graphs = graphs;
    exec->n_graphs = n_graphs;
    pthread_mutex_init(&exec->lock, NULL);
    pthread_cond_init(&exec->changed, NULL);
    tmk_order_init(&exec->order, &exec->options.sink);
    enum tmk_status status = set_up(exec, diag);
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
    for (uint32_t i = 0; exec->runners && i < exec->options.threads; i++)
        destroy_runner(exec, &exec->runners[i]);
    free(exec->runners);
    (void)tmk_spare_drop();
    for (uint32_t g = 0; exec->caches && g < exec->n_graphs; g++)
        tmk_cache_destroy(&exec->caches[g]);
    free(exec->caches);
    tmk_batch_set_destroy(&exec->set);
    tmk_statistics_destroy(&exec->statistics);
    tmk_order_finish(&exec->order);
    pthread_cond_destroy(&exec->changed);
    pthread_mutex_destroy(&exec->lock);
    free(exec);
    tmk_memory_trim();
}

/* What was counted and measured becomes the caller's. */
static enum tmk_status take_result(struct tmk_exec *exec, struct tmk_exec_result *out,
                                   struct tmk_diag *diag) {
    struct tmk_timing *timing = &exec->runners[0].timing;
    for (uint32_t i = 1; i < exec->options.threads; i++) {
        TMK_TRY(tmk_timing_merge(timing, &exec->runners[i].timing, diag));
        tmk_timing_finish(&exec->runners[i].timing);
    }
    TMK_TRY(tmk_statistics_take(exec->statistics, exec->caches[0], &out->counted, diag));
    out->timing = *timing;
    *timing = (struct tmk_timing){0};
    out->workers = exec->workers;
    out->paused = exec->paused;
    out->figures = tmk_cache_figures(exec->caches[0]);
    return TMK_OK;
}

enum tmk_status tmk_exec_segment(struct tmk_exec *exec, const struct tmk_batch_source *source,
                                 struct tmk_exec_result *out, struct tmk_diag *diag) {
    struct tmk_exec_result result = {0};
    const uint64_t samples = exec->samples, batches = exec->batches;
    /* a run that pauses runs what waits, which takes long where each batch has many steps */
    const uint32_t ahead = exec->options.generation.steps ? 1 : 2 * exec->options.threads;
    TMK_TRY(tmk_queue_create(ahead, &exec->queue, diag));
    exec->source = source;
    exec->paused = false;
    run_threads(exec);
    tmk_queue_destroy(&exec->queue);
    if (exec->status != TMK_OK)
        return tmk_fail(diag, exec->status, "%s", exec->diag.text);
    TMK_TRY(take_result(exec, &result, diag));
    result.samples = exec->samples - samples;
    result.batches = exec->batches - batches;
    *out = result;
    return TMK_OK;
}

enum tmk_status tmk_exec_run(struct tmk_graph *const *graphs, uint32_t n_graphs,
                             const struct tmk_batch_source *source,
                             const struct tmk_exec_options *options, struct tmk_exec_result *out,
                             struct tmk_diag *diag) {
    struct tmk_exec *exec;
    TMK_TRY(tmk_exec_open(graphs, n_graphs, options, &exec, diag));
    enum tmk_status status = tmk_exec_segment(exec, source, out, diag);
    tmk_exec_close(&exec);
    return status;
}

void tmk_exec_result_finish(struct tmk_exec_result *result) {
    tmk_counted_finish(&result->counted);
    tmk_timing_finish(&result->timing);
    *result = (struct tmk_exec_result){0};
}
