/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <string.h>

#include "base/size.h"
#include "relay/ast.h"
#include "relay/base64.h"

/* What TVM 0.14 wrote for {"b": int8 3, "w": float32 [[1, -2]]}. */
static const unsigned char mini[] = {0xb7, 0x9c, 0x04, 0x05, 0x4f, 0x8d, 0xe5, 0xf7, 0,
                                     0,    0,    0,    0,    0,    0,    0, /* mark, reserved */
                                     2,    0,    0,    0,    0,    0,    0,    0,    1,
                                     0,    0,    0,    0,    0,    0,    0,    'b', /* names */
                                     1,    0,    0,    0,    0,    0,    0,    0,    'w',
                                     2,    0,    0,    0,    0,    0,    0,    0, /* tensors */
                                     0x3f, 0xa1, 0xb4, 0x96, 0xf0, 0x40, 0x5e, 0xdd, 0,
                                     0,    0,    0,    0,    0,    0,    0, /* byte 50 */
                                     1,    0,    0,    0,    0,    0,    0,    0,    0,
                                     0,    0,    0,    0,    8,    1,    0, /* device, rank, type */
                                     1,    0,    0,    0,    0,    0,    0,    0,    3, /* data */
                                     0x3f, 0xa1, 0xb4, 0x96, 0xf0, 0x40, 0x5e, 0xdd, 0,
                                     0,    0,    0,    0,    0,    0,    0, /* byte 91 */
                                     1,    0,    0,    0,    0,    0,    0,    0,    2,
                                     0,    0,    0,    2,    32,   1,    0, /* device, rank, type */
                                     1,    0,    0,    0,    0,    0,    0,    0,    2,
                                     0,    0,    0,    0,    0,    0,    0, /* dimensions */
                                     8,    0,    0,    0,    0,    0,    0,    0,    0,
                                     0,    0x80, 0x3f, 0,    0,    0,    0xc0};

enum {
    SECOND = 91,
    SECOND_RANK = SECOND + 24,
    SECOND_TYPE = SECOND + 28,
    SECOND_DIMS = SECOND + 32,
    SECOND_SIZE = SECOND + 48
};

static struct tmk_relay_params *parse_params(const void *bytes, size_t len) {
    struct tmk_relay_params *params = NULL;
    must(tmk_relay_params_parse(bytes, len, "p", &params, DIAG));
    return params;
}

static void same_bytes(const struct tmk_relay_params *params, const void *bytes, size_t len) {
    struct tmk_text out = {0};
    must(tmk_relay_params_print(params, &out, DIAG));
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, bytes, len);
    tmk_text_finish(&out);
}

TEST(test_there_and_back) {
    struct tmk_relay_params *params = parse_params(mini, sizeof mini);
    assert_int_equal(params->n, 2);
    assert_string_equal(params->items[0].name, "b");
    assert_string_equal(params->items[0].dtype, "int8");
    assert_int_equal(params->items[0].tensor.shape.rank, 0);
    assert_int_equal(*(const int8_t *)params->items[0].tensor.data, 3);
    const struct tmk_relay_param *w = tmk_relay_params_find(params, "w");
    assert_ptr_equal(w, &params->items[1]);
    assert_string_equal(w->dtype, "float32");
    assert_int_equal(w->tensor.dtype, TMK_FLOAT32);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->tensor.shape.dim[1], 2);
    assert_memory_equal(w->tensor.data, ((float[]){1, -2}), 8);
    same_bytes(params, mini, sizeof mini);
    tmk_relay_params_destroy(&params);
    assert_null(params);
}

TEST(test_made_ones_are_the_same) {
    struct tmk_relay_params *params = NULL;
    int8_t three = 3;
    float pair[] = {1, -2};
    struct tmk_tensor tensor;
    must(tmk_relay_params_create(&params, DIAG));
    tmk_tensor_borrow(&tensor, TMK_INT8, &(struct tmk_shape){0}, &three);
    must(tmk_relay_params_add(params, "b", &tensor, DIAG));
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &(struct tmk_shape){2, {1, 2}}, pair);
    must(tmk_relay_params_add(params, "w", &tensor, DIAG));
    same_bytes(params, mini, sizeof mini);
    tmk_tensor_borrow(&tensor, TMK_FLOAT8E5M2, &(struct tmk_shape){0}, &three);
    assert_int_equal(tmk_relay_params_add(params, "x", &tensor, DIAG), TMK_TYPE);
    assert_int_equal(params->n, 2);
    tmk_relay_params_destroy(&params);
}

/* TVM puts a v before names that begin with no letter. */
TEST(test_names_with_a_v) {
    struct tmk_relay_params *params = NULL;
    float one = 1;
    struct tmk_tensor tensor;
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &(struct tmk_shape){0}, &one);
    must(tmk_relay_params_create(&params, DIAG));
    static const char *const names[] = {"_param_1", "v_param_2", "_param_2"};
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        must(tmk_relay_params_add(params, names[i], &tensor, DIAG));
    assert_ptr_equal(tmk_relay_params_find(params, "v_param_1"), &params->items[0]);
    assert_ptr_equal(tmk_relay_params_find(params, "v_param_2"), &params->items[1]);
    assert_ptr_equal(tmk_relay_params_find(params, "_param_2"), &params->items[2]);
    assert_null(tmk_relay_params_find(params, "v"));
    assert_null(tmk_relay_params_find(params, "x_param_1"));
    tmk_relay_params_destroy(&params);
}

/* Types that Tidemark does not have keep their bytes; so do ranks beyond its own. */
TEST(test_foreign_types) {
    static const struct {
        unsigned char code, bits, lanes;
        const char *dtype;
        enum tmk_dtype ours;
    } cases[] = {
        {2, 32, 1, "float32", TMK_FLOAT32},    {0, 32, 1, "int32", TMK_INT32},
        {1, 32, 1, "uint32", TMK_UINT32},      {4, 32, 1, "bfloat32", TMK_UNDEFINED},
        {3, 32, 1, "handle32", TMK_UNDEFINED}, {2, 32, 4, "float32x4", TMK_UNDEFINED},
        {1, 30, 1, "uint30", TMK_UNDEFINED},   {129, 32, 1, "custom[129]32", TMK_UNDEFINED},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        unsigned char bytes[sizeof mini];
        memcpy(bytes, mini, sizeof mini);
        bytes[SECOND_TYPE] = cases[i].code;
        bytes[SECOND_TYPE + 1] = cases[i].bits;
        bytes[SECOND_TYPE + 2] = cases[i].lanes;
        struct tmk_relay_params *params = parse_params(bytes, sizeof bytes);
        const struct tmk_relay_param *w = &params->items[1];
        assert_string_equal(w->dtype, cases[i].dtype);
        assert_int_equal(w->tensor.dtype, cases[i].ours);
        assert_int_equal(w->tensor.data != NULL, cases[i].ours != TMK_UNDEFINED);
        assert_int_equal(w->n_bytes, 8);
        assert_memory_equal(w->bytes, mini + sizeof mini - 8, 8);
        same_bytes(params, bytes, sizeof bytes);
        tmk_relay_params_destroy(&params);
    }
}

TEST(test_bools) {
    static const unsigned char spellings[][2] = {{1, 1}, {6, 8}};
    for (size_t i = 0; i < TMK_COUNT(spellings); i++) {
        unsigned char bytes[sizeof mini];
        memcpy(bytes, mini, sizeof mini);
        memcpy(bytes + 50 + 28, spellings[i], 2);
        struct tmk_relay_params *params = parse_params(bytes, sizeof bytes);
        assert_string_equal(params->items[0].dtype, "bool");
        assert_int_equal(params->items[0].tensor.dtype, TMK_BOOL);
        same_bytes(params, bytes, sizeof bytes);
        tmk_relay_params_destroy(&params);
    }
}

TEST(params_errors) {
    static const struct {
        size_t at;
        unsigned char byte;
        const char *error;
    } cases[] = {
        {0, 0, "p: byte 0: not a params file"},
        {8, 1, "p: byte 8: a reserved field"},
        {16, 3, "p: byte 16: 3 names do not fit into 155 bytes"},
        {23, 0x80, "p: byte 16: 9223372036854775810 names do not fit"},
        {24, 200, "p: byte 24: a name of 200 bytes"},
        {31, 0x80, "p: byte 24: a name of 9223372036854775809 bytes"},
        {32, 0, "p: byte 24: a zero byte in a name"},
        {32, 'w', "p: byte 33: 'w' stands here twice"},
        {42, 1, "p: byte 42: 1 tensors for 2 names"},
        {SECOND, 0, "p: byte 91: no tensor begins here"},
        {SECOND + 8, 1, "p: byte 99: a reserved field"},
        {SECOND_RANK, 33, "p: byte 115: a tensor of 33 dimensions"},
        {SECOND_RANK + 3, 0xff, "dimensions"},
        {SECOND_DIMS + 7, 0x80, "p: byte 123: a dimension of -9223372036854775807"},
        {SECOND_DIMS + 7, 0x7f, "p: byte 139: the dimensions of this tensor overflow"},
        {SECOND_DIMS, 2, "p: byte 139: 8 bytes for a tensor whose type and dimensions need 16"},
        {SECOND_SIZE, 7, "p: byte 139: 7 bytes for a tensor"},
        {SECOND_TYPE + 1, 64,
         "p: byte 139: 8 bytes for a tensor whose type and dimensions need 16"},
    };
    struct tmk_relay_params *params = NULL;
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        unsigned char bytes[sizeof mini];
        memcpy(bytes, mini, sizeof mini);
        bytes[cases[i].at] = cases[i].byte;
        assert_int_equal(tmk_relay_params_parse(bytes, sizeof bytes, "p", &params, DIAG),
                         TMK_FORMAT);
        assert_null(params);
        if (!strstr(test_diag.text, cases[i].error))
            fail_msg("expected '%s' in '%s'", cases[i].error, test_diag.text);
    }
    for (size_t len = 0; len < sizeof mini; len++) {
        must_fail(tmk_relay_params_parse(mini, len, "p", &params, DIAG), TMK_FORMAT, "p: byte ");
    }
    unsigned char longer[sizeof mini + 1] = {0};
    memcpy(longer, mini, sizeof mini);
    assert_int_equal(tmk_relay_params_parse(longer, sizeof longer, "p", &params, DIAG), TMK_FORMAT);
    assert_string_equal(test_diag.text, "p: byte 155: 1 bytes behind the last tensor");
}

/* RFC 4648, section 10. */
TEST(test_base64) {
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    struct tmk_buf *buf = NULL;
    size_t n;
    for (size_t i = 0; i < TMK_COUNT(plain); i++) {
        struct tmk_text text = {0};
        tmk_base64_print(&text, plain[i], strlen(plain[i]));
        assert_string_equal(text.len ? text.data : "", coded[i]);
        tmk_text_finish(&text);
        must(tmk_base64_decode(coded[i], strlen(coded[i]), &buf, &n, DIAG));
        assert_int_equal(n, strlen(plain[i]));
        assert_memory_equal(tmk_buf_data(buf), plain[i], n);
        tmk_buf_unref(&buf);
    }
    must(tmk_base64_decode("\\/+8=", 5, &buf, &n, DIAG));
    assert_memory_equal(tmk_buf_data(buf), "\xff\xef", 2);
    tmk_buf_unref(&buf);
    static const char *const wrong[] = {
        "Z", "Zg", "Zg=", "Zm8", "Zm9v=", "Z===", "Zg=a", "Zm 8=", "Zm9v\n", "====", "Zg==="};
    for (size_t i = 0; i < TMK_COUNT(wrong); i++)
        assert_int_equal(tmk_base64_decode(wrong[i], strlen(wrong[i]), &buf, &n, DIAG), TMK_FORMAT);
}
