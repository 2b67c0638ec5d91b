/* SPDX-License-Identifier: Apache-2.0 */
#include "session/beside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "exec/cache.h"
#include "exec/feedback.h"
#include "session/feed.h"
#include "session/limits.h"
#include "session/running.h"

enum { IDLE_PLANS_KEPT = 4, MOST_THREADS = 256 };

/* A run: workers take batches in turn, and give back what they saw in the same order. */
struct side {
    struct tmk_beside *beside;
    const struct tmk_run_options *options;
    struct tmk_session_feed *feed;
    struct tmk_feed batches;
    struct tmk_feedback feedback;
    struct tmk_cache **caches; /* one a lane */
    uint64_t total;
    pthread_mutex_t taking, giving;
    pthread_cond_t given;
    uint64_t taken, merged; /* batches */
    bool over;              /* nothing more is to be taken */
    enum tmk_status status; /* of the earliest batch that failed */
    struct tmk_diag *diag;
};

/* One thread's. */
struct seat {
    struct side *side;
    pthread_t thread;
    struct tmk_worker **workers;  /* one a lane */
    struct tmk_planned **planned; /* the same, while a batch runs */
    struct tmk_carried carried;   /* of the one graph, where outputs are fed back */
    struct tmk_unlike *unlike;    /* one a pair */
    void *seen;
    struct tmk_diag diag;
};

static struct tmk_tensor value_of(const struct seat *seat, const struct tmk_beside_value *v) {
    return v->value->kind == TMK_VALUE_INITIALIZER
               ? v->value->data
               : tmk_worker_value(seat->workers[v->lane], v->value);
}

static bool is_constant(const struct tmk_pair *pair) {
    return pair->left.value->kind == TMK_VALUE_INITIALIZER &&
           pair->right.value->kind == TMK_VALUE_INITIALIZER;
}

static void look_at_pairs(struct seat *seat) {
    const struct tmk_beside *b = seat->side->beside;
    memset(seat->unlike, 0, b->n_pairs * sizeof *seat->unlike);
    for (uint32_t i = 0; i < b->n_pairs; i++) {
        const struct tmk_pair *pair = &b->pairs[i];
        if (is_constant(pair))
            continue;
        const struct tmk_tensor left = value_of(seat, &pair->left),
                                right = value_of(seat, &pair->right);
        tmk_unlike_add(&seat->unlike[i], &left, pair->left.encoding, &right, pair->right.encoding);
    }
}

static enum tmk_status run_batch(struct seat *seat, const struct tmk_batch *batch) {
    const struct side *side = seat->side;
    const struct tmk_beside *b = side->beside;
    enum tmk_status status = TMK_OK;
    if (batch->goes_on)
        tmk_carried_give(&seat->carried, &side->feedback, batch->inputs);
    for (uint32_t i = 0; status == TMK_OK && i < b->n_lanes; i++) {
        status = tmk_cache_get(side->caches[i], batch->inputs, &seat->planned[i], &seat->diag);
        if (status == TMK_OK)
            status = tmk_worker_run(seat->workers[i], seat->planned[i]->plan, batch->inputs, NULL,
                                    &seat->diag);
    }
    if (status == TMK_OK)
        look_at_pairs(seat);
    if (status == TMK_OK && b->look) {
        memset(seat->seen, 0, b->seen_bytes);
        status = b->look(b->context, batch->sample, batch->samples, seat->workers, seat->seen,
                         &seat->diag);
    }
    if (status == TMK_OK && side->feedback.n)
        status = tmk_carried_keep(&seat->carried, &side->feedback, b->lanes[0], seat->workers[0],
                                  &seat->diag);
    return tmk_in(&seat->diag, status, "sample %llu", (unsigned long long)batch->sample);
}

/* The next batch and its place in the order; false: there is none. */
static bool take(struct seat *seat, struct tmk_batch *batch, uint64_t *place,
                 enum tmk_status *status) {
    struct side *side = seat->side;
    bool more = false;
    *status = TMK_OK;
    pthread_mutex_lock(&side->taking);
    if (!side->over) {
        *status = side->batches.next(side->batches.context, batch, &more, &seat->diag);
        side->over = *status != TMK_OK || !more;
        *place = side->taken;
        side->taken += *status != TMK_OK || more;
    }
    pthread_mutex_unlock(&side->taking);
    return *status != TMK_OK || more;
}

/* The values of a batch are there until then. */
static enum tmk_status end_batch(struct seat *seat, enum tmk_status status) {
    for (uint32_t i = 0; i < seat->side->beside->n_lanes; i++) {
        tmk_worker_forget(seat->workers[i]);
        enum tmk_status released =
            !seat->planned[i]
                ? TMK_OK
                : tmk_cache_release(seat->side->caches[i], seat->planned[i], &seat->diag);
        seat->planned[i] = NULL;
        status = status != TMK_OK ? status : released;
    }
    return status;
}

/* Waits for the batches before. */
static enum tmk_status give(struct seat *seat, uint64_t place, const struct tmk_batch *batch,
                            enum tmk_status status) {
    struct side *side = seat->side;
    struct tmk_beside *b = side->beside;
    pthread_mutex_lock(&side->giving);
    while (side->merged != place)
        pthread_cond_wait(&side->given, &side->giving);
    if (side->status == TMK_OK && status == TMK_OK && b->merge)
        status = tmk_in(&seat->diag, b->merge(b->context, seat->workers, seat->seen, &seat->diag),
                        "sample %llu", (unsigned long long)batch->sample);
    if (side->status == TMK_OK && status == TMK_OK) {
        for (uint32_t i = 0; i < b->n_pairs; i++)
            tmk_unlike_merge(&b->pairs[i].unlike, &seat->unlike[i]);
        b->samples += batch->samples;
        if (side->options->progress)
            side->options->progress(side->options->context, b->samples, side->total);
    } else if (side->status == TMK_OK) {
        side->status = b->path ? tmk_in(&seat->diag, status, "%s", b->path) : status;
        if (side->diag)
            *side->diag = seat->diag;
    }
    side->merged++;
    pthread_cond_broadcast(&side->given);
    pthread_mutex_unlock(&side->giving);
    return status;
}

static void *sit(void *context) {
    struct seat *seat = context;
    struct side *side = seat->side;
    tmk_kernel_enter_thread();
    for (;;) {
        struct tmk_batch batch = {0};
        enum tmk_status status;
        uint64_t place = 0;
        if (!take(seat, &batch, &place, &status))
            return NULL;
        if (status == TMK_OK)
            status = run_batch(seat, &batch);
        status = end_batch(seat, give(seat, place, &batch, status));
        tmk_batch_finish(&batch);
        if (status != TMK_OK) {
            pthread_mutex_lock(&side->taking);
            side->over = true;
            pthread_mutex_unlock(&side->taking);
            return NULL;
        }
    }
}

/* ---- setting up ---- */

static enum tmk_status open_seat(struct side *side, struct seat *seat, struct tmk_diag *diag) {
    const struct tmk_beside *b = side->beside;
    seat->side = side;
    seat->workers = calloc(b->n_lanes, sizeof(struct tmk_worker *));
    seat->planned = calloc(b->n_lanes, sizeof(struct tmk_planned *));
    seat->unlike = calloc((size_t)b->n_pairs + 1, sizeof *seat->unlike);
    seat->seen = calloc(1, b->seen_bytes + 1);
    if (!seat->workers || !seat->planned || !seat->unlike || !seat->seen)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < b->n_lanes; i++) {
        TMK_TRY(tmk_worker_create(&seat->workers[i], diag));
        tmk_worker_limit(seat->workers[i], side->options->max_iterations);
    }
    return TMK_OK;
}

static void close_seat(struct side *side, struct seat *seat) {
    for (uint32_t i = 0; seat->workers && i < side->beside->n_lanes; i++)
        tmk_worker_destroy(&seat->workers[i]);
    free(seat->workers);
    free(seat->planned);
    tmk_carried_finish(&seat->carried, &side->feedback);
    free(seat->unlike);
    free(seat->seen);
}

static void tell_of_missing(const struct tmk_run_options *options, uint32_t missing,
                            uint32_t wanted, int why) {
    if (options->fewer_threads)
        options->fewer_threads(options->context, TMK_THREADS_RUN, missing, wanted, strerror(why));
}

static enum tmk_status run_seats(struct side *side, uint32_t n, struct tmk_diag *diag) {
    struct seat *seats = calloc(n, sizeof *seats);
    enum tmk_status status = seats ? TMK_OK : tmk_nomem(diag);
    uint32_t began = 0;
    int error = 0;
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        status = open_seat(side, &seats[i], diag);
    while (status == TMK_OK && began < n &&
           (error = pthread_create(&seats[began].thread, NULL, sit, &seats[began])) == 0)
        began++;
    if (error)
        tell_of_missing(side->options, n - began, n, error);
    if (error && !began)
        sit(&seats[0]);
    for (uint32_t i = 0; i < began; i++)
        pthread_join(seats[i].thread, NULL);
    for (uint32_t i = 0; seats && i < n; i++)
        close_seat(side, &seats[i]);
    free(seats);
    return status;
}

static enum tmk_status keep(const struct tmk_beside *b, const struct tmk_beside_value *v,
                            struct tmk_diag *diag) {
    return v->value->kind == TMK_VALUE_RESULT && !v->value->n_graph_outputs
               ? tmk_graph_add_output(b->lanes[v->lane], v->value, diag)
               : TMK_OK;
}

static enum tmk_status open_side(struct side *side, const struct tmk_run_options *options,
                                 struct tmk_diag *diag) {
    const struct tmk_beside *b = side->beside;
    for (uint32_t i = 0; i < b->n_pairs; i++) {
        TMK_TRY(keep(b, &b->pairs[i].left, diag));
        TMK_TRY(keep(b, &b->pairs[i].right, diag));
    }
    side->caches = calloc(b->n_lanes, sizeof(struct tmk_cache *));
    if (!side->caches)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < b->n_lanes; i++) {
        tmk_graph_number(b->lanes[i]);
        TMK_TRY(tmk_cache_create(b->lanes[i], NULL, 0, 1, IDLE_PLANS_KEPT, &side->caches[i], diag));
    }
    TMK_TRY(tmk_session_feed_open(b->lanes[0], options, &side->feed, diag));
    side->batches = tmk_session_feed_of(side->feed);
    side->total = tmk_session_feed_plan(side->feed).run;
    side->feedback = tmk_session_feed_loops(side->feed);
    side->beside->slices = tmk_session_feed_plan(side->feed).slices;
    return TMK_OK;
}

/* Once, not with every batch. */
static void look_at_constants(struct tmk_beside *b) {
    for (uint32_t i = 0; i < b->n_pairs; i++) {
        struct tmk_pair *pair = &b->pairs[i];
        if (is_constant(pair))
            tmk_unlike_add(&pair->unlike, &pair->left.value->data, pair->left.encoding,
                           &pair->right.value->data, pair->right.encoding);
    }
}

/* As many as asked for; of one graph, as many as the memory limit has room for. */
static uint32_t count_threads(const struct tmk_beside *beside,
                              const struct tmk_run_options *options) {
    uint32_t threads = options->threads ? options->threads : tmk_running_processors();
    struct tmk_memory_plan plan;
    struct tmk_diag ignored = {0};
    if (options->n_feedback) /* each step needs the one before */
        return 1;
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    const struct tmk_memory_request request = {
        .path = beside->path, .graph = beside->lanes[0], .options = options, .threads = threads};
    if (!beside->path || !options->memory_limit || threads == 1)
        return threads;
    return tmk_memory_planned(&request, &plan, &ignored) == TMK_OK ? plan.threads : 1;
}

enum tmk_status tmk_beside_run(struct tmk_beside *beside, const struct tmk_run_options *options,
                               struct tmk_diag *diag) {
    struct side side = {.beside = beside, .options = options, .diag = diag};
    if (options->n_feedback && beside->n_lanes > 1)
        return tmk_fail(diag, TMK_UNSUPPORTED, "outputs can't be fed back here");
    pthread_mutex_init(&side.taking, NULL);
    pthread_mutex_init(&side.giving, NULL);
    pthread_cond_init(&side.given, NULL);
    enum tmk_status status = open_side(&side, options, diag);
    if (status == TMK_OK) {
        look_at_constants(beside);
        status = run_seats(&side, count_threads(beside, options), diag);
    }
    if (status == TMK_OK)
        status = side.status;
    tmk_session_feed_close(&side.feed);
    for (uint32_t i = 0; side.caches && i < beside->n_lanes; i++)
        tmk_cache_destroy(&side.caches[i]);
    free(side.caches);
    pthread_cond_destroy(&side.given);
    pthread_mutex_destroy(&side.giving);
    pthread_mutex_destroy(&side.taking);
    return status;
}
