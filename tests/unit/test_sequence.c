/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals, from the planner to the last output. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run.h"
#include "exec/worker.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "tensor/list.h"

struct sequence_scene {
    struct tmk_graph *graph;
    struct tmk_plan *plan;
    struct tmk_worker *worker;
    uint64_t looks; /* at tensors */
};

static enum tmk_status look_at(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                               int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct sequence_scene *scene = context;
    (void)slot, (void)channel_axis, (void)block, (void)diag;
    scene->looks += tensor->kind == TMK_TYPE_TENSOR;
    return TMK_OK;
}

static void read_graph(struct sequence_scene *scene, const char *body) {
    char text[4096];
    *scene = (struct sequence_scene){0};
    int length =
        snprintf(text, sizeof text,
                 "graph \"g\" opset 21 \"ai.tidemark\" 1 \"ai.onnx.preview\" 1 {\n%s\n}\n", body);
    assert_true(length > 0 && (size_t)length < sizeof text);
    if (parse_graph(text, NULL, &scene->graph, DIAG) != TMK_OK ||
        tmk_ops_bind(scene->graph, DIAG) != TMK_OK)
        fail_msg("%s: %s", body, test_diag.text);
    tmk_graph_number(scene->graph);
}

/* Twice, since what a run leaves behind must not disturb the next. */
static enum tmk_status play_sequence(struct sequence_scene *scene, const struct tmk_tensor *inputs,
                                     struct tmk_diag *diag) {
    static const struct tmk_plan_options plain_steps = {.plain = true};
    const struct tmk_watch watch = {.look = look_at, .context = scene};
    assert_ok(tmk_worker_create(&scene->worker, diag), diag);
    enum tmk_status status =
        tmk_plan_create(scene->graph, inputs, &plain_steps, &scene->plan, diag);
    for (int round = 0; status == TMK_OK && round < 2; round++)
        status = tmk_worker_run(scene->worker, scene->plan, inputs, &watch, diag);
    return status;
}

static void clear_sequence(struct sequence_scene *scene) {
    tmk_worker_destroy(&scene->worker);
    tmk_plan_destroy(&scene->plan);
    tmk_graph_destroy(&scene->graph);
}

static void check_same(const char *body, const struct tmk_tensor *got,
                       const struct tmk_tensor *want) {
    char shape[128];
    assert_int_equal(got->kind, TMK_TYPE_TENSOR);
    if (got->dtype != want->dtype || !tmk_shape_equal(&got->shape, &want->shape))
        fail_msg("%s: is %s%s", body, tmk_dtype_name(got->dtype),
                 tmk_shape_text(&got->shape, shape, sizeof shape));
    size_t bytes = tmk_tensor_bytes(got);
    if (bytes && memcmp(got->data, want->data, bytes) != 0)
        fail_msg("%s: elements differ", body);
}

/* The first output is what the initializer %want holds. */
static void gives(const char *body) {
    struct sequence_scene scene;
    read_graph(&scene, body);
    if (play_sequence(&scene, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", body, test_diag.text);
    struct tmk_tensor got = tmk_worker_value(scene.worker, scene.graph->outputs[0]);
    const struct tmk_tensor *want = NULL;
    for (uint32_t i = 0; i < scene.graph->n_values; i++)
        if (strcmp(scene.graph->values[i]->name, "want") == 0)
            want = &scene.graph->values[i]->data;
    assert_non_null(want);
    check_same(body, &got, want);
    clear_sequence(&scene);
}

static void refuses(const char *body, enum tmk_status status, const char *why) {
    struct sequence_scene scene;
    read_graph(&scene, body);
    enum tmk_status got = play_sequence(&scene, NULL, DIAG);
    if (got != status || !strstr(test_diag.text, why))
        fail_msg("%s: status %d, '%s'", body, (int)got, test_diag.text);
    clear_sequence(&scene);
}

#define TWO                                                                                        \
    "init %a : f32[2] = {1, 2}\n init %b : f32[1] = {3}\n init %minus : i64[] = {-1}\n"            \
    "init %zero : i32[] = {0}\n init %three : i64[] = {3}\n %s = SequenceConstruct(%a, %b)\n"

TEST(tensors_come_out_as_they_went_in) {
    gives(TWO "init %want : f32[2] = {1, 2}\n %y = SequenceAt(%s, %zero)\n output %y");
    gives(TWO "init %want : f32[1] = {3}\n %y = SequenceAt(%s, %minus)\n output %y");
    gives(TWO "init %want : i64[] = {2}\n %y = SequenceLength(%s)\n output %y");
    gives("init %want : i64[] = {0}\n %s = SequenceEmpty()\n %y = SequenceLength(%s)\n output %y");
    refuses(TWO "%y = SequenceAt(%s, %three)\n output %y", TMK_RANGE,
            "position 3 is outside [-2, 2)");
    refuses("init %zero : i64[] = {0}\n %s = SequenceEmpty()\n %y = SequenceAt(%s, %zero)\n"
            "output %y",
            TMK_RANGE, "of 0 tensors");
    refuses("init %a : f32[1] = {1}\n init %b : i64[1] = {1}\n %s = SequenceConstruct(%a, %b)\n"
            "output %s",
            TMK_TYPE, "input 1 is int64, but input 0 is float32");
}

TEST(inserting_and_erasing_leave_the_old_sequence_alone) {
    gives(TWO "init %c : f32[1] = {9}\n init %want : f32[1] = {9}\n"
              "%t = SequenceInsert(%s, %c, %minus)\n init %one : i64[] = {1}\n"
              "%y = SequenceAt(%t, %one)\n output %y");
    gives(TWO "init %c : f32[1] = {9}\n init %want : f32[1] = {9}\n"
              "%t = SequenceInsert(%s, %c)\n %y = SequenceAt(%t, %minus)\n output %y");
    gives(TWO "init %want : f32[1] = {3}\n %t = SequenceErase(%s, %zero)\n"
              "%y = SequenceAt(%t, %zero)\n output %y");
    gives(TWO "init %want : f32[2] = {1, 2}\n %t = SequenceErase(%s, %zero)\n"
              "%u = SequenceErase(%t)\n %y = SequenceAt(%s, %zero)\n output %y");
    refuses(TWO "%y = SequenceInsert(%s, %three)\n output %y", TMK_TYPE,
            "a tensor of int64 cannot go into a sequence of float32 tensors");
    refuses(TWO "%y = SequenceInsert(%s, %a, %three)\n output %y", TMK_RANGE, "[-2, 3)");
    refuses("%s = SequenceEmpty()\n %y = SequenceErase(%s)\n output %y", TMK_RANGE, "is empty");
}

TEST(what_is_cut_can_be_laid_side_by_side_again) {
    static const char matrix[] = "init %x : f32[2,3] = {1, 2, 3, 4, 5, 6}\n";
    char body[1024];
    snprintf(body, sizeof body,
             "%s init %%n : i64[] = {2}\n init %%want : f32[2,1] = {3, 6}\n"
             "init %%one : i64[] = {1}\n %%s = SplitToSequence(%%x, %%n) {axis=1}\n"
             "%%y = SequenceAt(%%s, %%one)\n output %%y",
             matrix);
    gives(body);
    snprintf(body, sizeof body,
             "%s init %%n : i64[3] = {1, 0, 2}\n init %%want : f32[2,3] = {1, 2, 3, 4, 5, 6}\n"
             "%%s = SplitToSequence(%%x, %%n) {axis=-1}\n"
             "%%y = ConcatFromSequence(%%s) {axis=1}\n output %%y",
             matrix);
    gives(body);
    snprintf(body, sizeof body,
             "%s init %%want : f32[3,2] = {1, 4, 2, 5, 3, 6}\n"
             "%%s = SplitToSequence(%%x) {axis=0, keepdims=0}\n"
             "%%y = ConcatFromSequence(%%s) {axis=-1, new_axis=1}\n output %%y",
             matrix);
    gives(body);
    snprintf(body, sizeof body, "%s init %%n : i64[2] = {1, 1}\n%s", matrix,
             "%s = SplitToSequence(%x, %n) {axis=1}\n output %s");
    refuses(body, TMK_SHAPE, "add up to 2, but the dimension is 3");
    snprintf(body, sizeof body, "%s init %%n : i64[] = {0}\n%s", matrix,
             "%s = SplitToSequence(%x, %n)\n output %s");
    refuses(body, TMK_RANGE, "parts of length 0");
    refuses("init %x : f32[2000000,0] = {}\n %s = SplitToSequence(%x)\n output %s", TMK_RANGE,
            "too long");
    refuses("%s = SequenceEmpty()\n %y = ConcatFromSequence(%s) {axis=0}\n output %y", TMK_SHAPE,
            "empty sequence");
    refuses(TWO "%y = ConcatFromSequence(%s) {axis=0, new_axis=1}\n output %y", TMK_SHAPE,
            "does not go beside");
}

TEST(other_operators_are_refused_sequences) {
    refuses(TWO "%y = Relu(%s)\n output %y", TMK_TYPE,
            "input 0 must be a tensor, but is a sequence");
    refuses(TWO "%y = Add(%a, %s)\n output %y", TMK_TYPE, "node Add");
    refuses(TWO "%y = Shape(%s)\n output %y", TMK_TYPE, "must be a tensor");
    refuses("%o = Optional() {type=:f32}\n %y = Neg(%o)\n output %y", TMK_TYPE,
            "an optional that holds nothing");
    refuses(TWO "%y = SequenceLength(%a)\n output %y", TMK_TYPE,
            "must be a sequence, but is a tensor");
    refuses(TWO "%y = SequenceAt(%s, %s)\n output %y", TMK_TYPE, "the position must be a tensor");
    refuses(TWO "%y = Loop(%s, _, %s) {body=graph \"b\" {\n input %i : i64[]\n input %c : bool[]\n"
                "input %v : sequence(f32)\n output %c\n output %v\n }}\n output %y",
            TMK_TYPE, "the trip count must be a tensor");
    refuses(TWO "%y, %z = Loop(%three, _, %s) {body=graph \"b\" {\n input %i : i64[]\n"
                "input %c : bool[]\n input %v : sequence(f32)\n %w = Identity(%v)\n output %c\n"
                "output %v\n output %w\n }}\n output %y",
            TMK_TYPE, "to be stacked must be a tensor, but is a sequence");
}

TEST(optionals_hold_something_or_nothing) {
    gives(TWO "init %want : bool[] = {1}\n %o = Optional(%s)\n %y = OptionalHasElement(%o)\n"
              "output %y");
    gives("init %want : bool[] = {0}\n %o = Optional() {type=:sequence(f32[2])}\n"
          "%p = Identity(%o)\n %y = OptionalHasElement(%p)\n output %y");
    gives("init %want : bool[] = {0}\n %y = OptionalHasElement()\n output %y");
    gives("init %want : bool[] = {0}\n %y = OptionalHasElement(_)\n output %y");
    gives(TWO "init %want : f32[2] = {1, 2}\n %o = Optional(%a)\n %y = OptionalGetElement(%o)\n"
              "output %y");
    refuses("%o = Optional() {type=:f32}\n %y = OptionalGetElement(%o)\n output %y", TMK_RANGE,
            "holds nothing");
    refuses("%y = Optional()\n output %y", TMK_GRAPH, "neither an input nor attribute 'type'");
}

#define OBSERVE_VALUE(to, from, id)                                                                \
    " %" to " = ai.tidemark::EdgeObserver(%" from ") {profile_id=" #id                             \
    ", kind=\"histogram\", tensor_name=\"" from "\"}\n"

/* The sequence grows by a tensor an iteration; an observer gets those, not the sequence. */
TEST(a_loop_carries_a_sequence) {
    static const char body[] =
        "input %m : i64[]\n init %two : f32[] = {2}\n %e = SequenceEmpty()\n"
        " %s = Loop(%m, _, %e) {body=graph \"b\" {\n input %i : i64[]\n input %c : bool[]\n"
        " input %v : sequence(f32)\n %f = Cast(%i) {to=1}\n %w = Mul(%f, %two)\n" OBSERVE_VALUE(
            "wo", "w", 0) OBSERVE_VALUE("vo", "v", 1) " %u = SequenceInsert(%vo, %wo)\n output %c\n"
                                                      " output %u\n }}\n" OBSERVE_VALUE(
                                                          "so", "s", 2) " output %so";
    for (int64_t m = 0; m < 70; m += 23) {
        struct sequence_scene scene;
        struct tmk_tensor input;
        read_graph(&scene, body);
        tmk_tensor_borrow(&input, TMK_INT64, &(struct tmk_shape){0, {0}}, &m);
        must(play_sequence(&scene, &input, DIAG));
        assert_int_equal(scene.looks, 2 * m);
        struct tmk_tensor got = tmk_worker_value(scene.worker, scene.graph->outputs[0]);
        assert_int_equal(got.kind, TMK_TYPE_SEQUENCE);
        assert_int_equal(got.dtype, TMK_FLOAT32);
        assert_int_equal(tmk_list_length(got.list), m);
        for (int64_t i = 0; i < m; i++)
            assert_true(*(float *)tmk_list_items(got.list)[i].data == (float)(2 * i));
        clear_sequence(&scene);
    }
}

TEST(a_branch_gives_a_sequence_or_nothing) {
    static const char body[] =
        "init %a : f32[1] = {1}\n %o = If(%c) {then_branch=graph \"t\" {\n"
        " %s = SequenceConstruct(%a, %a)\n %p = Optional(%s)\n output %p\n },"
        " else_branch=graph \"e\" {\n %n = Optional() {type=:sequence(f32)}\n output %n\n }}\n"
        " %has = OptionalHasElement(%o)\n %y = If(%has) {then_branch=graph \"t\" {\n"
        " %q = OptionalGetElement(%o)\n %l = SequenceLength(%q)\n output %l\n },"
        " else_branch=graph \"e\" {\n init %none : i64[] = {-1}\n output %none\n }}\n output %y";
    char text[2048];
    snprintf(text, sizeof text, "init %%c : bool[] = {1}\n init %%want : i64[] = {2}\n%s", body);
    gives(text);
    snprintf(text, sizeof text, "init %%c : bool[] = {0}\n init %%want : i64[] = {-1}\n%s", body);
    gives(text);
}

#define MAPPED                                                                                     \
    " %y = SequenceMap(%s, %b) {body=graph \"m\" {\n input %e : f32[?]\n input %k : f32[1]\n"      \
    " %r = Add(%e, %k)\n output %r\n }}\n"

TEST(a_graph_maps_a_sequence) {
    gives(TWO MAPPED "init %want : f32[3] = {4, 5, 6}\n %z = ConcatFromSequence(%y) {axis=0}\n"
                     "output %z");
    gives("init %b : f32[1] = {3}\n %s = SequenceEmpty()\n" MAPPED
          "init %want : i64[] = {0}\n %z = SequenceLength(%y)\n output %z");
    refuses(TWO "%t = SequenceErase(%s)\n %y = SequenceMap(%s, %t) {body=graph \"m\" {\n"
                "input %e : f32[?]\n input %k : f32[1]\n output %e\n }}\n output %y",
            TMK_SHAPE, "have 2 and 1 tensors");
    refuses(TWO "%y = SequenceMap(%s) {body=graph \"m\" {\n input %e : f32[?]\n"
                "%q = SequenceConstruct(%e)\n output %q\n }}\n output %y",
            TMK_TYPE, "what its graph makes must be a tensor");
}

#define QUERY "init %q : f32[1,1,1,1] = {0}\n init %k : f32[1,1,2,1] = {1, 2}\n"
#define FLEX(attrs)                                                                                \
    QUERY "init %v : f32[1,1,2,1] = {4, 8}\n %y = ai.onnx.preview::FlexAttention(%q, %k, "         \
          "%v)" attrs

/* All scores are 0 before the graphs. */
TEST(graphs_change_scores_and_probabilities) {
    static const char *const cases[][2] = {
        {FLEX("\n"), "6"},
        /* a bias of ln 3 on the second key */
        {FLEX(" {score_mod=graph \"s\" {\n input %x : f32[?,?,?,?]\n"
              "init %b : f32[2] = {0, 1.0986123}\n %m = Add(%x, %b)\n output %m\n }}\n"),
         "7"},
        {FLEX(" {prob_mod=graph \"p\" {\n input %x : f32[?,?,?,?]\n"
              "%m = Add(%x, %x)\n output %m\n }}\n"),
         "12"},
        /* what a graph hands on unchanged is not overwritten */
        {FLEX(" {score_mod=graph \"s\" {\n input %x : f32[?,?,?,?]\n output %x\n }}\n"), "6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "init %%f : f32[] = {%s}\n%sinit %%want : bool[] = {1}\n %%d = Sub(%%y, %%f)\n"
                 " %%n = Abs(%%d)\n %%s = ReduceMax(%%n) {keepdims=0}\n"
                 " init %%e : f32[] = {1e-5}\n %%z = Less(%%s, %%e)\n output %%z",
                 cases[i][1], cases[i][0]);
        gives(text);
    }
    refuses(FLEX(" {score_mod=graph \"s\" {\n input %x : f32[?,?,?,?]\n"
                 "%m = ReduceMax(%x)\n output %m\n }}\n output %y"),
            TMK_SHAPE, "the graph 'score_mod' makes [1,1,1,1]");
    refuses(FLEX(" {prob_mod=graph \"p\" {\n input %x : f32[?,?,?,?]\n"
                 "%m = Cast(%x) {to=7}\n output %m\n }}\n output %y"),
            TMK_TYPE, "prob_mod");
    refuses(FLEX(" {prob_mod=graph \"p\" {\n input %x : f32[?,?,?,?]\n"
                 "output %x\n output %x\n }}\n output %y"),
            TMK_GRAPH, "makes 2 values, not 1");
    refuses(QUERY "%y = ai.onnx.preview::FlexAttention(%q, %k, %q)\n output %y", TMK_SHAPE,
            "do not fit each other");
    refuses(QUERY "init %v : f32[2,1] = {4, 8}\n"
                  "%y = ai.onnx.preview::FlexAttention(%q, %k, %v)\n output %y",
            TMK_SHAPE, "input 'V' is [2,1], not [?,?,?,?]");
}

TEST(a_sequence_can_be_an_input) {
    static const char body[] = "input %s : optional(sequence(f32))\n %y = Identity(%s)\n output %y";
    struct tmk_tensor inputs[3];
    struct tmk_list *list = tmk_list_create(1);
    const struct tmk_shape one = {1, {1}};
    assert_non_null(list);
    must(tmk_tensor_init(tmk_list_place(list, 0), TMK_FLOAT32, &one, DIAG));
    tmk_tensor_of_list(&inputs[0], TMK_FLOAT32, list);
    tmk_tensor_nothing(&inputs[1], TMK_FLOAT32);
    must(tmk_tensor_init(&inputs[2], TMK_FLOAT32, &one, DIAG));
    for (int i = 0; i < 3; i++) {
        struct sequence_scene scene;
        read_graph(&scene, body);
        if (i == 2) {
            assert_int_equal(play_sequence(&scene, &inputs[i], DIAG), TMK_TYPE);
            assert_non_null(
                strstr(test_diag.text, "wants an optional sequence, but the data is a tensor"));
        } else {
            must(play_sequence(&scene, &inputs[i], DIAG));
            struct tmk_tensor got = tmk_worker_value(scene.worker, scene.graph->outputs[0]);
            assert_int_equal(got.kind, inputs[i].kind);
            assert_ptr_equal(got.list, inputs[i].list);
        }
        clear_sequence(&scene);
        tmk_tensor_finish(&inputs[i]);
    }
}
