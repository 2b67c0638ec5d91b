/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as Relay: operators by their text, names that Relay cannot spell, what it cannot express.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/relay_equal.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "relay/builder.h"
#include "relay/relay.h"

static struct tmk_graph *graph_of(int opset, const char *body, struct tmk_diag *diag) {
    char text[4096];
    struct tmk_graph *graph = NULL;
    int length =
        snprintf(text, sizeof text, "graph \"t\" opset %d \"ai.tidemark\" 1 {\n%s\noutput %%y\n}\n",
                 opset, body);
    assert_true(length > 0 && (size_t)length < sizeof text);
    assert_ok(parse_graph(text, NULL, &graph, diag), diag);
    assert_ok(tmk_graph_sort(graph, diag), diag);
    assert_ok(tmk_ops_bind(graph, diag), diag);
    assert_ok(tmk_graph_identify(graph, NULL, diag), diag);
    return graph;
}

/* The module, printed; its parse is equal to it. */
static char *said(int opset, const char *body, const struct tmk_relay_export_options *options) {
    struct tmk_diag diag = {0};
    struct tmk_text text = {0};
    struct tmk_relay_module *module = NULL, *read = NULL;
    struct tmk_relay_params *params = NULL;
    struct tmk_graph *graph = graph_of(opset, body, &diag);
    assert_ok(tmk_relay_export(graph, options, &module, &params, &diag), &diag);
    tmk_graph_destroy(&graph);
    assert_ok(tmk_relay_print(module, &text, &diag), &diag);
    assert_ok(tmk_relay_parse(text.data, text.len, "printed", &read, &diag), &diag);
    if (!relay_equal(module, read, true, &diag))
        fail_msg("%s\n%s", diag.text, text.data);
    tmk_relay_module_destroy(&read);
    tmk_relay_module_destroy(&module);
    tmk_relay_params_destroy(&params);
    return text.data;
}

static void says_with(int opset, const char *body, const struct tmk_relay_export_options *options,
                      const char *const *lines) {
    char *text = said(opset, body, options);
    const char *at = text;
    for (; *lines; lines++) {
        at = strstr(at, *lines);
        if (!at)
            fail_msg("no '%s' here, or not in this order:\n%s", *lines, text);
    }
    free(text);
}

#define SAYS(opset, body, ...)                                                                     \
    says_with(opset, body, NULL, (const char *const[]){__VA_ARGS__, NULL})
#define ZEROS_3 "{0, 0, 0}"
#define ZEROS_4 "{0, 0, 0, 0}"
#define ZEROS_18 "{0,0,0, 0,0,0, 0,0,0, 0,0,0, 0,0,0, 0,0,0}"
#define ZEROS_36 "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}"
#define ZEROS_1 "{0}"
#define X "input %x : f32[1,4,8,8]\n"
#define M "input %x : f32[2,6]\n"

TEST(convolutions_say_what_is_not_the_default) {
    SAYS(13, X "init %w : f32[2,4,1,1] = {1,2,3,4,5,6,7,8}\n%y = Conv(%x, %w)",
         "%w: Tensor[(2, 4, 1, 1), float32]",
         "nn.conv2d(%x, %w, channels=2, kernel_size=[1, 1]) /* ty=Tensor[(1, 2, 8, 8), float32]");
    SAYS(13,
         X "init %w : f32[4,1,3,3] = " ZEROS_36 "\ninit %b : f32[4] = " ZEROS_4 "\n"
           "%y = Conv(%x, %w, %b) {auto_pad=\"SAME_UPPER\", group=4, strides=[2,2]}",
         "%0 = nn.conv2d(%x, %w, strides=[2, 2], padding=[0, 0, 1, 1], groups=4, channels=4, "
         "kernel_size=[3, 3])",
         "nn.bias_add(%0, %b)");
}

TEST(pools_round_up_only_where_relay_means_the_same) {
    SAYS(13,
         "input %x : f32[1,1,5,5]\n%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[2,2], "
         "strides=[2,2]}",
         "nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2], ceil_mode=True)");
    /* the window behind the data, which ONNX drops and TVM keeps */
    SAYS(13,
         "input %x : f32[1,1,5,5]\n%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[1,1], "
         "strides=[3,3]}",
         "nn.max_pool2d(%x, pool_size=[1, 1], strides=[3, 3])");
    SAYS(13, X "%y = GlobalAveragePool(%x)", "nn.global_avg_pool2d(%x)");
}

TEST(matrices_are_turned_where_relay_wants_them_turned) {
    SAYS(13,
         M "init %w : f32[3,6] = " ZEROS_18 "\ninit %b : f32[3] = " ZEROS_3
           "\n%y = Gemm(%x, %w, %b) {transB=1}",
         "%0 = nn.dense(%x, %w, units=3)", "nn.bias_add(%0, %b)");
    SAYS(13, M "init %w : f32[6,3] = " ZEROS_18 "\n%y = MatMul(%x, %w)",
         "%0 = transpose(%w, axes=[1, 0])", "nn.dense(%x, %0, units=3)");
    SAYS(13,
         M "init %w : f32[6,3] = " ZEROS_18 "\ninit %b : f32[1] = " ZEROS_1
           "\n%y = Gemm(%x, %w, %b) {alpha=0.5f}",
         "multiply(%1, 0.5f", "add(%2, %b)");
}

TEST(tuples_are_projected) {
    SAYS(13,
         X "init %g : f32[4] = " ZEROS_4
           "\n%n = BatchNormalization(%x, %g, %g, %g, %g) {epsilon=0.001f}\n"
           "%y = Relu(%n)",
         "%0 = nn.batch_norm(%x, %g, %g, %g, %g, epsilon=0.001f)", "%1 = %0.0", "nn.relu(%1)");
    SAYS(13,
         M
         "init %s : i64[2] = {2, 4}\n%a, %b = Split(%x, %s) {axis=1}\n%y = Concat(%b, %a) {axis=1}",
         "split(%x, indices_or_sections=[2], axis=1)", "%0.0", "%0.1",
         "concatenate((%2, %1), axis=1)");
}

TEST(computed_shapes_are_put_in_place) {
    SAYS(13,
         X "init %i : i64[1] = {0}\ninit %m : i64[1] = {-1}\n%s = Shape(%x)\n%n = Gather(%s, %i)\n"
           "%c = Concat(%n, %m) {axis=0}\n%y = Reshape(%x, %c)",
         "def @main(%x: Tensor[(1, 4, 8, 8), float32])", "reshape(%x, newshape=[1, -1])");
}

TEST(integers_are_said_by_plain_operators) {
#define SUM                                                                                        \
    "input %x : u8[2,6]\ninit %z : u8[] = {128}\ninit %w : i8[6,3] = " ZEROS_18 "\n"               \
    "%a = MatMulInteger(%x, %w, %z)\n"
    SAYS(13, SUM "%y = Identity(%a)", "transpose(%w", "cast(%x, dtype=\"int16\")", "subtract(",
         "nn.dense(", "units=3, out_dtype=\"int32\")");
    SAYS(13,
         SUM "init %q : i32[] = {1789513472}\ninit %s : i32[] = {-8}\ninit %r : f32[] = {0.003}\n"
             "init %o : i8[] = {-3}\n%y = ai.tidemark::Requantize(%a, %q, %s, %r, %o) "
             "{rounding=\"single_half_up\"}",
         "fixed_point_multiply(", "multiplier=1789513472, shift=-8)", "-3i64",
         "a_min=-128f, a_max=127f)", "dtype=\"int8\")");
    /* powers of two are shifts */
    SAYS(13,
         SUM "init %q : i32[] = {1073741824}\ninit %s : i32[] = {-4}\ninit %r : f32[] = {0.03125}\n"
             "init %o : u8[] = {0}\n%y = ai.tidemark::Requantize(%a, %q, %s, %r, %o) "
             "{rounding=\"single_half_up\"}",
         "16i64", "right_shift(", "5i64", "a_min=0f, a_max=255f)");
}

TEST(ties_go_to_even_unless_qnn_is_wanted) {
    const char *body =
        M "init %s : f32[] = {0.5}\ninit %z : u8[] = {3}\n%y = QuantizeLinear(%x, %s, %z)";
    const struct tmk_relay_export_options qnn = {.qnn = true};
    SAYS(13, body, "divide(%x, 0.5f", "a_min=-3f, a_max=252f)", "12582912f", "cast(");
    says_with(13, body, &qnn,
              (const char *const[]){"qnn.quantize(%x, 0.5f", "out_dtype=\"uint8\")", NULL});
}

TEST(weights_may_stand_in_the_metadata) {
    const struct tmk_relay_export_options options = {.metadata = true};
    says_with(13, M "init %w : f32[3,6] = " ZEROS_18 "\n%y = Gemm(%x, %w) {transB=1}", &options,
              (const char *const[]){"def @main(%x: Tensor[(2, 6), float32])",
                                    "nn.dense(%x, meta[relay.Constant][0]", "#[metadata]", NULL});
}

TEST(what_cannot_be_said_is_told_at_once) {
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    struct tmk_graph *graph = graph_of(13, M "%a = Round(%x)\n%b = Relu(%a)\n%y = Det(%b)", DIAG);
    must_fail(tmk_relay_export(graph, NULL, &module, &params, DIAG), TMK_UNSUPPORTED, "Round");
    assert_non_null(strstr(test_diag.text, "Det"));
    assert_null(strstr(test_diag.text, "Relu"));
    assert_null(module);
    assert_null(params);
    tmk_graph_destroy(&graph);
}

static void refuses(const char *body, const char *why) {
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    struct tmk_graph *graph = graph_of(13, body, DIAG);
    assert_int_equal(tmk_relay_export(graph, NULL, &module, &params, DIAG), TMK_UNSUPPORTED);
    if (!strstr(test_diag.text, why))
        fail_msg("'%s' is not in: %s", why, test_diag.text);
    tmk_graph_destroy(&graph);
}

TEST(attributes_that_make_no_sense_are_told) {
    refuses(M "%y = Softmax(%x) {axis=7}", "out of range");
    refuses(M "%y = Flatten(%x) {axis=-9}", "out of range");
    refuses(M "%y, %z = Split(%x) {axis=5}", "out of range");
    refuses(M "init %s : i64[3] = {2, 2, 2}\n%y, %z = Split(%x, %s) {axis=1}", "computed");
    refuses(X "%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[2,2], strides=[0,2]}",
            "attribute 'strides' holds 0");
    refuses(X "%y = MaxPool(%x) {kernel_shape=[9223372036854775807,2]}",
            "attribute 'kernel_shape' holds 9223372036854775807");
    refuses(X "%y = MaxPool(%x) {kernel_shape=[2,2], pads=[0,-1,0,0]}",
            "attribute 'pads' holds -1");
    refuses("input %x : i32[2,3]\ninit %q : i32[3] = {1,2,3}\ninit %s : i32[2] = {0, 0}\n"
            "init %r : f32[] = {1}\ninit %z : u8[] = {0}\n"
            "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z) {rounding=\"single_half_up\"}",
            "of one number");
    refuses("input %x : i32[2,3]\ninit %q : i32[] = {5}\ninit %s : i32[] = {-99}\n"
            "init %r : f32[] = {1}\ninit %z : u8[] = {0}\n"
            "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z) {rounding=\"single_half_up\"}",
            "shifts make no sense");
}

TEST(names_go_and_come_back) {
    static const char *const names[][2] = {
        {"fc1", "fc1"},
        {"conv1/kernel", "conv1/kernel"},
        {"layer1.0.weight", "layer1_x2e0_x2eweight"},
        {"459", "v_x_459"},
        {"", "v_x_"},
        {"/conv/Relu:0", "v_x_/conv/Relu_x3a0"},
        {"a_x2e", "a_x5fx2e"},
        {"v_x_1", "v_x_v_x_1"},
        {"_x2.e", "_x2_x2ee"},
        {"\xc3\xa9", "_xc3_xa9"},
    };
    struct tmk_arena arena = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *escaped = tmk_relay_escape(&arena, names[i][0]);
        assert_string_equal(escaped, names[i][1]);
        assert_string_equal(tmk_relay_unescape(&arena, escaped), names[i][0]);
    }
    tmk_arena_finish(&arena);
    SAYS(13, M "init %w : f32[3,6] = " ZEROS_18 " \"w.0\"\n%y = Gemm(%x, %w) {transB=1}",
         "%w_x2e0: Tensor", "nn.dense(%x, %w_x2e0");
}
