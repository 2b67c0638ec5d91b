/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/relay_equal.h"
#include "base/size.h"
#include "relay/ast.h"

#define HEADER "#[version = \"0.0.5\"]\n"

static struct tmk_relay_module *parsed(const char *text) {
    struct tmk_relay_module *module = NULL;
    if (tmk_relay_parse(text, strlen(text), "m", &module, DIAG) != TMK_OK)
        fail_msg("%s\n%s", test_diag.text, text);
    return module;
}

/* Prints, parses that and compares. */
static void gives(const char *text, const char *expected) {
    struct tmk_relay_module *module = parsed(text);
    struct tmk_text printed = {0};
    struct tmk_diag diag = {0};
    assert_ok(tmk_relay_print(module, &printed, &diag), &diag);
    assert_string_equal(printed.data, expected);
    struct tmk_relay_module *again = parsed(printed.data);
    if (!relay_equal(module, again, true, &diag))
        fail_msg("%s\n%s", diag.text, text);
    tmk_text_finish(&printed);
    tmk_relay_module_destroy(&again);
    tmk_relay_module_destroy(&module);
}

static void refused(const char *text, size_t len, const char *error) {
    struct tmk_relay_module *module = NULL;
    assert_int_equal(tmk_relay_parse(text, len, "m", &module, DIAG), TMK_FORMAT);
    assert_null(module);
    if (!strstr(test_diag.text, error))
        fail_msg("expected '%s' in '%s'", error, test_diag.text);
}

static const struct tmk_relay_expr *result_of(const struct tmk_relay_module *module) {
    return tmk_relay_function(module, "main")->body.result;
}

/* ---- what is printed as it was ---- */

TEST(test_printed_as_it_was) {
    static const char *const texts[] = {
        HEADER "def @main(%x: Tensor[(1, ?), float32] /* ty=Tensor[(1, ?), float32] */) -> "
               "Tensor[(1, 8), float32] {\n"
               "  %0 = nn.dense(%x, meta[relay.Constant][0] /* ty=Tensor[(8, 4), float32] */, "
               "units=None) /* ty=Tensor[(1, 8), float32] span=Dense_3:0:12 */;\n"
               "  nn.relu(%0) /* span=a/b */\n"
               "}\n"
               "\n/* For debugging purposes the metadata section has been omitted.\n"
               " * If you would like to see the full metadata section you can set the \n"
               " * option to `True` when invoking `astext`. \n */",
        "v0.0.4\n"
        "def @main(%data: Tensor[(3), float32]) {\n"
        "  %0 = add(%data, meta[relay.Constant][0] /* ty=float32 */ /* ty=float32 */);\n"
        "  %0\n"
        "}\n"
        "\n// meta data omitted. you can use show_meta_data=True to include meta data\n",
        HEADER "def @f(%a: int32, %b: (int32, (Tensor[(2), int8],), ())) {\n"
               "  %b.0\n"
               "}\n"
               "\n"
               "def @main(%v_param_1: float32, Primitive=1, Composite=\"mrvl.conv\", "
               "hash=\"a\\\"b\\\\\") -> fn (int32, bool) -> int32 {\n"
               "  let %y: int32 = @f(%v_param_1, ());\n"
               "  %1 = fn (%p: int32, Compiler=\"x\") -> int32 {\n"
               "    %0 = add(%p, 1);\n"
               "    (%0, %y).0\n"
               "  } /* ty=fn (int32) -> int32 */;\n"
               "  if (True /* ty=bool */) {\n"
               "    %1(-1)\n"
               "  } else {\n"
               "    %2 = %1(2);\n"
               "    (%2,)\n"
               "  } /* ty=int32 */\n"
               "}\n",
        "v0.0.4\n"
        "def @main(%X: float32) {\n"
        "  %9 = (\n"
        "    let %while_loop: fn (int32, float32) -> (int32, float32) = fn (%i: int32, %a.15: "
        "float32) {\n"
        "      if (less(%i, 9)) {\n"
        "        %while_loop(add(%i, 1), %a.15)\n"
        "      } else {\n"
        "        (%i, %a.15)\n"
        "      }\n"
        "    };\n"
        "    %while_loop\n"
        "  );\n"
        "  %10 = %9(1, %X);\n"
        "  %10.1\n"
        "}\n",
        HEADER "free_var %x: Tensor[(2), float32] /* ty=Tensor[(2), float32] */;\n"
               "%0 = (%x, %x);\n"
               "concatenate(%0, axis=-1)\n",
        HEADER
        "fn (%x: float32) -> float32 {\n"
        "  f(%x, a=[[0, 1], []], b=(1,), c=None, d=False, e=1e-05f, f=meta[relay.attrs.A][3], "
        "g=VirtualDevice(device_type=1), h={\"k\": [1]}, i=@g, j=-inff, k=int8)\n"
        "}\n"
        "\n/* For debugging purposes the metadata section has been omitted.\n"
        " * If you would like to see the full metadata section you can set the \n"
        " * option to `True` when invoking `astext`. \n */",
        HEADER "def @main[A](%x {virtual_device=VirtualDevice(device_type=1)}: A, "
               "%y: List[Tensor[(n, 2), float32]]) -> Tensor[(meta[tir.Var][0], 2), float32] {\n"
               "  f(%x, meta[relay.attrs.FAttrs][0])\n"
               "}\n"
               "\n/* For debugging purposes the metadata section has been omitted.\n"
               " * If you would like to see the full metadata section you can set the \n"
               " * option to `True` when invoking `astext`. \n */",
        HEADER "def @main(%x: Tensor[(1), float32]) {\n"
               "  nn.relu(%x, /* en_id=418 */) /* ty=Tensor[(1), float32] */\n"
               "}\n",
        HEADER "def @main(%x: Tensor[(1), float32]) {\n"
               "  nn.relu(%x) /* ty=Tensor[(1), float32] */ /* a /* nested */ remark */\n"
               "}\n",
    };
    for (size_t i = 0; i < TMK_COUNT(texts); i++)
        gives(texts[i], texts[i]);
}

/* ---- what is printed another way ---- */

#define MAIN "def @main(%x: float32, %y: float32) {\n  "
TEST(test_other_spellings) {
    static const struct {
        const char *text, *printed;
    } cases[] = {
        /* no header, blanks, line comments, a mark that editors write */
        {"\xef\xbb\xbf\r\n// hello\r\ndef @main(%x:float32,%y:float32){%x}", HEADER MAIN "%x\n}\n"},
        /* infix operators: precedence, associativity, brackets */
        {MAIN "%x + %y * 2f - %x}", HEADER MAIN "subtract(add(%x, multiply(%y, 2f)), %x)\n}\n"},
        {MAIN "(%x + %y) / %x == %y}", HEADER MAIN "equal(divide(add(%x, %y), %x), %y)\n}\n"},
        {MAIN "%x-%y<=1f}", HEADER MAIN "less_equal(subtract(%x, %y), 1f)\n}\n"},
        {MAIN "%x - -1f != --1f}", HEADER MAIN "not_equal(subtract(%x, -1f), 1f)\n}\n"},
        /* sequences */
        {MAIN "f(%x);; g(%y); %x}", HEADER MAIN "let %_ = f(%x);\n  let %_ = g(%y);\n  %x\n}\n"},
        /* bindings inside expressions */
        {MAIN "f({%0 = %x; g(%0)}) /* ty=int8 */}",
         HEADER MAIN "f((\n    %0 = %x;\n    g(%0)\n  )) /* ty=int8 */\n}\n"},
        {MAIN "{%x}}", HEADER MAIN "(fn () {\n    %x\n  })()\n}\n"},
        {"free_var %x: int32\nfree_var %y\n%0 = f(%x);\n%0",
         HEADER "free_var %x: int32;\nfree_var %y;\n%0 = f(%x);\n%0\n"},
        /* attributes by position */
        {MAIN "cast(cast(%x, \"int8\") - %y, [\"a\", 1])}",
         HEADER MAIN "cast(subtract(cast(%x, \"int8\"), %y), [\"a\", 1])\n}\n"},
        /* commas, comments at other places */
        {MAIN "f(%x, /* one */ %y, k=1, /* two */)}",
         HEADER MAIN "f(%x, %y, k=1, /* one, two */)\n}\n"},
        {MAIN "f(/* ty=float32 */)}", HEADER MAIN "f(/* ty=float32 */)\n}\n"},
        {MAIN "f(%x) /* ty=int8 */ /* ty=int16 */}",
         HEADER MAIN "f(%x) /* ty=int8 */ /* ty=int16 */\n}\n"},
        {MAIN "f(%x /* ty=Tensor[(1), a /* b */ c] */)}",
         HEADER MAIN "f(%x /* ty=Tensor[(1), a /* b */ c] */)\n}\n"},
        {MAIN "f(%x) /* ty=what is this? span=s */}",
         HEADER MAIN "f(%x) /* ty=what is this? span=s */\n}\n"},
        /* callees and tuples that need brackets */
        {MAIN "fn (%a: int8) { %a }(%x)}", HEADER MAIN "(fn (%a: int8) {\n    %a\n  })(%x)\n}\n"},
        {MAIN "(fn (%a: int8) { %a })(%x).0.1}",
         HEADER MAIN "(fn (%a: int8) {\n    %a\n  })(%x).0.1\n}\n"},
        {MAIN "(1).0}", HEADER MAIN "(1).0\n}\n"},
        {MAIN "((%x))}", HEADER MAIN "%x\n}\n"},
        {MAIN "((),)}", HEADER MAIN "((),)\n}\n"},
        /* types */
        {"def @main(%x: Tensor[(), float32], %y: Tensor[(3i64, ?), custom[posit32]8]) { %x }",
         HEADER "def @main(%x: float32, %y: Tensor[(3, ?), custom[posit32]8]) {\n  %x\n}\n"},
        {"def @main(%x:meta[a][0] b[c], %y: \"s\") { %x }",
         HEADER "def @main(%x: meta[a][0] b[c], %y: \"s\") {\n  %x\n}\n"},
        /* algebraic types are skipped */
        {"extern type T\ntype List[A] { Cons(A, List[A]), Nil, }\n" MAIN "%x}",
         HEADER MAIN "%x\n}\n"},
        /* strings */
        {MAIN "f(a=\"\\t\\x\n\")}", HEADER MAIN "f(a=\"\\t\\\\x\\n\")\n}\n"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++)
        gives(cases[i].text, cases[i].printed);
}

/* ---- names ---- */

TEST(test_names_are_as_long_as_declared) {
    static const char *const names[] = {"a.b", "conv/kernel:0", "layer1.0.weight", "x-1", "a"};
    for (size_t i = 0; i < TMK_COUNT(names); i++) {
        struct tmk_text text = {0};
        tmk_text_printf(&text, "def @main(%%%s: (int32, int32), %%a.: int8) { %%%s.1 }", names[i],
                        names[i]);
        struct tmk_relay_module *module = parsed(text.data);
        const struct tmk_relay_function *fn = tmk_relay_function(module, "main");
        assert_string_equal(fn->params[0]->name, names[i]);
        assert_int_equal(fn->body.result->kind, TMK_RELAY_PROJECT);
        assert_int_equal(fn->body.result->index, 1);
        assert_ptr_equal(fn->body.result->args[0]->binding, fn->params[0]);
        tmk_text_finish(&text);
        tmk_relay_module_destroy(&module);
    }
}

/* An inner function's numbers are its own, and hide those outside. */
TEST(test_scopes) {
    struct tmk_relay_module *module = parsed("def @main(%x: int32) {\n"
                                             "  %0 = f(%x);\n"
                                             "  %1 = fn (%x: int8) { %0 = g(%x); %0 };\n"
                                             "  %2 = h(%0);\n"
                                             "  let %x = %2;\n"
                                             "  (%x, %1)\n"
                                             "}");
    const struct tmk_relay_function *fn = tmk_relay_function(module, "main");
    struct tmk_relay_binding *const *bindings = fn->body.bindings;
    const struct tmk_relay_function *inner = bindings[1]->expr->fn;
    assert_ptr_equal(inner->body.result->binding, inner->body.bindings[0]);
    assert_ptr_equal(inner->body.bindings[0]->expr->args[0]->binding, inner->params[0]);
    assert_ptr_equal(bindings[2]->expr->args[0]->binding, bindings[0]);
    assert_ptr_equal(fn->body.result->args[0]->binding, bindings[3]);
    assert_ptr_equal(bindings[3]->expr->binding, bindings[2]);
    tmk_relay_module_destroy(&module);
    refused("def @main() { %0 = fn () { %1 = 1; %1 }; %1 }", 45, "m:1:42: %1 is not declared");
    module = parsed("def @main(%n: int32) { let %f = fn (%n: int32) { %f(%n) }; %f(%n) }");
    fn = tmk_relay_function(module, "main");
    assert_ptr_equal(fn->body.bindings[0]->expr->fn->body.result->callee->binding,
                     fn->body.bindings[0]);
    tmk_relay_module_destroy(&module);
}

/* ---- numbers ---- */

TEST(test_numbers) {
    static const struct {
        const char *text, *dtype;
        double value;
    } cases[] = {
        {"1f", "float32", 1},
        {"-1.5e-05f", "float32", (double)-1.5e-05f},
        {"0.707107f", "float32", (double)0.707107f},
        {"1f16", "float16", 1},
        {"65504f16", "float16", 65504},
        {"0.1f64", "float64", 0.1},
        {"0.1", "float64", 0.1},
        {"0.1 /* ty=float32 */", "float32", (double)0.1f},
        {"1e3", "float64", 1000},
        {"1f /* ty=float64 */", "float64", 1},
        {"1f /* ty=bfloat16 */", "bfloat16", 1},
        {"3", "int32", 3},
        {"3 /* ty=int64 */", "int64", 3},
        {"3 /* ty=float64 */", "float64", 3},
        {"3i64", "int64", 3},
        {"-3i16", "int16", -3},
        {"-128i8", "int8", -128},
        {"255 /* ty=uint8 */", "uint8", 255},
        {"4294967296", "int64", 4294967296.0},
        {"True", "bool", 1},
        {"0 /* ty=uint1 */", "bool", 0},
        {"inff", "float32", INFINITY},
        {"-inff64", "float64", -INFINITY},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_text text = {0};
        tmk_text_printf(&text, "def @main() { %s }", cases[i].text);
        struct tmk_relay_module *module = parsed(text.data);
        const struct tmk_relay_expr *expr = result_of(module);
        assert_int_equal(expr->kind, TMK_RELAY_CONSTANT);
        assert_string_equal(expr->dtype, cases[i].dtype);
        assert_string_equal(tmk_dtype_name(expr->data.dtype), cases[i].dtype);
        assert_int_equal(expr->data.shape.rank, 0);
        double value = 0;
        struct tmk_tensor wide;
        must(tmk_tensor_widen(&expr->data, &wide, DIAG));
        switch (expr->data.dtype) {
        case TMK_FLOAT64:
            memcpy(&value, expr->data.data, sizeof value);
            break;
        case TMK_FLOAT32:
        case TMK_FLOAT16:
        case TMK_BFLOAT16:
            value = (double)*(float *)wide.data;
            break;
        case TMK_INT64:
            value = (double)*(int64_t *)expr->data.data;
            break;
        case TMK_INT32:
            value = *(int32_t *)expr->data.data;
            break;
        case TMK_INT16:
            value = *(int16_t *)expr->data.data;
            break;
        case TMK_INT8:
            value = *(int8_t *)expr->data.data;
            break;
        default:
            value = *(uint8_t *)expr->data.data;
        }
        if (value != cases[i].value)
            fail_msg("%s is %.17g", cases[i].text, value);
        tmk_tensor_finish(&wide);
        tmk_text_finish(&text);
        tmk_relay_module_destroy(&module);
    }
    struct tmk_relay_module *module = parsed("def @main() { nanf }");
    assert_true(isnan(*(float *)result_of(module)->data.data));
    tmk_relay_module_destroy(&module);
}

/* ---- metadata ---- */

/* {int8 3; float32 [[1, -2]]} as TVM 0.14 lays it out; `keys` are further keys of the root. */
#define SECTION(keys, data)                                                                        \
    "{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}, {\"type_key\": \"Map\", \"keys\": "           \
    "[\"relay.Constant\"" keys "], \"data\": [2" data "]}, {\"type_key\": \"Array\", \"data\": "   \
    "[3, 4, 3]}, {\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"0\"}}, "               \
    "{\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"1\"}}], \"b64ndarrays\": ["        \
    "\"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAAAAAAAIAQABAAAAAAAAAAM=\", "                               \
    "\"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAgAAAAIgAQABAAAAAAAAAAIAAAAAAAAACAAAAAAAAAAAAIA/AAAAwA==\"" \
    "], \"attrs\": {\"tvm_version\": \"0.14.0\"}}"

static void check_constants(const char *text) {
    struct tmk_relay_module *module = parsed(text);
    const struct tmk_relay_expr *items = result_of(module);
    assert_true(module->has_metadata);
    assert_int_equal(module->n_constants, 3);
    assert_string_equal(items->args[0]->dtype, "float32");
    assert_int_equal(items->args[0]->data.shape.rank, 2);
    assert_memory_equal(items->args[0]->data.data, ((float[]){1, -2}), 8);
    assert_int_equal(*(int8_t *)items->args[1]->data.data, 3);
    assert_ptr_equal(module->constants[0].data.data, module->constants[2].data.data);
    struct tmk_text printed = {0};
    struct tmk_diag diag = {0};
    assert_ok(tmk_relay_print(module, &printed, &diag), &diag);
    struct tmk_relay_module *again = parsed(printed.data);
    assert_true(relay_equal(module, again, true, &diag));
    tmk_text_finish(&printed);
    tmk_relay_module_destroy(&again);
    tmk_relay_module_destroy(&module);
}

#define CONSTANTS "(meta[relay.Constant][1], meta[relay.Constant][0])\n"
TEST(test_metadata) {
    check_constants("def @main() { " CONSTANTS "}\n#[metadata]\n" SECTION("", ""));
    check_constants("v0.0.4\ndef @main() { " CONSTANTS "}\nMETADATA: \n" SECTION("", "") "\n");
    check_constants("def @main() { " CONSTANTS "}\n#[metadata]" SECTION(", \"Other\"", ", 0"));
}

TEST(test_metadata_errors) {
    static const struct {
        const char *section, *error;
    } cases[] = {
        {"", "m:2:12: expected '{'"},
        {"{", "cut short"},
        {"{\"root\": 9, \"nodes\": [{}]}", "m:2:12: metadata: there is no node 9"},
        {"{\"root\": 0, \"nodes\": [{}]}", "m:1:15: the metadata holds 0 constants"},
        {"{\"root\": 0, \"nodes\": 3}", "m:2:33: metadata: expected a list"},
        {"{\"root\": 0,\n \"nodes\": [{\"keys\": [\"relay.Constant\"], \"data\": [1]}, {\"data\": "
         "[\n"
         "2]},\n{\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"0\"}}]}",
         "m:5:1: metadata: this constant has no data in b64ndarrays"},
        {"{\"root\": 0, \"nodes\": [{\"keys\": [\"relay.Constant\"], \"data\": [1]}, {\"data\": "
         "[2]},{\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"0\"}}],\n"
         "\"b64ndarrays\": [\"P6G0l!\"]}",
         "m:3:17: metadata: letter 5 is not base64's"},
        {"{\"root\": 0, \"nodes\": [{\"keys\": [\"relay.Constant\"], \"data\": [1]}, {\"data\": "
         "[2]},{\"type_key\": \"relay.Constant\", \"attrs\": {\"data\": \"0\"}}],\n"
         "\"b64ndarrays\": [\"P6G0lvBAXt0AAAAAAAAAAA==\"]}",
         "m:3:17: metadata: constant: byte 16: the file is cut short"},
        {SECTION("", "") " x", "something stands behind the JSON"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_text text = {0};
        tmk_text_printf(&text, "def @main() { meta[relay.Constant][0] }\n#[metadata]%s",
                        cases[i].section);
        refused(text.data, text.len, cases[i].error);
        tmk_text_finish(&text);
    }
    const char *beyond = "def @main() { meta[relay.Constant][3] }\n#[metadata]" SECTION("", "");
    refused(beyond, strlen(beyond), "m:1:15: the metadata holds 3 constants");
}

/* ---- errors ---- */

TEST(test_errors) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "m:1:1: expected a function, but the text ends"},
        {"v0.0.4\n", "m:2:1: expected a function"},
        {"v0.0.9 def @main() { 1 }", "m:1:1: Relay text of version 0.0.9"},
        {"v0.x def @main() { 1 }", "m:1:1: 'v0.x' is no version"},
        {"#[version = \"1.0.0\"] def @main() { 1 }", "m:1:1: Relay text of version 1.0.0"},
        {"#[what]", "m:1:3: expected version or metadata, found 'what'"},
        {"def main() { 1 }", "m:1:5: expected the name of a function (@name), found 'main'"},
        {"def @a() { 1 } def @a() { 2 }", "m:1:20: @a is defined twice"},
        {"def @main(%x: int8, %x: int8) { 1 }", "m:1:21: two parameters are named %x"},
        {"def @main() {\n  %0 = f(1);\n  %0 = f(2);\n  %0\n}", "m:3:3: %0 is bound twice"},
        {"def @main() {\n  %0\n}", "m:2:3: %0 is not declared"},
        {"def @main(%abc: int8) {\n  f(1, %ab)\n}", "m:2:8: %ab is not declared"},
        {"def @main() { f(1 }", "m:1:19: expected ',' or ')' behind an argument, found '}'"},
        {"def @main() { f(1)", "m:1:19: expected '}' or ';', but the text ends"},
        {"def @main() { f(a=) }", "m:1:19: expected the value of an attribute, found ')'"},
        {"def @main() { f(a=[1 2]) }", "m:1:22: expected ',' or ']' in a list, found '2'"},
        {"def @main() { %0 = f(1) }", "m:1:25: expected ';', found '}'"},
        {"def @main() { let %x = 1; }", "m:1:27: expected an expression, found '}'"},
        {"def @main() { (1).x }", "m:1:18: expected the number of a tuple's item"},
        {"def @main() { match (1) { } }", "m:1:15: match is not read"},
        {"def @main() { f(let %x = 1; %x) }", "m:1:17: a let inside an expression stands in"},
        {"def @main() { (let %x = 1; %x, 1) }", "m:1:30: expected ')' or ';', found ','"},
        {"def @main() { 1 } 2", "m:1:19: expected def, metadata or the end, found '2'"},
        {"def @main() { \"\n", "m:1:15: this string has no end"},
        {"def @main() { /* /* */", "m:1:15: this comment has no end"},
        {"def @main() { meta[x] }", "m:1:15: expected meta[Key][index]"},
        {"def @main() { meta[x][99999999999] }", "m:1:15: expected meta[Key][index]"},
        {"def @main() { % }", "m:1:15: expected a name or a number behind '%'"},
        {"def @main() { @ }", "m:1:15: expected a name behind '@'"},
        {"def @main() {\n\t\xc3\xa9 }", "m:2:2: byte 0xc3 has no place here"},
        {"def @main() { 99999999999999999999 }",
         "m:1:15: 99999999999999999999 does not fit 64 bits"},
        {"def @main() { 1f8 }", "m:1:15: 'f8' is no suffix of a number"},
        {"def @main() { 1.5i64 }", "m:1:15: 1.5i64 has an integer's suffix"},
        {"def @main() { 256 /* ty=uint8 */ }", "m:1:15: 256 is no uint8"},
        {"def @main() { -129i8 }", "m:1:15: -129i8 is no int8"},
        {"def @main(%x: Tensor[3, int8]) { 1 }", "m:1:22: expected '(' before the dimensions"},
        {"def @main(%x: ) { 1 }", "m:1:15: expected a type, found ')'"},
        {"def @main[A { 1 }", "m:1:10: this bracket is never closed"},
        {"type { }", "m:1:6: expected the name of a type"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++)
        refused(cases[i].text, strlen(cases[i].text), cases[i].error);
    refused("def @main() { f(a=\"x\0y\") }", 26, "m:1:19: a zero byte in a string");
}

/* ---- size ---- */

static char *repeated(const char *begin, const char *part, size_t n, const char *end) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, begin);
    for (size_t i = 0; i < n; i++)
        tmk_text_puts(&text, part);
    tmk_text_puts(&text, end);
    assert_false(text.failed);
    return text.data;
}

TEST(test_deep_nesting_is_refused) {
    static const struct {
        const char *begin, *part, *end, *error;
    } cases[] = {
        {"def @main() { ", "(", "", "m:1:215: nested more than 200 deep"},
        {"def @main() { ", "f(", "", "nested more than 200 deep"},
        {"def @main() { f", "()", "}", "nested more than 200 deep"},
        {"def @main() { ()", ".0", "}", "nested more than 200 deep"},
        {"def @main() { 1", "+1", "}", "nested more than 200 deep"},
        {"def @main() { 1", "*(1", "}", "nested more than 200 deep"},
        {"def @main() { ", "fn () { ", "", "nested more than 200 deep"},
        {"def @main() { ", "if (", "", "nested more than 200 deep"},
        {"def @main() { ", "{", "", "nested more than 200 deep"},
        {"def @main() { ", "(let %x = ", "", "nested more than 200 deep"},
        {"def @main() { ", "if (1) {", "", "nested more than 200 deep"},
        {"def @main() { f(a=", "[", "", "nested more than 200 deep"},
        {"def @main(%x: ", "(", "", "nested more than 200 deep"},
        {"def @main(%x: ", "fn () -> ", "", "nested more than 200 deep"},
        {"def @main(%x: A", "[", "", "this bracket is never closed"},
        {"def @main() { ", "/*", "", "m:1:15: this comment has no end"},
        {"def @main() { 1 ", "-", " }", "expected a number"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        char *text = repeated(cases[i].begin, cases[i].part, 100000, cases[i].end);
        refused(text, strlen(text), cases[i].error);
        free(text);
    }
    /* in a comment it is no error */
    char *text = repeated("def @main() { 1 /* ty=", "(", 100000, " */ }");
    struct tmk_relay_module *module = parsed(text);
    assert_int_equal(result_of(module)->type->kind, TMK_RELAY_OTHER);
    tmk_relay_module_destroy(&module);
    free(text);
}

/* Brackets on both sides of a chain may not add up to more than the limit. */
TEST(test_the_limit_is_of_the_whole_tree) {
    char *left = repeated("def @main() { ", "(", 150, "1"),
         *text = repeated(left, "+1)", 150, " }");
    struct tmk_relay_module *module = parsed(text);
    assert_int_equal(result_of(module)->height, 150);
    tmk_relay_module_destroy(&module);
    free(text);
    text = repeated(left, "+1+1)", 150, " }");
    refused(text, strlen(text), "nested more than 200 deep");
    free(text);
    free(left);
}

TEST(test_long_names_are_refused) {
    char *text = repeated("def @main() { %", "a.0.", 1000, " }");
    refused(text, strlen(text), "m:1:15: a name of 4000 bytes");
    free(text);
    text = repeated("def @main() { ", "ab", 1000, "() }");
    refused(text, strlen(text), "m:1:15: a name of 2000 bytes");
    free(text);
}

TEST(test_many_nodes) {
    enum { NODES = 24000 };
    struct tmk_text text = {0};
    tmk_text_puts(&text, "def @main(%x: Tensor[(1, 8), float32]) {\n  %0 = nn.relu(%x);\n");
    for (int i = 1; i < NODES; i++)
        tmk_text_printf(&text,
                        "  %%%d = add(%%%d, %%%d, axis=[%d]) /* ty=Tensor[(1, 8), float32] */;\n",
                        i, i - 1, i / 2, i);
    tmk_text_printf(&text, "  %%%d\n}", NODES - 1);
    struct tmk_relay_module *module = parsed(text.data);
    const struct tmk_relay_body *body = &tmk_relay_function(module, "main")->body;
    assert_int_equal(body->n, NODES);
    assert_ptr_equal(body->bindings[9]->expr->args[1]->binding, body->bindings[4]);
    assert_ptr_equal(body->bindings[1]->expr->type, body->bindings[2]->expr->type);
    assert_int_equal(body->bindings[NODES - 1]->place.line, NODES + 1);
    tmk_relay_module_destroy(&module);
    tmk_text_finish(&text);
}

/* ---- equality ---- */

static bool equal(const char *one, const char *other, bool names) {
    struct tmk_relay_module *a = parsed(one), *b = parsed(other);
    struct tmk_diag why = {0};
    bool same = relay_equal(a, b, names, &why);
    assert_int_equal(same, why.status == TMK_OK);
    tmk_relay_module_destroy(&a);
    tmk_relay_module_destroy(&b);
    return same;
}

TEST(test_equality) {
    const char *one = "def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) }";
    static const struct {
        const char *other;
        bool equal, named;
    } cases[] = {
        {"def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) }", true, true},
        {"def @main(%x: int8) { %0 = f(%x, a=1e-3f); let %y = (%x, 1i32); g(%0, %y) }", true, true},
        {"def @main(%z: int8) { %7 = f(%z, a=0.001f); let %w = (%z, 1); g(%7, %w) }", true, false},
        {"def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) /* ty=int8 */ }",
         true, false},
        {"def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%y, %0) }", false, false},
        {"def @main(%x: int8) { %0 = f(%x, a=0.002f); let %y = (%x, 1); g(%0, %y) }", false, false},
        {"def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 2); g(%0, %y) }", false, false},
        {"def @main(%x: int16) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) }", false,
         false},
        {"def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1i64); g(%0, %y) }", false,
         false},
        {"v0.0.4 def @main(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) }", false,
         false},
        {"def @a(%x: int8) { %0 = f(%x, a=0.001f); let %y = (%x, 1); g(%0, %y) }", false, false},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        assert_int_equal(equal(one, cases[i].other, false), cases[i].equal);
        assert_int_equal(equal(one, cases[i].other, true), cases[i].named);
    }
}

TEST(test_names_that_text_cannot_hold) {
    static const char *const names[] = {"a b", "", "\xc3\xa9", "1", "a,"};
    struct tmk_relay_module *module = parsed("def @main(%x: int8) { %x }");
    for (size_t i = 0; i < TMK_COUNT(names); i++) {
        struct tmk_text text = {0};
        tmk_relay_function(module, "main")->params[0]->name = names[i];
        assert_int_equal(tmk_relay_print(module, &text, DIAG), TMK_FORMAT);
        tmk_text_finish(&text);
    }
    tmk_relay_module_destroy(&module);
}
