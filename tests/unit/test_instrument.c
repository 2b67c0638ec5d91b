/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"
#include "test.h"

#include <string.h>

#include "graph/graph.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "pass/instrument.h"

static const char model[] = "graph \"g\" opset 17 {\n input %x : f32[2,3]\n"
                            " init %w : f32[3] = {1,2,3}\n %a = Mul(%x, %w)\n %b = Relu(%a)\n"
                            " output %b\n output %a\n}";

static struct tmk_graph *load(const char *text) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(text, NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    must(tmk_graph_identify(graph, NULL, DIAG));
    return graph;
}

static uint32_t instrument(struct tmk_graph *graph, const char *pattern) {
    const struct tmk_instrument_options options = {&pattern, pattern ? 1 : 0,
                                                   TMK_OBSERVER_HISTOGRAM};
    uint32_t n = 0;
    must(tmk_instrument(graph, &options, &n, DIAG));
    must(tmk_graph_verify(graph, DIAG));
    return n;
}

TEST(every_value_gets_an_observer_and_every_use_goes_through_it) {
    struct tmk_graph *graph = load(model);
    assert_int_equal(instrument(graph, NULL), 4);
    uint32_t observers = 0;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        observers += tmk_node_is_observer(node);
        for (uint32_t i = 0; i < node->n_inputs && !tmk_node_is_observer(node); i++)
            assert_true(tmk_node_is_observer(node->inputs[i]->producer));
    }
    assert_int_equal(observers, 4);
    tmk_graph_destroy(&graph);
}

TEST(outputs_keep_their_names_and_order) {
    struct tmk_graph *graph = load(model);
    instrument(graph, NULL);
    assert_string_equal(graph->outputs[0]->name, "b");
    assert_string_equal(graph->outputs[1]->name, "a");
    for (int i = 0; i < 2; i++) {
        assert_true(tmk_node_is_observer(graph->outputs[i]->producer));
        assert_string_equal(tmk_node_string(graph->outputs[i]->producer, "tensor_name", ""),
                            graph->outputs[i]->name);
    }
    tmk_graph_destroy(&graph);
}

TEST(observers_carry_the_ids_that_import_gave) {
    struct tmk_graph *graph = load(model);
    instrument(graph, NULL);
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (tmk_node_is_observer(node)) {
            assert_int_equal(tmk_node_int(node, "profile_id", -1), node->inputs[0]->profile_id);
            assert_int_equal(node->outputs[0]->profile_id, -1);
            assert_string_equal(tmk_node_string(node, "kind", ""), "histogram");
        }
    tmk_graph_destroy(&graph);
}

TEST(selections_choose_what_they_say) {
    static const struct {
        const char *pattern;
        uint32_t n;
    } cases[] = {{"all", 4}, {"weights", 1}, {"activations", 3}, {"[ab]", 2}, {"x", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tmk_graph *graph = load(model);
        assert_int_equal(instrument(graph, cases[i].pattern), cases[i].n);
        tmk_graph_destroy(&graph);
    }
}

TEST(a_pattern_that_names_nothing_is_an_error) {
    struct tmk_graph *graph = load(model);
    const char *pattern = "nothing*";
    const struct tmk_instrument_options options = {&pattern, 1, TMK_OBSERVER_RANGE};
    must_fail(tmk_instrument(graph, &options, NULL, DIAG), TMK_NOTFOUND, "nothing*");
    tmk_graph_destroy(&graph);
}

TEST(a_second_run_adds_nothing) {
    struct tmk_graph *graph = load(model);
    instrument(graph, NULL);
    assert_int_equal(instrument(graph, NULL), 0);
    tmk_graph_destroy(&graph);
}

TEST(an_input_that_is_an_output_stays_one) {
    struct tmk_graph *graph = load("graph \"g\" opset 17 {\n input %x : f32[2,3]\n"
                                   " %a = Relu(%x)\n output %x\n output %a\n}");
    assert_int_equal(instrument(graph, NULL), 2);
    assert_ptr_equal(graph->outputs[0], graph->inputs[0]);
    tmk_graph_destroy(&graph);
}

TEST(values_inside_subgraphs_are_observed_too) {
    struct tmk_graph *graph = NULL;
    must(parse_graph("graph \"g\" opset 17 {\n input %c : bool[]\n input %x : f32[2]\n"
                     " %y = If(%c) {then_branch=graph \"t\" {\n %a = Relu(%x)\n output %a\n"
                     " }, else_branch=graph \"e\" {\n %b = Neg(%x)\n output %b\n }}\n"
                     " output %y\n}",
                     NULL, &graph, DIAG));
    must(tmk_graph_identify(graph, NULL, DIAG));
    assert_int_equal(instrument(graph, NULL), 5);
    tmk_graph_destroy(&graph);
}

TEST(stripping_gives_the_original_back) {
    struct tmk_graph *before = load(model), *after = load(model);
    struct tmk_diag diag = {0};
    uint32_t removed = 0;
    instrument(after, NULL);
    assert_ok(tmk_strip_observers(after, &removed, &diag), &diag);
    assert_int_equal(removed, 4);
    assert_ok(tmk_graph_verify(after, &diag), &diag);
    assert_ok(tmk_graph_identify(after, NULL, &diag), &diag);
    assert_ok(tmk_graph_set_opset(before, "ai.tidemark", 1, &diag), &diag);
    if (!graph_equal(before, after, &diag))
        fail_msg("%s", diag.text);
    tmk_graph_destroy(&before);
    tmk_graph_destroy(&after);
}

/* None of these results declares its type. */
TEST(sequences_and_optionals_get_no_observer) {
    static const char text[] =
        "graph \"g\" opset 21 {\n input %x : f32[2]\n input %c : bool[]\n input %n : i64[]\n"
        " input %q : sequence(f32)\n %s = SequenceConstruct(%x)\n %i = Identity(%s)\n"
        " %o = Optional(%i)\n %g = OptionalGetElement(%o)\n %e = Optional() {type=:f32}\n"
        " %b = If(%c) {then_branch=graph \"t\" {\n %t = SequenceInsert(%g, %x)\n output %t\n },"
        " else_branch=graph \"e\" {\n output %q\n }}\n"
        " %l = Loop(%n, _, %b) {body=graph \"l\" {\n input %k : i64[]\n input %d : ?\n input %v : "
        "?\n"
        " %w = Identity(%v)\n output %d\n output %w\n }}\n"
        " %z = SequenceLength(%l)\n output %z\n output %e\n}";
    struct tmk_graph *graph = load(text);
    assert_int_equal(instrument(graph, NULL), 6); /* x, c, n, k, d, z */
    tmk_graph_destroy(&graph);
}

static const char attentions[] =
    "graph \"g\" opset 24 {\n input %x : f32[1,2,3,4]\n init %w : f32[1] = {1}\n"
    " %a = Attention(%x, %x, %x)\n %r = Relu(%a)\n"
    " %u = Attention(%a, %x, %x)\n %v = Attention(%r, %x, %x)\n"
    " output %v\n output %u\n}";

/* IDs in the order of the nodes' first results; a name that a value has is not taken twice. */
TEST(inner_values_have_names_and_ids_behind_all_others) {
    struct tmk_graph *graph = load(attentions);
    struct tmk_value *shown[6] = {NULL};
    uint32_t n = 0, before = graph->n_values;
    for (struct tmk_node *node = graph->first; node; node = node->next)
        node->name = node->outputs[0]->name[0] == 'u' ? "" : "t";
    must(tmk_value_rename(graph->first->next->outputs[0], "t/scores", DIAG));
    must(tmk_show_inner(graph, DIAG));
    must(tmk_graph_verify(graph, DIAG));
    for (uint32_t i = before; i < graph->n_values; i++) {
        assert_true(graph->values[i]->inner && n < 6);
        assert_int_equal(graph->values[i]->profile_id, before + n);
        shown[n++] = graph->values[i];
    }
    assert_int_equal(n, 6);
    /* a is computed first, then v, of the first output, then u */
    assert_string_equal(shown[0]->name, "a/scores");
    assert_string_equal(shown[1]->name, "t/probabilities");
    assert_string_equal(shown[2]->name, "v/scores");
    assert_string_equal(shown[3]->name, "v/probabilities");
    assert_string_equal(shown[4]->name, "u/scores");
    for (uint32_t i = 1; i < n; i++)
        assert_true(shown[i]->fingerprint != shown[0]->fingerprint);
    assert_int_equal(instrument(graph, "u/*"), 2);
    must(tmk_show_inner(graph, DIAG)); /* adds nothing more */
    tmk_graph_destroy(&graph);
}
