/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "exec/queue.h"
#include "exec/run.h"
#include "graph_text/read.h"
#include "ops/ops.h"

/* ---- the queue ---- */

static void push(struct tmk_queue *queue, uint64_t sample, bool continues_sequence) {
    const struct tmk_batch batch = {
        .sample = sample, .samples = 1, .continues_sequence = continues_sequence};
    bool taken = false;
    must(tmk_queue_push(queue, &batch, &taken, DIAG));
    assert_true(taken);
}

static struct tmk_queue *make_queue(uint32_t size) {
    struct tmk_queue *queue = NULL;
    must(tmk_queue_create(size, &queue, DIAG));
    return queue;
}

static void takes(struct tmk_queue *queue, struct tmk_queued_sequence **mine, uint64_t sample) {
    struct tmk_batch batch;
    assert_true(tmk_queue_pop(queue, mine, &batch));
    assert_int_equal(batch.sample, sample);
}

static void gets_nothing(struct tmk_queue *queue, struct tmk_queued_sequence **mine) {
    struct tmk_batch batch;
    assert_false(tmk_queue_pop(queue, mine, &batch));
    assert_null(*mine);
}

TEST(a_sequence_has_one_taker) {
    struct tmk_queue *queue = make_queue(10);
    struct tmk_queued_sequence *one = NULL, *two = NULL;
    for (uint64_t i = 0; i < 7; i++)
        push(queue, i, i != 0 && i != 3 && i != 5 && i != 6); /* 0 1 2 | 3 4 | 5 | 6 */
    takes(queue, &one, 0);
    takes(queue, &two, 3);
    takes(queue, &one, 1);
    takes(queue, &two, 4);
    takes(queue, &two, 5);
    takes(queue, &one, 2);
    takes(queue, &one, 6);
    tmk_queue_close(queue, UINT64_MAX);
    gets_nothing(queue, &two);
    gets_nothing(queue, &one);
    tmk_queue_destroy(&queue);
}

TEST(what_is_behind_a_failure_is_dropped) {
    struct tmk_queue *queue = make_queue(10);
    struct tmk_queued_sequence *one = NULL, *two = NULL;
    bool taken = true;
    for (uint64_t i = 0; i < 9; i++)
        push(queue, i, i % 3 != 0);
    takes(queue, &one, 0);
    takes(queue, &two, 3);
    tmk_queue_close(queue, 5);
    takes(queue, &one, 1);
    takes(queue, &two, 4);
    takes(queue, &one, 2);
    gets_nothing(queue, &one);
    gets_nothing(queue, &two);
    must(tmk_queue_push(queue, &(struct tmk_batch){.sample = 9}, &taken, DIAG));
    assert_false(taken);
    tmk_queue_destroy(&queue);
}

enum { LONG = 100 };

struct pair {
    struct tmk_queue *queue;
    sem_t second_is_over;
};

/* The worker with the first sequence waits until another has finished the second. */
static void *take_one(void *argument) {
    struct pair *pair = argument;
    struct tmk_queued_sequence *mine = NULL;
    struct tmk_batch batch;
    uintptr_t n = 0;
    for (; tmk_queue_pop(pair->queue, &mine, &batch); n++) {
        if (batch.sample == 0)
            sem_wait(&pair->second_is_over);
        if (batch.sample == 2 * LONG - 1)
            sem_post(&pair->second_is_over);
    }
    return (void *)n;
}

TEST(the_loader_reads_on_for_who_waits) {
    struct pair pair = {.queue = make_queue(2)};
    pthread_t threads[2];
    void *taken[2];
    sem_init(&pair.second_is_over, 0, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_one, &pair), 0);
    for (uint64_t i = 0; i < 2 * LONG; i++)
        push(pair.queue, i, i % LONG != 0);
    tmk_queue_close(pair.queue, UINT64_MAX);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], &taken[i]), 0);
    assert_int_equal((uintptr_t)taken[0] + (uintptr_t)taken[1], 2 * LONG);
    sem_destroy(&pair.second_is_over);
    tmk_queue_destroy(&pair.queue);
}

/* ---- runs ---- */

/* Samples 0, 1, 2, ... as numbers, in sequences of this length. */
struct made_up_loop {
    uint64_t next, samples, sequence;
    uint64_t nan_at[2];
    uint32_t state; /* the number of the input that is fed back */
};

static enum tmk_status next_fed(void *context, struct tmk_batch *out, bool *more,
                                struct tmk_diag *diag) {
    struct made_up_loop *m = context;
    *more = m->next < m->samples;
    if (!*more)
        return TMK_OK;
    uint64_t sample = m->next++;
    struct tmk_shape shape = {1, {1}};
    *out = (struct tmk_batch){.sample = sample,
                              .samples = 1,
                              .inputs = calloc(2, sizeof *out->inputs),
                              .n_inputs = 2,
                              .continues_sequence = sample % m->sequence != 0};
    assert_non_null(out->inputs);
    struct tmk_tensor *x = &out->inputs[!m->state];
    assert_ok(tmk_tensor_init(x, TMK_FLOAT32, &shape, diag), diag);
    ((float *)x->data)[0] =
        sample == m->nan_at[0] || sample == m->nan_at[1] ? NAN : (float)(sample + 1);
    return out->continues_sequence
               ? TMK_OK
               : tmk_tensor_init(&out->inputs[m->state], TMK_FLOAT32, &shape, diag);
}

/* Observed is what is made of x and of what was fed back. */
static const char sum[] = "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n"
                          " input %x : f32[1]\n input %before : f32[1]\n %y = Add(%x, %before)\n"
                          " %yo = ai.tidemark::EdgeObserver(%y) {profile_id=0, "
                          "kind=\"histogram\", tensor_name=\"y\"}\n output %yo\n}";
static const char difference[] =
    "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n"
    " input %before : f32[1]\n input %x : f32[1]\n %y = Sub(%x, %before)\n"
    " %yo = ai.tidemark::EdgeObserver(%y) {profile_id=0, kind=\"histogram\", "
    "tensor_name=\"y\"}\n output %yo\n output %x\n}";

static enum tmk_status run_loop(const char *text, const struct tmk_loop *loop,
                                struct made_up_loop m, uint32_t threads, bool guard,
                                struct tmk_exec_result *result, struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    assert_ok(parse_graph(text, NULL, &graph, diag), diag);
    assert_ok(tmk_ops_bind(graph, diag), diag);
    tmk_graph_number(graph);
    m.state = loop->input;
    const struct tmk_slot_config slot = {
        .level = TMK_STATS_HISTOGRAM, .guard = guard, .label = "y"};
    const struct tmk_batch_source feed = {next_fed, &m};
    const struct tmk_exec_options options = {
        .threads = threads, .observe = {.slots = &slot, .n_slots = 1}, .feedback = {loop, 1}};
    enum tmk_status status = tmk_exec_run(&graph, 1, &feed, &options, result, diag);
    tmk_graph_destroy(&graph);
    return status;
}

static const struct made_up_loop plain_loop = {.samples = 60, .nan_at = {UINT64_MAX, UINT64_MAX}};

TEST(sums_run_from_step_to_step) {
    for (uint64_t sequence = 1; sequence <= 60; sequence += 7)
        for (uint32_t threads = 1; threads <= 4; threads++) {
            struct made_up_loop m = plain_loop;
            struct tmk_exec_result result;
            struct tmk_summary seen;
            double total = 0, all = 0, most = 0;
            m.sequence = sequence;
            for (uint64_t i = 0; i < m.samples; i++) {
                total = (double)(i + 1) + (i % sequence ? total : 0);
                all += total;
                most = total > most ? total : most;
            }
            must(run_loop(sum, &(struct tmk_loop){0, 1}, m, threads, false, &result, DIAG));
            tmk_stats_summary(result.counted.accounts[0].floats, &seen);
            assert_int_equal(seen.count, m.samples);
            assert_true(seen.sum == all && seen.max == (float)most && seen.min == 1);
            tmk_exec_result_finish(&result);
        }
}

/* Its memory is not the worker's: it must be kept in another's. */
TEST(an_input_may_be_fed_back_itself) {
    struct made_up_loop m = plain_loop;
    struct tmk_exec_result result;
    struct tmk_summary seen;
    m.sequence = 20;
    must(run_loop(difference, &(struct tmk_loop){1, 0}, m, 2, false, &result, DIAG));
    tmk_stats_summary(result.counted.accounts[0].floats, &seen);
    assert_true(seen.min == 1 && seen.max == 41 && seen.max_at.sample == 40);
    assert_true(seen.sum == 57 + 1 + 21 + 41);
    tmk_exec_result_finish(&result);
}

/* The second sequence fails at once, the first one late. */
TEST(the_earliest_failure_is_reported) {
    for (int round = 0; round < 50; round++) {
        struct made_up_loop m = plain_loop;
        struct tmk_exec_result result;
        m.sequence = 30;
        m.nan_at[0] = 29;
        m.nan_at[1] = 30;
        must_fail(run_loop(sum, &(struct tmk_loop){0, 1}, m, 3, true, &result, DIAG), TMK_GUARD,
                  "at sample 29,");
    }
}
