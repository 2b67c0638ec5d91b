/* SPDX-License-Identifier: Apache-2.0 */
/* Types that no file declares, found by inference. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "graph_text/read.h"
#include "ops/ops.h"
#include "ops/shapes.h"

struct typed {
    struct tmk_graph *graph;
};

static void fill(struct typed *t, const char *text) {
    *t = (struct typed){0};
    must(parse_graph(text, NULL, &t->graph, DIAG));
    must(tmk_ops_bind(t->graph, DIAG));
    must(tmk_fill_types(t->graph, DIAG));
}

static const struct tmk_value *find_in(const struct tmk_graph *graph, const char *name) {
    const struct tmk_value *found = NULL;
    for (uint32_t i = 0; i < graph->n_values && !found; i++)
        if (strcmp(graph->values[i]->name, name) == 0)
            found = graph->values[i];
    for (const struct tmk_node *node = graph->first; node && !found; node = node->next)
        for (uint32_t i = 0; i < node->n_attrs && !found; i++)
            for (size_t k = 0; node->attrs[i].kind == TMK_ATTR_GRAPH && k < 1 && !found; k++)
                found = find_in(node->attrs[i].graphs[k], name);
    return found;
}

static void type_is(const struct typed *t, const char *name, const char *want) {
    const struct tmk_value *value = find_in(t->graph, name);
    char shape[256] = "", have[320];
    assert_non_null(value);
    if (value->type.has_shape)
        tmk_shape_text(&value->type.shape, shape, sizeof shape);
    snprintf(have, sizeof have, "%s%s", tmk_dtype_name(value->type.dtype), shape);
    assert_string_equal(have, want);
}

TEST(free_dimensions_stay_free_and_channels_are_found) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3,\"H\",\"W\"]\n"
             " input %w : f32[8,3,3,3]\n"
             " %a = Conv(%x, %w) {pads=[1,1,1,1], strides=[2,2]}\n %b = Relu(%a)\n"
             " %c = GlobalAveragePool(%b)\n %d = Flatten(%c)\n %e = ArgMax(%d) {axis=1}\n"
             " output %e\n}");
    type_is(&t, "a", "float32[?,8,?,?]");
    type_is(&t, "b", "float32[?,8,?,?]");
    type_is(&t, "c", "float32[?,8,1,1]");
    type_is(&t, "d", "float32[?,8]");
    type_is(&t, "e", "int64[?,1]");
    tmk_graph_destroy(&t.graph);
}

TEST(shapes_that_are_computed_are_followed) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[\"N\",\"T\",12]\n"
             " init %zero : i64[1] = {0}\n init %one : i64[1] = {1}\n init %h : i64[1] = {3}\n"
             " init %d : i64[1] = {-1}\n"
             " %s = Shape(%x)\n %n = Slice(%s, %zero, %one)\n %k = Gather(%s, %one)\n"
             " %to = Concat(%n, %k, %h, %d) {axis=0}\n %y = Reshape(%x, %to)\n output %y\n}");
    type_is(&t, "s", "int64[3]");
    type_is(&t, "to", "int64[4]");
    type_is(&t, "y", "float32[?,?,3,4]");
    tmk_graph_destroy(&t.graph);
}

TEST(a_batch_that_is_fixed_inside_is_found) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[\"N\",4,\"W\"]\n"
             " init %to : i64[3] = {1,2,-1}\n init %f : i64[2] = {1,256}\n"
             " %y = Reshape(%x, %to)\n %m = ReduceMax(%y)\n"
             " %p = Reshape(%x, %f)\n output %m\n output %p\n}");
    type_is(&t, "y", "float32[1,2,?]");
    /* which works for one size alone: only the rank is known */
    type_is(&t, "p", "float32[?,?]");
    tmk_graph_destroy(&t.graph);
}

TEST(declarations_stay_unless_they_are_wrong) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[2,\"M\"]\n init %i : i64[1] = {0}\n"
             " %a = Relu(%x) : f32[\"q\",\"M\"]\n %b = Neg(%x) : f32[7,7]\n"
             " %c = Abs(%x) : f32\n %w = Sin(%x) : f32[7,\"M\"]\n %v = Cos(%x) : f32[2]\n %y = "
             "Exp(%x) : f32[\"batch\",\"M\"]\n"
             " output %a\n output %y\n output %b\n}");
    type_is(&t, "b", "float32[7,7]");
    type_is(&t, "c", "float32[2,?]");
    type_is(&t, "w", "float32[2,?]");
    type_is(&t, "v", "float32[2,?]");
    /* an output's declaration is the model's signature */
    type_is(&t, "y", "float32[?,?]");
    assert_string_equal(find_in(t.graph, "y")->type.symbol[0], "batch");
    tmk_graph_destroy(&t.graph);
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[2,\"M\"]\n"
             " %a = Relu(%x) : f32[\"q\",\"M\"]\n %y = Neg(%a)\n output %y\n}");
    type_is(&t, "a", "float32[2,?]");
    assert_null(find_in(t.graph, "a")->type.symbol[0]);
    assert_string_equal(find_in(t.graph, "a")->type.symbol[1], "M");
    tmk_graph_destroy(&t.graph);
}

TEST(what_depends_on_elements_stays_unknown_and_what_follows_a_declaration_goes_on) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[2,3]\n input %u : ?\n init %r : f32[3,2] = "
             "{1,2,3,4,5,6}\n"
             " %a = NonZero(%x)\n %b = Cast(%a) {to=1}\n %c = Relu(%u)\n %d = Neg(%c) : f32[?,3]\n"
             " %e = MatMul(%d, %r)\n %z = Add(%x, %r)\n"
             " output %b\n output %e\n output %z\n}");
    type_is(&t, "a", "undefined");
    type_is(&t, "b", "undefined");
    type_is(&t, "c", "undefined");
    type_is(&t, "e", "float32[?,2]");
    type_is(&t, "z", "undefined"); /* refused: the shapes don't fit */
    tmk_graph_destroy(&t.graph);
}

TEST(unknown_operators_make_what_is_declared) {
    struct typed t = {0};
    must(parse_graph("graph \"g\" opset 17 \"com.example\" 1 {\n input %x : f32[2,3]\n"
                     " %a = \"com.example::Foo\"(%x)\n %b = Neg(%a)\n"
                     " %d = \"com.example::Foo\"(%x) : f32[5,?]\n %e = Neg(%d)\n"
                     " output %b\n output %e\n}",
                     NULL, &t.graph, DIAG));
    assert_int_equal(tmk_ops_bind(t.graph, NULL), TMK_UNSUPPORTED);
    must(tmk_fill_types(t.graph, DIAG));
    type_is(&t, "b", "undefined");
    type_is(&t, "e", "float32[5,?]");
    tmk_graph_destroy(&t.graph);
}

TEST(ranks_that_depend_on_sizes_stay_unknown) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n %y = Squeeze(%x)\n output %y\n}");
    type_is(&t, "y", "float32");
    tmk_graph_destroy(&t.graph);
}

TEST(branches_are_typed_and_agree_or_are_chosen) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n input %c : bool[]\n"
             " init %yes : bool[] = {1}\n init %k : i64[1] = {0}\n"
             " %a = If(%c) {then_branch=graph \"t\" { %t = Relu(%x)\n output %t },"
             " else_branch=graph \"e\" { %e = Neg(%x)\n output %e }}\n"
             " %b = If(%c) {then_branch=graph \"t\" { %p = Relu(%x)\n output %p },"
             " else_branch=graph \"e\" { %q = Unsqueeze(%x, %k)\n output %q }}\n"
             " %d = If(%yes) {then_branch=graph \"t\" { %r = Relu(%x)\n output %r },"
             " else_branch=graph \"e\" { %u = Unsqueeze(%x, %k)\n output %u }}\n"
             " output %a\n output %b\n output %d\n}");
    type_is(&t, "t", "float32[?,3]");
    type_is(&t, "a", "float32[?,3]");
    type_is(&t, "q", "float32[1,?,3]");
    type_is(&t, "b", "undefined");
    type_is(&t, "d", "float32[?,3]");
    tmk_graph_destroy(&t.graph);
}

TEST(bodies_are_typed_as_far_as_nothing_is_carried) {
    struct typed t;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[2,3]\n init %n : i64[] = {3}\n"
             " init %on : bool[] = {1}\n"
             " %y = Loop(%n, %on, %x) {body=graph \"b\" {\n input %i : i64[]\n input %c : bool[]\n"
             " input %v : ?\n %w = Relu(%x)\n %p = Add(%v, %w)\n %q = Cast(%i) {to=1}\n"
             " %k = Identity(%c)\n output %k\n output %p }}\n output %y\n}");
    type_is(&t, "w", "float32[2,3]");
    type_is(&t, "p", "undefined");
    type_is(&t, "q", "float32[]");
    type_is(&t, "y", "undefined");
    tmk_graph_destroy(&t.graph);
}

TEST(sizes_that_are_too_large_are_left_alone) {
    struct typed t;
    fill(&t,
         "graph \"g\" opset 17 {\n"
         " input %x : f32[\"A\",\"B\",\"C\",\"D\",\"E\",\"F\",4611686018427387904]\n"
         " init %huge : i64[2] = {1048576,1048576}\n init %long : i64[] = {4611686018427387904}\n"
         " init %z : i64[] = {0}\n init %o : i64[] = {1}\n"
         " %y = Relu(%x)\n %c = ConstantOfShape(%huge)\n %r = Range(%z, %long, %o)\n"
         " output %y\n output %c\n output %r\n}");
    type_is(&t, "y", "undefined");
    type_is(&t, "c", "float32[1048576,1048576]");
    type_is(&t, "r", "undefined");
    tmk_graph_destroy(&t.graph);
}

TEST(certain_is_what_no_size_was_made_up_for) {
    struct typed t;
    struct tmk_inferred certain;
    fill(&t, "graph \"g\" opset 17 {\n input %x : f32[2,3]\n input %u : f32[\"N\",3]\n"
             " %a = Relu(%x) : f32[9]\n %s = Shape(%a)\n %b = Relu(%u) : f32[5,3]\n"
             " %c = Neg(%b)\n %d = NonZero(%a) : i64[2,4]\n %e = Neg(%d)\n"
             " output %s\n output %c\n output %e\n}");
    must(tmk_infer_certain(t.graph, &certain, DIAG));
    const struct tmk_tensor *a = &certain.tensors[find_in(t.graph, "a")->index];
    const struct tmk_tensor *s = &certain.tensors[find_in(t.graph, "s")->index];
    assert_int_equal(a->dtype, TMK_FLOAT32);
    assert_true(tmk_shape_equal(&a->shape, &(struct tmk_shape){2, {2, 3}}));
    assert_null(a->data);
    assert_int_equal(s->dtype, TMK_INT64);
    assert_memory_equal(s->data, ((const int64_t[]){2, 3}), 2 * sizeof(int64_t));
    static const char *const unsure[] = {"u", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(certain.tensors[find_in(t.graph, unsure[i])->index].dtype, TMK_UNDEFINED);
    tmk_inferred_finish(&certain);
    tmk_graph_destroy(&t.graph);
}

TEST(a_run_has_what_follows_from_its_inputs) {
    struct typed t;
    struct tmk_inferred run;
    fill(&t, "graph \"g\" opset 17 {\n input %m : i64[\"N\",\"S\"]\n input %x : f32[\"N\",3]\n"
             " init %two : i64[] = {2}\n %n = ReduceSum(%m) {keepdims=0}\n"
             " %c = Greater(%n, %two)\n"
             " %a = If(%c) {then_branch=graph \"t\" { %p = Neg(%x)\n output %p },"
             " else_branch=graph \"e\" { %q = Transpose(%x)\n output %q }}\n %b = Relu(%a)\n"
             " %z = NonZero(%x) : i64[2,\"S\"]\n %y = Abs(%z)\n"
             " output %b\n output %y\n}");
    const uint32_t n = tmk_graph_number(t.graph);
    for (int64_t last = 0; last < 2; last++) {
        int64_t mask[] = {1, 1, 0, 0, last};
        struct tmk_tensor inputs[2];
        tmk_tensor_borrow(&inputs[0], TMK_INT64, &(struct tmk_shape){2, {1, 5}}, mask);
        tmk_tensor_borrow(&inputs[1], TMK_FLOAT32, &(struct tmk_shape){2, {1, 3}}, NULL);
        must(tmk_infer_run(t.graph, inputs, n, &run, DIAG));
        const struct tmk_tensor *b = &run.tensors[find_in(t.graph, "b")->index];
        const struct tmk_tensor *y = &run.tensors[find_in(t.graph, "y")->index];
        const struct tmk_shape kept = {2, {1, 3}}, turned = {2, {3, 1}}, named = {2, {2, 5}};
        assert_int_equal(b->dtype, TMK_FLOAT32);
        assert_true(tmk_shape_equal(&b->shape, last ? &kept : &turned));
        assert_true(y->dtype == TMK_INT64 && tmk_shape_equal(&y->shape, &named));
        tmk_inferred_finish(&run);
    }
    tmk_graph_destroy(&t.graph);
}
