/* SPDX-License-Identifier: Apache-2.0 */
/* tvm.ir.save_json, in small. */
#include "test.h"

#include <string.h>

#include "base/size.h"
#include "relay/ast.h"

#define HEADER "#[version = \"0.0.5\"]\n"
/* Nodes 0 to 4, a function of one parameter x, and whatever its body (5) and others are. */
#define FUNCTION(nodes)                                                                            \
    "{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}, {\"type_key\": \"relay.Function\", "          \
    "\"attrs\": {\"params\": \"2\", \"body\": \"5\", \"ret_type\": \"0\", \"attrs\": \"0\"}}, "    \
    "{\"type_key\": \"Array\", \"data\": [3]}, {\"type_key\": \"relay.Var\", \"attrs\": "          \
    "{\"vid\": \"4\"}}, {\"type_key\": \"relay.Id\", \"attrs\": {\"name_hint\": \"x\"}}, " nodes   \
    "], \"b64ndarrays\": [\"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAAAAAAAIAQABAAAAAAAAAAM=\"]}"
#define CALL(op, args, attrs)                                                                      \
    "{\"type_key\": \"relay.Call\", \"attrs\": {\"op\": \"" op "\", \"args\": \"" args             \
    "\", \"attrs\": \"" attrs "\"}}"
#define LIST(data) "{\"type_key\": \"Array\", \"data\": [" data "]}"
#define OP(name) "{\"type_key\": \"Op\", \"repr_str\": \"" name "\"}"
#define BODY(lines) HEADER "def @main(%x) {\n" lines "}\n"

static void json_gives(const char *json, const char *expected) {
    struct tmk_relay_module *module = NULL;
    struct tmk_text text = {0};
    must(tmk_relay_parse(json, strlen(json), "j", &module, DIAG));
    must(tmk_relay_print(module, &text, DIAG));
    if (strncmp(text.data, expected, strlen(expected)) != 0)
        assert_string_equal(text.data, expected);
    tmk_text_finish(&text);
    tmk_relay_module_destroy(&module);
}

TEST(test_expressions) {
    json_gives(FUNCTION(CALL("6", "7", "0") ", " OP("nn.relu") ", " LIST("3")),
               BODY("  nn.relu(%x)\n"));
    /* a value that is used twice gets one number; operands come first */
    json_gives(FUNCTION(CALL("6", "7", "0") ", " OP("add") ", " LIST("8, 8") ", " CALL(
                   "9", "10", "0") ", " OP("exp") ", " LIST("3")),
               BODY("  %0 = exp(%x);\n  add(%0, %0)\n"));
    json_gives(
        FUNCTION("{\"type_key\": \"relay.TupleGetItem\", \"attrs\": {\"tuple_value\": \"6\", "
                 "\"index\": \"1\"}}, {\"type_key\": \"relay.Tuple\", \"attrs\": {\"fields\": "
                 "\"7\"}}, " LIST("3, 8") ", {\"type_key\": \"relay.Constant\", \"attrs\": "
                                          "{\"data\": \"0\", \"_checked_type_\": \"9\"}}, "
                                          "{\"type_key\": \"relay.TensorType\", \"attrs\": "
                                          "{\"dtype\": \"int8\", \"shape\": \"10\"}}, " LIST("")),
        BODY("  %0 = (%x, meta[relay.Constant][0] /* ty=int8 */);\n  %0.1\n") "\n#[metadata]");
    json_gives(
        FUNCTION("{\"type_key\": \"relay.Let\", \"attrs\": {\"var\": \"6\", \"value\": \"3\", "
                 "\"body\": \"6\"}}, {\"type_key\": \"relay.Var\", \"attrs\": {\"vid\": \"4\"}}"),
        BODY("  let %x1 = %x;\n  %x1\n"));
    json_gives(
        FUNCTION("{\"type_key\": \"relay.If\", \"attrs\": {\"cond\": \"3\", \"true_branch\": "
                 "\"3\", \"false_branch\": \"3\"}}"),
        BODY("  if (%x) {\n    %x\n  } else {\n    %x\n  }\n"));
}

/* "1" is the number 1 or node 1, as the field's type has it. */
TEST(test_attributes) {
    json_gives(
        FUNCTION(CALL("6", "7", "8") ", " OP("nn.conv2d") ", " LIST(
            "3") ", {\"type_key\": \"relay.attrs.Conv2DAttrs\", \"attrs\": {\"groups\": \"2\", "
                 "\"channels\": \"9\", \"data_layout\": \"NCHW\", \"strides\": \"10\", "
                 "\"kernel_size\": \"0\", \"auto_scheduler_rewritten_layout\": \"\"}}, "
                 "{\"type_key\": \"IntImm\", \"attrs\": {\"dtype\": \"int32\", \"value\": "
                 "\"-7\"}}, " LIST("9, 9")),
        BODY("  nn.conv2d(%x, groups=2, channels=-7, data_layout=\"NCHW\", strides=[-7, -7], "
             "kernel_size=None)\n"));
    json_gives(FUNCTION(CALL("6", "7", "8") ", " OP("nn.lrn") ", " LIST(
                   "3") ", {\"type_key\": \"relay.attrs.LRNAttrs\", \"attrs\": {\"axis\": \"1\", "
                        "\"bias\": \"2\", \"alpha\": \"0.33333333333333331\"}}"),
               BODY("  nn.lrn(%x, axis=1, bias=2f, alpha=0.3333333333333333f)\n"));
    json_gives(
        FUNCTION(CALL("6", "7", "8") ", " OP("take") ", " LIST(
            "3, 3") ", {\"type_key\": "
                    "\"relay.attrs.TakeAttrs\", \"attrs\": {\"batch_dims\": \"9\", \"axis\": "
                    "\"0\", \"mode\": \"wrap\"}}, {\"type_key\": \"IntImm\", \"attrs\": "
                    "{\"dtype\": \"int32\", \"value\": \"0\"}}"),
        BODY("  take(%x, %x, batch_dims=0, axis=None, mode=\"wrap\")\n"));
}

TEST(json_errors) {
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{", "cut short"},
        {"{}", "j:1:1: there is no node 0"},
        {"{\"root\": 0, \"nodes\": [{}]}", "j:1:23: expected a function"},
        {"{\n\"root\": 0,\n\"nodes\": [{\"type_key\": \"IRModule\"}]}", "j:1:1: no functions"},
        {FUNCTION("{\"type_key\": \"relay.Var\"}"), "a variable that nothing declares"},
        {FUNCTION("{\"type_key\": \"relay.Match\"}"), "relay.Match is not read as an expression"},
        {FUNCTION(CALL("6", "7", "0") ", " OP("add") ", " LIST("5")), "it needs itself"},
        {FUNCTION(CALL("6", "7", "0") ", " OP("add") ", " LIST("99")),
         "an operand that there is not"},
        {FUNCTION(CALL("6", "99", "0") ", " OP("add")), "there is no node 99"},
        {FUNCTION(CALL("6", "7",
                       "8") ", " OP("f") ", " LIST("3") ", {\"type_key\": \"relay.attrs.FAttrs\"}"),
         "the fields of relay.attrs.FAttrs are not known"},
        {FUNCTION("{\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"1\"}}"),
         "no data in b64ndarrays"},
        {FUNCTION("{\"type_key\": \"relay.Let\", \"attrs\": {\"var\": \"3\", \"value\": \"3\", "
                  "\"body\": \"3\"}}"),
         "declared twice"},
        {FUNCTION("{\"type_key\": \"relay.Function\", \"attrs\": {\"params\": \"0\", \"body\": "
                  "\"5\"}}"),
         "nested more than 200 deep"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_relay_module *module = NULL;
        assert_int_equal(tmk_relay_parse(cases[i].json, strlen(cases[i].json), "j", &module, DIAG),
                         TMK_FORMAT);
        assert_null(module);
        if (!strstr(test_diag.text, cases[i].error) || strncmp(test_diag.text, "j:1:", 4) != 0)
            fail_msg("expected '%s' in '%s'", cases[i].error, test_diag.text);
    }
}

/* A long chain of calls is a loop, not a recursion. */
TEST(test_long_chains) {
    enum { CALLS = 20000 };
    struct tmk_text json = {0};
    struct tmk_relay_module *module = NULL;
    tmk_text_puts(&json, "{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}, {\"type_key\": "
                         "\"relay.Function\", \"attrs\": {\"params\": \"2\", \"body\": \"6\"}}, "
                         "{\"type_key\": \"Array\", \"data\": [3]}, {\"type_key\": \"relay.Var\", "
                         "\"attrs\": {\"vid\": \"4\"}}, {\"type_key\": \"relay.Id\", \"attrs\": "
                         "{\"name_hint\": \"x\"}}, " OP("exp"));
    for (int i = 0; i < CALLS; i++)
        tmk_text_printf(&json,
                        ", {\"type_key\": \"relay.Call\", \"attrs\": {\"op\": \"5\", \"args\": "
                        "\"%d\"}}, {\"type_key\": \"Array\", \"data\": [%d]}",
                        7 + 2 * i, i + 1 < CALLS ? 8 + 2 * i : 3);
    tmk_text_puts(&json, "]}");
    must(tmk_relay_parse(json.data, json.len, "j", &module, DIAG));
    assert_int_equal(tmk_relay_function(module, "main")->body.n, CALLS - 1);
    tmk_relay_module_destroy(&module);
    tmk_text_finish(&json);
}
