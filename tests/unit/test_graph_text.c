/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "graph_text/read.h"

static const char everything[] =
    "graph \"all of it\" opset 17 \"com.microsoft\" 1 ir 8 producer \"a \\\"tool\\\"\" {\n"
    "  input %0 : f32[\"N\",3,?,\"C\"=8] \"image\" @p0\n"
    "  input %1 : bool[] \"go\"\n"
    "  input %2 : ? \"\"\n"
    "  input %3 : sequence(f32<f64>[2,?]) \"list\"\n"
    "  input %4 : optional(sequence(i64)) \"maybe\"\n"
    "  input %5 : ?[?] \"rank 1\"\n"
    "  init %6 : f32[2,3] = {1, -0, nan, inf, -inf, nan:0xffc00001} \"w\" @p1\n"
    "  init %7 : f32<f16>[] = {0.1}\n"
    "  init %8 : i64[0,4] = {} \"none\"\n"
    "  %9, _ = Dropout.13(%0, _, %1) {axis=-1, ratio=0.5f, mode=\"x\\n\\x00\\xff\", pads=[0,1], "
    "scales=[1f,-0f,nan,nan:0x7f800001], to=:i64[3,\"M\"], value=f32[2]{1, 2}, parts=[u8[1]{255},"
    "i8[1]{-128}], words=[\"\",\"\\\\\"], \"odd name\"=-9223372036854775808} \"node \xc3\xa9\" : "
    "f32[?,3] \"y\" @p42, _\n"
    "  = Sink() {a=[], b=floats[], c=strings[], d=tensors[], e=graphs[]}\n"
    "  %10 = com.microsoft::Gelu(%9)\n"
    "  _ = \"odd domain\"::\"odd op\".-3(%10, _)\n"
    "  %13 = If(%1) {then_branch=graph \"then\" {\n"
    "    init %12 : f32[1] = {2.5} \"local\"\n"
    "    output %12\n"
    "    output %9\n"
    "  }, else_branch=graph \"else\" {\n"
    "    %11 = Add(%10, %6)\n"
    "    output %11\n"
    "    output %7\n"
    "  }} : f32[1] \"z\"\n"
    "  output %13\n"
    "  output %9\n"
    "  output %9\n"
    "}\n";

static char *printed(struct tmk_graph *graph, size_t limit) {
    struct tmk_text text = {0};
    tmk_graph_print(graph, limit, NULL, &text);
    assert_false(text.failed);
    return text.data;
}

static struct tmk_graph *parsed(const char *text, const struct tensor_pool *pool) {
    struct tmk_graph *graph = NULL;
    if (parse_graph(text, pool, &graph, DIAG) != TMK_OK)
        fail_msg("%s\n%s", test_diag.text, text);
    return graph;
}

/* Prints, parses, compares; ends the graph. */
static void check_round_trip(struct tmk_graph *graph) {
    struct tmk_diag why = {0};
    char *first = printed(graph, SIZE_MAX);
    struct tmk_graph *copy = parsed(first, NULL);
    if (!graph_equal(graph, copy, &why))
        fail_msg("%s\n%s", why.text, first);
    char *second = printed(copy, SIZE_MAX);
    assert_string_equal(first, second);
    tmk_graph_destroy(&graph);
    tmk_graph_destroy(&copy);
    free(first);
    free(second);
}

TEST(text_of_everything_prints_as_it_was_read) {
    struct tmk_graph *graph = parsed(everything, NULL);
    char *text = printed(graph, 100);
    assert_string_equal(text, everything);
    free(text);
    check_round_trip(graph);
}

TEST(parsing_builds_what_the_text_says) {
    struct tmk_graph *graph = parsed(everything, NULL);
    assert_string_equal(graph->name, "all of it");
    assert_string_equal(graph->producer_name, "a \"tool\"");
    assert_int_equal(graph->ir_version, 8);
    assert_int_equal(tmk_graph_opset(graph, ""), 17);
    assert_int_equal(tmk_graph_opset(graph, "com.microsoft"), 1);
    assert_int_equal(graph->n_inputs, 6);
    assert_int_equal(graph->n_outputs, 3);

    const struct tmk_value *image = graph->inputs[0];
    assert_string_equal(image->name, "image");
    assert_int_equal(image->profile_id, 0);
    assert_int_equal(image->type.shape.rank, 4);
    assert_int_equal(image->type.shape.dim[0], -1);
    assert_string_equal(image->type.symbol[0], "N");
    assert_null(image->type.symbol[2]);
    assert_int_equal(image->type.shape.dim[3], 8);
    assert_string_equal(image->type.symbol[3], "C");
    assert_int_equal(graph->inputs[1]->profile_id, -1);
    assert_int_equal(graph->inputs[2]->type.dtype, TMK_UNDEFINED);
    assert_false(graph->inputs[2]->type.has_shape);
    assert_int_equal(graph->inputs[3]->type.kind, TMK_TYPE_SEQUENCE);
    assert_int_equal(graph->inputs[3]->type.origin, TMK_FLOAT64);
    assert_int_equal(graph->inputs[4]->type.kind, TMK_TYPE_OPTIONAL_SEQUENCE);

    const struct tmk_value *w = graph->values[6];
    uint32_t bits[6];
    assert_int_equal(tmk_tensor_bytes(&w->data), sizeof bits);
    memcpy(bits, w->data.data, sizeof bits);
    assert_int_equal(bits[1], 0x80000000);
    assert_int_equal(bits[2], 0x7fc00000);
    assert_int_equal(bits[3], 0x7f800000);
    assert_int_equal(bits[4], 0xff800000);
    assert_int_equal(bits[5], 0xffc00001);
    assert_int_equal(graph->values[7]->data.origin, TMK_FLOAT16);
    assert_string_equal(graph->values[7]->name, "7");

    const struct tmk_node *node = graph->first;
    assert_string_equal(node->op, "Dropout");
    assert_int_equal(node->version, 13);
    assert_string_equal(node->name, "node \xc3\xa9");
    assert_null(node->inputs[1]);
    assert_ptr_equal(node->inputs[2], graph->inputs[1]);
    assert_int_equal(node->n_outputs, 2);
    assert_null(node->outputs[1]);
    assert_int_equal(node->outputs[0]->profile_id, 42);
    assert_int_equal(tmk_node_int(node, "axis", 0), -1);
    assert_true(tmk_node_float(node, "ratio", 0) == 0.5f);
    const struct tmk_attr *mode = tmk_node_attr(node, "mode");
    assert_int_equal(mode->n, 4);
    assert_memory_equal(mode->s, "x\n\0\xff", 5);
    assert_int_equal(tmk_node_int(node, "odd name", 0), INT64_MIN);
    assert_string_equal(tmk_node_attr(node, "to")->type->symbol[1], "M");
    assert_int_equal(tmk_node_attr(node->next, "b")->kind, TMK_ATTR_FLOATS);
    assert_int_equal(node->next->n_outputs, 0);
    assert_string_equal(graph->last->prev->domain, "odd domain");
    assert_int_equal(graph->last->prev->version, -3);
    const struct tmk_graph *then = tmk_node_attr(graph->last, "then_branch")->graphs[0];
    assert_ptr_equal(then->outputs[1], node->outputs[0]);
    assert_ptr_equal(then->owner, graph->last);
    tmk_graph_destroy(&graph);
}

TEST(identifiers_name_values_and_comments_are_skipped) {
    struct tmk_graph *graph =
        parsed("// a test\ngraph \"g\" opset 13{input %in.0:f32[2]%y=Relu(%in.0)// here\n"
               "%z=Relu(%y):? output %z}//end",
               NULL);
    char *text = printed(graph, 0);
    assert_string_equal(text, "graph \"g\" opset 13 {\n"
                              "  input %0 : f32[2] \"in.0\"\n"
                              "  %1 = Relu(%0) : ? \"y\"\n"
                              "  %2 = Relu(%1) : ? \"z\"\n"
                              "  output %2\n"
                              "}\n");
    free(text);
    tmk_graph_destroy(&graph);
}

TEST(sibling_graphs_may_use_the_same_identifiers) {
    struct tmk_graph *graph = parsed("graph \"\" { input %c : bool[] %y = If(%c) {"
                                     "a=graph \"\" { %t = C() output %t },"
                                     "b=graph \"\" { %t = C() output %t } } output %y }",
                                     NULL);
    assert_int_equal(graph->first->n_attrs, 2);
    check_round_trip(graph);
}

TEST(large_tensors_are_left_out_or_come_from_a_pool) {
    struct tmk_graph *graph = parsed("graph \"g\" { init %a : f32<f16>[3] = {1, 2, 3}"
                                     "init %b : i32[2] = {4, 5}"
                                     "%c = K() {value=f64[3]{1, 2, nan:0x7ff0000000000001}} }",
                                     NULL);
    struct tensor_pool pool = {0};
    assert_true(tensor_pool_add(&pool, &graph->values[0]->data));
    struct tmk_graph *copy = parsed("graph \"g\" { init %a : f32<f16>[3] = #0 }", &pool);
    assert_ptr_equal(copy->values[0]->data.data, graph->values[0]->data.data);
    assert_int_equal(copy->values[0]->data.origin, TMK_FLOAT16);
    tmk_graph_destroy(&copy);
    tensor_pool_finish(&pool);

    char *text = printed(graph, 2);
    assert_string_equal(text, "graph \"g\" {\n"
                              "  init %0 : f32<f16>[3] = ... \"a\"\n"
                              "  init %1 : i32[2] = {4, 5} \"b\"\n"
                              "  %2 = K() {value=f64[3]...} : ? \"c\"\n"
                              "}\n");
    free(text);
    check_round_trip(graph);
}

TEST(numbers_of_every_type_keep_their_bits) {
    check_round_trip(
        parsed("graph \"g\" {\n"
               "init %0 : f64[5] = {0.1, -0, 4.9406564584124654e-324, -inf, nan:0xfff8000000000007}"
               "init %1 : f16[7] = {65504, -0, 5.9604645e-08, nan, nan:0x7c01, inf, 0.333252}"
               "init %2 : bf16[4] = {3.3895314e+38, nan:0xffff, -inf, 0.00390625}"
               "init %3 : i8[2] = {-128, 127} init %4 : u8[1] = {255}"
               "init %5 : i16[2] = {-32768, 32767} init %6 : u16[1] = {65535}"
               "init %7 : i32[2] = {-2147483648, 2147483647} init %8 : u32[1] = {4294967295}"
               "init %9 : i64[2] = {-9223372036854775808, 9223372036854775807}"
               "init %10 : u64[1] = {18446744073709551615} init %11 : bool[2] = {0, 1}"
               "init %12 : c64[2] = {(1,-0), (nan,inf)} init %13 : c128[1] = {(0.1,1e300)}"
               "init %14 : f8e4m3fn[2] = {0x7f, 0x80} init %15 : f8e5m2[1] = {0xff}"
               "init %16 : f8e4m3fnuz[1] = {0x80} init %17 : f8e5m2fnuz[1] = {0x01}"
               "init %18 : u4[1] = {15} init %19 : i4[1] = {-8} init %20 : f4e2m1[1] = {0x0f}"
               "init %21 : f32[3] = {1.17549421e-38, 0x1p-149, 3.4028235e38}"
               "}",
               NULL));
    struct tmk_graph *graph = parsed("graph \"g\" { init %0 : f32[2] = {-0x1.8p-3, 16777217}"
                                     "init %1 : f16[1] = {-0.5} init %2 : i8[1] = {-7} }",
                                     NULL);
    const float *floats = graph->values[0]->data.data;
    const uint16_t *half = graph->values[1]->data.data;
    assert_true(floats[0] == -0.1875f && floats[1] == 16777216.0f);
    assert_int_equal(*half, 0xb800);
    assert_int_equal(*(const int8_t *)graph->values[2]->data.data, -7);
    tmk_graph_destroy(&graph);
}

TEST(names_of_any_bytes_survive) {
    char hostile[257];
    for (int i = 1; i < 256; i++)
        hostile[i - 1] = (char)i;
    hostile[255] = '\0';
    static const char *const names[] = {"%0 = Relu()",
                                        "\" @p7",
                                        "\\",
                                        "a\nb",
                                        "\xc0\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xe2\x82",
                                        "\xc2\x85",
                                        "//",
                                        "0",
                                        "1",
                                        "_",
                                        ""};
    for (size_t i = 0; i <= TMK_COUNT(names); i++) {
        const char *name = i < TMK_COUNT(names) ? names[i] : hostile;
        struct tmk_graph *graph = NULL;
        struct tmk_node *node;
        struct tmk_value *x;
        struct tmk_type type = {.has_shape = true, .shape = {1, {-1}}, .symbol = {name}};
        must(tmk_graph_create(name, &graph, DIAG));
        must(tmk_graph_set_opset(graph, name, 3, DIAG));
        must(tmk_graph_add_input(graph, name, &type, &x, DIAG));
        must(tmk_graph_add_node(graph, NULL,
                                &(struct tmk_node_spec){name, name, name, 3, &x, 1, &name, 1},
                                &node, DIAG));
        struct tmk_attr attr = {.name = name, .kind = TMK_ATTR_STRING, .n = strlen(name)};
        attr.s = name;
        must(tmk_node_set_attr(node, &attr, DIAG));
        struct tmk_text text = {0};
        tmk_graph_print(graph, 0, NULL, &text);
        for (size_t k = 0; k < text.len; k++)
            assert_true((unsigned char)text.data[k] >= 0x20 || text.data[k] == '\n');
        tmk_text_finish(&text);
        check_round_trip(graph);
    }
}

TEST(well_formed_utf8_prints_as_it_is) {
    struct tmk_graph *graph = NULL;
    must(tmk_graph_create("\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a\xff", &graph, DIAG));
    char *text = printed(graph, 0);
    assert_string_equal(text, "graph \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a\\xff\" {\n}\n");
    free(text);
    tmk_graph_destroy(&graph);
}

/* ---- random graphs ---- */

static uint32_t seed;

static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static const char *draw_name(char out[8]) {
    uint32_t n = draw(7);
    for (uint32_t i = 0; i < n; i++)
        out[i] = draw(3) ? (char)('a' + draw(26)) : (char)(1 + draw(255));
    out[n] = '\0';
    return out;
}

static uint32_t draw_bits(void) {
    static const uint32_t special[] = {0x80000000, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x7f800001, 1};
    return draw(4) ? draw(1 << 24) << 8 ^ draw(1 << 24) : special[draw(TMK_COUNT(special))];
}

static struct tmk_type draw_type(char symbol[8]) {
    struct tmk_type type = {.kind = (enum tmk_type_kind)draw(4)};
    type.dtype = (enum tmk_dtype)draw(TMK_N_DTYPES);
    type.origin = draw(3) ? type.dtype : (enum tmk_dtype)draw(TMK_N_DTYPES);
    type.has_shape = draw(2);
    type.shape.rank = type.has_shape ? (int32_t)draw(TMK_MAX_RANK + 1) : 0;
    for (int32_t i = 0; i < type.shape.rank; i++) {
        type.shape.dim[i] = (int64_t)draw(5) - 1;
        if (!draw(4))
            type.symbol[i] = draw_name(symbol);
    }
    return type;
}

static struct tmk_tensor draw_tensor(void) {
    struct tmk_tensor tensor;
    struct tmk_shape shape = {.rank = (int32_t)draw(4)};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = draw(4);
    enum tmk_dtype dtype;
    do
        dtype = (enum tmk_dtype)draw(TMK_N_DTYPES);
    while (!tmk_dtype_size(dtype));
    must(tmk_tensor_init(&tensor, dtype, &shape, DIAG));
    if (!draw(3))
        tensor.origin = TMK_BFLOAT16;
    for (size_t i = 0; i < tmk_tensor_bytes(&tensor); i += 4) {
        uint32_t bits = draw_bits();
        size_t rest = tmk_tensor_bytes(&tensor) - i;
        memcpy((char *)tensor.data + i, &bits, rest < 4 ? rest : 4);
    }
    return tensor;
}

struct visible {
    struct tmk_value *values[200];
    size_t n;
};

static void add_random(struct tmk_graph *graph, struct visible *visible, int depth);

static void add_random_attr(struct tmk_node *node, struct visible *visible, int depth) {
    char name[8], bytes[3][8] = {{0}}, symbol[8];
    struct tmk_attr attr = {.name = draw_name(name)};
    if (tmk_node_attr(node, attr.name))
        return;
    attr.kind = (enum tmk_attr_kind)draw(TMK_ATTR_TYPE + 1);
    attr.n = draw(4);
    int64_t ints[3];
    float floats[3];
    const char *strings[3];
    struct tmk_tensor tensors[3] = {{0}};
    struct tmk_graph *graphs[3];
    struct tmk_type type = draw_type(symbol);
    for (int i = 0; i < 3; i++) {
        uint32_t bits = draw_bits();
        memcpy(&floats[i], &bits, sizeof bits);
        ints[i] = (int64_t)((uint64_t)draw_bits() << draw(33));
        strings[i] = draw_name(bytes[i]);
    }
    switch (attr.kind) {
    case TMK_ATTR_INT:
        attr.i = ints[0];
        break;
    case TMK_ATTR_FLOAT:
        attr.f = floats[0];
        break;
    case TMK_ATTR_STRING:
        attr.s = bytes[0];
        attr.n = sizeof bytes[0];
        break;
    case TMK_ATTR_INTS:
        attr.ints = ints;
        break;
    case TMK_ATTR_FLOATS:
        attr.floats = floats;
        break;
    case TMK_ATTR_STRINGS:
        attr.strings = strings;
        break;
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        for (int i = 0; i < 3; i++)
            tensors[i] = draw_tensor();
        attr.tensors = tensors;
        break;
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        if (depth == 0)
            return;
        attr.n = attr.kind == TMK_ATTR_GRAPH ? 1 : attr.n;
        for (size_t i = 0; i < attr.n; i++) {
            must(tmk_graph_create_sub(node->graph, draw_name(symbol), &graphs[i], DIAG));
            struct visible inner = *visible;
            add_random(graphs[i], &inner, depth - 1);
        }
        attr.graphs = graphs;
        break;
    case TMK_ATTR_TYPE:
        attr.type = &type;
        break;
    }
    must(tmk_node_set_attr(node, &attr, DIAG));
    for (int i = 0; i < 3; i++)
        tmk_tensor_finish(&tensors[i]);
}

static void see(struct visible *visible, struct tmk_value *value) {
    if (!draw(3))
        value->profile_id = (int64_t)draw(1000);
    if (visible->n < TMK_COUNT(visible->values))
        visible->values[visible->n++] = value;
}

static void add_random(struct tmk_graph *graph, struct visible *visible, int depth) {
    static const char *const domains[] = {"", "com.microsoft", "a b", "x"};
    struct tmk_value *value;
    char name[8], symbol[8], op[8], names[3][8];
    for (uint32_t i = draw(3); i > 0; i--) {
        struct tmk_type type = draw_type(symbol);
        must(tmk_graph_add_input(graph, draw_name(name), &type, &value, DIAG));
        see(visible, value);
    }
    for (uint32_t i = draw(3); i > 0; i--) {
        struct tmk_tensor tensor = draw_tensor();
        must(tmk_graph_add_initializer(graph, draw_name(name), &tensor, &value, DIAG));
        tmk_tensor_finish(&tensor);
        see(visible, value);
    }
    for (uint32_t i = draw(6); i > 0; i--) {
        struct tmk_value *inputs[4];
        const char *outputs[3];
        struct tmk_node *node;
        uint32_t n_inputs = draw(5), n_outputs = draw(4);
        for (uint32_t k = 0; k < n_inputs; k++)
            inputs[k] = visible->n && draw(5) ? visible->values[draw((uint32_t)visible->n)] : NULL;
        for (uint32_t k = 0; k < n_outputs; k++)
            outputs[k] = draw(5) ? draw_name(names[k]) : NULL;
        must(tmk_graph_add_node(graph, NULL,
                                &(struct tmk_node_spec){domains[draw(4)], draw_name(op),
                                                        draw_name(name), (int64_t)draw(4) - 1,
                                                        inputs, n_inputs, outputs, n_outputs},
                                &node, DIAG));
        for (uint32_t k = draw(4); k > 0; k--)
            add_random_attr(node, visible, depth);
        for (uint32_t k = 0; k < n_outputs; k++)
            if (node->outputs[k]) {
                struct tmk_type type = draw_type(symbol);
                if (draw(2))
                    must(tmk_value_set_type(node->outputs[k], &type, DIAG));
                see(visible, node->outputs[k]);
            }
    }
    for (uint32_t i = visible->n ? draw(3) : 0; i > 0; i--)
        must(tmk_graph_add_output(graph, visible->values[draw((uint32_t)visible->n)], DIAG));
}

static struct tmk_graph *random_graph(uint32_t from) {
    struct tmk_graph *graph = NULL;
    struct visible visible = {.n = 0};
    seed = from;
    must(tmk_graph_create("random", &graph, DIAG));
    must(tmk_graph_set_opset(graph, "a b", 2, DIAG));
    must(tmk_graph_set_opset(graph, "", 1, DIAG));
    add_random(graph, &visible, 3);
    must(tmk_graph_verify(graph, DIAG));
    return graph;
}

TEST(random_graphs_survive_the_round_trip) {
    for (uint32_t i = 0; i < 2000; i++)
        check_round_trip(random_graph(i));
}

/* ---- errors ---- */

static void check_refused(const char *text, const char *message) {
    struct tmk_graph *graph = NULL;
    float two[2] = {1, 2};
    struct tmk_tensor tensor;
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &(struct tmk_shape){1, {2}}, two);
    struct tensor_pool pool = {&tensor, 1, 1};
    enum tmk_status status = parse_graph(text, &pool, &graph, DIAG);
    if (status != TMK_FORMAT || graph || strcmp(test_diag.text, message) != 0)
        fail_msg("%s\n  gave: %d %s\n  want: %s", text, (int)status, test_diag.text, message);
}

TEST(malformed_texts_are_refused_with_their_place) {
    check_refused("", "1:1: expected 'graph' but the text ends; is it cut off?");
    check_refused("grape", "1:1: expected 'graph' but found 'grape'");
    check_refused("graph g {}", "1:7: expected the graph's name but found 'g'");
    check_refused("graph \"g\" \x80", "1:11: expected '{' but found byte 0x80");
    check_refused("graph \"g\n\" {}", "1:7: this string is not closed on its line; a line break "
                                      "in it is \\n");
    check_refused("graph \"a\\tb\" {}", "1:9: no such escape; there are \\\" \\\\ \\n and \\xHH");
    check_refused("graph \"\\x4\" {}", "1:8: no such escape; there are \\\" \\\\ \\n and \\xHH");
    check_refused("graph \"\\x00\" {}", "1:7: \\x00 cannot stand in the graph's name");
    check_refused("graph \"g\" opset \"\" {}",
                  "1:20: expected an operator set version but found '{'");
    check_refused("graph \"g\" opset 1 2 {}", "1:19: operator set \"\" stands here twice");
    check_refused("graph \"g\" {} x", "1:14: expected nothing after the graph but found 'x'");
    check_refused("graph \"g\" {\n  inputs %x : f32\n}",
                  "2:3: expected input, init, output, a node or '}' but found 'inputs'");
    check_refused("graph \"g\" { input x", "1:19: expected '%' but found 'x'");
    check_refused("graph \"g\" { input % x",
                  "1:20: '%' without an identifier; letters, digits, '_' and '.' may follow it");
}

TEST(wrong_values_are_refused) {
    check_refused("graph \"g\" {\n  %y = Relu(%x)\n  %x = C()\n}",
                  "2:13: %x is not defined above; a node stands after the producers of its inputs");
    check_refused("graph \"g\" { %y = Relu(%y) }",
                  "1:23: %y is not defined above; a node stands after the producers of its inputs");
    check_refused("graph \"g\" { output %y }",
                  "1:20: %y is not defined above; a node stands after the producers of its inputs");
    check_refused("graph \"g\" { %y = If() {a=graph \"s\" { %z = C() }} output %z }",
                  "1:57: %z is not defined above; a node stands after the producers of its inputs");
    check_refused("graph \"g\" { %y = C() %y = C() }",
                  "1:22: %y is defined twice; choose another identifier");
    check_refused("graph \"g\" { %y, %y = C() }",
                  "1:17: %y is defined twice; choose another identifier");
    check_refused("graph \"g\" { %y = C() %z = If() {a=graph \"s\" { init %y : f32[0] = {} }} }",
                  "1:52: %y is defined twice; choose another identifier");
    check_refused("graph \"g\" { input %x : f32 @q1 }",
                  "1:29: expected a profile ID like @p0 but found 'q1'");
    check_refused("graph \"g\" { input %x : f32 @p-1 }",
                  "1:30: -1 is out of range for a profile ID, 0 to 9223372036854775807");
}

TEST(wrong_types_are_refused) {
    check_refused("graph \"g\" { input %x : float }",
                  "1:24: 'float' is no type; types are f32, i64, bool and so on, ? where it is not "
                  "known");
    check_refused("graph \"g\" { input %x : sequence f32 }", "1:33: expected '(' but found 'f32'");
    check_refused("graph \"g\" { input %x : f32[-2] }",
                  "1:28: -2 is out of range for a dimension, 0 to 9223372036854775807");
    check_refused("graph \"g\" { input %x : f32[9223372036854775808] }",
                  "1:28: 9223372036854775808 is out of range for a dimension, 0 to "
                  "9223372036854775807");
    check_refused("graph \"g\" { input %x : f32[1x] }",
                  "1:28: a dimension must be a decimal integer, not 1x");
    check_refused("graph \"g\" { input %x : f32[1,] }", "1:30: expected a dimension but found ']'");
    check_refused("graph \"g\" { input %x : f32[1,1,1,1,1,1,1,1,1,1,1,1,1] }",
                  "1:52: a shape has at most 12 dimensions");
    check_refused("graph \"g\" { %y = C() : f32, bool }",
                  "1:29: more types than the node has outputs, 1");
    check_refused("graph \"g\" { %y, %z = C() : f32 }",
                  "1:32: 1 types for the node's 2 outputs; ? stands for one not known");
    check_refused("graph \"g\" { _ = C() : f32 }",
                  "1:23: expected '_', since this output is absent, but found 'f32'");
}

TEST(wrong_tensors_are_refused) {
    check_refused("graph \"g\" { init %x : f32[2] = {1} }",
                  "1:32: 1 elements, but the shape asks for 2");
    check_refused("graph \"g\" { init %x : f32[1] = {1, 2} }",
                  "1:34: more elements than the shape holds, 1");
    check_refused("graph \"g\" { init %x : f32[1000000000000] = {1} }",
                  "1:44: fewer elements than the shape asks for, 1000000000000");
    check_refused("graph \"g\" { init %x : f32[4294967296,4294967296] = {1} }",
                  "1:23: a tensor's shape is a number for each dimension, [] for a scalar, and not "
                  "too large");
    check_refused("graph \"g\" { init %x : f32[?] = {1} }",
                  "1:23: a tensor's shape is a number for each dimension, [] for a scalar, and not "
                  "too large");
    check_refused("graph \"g\" { init %x : f32 = {1} }",
                  "1:23: a tensor's shape is a number for each dimension, [] for a scalar, and not "
                  "too large");
    check_refused("graph \"g\" { init %x : str[1] = {1} }",
                  "1:23: no tensor of this type can be given here");
    check_refused("graph \"g\" { init %x : ?[1] = {1} }",
                  "1:23: no tensor of this type can be given here");
    check_refused("graph \"g\" { init %x : optional(f32[1]) = {1} }",
                  "1:23: no tensor of this type can be given here");
    check_refused("graph \"g\" { init %x : f32[2] = #1 }",
                  "1:33: no tensor #1; the pool that came with this text has 1");
    check_refused("graph \"g\" { init %x : f32[3] = #0 }",
                  "1:33: tensor #0 of the pool has another type: f32[2]");
    check_refused("graph \"g\" { init %x : i32[2] = #0 }",
                  "1:33: tensor #0 of the pool has another type: f32[2]");
    check_refused("graph \"g\" { init %x : f32[3] = ... }",
                  "1:32: the elements were left out; print with a higher limit to read it back");
    check_refused("graph \"g\" { init %x : i8[1] = {128} }",
                  "1:32: 128 is out of range for i8, -128 to 127");
    check_refused("graph \"g\" { init %x : u8[1] = {-1} }",
                  "1:32: -1 is out of range for u8, 0 to 255");
    check_refused("graph \"g\" { init %x : u64[1] = {18446744073709551616} }",
                  "1:33: 18446744073709551616 is out of range for u64, 0 to 18446744073709551615");
    check_refused("graph \"g\" { init %x : i8[1] = {1.5} }",
                  "1:32: i8 must be a decimal integer, not 1.5");
    check_refused("graph \"g\" { init %x : f32[1] = {1e39} }",
                  "1:33: 1e39 is too large for its type; infinity is inf");
    check_refused("graph \"g\" { init %x : f16[1] = {65520} }",
                  "1:33: 65520 is too large for its type; infinity is inf");
    check_refused("graph \"g\" { init %x : f32[1] = {1.2.3} }", "1:33: '1.2.3' is not a number");
    check_refused("graph \"g\" { init %x : f32[1] = {x} }",
                  "1:33: expected a number but found 'x'");
    check_refused("graph \"g\" { init %x : f32[1] = {nan:0x7f800000} }",
                  "1:37: these are not the bits of a NaN of this type");
    check_refused("graph \"g\" { init %x : f32[1] = {nan:0x17fc00000} }",
                  "1:37: more bits than the type has; at most 0xffffffff fits");
    check_refused("graph \"g\" { init %x : f8e5m2[1] = {0x1g} }",
                  "1:39: 'g' is not a hexadecimal digit");
    check_refused("graph \"g\" { init %x : f8e5m2[1] = {1} }",
                  "1:36: expected bits in hexadecimal, like 0x7f but found '1'");
    check_refused("graph \"g\" { init %x : c64[1] = {1} }", "1:33: expected '(' but found '1'");
}

TEST(wrong_attributes_are_refused) {
    check_refused("graph \"g\" { = C() {a=1, a=2} }", "1:25: attribute 'a' stands here twice");
    check_refused("graph \"g\" { = C() {a=[1,2f]} }",
                  "1:25: this differs in kind from the list's first item");
    check_refused("graph \"g\" { = C() {a=[\"x\\x00\"]} }",
                  "1:23: \\x00 cannot stand in a list of strings");
    check_refused("graph \"g\" { = C() {a=1.5} }",
                  "1:22: an int (floats end in f) must be a decimal integer, not 1.5");
    check_refused("graph \"g\" { = C() {a=9223372036854775808} }",
                  "1:22: 9223372036854775808 is out of range for an int (floats end in f), "
                  "-9223372036854775808 to 9223372036854775807");
    check_refused("graph \"g\" { = C() {a=0x1f} }", "1:22: '0x1' is not a number");
    check_refused("graph \"g\" { = C() {a=word} }",
                  "1:22: 'word' is no type; types are f32, i64, bool and so on, ? where it is not "
                  "known");
    check_refused("graph \"g\" { = C() {a} }", "1:21: expected '=' but found '}'");
    check_refused("graph \"g\" { = C() {} }", "1:20: expected an attribute's name but found '}'");
    check_refused("graph \"g\" { = C() {a=graph \"s\" { init %x : f32[1] = {1} init } }",
                  "1:62: expected '%' but found '}'");
}

TEST(deep_nesting_is_refused) {
    struct tmk_text text = {0};
    struct tmk_graph *graph = NULL;
    for (int depth = TEXT_MAX_NESTING; depth <= TEXT_MAX_NESTING + 1; depth++) {
        tmk_text_puts(&text, "graph \"g\" {");
        for (int i = 1; i < depth; i++)
            tmk_text_puts(&text, "=C(){a=graph \"s\"{");
        for (int i = 1; i < depth; i++)
            tmk_text_puts(&text, "}}");
        tmk_text_puts(&text, "}");
        assert_false(text.failed);
        enum tmk_status status = parse_graph(text.data, NULL, &graph, DIAG);
        assert_int_equal(status, depth > TEXT_MAX_NESTING ? TMK_FORMAT : TMK_OK);
        tmk_graph_destroy(&graph);
        tmk_text_finish(&text);
    }
    assert_non_null(strstr(test_diag.text, "nested more than 32 deep"));
}

/* A text that parses or not; either way nothing crashes or leaks. */
static bool try_text(const char *bytes, size_t n) {
    struct tmk_graph *graph = NULL;
    char *text = malloc(n + 1); /* exactly as long, so that a reader beyond it is caught */
    assert_non_null(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    enum tmk_status status = parse_graph(text, NULL, &graph, DIAG);
    free(text);
    assert_true(status == TMK_OK || status == TMK_FORMAT);
    assert_true((status == TMK_OK) == (graph != NULL));
    assert_true(status == TMK_OK || test_diag.text[0]);
    tmk_graph_destroy(&graph);
    return status == TMK_OK;
}

TEST(texts_cut_off_anywhere_are_refused) {
    for (size_t n = 0; n < sizeof everything - 2; n++)
        assert_false(try_text(everything, n));
    assert_true(try_text(everything, sizeof everything - 2)); /* only the last line break missing */
}

TEST(texts_with_a_wrong_byte_never_crash) {
    static const char bytes[] = "\"\\{}[]()<>%_=:,.#@-0f9x/?g\n\x01\xff";
    char text[sizeof everything];
    seed = 7;
    for (size_t i = 0; i + 1 < sizeof everything; i++)
        for (int k = 0; k < 4; k++) {
            memcpy(text, everything, sizeof text);
            text[i] = bytes[draw(sizeof bytes - 1)];
            try_text(text, sizeof text - 1);
        }
}

/* ---- drawing ---- */

static bool note_relu(const void *context, const struct tmk_node *node, char out[TMK_DOT_NOTE]) {
    snprintf(out, TMK_DOT_NOTE, "%s", (const char *)context);
    return strcmp(node->op, "Relu") == 0;
}

TEST(drawings_mark_noted_nodes) {
    struct tmk_graph *graph = parsed("graph \"g\" {\n"
                                     "  input %x : f32[2] @p0\n"
                                     "  %y = Relu(%x) \"r\" : f32[2] @p1\n"
                                     "  %z = Neg(%y) : f32[2] @p2\n"
                                     "  output %z\n"
                                     "}",
                                     NULL);
    struct tmk_text text = {0};
    tmk_graph_dot(graph, &(struct tmk_dot_notes){note_relu, "gelu 1"}, &text);
    assert_non_null(strstr(text.data, "n0 [shape=box, label=\"Relu\\nr\\ngelu 1\", style=filled, "
                                      "fillcolor=lightgrey];\n"));
    assert_non_null(strstr(text.data, "n1 [shape=box, label=\"Neg\"];\n"));
    tmk_text_finish(&text);
    tmk_graph_destroy(&graph);
}

TEST(drawings_show_boxes_edges_and_clusters) {
    struct tmk_graph *graph = parsed("graph \"g\" {\n"
                                     "  input %x : f32[\"N\"] \"a\\\"b\" @p3\n"
                                     "  %y = Relu(%x) \"r\" : f32[2] @p4\n"
                                     "  %z = If(%y) {then=graph \"t\" { %u = Neg(%y) output %u }}\n"
                                     "  output %z\n"
                                     "}",
                                     NULL);
    struct tmk_text text = {0};
    tmk_graph_dot(graph, NULL, &text);
    assert_false(text.failed);
    assert_string_equal(text.data, "digraph \"g\" {\n"
                                   "v0 [shape=ellipse, label=\"p3 f32[\\\"N\\\"]\\na\\\"b\"];\n"
                                   "n0 [shape=box, label=\"Relu\\nr\"];\n"
                                   "n1 [shape=box, label=\"If\"];\n"
                                   "subgraph cluster_0 {\n"
                                   "label=\"t\";\n"
                                   "n2 [shape=box, label=\"Neg\"];\n"
                                   "o0 [shape=ellipse, label=\"u\"];\n"
                                   "}\n"
                                   "o1 [shape=ellipse, label=\"z\"];\n"
                                   "v0 -> n0 [label=\"p3 f32[\\\"N\\\"]\"];\n"
                                   "n0 -> n1 [label=\"p4 f32[2]\"];\n"
                                   "n0 -> n2 [label=\"p4 f32[2]\"];\n"
                                   "n2 -> o0 [label=\"?\"];\n"
                                   "n1 -> o1 [label=\"?\"];\n"
                                   "}\n");
    tmk_text_finish(&text);
    tmk_graph_destroy(&graph);
}
