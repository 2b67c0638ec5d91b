/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "exec/run.h"
#include "exec/worker.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "ops/ops.h"

/* Batches made up as they are asked for: sample i is a row of `width(i)` numbers. */
struct made_up {
    uint64_t next, samples;
    uint64_t nan_at[2]; /* samples that hold a NaN; UINT64_MAX: none */
    bool ragged;
    uint64_t fails_at;
    uint32_t groups; /* that samples are dealt to in turns; 0: all are of group 0 */
};

static int64_t width(const struct made_up *m, uint64_t sample) {
    return m->ragged ? 1 + (int64_t)(sample * 7 % 40) : 5;
}

static enum tmk_status next_made(void *context, struct tmk_batch *out, bool *more,
                                 struct tmk_diag *diag) {
    struct made_up *m = context;
    *more = m->next < m->samples;
    if (!*more)
        return TMK_OK;
    uint64_t sample = m->next++;
    if (sample == m->fails_at) {
        strcpy(diag->text, "the disk went away");
        return diag->status = TMK_READ;
    }
    struct tmk_shape shape = {2, {1, width(m, sample)}};
    *out = (struct tmk_batch){sample, 1, calloc(1, sizeof *out->inputs), 1};
    assert_non_null(out->inputs);
    out->group = m->groups ? (uint32_t)(sample % m->groups) : 0;
    assert_ok(tmk_tensor_init(out->inputs, TMK_FLOAT32, &shape, diag), diag);
    float *x = out->inputs[0].data;
    for (int64_t i = 0; i < shape.dim[1]; i++)
        x[i] = sinf((float)(sample * 13 + (uint64_t)i)) * (float)(1 + sample % 5);
    if (sample == m->nan_at[0] || sample == m->nan_at[1])
        x[shape.dim[1] - 1] = NAN;
    return TMK_OK;
}

static const char model[] =
    "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n input %x : f32[\"N\",\"W\"]\n"
    " init %two : f32[] = {2}\n"
    " %xo = ai.tidemark::EdgeObserver(%x) {profile_id=0, kind=\"histogram\", tensor_name=\"x\"}\n"
    " %to = ai.tidemark::EdgeObserver(%two) {profile_id=1, kind=\"histogram\", tensor_name=\"t\"}\n"
    " %y = Mul(%xo, %to)\n"
    " %yo = ai.tidemark::EdgeObserver(%y) {profile_id=2, kind=\"histogram\", tensor_name=\"y\"}\n"
    " %s = Shape(%xo)\n"
    " %so = ai.tidemark::EdgeObserver(%s) {profile_id=3, kind=\"histogram\", tensor_name=\"s\"}\n"
    " %f = Cast(%so) {to=1}\n"
    " %fo = ai.tidemark::EdgeObserver(%f) {profile_id=4, kind=\"histogram\", tensor_name=\"f\"}\n"
    " output %yo\n output %fo\n}";

enum { X, TWO, Y, SHAPE, FLOAT_SHAPE, SLOTS };

static struct tmk_graph *load(void) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(model, NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    tmk_graph_number(graph);
    return graph;
}

static enum tmk_status run(struct made_up m, uint32_t threads, bool guard,
                           struct tmk_exec_result *result, struct tmk_diag *diag) {
    struct tmk_graph *graph = load();
    struct tmk_slot_config slots[SLOTS];
    for (int i = 0; i < SLOTS; i++)
        slots[i] = (struct tmk_slot_config){TMK_STATS_HISTOGRAM, guard, false, "a value"};
    const struct tmk_batch_source feed = {next_made, &m};
    const struct tmk_exec_options options = {
        .threads = threads, .observe = {.slots = slots, .n_slots = SLOTS, .groups = m.groups}};
    enum tmk_status status = tmk_exec_run(&graph, 1, &feed, &options, result, diag);
    tmk_graph_destroy(&graph);
    return status;
}

static const struct made_up plain = {
    .samples = 100, .nan_at = {UINT64_MAX, UINT64_MAX}, .fails_at = UINT64_MAX};

static void append_state(const struct tmk_exec_result *result, struct tmk_text *text) {
    for (uint32_t i = 0; i < result->counted.n_slots; i++) {
        const struct tmk_account *a = &result->counted.accounts[i];
        if (a->floats)
            tmk_stats_encode(a->floats, text);
        else
            tmk_int_stats_encode(&a->ints, text);
        tmk_text_printf(text, "%llu %llu %u %d;", (unsigned long long)a->elements,
                        (unsigned long long)a->runs, a->n_shapes, a->more_shapes);
        for (uint32_t k = 0; k < a->n_shapes; k++)
            tmk_text_printf(text, "%lld:%llu,", (long long)a->shapes[k].shape.dim[1],
                            (unsigned long long)a->shapes[k].runs);
    }
}

TEST(the_number_of_threads_does_not_show) {
    struct made_up cases[] = {plain, plain};
    cases[1].ragged = true; /* forty shapes: more than plans and shapes that are kept */
    for (int c = 0; c < 2; c++) {
        struct tmk_text first = {0};
        for (uint32_t threads = 1; threads <= 4; threads++) {
            struct tmk_exec_result result;
            struct tmk_text text = {0};
            must(run(cases[c], threads, false, &result, DIAG));
            append_state(&result, &text);
            if (threads == 1) {
                first = text;
            } else {
                assert_int_equal(text.len, first.len);
                assert_memory_equal(text.data, first.data, text.len);
                tmk_text_finish(&text);
            }
            tmk_exec_result_finish(&result);
        }
        tmk_text_finish(&first);
    }
}

/* Plan by plan and shape by shape: constants, initializers and what is looked at. */
TEST(groups_are_counted_apart_and_add_up) {
    enum { GROUPS = 7 };
    struct made_up cases[] = {plain, plain};
    cases[1].ragged = true;
    for (uint32_t i = 0; i < 2 * 4; i++) {
        struct made_up apart = cases[i % 2];
        struct tmk_exec_result whole, parts, sum;
        struct tmk_text want = {0}, got = {0};
        const struct tmk_slot_config config = {.level = TMK_STATS_HISTOGRAM, .label = "a value"};
        must(run(cases[i % 2], 2, false, &whole, DIAG));
        apart.groups = GROUPS;
        must(run(apart, 1 + i / 2, false, &parts, DIAG));
        assert_int_equal(parts.counted.n_groups, GROUPS);
        assert_int_equal(parts.samples, 100);
        sum = parts;
        for (uint32_t g = 0; g < GROUPS; g++) {
            struct tmk_account *of_group = parts.counted.accounts + g * SLOTS;
            assert_int_equal(parts.counted.tallies[g].batches, 100 / GROUPS + (g < 100 % GROUPS));
            assert_int_equal(parts.counted.tallies[g].samples, parts.counted.tallies[g].batches);
            assert_int_equal(of_group[TWO].elements, 1); /* a weight is in each */
            for (int s = 0; g && s < SLOTS; s++)
                if (s != TWO)
                    must(tmk_account_merge(&sum.counted.accounts[s], &of_group[s], 1, &config,
                                           DIAG));
        }
        append_state(&whole, &want);
        append_state(&sum, &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        tmk_text_finish(&want);
        tmk_text_finish(&got);
        tmk_exec_result_finish(&whole);
        tmk_exec_result_finish(&parts);
    }
}

/* A feed that now and then has no more for now. */
struct in_legs {
    struct made_up all;
    uint64_t a_segment, left; /* batches */
};

static enum tmk_status next_of_leg(void *context, struct tmk_batch *out, bool *more,
                                   struct tmk_diag *diag) {
    struct in_legs *legs = context;
    *more = false;
    return legs->left-- ? next_made(&legs->all, out, more, diag) : TMK_OK;
}

TEST(legs_add_up_to_a_run) {
    for (uint64_t a_segment = 1; a_segment < 60; a_segment += 9) {
        struct in_legs legs = {.all = plain, .a_segment = a_segment};
        legs.all.ragged = true;
        struct tmk_graph *graph = load();
        struct tmk_slot_config slots[SLOTS];
        for (int i = 0; i < SLOTS; i++)
            slots[i] = (struct tmk_slot_config){.level = TMK_STATS_HISTOGRAM, .label = "a value"};
        const struct tmk_exec_options options = {.threads = 2,
                                                 .observe = {.slots = slots, .n_slots = SLOTS}};
        const struct tmk_batch_source feed = {next_of_leg, &legs};
        struct tmk_exec *exec = NULL;
        struct tmk_exec_result whole, sum = {0}, segment;
        struct tmk_text want = {0}, got = {0};
        must(run(legs.all, 2, false, &whole, DIAG));
        must(tmk_exec_open(&graph, 1, &options, &exec, DIAG));
        while (sum.samples < legs.all.samples) {
            legs.left = a_segment;
            must(tmk_exec_segment(exec, &feed, &segment, DIAG));
            assert_true(segment.samples == segment.batches && segment.samples <= a_segment);
            if (!sum.counted.accounts) {
                sum = segment;
                continue;
            }
            sum.samples += segment.samples;
            for (int i = 0; i < SLOTS; i++) {
                assert_true(i != TWO ||
                            !segment.counted.accounts[i].runs); /* a weight is in the first */
                must(tmk_account_merge(&sum.counted.accounts[i], &segment.counted.accounts[i], 1,
                                       &slots[i], DIAG));
            }
            tmk_exec_result_finish(&segment);
        }
        append_state(&whole, &want);
        append_state(&sum, &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        tmk_text_finish(&want);
        tmk_text_finish(&got);
        tmk_exec_result_finish(&whole);
        tmk_exec_result_finish(&sum);
        tmk_exec_close(&exec);
        tmk_graph_destroy(&graph);
    }
}

TEST(weights_count_once_and_other_constants_once_a_run) {
    struct tmk_exec_result result;
    must(run(plain, 2, false, &result, DIAG));
    assert_int_equal(result.samples, 100);
    assert_int_equal(result.counted.accounts[X].elements, 500);
    assert_int_equal(result.counted.accounts[TWO].elements, 1);
    assert_int_equal(result.counted.accounts[SHAPE].elements, 200);
    assert_int_equal(result.counted.accounts[SHAPE].ints.count, 200);
    assert_int_equal(result.counted.accounts[SHAPE].ints.max, 5);
    struct tmk_summary summary;
    tmk_stats_summary(result.counted.accounts[FLOAT_SHAPE].floats, &summary);
    assert_int_equal(summary.count, 200);
    assert_true(summary.min == 1.0f && summary.max == 5.0f);
    tmk_exec_result_finish(&result);
}

TEST(every_shape_is_counted_though_few_plans_are_kept) {
    struct made_up m = plain;
    m.ragged = true;
    uint64_t elements = 0;
    for (uint64_t i = 0; i < m.samples; i++)
        elements += (uint64_t)width(&m, i);
    struct tmk_exec_result result;
    must(run(m, 2, false, &result, DIAG));
    assert_true(result.figures.plans >= 40);
    assert_int_equal(result.counted.accounts[Y].elements, elements);
    assert_int_equal(result.counted.accounts[SHAPE].elements, 200);
    assert_int_equal(result.counted.accounts[Y].n_shapes, TMK_MAX_SHAPES);
    assert_true(result.counted.accounts[Y].more_shapes);
    struct tmk_summary summary;
    tmk_stats_summary(result.counted.accounts[FLOAT_SHAPE].floats, &summary);
    assert_true(summary.max == 40.0f);
    assert_int_equal(summary.max_at.sample, 17); /* 17 * 7 % 40 = 39 */
    tmk_exec_result_finish(&result);
}

TEST(a_guard_names_the_earliest_nan) {
    for (int round = 0; round < 20; round++) {
        struct made_up m = plain;
        m.nan_at[0] = 41;
        m.nan_at[1] = 42;
        struct tmk_exec_result result;
        must_fail(run(m, 3, true, &result, DIAG), TMK_GUARD, "sample 41, element 4");
    }
}

TEST(without_a_guard_nan_is_counted) {
    struct made_up m = plain;
    m.nan_at[0] = 41;
    struct tmk_exec_result result;
    must(run(m, 2, false, &result, DIAG));
    struct tmk_summary summary;
    tmk_stats_summary(result.counted.accounts[Y].floats, &summary);
    assert_int_equal(summary.nan, 1);
    assert_int_equal(summary.first_nonfinite.sample, 41);
    assert_int_equal(summary.count, 500);
    tmk_exec_result_finish(&result);
}

TEST(an_error_of_the_feed_ends_the_run) {
    struct made_up m = plain;
    m.fails_at = 30;
    struct tmk_exec_result result;
    assert_int_equal(run(m, 2, false, &result, DIAG), TMK_READ);
    assert_string_equal(test_diag.text, "the disk went away");
}

TEST(dynamic_values_run_and_are_freed) {
    struct tmk_graph *graph = NULL;
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    must(parse_graph("graph \"g\" opset 17 {\n input %x : f32[6]\n %i = NonZero(%x)\n"
                     " %j = Cast(%i) {to=1}\n %k = Neg(%j)\n output %k\n}",
                     NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    tmk_graph_number(graph);
    float x[6] = {0, 1, 0, 2, 3, 0};
    struct tmk_tensor input;
    tmk_tensor_borrow(&input, TMK_FLOAT32, &(struct tmk_shape){1, {6}}, x);
    must(tmk_plan_create(graph, &input, NULL, &plan, DIAG));
    must(tmk_worker_create(&worker, DIAG));
    for (int round = 0; round < 3; round++) {
        x[0] = (float)round;
        must(tmk_worker_run(worker, plan, &input, NULL, DIAG));
        struct tmk_tensor k = tmk_worker_value(worker, graph->outputs[0]);
        int64_t n = round ? 4 : 3;
        assert_true(tmk_shape_equal(&k.shape, &(struct tmk_shape){2, {1, n}}));
        assert_true(((float *)k.data)[n - 1] == -4.0f);
    }
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
    tmk_graph_destroy(&graph);
}

/* ---- control flow ---- */

struct scene {
    struct tmk_graph *graph;
    struct tmk_plan *plan;
    struct tmk_worker *worker;
    struct tmk_account accounts[16];
    struct tmk_slot_config slots[16];
};

static enum tmk_status account_look(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                                    int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct scene *scene = context;
    const struct tmk_stats_at at = {0, 1, channel_axis, false, block};
    return tmk_account_look(&scene->accounts[slot], &scene->slots[slot], tensor, &at, diag);
}

static const struct tmk_plan_options node_by_node = {.plain = true};

/* Instruments everything, runs once, and leaves the accounts by profile ID. */
static void play(struct scene *scene, const char *text, const struct tmk_tensor *inputs,
                 struct tmk_diag *diag) {
    *scene = (struct scene){0};
    for (int i = 0; i < 16; i++)
        scene->slots[i] =
            (struct tmk_slot_config){.level = TMK_STATS_HISTOGRAM, .label = "a value"};
    assert_ok(parse_graph(text, NULL, &scene->graph, diag), diag);
    assert_ok(tmk_ops_bind(scene->graph, diag), diag);
    tmk_graph_number(scene->graph);
    assert_ok(tmk_plan_create(scene->graph, inputs, &node_by_node, &scene->plan, diag), diag);
    assert_ok(tmk_worker_create(&scene->worker, diag), diag);
    const struct tmk_watch watch = {.look = account_look, .context = scene};
    for (int round = 0; round < 2; round++) /* what a run leaves behind does not disturb the next */
        assert_ok(tmk_worker_run(scene->worker, scene->plan, inputs, &watch, diag), diag);
}

static void clear(struct scene *scene) {
    for (int i = 0; i < 16; i++)
        tmk_account_finish(&scene->accounts[i]);
    tmk_worker_destroy(&scene->worker);
    tmk_plan_destroy(&scene->plan);
    tmk_graph_destroy(&scene->graph);
}

static const float *output(const struct scene *scene, uint32_t i, size_t n) {
    struct tmk_tensor tensor = tmk_worker_value(scene->worker, scene->graph->outputs[i]);
    assert_int_equal(tensor.dtype, TMK_FLOAT32);
    assert_int_equal(tmk_tensor_count(&tensor), n);
    return tensor.data;
}

#define OBSERVE(to, from, id)                                                                      \
    " %" to " = ai.tidemark::EdgeObserver(%" from ") {profile_id=" #id                             \
    ", kind=\"histogram\", tensor_name=\"" from "\"}\n"

TEST(a_branch_that_is_not_taken_is_never_seen) {
    static const char text[] =
        "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n input %c : bool[]\n input %x : f32[2]\n"
        " %e = Exp(%x)\n" /* an outer value that only a branch reads */
        " %y = If(%c) {then_branch=graph \"t\" {\n %a = Neg(%e)\n" OBSERVE(
            "ao", "a", 0) " output %ao\n }, else_branch=graph \"f\" {\n init %w : f32[2] = {5, "
                          "6}\n" OBSERVE("wo", "w", 2) " %b = Add(%x, %wo)\n" OBSERVE(
                              "bo", "b", 1) " output %bo\n }}\n "
                                            "output %y\n}";
    for (int taken = 0; taken < 2; taken++) {
        struct scene scene;
        uint8_t c = (uint8_t)taken;
        float x[2] = {0, 1};
        struct tmk_tensor inputs[2];
        tmk_tensor_borrow(&inputs[0], TMK_BOOL, &(struct tmk_shape){0, {0}}, &c);
        tmk_tensor_borrow(&inputs[1], TMK_FLOAT32, &(struct tmk_shape){1, {2}}, x);
        play(&scene, text, inputs, DIAG);
        /* slots stand in order of appearance: else_branch comes first by its name */
        uint32_t n;
        struct tmk_observer *observers;
        must(tmk_observer_slots(scene.graph, &observers, &n, DIAG));
        assert_int_equal(n, 3);
        for (uint32_t s = 0; s < n; s++) {
            uint64_t runs = scene.accounts[s].runs;
            if (observers[s].profile_id == 2)
                assert_int_equal(runs, 0); /* a weight is no business of the run */
            else
                assert_int_equal(runs, (observers[s].profile_id == 0) == taken ? 2 : 0);
        }
        assert_int_equal(scene.plan->n_constant_taps, 1);
        free(observers);
        const float *y = output(&scene, 0, 2);
        assert_true(y[0] == (taken ? -1.0f : 5.0f));
        clear(&scene);
    }
}

TEST(a_loops_values_accumulate_over_its_iterations) {
    static const char text[] =
        "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n input %m : i64[]\n input %x : f32[2]\n"
        " %y, %s = Loop(%m, _, %x) {body=graph \"b\" {\n input %i : i64[]\n input %c : bool[]\n"
        " input %v : f32[2]\n %d = Identity(%c)\n %w = Add(%v, %x)\n" OBSERVE(
            "wo", "w", 0) " output %d\n output %wo\n output %wo\n }}\n output %y\n output %s\n}";
    for (int64_t m = 1; m < 4; m++) {
        struct scene scene;
        float x[2] = {1, 10};
        struct tmk_tensor inputs[2];
        tmk_tensor_borrow(&inputs[0], TMK_INT64, &(struct tmk_shape){0, {0}}, &m);
        tmk_tensor_borrow(&inputs[1], TMK_FLOAT32, &(struct tmk_shape){1, {2}}, x);
        play(&scene, text, inputs, DIAG);
        assert_int_equal(scene.accounts[0].runs, 2 * m);
        struct tmk_summary summary; /* of one sample, played twice */
        tmk_stats_summary(scene.accounts[0].floats, &summary);
        assert_int_equal(summary.updates, 2 * m);
        assert_int_equal(summary.samples, 1);
        assert_true(output(&scene, 0, 2)[1] == (float)(10 * (m + 1)));
        assert_true(output(&scene, 1, (size_t)(2 * m))[0] == 2.0f);
        clear(&scene);
    }
}

TEST(a_scan_slices_and_stacks_along_its_axes) {
    static const char text[] =
        "graph \"g\" opset 17 {\n input %s : f32[2]\n input %x : f32[2,3]\n"
        " %t, %y = Scan(%s, %x) {body=graph \"b\" {\n input %a : f32[2]\n input %e : f32[2]\n"
        " %n = Add(%a, %e)\n output %n\n output %n\n }, num_scan_inputs=1,"
        " scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1]}\n"
        " output %t\n output %y\n}";
    struct scene scene;
    float s[2] = {0, 0}, x[6] = {1, 2, 3, 10, 20, 30};
    struct tmk_tensor inputs[2];
    tmk_tensor_borrow(&inputs[0], TMK_FLOAT32, &(struct tmk_shape){1, {2}}, s);
    tmk_tensor_borrow(&inputs[1], TMK_FLOAT32, &(struct tmk_shape){2, {2, 3}}, x);
    play(&scene, text, inputs, DIAG);
    assert_true(output(&scene, 0, 2)[1] == 60.0f);
    static const float want[6] = {3, 5, 6, 30, 50, 60};
    assert_memory_equal(output(&scene, 1, 6), want, sizeof want);
    clear(&scene);
}

TEST(a_batched_scan_ends_each_sequence_at_its_length) {
    static const char text[] =
        "graph \"g\" opset 8 {\n input %l : i64[2]\n input %s : f32[2,1]\n input %x : f32[2,3,1]\n"
        " %t, %y = Scan(%l, %s, %x) {body=graph \"b\" {\n input %a : f32[1]\n input %e : f32[1]\n"
        " %n = Add(%a, %e)\n output %n\n output %n\n }, directions=[1], num_scan_inputs=1}\n"
        " output %t\n output %y\n}";
    struct scene scene;
    int64_t lengths[2] = {2, 0};
    float s[2] = {100, 200}, x[6] = {1, 2, 3, 4, 5, 6};
    struct tmk_tensor inputs[3];
    tmk_tensor_borrow(&inputs[0], TMK_INT64, &(struct tmk_shape){1, {2}}, lengths);
    tmk_tensor_borrow(&inputs[1], TMK_FLOAT32, &(struct tmk_shape){2, {2, 1}}, s);
    tmk_tensor_borrow(&inputs[2], TMK_FLOAT32, &(struct tmk_shape){3, {2, 3, 1}}, x);
    play(&scene, text, inputs, DIAG);
    static const float finals[2] = {103, 200}, outputs[6] = {102, 103, 0, 0, 0, 0};
    assert_memory_equal(output(&scene, 0, 2), finals, sizeof finals);
    assert_memory_equal(output(&scene, 1, 6), outputs, sizeof outputs);
    clear(&scene);

    play(&scene, text, inputs, DIAG);
    lengths[1] = 4;
    must_fail(tmk_worker_run(scene.worker, scene.plan, inputs, NULL, DIAG), TMK_RANGE,
              "a length of 4 is outside [0, 3]");
    clear(&scene);
}
