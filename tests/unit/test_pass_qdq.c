/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-qdq. One code more or less is allowed: rounding is done once where it was done twice. */
#include "pass_case.h"

#include <stdio.h>

#define ONE_CODE 0.04
#define GRAPH "graph \"g\" opset 17 {\n"
#define SCALES                                                                                     \
    " init %s : f32[] = {0.02}\n init %z : u8[] = {128}\n init %o : u8[] = {0}\n"                  \
    " init %t : f32[] = {0.03}\n"
#define QDQ_IMAGE                                                                                  \
    GRAPH " input %x : f32[1,2,4,4]\n" SCALES " %xq = QuantizeLinear(%x, %s, %z)\n"                \
          " %xd = DequantizeLinear(%xq, %s, %z)\n"
#define QDQ_WEIGHTS                                                                                \
    " init %wq : i8[3,2,1,1] = {10, -20, 100, 7, -128, 127}\n init %ws : f32[3] = {0.01, 0.02, "   \
    "0.005}\n init %wz : i8[3] = {0, 0, 0}\n %wd = DequantizeLinear(%wq, %ws, %wz) {axis=0}\n"     \
    " init %bq : i32[3] = {500, -300, 1000}\n init %bs : f32[3] = {0.0002, 0.0004, 0.0001}\n"      \
    " %bd = DequantizeLinear(%bq, %bs) {axis=0}\n"
#define BACK(from) " %yq = QuantizeLinear(" from ", %t, %z)\n %y = DequantizeLinear(%yq, %t, %z)\n"

static void fuses_to(const char *text, const char *op) {
    struct pass_case c;
    pass_begin(&c, text);
    pass_check(&c, "fuse-qdq,eliminate-dead", ONE_CODE);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, op), 1);
    pass_end(&c);
}

TEST(a_convolution_between_pairs_is_one_of_integers) {
    struct pass_case c;
    pass_begin(&c, QDQ_IMAGE QDQ_WEIGHTS
               " %c = Conv(%xd, %wd, %bd) {strides=[2,2]}\n" BACK("%c") " output %y\n}");
    pass_check(&c, "fuse-qdq,eliminate-dead", ONE_CODE);
    assert_int_equal(pass_count(&c, "QLinearConv"), 1);
    assert_int_equal(pass_count(&c, "Conv"), 0);
    assert_int_equal(pass_count(&c, "DequantizeLinear"), 1);
    pass_fate_is(&c, "xd", TMK_LINEAGE_QUANTIZED);
    pass_fate_is(&c, "wd", TMK_LINEAGE_QUANTIZED);
    pass_fate_is(&c, "bd", TMK_LINEAGE_QUANTIZED);
    pass_fate_is(&c, "c", TMK_LINEAGE_ABSORBED);
    pass_fate_is(&c, "yq", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "y", TMK_LINEAGE_SAME);
    const struct tmk_origin *weights = pass_origin(&c, "wd");
    assert_int_equal(weights->how.quantized.n, 3);
    assert_int_equal(weights->how.quantized.axis, 0);
    assert_int_equal(weights->how.quantized.dtype, TMK_INT8);
    assert_ptr_equal(weights->value, pass_origin(&c, "wq")->value);
    pass_end(&c);
}

TEST(other_operators_have_forms_of_integers_too) {
#define PAIR                                                                                       \
    GRAPH " input %x : f32[2,3]\n input %v : f32[2,3]\n" SCALES                                    \
          " %xq = QuantizeLinear(%x, %s, %z)\n %xd = DequantizeLinear(%xq, %s, %z)\n"              \
          " %vq = QuantizeLinear(%v, %t, %z)\n %vd = DequantizeLinear(%vq, %t, %z)\n"
    fuses_to(PAIR " %c = Add(%xd, %vd)\n" BACK("%c") " output %y\n}", "QLinearAdd");
    fuses_to(PAIR " %c = Mul(%xd, %vd)\n" BACK("%c") " output %y\n}", "QLinearMul");
    fuses_to(PAIR " %c = Concat(%xd, %vd) {axis=1}\n" BACK("%c") " output %y\n}", "QLinearConcat");
    fuses_to(PAIR " %c = Sigmoid(%xd)\n" BACK("%c") " output %y\n output %vd\n}", "QLinearSigmoid");
    fuses_to(QDQ_IMAGE " %c = GlobalAveragePool(%xd)\n" BACK("%c") " output %y\n}",
             "QLinearGlobalAveragePool");
    fuses_to(QDQ_IMAGE " %c = AveragePool(%xd) {kernel_shape=[2,2]}\n" BACK("%c") " output %y\n}",
             "QLinearAveragePool");
#define MATRIX                                                                                     \
    " init %wq : i8[3,2] = {10, -20, 100, 7, -128, 127}\n init %ws : f32[2] = {0.01, 0.02}\n"      \
    " init %wz : i8[2] = {0, 0}\n %wd = DequantizeLinear(%wq, %ws, %wz) {axis=1}\n"                \
    " init %bq : i32[2] = {500, -300}\n init %bs : f32[2] = {0.0002, 0.0004}\n"                    \
    " %bd = DequantizeLinear(%bq, %bs) {axis=0}\n"
    fuses_to(PAIR MATRIX " %c = Gemm(%xd, %wd, %bd)\n" BACK("%c") " output %y\n output %vd\n}",
             "QGemm");
    fuses_to(PAIR MATRIX " %c = MatMul(%xd, %wd)\n" BACK("%c") " output %y\n output %vd\n}",
             "QLinearMatMul");
}

TEST(a_relu_goes_where_the_lowest_code_is_zero) {
    struct pass_case c;
    pass_begin(&c, QDQ_IMAGE QDQ_WEIGHTS
               " %c = Conv(%xd, %wd, %bd)\n %r = Relu(%c)\n %yq = QuantizeLinear(%r, %t, %o)\n"
               " %y = DequantizeLinear(%yq, %t, %o)\n output %y\n}");
    pass_check(&c, "fuse-qdq", ONE_CODE);
    assert_int_equal(pass_count(&c, "Relu"), 0);
    pass_fate_is(&c, "r", TMK_LINEAGE_ABSORBED);
    pass_end(&c);
    pass_begin(&c, QDQ_IMAGE QDQ_WEIGHTS
               " %c = Conv(%xd, %wd, %bd)\n %r = Relu(%c)\n" BACK("%r") " output %y\n}");
    pass_run(&c, "fuse-qdq");
    assert_int_equal(pass_count(&c, "Relu"), 1);
    pass_end(&c);
}

TEST(what_moves_elements_moves_codes) {
    struct pass_case c;
    pass_begin(&c,
               QDQ_IMAGE " %m = MaxPool(%xd) {kernel_shape=[2,2], strides=[2,2]}\n"
                         " %mq = QuantizeLinear(%m, %s, %z)\n"
                         " %md = DequantizeLinear(%mq, %s, %z)\n"
                         " init %to : i64[2] = {1, -1}\n %f = Reshape(%md, %to)\n"
                         " %fq = QuantizeLinear(%f, %s, %z)\n"
                         " %fd = DequantizeLinear(%fq, %s, %z)\n init %from : i64[1] = {0}\n"
                         " init %end : i64[1] = {2}\n init %axis : i64[1] = {1}\n"
                         " %g = Slice(%fd, %from, %end, %axis)\n"
                         " %gq = QuantizeLinear(%g, %s, %z)\n %y = DequantizeLinear(%gq, %s, %z)\n"
                         " output %y\n}");
    pass_check(&c, "fuse-qdq", 1e-6);
    assert_int_equal(pass_count(&c, "QuantizeLinear"), 1);
    assert_int_equal(pass_count(&c, "DequantizeLinear"), 1);
    pass_end(&c);
}

TEST(pairs_that_stay_say_why) {
    const struct {
        const char *text, *value, *why;
    } cases[] = {
        {QDQ_IMAGE " %c = Softplus(%xd)\n" BACK("%c") " output %y\n}", "xd", "no form of integers"},
        {QDQ_IMAGE " %c = Sigmoid(%xd)\n output %c\n}", "xd", "not quantized"},
        {QDQ_IMAGE " %c = MaxPool(%xd) {kernel_shape=[2,2]}\n" BACK("%c") " output %y\n}", "xd",
         "scales or zero points"},
        {QDQ_IMAGE
         " init %w : f32[1,2,1,1] = {1, 2}\n %c = Conv(%xd, %w)\n" BACK("%c") " output %y\n}",
         "xd", "not all its operands"},
        {QDQ_IMAGE QDQ_WEIGHTS " init %b : f32[3] = {1, 2, 3}\n %c = Conv(%xd, %wd, %b)\n" BACK(
             "%c") " output %y\n output %bd\n}",
         "wd", "bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pass_case c;
        pass_begin(&c, cases[i].text);
        pass_check(&c, "fuse-qdq", 1e-6);
        pass_fate_is(&c, cases[i].value, TMK_LINEAGE_SAME);
        if (!strstr(pass_origin(&c, cases[i].value)->remark, cases[i].why))
            fail_msg("case %zu: '%s' does not say '%s'", i, pass_origin(&c, cases[i].value)->remark,
                     cases[i].why);
        pass_end(&c);
    }
}

/* No exporter writes it; a hostile file may have it. */
TEST(scales_that_fit_nothing_fuse_nothing) {
    const char *texts[] = {
        /* more scales of the bias than of the weights */
        QDQ_IMAGE
        " init %wq : i8[3,2,1,1] = {1,2,3,4,5,6}\n init %ws : f32[3] = {0.01, 0.02, 0.005}\n"
        " %wd = DequantizeLinear(%wq, %ws) {axis=0}\n"
        " init %bq : i32[5] = {1,2,3,4,5}\n"
        " init %bs : f32[5] = {0.0002, 0.0004, 0.0001, 0.0001, 0.0001}\n"
        " %bd = DequantizeLinear(%bq, %bs) {axis=0}\n %c = Conv(%xd, %wd, %bd)\n" BACK(
            "%c") " output %y\n}",
        /* more scales than channels */
        QDQ_IMAGE " init %wq : i8[3,2,1,1] = {1,2,3,4,5,6}\n"
                  " init %ws : f32[4] = {0.01, 0.02, 0.005, 1}\n"
                  " %wd = DequantizeLinear(%wq, %ws) {axis=0}\n %c = Conv(%xd, %wd)\n" BACK(
                      "%c") " output %y\n}",
        /* Concat has no form for a scale a channel */
        GRAPH " input %x : f32[2,3]\n" SCALES
              " %xq = QuantizeLinear(%x, %s, %z)\n %xd = DequantizeLinear(%xq, %s, %z)\n"
              " init %vq : u8[2,3] = {1,2,3,4,5,6}\n init %vs : f32[3] = {0.01, 0.02, 0.005}\n"
              " init %vz : u8[3] = {0, 0, 0}\n %vd = DequantizeLinear(%vq, %vs, %vz) {axis=1}\n"
              " %c = Concat(%xd, %vd) {axis=0}\n" BACK("%c") " output %y\n}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pass_case c;
        pass_begin(&c, texts[i]);
        pass_run(&c, "fuse-qdq");
        if (c.progress)
            fail_msg("case %zu was fused", i);
        pass_end(&c);
    }
}

TEST(quantizing_what_was_dequantized_alike_is_nothing) {
    struct pass_case c;
    pass_begin(&c,
               QDQ_IMAGE " %a = QuantizeLinear(%xd, %s, %z)\n %y = DequantizeLinear(%a, %s, %z)\n"
                         " output %y\n}");
    pass_check(&c, "fuse-qdq", 1e-6);
    assert_int_equal(pass_count(&c, "QuantizeLinear"), 1);
    pass_fate_is(&c, "a", TMK_LINEAGE_MERGED);
    pass_end(&c);
}

TEST(an_operand_that_others_read_keeps_its_floats) {
    struct pass_case c;
    pass_begin(&c, QDQ_IMAGE QDQ_WEIGHTS " %c = Conv(%xd, %wd, %bd)\n" BACK(
                       "%c") " %n = Neg(%xd)\n output %y\n output %n\n}");
    pass_check(&c, "fuse-qdq", ONE_CODE);
    pass_fate_is(&c, "xd", TMK_LINEAGE_SAME);
    assert_int_equal(pass_count(&c, "QLinearConv"), 1);
    pass_end(&c);
}
