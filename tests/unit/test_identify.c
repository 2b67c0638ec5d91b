/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "graph/graph.h"
#include "graph_text/read.h"

/* Reads, sorts and identifies; *n (may be NULL) receives the number of IDs. */
static struct tmk_graph *identified(const char *text, uint32_t *n) {
    struct tmk_graph *graph = NULL;
    if (parse_graph(text, NULL, &graph, DIAG) != TMK_OK)
        fail_msg("%s\n%s", test_diag.text, text);
    must(tmk_graph_identify(graph, n, DIAG));
    return graph;
}

/* By name, in graphs below too. */
static const struct tmk_value *find_value(struct tmk_graph *graph, const char *name) {
    const struct tmk_value *found = NULL;
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (strcmp(g->values[i]->name, name) == 0)
                found = g->values[i];
    if (!found)
        fail_msg("no value '%s'", name);
    return found;
}

static void assert_ids(struct tmk_graph *graph, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int64_t id = find_value(graph, names[i])->profile_id;
        if (id != (int64_t)i)
            fail_msg("'%s' has ID %lld instead of %zu", names[i], (long long)id, i);
    }
}

/* The values of two lists of names are known by the same marks. */
static void assert_same_marks(struct tmk_graph *a, const char *const *a_names, struct tmk_graph *b,
                              const char *const *b_names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct tmk_value *x = find_value(a, a_names[i]), *y = find_value(b, b_names[i]);
        if (x->profile_id != y->profile_id || x->fingerprint != y->fingerprint ||
            x->content != y->content || x->ordinal != y->ordinal)
            fail_msg("'%s' and '%s' differ: IDs %lld %lld, ordinals %u %u", a_names[i], b_names[i],
                     (long long)x->profile_id, (long long)y->profile_id, x->ordinal, y->ordinal);
    }
}

static const char network[] = "graph \"net\" opset 17 {\n"
                              "  input %x : f32[1,3]\n"
                              "  init %w1 : f32[3,3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                              "  init %w2 : f32[3,2] = {1, 2, 3, 4, 5, 6}\n"
                              "  %a = MatMul(%x, %w1) \"first\"\n"
                              "  %r = Relu(%a)\n"
                              "  %s = Sigmoid(%a)\n"
                              "  %b = MatMul(%r, %w2) {alpha=1f, beta=[1,2]}\n"
                              "  %c = Mul(%s, %s)\n"
                              "  output %b\n"
                              "  output %c\n"
                              "}\n";
static const char *const network_names[] = {"x", "w1", "a", "r", "w2", "b", "s", "c"};
enum { NETWORK = 8 };

TEST(ids_follow_the_walk_from_the_outputs) {
    uint32_t n = 0;
    struct tmk_graph *graph = identified(network, &n);
    assert_int_equal(n, NETWORK);
    assert_ids(graph, network_names, NETWORK);
    tmk_graph_destroy(&graph);
}

TEST(names_and_order_of_nodes_leave_no_trace) {
    static const char other[] = "graph \"other\" opset 17 producer \"p\" {\n"
                                "  input %in : f32[1,3] \"in:0\"\n"
                                "  init %W2 : f32[3,2] = {1, 2, 3, 4, 5, 6}\n"
                                "  init %W1 : f32[3,3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                                "  %A = MatMul(%in, %W1)\n"
                                "  %S = Sigmoid(%A) \"node\"\n"
                                "  %C = Mul(%S, %S)\n"
                                "  %R = Relu(%A)\n"
                                "  %B = MatMul(%R, %W2) {beta=[1,2], alpha=1f}\n"
                                "  output %B\n"
                                "  output %C\n"
                                "}\n";
    static const char *const names[] = {"in:0", "W1", "A", "R", "W2", "B", "S", "C"};
    struct tmk_graph *a = identified(network, NULL), *b = identified(other, NULL);
    assert_same_marks(a, network_names, b, names, NETWORK);
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

TEST(identifying_twice_changes_nothing) {
    struct tmk_graph *a = identified(network, NULL), *b = identified(network, NULL);
    must(tmk_graph_identify(b, NULL, DIAG));
    assert_same_marks(a, network_names, b, network_names, NETWORK);
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

/* Replaces the first `old` of a text. */
static struct tmk_graph *edited(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    assert_non_null(at);
    struct tmk_text copy = {0};
    tmk_text_append(&copy, text, (size_t)(at - text));
    tmk_text_puts(&copy, new);
    tmk_text_puts(&copy, at + strlen(old));
    assert_false(copy.failed);
    struct tmk_graph *graph = identified(copy.data, NULL);
    tmk_text_finish(&copy);
    return graph;
}

/* `changed`: the names, each between blanks, whose fingerprints the edit must change, and no other.
 */
static void check_edit(const char *old, const char *new, const char *changed) {
    struct tmk_graph *a = identified(network, NULL), *b = edited(network, old, new);
    for (size_t i = 0; i < NETWORK; i++) {
        char word[16];
        const struct tmk_value *x = find_value(a, network_names[i]),
                               *y = find_value(b, network_names[i]);
        snprintf(word, sizeof word, " %s ", network_names[i]);
        bool expected = strstr(changed, word) != NULL;
        if ((x->fingerprint != y->fingerprint) != expected ||
            (x->content != y->content) != expected)
            fail_msg("'%s' for '%s': '%s' %s", new, old, network_names[i],
                     expected ? "has not changed" : "has changed");
    }
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

TEST(an_edit_changes_what_is_downstream_only) {
    check_edit("Relu(%a)", "Tanh(%a)", " r b ");
    check_edit("Relu(%a)", "d::Relu(%a)", " r b ");
    check_edit("Sigmoid(%a)", "Sigmoid(%a) {k=1}", " s c ");
    check_edit("alpha=1f", "alpha=2f", " b ");
    check_edit("alpha=1f", "alpha=1", " b ");
    check_edit("alpha=1f", "gamma=1f", " b ");
    check_edit("beta=[1,2]", "beta=[1,3]", " b ");
    check_edit("MatMul(%x, %w1)", "MatMul(%w1, %x)", " a r s b c ");
    check_edit("MatMul(%x, %w1)", "MatMul(%x, %w1, _)", " a r s b c ");
    check_edit("Mul(%s, %s)", "Mul(%s, %r)", " c ");
    check_edit("%x : f32[1,3]", "%x : f32[1,3,1]", " x a r s b c ");
    check_edit("%x : f32[1,3]", "%x : f16[1,3]", " x a r s b c ");
    check_edit("%x : f32[1,3]", "%x : f32[?,7]", "");
    check_edit("w2 : f32[3,2]", "w2 : f32[2,3]", " w2 b ");
    check_edit("w2 : f32[3,2]", "w2 : f32<f16>[3,2]", " w2 b ");
}

TEST(retrained_weights_keep_the_structure) {
    struct tmk_graph *a = identified(network, NULL),
                     *b = edited(network, "{1, 2, 3, 4, 5, 6}", "{1, 2, 3, 4, 5, 7}");
    for (size_t i = 0; i < NETWORK; i++) {
        const struct tmk_value *x = find_value(a, network_names[i]),
                               *y = find_value(b, network_names[i]);
        bool touched = strcmp(x->name, "w2") == 0 || strcmp(x->name, "b") == 0;
        assert_int_equal(x->profile_id, y->profile_id);
        assert_true(x->fingerprint == y->fingerprint);
        assert_true((x->content != y->content) == touched);
    }
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

TEST(constant_nodes_count_as_weights) {
    struct tmk_graph *a = identified("graph \"g\" { input %x : f32[2] init %w : f32[2] = {1, 2} "
                                     "%y = Add(%x, %w) output %y }",
                                     NULL),
                     *b = identified("graph \"g\" { input %x : f32[2] "
                                     "%w = Constant() {value=f32[2]{1, 2}} "
                                     "%y = Add(%x, %w) output %y }",
                                     NULL);
    static const char *const names[] = {"x", "w", "y"};
    assert_same_marks(a, names, b, names, 3);
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

TEST(equal_computations_get_ordinals) {
    struct tmk_graph *graph =
        identified("graph \"g\" { input %x : f32[2] input %z : f32[2] init %v : f32[2] = {3, 4} "
                   "init %w : f32[2] = {1, 2} %c = Relu(%x) %b = Relu(%x) %a = Relu(%x) "
                   "%d = Relu(%z) %s = Sum(%a, %b, %c, %d, %w, %v) output %s }",
                   NULL);
    const struct tmk_value *a = find_value(graph, "a"), *b = find_value(graph, "b"),
                           *c = find_value(graph, "c"), *d = find_value(graph, "d"),
                           *v = find_value(graph, "v"), *w = find_value(graph, "w");
    assert_true(a->fingerprint == b->fingerprint && b->fingerprint == c->fingerprint);
    assert_true(a->fingerprint != d->fingerprint);
    assert_int_equal(a->ordinal, 0);
    assert_int_equal(b->ordinal, 1);
    assert_int_equal(c->ordinal, 2);
    assert_int_equal(d->ordinal, 0);
    assert_true(v->fingerprint == w->fingerprint && v->content != w->content);
    assert_int_equal(w->ordinal, 0); /* IDs follow the operands of Sum */
    assert_int_equal(v->ordinal, 1);
    assert_true(find_value(graph, "x")->fingerprint != find_value(graph, "z")->fingerprint);
    tmk_graph_destroy(&graph);
}

TEST(outputs_of_one_node_differ) {
    struct tmk_graph *graph = identified("graph \"g\" { input %x : f32[2] %a, _, %b = Split(%x) "
                                         "output %b }",
                                         NULL);
    static const char *const names[] = {"x", "a", "b"};
    assert_true(find_value(graph, "a")->fingerprint != find_value(graph, "b")->fingerprint);
    assert_ids(graph, names, 3);
    tmk_graph_destroy(&graph);
}

TEST(dead_values_come_last_in_any_order_of_the_file) {
    static const char *const names[] = {"x", "y", "d1", "d2", "d3", "w", "v"};
    uint32_t n = 0;
    struct tmk_graph *a = identified("graph \"g\" { input %x : f32[2] init %w : i8[1] = {1} "
                                     "init %v : i8[1] = {2} %d1 = A(%x) %d2 = B(%d1) %d3 = C(%x) "
                                     "%y = D(%x) output %y }",
                                     &n),
                     *b = identified("graph \"g\" { input %x : f32[2] init %v : i8[1] = {2} "
                                     "init %w : i8[1] = {1} %d3 = C(%x) %y = D(%x) %d1 = A(%x) "
                                     "%d2 = B(%d1) output %y }",
                                     NULL);
    assert_int_equal(n, 7);
    assert_ids(a, names, 2);
    assert_same_marks(a, names, b, names, 7);
    bool taken[7] = {false};
    for (size_t i = 0; i < 7; i++) {
        int64_t id = find_value(a, names[i])->profile_id;
        assert_true(id >= 0 && id < 7 && !taken[id]);
        taken[id] = true;
    }
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

static const char looping[] =
    "graph \"g\" { input %n : i64[] input %c : bool[] input %x : f32[2] init %w : f32[2] = {1, 2} "
    "%h = Relu(%x) "
    "%y = Loop(%n, %c, %x) {body=graph \"body\" { input %i : i64[] input %k : bool[] "
    "input %t : f32[2] init %l : f32[1] = {5} %u = Add(%t, %h) %q = If(%k) {else_branch=graph "
    "\"e\" { %e = Mul(%u, %w) output %e }, then_branch=graph \"t\" { output %u }} "
    "%dead = Neg(%l) output %k output %q }} "
    "%z = Sub(%y, %w) output %z }";
static const char *const looping_names[] = {"n", "c", "x", "i", "k", "t", "h",   "u",
                                            "w", "e", "q", "y", "z", "l", "dead"};
enum { LOOPING = 15 };

TEST(graphs_below_are_walked_where_their_node_stands) {
    uint32_t n = 0;
    struct tmk_graph *graph = identified(looping, &n);
    assert_int_equal(n, LOOPING);
    assert_ids(graph, looping_names, 13);
    assert_true(find_value(graph, "l")->profile_id >= 13);
    assert_true(find_value(graph, "dead")->profile_id >= 13);
    tmk_graph_destroy(&graph);
}

TEST(graphs_below_count_by_what_they_compute) {
    static const struct {
        const char *old, *new, *changed;
    } edits[] = {
        {"Relu(%x)", "Tanh(%x)", " h u e q y z "},
        {"Add(%t, %h)", "Add(%t, %x)", " u e q y z "},
        {"Add(%t, %h)", "Add(%h, %t)", " u e q y z "},
        {"Mul(%u, %w)", "Mul(%u, %h)", " e q y z "},
        {"then_branch=graph \"t\" { output %u }", "then_branch=graph \"t\" { output %t }",
         " q y z "},
        {"output %k output %q", "output %k output %u", " y z "},
        {"Neg(%l)", "Abs(%l)", " dead "},
        {"graph \"body\"", "graph \"other\"", ""},
        {"body=", "cody=", " y z "},
        {"else_branch=graph \"e\" { %e = Mul(%u, %w) output %e }, then_branch=graph \"t\" { output "
         "%u }",
         "then_branch=graph \"t\" { output %u }, else_branch=graph \"e\" { %e = Mul(%u, %w) output "
         "%e }",
         ""},
        {"else_branch=graph \"e\" { %e = Mul(%u, %w) output %e }, then_branch=graph \"t\" { output "
         "%u }",
         "then_branch=graph \"e\" { %e = Mul(%u, %w) output %e }, else_branch=graph \"t\" { output "
         "%u }",
         " q y z "},
    };
    struct tmk_graph *a = identified(looping, NULL);
    for (size_t k = 0; k < sizeof edits / sizeof edits[0]; k++) {
        struct tmk_graph *b = edited(looping, edits[k].old, edits[k].new);
        for (size_t i = 0; i < LOOPING; i++) {
            char word[16];
            snprintf(word, sizeof word, " %s ", looping_names[i]);
            bool expected = strstr(edits[k].changed, word) != NULL;
            if ((find_value(a, looping_names[i])->fingerprint !=
                 find_value(b, looping_names[i])->fingerprint) != expected)
                fail_msg("'%s' for '%s': '%s' %s", edits[k].new, edits[k].old, looping_names[i],
                         expected ? "has not changed" : "has changed");
        }
        tmk_graph_destroy(&b);
    }
    tmk_graph_destroy(&a);
}

TEST(nodes_do_not_confuse_how_outputs_divide_over_their_graphs) {
    struct tmk_graph *a = identified("graph \"g\" { input %x : f32 %y = S() {g=[graph \"\" { "
                                     "output %x output %x }, graph \"\" { }]} output %y }",
                                     NULL),
                     *b = identified("graph \"g\" { input %x : f32 %y = S() {g=[graph \"\" { "
                                     "output %x }, graph \"\" { output %x }]} output %y }",
                                     NULL);
    assert_true(find_value(a, "y")->fingerprint != find_value(b, "y")->fingerprint);
    tmk_graph_destroy(&a);
    tmk_graph_destroy(&b);
}

TEST(lists_and_strings_of_attributes_are_kept_apart) {
    static const char *const attrs[] = {
        "a=1",         "a=[1]",       "a=[1,1]",        "a=1f",           "a=[1f]",
        "a=\"1\"",     "a=[\"1\"]",   "a=[\"1\",\"\"]", "a=[\"\",\"1\"]", "a=[]",
        "a=floats[]",  "a=:f32",      "a=:i8",          "a=:f32[2]",      "a=:sequence(f32)",
        "a=f32[1]{1}", "a=f32[1]{2}", "a=f32[1,1]{1}",  "a=[f32[1]{1}]",  "a=[f32[1]{1},f32[1]{1}]",
        "a=1, b=2",    "b=1, a=2",    "ab=1",
    };
    enum { N = sizeof attrs / sizeof attrs[0] };
    uint64_t prints[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        char text[128];
        snprintf(text, sizeof text, "graph \"g\" { %%y = C() {%s} output %%y }", attrs[i]);
        struct tmk_graph *graph = identified(text, NULL);
        prints[n++] = find_value(graph, "y")->fingerprint;
        tmk_graph_destroy(&graph);
        for (size_t k = 0; k < i; k++)
            if (prints[k] == prints[i])
                fail_msg("{%s} and {%s} have the same fingerprint", attrs[k], attrs[i]);
    }
}

TEST(long_chains_are_walked_without_recursion) {
    enum { LENGTH = 100000 };
    struct tmk_graph *graph = NULL;
    struct tmk_value *value;
    struct tmk_type type = {.dtype = TMK_FLOAT32, .origin = TMK_FLOAT32};
    uint32_t n = 0;
    must(tmk_graph_create("chain", &graph, DIAG));
    must(tmk_graph_add_input(graph, "x", &type, &value, DIAG));
    for (int i = 0; i < LENGTH; i++) {
        const char *name = "v";
        struct tmk_node *node;
        must(tmk_graph_add_node(graph, NULL,
                                &(struct tmk_node_spec){"", "Relu", "", 1, &value, 1, &name, 1},
                                &node, DIAG));
        value = node->outputs[0];
    }
    must(tmk_graph_add_output(graph, value, DIAG));
    must(tmk_graph_identify(graph, &n, DIAG));
    assert_int_equal(n, LENGTH + 1);
    assert_int_equal(value->profile_id, LENGTH);
    tmk_graph_destroy(&graph);
}
