/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/rewrite.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "pass/pass.h"

static const char lineage_model[] = "graph \"g\" opset 17 {\n input %x : f32[1,2,3]\n"
                                    " init %w : f32[2,1] = {2,4}\n"
                                    " %a = Mul(%x, %w) : f32[1,2,3]\n"
                                    " %i = Identity(%a) : f32[1,2,3]\n"
                                    " %b = Relu(%i) : f32[1,2,3]\n"
                                    " %c = Neg(%b) : f32[1,2,3]\n"
                                    " output %c\n}";

struct scene {
    struct tmk_graph *graph;
    struct tmk_lineage *lineage;
    struct tmk_rewrite rw;
};

static void begin(struct scene *s, const char *text) {
    *s = (struct scene){0};
    must(parse_graph(text, NULL, &s->graph, DIAG));
    must(tmk_ops_bind(s->graph, DIAG));
    must(tmk_graph_identify(s->graph, NULL, DIAG));
    must(tmk_lineage_create(s->graph, &s->lineage, DIAG));
    s->rw = (struct tmk_rewrite){
        .graph = s->graph, .lineage = s->lineage, .pass = "test", .diag = DIAG};
    must(tmk_rewrite_begin(&s->rw));
}

static void end(struct scene *s) {
    tmk_rewrite_finish(&s->rw);
    tmk_lineage_destroy(&s->lineage);
    tmk_graph_destroy(&s->graph);
}

static struct tmk_value *named(struct scene *s, const char *name) {
    for (uint32_t i = 0; i < s->graph->n_values; i++)
        if (strcmp(s->graph->values[i]->name, name) == 0)
            return s->graph->values[i];
    fail_msg("no value is called %s", name);
    return NULL;
}

static const struct tmk_origin *origin(struct scene *s, const char *name) {
    for (uint32_t i = 0; i < tmk_lineage_size(s->lineage); i++)
        if (strcmp(tmk_lineage_origin(s->lineage, i)->name, name) == 0)
            return tmk_lineage_origin(s->lineage, i);
    fail_msg("no original was called %s", name);
    return NULL;
}

static void is_sound(struct scene *s) {
    must(tmk_graph_verify(s->graph, DIAG));
    must(tmk_lineage_audit(s->lineage, s->graph, DIAG));
}

static void replace(struct scene *s, const char *from, const char *to,
                    const struct tmk_relation *how) {
    must(tmk_rewrite_replace(&s->rw, named(s, from), named(s, to), how));
}

static struct tmk_relation scaled(const double *scale, const double *shift, uint32_t n,
                                  int32_t axis) {
    return (struct tmk_relation){.affine = {.n = n, .axis = axis, .scale = scale, .shift = shift}};
}

TEST(every_value_starts_as_itself) {
    struct scene s;
    begin(&s, lineage_model);
    assert_int_equal(tmk_lineage_size(s.lineage), 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(tmk_lineage_origin(s.lineage, i)->fate, TMK_LINEAGE_SAME);
    assert_non_null(origin(&s, "w")->constant.data);
    is_sound(&s);
    end(&s);
}

TEST(what_is_replaced_by_an_equal_is_merged) {
    struct scene s;
    begin(&s, lineage_model);
    struct tmk_node *identity = named(&s, "i")->producer;
    replace(&s, "i", "a", NULL);
    tmk_rewrite_remove(&s.rw, identity);
    assert_true(s.rw.progress);
    assert_int_equal(origin(&s, "i")->fate, TMK_LINEAGE_MERGED);
    assert_ptr_equal(origin(&s, "i")->value, named(&s, "a"));
    assert_string_equal(origin(&s, "i")->pass, "test");
    assert_int_equal(origin(&s, "a")->fate, TMK_LINEAGE_SAME);
    is_sound(&s);
    struct tmk_text text = {0};
    tmk_lineage_put(s.lineage, named(&s, "a"), &text);
    assert_string_equal(text.data, " @p2 @=p3");
    tmk_text_finish(&text);
    end(&s);
}

TEST(a_new_value_takes_over_the_id_and_the_output_s_name) {
    struct scene s;
    begin(&s, lineage_model);
    struct tmk_value *c = named(&s, "c"), *b = named(&s, "b");
    struct tmk_node *node = NULL, *old = c->producer;
    must(tmk_rewrite_node(&s.rw, old, "", "Neg", "c", 0, &b, 1, &node));
    assert_string_equal(node->outputs[0]->name, "c_1");
    assert_true(tmk_rewrite_can_replace(&s.rw, c, node->outputs[0], true));
    assert_false(tmk_rewrite_can_replace(&s.rw, c, node->outputs[0], false));
    assert_false(tmk_rewrite_can_replace(&s.rw, c, named(&s, "x"), true));
    must(tmk_rewrite_replace(&s.rw, c, node->outputs[0], NULL));
    tmk_rewrite_remove(&s.rw, old);
    assert_string_equal(s.graph->outputs[0]->name, "c");
    assert_true(node->outputs[0]->type.has_shape);
    assert_int_equal(origin(&s, "c")->fate, TMK_LINEAGE_SAME);
    is_sound(&s);
    end(&s);
}

TEST(scales_one_after_another_multiply) {
    struct scene s;
    begin(&s, lineage_model);
    const double scale[] = {2, 4}, shift[] = {1, 0}, back[] = {0.5, 0.25}, undo[] = {-0.5, 0};
    struct tmk_relation how = scaled(scale, shift, 2, 1);
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    const struct tmk_origin *b = origin(&s, "b");
    assert_int_equal(b->fate, TMK_LINEAGE_AFFINE);
    assert_int_equal(b->value->profile_id, -1);
    is_sound(&s);
    const double twice = 3, more = 1;
    how = scaled(&twice, &more, 1, 0);
    must(tmk_rewrite_rescale(&s.rw, b->value, &how));
    assert_int_equal(b->how.affine.n, 2);
    assert_true(b->how.affine.scale[1] == 12 && b->how.affine.shift[0] == 4);
    const double third = 1.0 / 3, less = -1.0 / 3;
    how = scaled(&third, &less, 1, 0);
    must(tmk_rewrite_rescale(&s.rw, b->value, &how));
    how = scaled(back, undo, 2, 1);
    must(tmk_rewrite_rescale(&s.rw, b->value, &how));
    assert_int_equal(b->fate, TMK_LINEAGE_SAME); /* scale 1, shift 0 again */
    assert_int_equal(b->value->profile_id, (int64_t)b->id);
    is_sound(&s);
    end(&s);
}

TEST(scales_along_other_axes_can_t_be_said_together) {
    struct scene s;
    begin(&s, lineage_model);
    const double two[] = {2, 4}, three[] = {1, 2, 3}, none[3] = {0};
    struct tmk_relation how = scaled(two, none, 2, 1);
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    how = scaled(three, none, 3, 2);
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    assert_int_equal(origin(&s, "b")->fate, TMK_LINEAGE_ABSORBED);
    is_sound(&s);
    end(&s);
}

TEST(a_transpose_moves_the_channels_axis_and_another_brings_it_back) {
    struct scene s;
    begin(&s, lineage_model);
    struct tmk_type unknown = {.dtype = TMK_FLOAT32, .origin = TMK_FLOAT32};
    must(tmk_value_set_type(named(&s, "b"), &unknown, DIAG));
    const double scale[] = {2, 4}, shift[] = {0, 0};
    struct tmk_relation how = scaled(scale, shift, 2, 1);
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    how = (struct tmk_relation){.view = {.rank = 3, .perm = {0, 2, 1}}};
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    const struct tmk_origin *b = origin(&s, "b");
    assert_int_equal(b->fate, TMK_LINEAGE_AFFINE);
    assert_int_equal(b->how.affine.axis, 2);
    struct tmk_text text = {0};
    tmk_lineage_put(s.lineage, b->value, &text);
    assert_string_equal(text.data, " @p4*s+b:view");
    tmk_text_finish(&text);
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    assert_int_equal(b->how.affine.axis, 1);
    assert_int_equal(b->how.view.rank, 0);
    how = (struct tmk_relation){.view = {.reshaped = true}};
    must(tmk_rewrite_rescale(&s.rw, named(&s, "b"), &how));
    assert_int_equal(b->fate, TMK_LINEAGE_ABSORBED);
    is_sound(&s);
    end(&s);
}

TEST(weights_that_are_scaled_go_along_and_weights_in_use_elsewhere_stay) {
    struct scene s;
    begin(&s, lineage_model);
    const struct tmk_origin *w = origin(&s, "w");
    struct tmk_value *fresh = NULL;
    struct tmk_tensor half;
    const float numbers[] = {1, 2};
    must(tmk_tensor_init(&half, TMK_FLOAT32, &named(&s, "w")->data.shape, DIAG));
    memcpy(half.data, numbers, sizeof numbers);
    must(tmk_rewrite_initializer(&s.rw, s.graph, "w", &half, &fresh));
    const double scale = 0.5, shift = 0;
    const struct tmk_relation how = scaled(&scale, &shift, 1, 0);
    must(tmk_rewrite_set_input(&s.rw, named(&s, "a")->producer, 1, fresh, &how));
    assert_ptr_equal(w->value, fresh);
    assert_int_equal(w->fate, TMK_LINEAGE_AFFINE);
    is_sound(&s);
    tmk_tensor_finish(&half);
    end(&s);

    begin(&s, "graph \"g\" opset 17 {\n input %x : f32[1,2,3]\n init %w : f32[2,1] = {2,4}\n"
              " %a = Mul(%x, %w)\n %b = Mul(%a, %w)\n output %b\n}");
    must(tmk_tensor_init(&half, TMK_FLOAT32, &named(&s, "w")->data.shape, DIAG));
    must(tmk_rewrite_initializer(&s.rw, s.graph, "w", &half, &fresh));
    must(tmk_rewrite_set_input(&s.rw, named(&s, "a")->producer, 1, fresh, &how));
    assert_int_equal(origin(&s, "w")->fate, TMK_LINEAGE_SAME);
    assert_int_equal(fresh->origins, 0);
    is_sound(&s);
    tmk_tensor_finish(&half);
    end(&s);
}

TEST(what_is_folded_keeps_its_numbers_also_when_the_initializer_goes) {
    struct scene s;
    begin(&s, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %w : f32[2] = {2,4}\n"
              " %n = Neg(%w) : f32[2]\n %a = Mul(%x, %n) : f32[2]\n output %a\n}");
    struct tmk_tensor folded;
    const float numbers[] = {-2, -4};
    struct tmk_value *n = named(&s, "n"), *w = named(&s, "w");
    must(tmk_tensor_init(&folded, TMK_FLOAT32, &w->data.shape, DIAG));
    memcpy(folded.data, numbers, sizeof numbers);
    must(tmk_rewrite_fold(&s.rw, n, &folded));
    tmk_rewrite_remove(&s.rw, n->producer);
    tmk_rewrite_drop(&s.rw, w);
    tmk_tensor_finish(&folded);
    const struct tmk_origin *was = origin(&s, "n");
    assert_int_equal(was->fate, TMK_LINEAGE_CONSTANT);
    assert_string_equal(was->value->name, "n");
    assert_int_equal(was->value->kind, TMK_VALUE_INITIALIZER);
    assert_memory_equal(was->constant.data, numbers, sizeof numbers);
    assert_int_equal(origin(&s, "w")->fate, TMK_LINEAGE_CONSTANT);
    assert_null(origin(&s, "w")->value);
    is_sound(&s);
    must(tmk_node_set_input(named(&s, "a")->producer, 1, named(&s, "x"), DIAG));
    tmk_rewrite_drop(&s.rw, was->value);
    assert_int_equal(was->fate, TMK_LINEAGE_CONSTANT);
    assert_memory_equal(was->constant.data, numbers, sizeof numbers);
    is_sound(&s);
    end(&s);
}

TEST(a_forgotten_fate_is_an_error_that_names_the_value) {
    struct scene s;
    begin(&s, lineage_model);
    struct tmk_value *i = named(&s, "i");
    must(tmk_value_replace(i, named(&s, "a"), NULL, true, DIAG));
    tmk_node_remove(i->producer); /* behind the framework's back */
    must_fail(tmk_lineage_audit(s.lineage, s.graph, DIAG), TMK_GRAPH, "p3 'i'");
    end(&s);
}

TEST(pinned_values_keep_their_numbers) {
    struct scene s;
    begin(&s, lineage_model);
    assert_true(tmk_rewrite_may_change(&s.rw, named(&s, "a")));
    assert_true(tmk_rewrite_is_interior(&s.rw, named(&s, "a")));
    must(tmk_rewrite_pin(&s.rw, named(&s, "a")));
    assert_false(tmk_rewrite_may_change(&s.rw, named(&s, "a")));
    assert_false(tmk_rewrite_is_interior(&s.rw, named(&s, "a")));
    assert_false(tmk_rewrite_is_interior(&s.rw, named(&s, "c")));
    end(&s);
}

TEST(dead_nodes_go_with_all_that_only_they_needed) {
    struct scene s;
    begin(&s, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %w : f32[2] = {2,4}\n"
              " init %c : bool[] = {1}\n"
              " %d = Neg(%w)\n %e = Mul(%x, %d)\n"
              " %f = If(%c) {then_branch=graph \"t\" {\n %t = Neg(%x)\n %u = Exp(%x)\n"
              " output %t\n}, else_branch=graph \"e\" {\n %v = Abs(%x)\n output %v\n}}\n"
              " %g = If(%c) {then_branch=graph \"t2\" {\n %t2 = Neg(%x)\n output %t2\n},"
              " else_branch=graph \"e2\" {\n %v2 = Abs(%x)\n output %v2\n}}\n"
              " output %f\n}");
    tmk_rewrite_finish(&s.rw);
    const struct tmk_pass *pass = tmk_pass_find("eliminate-dead");
    bool progress = false;
    must(run_passes_reparsed(&s.graph, s.lineage, &pass, 1, NULL, &progress, DIAG));
    assert_true(progress);
    const char *dead[] = {"d", "e", "u", "g", "t2", "v2"}, *same[] = {"x", "c", "f", "t", "v"};
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++)
        assert_int_equal(origin(&s, dead[i])->fate, TMK_LINEAGE_DEAD);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_int_equal(origin(&s, same[i])->fate, TMK_LINEAGE_SAME);
    assert_int_equal(origin(&s, "w")->fate, TMK_LINEAGE_CONSTANT);
    assert_string_equal(origin(&s, "w")->pass, "eliminate-dead");
    must(tmk_passes_run(s.graph, s.lineage, &pass, 1, NULL, &progress, DIAG));
    assert_false(progress);
    tmk_lineage_destroy(&s.lineage);
    tmk_graph_destroy(&s.graph);
}
