/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-conv-activation. */
#include "pass_case.h"

#define MODEL                                                                                      \
    "graph \"g\" opset 17 {\n input %x : f32[\"N\",2,5,5]\n"                                       \
    " init %w : f32[3,2,1,1] = {0.5, -1, 2, 0.25, 1, 1}\n init %b : f32[3] = {1, -0.5, 0.25}\n"    \
    " %c = Conv(%x, %w, %b) \"first\" : f32[\"N\",3,5,5]\n"

static void fuses(const char *text) {
    struct pass_case c;
    pass_begin(&c, text);
    pass_check(&c, "fuse-conv-activation", 0);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Conv"), 0);
    assert_int_equal(pass_count(&c, "FusedConv"), 1);
    pass_fate_is(&c, "a", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "c", TMK_LINEAGE_ABSORBED);
    assert_ptr_equal(pass_origin(&c, "c")->value, pass_origin(&c, "a")->value);
    pass_end(&c);
}

TEST(the_convolution_is_inside) {
    fuses(MODEL " %a = Relu(%c)\n %n = Neg(%a)\n output %n\n}");
    fuses(MODEL " %a = Tanh(%c)\n output %a\n}");
    fuses(MODEL " %a = LeakyRelu(%c)\n output %a\n}");
    fuses(MODEL " %a = HardSigmoid(%c) {beta=0.25f}\n output %a\n}");
    fuses(MODEL " init %l : f32[] = {-0.5}\n init %h : f32[] = {6}\n %a = Clip(%c, %l, %h)\n"
                " output %a\n}");
}

TEST(observed_and_unknown_values_stay) {
    const char *texts[] = {
        MODEL " %a = Relu(%c)\n output %a\n output %c\n}",
        MODEL " %a = Relu(%c)\n %n = Neg(%c)\n output %a\n output %n\n}",
        MODEL " init %h : f32[] = {6}\n %a = Clip(%c, _, %h)\n output %a\n}",
        MODEL " %a = Softplus(%c)\n output %a\n}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pass_case c;
        pass_begin(&c, texts[i]);
        pass_run(&c, "fuse-conv-activation");
        assert_false(c.progress);
        pass_end(&c);
    }
    struct pass_case c;
    pass_begin(&c, MODEL " %a = Relu(%c)\n output %a\n}");
    const uint32_t pinned = pass_origin(&c, "c")->id;
    pass_run_pinned(&c, "fuse-conv-activation", &pinned, 1);
    assert_false(c.progress);
    pass_end(&c);
}
