/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "folder.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "model/onnx.h"
#include "model/wire.h"
#include "tensor/list.h"

static const char sample[] =
    "graph \"all\" opset 17 \"com.example\" 3 \"ai.tidemark\" 1 {\n"
    "  input %x : f32[\"N\",2,?] \"image:0\"\n"
    "  input %c : bool[]\n"
    "  input %l : sequence(f32[2,\"M\"])\n"
    "  input %p : optional(i64)\n"
    "  input %q : optional(sequence(f32[?]))\n"
    "  init %w : f32[2,2] = {1, 0.5, -0x1p-3, nan} \"conv/weight\"\n"
    "  init %k : i64[3] = {1, -2, 9223372036854775807}\n"
    "  init %s : u8[] = {7}\n"
    "  %y, _ = \"com.example\"::Foo(%x, _, %w) {axis=-1, ratio=0.5f, mode=\"a b\", pads=[0,1],\n"
    "      scales=[1f,2f], value=f32[2]{1,2}, names=[\"p\",\"\"], kind=:i8[3]} \"node 1\" : "
    "f32[?,3], _\n"
    "  %z = If(%c) {then_branch=graph \"then\" { %n = Neg(%y)  output %n },\n"
    "      else_branch=graph \"else\" { init %v : f32[1] = {3}  %m = Add(%y, %v)  output %m }}\n"
    "  %o = \"ai.tidemark\"::EdgeObserver(%z) {profile_id=3, kind=\"histogram\", "
    "tensor_name=\"z\"}\n"
    "  %t = \"com.example\"::Bar(%k, %s)\n"
    "  output %o\n"
    "  output %t\n"
    "}\n";

struct fixture {
    char path[128];
};

static int make_path(void **state) {
    static struct fixture f;
    int failed = make_folder(state);
    in_folder("model.onnx", f.path);
    *state = &f;
    return failed;
}

/* Not through tmk_file_write, which waits for the disk. */
static void put(const char *path, const char *bytes, size_t len) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static struct tmk_graph *parse(const char *text) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(text, NULL, &graph, DIAG));
    must(tmk_graph_identify(graph, NULL, DIAG));
    return graph;
}

static struct tmk_text encode(const struct tmk_graph *graph) {
    struct tmk_text bytes = {0};
    must(tmk_onnx_encode(graph, &bytes, DIAG));
    return bytes;
}

static enum tmk_status load(const char *path, struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_onnx_options options = {.keep_unknown = true};
    return tmk_onnx_load(path, &options, out, diag);
}

TEST(a_graph_survives_being_written_and_read) {
    const struct fixture *f = *state;
    struct tmk_diag diag = {0};
    struct tmk_graph *graph = parse(sample), *back = NULL;
    assert_ok(tmk_onnx_save(graph, f->path, &diag), &diag);
    assert_ok(load(f->path, &back, &diag), &diag);
    if (!graph_equal(graph, back, &diag))
        fail_msg("%s", diag.text);
    tmk_graph_destroy(&back);
    tmk_graph_destroy(&graph);
}

TEST(names_that_collide_are_told_apart) {
    const struct fixture *f = *state;
    struct tmk_graph *graph = parse("graph \"g\" opset 17 {\n"
                                    "  input %x : f32[2]\n"
                                    "  init %w : f32[1] = {1} \"x\"\n"
                                    "  %a = Add(%x, %w) \"n\"\n"
                                    "  %b = Neg(%a) \"n\"\n"
                                    "  output %b\n"
                                    "}\n"),
                     *back = NULL;
    must(tmk_value_rename(graph->outputs[0], "y", DIAG));
    must(tmk_value_rename(graph->first->outputs[0], "", DIAG));
    struct tmk_text bytes = encode(graph);
    put(f->path, bytes.data, bytes.len);
    must(load(f->path, &back, DIAG));
    assert_string_equal(back->inputs[0]->name, "x");
    assert_string_equal(back->outputs[0]->name, "y");
    const struct tmk_node *add = back->first;
    assert_ptr_equal(add->inputs[0], back->inputs[0]);
    assert_int_equal(add->inputs[1]->kind, TMK_VALUE_INITIALIZER);
    assert_string_not_equal(add->inputs[1]->name, "x");
    assert_string_not_equal(add->outputs[0]->name, "");
    assert_string_equal(add->name, "n");
    assert_string_not_equal(add->next->name, "n");
    assert_string_not_equal(add->next->name, "");
    tmk_text_finish(&bytes);
    tmk_graph_destroy(&back);
    tmk_graph_destroy(&graph);
}

TEST(unknown_operators_are_refused_unless_kept) {
    const struct fixture *f = *state;
    struct tmk_graph *graph = parse(sample), *back = NULL;
    struct tmk_text bytes = encode(graph);
    put(f->path, bytes.data, bytes.len);
    assert_int_equal(tmk_onnx_load(f->path, NULL, &back, DIAG), TMK_UNSUPPORTED);
    assert_null(back);
    assert_non_null(strstr(test_diag.text, "com.example::Foo"));
    assert_non_null(strstr(test_diag.text, "com.example::Bar"));
    tmk_text_finish(&bytes);
    tmk_graph_destroy(&graph);
}

/* Versions 1 and 4 of Concat differ, and a file has one version of each operator set. */
TEST(a_node_of_another_version_is_not_written_as_something_else) {
    struct tmk_text bytes = {0};
    struct tmk_graph *graph = parse("graph \"g\" opset 17 {\n"
                                    "  input %x : f32[2]\n"
                                    "  %a = Concat.1(%x, %x) \"odd\"\n"
                                    "  output %a\n"
                                    "}\n");
    must_fail(tmk_onnx_encode(graph, &bytes, DIAG), TMK_UNSUPPORTED, "odd");
    tmk_text_finish(&bytes);
    tmk_graph_destroy(&graph);
}

TEST(a_model_that_cannot_be_written_leaves_nothing) {
    struct tmk_graph *graph = parse(sample);
    must_fail(tmk_onnx_save(graph, "/tmp/no such folder/m.onnx", DIAG), TMK_WRITE,
              "no such folder");
    tmk_graph_destroy(&graph);
}

TEST(an_outline_leaves_the_weights_where_they_are) {
    /* a tensor: name "w", 300 raw bytes, and a place that a file may not claim */
    char bytes[320] = "\x42\x01w\x4a\xac\x02";
    static const char claimed[] = "\x80\xea\x30\x05"; /* field 100000: 5 */
    memcpy(bytes + 6 + 300, claimed, 4);
    struct tmk_text out = {0};
    must(tmk_wire_outline(bytes, 310, TMK_WIRE_TENSOR, &out, DIAG));
    static const char want[] = "\x42\x01w\x80\xea\x30\x06\x88\xea\x30\xac\x02";
    assert_int_equal(out.len, sizeof want - 1);
    assert_memory_equal(out.data, want, sizeof want - 1);
    tmk_text_finish(&out);
}

TEST(a_damaged_file_is_refused_or_is_another_model) {
    const struct fixture *f = *state;
    struct tmk_graph *graph = parse(sample);
    struct tmk_text bytes = encode(graph);
    size_t refused = 0, taken = 0;
    for (size_t at = 0; at < bytes.len; at++)
        for (int how = 0; how < 9; how++) { /* each bit turned over, or cut here */
            struct tmk_graph *back = NULL;
            char old = bytes.data[at];
            if (how < 8)
                bytes.data[at] = (char)(old ^ 1 << how);
            put(f->path, bytes.data, how < 8 ? bytes.len : at);
            bytes.data[at] = old;
            enum tmk_status status = load(f->path, &back, DIAG);
            if (status == TMK_OK) {
                assert_non_null(back);
                taken++;
            } else {
                assert_null(back);
                assert_non_null(strstr(test_diag.text, f->path));
                refused++;
            }
            tmk_graph_destroy(&back);
        }
    assert_true(refused > bytes.len);
    assert_true(taken > bytes.len);
    tmk_text_finish(&bytes);
    tmk_graph_destroy(&graph);
}

/* Messages written by hand: of one float, a sequence of two of it, optionals of it and of that. */
#define FLOAT_2 "\x08\x01\x10\x01\x4a\x04\0\0\0\x40"
#define LIST "\x0a\x01s\x10\x01\x1a\x0a" FLOAT_2 "\x1a\x0a" FLOAT_2

TEST(values_are_read_as_what_they_are_declared) {
    static const struct {
        const char *bytes;
        size_t len;
        enum tmk_type_kind declared, kind;
        size_t length;
        enum tmk_status status;
    } cases[] = {
#define BYTES(text) text, sizeof text - 1
        {BYTES(FLOAT_2), TMK_TYPE_TENSOR, TMK_TYPE_TENSOR, 0, TMK_OK},
        {BYTES(LIST), TMK_TYPE_SEQUENCE, TMK_TYPE_SEQUENCE, 2, TMK_OK},
        {BYTES("\x10\x01"), TMK_TYPE_SEQUENCE, TMK_TYPE_SEQUENCE, 0, TMK_OK},
        {BYTES("\x10\x03"), TMK_TYPE_SEQUENCE, 0, 0, TMK_UNSUPPORTED},
        {BYTES("\x10\x01\x1a\x0a" FLOAT_2), TMK_TYPE_OPTIONAL, TMK_TYPE_TENSOR, 0, TMK_OK},
        {BYTES("\x10\x03\x2a\x1d" LIST), TMK_TYPE_OPTIONAL_SEQUENCE, TMK_TYPE_SEQUENCE, 2, TMK_OK},
        {BYTES("\x10\x00"), TMK_TYPE_OPTIONAL_SEQUENCE, TMK_TYPE_OPTIONAL, 0, TMK_OK},
        {BYTES("\x10\x04"), TMK_TYPE_OPTIONAL, 0, 0, TMK_UNSUPPORTED},
        {BYTES(LIST "\x1a\x0a\x08\x01\x10\x06\x4a\x04\0\0\0\x40"), TMK_TYPE_SEQUENCE, 0, 0,
         TMK_FORMAT},
#undef BYTES
    };
    const struct fixture *f = *state;
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        const struct tmk_type type = {.kind = cases[i].declared, .dtype = TMK_FLOAT32};
        struct tmk_tensor value;
        put(f->path, cases[i].bytes, cases[i].len);
        enum tmk_status status = tmk_onnx_load_value(f->path, &type, &value, NULL, DIAG);
        if (status != cases[i].status)
            fail_msg("case %zu: status %d: %s", i, (int)status, test_diag.text);
        if (status != TMK_OK)
            continue;
        assert_int_equal(value.kind, cases[i].kind);
        assert_int_equal(value.dtype, TMK_FLOAT32);
        assert_int_equal(value.list ? tmk_list_length(value.list) : 0, cases[i].length);
        const struct tmk_tensor *tensor = &value;
        if (cases[i].length)
            tensor = &tmk_list_items(value.list)[1];
        if (tensor->kind == TMK_TYPE_TENSOR)
            assert_true(*(const float *)tensor->data == 2.0f);
        tmk_tensor_finish(&value);
    }
}

TEST_FIXTURE(make_path, remove_folder)
