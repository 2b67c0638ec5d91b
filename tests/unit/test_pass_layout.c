/* SPDX-License-Identifier: Apache-2.0 */
/* legalize-layout. */
#include "pass_case.h"

#define LAYOUT_IMAGE "graph \"g\" opset 17 {\n input %x : f32[\"N\",2,3,4]\n"

TEST(between_two_such_operators_a_value_is_a_view) {
    struct pass_case c;
    pass_begin(&c,
               LAYOUT_IMAGE " init %s : f32[2,1,1] = {2, -3}\n %a = Erf(%x)\n %b = Mul(%a, %s)\n"
                            " %c = Add(%b, %a)\n output %c\n}");
    pass_check(&c, "legalize-layout,eliminate-common-subexpressions,eliminate-dead", 0);
    assert_true(c.progress);
    assert_int_equal(pass_count(&c, "Transpose"), 2);
    pass_fate_is(&c, "x", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "b", TMK_LINEAGE_VIEW);
    pass_fate_is(&c, "s", TMK_LINEAGE_VIEW);
    pass_fate_is(&c, "c", TMK_LINEAGE_SAME);
    const struct tmk_lineage_view *view = &pass_origin(&c, "b")->how.view;
    assert_true(view->rank == 4 && view->perm[1] == 2 && view->perm[3] == 1);
    pass_end(&c);
}

TEST(what_lies_otherwise_stays) {
    const char *texts[] = {
        "graph \"g\" opset 17 {\n input %x : f32[2,3]\n %a = Relu(%x)\n output %a\n}",
        LAYOUT_IMAGE
        " init %s : f32[3,4] = {1,2,3,4,5,6,7,8,9,10,11,12}\n %a = Mul(%x, %s)\n output %a\n}",
        LAYOUT_IMAGE " input %v : f32[2,3,1]\n %a = Mul(%x, %v)\n output %a\n}",
        LAYOUT_IMAGE " %a = MaxPool(%x) {kernel_shape=[2,2]}\n output %a\n}",
        LAYOUT_IMAGE " %t = Transpose(%x) {perm=[0,2,3,1]}\n %a = Relu(%t)\n output %a\n}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pass_case c;
        pass_begin(&c, texts[i]);
        pass_run(&c, "legalize-layout");
        if (c.progress)
            fail_msg("case %zu was changed", i);
        pass_end(&c);
    }
}
