/* SPDX-License-Identifier: Apache-2.0 */
/* simplify-inference. */
#include "pass_case.h"

#include <stdio.h>

#define MOMENTS                                                                                    \
    " init %s : f32[3] = {1,-2,0.5}\n init %b : f32[3] = {0,1,-1}\n"                               \
    " init %m : f32[3] = {0.25,-1,4}\n init %v : f32[3] = {1,0.04,9}\n"

TEST(norms_become_two_steps_at_any_rank) {
    static const char *const shapes[] = {"\"N\",3", "\"N\",3,5", "\"N\",3,\"H\",\"W\"",
                                         "1,3,2,2,2"};
    for (size_t i = 0; i < 4; i++) {
        char text[512];
        struct pass_case c;
        snprintf(text, sizeof text,
                 "graph \"g\" opset 17 {\n input %%x : f32[%s]\n%s%%a = Abs(%%x)\n %%y = "
                 "BatchNormalization(%%a, %%s, %%b, %%m, %%v) "
                 "{epsilon=0.01f}\n %%z = Relu(%%y)\n %%w = Neg(%%y)\n output %%z\n output %%w\n}",
                 shapes[i], MOMENTS);
        pass_begin(&c, text);
        pass_check(&c, "simplify-inference", 1e-6);
        assert_true(c.progress);
        assert_int_equal(pass_count(&c, "BatchNormalization"), 0);
        assert_int_equal(pass_count(&c, "Mul"), 1);
        assert_int_equal(pass_count(&c, "Add"), 1);
        pass_fate_is(&c, "y", TMK_LINEAGE_SAME);
        assert_string_equal(pass_origin(&c, "y")->value->producer->op, "Add");
        pass_end(&c);
    }
}

TEST(every_operator_set_has_its_form) {
    static const struct {
        int opset;
        const char *attrs;
    } forms[] = {{6, "is_test=1, spatial=1"}, {6, "is_test=1"},      {7, "spatial=1"},
                 {8, "momentum=0.5f"},        {9, "epsilon=0.001f"}, {14, "training_mode=0"}};
    for (size_t i = 0; i < 6; i++) {
        char text[512];
        struct pass_case c;
        snprintf(text, sizeof text,
                 "graph \"g\" opset %d {\n input %%x : f32[\"N\",3,4]\n%s%%y = "
                 "BatchNormalization(%%x, %%s, %%b, %%m, %%v) {%s}\n output %%y\n}",
                 forms[i].opset, MOMENTS, forms[i].attrs);
        pass_begin(&c, text);
        pass_check(&c, "simplify-inference", 1e-6);
        assert_int_equal(pass_count(&c, "BatchNormalization"), 0);
        pass_end(&c);
    }
}

TEST(statistics_of_each_element_keep_their_shape) {
    for (int opset = 6; opset <= 8; opset += 2) {
        char text[512];
        struct pass_case c;
        snprintf(text, sizeof text,
                 "graph \"g\" opset %d {\n input %%x : f32[\"N\",2,2]\n"
                 " init %%s : f32[2,2] = {1,2,3,4}\n init %%b : f32[2,2] = {5,6,7,8}\n"
                 " init %%m : f32[2,2] = {0,1,2,3}\n init %%v : f32[2,2] = {1,2,3,4}\n"
                 " %%y = BatchNormalization(%%x, %%s, %%b, %%m, %%v) {spatial=0}\n output %%y\n}",
                 opset);
        pass_begin(&c, text);
        pass_check(&c, "simplify-inference", 1e-6);
        assert_int_equal(pass_count(&c, "BatchNormalization"), 0);
        pass_end(&c);
    }
}

TEST(norms_that_train_or_vary_or_overflow_stay) {
    static const char *const texts[] = {
        /* trains */
        "graph \"g\" opset 17 {\n input %x : f32[2,3]\n" MOMENTS
        " %y = BatchNormalization(%x, %s, %b, %m, %v) {training_mode=1}\n output %y\n}",
        /* its variance is computed */
        "graph \"g\" opset 17 {\n input %x : f32[2,3]\n input %u : f32[3]\n" MOMENTS
        " %w = Abs(%u)\n %y = BatchNormalization(%x, %s, %b, %m, %w)\n output %y\n}",
        /* a variance of 0, and no epsilon */
        "graph \"g\" opset 17 {\n input %x : f32[2,3]\n" MOMENTS " init %o : f32[3] = {0,1,2}\n"
        " %y = BatchNormalization(%x, %s, %b, %m, %o) {epsilon=0f}\n output %y\n}",
        "graph \"g\" opset 17 {\n input %x : f32[2,3]\n" MOMENTS " init %o : f32[3] = {nan,1,2}\n"
        " %y = BatchNormalization(%x, %s, %b, %o, %v)\n output %y\n}",
        /* the rank is unknown */
        "graph \"g\" opset 17 {\n input %x : f32\n" MOMENTS
        " %y = BatchNormalization(%x, %s, %b, %m, %v)\n output %y\n}",
    };
    for (size_t i = 0; i < 5; i++) {
        struct pass_case c;
        pass_begin(&c, texts[i]);
        pass_run(&c, "simplify-inference");
        assert_false(c.progress);
        assert_int_equal(pass_count(&c, "BatchNormalization"), 1);
        pass_end(&c);
    }
}

TEST(the_mean_becomes_the_bias_also_where_it_is_large) {
    struct pass_case c;
    struct pass_values values;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %u : f32[1,1]\n init %x : f32[1,1] = {1000003}\n"
                   " init %s : f32[1] = {3}\n init %b : f32[1] = {0.125}\n"
                   " init %m : f32[1] = {1000003}\n init %v : f32[1] = {0.7}\n"
                   " %z = Add(%x, %u)\n %w = Sub(%z, %u)\n"
                   " %y = BatchNormalization(%x, %s, %b, %m, %v)\n output %y\n output %w\n}");
    pass_run(&c, "simplify-inference");
    assert_int_equal(pass_count(&c, "Mul"), 1);
    pass_evaluate(c.after, 1, &values);
    /* within half a unit in the last place of mean * a, about 3.6e6 */
    const double y = number_at(pass_value(&values, c.after->outputs[0]), 0);
    assert_true(fabs(y - 0.125) <= 0.25);
    pass_values_finish(&values, c.after);
    pass_end(&c);
}

TEST(what_does_nothing_goes) {
    struct pass_case c;
    pass_begin(&c,
               "graph \"g\" opset 17 {\n input %x : f32[\"N\",4]\n init %w0 : f32[4] = {1,2,3,4}\n"
               " init %r : f32[] = {0.5}\n init %no : bool[] = {0}\n init %k : i64[2] = {0,-1}\n"
               " %w = Identity(%w0)\n %a = Mul(%x, %w)\n %b = Dropout(%a, %r, %no)\n"
               " %d = Cast(%b) {to=1}\n %e = Transpose(%d) {perm=[0,1]}\n %f = Flatten(%e)\n"
               " %h = Reshape(%f, %k)\n %i, %mask = Dropout(%h, %r)\n %y = Neg(%i)\n"
               " %z = Identity(%y)\n output %z\n}");
    pass_check(&c, "simplify-inference", 0);
    assert_int_equal(c.after->n_nodes, 2);
    assert_ptr_equal(pass_origin(&c, "i")->value, pass_origin(&c, "a")->value);
    pass_fate_is(&c, "i", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "w", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "mask", TMK_LINEAGE_DEAD);
    assert_string_equal(c.after->outputs[0]->name, "z");
    pass_end(&c);
}

TEST(what_does_something_stays) {
    struct pass_case c;
    pass_begin(&c,
               "graph \"g\" opset 17 {\n input %x : f32[\"N\",4,4]\n input %t : bool[]\n"
               " init %r : f32[] = {0.5}\n init %k : i64[3] = {-1,4,0}\n"
               " init %q : i64[3] = {0,-1,-1}\n"
               " %a = Transpose(%x) {perm=[0,2,1]}\n %b = Transpose(%a)\n %d = Cast(%b) {to=6}\n"
               " %e = Reshape(%d, %k)\n %f = Flatten(%e)\n %h, %m = Dropout(%a, %r)\n"
               " %i = Identity(%x)\n output %f\n output %m\n output %i\n output %h\n}");
    pass_run(&c, "simplify-inference");
    assert_false(c.progress);
    assert_int_equal(c.after->n_nodes, 7);
    pass_end(&c);
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n input %t : bool[]\n"
                   " init %r : f32[] = {0.5}\n %y = Dropout(%x, %r, %t)\n %z = Neg(%y)\n"
                   " output %z\n}");
    pass_run(&c, "simplify-inference");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(shapes_that_are_certain_tell_what_does_nothing) {
    struct pass_case c;
    pass_begin(&c,
               "graph \"g\" opset 17 {\n input %x : f32[2,6]\n input %u : f32[\"N\",6]\n"
               " init %k : i64[2] = {2,-1}\n init %l : i64[2] = {4,3}\n"
               " %a = Neg(%x)\n %b = Reshape(%a, %k)\n %d = Squeeze(%b)\n %e = Reshape(%d, %l)\n"
               " %f = Reshape(%u, %k)\n %h = Neg(%f) : f32[2,6]\n output %e\n output %h\n}");
    pass_run(&c, "simplify-inference");
    pass_fate_is(&c, "b", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "d", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "e", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "f", TMK_LINEAGE_SAME); /* refuses other batches */
    pass_run(&c, "simplify-inference");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(inputs_keep_the_type_that_is_declared) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32\n input %u : f32\n"
                   " %a = Identity(%x)\n %b = Neg(%a)\n %d = Identity(%u) : f32[4]\n"
                   " %e = Neg(%d)\n output %b\n output %e\n}");
    pass_run(&c, "simplify-inference");
    assert_int_equal(pass_count(&c, "Identity"), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(c.after->inputs[i]->type.dtype, TMK_FLOAT32);
        assert_false(c.after->inputs[i]->type.has_shape);
    }
    pass_end(&c);
}

TEST(pinned_edges_keep_their_own_value) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n" MOMENTS
                   " %a = Neg(%x)\n %d = Identity(%a)\n %e = Identity(%d)\n"
                   " %y = BatchNormalization(%e, %s, %b, %m, %v)\n %z = Relu(%y)\n output %z\n}");
    const uint32_t pinned[] = {pass_origin(&c, "a")->id, pass_origin(&c, "d")->id,
                               pass_origin(&c, "y")->id};
    pass_run_pinned(&c, "simplify-inference", pinned, 3);
    pass_agrees(&c, 1e-6);
    assert_int_equal(pass_count(&c, "Identity"), 1);
    assert_int_equal(pass_count(&c, "BatchNormalization"), 0);
    pass_fate_is(&c, "d", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "e", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "y", TMK_LINEAGE_SAME);
    pass_end(&c);
}

TEST(graphs_inside_are_simplified) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n input %k : bool[]\n" MOMENTS
                   " %i = Identity(%x)\n"
                   " %y = If(%k) {then_branch=graph \"t\" {\n"
                   " %p = BatchNormalization(%i, %s, %b, %m, %v)\n output %p },"
                   " else_branch=graph \"e\" { %q = Identity(%i)\n output %q }}\n output %y\n}");
    pass_run(&c, "simplify-inference");
    pass_fate_is(&c, "i", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "p", TMK_LINEAGE_SAME);
    assert_string_equal(pass_origin(&c, "p")->value->producer->op, "Add");
    pass_fate_is(&c, "q", TMK_LINEAGE_SAME); /* an output of its graph; x is not of that graph */
    pass_run(&c, "simplify-inference");
    assert_false(c.progress);
    pass_end(&c);
}
