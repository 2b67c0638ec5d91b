/* SPDX-License-Identifier: Apache-2.0 */
/* The QDQ form of small graphs under encodings made by hand. */
#include "graph_equal.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/qdq.h"
#include "export/quantized.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "traits/traits.h"

struct qdq_case {
    struct tmk_graph *graph;
    struct tmk_encodings *encodings;
    struct tmk_quantized_graph made;
    char said[1024]; /* "name: why; ..." */
};

static struct tmk_value *value_of(struct tmk_graph *graph, const char *name) {
    struct tmk_value *found = NULL;
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]) && strcmp(g->values[i]->name, name) == 0)
                found = g->values[i];
    return found;
}

static void begin(struct qdq_case *c, const char *text) {
    *c = (struct qdq_case){0};
    must(parse_graph(text, NULL, &c->graph, DIAG));
    must(tmk_graph_sort(c->graph, DIAG));
    must(tmk_ops_bind(c->graph, DIAG));
    must(tmk_graph_identify(c->graph, NULL, DIAG));
    must(tmk_encodings_create(&c->encodings, DIAG));
    c->encodings->items = tmk_encodings_make(c->encodings, 64, sizeof(struct tmk_encoding));
    assert_non_null(c->encodings->items);
}

static void end(struct qdq_case *c) {
    tmk_quantized_finish(&c->made);
    tmk_encodings_destroy(&c->encodings);
    tmk_graph_destroy(&c->graph);
}

/* n scales along axis; axis -1: one. Kept ascending by ID, those with uses first. */
static struct tmk_encoding *encode(struct qdq_case *c, const char *name, enum tmk_dtype dtype,
                                   int32_t axis, uint32_t n, const float *scale, int32_t zero) {
    const struct tmk_value *value = value_of(c->graph, name);
    assert_non_null(value);
    struct tmk_encoding e = {.id = (uint32_t)value->profile_id,
                             .fingerprint = value->fingerprint,
                             .name = value->name,
                             .dtype = dtype,
                             .axis = axis,
                             .n = n,
                             .method = "given",
                             .rule = ""};
    e.symmetric = zero == 0 && dtype != TMK_UINT8;
    e.narrow = e.symmetric;
    e.scale = tmk_encodings_make(c->encodings, n, sizeof *e.scale);
    e.zero_point = tmk_encodings_make(c->encodings, n, sizeof *e.zero_point);
    assert_true(e.scale && e.zero_point);
    for (uint32_t i = 0; i < n; i++) {
        e.scale[i] = scale[i];
        e.zero_point[i] = zero;
    }
    uint32_t at = c->encodings->n_items++;
    for (; at && c->encodings->items[at - 1].id > e.id; at--)
        c->encodings->items[at] = c->encodings->items[at - 1];
    c->encodings->items[at] = e;
    return &c->encodings->items[at];
}

static void encode_u8(struct qdq_case *c, const char *name, float scale, int32_t zero) {
    encode(c, name, TMK_UINT8, -1, 1, &scale, zero);
}

static void said(void *context, const char *name, const char *why) {
    struct qdq_case *c = context;
    size_t used = strlen(c->said);
    snprintf(c->said + used, sizeof c->said - used, "%s: %s; ", name, why);
}

static void remarked(void *context, const char *text) {
    said(context, "remark", text);
}

static void told(void *context, const struct tmk_encoding *encoding, const char *why) {
    if (why)
        said(context, encoding->name, why);
}

static enum tmk_status quantize(struct qdq_case *c) {
    const struct tmk_quantize_options options = {.report = told, .remark = remarked, .context = c};
    return tmk_quantize_graph(c->graph, c->encodings, &options, &c->made, DIAG);
}

static uint32_t count(const struct qdq_case *c, const char *op) {
    uint32_t n = 0;
    for (const struct tmk_node *node = c->made.graph->first; node; node = node->next)
        n += strcmp(node->op, op) == 0;
    return n;
}

static struct tmk_value *made(const struct qdq_case *c, const char *name) {
    struct tmk_value *value = value_of(c->made.graph, name);
    if (!value)
        fail_msg("there is no value %s", name);
    return value;
}

static const struct tmk_quantized_value *entry(const struct qdq_case *c, const char *name) {
    const int64_t id = value_of(c->graph, name)->profile_id;
    for (uint32_t i = 0; i < c->made.n; i++)
        if (c->made.values[i].id == id)
            return &c->made.values[i];
    return NULL;
}

#define CONV                                                                                       \
    "graph \"g\" opset 17 {\n input %x : f32[1,1,2,2]\n"                                           \
    " init %w : f32[2,1,1,1] = {1, -0.5}\n init %b : f32[2] = {0.25, -3}\n"                        \
    " %c = Conv(%x, %w, %b) \"conv\" : f32[1,2,2,2]\n"

static const float w_scales[] = {0.0078125f, 0.00390625f};

TEST(what_a_model_dequantizes_keeps_its_codes) {
    struct qdq_case c;
    const float none = 1;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,2]\n init %s : f32[] = {0.25}\n"
              " init %z : u8[] = {5}\n %q = QuantizeLinear(%x, %s, %z)\n"
              " %d = DequantizeLinear(%q, %s, %z)\n init %w : f32[2,2] = {1, 0.5, -0.5, 0}\n"
              " init %b : f32[2] = {1, -1}\n %y = Gemm(%d, %w, %b)\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode_u8(&c, "d", 0.5f, 3);
    encode_u8(&c, "y", 0.25f, 128);
    encode(&c, "w", TMK_INT8, -1, 1, w_scales, 0);
    encode(&c, "b", TMK_INT32, -1, 1, &none, 0);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "d: it has codes already"));
    assert_int_equal(count(&c, "QuantizeLinear"), 2); /* the model's, and that of y */
    assert_string_equal(made(&c, "y_QuantizeLinear_Input")->producer->inputs[0]->name, "d");
    const float *scale = made(&c, "b_quantized_scale")->data.data;
    assert_float_equal(*scale, 0.25 * w_scales[0], 0); /* of the codes that Gemm reads */
    end(&c);
}

TEST(what_a_model_quantizes_gets_no_second_pair) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,2]\n init %s : f32[] = {0.25}\n"
              " init %z : u8[] = {5}\n init %w : f32[2,2] = {1, 0.5, -0.5, 0}\n"
              " %p = MatMul(%x, %w) \"m\"\n %r = Relu(%p)\n %q = QuantizeLinear(%r, %s, %z)\n"
              " %d = DequantizeLinear(%q, %s, %z)\n %y = Add(%d, %d)\n"
              " %t = QuantizeLinear(%y, %s, %z)\n output %t\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "w", TMK_INT8, -1, 1, w_scales, 0);
    encode_u8(&c, "p", 0.5f, 3);
    encode_u8(&c, "r", 0.5f, 0); /* whose codes clip as Relu does */
    encode_u8(&c, "d", 0.5f, 3);
    encode_u8(&c, "y", 0.5f, 3);
    must(quantize(&c));
    assert_int_equal(count(&c, "QuantizeLinear"), 3); /* two of the model's, and that of x */
    assert_int_equal(count(&c, "Relu"), 1);
    assert_non_null(strstr(c.said, "p: it has codes already"));
    assert_non_null(strstr(c.said, "y: it has codes already"));
    end(&c);
}

/* Nor what it quantizes behind operators that move it; and behind what it dequantizes, codes stay
 * on its grid. */
TEST(codes_of_the_model_pass_operators_that_move) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,2]\n init %s : f32[] = {0.25}\n"
              " init %z : u8[] = {5}\n init %w : f32[2,2] = {1, 0.5, -0.5, 0}\n"
              " %p = MatMul(%x, %w) \"m\"\n %f = Flatten(%p)\n %q = QuantizeLinear(%f, %s, %z)\n"
              " %d = DequantizeLinear(%q, %s, %z)\n %r = Relu(%d)\n %t = Transpose(%r)\n"
              " %y = MatMul(%t, %w)\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "w", TMK_INT8, -1, 1, w_scales, 0);
    static const char *const others[] = {"p", "f", "d", "r", "t"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        encode_u8(&c, others[i], 0.5f, 3);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "p: it has codes already"));
    assert_int_equal(count(&c, "QuantizeLinear"), 3); /* one of the model's, and those of x and t */
    const struct tmk_node *node = made(&c, "y")->producer->inputs[0]->producer;
    assert_float_equal(*(const float *)node->inputs[1]->data.data, 0.25, 0);
    assert_int_equal(*(const uint8_t *)node->inputs[2]->data.data, 5);
    end(&c);
}

TEST(constants_that_the_model_quantizes_moved_get_no_second_codes) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[2,2]\n input %i : i64[2]\n"
              " init %s : f32[] = {0.25}\n init %z : i8[] = {0}\n"
              " init %w : f32[2,2] = {1, 0.5, -0.5, 0}\n init %e : f32[2,2] = {1, 2, 3, 4}\n"
              " %t = Transpose(%w)\n %q = QuantizeLinear(%t, %s, %z)\n"
              " %d = DequantizeLinear(%q, %s, %z)\n %g = Gather(%e, %i)\n"
              " %k = QuantizeLinear(%g, %s, %z)\n %h = DequantizeLinear(%k, %s, %z)\n"
              " %y = MatMul(%h, %d)\n output %y\n}");
    static const char *const others[] = {"w", "e", "t", "d", "g", "h"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        encode(&c, others[i], TMK_INT8, -1, 1, w_scales, 0);
    must(quantize(&c));
    assert_int_equal(count(&c, "QuantizeLinear"), 1);
    assert_int_equal(count(&c, "DequantizeLinear"), 2);
    assert_int_equal(count(&c, "Transpose"), 0);
    static const int8_t codes[] = {4, -2, 2, 0};
    assert_memory_equal(made(&c, "d")->producer->inputs[0]->data.data, codes, sizeof codes);
    end(&c);
}

#define CODED                                                                                      \
    "graph \"g\" opset 17 {\n input %x : f32[2,2]\n init %c : i8[3,2] = {1, 2, -128, 4, 5, 6}\n"   \
    " init %s : f32[3] = {0.5, 0.25, 0.125}\n init %z : i8[3] = {0, 1, 0}\n"                       \
    " init %b : f32[3] = {1, -1, 3}\n"                                                             \
    " %d = DequantizeLinear(%c, %s, %z) {axis=0}\n %t = Transpose(%d) {perm=[1,0]}\n"

TEST(weights_keep_the_codes_that_the_model_has) {
    struct qdq_case c;
    begin(&c,
          CODED " %p = MatMul(%x, %t) \"m\" : f32[2,3]\n %y = Add(%p, %b) \"a\"\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "t", TMK_INT8, -1, 1, w_scales, 0)->role = TMK_ENCODING_WEIGHT;
    encode(&c, "b", TMK_INT32, -1, 1, w_scales, 0);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "t: it has codes already"));
    assert_int_equal(count(&c, "Transpose") + count(&c, "MatMul") + count(&c, "Add"), 0);
    assert_int_equal(count(&c, "DequantizeLinear"), 3); /* of x, t and b */
    const struct tmk_node *weight = made(&c, "t")->producer;
    static const int8_t codes[] = {1, -128, 5, 2, 4, 6};
    assert_memory_equal(weight->inputs[0]->data.data, codes, sizeof codes);
    assert_int_equal(tmk_node_int(weight, "axis", 0), 1);
    static const float scales[] = {0.25f, 0.125f, 0.0625f};
    assert_memory_equal(made(&c, "b_quantized_scale")->data.data, scales, sizeof scales);
    end(&c);
}

TEST(codes_by_block_and_by_channel_are_moved) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 21 {\n input %x : f32[1,2]\n"
              " init %c : i8[3,2] = {1, 2, 3, 4, 5, 6}\n"
              " init %s : f32[2,2] = {0.5, 0.25, 0.125, 2}\n init %z : i8[2,2] = {0, 1, 2, 3}\n"
              " %d = DequantizeLinear(%c, %s, %z) {axis=0, block_size=2}\n %t = Transpose(%d)\n"
              " init %k : i8[1,3,1,4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
              " init %n : f32[3] = {0.5, 0.25, 0.125}\n init %h : i64[2] = {3, -1}\n"
              " %e = DequantizeLinear(%k, %n) {axis=1}\n %r = Reshape(%e, %h)\n"
              " %m = MatMul(%x, %t)\n %y = MatMul(%m, %r)\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode_u8(&c, "m", 0.5f, 3);
    encode(&c, "t", TMK_INT8, -1, 1, w_scales, 0)->role = TMK_ENCODING_WEIGHT;
    encode(&c, "r", TMK_INT8, -1, 1, w_scales, 0)->role = TMK_ENCODING_WEIGHT;
    must(quantize(&c));
    static const int8_t codes[] = {1, 3, 5, 2, 4, 6}, zeros[] = {0, 2, 1, 3};
    static const float scales[] = {0.5f, 0.125f, 0.25f, 2};
    const struct tmk_node *node = made(&c, "t")->producer;
    assert_string_equal(node->op, "DequantizeLinear");
    assert_int_equal(tmk_node_int(node, "axis", 9), 1);
    assert_int_equal(tmk_node_int(node, "block_size", 9), 2);
    assert_memory_equal(node->inputs[0]->data.data, codes, sizeof codes);
    assert_memory_equal(node->inputs[1]->data.data, scales, sizeof scales);
    assert_memory_equal(node->inputs[2]->data.data, zeros, sizeof zeros);
    node = made(&c, "r")->producer;
    assert_string_equal(node->op, "DequantizeLinear");
    assert_int_equal(tmk_node_int(node, "axis", 9), 0);
    assert_int_equal(count(&c, "Transpose") + count(&c, "Reshape"), 0);
    end(&c);
}

TEST(codes_of_training_are_codes) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1,2]\n init %w : f32[2,2] = {1, 2, -3, 4}\n"
              " init %s : f32[2] = {0.5, 0.25}\n init %z : i8[2] = {0, 0}\n"
              " %q = QuantizeLinear(%w, %s, %z) {axis=0}\n"
              " %d = DequantizeLinear(%q, %s, %z) {axis=0}\n %t = Transpose(%d)\n"
              " %y = MatMul(%x, %t) \"m\"\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "t", TMK_INT8, -1, 1, w_scales, 0)->role = TMK_ENCODING_WEIGHT;
    must(quantize(&c));
    static const int8_t codes[] = {2, -12, 4, 16};
    assert_memory_equal(made(&c, "t")->producer->inputs[0]->data.data, codes, sizeof codes);
    assert_int_equal(count(&c, "QuantizeLinear"), 1); /* of x */
    end(&c);
}

TEST(no_scale_of_such_weights_is_enlarged) {
    struct qdq_case c;
    begin(&c, CODED " %y = Gemm(%x, %t, %b) \"m\"\n output %y\n}");
    encode_u8(&c, "x", 2e-9f, 3);
    encode(&c, "t", TMK_INT8, -1, 1, w_scales, 0)->role = TMK_ENCODING_WEIGHT;
    encode(&c, "b", TMK_INT32, -1, 1, w_scales, 0);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "b: int32 does not hold it"));
    assert_int_equal(count(&c, "DequantizeLinear"), 2);
    end(&c);
}

TEST(a_convolution_gets_pairs_codes_and_an_int32_bias) {
    struct qdq_case c;
    const float none = 1;
    begin(&c, CONV " output %c\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode_u8(&c, "c", 0.25f, 128);
    encode(&c, "w", TMK_INT8, 0, 2, w_scales, 0);
    encode(&c, "b", TMK_INT32, -1, 1, &none, 0);
    must(quantize(&c));
    assert_string_equal(c.said, "");
    assert_int_equal(count(&c, "QuantizeLinear"), 2);
    assert_int_equal(count(&c, "DequantizeLinear"), 4);
    const struct tmk_node *conv = made(&c, "c_QuantizeLinear_Input")->producer;
    assert_string_equal(conv->op, "Conv");
    assert_string_equal(conv->inputs[0]->name, "x_DequantizeLinear_Output");
    assert_string_equal(conv->inputs[1]->name, "w_DequantizeLinear_Output");
    assert_string_equal(conv->inputs[2]->name, "b");
    assert_string_equal(c.made.graph->outputs[0]->name, "c");
    assert_string_equal(c.made.graph->outputs[0]->producer->op, "DequantizeLinear");
    const int8_t *codes = made(&c, "w_quantized")->data.data;
    assert_int_equal(codes[0], 127); /* 128, and narrow */
    assert_int_equal(codes[1], -127);
    const struct tmk_value *bias = made(&c, "b_quantized");
    assert_int_equal(bias->data.dtype, TMK_INT32);
    assert_int_equal(((const int32_t *)bias->data.data)[0], 64);
    assert_int_equal(((const int32_t *)bias->data.data)[1], -1536);
    assert_int_equal(made(&c, "w_scale")->data.shape.rank, 1);
    assert_int_equal(made(&c, "x_scale")->data.shape.rank, 0);
    assert_int_equal(*(const uint8_t *)made(&c, "x_zero_point")->data.data, 3);
    assert_int_equal(tmk_node_int(made(&c, "w_DequantizeLinear_Output")->producer, "axis", 9), 0);
    assert_string_equal(entry(&c, "w")->real->name, "w_DequantizeLinear_Output");
    assert_string_equal(entry(&c, "x")->codes->name, "x_QuantizeLinear_Output");
    assert_string_equal(entry(&c, "c")->real->name, "c");
    /* The graph handed in is as it was. */
    assert_string_equal(c.graph->outputs[0]->producer->op, "Conv");
    end(&c);
}

TEST(without_encodings_nothing_changes) {
    struct qdq_case c;
    begin(&c, CONV " %y = Relu(%c)\n output %y\n}");
    must(quantize(&c));
    assert_true(graph_equal(c.graph, c.made.graph, DIAG));
    assert_int_equal(c.made.n, 5);
    assert_null(entry(&c, "x")->encoding);
    assert_string_equal(entry(&c, "x")->real->name, "x");
    end(&c);
}

TEST(a_bias_stays_float_with_an_operand) {
    struct qdq_case c;
    const float one = 1;
    begin(&c, CONV " output %c\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "b: an operand of its operator is not quantized"));
    assert_int_equal(count(&c, "DequantizeLinear"), 1);
    end(&c);
}

TEST(relu_goes_where_the_codes_clip) {
    struct qdq_case c;
    for (int zero = 0; zero < 2; zero++) {
        begin(&c, CONV " %y = Relu(%c)\n output %y\n}");
        encode_u8(&c, "x", 0.5f, 3);
        encode_u8(&c, "c", 0.25f, 128);
        encode_u8(&c, "y", 0.125f, zero);
        must(quantize(&c));
        assert_int_equal(count(&c, "Relu"), zero);
        if (zero == 0) {
            assert_string_equal(made(&c, "y_QuantizeLinear_Input")->producer->op, "Conv");
            assert_null(entry(&c, "c"));
            assert_non_null(strstr(c.said, "c: the codes of its Relu's"));
        }
        end(&c);
    }
}

/* A second reader would see what was not clipped; so would a grid that reaches below. */
TEST(clip_stays_where_it_is_needed) {
#define CLIP(bounds, more)                                                                         \
    CONV " init %l : f32[] = {" bounds "}\n init %h : f32[] = {6}\n %y = Clip(%c, %l, %h)\n" more  \
         " output %y\n}"
    static const struct {
        const char *text;
        float scale;
        uint32_t left;
    } cases[] = {
        {CLIP("0", ""), 6.0f / 255, 0},
        {CLIP("0", ""), 5.0f / 255, 0},
        {CLIP("0", ""), 8.0f / 255, 1},
        {CLIP("1", ""), 6.0f / 255, 1},
        {CLIP("0", " output %c\n"), 6.0f / 255, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qdq_case c;
        begin(&c, cases[i].text);
        encode_u8(&c, "x", 0.5f, 3);
        encode_u8(&c, "c", 0.25f, 128);
        encode_u8(&c, "y", cases[i].scale, 0);
        must(quantize(&c));
        assert_int_equal(count(&c, "Clip"), cases[i].left);
        end(&c);
    }
}

TEST(what_moves_shares_the_scale_where_it_is_the_same) {
    struct qdq_case c;
    for (int same = 0; same < 2; same++) {
        begin(&c, CONV " %t = Transpose(%c) {perm=[0,2,3,1]}\n output %t\n}");
        encode_u8(&c, "x", 0.5f, 3);
        encode_u8(&c, "c", 0.25f, 128);
        encode_u8(&c, "t", same ? 0.25f : 0.5f, 128);
        must(quantize(&c));
        const struct tmk_node *pair = c.made.graph->outputs[0]->producer;
        assert_string_equal(pair->inputs[1]->name, same ? "c_scale" : "t_scale");
        assert_string_equal(pair->inputs[2]->name, same ? "c_zero_point" : "t_zero_point");
        end(&c);
    }
}

TEST(a_reader_may_have_an_encoding_of_its_own) {
    struct qdq_case c;
    const float fine = 0.001f;
    begin(&c, CONV " %y = Sigmoid(%c) \"one\"\n %z = Sigmoid(%c) \"two\"\n output %y\n"
                   " output %z\n}");
    encode_u8(&c, "c", 0.25f, 128);
    struct tmk_encoding *wide = encode(&c, "c", TMK_INT16, -1, 1, &fine, 0);
    struct tmk_encoding_use use = {"two", "Sigmoid", 0};
    if (wide != &c.encodings->items[0]) { /* those with uses come first */
        struct tmk_encoding other = c.encodings->items[0];
        c.encodings->items[0] = *wide;
        *wide = other;
    }
    c.encodings->items[0].uses = &use;
    c.encodings->items[0].n_uses = 1;
    must(quantize(&c));
    assert_string_equal(made(&c, "y")->producer->inputs[0]->name, "c_DequantizeLinear_Output");
    const struct tmk_value *other = made(&c, "z")->producer->inputs[0];
    assert_string_equal(other->name, "c_convert_DequantizeLinear_Output");
    const struct tmk_node *second = other->producer->inputs[0]->producer;
    assert_string_equal(second->op, "QuantizeLinear");
    assert_int_equal(second->version, 21);
    assert_string_equal(second->inputs[0]->producer->inputs[0]->name, "c_QuantizeLinear_Output");
    end(&c);
}

TEST(two_nodes_with_one_bias_get_one_each) {
    struct qdq_case c;
    const float one = 1;
    begin(&c, CONV " %d = Conv(%x, %w, %b) \"other\"\n output %c\n output %d\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "w", TMK_INT8, 0, 2, w_scales, 0);
    encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
    must(quantize(&c));
    assert_non_null(made(&c, "b_quantized"));
    assert_non_null(made(&c, "b0_quantized"));
    assert_int_equal(count(&c, "DequantizeLinear"), 4);
    end(&c);
}

/* 3 / (1e-12 * 2^-8) is no int32: the scale of that channel becomes larger, the other's stays. */
TEST(scales_of_weights_make_room_for_the_bias) {
    struct qdq_case c;
    const float one = 1;
    begin(&c, CONV " output %c\n}");
    encode_u8(&c, "x", 2e-8f, 3);
    encode(&c, "w", TMK_INT8, 0, 2, w_scales, 0);
    encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
    must(quantize(&c));
    const float *scale = made(&c, "w_scale")->data.data;
    const int32_t *codes = made(&c, "b_quantized")->data.data;
    assert_true(scale[0] == w_scales[0]);
    assert_true(scale[1] > w_scales[1]);
    assert_true(codes[1] < -2147000000 && codes[1] > INT32_MIN);
    assert_non_null(strstr(c.said, "1 scale of weight 'w' became larger"));
    end(&c);
}

TEST(beta_goes_into_the_codes) {
    struct qdq_case c;
    const float scale = 0.0078125f, one = 1;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1,2]\n init %w : f32[2,1] = {1, -0.5}\n"
              " init %b : f32[1] = {0.25}\n %y = Gemm(%x, %w, %b) {beta=2f} \"gemm\"\n"
              " output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "w", TMK_INT8, -1, 1, &scale, 0);
    encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
    must(quantize(&c));
    assert_int_equal(*(const int32_t *)made(&c, "b_quantized")->data.data, 128);
    assert_true(tmk_node_float(made(&c, "y")->producer, "beta", 9) == 1);
    assert_null(entry(&c, "b"));
    end(&c);
}

/* Codes of an accumulator are no operand of Add: its own range decides, on the grid next to it. */
TEST(a_bias_that_is_added_alone_gets_the_type_of_the_others) {
    struct qdq_case c;
    const float one = 1;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1,2]\n init %b : f32[2] = {-0.5, 2.05}\n"
              " %y = Add(%x, %b) \"add\"\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
    must(quantize(&c));
    assert_string_equal(c.said, "");
    const struct tmk_value *codes = made(&c, "b_quantized");
    assert_int_equal(codes->data.dtype, TMK_UINT8);
    assert_int_equal(*(const uint8_t *)made(&c, "b_zero_point")->data.data, 50);
    assert_float_equal(*(const float *)made(&c, "b_scale")->data.data, 0.01f, 1e-9);
    assert_int_equal(((const uint8_t *)codes->data.data)[1], 255);
    assert_int_equal(entry(&c, "b")->encoding->dtype, TMK_UINT8);
    end(&c);
}

TEST(an_input_that_is_returned_stays_what_it_is) {
    struct qdq_case c;
    begin(&c, CONV " output %c\n output %x\n}");
    encode_u8(&c, "x", 0.5f, 3);
    must(quantize(&c));
    assert_string_equal(c.made.graph->inputs[0]->name, "x");
    assert_ptr_equal(c.made.graph->outputs[1], c.made.graph->inputs[0]);
    assert_string_equal(made(&c, "c")->producer->inputs[0]->name, "x_DequantizeLinear_Output");
    end(&c);
}

TEST(codes_of_the_model_itself_may_have_no_zero_point) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 21 {\n input %k : i8[2,3]\n init %s : f32[] = {0.5}\n"
              " %d = DequantizeLinear(%k, %s)\n %t = Transpose(%d)\n %y = Exp(%t)\n output %y\n}");
    must(quantize(&c));
    assert_string_equal(made(&c, "t")->uses[0].node->op, "Exp");
    end(&c);
}

TEST(encodings_that_fit_nothing_are_refused_or_told) {
    struct qdq_case c;
    begin(&c, CONV " %e = Exp(%c)\n output %e\n}");
    encode_u8(&c, "e", 0.5f, 0);
    must(quantize(&c));
    assert_non_null(strstr(c.said, "e: nothing that ONNX Runtime's quantizer quantizes"));
    end(&c);

    begin(&c, "graph \"g\" opset 17 {\n input %k : bool[]\n input %x : f32[2]\n"
              " %y = If(%k) {then_branch=graph \"t\" {\n %t = Sigmoid(%x)\n output %t\n}, "
              "else_branch=graph \"e\" {\n %e = Exp(%x)\n output %e\n}}\n output %y\n}");
    encode_u8(&c, "t", 0.5f, 0);
    must(quantize(&c));
    assert_string_equal(c.said, "t: it is in a sub-graph, where everything stays float; ");
    end(&c);

    const float three[] = {1, 1, 1};
    begin(&c, CONV " output %c\n}");
    encode(&c, "w", TMK_INT8, 0, 3, three, 0);
    assert_int_equal(quantize(&c), TMK_MISMATCH);
    assert_non_null(strstr(test_diag.text, "'w' has 3 scales along axis 0"));
    end(&c);

    begin(&c, CONV " output %c\n}");
    encode_u8(&c, "x", 0.5f, 0);
    c.encodings->items[0].fingerprint ^= 1;
    assert_int_equal(quantize(&c), TMK_MISMATCH);
    end(&c);
}

/* ---- weights and biases where they can't be seen ---- */

TEST(weights_behind_operators_on_constants_become_codes) {
    struct qdq_case c;
    const float scale = 0.0078125f;
    begin(&c, "graph \"g\" opset 17 {\n input %x : f32[1,2]\n init %w : f32[1,2] = {1, -0.5}\n"
              " init %s : i64[2] = {2, 1}\n %r = Reshape(%w, %s)\n %t = Identity(%r)\n"
              " %y = MatMul(%x, %t) \"m\"\n output %y\n}");
    encode_u8(&c, "x", 0.5f, 3);
    encode(&c, "t", TMK_INT8, -1, 1, &scale, 0)->role = TMK_ENCODING_WEIGHT;
    must(quantize(&c));
    assert_string_equal(c.said, "");
    assert_int_equal(count(&c, "Reshape") + count(&c, "Identity"), 0);
    const struct tmk_value *codes = made(&c, "t_quantized");
    assert_int_equal(codes->data.shape.dim[0], 2);
    assert_int_equal(((const int8_t *)codes->data.data)[1], -64);
    assert_string_equal(entry(&c, "t")->codes->name, "t_quantized");
    end(&c);
}

TEST(an_added_bias_joins_the_product) {
    static const struct {
        const char *product, *bias, *joined;
    } cases[] = {
        {"input %x : f32[1,1,2,2]\n init %w : f32[2,1,1,1] = {1, -0.5}\n %p = Conv(%x, %w) "
         "{strides=[2,2]} \"m\"\n",
         "f32[1,2,1,1]", "Conv"},
        {"input %x : f32[1,1,2,2]\n init %w : f32[2,1,1,1] = {1, -0.5}\n %p = Conv(%x, %w) "
         "\"m\"\n",
         "f32[2]", NULL}, /* along the width */
        {"input %x : f32[3,1]\n init %w : f32[1,2] = {1, -0.5}\n %p = MatMul(%x, %w) \"m\"\n",
         "f32[2]", "Gemm"},
        {"input %x : f32[1,3,1]\n init %w : f32[1,2] = {1, -0.5}\n %p = MatMul(%x, %w) \"m\"\n",
         "f32[2]", NULL}, /* Gemm takes matrices */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int alone = 0; alone < 2; alone++) {
            struct qdq_case c;
            char text[1024];
            const float scale = 0.0078125f, one = 1;
            snprintf(text, sizeof text,
                     "graph \"g\" opset 17 {\n %s init %%b : %s = {0.25, -3}\n"
                     " %%y = Add(%%b, %%p) \"a\"\n output %%y\n}",
                     cases[i].product, cases[i].bias);
            begin(&c, text);
            encode_u8(&c, "x", 0.5f, 3);
            encode_u8(&c, "y", 0.25f, 128);
            if (!alone) /* the product is a value of its own */
                encode_u8(&c, "p", 0.25f, 128);
            encode(&c, "w", TMK_INT8, -1, 1, &scale, 0);
            encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
            must(quantize(&c));
            const bool joins = alone && cases[i].joined;
            assert_int_equal(count(&c, "Add"), !joins);
            if (joins) {
                const struct tmk_node *node = made(&c, "y_QuantizeLinear_Input")->producer;
                assert_string_equal(node->op, cases[i].joined);
                assert_string_equal(node->name, "m");
                assert_string_equal(node->inputs[2]->name, "b");
                const struct tmk_value *codes = made(&c, "b_quantized");
                assert_int_equal(codes->data.shape.rank, 1);
                assert_int_equal(((const int32_t *)codes->data.data)[0], 64);
                assert_int_equal(tmk_node_attr(node, "strides") != NULL, i == 0);
                assert_null(entry(&c, "p"));
                assert_string_equal(entry(&c, "y")->real->name, "y");
            }
            end(&c);
        }
}

TEST(ranks_that_no_file_declares_are_found) {
    static const char *const inputs[] = {"f32[3,1]", "f32[1,3,1]"};
    for (int i = 0; i < 2; i++) {
        struct qdq_case c;
        char text[512];
        const float scale = 0.0078125f, one = 1;
        snprintf(
            text, sizeof text,
            "graph \"g\" opset 21 {\n input %%x : %s\n init %%w : f32[1,2] = {1, -0.5}\n"
            " init %%b : f32[2] = {0.25, -3}\n %%r = Relu(%%x)\n %%p = MatMul(%%r, %%w) \"m\"\n"
            " %%y = Add(%%p, %%b) \"a\"\n output %%y\n}",
            inputs[i]);
        begin(&c, text);
        encode_u8(&c, "r", 0.5f, 3);
        encode_u8(&c, "y", 0.25f, 128);
        encode(&c, "w", TMK_INT8, -1, 1, &scale, 0);
        encode(&c, "b", TMK_INT32, -1, 1, &one, 0);
        must(quantize(&c));
        assert_int_equal(count(&c, "Gemm"), i == 0);
        assert_int_equal(made(&c, "b_quantized")->data.shape.rank, i == 0 ? 1 : 3);
        end(&c);
    }
}

/* ---- operator sets ---- */

static void raise(struct qdq_case *c, const char *text, int64_t to) {
    begin(c, text);
    must(tmk_opset_upgrade(c->graph, to, DIAG));
    must(tmk_graph_verify(c->graph, DIAG));
    assert_int_equal(tmk_graph_opset(c->graph, ""), to);
    for (const struct tmk_node *node = c->graph->first; node; node = node->next)
        assert_int_equal(node->version, to);
}

TEST(attributes_become_inputs) {
    struct qdq_case c;
    raise(&c,
          "graph \"g\" opset 9 {\n input %x : f32[1,4,4,4]\n"
          " %a = Clip(%x) {min=0f, max=6f}\n %b = Pad(%a) {pads=[0,0,1,1,0,0,1,1]}\n"
          " %c = Slice(%b) {starts=[0], ends=[4], axes=[2]}\n %d = ReduceMean(%c) {axes=[2]}\n"
          " %e = Squeeze(%c) {axes=[0]}\n %f, %g = Split(%x) {axis=1}\n"
          " init %s : f32[4] = {1, 1, 2, 2}\n %u = Upsample(%x, %s) {mode=\"nearest\"}\n"
          " output %d\n output %e\n output %f\n output %g\n output %u\n}",
          18);
    const struct tmk_node *clip = value_of(c.graph, "a")->producer;
    assert_int_equal(clip->n_inputs, 3);
    assert_null(tmk_node_attr(clip, "min"));
    assert_true(*(const float *)clip->inputs[2]->data.data == 6);
    assert_int_equal(tmk_node_int(value_of(c.graph, "f")->producer, "num_outputs", 0), 2);
    assert_int_equal(value_of(c.graph, "d")->producer->n_inputs, 2);
    const struct tmk_node *resize = value_of(c.graph, "u")->producer;
    assert_string_equal(resize->op, "Resize");
    assert_string_equal(tmk_node_string(resize, "nearest_mode", ""), "floor");
    assert_true(value_of(c.graph, "d")->profile_id >= 0);
    end(&c);
}

TEST(modes_axes_and_groups_are_named_anew) {
    struct qdq_case c;
    raise(&c,
          "graph \"g\" opset 19 {\n input %x : f32[1,4,4,1]\n input %g : f32[1,2,2,2]\n"
          " %f = DFT(%x) {axis=2, onesided=0}\n %s = GridSample(%x, %g) {mode=\"bicubic\"}\n"
          " init %a : f32[2] = {1, 2}\n init %b : f32[2] = {3, 4}\n"
          " %n = GroupNormalization(%x, %a, %b) {num_groups=2}\n"
          " output %f\n output %s\n output %n\n}",
          21);
    const struct tmk_node *dft = value_of(c.graph, "f")->producer,
                          *norm = value_of(c.graph, "n")->producer;
    assert_int_equal(dft->n_inputs, 3);
    assert_null(dft->inputs[1]);
    assert_int_equal(*(const int64_t *)dft->inputs[2]->data.data, 2);
    assert_string_equal(tmk_node_string(value_of(c.graph, "s")->producer, "mode", ""), "cubic");
    assert_int_equal(norm->inputs[1]->data.shape.dim[0], 4);
    assert_true(((const float *)norm->inputs[2]->data.data)[1] == 3);
    assert_true(((const float *)norm->inputs[2]->data.data)[2] == 4);
    end(&c);
}

/* Along all axes from one on: as a matrix, of known and of unknown size, and along one where the
 * others are of size 1. */
TEST(softmax_over_several_axes_becomes_one_of_a_matrix) {
    static const char *const ops[] = {"Softmax", "LogSoftmax", "Hardmax"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int64_t to = 13; to <= 21; to += 8) {
            struct qdq_case c;
            char text[200];
            snprintf(text, sizeof text,
                     "graph \"g\" opset 11 {\n input %%x : f32[?,3,4,?]\n %%y = %s(%%x) {axis=2}\n"
                     " output %%y\n}",
                     ops[i]);
            raise(&c, text, to);
            const struct tmk_node *last = c.graph->outputs[0]->producer;
            const struct tmk_node *node = last->inputs[0]->producer;
            assert_string_equal(last->op, "Reshape");
            assert_string_equal(c.graph->outputs[0]->name, "y");
            assert_true(c.graph->outputs[0]->profile_id >= 0);
            assert_string_equal(last->inputs[1]->producer->op, "Shape");
            assert_string_equal(node->op, ops[i]);
            assert_int_equal(tmk_node_int(node, "axis", 9), 1);
            assert_int_equal(tmk_node_int(node->inputs[0]->producer, "axis", 9), 2);
            end(&c);
        }
    struct qdq_case c;
    raise(&c, "graph \"g\" opset 11 {\n input %x : f32[2,3,1]\n %y = Softmax(%x)\n output %y\n}",
          13);
    assert_int_equal(tmk_node_int(c.graph->outputs[0]->producer, "axis", 9), 1);
    end(&c);
}

TEST(traits_name_the_operators_that_get_pairs) {
    uint32_t n;
    const struct tmk_traits *rows = tmk_traits_list(&n);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_node node = {.domain = rows[i].domain, .op = rows[i].op};
        if (rows[i].class != TMK_OP_DIRECT &&
            tmk_traits_are(&rows[i], TMK_TRAIT_PAIRED) != tmk_qdq_knows(&node))
            fail_msg("%s", rows[i].op);
    }
}

TEST(what_has_another_meaning_is_refused) {
    struct qdq_case c;
    begin(&c, "graph \"g\" opset 6 {\n input %x : f32[2,3,4]\n input %z : f32[3]\n"
              " %y = Add(%x, %z) {axis=1, broadcast=1} \"sum\"\n output %y\n}");
    must_fail(tmk_opset_upgrade(c.graph, 13, DIAG), TMK_UNSUPPORTED, "Add 'sum'");
    end(&c);
}
