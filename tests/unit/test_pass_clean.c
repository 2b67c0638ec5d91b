/* SPDX-License-Identifier: Apache-2.0 */
/* Passes that take out what is not needed. */
#include "pass_case.h"

static void what_no_output_needs_goes(void **state) {
    (void)state;
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n init %w : f32[3] = {1,2,3}\n"
                   " init %u : f32[3] = {1,2,3}\n"
                   " %a = Mul(%x, %w)\n %b = Mul(%a, %u)\n %c = Relu(%a)\n output %c\n}");
    pass_check(&c, "eliminate-dead", 0);
    assert_true(c.progress);
    pass_fate_is(&c, "a", TMK_FATE_SAME);
    pass_fate_is(&c, "b", TMK_FATE_DEAD);
    pass_fate_is(&c, "u", TMK_FATE_CONSTANT);
    assert_int_equal(pass_count(&c, "Mul"), 1);
    pass_end(&c);
}

static void pinned_results_stay(void **state) {
    (void)state;
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n init %w : f32[3] = {1,2,3}\n"
                   " %a = Neg(%x)\n %b = Mul(%a, %w)\n %c = Relu(%x)\n output %c\n}");
    const uint32_t b = pass_origin(&c, "b")->id;
    pass_run_pinned(&c, "eliminate-dead", &b, 1);
    assert_false(c.progress);
    pass_check(&c, "eliminate-dead", 0);
    assert_true(c.progress);
    pass_fate_is(&c, "a", TMK_FATE_DEAD);
    pass_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_output_needs_goes),
        cmocka_unit_test(pinned_results_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
