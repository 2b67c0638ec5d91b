/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "graph_text/read.h"

static struct tmk_graph *read_graph(const char *text) {
    struct tmk_graph *graph = NULL;
    if (parse_graph(text, NULL, &graph, DIAG) != TMK_OK)
        fail_msg("%s\n%s", test_diag.text, text);
    return graph;
}

static struct tmk_value *value_of(const struct tmk_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (strcmp(graph->values[i]->name, name) == 0)
            return graph->values[i];
    fail_msg("no value '%s'", name);
    return NULL;
}

static struct tmk_node *maker_of(const struct tmk_graph *graph, const char *name) {
    return value_of(graph, name)->producer;
}

static struct tmk_graph *below(const struct tmk_node *node, const char *name) {
    const struct tmk_attr *attr = tmk_node_attr(node, name);
    assert_non_null(attr);
    return attr->graphs[0];
}

static bool is_used(const struct tmk_value *value, const struct tmk_node *node, uint32_t input) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < value->n_uses; i++)
        n += value->uses[i].node == node && value->uses[i].input == input;
    assert_true(n <= 1);
    return n == 1;
}

static void assert_valid(const struct tmk_graph *graph) {
    must(tmk_graph_verify(graph, DIAG));
}

static const char branching[] = "graph \"g\" opset 17 {\n"
                                "  input %x : f32[4] @p0\n"
                                "  input %c : bool[]\n"
                                "  init %w : f32[2] = {1, 2} @p1\n"
                                "  %a = Relu(%x)\n"
                                "  %b = Add(%a, %a)\n"
                                "  %y = If(%c) {else_branch=graph \"e\" {\n"
                                "    %s = Mul(%a, %w)\n"
                                "    output %s\n"
                                "  }, then_branch=graph \"t\" {\n"
                                "    output %a\n"
                                "  }}\n"
                                "  output %y\n"
                                "  output %a\n"
                                "  output %b\n"
                                "}\n";

TEST(use_lists_know_every_use_in_graphs_below_too) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a");
    struct tmk_graph *inner = below(maker_of(graph, "y"), "else_branch");
    assert_int_equal(a->n_uses, 3);
    assert_true(is_used(a, maker_of(graph, "b"), 0));
    assert_true(is_used(a, maker_of(graph, "b"), 1));
    assert_true(is_used(a, inner->first, 0));
    assert_int_equal(a->n_graph_outputs, 2);
    assert_int_equal(value_of(graph, "x")->n_uses, 1);
    tmk_graph_destroy(&graph);
    assert_null(graph);
    tmk_graph_destroy(&graph);
    tmk_graph_destroy(NULL);
}

TEST(setting_an_input_moves_one_use) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a"), *x = value_of(graph, "x");
    struct tmk_node *b = maker_of(graph, "b");
    must(tmk_node_set_input(b, 1, x, DIAG));
    assert_true(is_used(x, b, 1));
    assert_true(is_used(a, b, 0));
    assert_false(is_used(a, b, 1));
    must(tmk_node_set_input(b, 1, NULL, DIAG));
    assert_false(is_used(x, b, 1));
    assert_null(b->inputs[1]);
    must(tmk_node_set_input(b, 0, a, DIAG));
    assert_true(is_used(a, b, 0));
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(replacing_spares_the_node_excepted) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a"), *x = value_of(graph, "x");
    struct tmk_node *b = maker_of(graph, "b");
    must(tmk_value_replace(a, x, b, false, DIAG));
    assert_int_equal(a->n_uses, 2);
    assert_true(is_used(a, b, 0) && is_used(a, b, 1));
    assert_true(is_used(x, below(maker_of(graph, "y"), "else_branch")->first, 0));
    assert_int_equal(a->n_graph_outputs, 2);
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(replacing_reaches_outputs_of_all_graphs_on_request) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a"), *x = value_of(graph, "x");
    must(tmk_value_replace(a, x, NULL, true, DIAG));
    assert_int_equal(a->n_uses, 0);
    assert_int_equal(a->n_graph_outputs, 0);
    assert_int_equal(x->n_graph_outputs, 2);
    assert_ptr_equal(graph->outputs[1], x);
    assert_ptr_equal(below(maker_of(graph, "y"), "then_branch")->outputs[0], x);
    tmk_node_remove(a->producer);
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(removing_a_node_releases_what_it_used) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a"), *y = value_of(graph, "y"),
                     *w = value_of(graph, "w");
    must(tmk_value_replace(y, a, NULL, true, DIAG));
    struct tmk_node *conditional = y->producer;
    tmk_node_remove(conditional);
    assert_true(conditional->removed);
    assert_false(tmk_value_alive(y));
    assert_true(tmk_value_alive(a));
    assert_int_equal(graph->n_nodes, 2);
    assert_int_equal(a->n_uses, 2);
    assert_int_equal(w->n_uses, 0);
    assert_int_equal(value_of(graph, "c")->n_uses, 0);
    assert_int_equal(a->n_graph_outputs, 2); /* its own place and y's; the branch's went */
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(first_and_last_nodes_can_be_removed_and_put_back) {
    struct tmk_graph *graph = read_graph("graph \"g\" { input %x : f32 %a = A(%x) %b = B(%x) "
                                         "%c = C(%x) output %b }");
    struct tmk_value *x = value_of(graph, "x");
    struct tmk_node *b = maker_of(graph, "b"), *first, *last;
    tmk_node_remove(maker_of(graph, "a"));
    tmk_node_remove(maker_of(graph, "c"));
    assert_ptr_equal(graph->first, b);
    assert_ptr_equal(graph->last, b);
    const char *name = "new";
    must(tmk_graph_add_node(graph, b, &(struct tmk_node_spec){"", "First", "", 1, &x, 1, &name, 1},
                            &first, DIAG));
    must(tmk_graph_add_node(
        graph, NULL, &(struct tmk_node_spec){"", "Last", "", 1, &x, 1, &name, 1}, &last, DIAG));
    assert_ptr_equal(graph->first, first);
    assert_ptr_equal(first->next, b);
    assert_ptr_equal(b->prev, first);
    assert_ptr_equal(b->next, last);
    assert_ptr_equal(graph->last, last);
    assert_int_equal(graph->n_nodes, 3);
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(replacing_an_attribute_releases_what_the_old_graph_used) {
    struct tmk_graph *graph = read_graph(branching), *empty;
    struct tmk_node *node = maker_of(graph, "y");
    struct tmk_value *a = value_of(graph, "a"), *w = value_of(graph, "w");
    for (int i = 0; i < 2; i++) {
        must(tmk_graph_create_sub(graph, "new", &empty, DIAG));
        must(tmk_graph_add_output(empty, w, DIAG));
        struct tmk_attr attr = {.kind = TMK_ATTR_GRAPH, .n = 1};
        attr.name = i ? "then_branch" : "else_branch";
        attr.graphs = &empty;
        must(tmk_node_set_attr(node, &attr, DIAG));
    }
    assert_int_equal(w->n_uses, 0);
    assert_int_equal(w->n_graph_outputs, 2);
    assert_int_equal(a->n_uses, 2);
    assert_int_equal(a->n_graph_outputs, 1);
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(attributes_answer_by_name_and_kind) {
    struct tmk_graph *graph = read_graph("graph \"g\" { = C() {i=3, f=0.5f, s=\"t\", is=[1,2], "
                                         "fs=[3f], none=[]} }");
    struct tmk_node *node = graph->first;
    size_t n = 9;
    assert_int_equal(tmk_node_int(node, "i", 7), 3);
    assert_int_equal(tmk_node_int(node, "f", 7), 7);
    assert_int_equal(tmk_node_int(node, "absent", 7), 7);
    assert_true(tmk_node_float(node, "f", 7) == 0.5f);
    assert_true(tmk_node_float(node, "i", 7) == 7.0f);
    assert_string_equal(tmk_node_string(node, "s", "u"), "t");
    assert_string_equal(tmk_node_string(node, "i", "u"), "u");
    assert_int_equal(tmk_node_ints(node, "is", &n)[1], 2);
    assert_int_equal(n, 2);
    assert_null(tmk_node_ints(node, "fs", &n));
    assert_int_equal(n, 0);
    assert_true(tmk_node_floats(node, "fs", &n)[0] == 3.0f);
    assert_int_equal(n, 1);
    (void)tmk_node_ints(node, "none", &n);
    assert_int_equal(n, 0);
    struct tmk_attr attr = {.name = "i", .kind = TMK_ATTR_INT};
    attr.i = 4;
    must(tmk_node_set_attr(node, &attr, DIAG));
    assert_int_equal(tmk_node_int(node, "i", 7), 4);
    assert_int_equal(node->n_attrs, 6);
    tmk_graph_destroy(&graph);
}

TEST(observers_are_looked_through) {
    struct tmk_graph *graph =
        read_graph("graph \"g\" { input %x : f32 %a = Relu(%x) "
                   "%o = ai.tidemark::EdgeObserver(%a) %p = ai.tidemark::EdgeObserver(%o) "
                   "%q = EdgeObserver(%p) output %q }");
    assert_true(tmk_node_is_observer(maker_of(graph, "o")));
    assert_false(tmk_node_is_observer(maker_of(graph, "q")));
    assert_ptr_equal(tmk_value_source(value_of(graph, "p")), value_of(graph, "a"));
    assert_ptr_equal(tmk_value_source(value_of(graph, "q")), value_of(graph, "q"));
    assert_ptr_equal(tmk_value_source(value_of(graph, "x")), value_of(graph, "x"));
    tmk_graph_destroy(&graph);
}

TEST(labels_help_to_find_a_node) {
    char label[64];
    struct tmk_graph *graph =
        read_graph("graph \"g\" { %a = Conv() \"conv1\" %b = Relu(%a) = Sink(%b) }");
    assert_string_equal(tmk_node_label(graph->first, label, sizeof label), "Conv 'conv1'");
    assert_string_equal(tmk_node_label(maker_of(graph, "b"), label, sizeof label),
                        "Relu #1 (makes 'b')");
    tmk_node_label(graph->last, label, 6);
    assert_string_equal(label, "Sink ");
    tmk_graph_destroy(&graph);
}

TEST(numbering_is_dense_in_order_of_appearance) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_graph *inner = below(maker_of(graph, "y"), "else_branch");
    assert_int_equal(tmk_graph_number(graph), 7);
    static const char *const outer[] = {"x", "c", "w", "a", "b"};
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(value_of(graph, outer[i])->index, i);
    assert_int_equal(value_of(inner, "s")->index, 5);
    assert_int_equal(value_of(graph, "y")->index, 6);
    tmk_graph_destroy(&graph);
}

/* ---- order ---- */

static void text_must_be(struct tmk_graph *graph, const char *expected) {
    struct tmk_text text = {0};
    tmk_graph_print(graph, 100, NULL, &text);
    assert_false(text.failed);
    assert_string_equal(text.data, expected);
    tmk_text_finish(&text);
}

TEST(sorting_keeps_an_order_that_is_right) {
    struct tmk_diag diag = {0};
    struct tmk_graph *graph = read_graph(branching), *same = read_graph(branching);
    assert_ok(tmk_graph_sort(graph, &diag), &diag);
    assert_true(graph_equal(graph, same, &diag));
    tmk_graph_destroy(&graph);
    tmk_graph_destroy(&same);
}

TEST(sorting_puts_producers_first) {
    struct tmk_graph *graph = read_graph("graph \"g\" { %0 = A(_) %1 = B(_) %2 = C(_) "
                                         "%3 = D(_, _) output %3 }");
    /* A needs C, C needs B */
    must(tmk_node_set_input(maker_of(graph, "0"), 0, value_of(graph, "2"), DIAG));
    must(tmk_node_set_input(maker_of(graph, "2"), 0, value_of(graph, "1"), DIAG));
    must(tmk_node_set_input(maker_of(graph, "3"), 0, value_of(graph, "0"), DIAG));
    assert_int_equal(tmk_graph_verify(graph, DIAG), TMK_GRAPH);
    must(tmk_graph_sort(graph, DIAG));
    assert_valid(graph);
    text_must_be(graph, "graph \"g\" {\n"
                        "  %0 = B(_) : ? \"1\"\n"
                        "  %1 = C(%0) : ? \"2\"\n"
                        "  %2 = A(%1) : ? \"0\"\n"
                        "  %3 = D(%2, _)\n"
                        "  output %3\n"
                        "}\n");
    assert_ptr_equal(graph->last->prev->next, graph->last);
    assert_null(graph->first->prev);
    assert_null(graph->last->next);
    tmk_graph_destroy(&graph);
}

TEST(sorting_counts_what_graphs_below_capture) {
    struct tmk_graph *graph =
        read_graph("graph \"g\" { %y = Loop() {body=graph \"b\" { %t = If() {then=graph \"c\" { "
                   "%u = Neg(_) output %u }} output %t }} %k = K() output %y }");
    struct tmk_graph *inner = below(below(maker_of(graph, "y"), "body")->first, "then");
    must(tmk_node_set_input(inner->first, 0, value_of(graph, "k"), DIAG));
    must_fail(tmk_graph_verify(graph, DIAG), TMK_GRAPH, "used before it is made");
    must(tmk_graph_sort(graph, DIAG));
    assert_string_equal(graph->first->op, "K");
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(cycles_are_refused_and_leave_the_order) {
    struct tmk_graph *graph =
        read_graph("graph \"g\" { %a = A(_) \"one\" %b = B(%a) \"two\" %c = C(%b) output %c }");
    must(tmk_node_set_input(maker_of(graph, "a"), 0, value_of(graph, "b"), DIAG));
    must_fail(tmk_graph_sort(graph, DIAG), TMK_GRAPH, "A 'one' is on a cycle");
    assert_string_equal(graph->first->op, "A");
    assert_string_equal(graph->last->op, "C");
    struct tmk_node *a = maker_of(graph, "a");
    must(tmk_node_set_input(a, 0, a->outputs[0], DIAG)); /* its own result */
    assert_int_equal(tmk_graph_sort(graph, DIAG), TMK_GRAPH);
    tmk_graph_destroy(&graph);

    graph = read_graph("graph \"g\" { %y = If() {then=graph \"t\" { %u = Neg(_) output %u }} "
                       "output %y }");
    struct tmk_node *inner = below(graph->first, "then")->first;
    must(tmk_node_set_input(inner, 0, value_of(graph, "y"), DIAG));
    must_fail(tmk_graph_sort(graph, DIAG), TMK_GRAPH, "If #0 (makes 'y') is on a cycle");
    tmk_graph_destroy(&graph);
}

TEST(long_chains_sort_without_recursion) {
    enum { LENGTH = 50000 };
    struct tmk_graph *graph = NULL;
    struct tmk_node *before = NULL, *user = NULL;
    must(tmk_graph_create("chain", &graph, DIAG));
    for (int i = 0; i < LENGTH; i++) { /* each node is added after its user */
        struct tmk_value *none = NULL;
        const char *name = "v";
        must(tmk_graph_add_node(graph, before,
                                &(struct tmk_node_spec){"", "Relu", "", 1, &none, 1, &name, 1},
                                &before, DIAG));
        if (user)
            must(tmk_node_set_input(user, 0, before->outputs[0], DIAG));
        user = before;
        before = NULL;
    }
    must(tmk_graph_sort(graph, DIAG));
    assert_ptr_equal(graph->first, user);
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

/* ---- clone and equality ---- */

TEST(clones_are_equal_and_stand_alone) {
    struct tmk_diag diag = {0};
    struct tmk_graph *graph = read_graph(branching), *copy = NULL;
    graph->ir_version = 8;
    struct tmk_value *a = value_of(graph, "a");
    a->fingerprint = 11;
    a->content = 12;
    a->ordinal = 13;
    assert_ok(tmk_graph_clone(graph, &copy, &diag), &diag);
    assert_valid(copy);
    assert_true(graph_equal(graph, copy, &diag));
    assert_int_equal(copy->ir_version, 8);
    assert_ptr_equal(value_of(copy, "w")->data.data, value_of(graph, "w")->data.data);
    assert_int_equal(value_of(copy, "a")->fingerprint, 11);
    assert_int_equal(value_of(copy, "a")->content, 12);
    assert_int_equal(value_of(copy, "a")->ordinal, 13);
    tmk_graph_destroy(&graph);
    assert_true(((const float *)value_of(copy, "w")->data.data)[1] == 2.0f);
    tmk_graph_destroy(&copy);
}

TEST(clones_leave_removed_things_behind) {
    struct tmk_diag diag = {0};
    struct tmk_graph *graph = read_graph(branching), *copy = NULL;
    assert_ok(tmk_value_replace(value_of(graph, "y"), value_of(graph, "x"), NULL, true, &diag),
              &diag);
    tmk_node_remove(maker_of(graph, "y"));
    assert_ok(tmk_graph_clone(graph, &copy, &diag), &diag);
    assert_int_equal(copy->n_values, 5);
    assert_true(graph_equal(graph, copy, &diag));
    tmk_graph_destroy(&graph);
    tmk_graph_destroy(&copy);
}

TEST(every_difference_is_found) {
    static const char base[] =
        "graph \"g\" opset 17 { input %x : f32[\"N\",2] @p0 init %w : f32[2] = {1, 2} "
        "%y, _ = Op(%x, %w, _) {i=1, f=1f, s=\"a\", is=[1,2], fs=[1f], ss=[\"a\"], t=u8[1]{1}, "
        "ts=[u8[1]{1}], type=:f32, g=graph \"t\" { %k = K(%x) output %k }} \"node\" : f32[2], _ "
        "output %y }";
    static const char *const edits[][2] = {
        {"opset 17", "opset 18"},
        {"[\"N\",2]", "[\"M\",2]"},
        {"[\"N\",2]", "[?,2]"},
        {"[\"N\",2]", "[\"N\",3]"},
        {"f32[\"N\",2]", "f64[\"N\",2]"},
        {"f32[\"N\",2]", "f32<f16>[\"N\",2]"},
        {"f32[\"N\",2]", "f32"},
        {"@p0", "@p1"},
        {"@p0", ""},
        {"{1, 2}", "{1, 3}"},
        {"init %w : f32[2]", "init %w : f32<f16>[2]"},
        {"init %w : f32[2] = {1, 2}", "init %w : f32[2] = {1, 2} init %v : f32[2] = {1, 2}"},
        {"%y, _ = Op(%x, %w, _) {", "%y, _ = Op(%x, %w, _) {extra=1, "},
        {"= Op(", "= Oq("},
        {"= Op(", "= d::Op("},
        {"= Op(", "= Op.3("},
        {"(%x, %w, _)", "(%x, %x, _)"},
        {"(%x, %w, _)", "(%x, %w)"},
        {"(%x, %w, _)", "(%x, %w, %w)"},
        {"i=1,", "i=2,"},
        {"i=1,", "i=1f,"},
        {"i=1,", "j=1,"},
        {"i=1,", ""},
        {"f=1f", "f=2f"},
        {"s=\"a\"", "s=\"b\""},
        {"s=\"a\"", "s=\"ab\""},
        {"[1,2]", "[1,3]"},
        {"[1,2]", "[1]"},
        {"fs=[1f]", "fs=[2f]"},
        {"ss=[\"a\"]", "ss=[\"b\"]"},
        {"t=u8[1]{1}", "t=u8[1]{2}"},
        {"t=u8[1]{1}", "t=i8[1]{1}"},
        {"ts=[u8[1]{1}]", "ts=[u8[1]{2}]"},
        {"type=:f32", "type=:f64"},
        {"K(%x)", "K(%w)"},
        {"K(%x) output", "K(%x) : ? \"q\" output"},
        {"output %k", "output %x"},
        {"\"node\"", "\"edon\""},
        {": f32[2], _", ": f32[3], _"},
        {"output %y", "output %x"},
        {"output %y", ""},
        {"output %y", "%z = Z() output %y"},
    };
    struct tmk_graph *graph = read_graph(base), *same = read_graph(base);
    assert_true(graph_equal(graph, same, NULL));
    tmk_graph_destroy(&same);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const char *at = strstr(base, edits[i][0]);
        assert_non_null(at);
        struct tmk_text text = {0};
        struct tmk_diag why = {0};
        tmk_text_append(&text, base, (size_t)(at - base));
        tmk_text_puts(&text, edits[i][1]);
        tmk_text_puts(&text, at + strlen(edits[i][0]));
        struct tmk_graph *other = read_graph(text.data);
        if (graph_equal(graph, other, &why) || graph_equal(other, graph, NULL))
            fail_msg("'%s' for '%s' makes no difference", edits[i][1], edits[i][0]);
        assert_int_equal(why.status, TMK_MISMATCH);
        assert_true(why.text[0]);
        tmk_graph_destroy(&other);
        tmk_text_finish(&text);
    }
    tmk_graph_destroy(&graph);
}

TEST(outputs_differ_when_one_is_absent) {
    struct tmk_graph *a = read_graph("graph \"g\" { %y, _ = C() }"),
                     *b = read_graph("graph \"g\" { %y, %z = C() }"),
                     *c = read_graph("graph \"g\" { %y = C() }");
    assert_false(graph_equal(a, b, NULL));
    assert_false(graph_equal(b, a, NULL));
    assert_false(graph_equal(a, c, NULL));
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
    tmk_graph_destroy(&c);
}

TEST(attributes_are_equal_in_any_order) {
    struct tmk_graph *a = read_graph("graph \"g\" { = C() {a=1, b=2} }"),
                     *b = read_graph("graph \"g\" { = C() {b=2, a=1} }");
    assert_true(graph_equal(a, b, NULL));
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

/* ---- verify ---- */

static void check_violation(struct tmk_graph *graph, const char *part) {
    enum tmk_status status = tmk_graph_verify(graph, DIAG);
    if (status != TMK_GRAPH || !strstr(test_diag.text, part))
        fail_msg("%d '%s' instead of '%s'", (int)status, test_diag.text, part);
}

TEST(broken_use_lists_are_found) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_value *a = value_of(graph, "a"), *x = value_of(graph, "x");
    struct tmk_node *b = maker_of(graph, "b");
    b->inputs[0] = x;
    check_violation(graph, "input 0 ('x') is missing from its use list");
    check_violation(graph, "'a' has a use that is none");
    b->inputs[0] = a;
    assert_valid(graph);

    a->n_uses--;
    check_violation(graph, "is missing from its use list");
    a->n_uses++;
    struct tmk_use use = a->uses[0];
    a->uses[0] = a->uses[1]; /* one twice, another not at all */
    check_violation(graph, "is missing from its use list");
    a->uses[0] = use;
    assert_valid(graph);

    struct tmk_use twice[4] = {a->uses[0], a->uses[1], a->uses[2], a->uses[0]}, *uses = a->uses;
    a->uses = twice;
    a->n_uses = 4;
    check_violation(graph, "'a' lists a use twice");
    a->uses = uses;
    a->n_uses = 3;
    assert_valid(graph);

    a->n_graph_outputs = 1;
    check_violation(graph, "'a' stands 2 times among outputs but counts 1");
    a->n_graph_outputs = 2;
    x->n_graph_outputs = 1;
    check_violation(graph, "'x' stands 0 times among outputs but counts 1");
    x->n_graph_outputs = 0;
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(broken_order_and_scope_are_found) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_node *y = maker_of(graph, "y"), *b = maker_of(graph, "b");
    struct tmk_value *s = value_of(below(y, "else_branch"), "s"), *w = value_of(graph, "w");
    must(tmk_node_set_input(b, 0, value_of(graph, "y"), DIAG));
    check_violation(graph, "Add #1 (makes 'b'): input 0 ('y') is used before it is made");
    must(tmk_node_set_input(b, 0, s, DIAG));
    check_violation(graph, "input 0 ('s') is out of scope");
    must(tmk_node_set_input(b, 0, w, DIAG));
    assert_valid(graph);
    graph->outputs[0] = s;
    check_violation(graph, "graph output 's' is never made");
    graph->outputs[0] = value_of(graph, "y");
    assert_valid(graph);
    tmk_node_remove(maker_of(graph, "a"));
    check_violation(graph, "('a') comes from a removed node");
    check_violation(graph, "graph output 'a' is never made");
    tmk_graph_destroy(&graph);
}

TEST(broken_definitions_are_found) {
    struct tmk_graph *graph = read_graph(branching);
    struct tmk_node *a = maker_of(graph, "a"), *b = maker_of(graph, "b"), *y = maker_of(graph, "y");
    struct tmk_value *result = b->outputs[0], *w = value_of(graph, "w");
    b->outputs[0] = a->outputs[0];
    check_violation(graph, "'a' is defined twice");
    check_violation(graph, "output 0 ('a') does not know its producer");
    b->outputs[0] = result;
    result->output = 1;
    check_violation(graph, "output 0 ('b') does not know its producer");
    result->output = 0;
    graph->inputs[0] = w;
    check_violation(graph, "input 'w' is not an input of its graph");
    graph->inputs[0] = value_of(graph, "x");
    void *data = w->data.data;
    w->data.data = NULL;
    check_violation(graph, "initializer 'w' has no data");
    w->data.data = data;
    graph->n_nodes++;
    check_violation(graph, "graph 'g' counts 4 nodes but holds 3");
    graph->n_nodes--;
    struct tmk_graph *inner = below(y, "else_branch");
    inner->owner = a;
    check_violation(graph, "its attribute 'else_branch' holds a graph of another node");
    inner->owner = y;
    b->graph = inner;
    check_violation(graph, "stands in a graph that is not its own");
    b->graph = graph;
    struct tmk_node *prev = b->prev;
    b->prev = NULL;
    check_violation(graph, "is not linked to the node before it");
    b->prev = prev;
    graph->last = b;
    check_violation(graph, "does not know its last node");
    graph->last = y;
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}

TEST(many_violations_are_counted) {
    struct tmk_graph *graph = read_graph("graph \"g\" { input %x : f32 %y = C(%x, %x, %x, %x, %x, "
                                         "%x, %x, %x, %x, %x) }");
    value_of(graph, "x")->n_uses = 0;
    check_violation(graph, "; and 2 more");
    tmk_graph_destroy(&graph);
}

TEST(values_with_very_many_uses_verify_quickly) {
    enum { USES = 200000 }; /* a walk over the list for each use would take minutes */
    struct tmk_graph *graph = read_graph("graph \"g\" { input %x : f32 }");
    struct tmk_value *x = value_of(graph, "x");
    for (int i = 0; i < USES; i++)
        must(tmk_graph_add_node(
            graph, NULL, &(struct tmk_node_spec){"", "Relu", "", 1, &x, 1, NULL, 0}, NULL, DIAG));
    assert_valid(graph);
    tmk_graph_destroy(&graph);
}
