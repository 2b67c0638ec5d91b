/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers' own files that exports change: what is read of them, and what is no such file. */
#include "test.h"

#include <string.h>

#include "base/file.h"
#include "export/ncnn.h"
#include "export/openvino.h"
#include "folder.h"

static void put(const char *name, const void *bytes, size_t len) {
    char path[128];
    must(tmk_file_write(in_folder(name, path), bytes, len, DIAG));
}

static void put_text(const char *name, const char *text) {
    put(name, text, strlen(text));
}

/* ---- OpenVINO ---- */

TEST(test_xml_entities) {
    struct tmk_arena arena = {0};
    const char *raw = "a&amp;b&lt;&gt;&quot;&apos;&#233;&#x20AC;&#x1F600;&no;&#0;&";
    assert_string_equal(tmk_xml_text(raw, strlen(raw), &arena),
                        "a&b<>\"'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80&no;&#0;&");
    tmk_arena_finish(&arena);
}

TEST(test_an_ir) {
    struct tmk_ir ir;
    char path[128];
    const char *text =
        "<?xml version=\"1.0\"?><!-- <net> --><net name='a>b'><layers>"
        "<layer id=\"3\" name=\"x\" type=\"Parameter\"><output>"
        "<port id=\"0\" precision=\"FP32\" names=\"x,a\\,b&amp;c\"><dim>1</dim><dim>-1</dim></port>"
        "</output></layer>"
        "<layer id=\"7\" name=\"l\" type=\"Loop\"><body><layers><layer id=\"99\" "
        "type=\"T\"><output>"
        "<port id=\"0\" names=\"x\"/></output></layer></layers></body></layer>"
        "</layers><edges><edge from-layer=\"3\" from-port=\"0\" to-layer=\"7\" to-port=\"1\"/>"
        "</edges></net>";
    put_text("ir", text);
    must(tmk_ir_read(in_folder("ir", path), &ir, DIAG));
    assert_int_equal(ir.n_layers, 2);
    assert_int_equal(ir.n_ports, 1);
    assert_int_equal(ir.n_edges, 1);
    assert_int_equal(ir.next_id, 8);
    assert_true(ir.ports[0].is_float32);
    assert_int_equal(ir.ports[0].shape.rank, 2);
    assert_int_equal(ir.ports[0].shape.dim[1], -1);
    assert_memory_equal(text + ir.ports[0].dims.begin, "<dim>1</dim><dim>-1</dim></port>", 32);
    assert_memory_equal(text + ir.ports[0].attr.begin, " names=", 7);
    assert_memory_equal(text + ir.layers_end, "</layers><edges>", 16);
    assert_memory_equal(text + ir.edges_end, "</edges></net>", 14);
    assert_true(tmk_ir_is_named(&ir.ports[0], "x"));
    assert_true(tmk_ir_is_named(&ir.ports[0], "a,b&c"));
    assert_false(tmk_ir_is_named(&ir.ports[0], "a"));
    assert_false(tmk_ir_is_named(&ir.ports[0], "b&c"));
    assert_false(tmk_ir_is_named(&ir.ports[0], ""));
    tmk_ir_finish(&ir);
}

TEST(test_what_is_no_ir) {
    static const char *const cases[] = {
        "",
        "<",
        "<net",
        "<net>",
        "</net>",
        "<net a=\"></net>",
        "<!DOCTYPE net><net/>",
        "<html></html>",
        "<net><layers></layers></net>",
        "<net><layers><layer/></layers><edges></edges></net>",
        "<net><layers><layer id='1'><output><port id='x'/></output></layer></layers><edges/></net>",
        "<net><layers></layers><edges><edge from-layer='1'/></edges></net>",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tmk_ir ir;
        char path[128];
        put_text("ir", cases[i]);
        if (tmk_ir_read(in_folder("ir", path), &ir, DIAG) != TMK_FORMAT)
            fail_msg("%s was taken", cases[i]);
    }
}

/* Every beginning of a good file is refused, or read to its end, without touching what is behind.
 */
TEST(test_beginnings_of_an_ir) {
    const char *text =
        "<net><layers><layer id=\"3\" name=\"&amp;\" type=\"P\"><output><port id=\"0\" "
        "names=\"x\"><dim>1</dim></port></output></layer></layers><edges><edge "
        "from-layer=\"3\" from-port=\"0\" to-layer=\"7\" to-port=\"1\"/></edges></net>";
    for (size_t len = 0; len < strlen(text); len++) {
        struct tmk_ir ir;
        char path[128];
        put("ir", text, len);
        assert_int_equal(tmk_ir_read(in_folder("ir", path), &ir, DIAG), TMK_FORMAT);
    }
}

/* ---- ncnn ---- */

static enum tmk_status read_ncnn(const char *param, const void *bin, size_t len,
                                 struct tmk_ncnn_model *model, struct tmk_diag *diag) {
    char path[128];
    put_text("m.param", param);
    put("m.bin", bin, len);
    return tmk_ncnn_model_read(in_folder("m.param", path), model, diag);
}

/* A batch norm's 4 numbers, then 3 half weights (8 bytes), 1 bias. */
TEST(test_an_ncnn_model) {
    static const unsigned char bin[16 + 4 + 8 + 4] = {
        [16] = 0x47, 0x6b, 0x30, 0x01, 0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, [31] = 0x40};
    struct tmk_ncnn_model model;
    must(read_ncnn("7767517\n3 3\r\nInput x 0 1 x 0=8\n\nBatchNorm n 1 1 x b 0=1\r\n"
                   "InnerProduct fc 1 1 b y 0=1 1=1 2=3 -23310=1,0.5\n",
                   bin, sizeof bin, &model, DIAG));
    assert_int_equal(model.n, 3);
    assert_string_equal(model.layers[2].top, "y");
    const struct tmk_ncnn_part *parts = model.layers[2].parts;
    assert_int_equal(parts[0].offset, 16);
    assert_int_equal(parts[0].size + parts[1].size, 16);
    assert_int_equal(model.layers[2].int8, TMK_NCNN_STATIC);
    assert_int_equal(model.layers[1].int8, TMK_NCNN_FLOAT);
    float *weights = tmk_ncnn_numbers(&model, &parts[0]);
    float *bias = tmk_ncnn_numbers(&model, &parts[1]);
    assert_true(weights[0] == 1 && weights[1] == -2 && weights[2] == 0.5f && bias[0] == 2);
    free(weights);
    free(bias);
    tmk_ncnn_model_finish(&model);
}

TEST(test_what_is_no_ncnn_model) {
    static const struct {
        const char *param;
        enum tmk_status status;
    } cases[] = {
        {"", TMK_FORMAT},
        {"7767516\n1 1\nInput x 0 1 x\n", TMK_FORMAT},
        {"7767517\n", TMK_FORMAT},
        {"7767517\n2 1\nInput x 0 1 x\n", TMK_FORMAT},
        {"7767517\n1 1\nInput x 0 9 x\n", TMK_FORMAT},
        {"7767517\n1 1\nInput x -1 1 x\n", TMK_FORMAT},
        {"7767517\n1 1\nBatchNorm x 0 1 x 0=1\n", TMK_FORMAT},
        {"7767517\n1 1\nBatchNorm x 0 1 x 0=-1\n", TMK_FORMAT},
        {"7767517\n1 1\nBatchNorm x 0 1 x 0=9223372036854775807\n", TMK_FORMAT},
        {"7767517\n1 1\nConvolution x 0 1 x 6=9223372036854775807\n", TMK_FORMAT},
        {"7767517\n1 1\nMemoryData x 0 1 x 0=3037000500 1=3037000500\n", TMK_FORMAT},
        {"7767517\n1 1\nUnknown x 0 1 x\n", TMK_UNSUPPORTED},
        {"7767517\n1 1\nLSTM x 0 1 x 0=1 1=4\n", TMK_FORMAT},
        {"7767517\n1 1\nLSTM x 0 1 x 0=4611686018427387904 1=4\n", TMK_FORMAT},
        {"7767517\n1 1\nGRU x 0 1 x 0=-1 1=4\n", TMK_FORMAT},
        {"7767517\n1 1\nGRU x 0 1 x 0=1 1=4 8=2\n", TMK_UNSUPPORTED},
        {"7767517\n1 1\nMultiHeadAttention x 0 1 x 0=0 2=1\n", TMK_FORMAT},
        {"7767517\n1 1\nGemm x 0 1 x 6=1 10=5\n", TMK_FORMAT},
        {"7767517\n1 1\nInput x 0 1 x\n", TMK_FORMAT},
    };
    static const unsigned char bin[8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tmk_ncnn_model model;
        assert_int_equal(read_ncnn(cases[i].param, bin, sizeof bin, &model, DIAG), cases[i].status);
    }
}

GROUP_FIXTURE(make_folder, remove_folder)
