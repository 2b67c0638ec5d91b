/* SPDX-License-Identifier: Apache-2.0 */
/* fold-scale-axis and fold-bias. */
#include "pass_case.h"

#include <stdio.h>

#define GRAPH "graph \"g\" opset 17 {\n"
#define IMAGE " input %x : f32[\"N\",2,5,5]\n"
#define WEIGHTS                                                                                    \
    " init %w : f32[3,2,2,2] = {0.5, -1, 2, 0.25, 1, 1, -0.5, 0.125, 0.3, -0.7, 1.5, 2, 0.1, 0.9," \
    " -1, 0.6, 0.2, 0.4, -0.8, 1.6, -2, 0.75, 0.35, 0.15}\n init %b : f32[3] = {1, -0.5, 0.25}\n"
#define CONV " %c = Conv(%x, %w, %b) : f32[\"N\",3,4,4]\n"
#define ROUNDING 1e-6

static void folds(const char *text, uint32_t products) {
    struct pass_case c;
    pass_begin(&c, text);
    pass_check(&c, "fold-scale-axis", ROUNDING);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Mul") + pass_count(&c, "Div"), products);
    pass_end(&c);
}

static void stays(const char *text) {
    struct pass_case c;
    pass_begin(&c, text);
    pass_run(&c, "fold-scale-axis");
    assert_false(c.progress);
    pass_end(&c);
}

TEST(a_scale_behind_a_convolution_goes_into_its_weights) {
    struct pass_case c;
    pass_begin(&c, GRAPH IMAGE WEIGHTS
               " init %s : f32[3,1,1] = {2, -0.5, 0}\n" CONV
               " %m = Mul(%c, %s) : f32[\"N\",3,4,4]\n %r = Relu(%m) : f32[\"N\",3,4,4]\n"
               " output %r\n}");
    pass_check(&c, "fold-scale-axis,eliminate-dead", ROUNDING);
    assert_int_equal(pass_count(&c, "Mul"), 0);
    pass_fate_is(&c, "m", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "c", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "w", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "b", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "s", TMK_LINEAGE_CONSTANT);
    const struct tmk_origin *conv = pass_origin(&c, "c");
    assert_ptr_equal(conv->value, pass_origin(&c, "m")->value);
    assert_int_equal(conv->how.affine.n, 3);
    assert_int_equal(conv->how.affine.axis, 1);
    assert_true(conv->how.affine.scale[1] == -0.5 && conv->how.affine.shift[1] == 0);
    pass_end(&c);
}

TEST(an_output_keeps_its_name_and_the_convolution_its_chain) {
    folds(GRAPH IMAGE WEIGHTS
          " init %s : f32[1,3,1,1] = {2, 0.5, 4}\n" CONV " %r = Relu(%c) : f32[\"N\",3,4,4]\n"
          " %p = MaxPool(%r) {kernel_shape=[2,2], pads=[1,1,1,1]} : f32[\"N\",3,5,5]\n"
          " %a = AveragePool(%p) {kernel_shape=[2,2]} : f32[\"N\",3,4,4]\n"
          " %m = Div(%a, %s) : f32[\"N\",3,4,4]\n output %m\n}",
          0);
    folds(GRAPH IMAGE WEIGHTS " init %s : f32[] = {-3}\n init %t : f32[3,1,1] = {1, 2, 3}\n" CONV
                              " %p = Add(%t, %c) : f32[\"N\",3,4,4]\n"
                              " %m = Mul(%s, %p) : f32[\"N\",3,4,4]\n output %m\n}",
          0);
}

TEST(signs_don_t_pass_activations_but_go_before_them) {
    stays(GRAPH IMAGE WEIGHTS
          " init %s : f32[3,1,1] = {2, -0.5, 1}\n" CONV
          " %r = Relu(%c) : f32[\"N\",3,4,4]\n %m = Mul(%r, %s) : f32[\"N\",3,4,4]\n output %m\n}");
    stays(GRAPH IMAGE WEIGHTS " init %s : f32[3,1,1] = {2, 0, 1}\n" CONV
                              " %r = MaxPool(%c) {kernel_shape=[1,1]} : f32[\"N\",3,4,4]\n"
                              " %m = Mul(%r, %s) : f32[\"N\",3,4,4]\n output %m\n}");
}

TEST(what_others_read_keeps_its_numbers) {
    const char *scale = " init %s : f32[3,1,1] = {2, 0.5, 1}\n";
    char text[2048];
    const char *tails[] = {" %n = Neg(%c) : f32[\"N\",3,4,4]\n output %n\n", " output %c\n"};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "%s%s%s %%m = Mul(%%c, %%s) : f32[\"N\",3,4,4]\n output %%m\n%s}",
                 GRAPH IMAGE WEIGHTS, scale, CONV, tails[i]);
        stays(text);
    }
    struct pass_case c;
    pass_begin(&c, GRAPH IMAGE WEIGHTS " init %s : f32[3,1,1] = {2, 0.5, 1}\n" CONV
                                       " %m = Mul(%c, %s) : f32[\"N\",3,4,4]\n output %m\n}");
    const uint32_t pinned = pass_origin(&c, "c")->id;
    pass_run_pinned(&c, "fold-scale-axis,fold-bias", &pinned, 1);
    assert_false(c.progress);
    pass_end(&c);
}

TEST(a_sum_is_scaled_when_all_its_operands_are) {
    folds(
        GRAPH IMAGE WEIGHTS
        " init %s : f32[3,1,1] = {2, -0.5, 1}\n" CONV " %d = Conv(%x, %w) : f32[\"N\",3,4,4]\n"
        " %a = Add(%c, %d) : f32[\"N\",3,4,4]\n %m = Mul(%a, %s) : f32[\"N\",3,4,4]\n output %m\n}",
        0);
    stays(GRAPH IMAGE " input %y : f32[\"N\",3,4,4]\n" WEIGHTS
                      " init %s : f32[3,1,1] = {2, -0.5, 1}\n" CONV
                      " %a = Add(%c, %y) : f32[\"N\",3,4,4]\n"
                      " %m = Mul(%a, %s) : f32[\"N\",3,4,4]\n output %m\n}");
}

TEST(matrices_take_scales_in_rows_and_columns) {
#define VECTOR GRAPH " input %x : f32[\"N\",2]\n init %w : f32[2,3] = {1,2,3,4,5,6}\n"
#define COLUMN GRAPH " input %x : f32[\"N\",2]\n init %w : f32[3,2] = {1,2,3,4,5,6}\n"
    folds(VECTOR " init %b : f32[3] = {1,2,3}\n init %s : f32[3] = {2,-1,0.5}\n"
                 " %g = Gemm(%x, %w, %b) {alpha=0.5f, beta=2f} : f32[\"N\",3]\n"
                 " %m = Mul(%g, %s) : f32[\"N\",3]\n output %m\n}",
          0);
    folds(COLUMN " init %s : f32[1,3] = {2,-1,0.5}\n"
                 " %g = Gemm(%x, %w) {transB=1} : f32[\"N\",3]\n"
                 " %m = Mul(%g, %s) : f32[\"N\",3]\n output %m\n}",
          0);
    folds(VECTOR " init %s : f32[3] = {2,-1,0.5}\n %g = MatMul(%x, %w) : f32[\"N\",3]\n"
                 " %m = Mul(%g, %s) : f32[\"N\",3]\n output %m\n}",
          0);
    folds(VECTOR " init %s : f32[2] = {2,-4}\n %m = Mul(%x, %s) : f32[\"N\",2]\n"
                 " %g = MatMul(%m, %w) : f32[\"N\",3]\n output %g\n}",
          0);
    folds(COLUMN " init %s : f32[2] = {2,-4}\n %m = Mul(%x, %s) : f32[\"N\",2]\n"
                 " %g = Gemm(%m, %w) {transB=1} : f32[\"N\",3]\n output %g\n}",
          0);
    /* along rows of the batch there is no weight to take it */
    stays(GRAPH " input %x : f32[2,2]\n init %w : f32[2,3] = {1,2,3,4,5,6}\n"
                " init %s : f32[2,1] = {2,-4}\n %g = MatMul(%x, %w) : f32[2,3]\n"
                " %m = Mul(%g, %s) : f32[2,3]\n output %m\n}");
}

TEST(forward_the_product_is_affine_in_what_it_was_made_of) {
    struct pass_case c;
    pass_begin(&c, GRAPH IMAGE WEIGHTS
               " init %s : f32[2,1,1] = {2, 4}\n"
               " init %t : f32[2,1,1] = {-1, 3}\n"
               " %m = Mul(%x, %s) : f32[\"N\",2,5,5]\n %a = Add(%m, %t) : f32[\"N\",2,5,5]\n"
               " %r = Relu(%a) : f32[\"N\",2,5,5]\n"
               " %c = Conv(%r, %w, %b) : f32[\"N\",3,4,4]\n"
               " %d = Conv(%r, %w) : f32[\"N\",3,4,4]\n output %c\n output %d\n}");
    pass_check(&c, "fold-scale-axis", ROUNDING);
    assert_int_equal(pass_count(&c, "Mul"), 0);
    assert_ptr_equal(pass_origin(&c, "m")->value, pass_origin(&c, "x")->value);
    pass_fate_is(&c, "m", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "r", TMK_LINEAGE_AFFINE);
    assert_true(pass_origin(&c, "m")->how.affine.scale[1] == 0.25);
    pass_fate_is(&c, "x", TMK_LINEAGE_SAME);
    pass_end(&c);
    stays(GRAPH IMAGE WEIGHTS " init %s : f32[2,1,1] = {2, 0}\n"
                              " %m = Mul(%x, %s) : f32[\"N\",2,5,5]\n"
                              " %c = Conv(%m, %w) : f32[\"N\",3,4,4]\n output %c\n}");
    stays(GRAPH IMAGE WEIGHTS " init %s : f32[2,1,1] = {2, -1}\n"
                              " %m = Mul(%x, %s) : f32[\"N\",2,5,5]\n"
                              " %r = Relu(%m) : f32[\"N\",2,5,5]\n"
                              " %c = Conv(%r, %w) : f32[\"N\",3,4,4]\n output %c\n}");
}

TEST(depthwise_and_transposed_windows_know_their_channels) {
    folds(GRAPH IMAGE
          " init %w : f32[2,1,2,2] = {1,2,3,4,5,6,7,8}\n init %s : f32[2,1,1] = {3,-2}\n"
          " %m = Mul(%x, %s) : f32[\"N\",2,5,5]\n"
          " %c = Conv(%m, %w) {group=2} : f32[\"N\",2,4,4]\n output %c\n}",
          0);
    folds(GRAPH IMAGE " init %w : f32[2,3,1,1] = {1,2,3,4,5,6}\n init %s : f32[2,1,1] = {3,-2}\n"
                      " init %t : f32[3,1,1] = {0, 2, -1}\n"
                      " %m = Mul(%x, %s) : f32[\"N\",2,5,5]\n"
                      " %c = ConvTranspose(%m, %w) : f32[\"N\",3,5,5]\n"
                      " %n = Mul(%c, %t) : f32[\"N\",3,5,5]\n output %n\n}",
          0);
    /* two groups of several channels each: a scale of the operand is no scale along an axis of W */
    stays(GRAPH " input %x : f32[1,4,3,3]\n init %w : f32[2,2,1,1] = {1,2,3,4}\n"
                " init %s : f32[4,1,1] = {3,-2,1,5}\n %m = Mul(%x, %s) : f32[1,4,3,3]\n"
                " %c = Conv(%m, %w) {group=2} : f32[1,2,3,3]\n output %c\n}");
}

TEST(products_that_overflow_are_left) {
    stays(GRAPH IMAGE
          " init %w : f32[1,2,1,1] = {3e38, 1}\n init %s : f32[] = {2}\n"
          " %c = Conv(%x, %w) : f32[\"N\",1,5,5]\n %m = Mul(%c, %s) : f32[\"N\",1,5,5]\n"
          " output %m\n}");
    stays(GRAPH IMAGE
          " init %w : f32[1,2,1,1] = {3, 1}\n init %s : f32[] = {nan}\n"
          " %c = Conv(%x, %w) : f32[\"N\",1,5,5]\n %m = Mul(%c, %s) : f32[\"N\",1,5,5]\n"
          " output %m\n}");
}

TEST(one_scale_after_another_is_one) {
    folds(GRAPH " input %x : f32[2,3]\n init %s : f32[3] = {2,3,4}\n init %t : f32[] = {0.5}\n"
                " %r = Relu(%x) : f32[2,3]\n %m = Mul(%r, %s) : f32[2,3]\n"
                " %n = Mul(%m, %t) : f32[2,3]\n output %n\n}",
          1);
}

TEST(sums_behind_convolutions_and_gemms_become_their_bias) {
    struct pass_case c;
    pass_begin(&c,
               GRAPH IMAGE WEIGHTS " init %t : f32[3,1,1] = {2, -0.5, 0}\n" CONV
                                   " %a = Add(%c, %t) : f32[\"N\",3,4,4]\n init %u : f32[1] = {7}\n"
                                   " %d = Add(%u, %a) : f32[\"N\",3,4,4]\n output %d\n}");
    pass_check(&c, "fold-bias,eliminate-dead", ROUNDING);
    assert_int_equal(pass_count(&c, "Add"), 0);
    pass_fate_is(&c, "c", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "a", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "b", TMK_LINEAGE_AFFINE);
    pass_fate_is(&c, "d", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "w", TMK_LINEAGE_SAME);
    assert_true(pass_origin(&c, "c")->how.affine.shift[0] == 9);
    pass_end(&c);

    pass_begin(&c, VECTOR " init %t : f32[3] = {2,-1,0.5}\n"
                          " %g = Gemm(%x, %w) {alpha=0.5f} : f32[\"N\",3]\n"
                          " %a = Add(%t, %g) : f32[\"N\",3]\n output %a\n}");
    pass_check(&c, "fold-bias", ROUNDING);
    assert_int_equal(pass_count(&c, "Add"), 0);
    pass_end(&c);

    pass_begin(&c, GRAPH IMAGE WEIGHTS " init %t : f32[4,1] = {2, -0.5, 0, 1}\n" CONV
                                       " %a = Add(%c, %t) : f32[\"N\",3,4,4]\n output %a\n}");
    pass_run(&c, "fold-bias"); /* along rows, not channels */
    assert_false(c.progress);
    pass_end(&c);
}
