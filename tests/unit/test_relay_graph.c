/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <string.h>

#include "base/size.h"
#include "relay/ast.h"

/* One kernel over inputs a, b, c of these shapes. */
static void build(struct tmk_text *json, const char *kernel, const char *attrs, uint32_t inputs,
                  const char *shapes) {
    static const char *const names[] = {"a", "b", "c"};
    tmk_text_puts(json, "{\"nodes\": [");
    for (uint32_t i = 0; i < inputs; i++)
        tmk_text_printf(json, "{\"op\": \"null\", \"name\": \"%s\", \"inputs\": []}, ", names[i]);
    tmk_text_printf(json,
                    "{\"op\": \"tvm_op\", \"name\": \"k\", \"attrs\": {\"func_name\": \"%s\", "
                    "\"num_outputs\": \"1\"%s}, \"inputs\": [",
                    kernel, attrs);
    for (uint32_t i = 0; i < inputs; i++)
        tmk_text_printf(json, "%s[%u, 0, 0]", i ? ", " : "", i);
    tmk_text_printf(json, "]}], \"arg_nodes\": [0], \"heads\": [[%u, 0, 0]], \"attrs\": {", inputs);
    tmk_text_puts(json, "\"dltype\": [\"list_str\", [");
    for (uint32_t i = 0; i <= inputs; i++)
        tmk_text_puts(json, i ? ", \"float32\"" : "\"float32\"");
    tmk_text_printf(json, "]], \"shape\": [\"list_shape\", [%s]]}}", shapes);
}

/* The body of @main that the kernel becomes, without its comments. */
static void check(const char *kernel, const char *attrs, uint32_t inputs, const char *shapes,
                  const char *expected) {
    struct tmk_text json = {0}, text = {0};
    struct tmk_relay_module *module = NULL;
    struct tmk_diag diag = {0};
    build(&json, kernel, attrs, inputs, shapes);
    enum tmk_status status = tmk_relay_parse(json.data, json.len, "g", &module, &diag);
    if (!expected) {
        assert_int_equal(status, TMK_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "g: kernels whose operators"));
        assert_non_null(strstr(diag.text, kernel));
    } else {
        assert_ok(status, &diag);
        struct tmk_relay_function *main = tmk_relay_function(module, "main");
        assert_int_equal(main->n_params, inputs);
        assert_string_equal(main->params[0]->name, "a");
        const struct tmk_relay_expr *made = main->body.bindings[main->body.n - 1]->expr;
        assert_string_equal(made->span, kernel);
        assert_int_equal(made->type->kind, TMK_RELAY_TENSOR);
        assert_ok(tmk_relay_print(module, &text, &diag), &diag);
        for (const char *line = expected; *line;) {
            size_t len = strcspn(line, "\n");
            char call[200];
            assert_true(len < sizeof call);
            memcpy(call, line, len);
            call[len] = '\0';
            if (!strstr(text.data, call))
                fail_msg("expected '%s' in\n%s", call, text.data);
            line += len + (line[len] == '\n');
        }
    }
    tmk_text_finish(&json);
    tmk_text_finish(&text);
    tmk_relay_module_destroy(&module);
}

TEST(test_plain_kernels) {
    check("tvmgen_default_fused_nn_relu", "", 1, "[2, 3], [2, 3]", "%0 = nn.relu(%a)");
    check("fused_subtract_12", "", 2, "[2, 3], [3], [2, 3]", "%0 = subtract(%a, %b)");
    check("fused_where", "", 3, "[2], [2], [2], [2]", "%0 = where(%a, %b, %c)");
    check("fused_sqrt_negative_exp", "", 1, "[2], [2]",
          "%0 = sqrt(%a)\n%1 = negative(%0)\n%2 = exp(%1)");
    check("fused_layout_transform_nn_batch_flatten",
          ", \"src_layout\": \"NHWC\", \"dst_layout\": \"NCHW\"", 1, "[1, 2, 2, 3], [1, 12]",
          "%0 = layout_transform(%a, src_layout=\"NHWC\", dst_layout=\"NCHW\")\n"
          "%1 = nn.batch_flatten(%0)");
    check("__nop", "", 1, "[1, 2, 2, 3], [1, 12]", "%0 = reshape(%a, newshape=[1, 12])");
    check("fused_squeeze_nn_relu", "", 1, "[1, 2], [2]",
          "%0 = reshape(%a, newshape=[2])\n%1 = nn.relu(%0)");
    check("fused_cast", "", 1, "[2], [2]", "%0 = cast(%a, dtype=\"float32\")");
    check("fused_nn_softmax", "", 1, "[4, 10], [4, 10]", "%0 = nn.softmax(%a)");
}

/* The shapes decide which operand is the bias. */
TEST(test_dense_with_its_bias) {
    check("fused_nn_dense_add_nn_relu", "", 3, "[4, 8], [6, 8], [6], [4, 6]",
          "%0 = nn.dense(%a, %b, units=6)\n%1 = add(%0, %c)\n%2 = nn.relu(%1)");
    check("fused_nn_dense_add", "", 3, "[6], [4, 8], [6, 8], [4, 6]",
          "%0 = nn.dense(%b, %c, units=6)\n%1 = add(%0, %a)");
    check("fused_nn_dense_nn_bias_add", "", 3, "[4, 8], [6, 8], [6], [4, 6]",
          "%1 = nn.bias_add(%0, %c, axis=-1)");
    check("fused_nn_dense_add", "", 3, "[6, 6], [6, 6], [6, 6], [6, 6]", NULL);
    check("fused_nn_dense_nn_bias_add", "", 3, "[6, 8], [6, 8], [6], [6, 6]", NULL);
}

TEST(test_kernels_that_lost_their_meaning) {
    check("fused_nn_conv2d", "", 2, "[1, 1, 4, 4], [1, 1, 3, 3], [1, 1, 2, 2]", NULL);
    check("fused_nn_softmax", "", 1, "[4, 10, 2], [4, 10, 2]", NULL);
    check("fused_nn_relu_add", "", 2, "[4], [4], [4]", NULL);
    check("fused_multiply", "", 1, "[4], [4]", NULL); /* x * x */
    check("fused_layout_transform", "", 1, "[4], [4]", NULL);
    check("fused_cast_add", "", 2, "[4], [4], [4]", NULL);
    check("fused_reshape_nn_batch_flatten", "", 1, "[4], [4]", NULL);
    check("fused_nn_relux", "", 1, "[4], [4]", NULL);
}

TEST(graph_errors) {
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{\"arg_nodes\"", "g: not JSON"},
        {"{\"arg_nodes\": []}", "g: no list of nodes"},
        {"{\"arg_nodes\": [], \"nodes\": []}", "g: attrs: shape and dltype do not have"},
        {"{\"arg_nodes\": [], \"nodes\": [], \"attrs\": {\"shape\": [\"\", []], \"dltype\": [\"\", "
         "[]]}}",
         "g: no heads"},
        {"{\"arg_nodes\": [], \"nodes\": [3]}",
         "g: attrs: shape and dltype do not have one item for each of 1"},
        {"{\"arg_nodes\": [], \"nodes\": [{\"attrs\": {\"num_outputs\": \"0\"}}]}",
         "g: node 0: a strange number"},
        {"{\"arg_nodes\": [], \"nodes\": [{}], \"attrs\": {\"shape\": [\"\", [[-1]]], \"dltype\": "
         "[\"\", "
         "[\"int8\"]]}}",
         "g: attrs: shape 0 is none"},
        {"{\"arg_nodes\": [], \"nodes\": [{}], \"attrs\": {\"shape\": [\"\", [[1]]], \"dltype\": "
         "[\"\", [\"x\"]]}}",
         "g: attrs: dltype 0"},
        {"{\"arg_nodes\": [], \"nodes\": [{}], \"attrs\": {\"shape\": [\"\", [[1]]], \"dltype\": "
         "[\"\", [\"int8\"]]}}",
         "g: node 0: no op or no name"},
        {"{\"arg_nodes\": [], \"nodes\": [{\"op\": \"a\", \"name\": \"b\"}], \"attrs\": "
         "{\"shape\": [\"\", [[1]]], "
         "\"dltype\": [\"\", [\"int8\"]]}}",
         "g: node 0: an op that is neither"},
        {"{\"arg_nodes\": [], \"nodes\": [{\"op\": \"tvm_op\", \"name\": \"b\", \"attrs\": "
         "{\"func_name\": "
         "\"fused_copy\"}, \"inputs\": [[0, 0, 0]]}], \"attrs\": {\"shape\": [\"\", [[1]]], "
         "\"dltype\": [\"\", [\"int8\"]]}}",
         "g: node 0: an input that no node before it makes"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_relay_module *module = NULL;
        assert_int_equal(tmk_relay_parse(cases[i].json, strlen(cases[i].json), "g", &module, DIAG),
                         TMK_FORMAT);
        assert_null(module);
        if (!strstr(test_diag.text, cases[i].error))
            fail_msg("expected '%s' in '%s'", cases[i].error, test_diag.text);
    }
}
