/* SPDX-License-Identifier: Apache-2.0 */
/* fold-constant. */
#include "pass_case.h"

/* What an original folded to, as bytes. */
static void folded_is(const struct pass_case *c, const char *name, const void *bytes, size_t n) {
    const struct tmk_origin *origin = pass_origin(c, name);
    pass_fate_is(c, name, TMK_LINEAGE_CONSTANT);
    assert_int_equal(tmk_tensor_bytes(&origin->constant), n);
    assert_memory_equal(origin->constant.data, bytes, n);
}

TEST(chains_of_constants_become_one) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n init %a : f32[3] = {1,2,3}\n"
                   " init %b : f32[3] = {4,5,6}\n %s = Add(%a, %b)\n %n = Neg(%s)\n"
                   " %y = Mul(%x, %n)\n %z = Add(%y, %s)\n output %z\n}");
    pass_check(&c, "fold-constant", 0);
    assert_true(c.progress);
    assert_int_equal(c.after->n_nodes, 2);
    folded_is(&c, "n", ((const float[]){-5, -7, -9}), 12);
    folded_is(&c, "s", ((const float[]){5, 7, 9}), 12);
    assert_non_null(pass_origin(&c, "s")->value);
    pass_fate_is(&c, "a", TMK_LINEAGE_SAME);
    pass_run(&c, "eliminate-dead");
    pass_fate_is(&c, "a", TMK_LINEAGE_CONSTANT);
    folded_is(&c, "n", ((const float[]){-5, -7, -9}), 12);
    pass_end(&c);
}

TEST(constant_nodes_of_every_form_become_initializers) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",2]\n"
                   " %a = Constant() {value=f32[2]{nan:0xffc00001, -0.0}}\n"
                   " %b = Constant() {value_float=2f}\n %d = Constant() {value_floats=[1f, -0f]}\n"
                   " %e = Constant() {value_int=-1}\n %h = Constant() {value_ints=[1, 2]}\n"
                   " %s = Constant() {value_string=\"text\"}\n"
                   " %p = Mul(%x, %b)\n %q = Add(%p, %d)\n %r = Max(%q, %a)\n"
                   " %t = Unsqueeze(%r, %e)\n %u = Expand(%t, %h)\n output %u\n}");
    pass_run(&c, "fold-constant");
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Constant"), 1); /* the string */
    folded_is(&c, "a", ((const uint32_t[]){0xffc00001, 0x80000000}), 8);
    folded_is(&c, "b", ((const float[]){2}), 4);
    folded_is(&c, "d", ((const uint32_t[]){0x3f800000, 0x80000000}), 8);
    folded_is(&c, "e", ((const int64_t[]){-1}), 8);
    folded_is(&c, "h", ((const int64_t[]){1, 2}), 16);
    pass_run(&c, "fold-constant");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(outputs_stay_where_they_are_made) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %a : f32[2] = {1,2}\n"
                   " %o = Neg(%a)\n %p = Add(%o, %x)\n %k = Constant() {value=f32[2]{3,4}}\n"
                   " %m = Neg(%k)\n %y = Mul(%p, %m)\n output %o\n output %k\n output %y\n}");
    pass_check(&c, "fold-constant", 0);
    assert_true(c.progress);
    pass_fate_is(&c, "o", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "k", TMK_LINEAGE_SAME);
    folded_is(&c, "m", ((const float[]){-3, -4}), 8);
    pass_end(&c);
}

TEST(certain_shapes_fold_and_others_do_not) {
    struct pass_case c;
    pass_begin(&c,
               "graph \"g\" opset 17 {\n input %x : f32[2,6]\n input %u : f32[\"N\",6]\n"
               " init %i : i64[1] = {1}\n init %three : i64[1] = {3}\n init %m : i64[1] = {-1}\n"
               " %a = Relu(%x)\n %s = Shape(%a)\n %w = Gather(%s, %i)\n %h = Div(%w, %three)\n"
               " %to = Concat(%m, %three, %h) {axis=0}\n %y = Reshape(%a, %to)\n"
               " %b = Relu(%u)\n %t = Shape(%b)\n %v = Reshape(%b, %t)\n"
               " %d = Relu(%u) : f32[2,6]\n %r = Size(%d)\n %f = Cast(%r) {to=1}\n"
               " output %y\n output %v\n output %f\n}");
    pass_check(&c, "fold-constant", 0);
    folded_is(&c, "s", ((const int64_t[]){2, 6}), 16);
    folded_is(&c, "to", ((const int64_t[]){-1, 3, 2}), 24);
    /* the declaration of `d` does not count: its operands have free dimensions */
    assert_int_equal(pass_count(&c, "Shape"), 1);
    assert_int_equal(pass_count(&c, "Size"), 1);
    pass_end(&c);
}

TEST(numbers_make_shapes_certain) {
    struct pass_case c;
    /* more elements than shape inference follows */
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[8]\n init %many : i64[1] = {2000}\n"
                   " init %two : i64[] = {2}\n init %m : i64[1] = {-1}\n"
                   " %o = ConstantOfShape(%many) {value=i64[1]{1}}\n"
                   " %n = ReduceSum(%o) {keepdims=0}\n %k = Div(%n, %n)\n %l = Mul(%k, %two)\n"
                   " %q = Reshape(%l, %m)\n %to = Concat(%q, %m) {axis=0}\n %y = Reshape(%x, %to)\n"
                   " %s = Shape(%y)\n %z = Reshape(%x, %s)\n output %z\n}");
    pass_check(&c, "fold-constant", 0);
    assert_int_equal(c.after->n_nodes, 2); /* y, which no node needs any more, and z */
    folded_is(&c, "s", ((const int64_t[]){2, 4}), 16);
    pass_end(&c);
}

TEST(random_numbers_pairs_and_large_results_stay) {
    struct pass_case c;
    pass_begin(
        &c, "graph \"g\" opset 17 {\n input %x : f32[1]\n init %w : i8[2] = {1,2}\n"
            " init %s : f32[] = {0.5}\n init %z : i8[] = {0}\n init %big : i64[1] = {2000000}\n"
            " init %v : f32[1] = {7}\n init %t : i64[1] = {2}\n"
            " %r = RandomNormal() {shape=[1], seed=1f}\n %d = DequantizeLinear(%w, %s, %z)\n"
            " %q = QuantizeLinear(%d, %s, %z)\n %c = ConstantOfShape(%big)\n"
            " %m = RandomNormalLike(%v) {seed=1f}\n %b = Bernoulli(%v)\n"
            " %k = ReduceMax(%c)\n %n = Tile(%v, %t)\n"
            " %1 = Add(%x, %r)\n %2 = Add(%1, %d)\n %4 = Add(%2, %k)\n"
            " %5 = Add(%4, %m)\n %6 = Add(%5, %n)\n %7 = Add(%6, %b)\n output %7\n output %q\n}");
    pass_run(&c, "fold-constant");
    assert_int_equal(pass_count(&c, "RandomNormal"), 1);
    assert_int_equal(pass_count(&c, "RandomNormalLike"), 1);
    assert_int_equal(pass_count(&c, "Bernoulli"), 1);
    assert_int_equal(pass_count(&c, "QuantizeLinear"), 1);
    assert_int_equal(pass_count(&c, "DequantizeLinear"), 1);
    assert_int_equal(pass_count(&c, "ConstantOfShape"), 1);
    assert_int_equal(pass_count(&c, "ReduceMax"), 1);
    assert_int_equal(pass_count(&c, "Tile"), 0);
    pass_run(&c, "fold-constant");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(what_takes_seconds_stays) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1]\n init %n : i64[2] = {1024,1024}\n"
                   " init %k : i64[2] = {4,4}\n"
                   " %c = ConstantOfShape(%n)\n %m = MatMul(%c, %c)\n %1 = Add(%x, %m)\n"
                   " %d = ConstantOfShape(%k)\n %l = MatMul(%d, %d)\n %2 = Add(%x, %l)\n"
                   " output %1\n output %2\n}");
    pass_run(&c, "fold-constant");
    assert_int_equal(pass_count(&c, "ConstantOfShape"), 0);
    assert_int_equal(pass_count(&c, "MatMul"), 1);
    pass_fate_is(&c, "l", TMK_LINEAGE_CONSTANT);
    pass_end(&c);
}

TEST(what_a_kernel_refuses_stays) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %a : f32[2] = {1,2}\n"
                   " init %i : i64[1] = {9}\n init %b : f32[3] = {1,2,3}\n"
                   " %p = Gather(%a, %i)\n %q = Add(%a, %b)\n %r = Neg(%a)\n"
                   " %y = Add(%x, %p)\n %z = Add(%x, %q)\n %w = Add(%x, %r)\n"
                   " output %y\n output %z\n output %w\n}");
    pass_run(&c, "fold-constant");
    assert_int_equal(c.after->n_nodes, 5);
    pass_fate_is(&c, "p", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "q", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "r", TMK_LINEAGE_CONSTANT);
    pass_end(&c);
}

TEST(several_results_fold_together) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %a : f32[6] = {1,2,3,4,5,6}\n"
                   " init %k : i64[3] = {2,2,2}\n %p, %q, %r = Split(%a, %k) {axis=0}\n"
                   " %y = Mul(%x, %p)\n %z = Add(%y, %r)\n output %z\n}");
    pass_check(&c, "fold-constant", 0);
    folded_is(&c, "p", ((const float[]){1, 2}), 8);
    folded_is(&c, "r", ((const float[]){5, 6}), 8);
    pass_fate_is(&c, "q", TMK_LINEAGE_DEAD);
    pass_end(&c);
}

TEST(pinned_results_fold_and_stay) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n init %a : f32[2] = {1,2}\n"
                   " %b = Neg(%a)\n %d = Exp(%a)\n %y = Add(%x, %b)\n output %y\n}");
    const uint32_t pinned[] = {pass_origin(&c, "b")->id, pass_origin(&c, "d")->id};
    pass_run_pinned(&c, "fold-constant,eliminate-dead", pinned, 2);
    pass_agrees(&c, 0);
    pass_fate_is(&c, "b", TMK_LINEAGE_CONSTANT);
    pass_fate_is(&c, "d", TMK_LINEAGE_CONSTANT);
    assert_non_null(pass_origin(&c, "b")->value);
    assert_non_null(pass_origin(&c, "d")->value);
    pass_end(&c);
}

TEST(graphs_inside_fold_with_what_is_around_them) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2]\n input %k : bool[]\n"
                   " init %a : f32[2] = {1,2}\n %n = Neg(%a)\n"
                   " %y = If(%k) {then_branch=graph \"t\" { init %b : f32[2] = {3,4}\n"
                   " %p = Add(%n, %b)\n %q = Mul(%p, %x)\n output %q },"
                   " else_branch=graph \"e\" { %r = Exp(%a)\n output %r }}\n output %y\n}");
    pass_run(&c, "fold-constant");
    folded_is(&c, "n", ((const float[]){-1, -2}), 8);
    folded_is(&c, "p", ((const float[]){2, 2}), 8);
    assert_ptr_equal(pass_origin(&c, "p")->value->graph->parent, c.after);
    pass_fate_is(&c, "r", TMK_LINEAGE_SAME); /* an output of its graph */
    pass_run(&c, "fold-constant");
    assert_false(c.progress);
    pass_end(&c);
}
