/* SPDX-License-Identifier: Apache-2.0 */
/* eliminate-common-subexpressions. */
#include "pass_case.h"

TEST(equal_nodes_become_one) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",4]\n"
                   " %a = Softmax(%x) {axis=1}\n %b = Neg(%a)\n"
                   " %p = Softmax(%x) {axis=1}\n %q = Neg(%p)\n"
                   " %r = Softmax(%x) {axis=0}\n %s = Softmax.12(%x) {axis=1}\n"
                   " %1 = Add(%b, %q)\n %2 = Add(%r, %s)\n %3 = Add(%a, %p)\n"
                   " %4 = Mul(%1, %2)\n %5 = Mul(%4, %3)\n output %5\n}");
    pass_check(&c, "eliminate-common-subexpressions", 0);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Softmax"), 3); /* other attributes, another operator set */
    assert_int_equal(pass_count(&c, "Neg"), 1);
    pass_fate_is(&c, "a", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "p", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "q", TMK_LINEAGE_MERGED);
    assert_ptr_equal(pass_origin(&c, "q")->value, pass_origin(&c, "b")->value);
    pass_end(&c);
}

TEST(the_order_of_operands_counts_and_that_of_attributes_does_not) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1,1,4,4]\n input %y : f32[1,1,4,4]\n"
                   " %a = Add(%x, %y)\n %b = Add(%y, %x)\n"
                   " %p = MaxPool(%a) {kernel_shape=[2,2], strides=[2,2]}\n"
                   " %q = MaxPool(%a) {strides=[2,2], kernel_shape=[2,2]}\n"
                   " %r = MaxPool(%b) {strides=[2,1], kernel_shape=[2,2]}\n"
                   " output %p\n %s = Add(%q, %r)\n output %s\n}");
    pass_run(&c, "eliminate-common-subexpressions");
    assert_int_equal(pass_count(&c, "Add"), 3);
    assert_int_equal(pass_count(&c, "MaxPool"), 2);
    pass_fate_is(&c, "q", TMK_LINEAGE_MERGED);
    pass_end(&c);
}

TEST(equal_weights_become_one_by_their_bits) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",2]\n"
                   " init %a : f32[2] = {0, nan}\n init %b : f32[2] = {0, nan}\n"
                   " init %d : f32[2] = {-0.0, nan}\n init %e : f32[2] = {0, nan:0xffc00001}\n"
                   " init %f : f32[1,2] = {0, nan}\n init %i : i64[1] = {1}\n"
                   " init %j : i32[2] = {1, 0}\n init %k : i64[1] = {1}\n"
                   " %1 = Max(%x, %a)\n %2 = Max(%1, %b)\n %3 = Max(%2, %d)\n %4 = Max(%3, %e)\n"
                   " %5 = Max(%4, %f)\n %6 = Unsqueeze(%5, %i)\n %7 = Unsqueeze(%6, %k)\n"
                   " %8 = Gather(%7, %j)\n output %8\n}");
    pass_run(&c, "eliminate-common-subexpressions");
    pass_fate_is(&c, "b", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "k", TMK_LINEAGE_MERGED);
    static const char *const own[] = {"a", "d", "e", "f", "i", "j"};
    for (size_t i = 0; i < 6; i++)
        pass_fate_is(&c, own[i], TMK_LINEAGE_SAME);
    pass_run(&c, "eliminate-common-subexpressions");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(constants_by_attribute_become_one) {
    struct pass_case c;
    pass_begin(&c,
               "graph \"g\" opset 17 {\n input %x : f32[\"N\",2]\n"
               " %a = Constant() {value=f32[2]{1, -0.0}}\n %b = Constant() {value=f32[2]{1, 0}}\n"
               " %d = Constant() {value=f32[2]{1, -0.0}}\n %e = Constant() {value_float=1f}\n"
               " %f = Constant() {value_float=1f}\n"
               " %1 = Add(%x, %a)\n %2 = Mul(%1, %b)\n %3 = Add(%2, %d)\n %4 = Mul(%3, %e)\n"
               " %5 = Add(%4, %f)\n output %5\n}");
    pass_check(&c, "eliminate-common-subexpressions", 0);
    assert_int_equal(pass_count(&c, "Constant"), 3);
    pass_fate_is(&c, "d", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "f", TMK_LINEAGE_MERGED);
    pass_end(&c);
}

TEST(outputs_keep_their_names) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",2]\n"
                   " %a = Neg(%x)\n %b = Neg(%x)\n %d = Neg(%x)\n %s = Exp(%a)\n %t = Exp(%x)\n"
                   " %u = Exp(%x)\n %w = Add(%s, %t)\n"
                   " output %b\n output %d\n output %u\n output %w\n}");
    pass_check(&c, "eliminate-common-subexpressions", 0);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Neg"), 2); /* two outputs can't be one value */
    assert_int_equal(pass_count(&c, "Exp"), 2);
    pass_fate_is(&c, "b", TMK_LINEAGE_MERGED);
    pass_end(&c);
}

TEST(random_numbers_never_merge) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n"
                   " %a = RandomNormalLike(%x) {seed=1f}\n %b = RandomNormalLike(%x) {seed=1f}\n"
                   " %y = Sub(%a, %b)\n output %y\n}");
    pass_run(&c, "eliminate-common-subexpressions");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(results_that_only_one_of_two_names_stay) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,6]\n init %k : i64[1] = {2}\n"
                   " %v, %i = TopK(%x, %k)\n %w, %j = TopK(%x, %k)\n %_v, %l = TopK(%x, %k)\n"
                   " %a = Add(%v, %w)\n %b = Add(%i, %j)\n %d = Add(%b, %l)\n output %a\n"
                   " output %d\n}");
    pass_check(&c, "eliminate-common-subexpressions", 0);
    assert_int_equal(pass_count(&c, "TopK"), 1);
    pass_end(&c);
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,6]\n init %k : i64[1] = {2}\n"
                   " %v, _ = TopK(%x, %k)\n %w, %j = TopK(%x, %k)\n"
                   " %a = Add(%v, %w)\n output %a\n output %j\n}");
    pass_check(&c, "eliminate-common-subexpressions", 0);
    assert_int_equal(pass_count(&c, "TopK"), 2);
    pass_end(&c);
}

TEST(two_pinned_results_stay_two) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n %a = Neg(%x)\n %b = Neg(%x)\n"
                   " %d = Neg(%x)\n %1 = Add(%a, %b)\n %2 = Add(%1, %d)\n output %2\n}");
    const uint32_t pinned[] = {pass_origin(&c, "a")->id, pass_origin(&c, "d")->id};
    pass_run_pinned(&c, "eliminate-common-subexpressions", pinned, 2);
    pass_agrees(&c, 0);
    assert_int_equal(pass_count(&c, "Neg"), 2);
    pass_fate_is(&c, "b", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "d", TMK_LINEAGE_SAME);
    pass_end(&c);
}

TEST(graphs_inside_reuse_what_stands_before_them) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n input %k : bool[]\n"
                   " init %w : f32[2] = {1,2}\n %a = Mul(%x, %w)\n"
                   " %y = If(%k) {then_branch=graph \"t\" { init %w1 : f32[2] = {1,2}\n"
                   " init %w2 : f32[2] = {3,4}\n"
                   " %p = Mul(%x, %w1)\n %e1 = Exp(%x)\n %l1 = Log(%x)\n %1 = Add(%p, %e1)\n"
                   " %2 = Add(%1, %l1)\n %3 = Add(%2, %w2)\n output %3 },"
                   " else_branch=graph \"e\" { init %w3 : f32[2] = {3,4}\n %e2 = Exp(%x)\n"
                   " %4 = Add(%e2, %w3)\n %q = Mul(%x, %w)\n %5 = Add(%4, %q)\n %n = Neg(%5)\n"
                   " %m = Mul(%x, %w)\n output %m }}\n"
                   " %l = Log(%x)\n %z = Add(%y, %l)\n output %z\n}");
    pass_run(&c, "eliminate-common-subexpressions");
    pass_fate_is(&c, "w1", TMK_LINEAGE_MERGED);
    pass_fate_is(&c, "p", TMK_LINEAGE_MERGED);
    assert_ptr_equal(pass_origin(&c, "p")->value, pass_origin(&c, "a")->value);
    pass_fate_is(&c, "q", TMK_LINEAGE_MERGED);
    /* in two branches, behind the node, an output */
    static const char *const own[] = {"e1", "e2", "w2", "w3", "l1", "l", "m"};
    for (size_t i = 0; i < 7; i++)
        pass_fate_is(&c, own[i], TMK_LINEAGE_SAME);
    pass_run(&c, "eliminate-common-subexpressions");
    assert_false(c.progress);
    pass_end(&c);
}
