/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "graph_text/read.h"
#include "ops/ops.h"
#include "plan/plan.h"

static uint32_t noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- the memory planner ---- */

TEST(blocks_alive_together_never_overlap) {
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        struct tmk_block blocks[60];
        size_t n = 1 + noise(&seed) % 60, end = 0, most = 0;
        for (size_t i = 0; i < n; i++) {
            uint32_t first = noise(&seed) % 40;
            blocks[i] =
                (struct tmk_block){noise(&seed) % 5000, first, first + noise(&seed) % 10, 0};
        }
        must(tmk_place_blocks(blocks, n, &end, DIAG));
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(blocks[i].offset % 64, 0);
            assert_true(blocks[i].offset + blocks[i].bytes <= end);
            for (size_t k = 0; k < i; k++) {
                bool together =
                    blocks[i].first <= blocks[k].last && blocks[k].first <= blocks[i].last;
                bool apart = blocks[i].offset + blocks[i].bytes <= blocks[k].offset ||
                             blocks[k].offset + blocks[k].bytes <= blocks[i].offset;
                assert_true(!together || apart || !blocks[i].bytes || !blocks[k].bytes);
            }
        }
        for (uint32_t step = 0; step < 50;
             step++) { /* no plan can need less than the fullest step */
            size_t alive = 0;
            for (size_t i = 0; i < n; i++)
                alive += blocks[i].first <= step && step <= blocks[i].last ? blocks[i].bytes : 0;
            most = alive > most ? alive : most;
        }
        assert_true(end >= most);
    }
}

TEST(a_leading_gap_is_used_again) {
    size_t end = 0;
    struct tmk_block blocks[] = {{4096, 0, 1, 0}, {4096, 1, 2, 0}, {4096, 2, 3, 0}};
    assert_int_equal(tmk_place_blocks(blocks, 3, &end, NULL), TMK_OK);
    assert_int_equal(end, 8192);
    assert_int_equal(blocks[2].offset, blocks[0].offset);
}

TEST(sizes_that_overflow_are_refused) {
    size_t end = 0;
    struct tmk_block blocks[] = {{SIZE_MAX - 8, 0, 1, 0}, {64, 0, 1, 0}};
    assert_int_equal(tmk_place_blocks(blocks, 2, &end, NULL), TMK_RANGE);
}

/* ---- plans ---- */

struct fixture {
    struct tmk_graph *graph;
    struct tmk_plan *plan;
};

static enum tmk_status make_plan(struct fixture *f, const char *text,
                                 const struct tmk_shape *shape) {
    *f = (struct fixture){0};
    must(parse_graph(text, NULL, &f->graph, DIAG));
    must(tmk_ops_bind(f->graph, DIAG));
    tmk_graph_number(f->graph);
    struct tmk_tensor input;
    tmk_tensor_borrow(&input, TMK_FLOAT32, shape, NULL);
    static const struct tmk_plan_options node_by_node = {.plain = true};
    return tmk_plan_create(f->graph, &input, &node_by_node, &f->plan, DIAG);
}

static void drop_plan(struct fixture *f) {
    tmk_plan_destroy(&f->plan);
    tmk_graph_destroy(&f->graph);
}

static const struct tmk_plan_value *planned(const struct fixture *f, const char *name) {
    for (uint32_t i = 0; i < f->graph->n_values; i++)
        if (strcmp(f->graph->values[i]->name, name) == 0)
            return &f->plan->values[f->graph->values[i]->index];
    fail_msg("no value %s", name);
    return NULL;
}

static const struct tmk_shape two_by_three = {2, {2, 3}};

TEST(elementwise_chains_run_in_place) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %a = Exp(%x)\n %b = Relu(%a)\n"
                   " %c = Neg(%b)\n output %c\n}",
                   &two_by_three));
    assert_int_equal(planned(&f, "x")->place, TMK_PLACE_INPUT);
    assert_int_equal(planned(&f, "a")->offset, planned(&f, "b")->offset);
    assert_int_equal(planned(&f, "b")->offset, planned(&f, "c")->offset);
    assert_int_equal(f.plan->arena_bytes, 64);
    drop_plan(&f);
}

TEST(a_value_that_is_read_again_is_not_overwritten) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %a = Exp(%x)\n %b = Relu(%a)\n"
                   " %c = Add(%b, %a)\n output %c\n}",
                   &two_by_three));
    assert_int_not_equal(planned(&f, "a")->offset, planned(&f, "b")->offset);
    drop_plan(&f);
}

TEST(a_kept_output_is_not_overwritten) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %a = Exp(%x)\n %b = Relu(%a)\n"
                   " output %a\n output %b\n}",
                   &two_by_three));
    assert_int_not_equal(planned(&f, "a")->offset, planned(&f, "b")->offset);
    drop_plan(&f);
}

TEST(a_view_keeps_the_memory_it_shows_alive) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %a = Exp(%x)\n"
                   " %v = Flatten(%a) {axis=0}\n %b = Sin(%x)\n %c = Cos(%b)\n %d = Neg(%v)\n"
                   " output %d\n output %c\n}",
                   &two_by_three));
    assert_int_equal(planned(&f, "v")->place, TMK_PLACE_ARENA);
    assert_int_equal(planned(&f, "v")->offset, planned(&f, "a")->offset);
    assert_int_not_equal(planned(&f, "b")->offset, planned(&f, "a")->offset);
    drop_plan(&f);
}

TEST(arithmetic_on_shapes_is_done_while_planning) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n"
                   " init %one : i64[1] = {1}\n init %m : i64[1] = {-1}\n %s = Shape(%x)\n"
                   " %n = Gather(%s, %one)\n %t = Concat(%m, %n) {axis=0}\n"
                   " %y = Reshape(%x, %t)\n output %y\n}",
                   &two_by_three));
    assert_int_equal(f.plan->n_steps, 1);
    assert_int_equal(planned(&f, "t")->place, TMK_PLACE_CONSTANT);
    assert_int_equal(planned(&f, "y")->place, TMK_PLACE_INPUT);
    assert_true(tmk_shape_equal(&planned(&f, "y")->shape, &two_by_three));
    drop_plan(&f);
}

TEST(shapes_that_depend_on_elements_are_left_to_the_run) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %i = NonZero(%x)\n"
                   " %j = Cast(%i) {to=1}\n output %j\n}",
                   &two_by_three));
    assert_int_equal(planned(&f, "i")->place, TMK_PLACE_DYNAMIC);
    assert_int_equal(planned(&f, "j")->place, TMK_PLACE_DYNAMIC);
    assert_true(f.plan->steps[1].dynamic);
    assert_int_equal(f.plan->steps[1].n_free, 1);
    drop_plan(&f);
}

TEST(an_observer_is_a_tap_and_no_step) {
    struct fixture f;
    must(make_plan(&f,
                   "graph \"g\" opset 17 \"ai.tidemark\" 1 {\n input %x : f32[2,3]\n"
                   " %xo = ai.tidemark::EdgeObserver(%x) {profile_id=0, kind=\"range\", "
                   "tensor_name=\"x\"}\n %a = Exp(%xo)\n"
                   " %ao = ai.tidemark::EdgeObserver(%a) {profile_id=1, kind=\"range\", "
                   "tensor_name=\"a\"}\n %b = Relu(%ao)\n"
                   " output %b\n}",
                   &two_by_three));
    assert_int_equal(f.plan->n_steps, 2);
    assert_int_equal(f.plan->n_input_taps, 1);
    assert_int_equal(f.plan->n_taps, 1);
    assert_int_equal(f.plan->taps[0].slot, 1);
    assert_int_equal(f.plan->steps[0].n_taps, 1);
    assert_int_equal(planned(&f, "ao")->offset, planned(&f, "b")->offset);
    drop_plan(&f);
}

TEST(data_that_does_not_fit_the_input_is_refused) {
    struct fixture f;
    const struct tmk_shape wrong = {2, {2, 4}};
    assert_int_equal(make_plan(&f,
                               "graph \"g\" opset 17 {\n input %x : f32[\"N\",3] \"image\"\n"
                               " %a = Exp(%x)\n output %a\n}",
                               &wrong),
                     TMK_SHAPE);
    assert_non_null(
        strstr(test_diag.text, "input 'image' has shape [?,3], but the data has [2,4]"));
    drop_plan(&f);
}

TEST(a_number_may_come_as_an_array_of_one) {
    struct fixture f;
    static const char *const text = "graph \"g\" opset 17 {\n input %x : f32[] \"t\"\n"
                                    " %a = Exp(%x)\n output %a\n}";
    assert_int_equal(make_plan(&f, text, &(struct tmk_shape){1, {1}}), TMK_OK);
    assert_int_equal(planned(&f, "a")->shape.rank, 1);
    drop_plan(&f);
    assert_int_equal(make_plan(&f, text, &(struct tmk_shape){1, {2}}), TMK_SHAPE);
    drop_plan(&f);
}

TEST(an_error_names_its_node) {
    struct fixture f;
    assert_int_equal(make_plan(&f,
                               "graph \"g\" opset 17 {\n input %x : f32[2,3]\n"
                               " init %w : f32[4] = {1,2,3,4}\n %a = Add(%x, %w) : ? \"sum\"\n"
                               " output %a\n}",
                               &two_by_three),
                     TMK_SHAPE);
    assert_non_null(strstr(test_diag.text, "Add #0"));
    drop_plan(&f);
}
