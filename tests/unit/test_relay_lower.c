/* SPDX-License-Identifier: Apache-2.0 */
/* Relay modules as graphs: names, types, parameters, what is said of each expression, refusals. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "graph/print.h"
#include "relay/relay.h"

static struct tmk_relay_module *module_of(const char *text) {
    struct tmk_relay_module *module = NULL;
    must(tmk_relay_parse(text, strlen(text), "test", &module, DIAG));
    return module;
}

static struct tmk_graph *lowered(struct tmk_relay_module *module,
                                 const struct tmk_relay_params *params) {
    struct tmk_graph *graph = NULL;
    must(tmk_relay_lower(module, params, false, &graph, DIAG));
    return graph;
}

static const struct tmk_value *named(const struct tmk_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (strcmp(graph->values[i]->name, name) == 0 && tmk_value_alive(graph->values[i]))
            return graph->values[i];
    fail_msg("there is no value '%s'", name);
    return NULL;
}

TEST(names_are_the_texts) {
    struct tmk_relay_module *module =
        module_of("#[version = \"0.0.5\"]\n"
                  "def @main(%data: Tensor[(2, 4), float32], %b: Tensor[(4), float32]) {\n"
                  "  %0 = nn.bias_add(%data, %b);\n"
                  "  let %kept = nn.relu(%0);\n"
                  "  %1 = split(%kept, indices_or_sections=2, axis=1);\n"
                  "  %2 = %1.1;\n"
                  "  concatenate((%2, nn.relu(%1.0)), axis=1)\n"
                  "}\n");
    struct tmk_graph *graph = lowered(module, NULL);
    assert_int_equal(graph->n_inputs, 2);
    assert_string_equal(graph->inputs[0]->name, "data");
    assert_string_equal(graph->outputs[0]->name, "output");
    assert_string_equal(named(graph, "%0")->producer->name, "nn.bias_add %0");
    assert_true(tmk_node_is(named(graph, "kept")->producer, "", "Relu"));
    assert_int_equal(named(graph, "%2")->output, 1);
    assert_int_equal(named(graph, "%1.0")->output, 0);
    assert_true(tmk_node_is(named(graph, "output/0.1")->producer, "", "Relu"));
    assert_int_equal(named(graph, "output")->type.shape.dim[1], 4);
    /* Expressions name their value. */
    const struct tmk_relay_function *fn = tmk_relay_function(module, "main");
    assert_ptr_equal(fn->body.bindings[0]->expr->value, named(graph, "%0"));
    assert_null(fn->body.bindings[2]->expr->value);
    assert_ptr_equal(fn->body.bindings[3]->expr->value, named(graph, "%2"));
    tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);
}

TEST(parameters_are_bound_by_name) {
    static float numbers[] = {1, 2, 3, 4};
    struct tmk_relay_param items[] = {{.name = "_b", .dtype = "float32"}};
    struct tmk_relay_params params = {.items = items, .n = 1};
    tmk_tensor_borrow(&items[0].tensor, TMK_FLOAT32, &(struct tmk_shape){1, {4}}, numbers);
    struct tmk_relay_module *module =
        module_of("def @main(%x: Tensor[(2, 4), float32], %v_b: Tensor[(4), float32]) {\n"
                  "  add(%x, %v_b)\n}\n");
    struct tmk_graph *graph = lowered(module, &params);
    assert_int_equal(graph->n_inputs, 1);
    assert_int_equal(named(graph, "v_b")->kind, TMK_VALUE_INITIALIZER);
    tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);

    module = module_of("def @main(%x: Tensor[(2, 3), float32], %v_b: Tensor[(3), float32]) {\n"
                       "  add(%x, %v_b)\n}\n");
    must_fail(tmk_relay_lower(module, &params, false, &graph, DIAG), TMK_SHAPE, "'%v_b'");
    assert_non_null(strstr(test_diag.text, "[4]"));
    tmk_relay_module_destroy(&module);
}

TEST(numbers_that_no_node_needs_are_no_values) {
    struct tmk_relay_module *module = module_of("def @main(%x: Tensor[(2, 4), int8]) {\n"
                                                "  %0 = qnn.dequantize(%x, 0.5f, 0);\n"
                                                "  nn.pad(%0, 0, pad_width=[[0, 0], [1, 0]])\n}\n");
    struct tmk_graph *graph = lowered(module, NULL);
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]))
            assert_true(graph->values[i]->n_uses || graph->values[i]->n_graph_outputs);
    assert_int_equal(named(graph, "%0/1")->kind, TMK_VALUE_INITIALIZER);
    tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);
}

TEST(attributes_may_go_by_position) {
    struct tmk_relay_module *module = module_of("def @main(%x: Tensor[(2, 4), float32]) {\n"
                                                "  %0 = cast(%x, \"int8\");\n"
                                                "  reshape(%0, [4, 2])\n}\n");
    struct tmk_graph *graph = lowered(module, NULL);
    assert_int_equal(named(graph, "output")->type.dtype, TMK_INT8);
    assert_int_equal(named(graph, "output")->type.shape.dim[0], 4);
    tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);
}

TEST(functions_are_inlined_and_end) {
    static const char deep[] = "def @main(%x: Tensor[(2), float32]) { @f(@f(%x)) }\n"
                               "def @f(%y) { %0 = nn.relu(%y); abs(%0) }\n";
    struct tmk_relay_module *module = module_of(deep);
    struct tmk_graph *graph = lowered(module, NULL);
    assert_int_equal(graph->n_nodes, 4);
    assert_true(tmk_node_is(named(graph, "output/%0")->producer, "", "Relu"));
    assert_true(tmk_node_is(named(graph, "output/0/%0")->producer, "", "Relu"));
    tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);

    module = module_of("def @main(%x: Tensor[(2), float32]) { @f(%x) }\n"
                       "def @f(%y) { @f(%y) }\n");
    must_fail(tmk_relay_lower(module, NULL, false, &graph, DIAG), TMK_UNSUPPORTED, "nested deeper");
    tmk_relay_module_destroy(&module);
}

/* Each message has its place and what is wrong. */
TEST(refusals_have_a_place) {
    static const struct {
        const char *body, *says[3];
        enum tmk_status status;
    } cases[] = {
        {"foo.bar(nn.relu(%x), my.op(%x))", {"foo.bar at 2:3", "my.op at 2:24"}, TMK_UNSUPPORTED},
        {"add(nn.relu(%x), nn.relu(%x, %x))", {"2:20", "nn.relu", "2 operands"}, TMK_GRAPH},
        {"nn.softmax(%x, axes=1)", {"2:3", "'axes'"}, TMK_UNSUPPORTED},
        {"nn.softmax(%x, axis=5)", {"2:3", "axis 5"}, TMK_RANGE},
        {"nn.relu(%x) /* ty=Tensor[(3, 4), float32] */", {"[3,4]", "[2,4]"}, TMK_SHAPE},
        {"meta[relay.Constant][7] /* ty=Tensor[(3), float32] */",
         {"show_meta_data"},
         TMK_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct tmk_graph *graph = NULL;
        snprintf(text, sizeof text, "def @main(%%x: Tensor[(2, 4), float32]) {\n  %s\n}\n",
                 cases[i].body);
        struct tmk_relay_module *module = module_of(text);
        assert_int_equal(tmk_relay_lower(module, NULL, false, &graph, DIAG), cases[i].status);
        for (int k = 0; k < 3 && cases[i].says[k]; k++)
            if (!strstr(test_diag.text, cases[i].says[k]))
                fail_msg("no '%s' in: %s", cases[i].says[k], test_diag.text);
        /* For looking at, what is not known is kept. */
        if (cases[i].status == TMK_UNSUPPORTED && i != 2) {
            must(tmk_relay_lower(module, NULL, true, &graph, DIAG));
            tmk_graph_destroy(&graph);
        }
        tmk_relay_module_destroy(&module);
    }
}
