/* SPDX-License-Identifier: Apache-2.0 */
/* What chains are made of: their loops at every instruction set, what is taken, and layouts. */
#include "chain_data.h"

#include <stdio.h>

#include "graph_text/read.h"
#include "kernel/chain.h"
#include "kernel/chain_loops.h"

enum { MOST_INPUTS = 5 };

/* ---- loops ---- */

TEST(loops_give_the_same_bits_on_every_machine_and_at_every_place) {
    enum { MOST = 100 };
    (void)state;
    for (size_t v = 0; tmk_chain_loops_at(v); v++)
        for (int kind = 0; kind < TMK_CHAIN_LOOPS; kind++)
            for (size_t n = 1; n < MOST; n++) {
                float x[MOST], p[MOST + TMK_CHAIN_LANES], q[MOST + TMK_CHAIN_LANES], y[MOST + 1],
                    z[MOST];
                const struct tmk_chain_loops *loops = tmk_chain_loops_at(v);
                for (size_t i = 0; i < TMK_COUNT(p); i++) {
                    p[i] = random_float();
                    q[i] = random_float();
                }
                for (size_t i = 0; i < MOST; i++)
                    x[i] = random_float();
                for (int vary = 0; vary < 2; vary++) {
                    tmk_chain_loop loop = vary ? loops->vary[kind] : loops->lanes[kind],
                                   plain = vary ? tmk_chain_loops_plain.vary[kind]
                                                : tmk_chain_loops_plain.lanes[kind];
                    assert_int_equal(loop == NULL, plain == NULL);
                    if (!loop)
                        continue;
                    if (!vary) /* a pattern of one, so that any n will do */
                        for (size_t i = 1; i < TMK_COUNT(p); i++) {
                            p[i] = p[0];
                            q[i] = q[0];
                        }
                    y[n] = 1234;
                    loop(n, x, p, q, y);
                    assert_true(y[n] == 1234);
                    for (size_t i = 0; i < n; i++) {
                        float one;
                        plain(1, x + i, p + i, q + i, &one);
                        if (!same(y[i], one, true))
                            fail_msg("%s, kind %d, element %zu of %zu: %.9g, not %.9g", loops->name,
                                     kind, i, n, (double)y[i], (double)one);
                    }
                    memcpy(z, x, sizeof z);
                    loop(n, z, p, q, z);
                    for (size_t i = 0; i < n; i++)
                        assert_true(same(z[i], y[i], true));
                    memcpy(z, p, sizeof z);
                    if (vary) {
                        loop(n, x, z, q, z);
                        for (size_t i = 0; i < n; i++)
                            assert_true(same(z[i], y[i], true));
                    }
                }
            }
}

/* ---- what is taken ---- */

/* Is the only node of the graph taken? Inputs named %c... are constants, and the first of the
 * others has the space's shape. */
static bool takes(const char *text, uint32_t block) {
    struct tmk_graph *graph = NULL;
    struct tmk_tensor tensor[MOST_INPUTS];
    const struct tmk_tensor *in[MOST_INPUTS] = {NULL};
    static float data[4096];
    char all[1024];
    snprintf(all, sizeof all, "graph \"g\" %s\n  output %%y\n}\n", text);
    must(parse_graph(all, NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    const struct tmk_node *node = graph->first;
    const struct tmk_shape *space = NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *value = node->inputs[i];
        if (!value)
            continue;
        bool constant = value->name[0] == 'c';
        void *known = value->kind == TMK_VALUE_INITIALIZER ? value->data.data : data;
        tmk_tensor_borrow(&tensor[i], value->type.dtype, &value->type.shape,
                          constant ? known : NULL);
        in[i] = &tensor[i];
        if (!constant && strcmp(value->name, "x") == 0)
            space = &value->type.shape;
    }
    assert_non_null(space);
    bool result = tmk_chain_supports(node, in, space, block);
    tmk_graph_destroy(&graph);
    return result;
}

TEST(only_what_a_chain_can_do_is_taken) {
    static const struct {
        const char *text;
        bool row_major, blocked;
    } cases[] = {
        {"opset 17 {\n input %x : f32[2,8,3,3]\n %y = Relu(%x)", true, true},
        {"opset 17 {\n input %x : i32[2,8,3,3]\n %y = Relu(%x)", false, false},
        {"opset 17 {\n input %x : f32[0,8,3,3]\n %y = Relu(%x)", false, false},
        {"opset 17 {\n input %x : f32[8]\n %y = Relu(%x)", true, false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n %y = Softmax(%x)", false, false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n %y, %mask = Dropout(%x)", false, false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[8,1,1]\n %y = Add(%z, %x)", true,
         true},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[2,8,1,1]\n %y = Mul(%x, %z)", true,
         true},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[3]\n %y = Mul(%x, %z)", true,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %c : f32[2,8,3,3]\n %y = Mul(%x, %c)", true,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[2,1,3,1]\n %y = Mul(%x, %z)", false,
         false},
        {"opset 17 {\n input %x : f32[2,8,1,3]\n input %z : f32[2,8,3,3]\n %y = Mul(%x, %z)", false,
         false},
        {"opset 17 {\n input %x : f32[1,8,3,3]\n input %z : f32[2,8,3,3]\n %y = Mul(%z, %x)", false,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[8,1,1]\n %y = PRelu(%x, %z)", false,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %c : f32[8,1,1]\n %y = PRelu(%x, %c)", true,
         true},
        {"opset 6 {\n input %x : f32[2,8,3,3]\n input %c : f32[8]\n %y = PRelu(%x, %c)", true,
         true},
        {"opset 6 {\n input %x : f32[2,8,3,3]\n input %z : f32[8]\n"
         " %y = Add(%x, %z) {axis=1, broadcast=1}",
         true, true},
        {"opset 6 {\n input %x : f32[2,8,3,3]\n %y = Clip(%x) {max=6f, min=0f}", true, true},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %z : f32[]\n %y = Clip(%x, %z)", false,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n init %c : f32[] = {2.5}\n %y = Pow(%x, %c)", false,
         false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %a : f32[2,8,3,3]\n %y = Max(%x, %a, %x)",
         false, false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %c : f32[8]\n"
         " %y = BatchNormalization(%x, %c, %c, %c, %c)",
         true, true},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %c : f32[8]\n"
         " %y = BatchNormalization(%x, %c, %c, %c, %c) {training_mode=1}",
         false, false},
        {"opset 17 {\n input %x : f32[2,8,3,3]\n input %c : f32[8]\n input %z : f32[8]\n"
         " %y = BatchNormalization(%x, %c, %c, %z, %c)",
         false, false},
        {"opset 7 {\n input %x : f32[2,8,3,3]\n input %c : f32[8,3,3]\n"
         " %y = BatchNormalization(%x, %c, %c, %c, %c) {spatial=0}",
         false, false},
    };
    (void)state;
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        if (takes(cases[i].text, 0) != cases[i].row_major)
            fail_msg("row-major: %s", cases[i].text);
        if (takes(cases[i].text, 8) != cases[i].blocked)
            fail_msg("in blocks: %s", cases[i].text);
        assert_false(takes(cases[i].text, 12));
    }
}

/* ---- layouts ---- */

TEST(layouts_of_the_same_bytes_are_known) {
    static const struct {
        struct tmk_shape shape;
        uint32_t block;
    } cases[] = {{{4, {1, 32, 1, 1}}, 16}, {{4, {1, 32, 1, 2}}, 16}, {{4, {2, 24, 1, 1}}, 16},
                 {{4, {2, 24, 1, 1}}, 8},  {{2, {3, 16}}, 16},       {{4, {1, 3, 4, 5}}, 0},
                 {{3, {1, 1, 5}}, 8}};
    (void)state;
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        size_t n, places;
        assert_true(tmk_shape_count(&cases[i].shape, &n));
        assert_true(tmk_blocked_count(&cases[i].shape, cases[i].block, &places));
        float *x = guarded(n), *laid = guarded(places), *back = guarded(n);
        for (size_t k = 0; k < n; k++)
            x[k] = (float)(k + 1);
        tmk_to_blocks(x, laid, &cases[i].shape, cases[i].block);
        tmk_from_blocks(laid, back, &cases[i].shape, cases[i].block);
        assert_memory_equal(x, back, n * sizeof *x);
        assert_int_equal(tmk_blocked_same(&cases[i].shape, cases[i].block),
                         n == places && memcmp(x, laid, n * sizeof *x) == 0);
        free_guarded(x, n);
        free_guarded(laid, places);
        free_guarded(back, n);
    }
    size_t n = 7;
    assert_false(tmk_blocked_count(&(struct tmk_shape){2, {1, INT64_MAX - 3}}, 16, &n));
    assert_int_equal(n, 7);
}
