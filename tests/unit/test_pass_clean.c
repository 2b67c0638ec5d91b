/* SPDX-License-Identifier: Apache-2.0 */
/* Passes that take out what is not needed. */
#include "graph_text/read.h"
#include "pass_case.h"

TEST(what_no_output_needs_goes) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n init %w : f32[3] = {1,2,3}\n"
                   " init %u : f32[3] = {1,2,3}\n"
                   " %a = Mul(%x, %w)\n %b = Mul(%a, %u)\n %c = Relu(%a)\n output %c\n}");
    pass_check(&c, "eliminate-dead", 0);
    assert_true(c.progress);
    pass_fate_is(&c, "a", TMK_LINEAGE_SAME);
    pass_fate_is(&c, "b", TMK_LINEAGE_DEAD);
    pass_fate_is(&c, "u", TMK_LINEAGE_CONSTANT);
    assert_int_equal(pass_count(&c, "Mul"), 1);
    pass_end(&c);
}

TEST(pinned_results_stay) {
    struct pass_case c;
    pass_begin(&c, "graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n init %w : f32[3] = {1,2,3}\n"
                   " %a = Neg(%x)\n %b = Mul(%a, %w)\n %c = Relu(%x)\n output %c\n}");
    const uint32_t b = pass_origin(&c, "b")->id;
    pass_run_pinned(&c, "eliminate-dead", &b, 1);
    assert_false(c.progress);
    pass_check(&c, "eliminate-dead", 0);
    assert_true(c.progress);
    pass_fate_is(&c, "a", TMK_LINEAGE_DEAD);
    pass_end(&c);
}

/* All passes over a graph that is not bound. */
static enum tmk_status run_unbound(const char *text, struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    struct tmk_lineage *lineage = NULL;
    const struct tmk_pass *const *passes = tmk_pass_list();
    size_t n = 0;
    while (passes[n])
        n++;
    *diag = (struct tmk_diag){0};
    assert_ok(parse_graph(text, NULL, &graph, diag), diag);
    assert_ok(tmk_graph_sort(graph, diag), diag);
    assert_ok(tmk_graph_identify(graph, NULL, diag), diag);
    assert_ok(tmk_lineage_create(graph, &lineage, diag), diag);
    enum tmk_status status = tmk_passes_run(graph, lineage, passes, n, NULL, NULL, diag);
    tmk_lineage_destroy(&lineage);
    tmk_graph_destroy(&graph);
    return status;
}

TEST(unbound_graphs_are_bound_or_refused) {
    must(run_unbound("graph \"g\" opset 17 {\n input %x : f32[2]\n %y = Relu(%x)\n"
                     " %z = Identity(%y)\n output %z\n}",
                     DIAG));
    must_fail(run_unbound("graph \"g\" opset 17 {\n input %x : f32[2]\n %y = Relu(%x)\n"
                          " %z = NeverHeardOf(%y)\n output %z\n}",
                          DIAG),
              TMK_UNSUPPORTED, "NeverHeardOf");
}
