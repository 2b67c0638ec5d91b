/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/size.h"
#include "data_files.h"
#include "number.h"

/* Types of the format, with the little-endian bytes of 1 and of 0. */
static const struct {
    const char *code;
    enum tmk_dtype stored, dtype;
    size_t size;
    unsigned char one[8];
} types[] = {
    {"f2", TMK_FLOAT16, TMK_FLOAT32, 2, {0x00, 0x3c}},
    {"f4", TMK_FLOAT32, TMK_FLOAT32, 4, {0x00, 0x00, 0x80, 0x3f}},
    {"f8", TMK_FLOAT64, TMK_FLOAT32, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
    {"b1", TMK_BOOL, TMK_BOOL, 1, {1}},
    {"i1", TMK_INT8, TMK_INT8, 1, {1}},
    {"i2", TMK_INT16, TMK_INT16, 2, {1}},
    {"i4", TMK_INT32, TMK_INT32, 4, {1}},
    {"i8", TMK_INT64, TMK_INT64, 8, {1}},
    {"u1", TMK_UINT8, TMK_UINT8, 1, {1}},
    {"u2", TMK_UINT16, TMK_UINT16, 2, {1}},
    {"u4", TMK_UINT32, TMK_UINT32, 4, {1}},
    {"u8", TMK_UINT64, TMK_UINT64, 8, {1}},
};

TEST(every_type_order_and_version_is_read) {
    /* an array [3,2,2] of zeros with ones at [0,0,1], [1,1,0] and [2,1,1] */
    static const size_t ones_c[] = {1, 6, 11}, ones_fortran[] = {6, 4, 11};
    static const size_t ones_of_last_two[] = {2, 7};
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    for (size_t t = 0; t < TMK_COUNT(types); t++)
        for (int variant = 0; variant < 24; variant++) {
            char order = "<>|="[variant & 3], header[128];
            int version = 1 + variant % 3;
            bool fortran = variant & 4;
            const size_t size = types[t].size;
            unsigned char elements[12 * 8] = {0};
            for (size_t k = 0; k < 3; k++)
                for (size_t b = 0; b < size; b++)
                    elements[(fortran ? ones_fortran : ones_c)[k] * size +
                             (order == '>' ? size - 1 - b : b)] = types[t].one[b];
            snprintf(header, sizeof header,
                     "{'descr': '%c%s', 'fortran_order': %s, 'shape': (3, 2, 2), }   \n", order,
                     types[t].code, fortran ? "True" : "False");
            compose(&file, version, header, elements, 12 * size);
            struct tmk_source *source = NULL;
            assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
            const struct tmk_source_info *info = tmk_source_info(source);
            assert_string_equal(info->kind, "npy");
            assert_int_equal(info->n_arrays, 1);
            assert_string_equal(info->arrays[0].name, "");
            assert_false(info->arrays[0].whole);
            assert_int_equal(info->arrays[0].n_entries, 3);
            assert_int_equal(info->arrays[0].dtype, types[t].dtype);
            assert_int_equal(info->arrays[0].shape.rank, 3);
            struct tmk_tensor tensor = {0};
            assert_ok(tmk_source_read(source, 0, 1, 2, &tensor, &diag), &diag);
            assert_int_equal(tensor.dtype, types[t].dtype);
            assert_int_equal(tensor.origin, types[t].stored);
            assert_int_equal((uintptr_t)tensor.data % size, 0);
            assert_int_equal(tensor.shape.rank, 3);
            assert_int_equal(tensor.shape.dim[0], 2);
            for (size_t i = 0; i < 8; i++) {
                double want = i == ones_of_last_two[0] || i == ones_of_last_two[1];
                if (number_at(&tensor, i) != want)
                    fail_msg("%s, element %zu is %g", header, i, number_at(&tensor, i));
            }
            tmk_source_close(&source);
            assert_true(number_at(&tensor, 2) == 1); /* outlives its source */
            tmk_tensor_finish(&tensor);
        }
    tmk_text_finish(&file);
}

/* [4,2] float32, 0..7, the header padded as NumPy does. */
static void compose_simple(struct tmk_text *file) {
    float elements[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    char header[119];
    snprintf(header, sizeof header, "%-117s\n",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }");
    compose(file, 1, header, elements, sizeof elements);
}

TEST(entries_are_read_when_they_are_wanted) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    compose_simple(&file);
    assert_int_equal(file.len, 128 + 32);
    assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
    struct tmk_tensor third = {0}, none = {0}, last = {0};
    assert_ok(tmk_source_read(source, 0, 2, 1, &third, &diag), &diag);
    assert_ok(tmk_source_read(source, 0, 4, 0, &none, &diag), &diag);
    assert_true(number_at(&third, 0) == 4 && number_at(&third, 1) == 5);
    assert_int_equal(none.shape.dim[0], 0);
    assert_int_equal(truncate(in_folder("a.npy"), 128 + 28), 0);
    assert_int_equal(tmk_source_read(source, 0, 3, 1, &last, &diag), TMK_READ);
    assert_non_null(strstr(diag.text, "a.npy: ends at byte 156"));
    assert_int_equal(truncate(in_folder("a.npy"), 40), 0); /* not where the reading began */
    diag = (struct tmk_diag){0};
    assert_int_equal(tmk_source_read(source, 0, 3, 1, &last, &diag), TMK_READ);
    assert_non_null(strstr(diag.text, "a.npy: ends at byte 40,"));
    tmk_tensor_finish(&third);
    tmk_tensor_finish(&none);
    tmk_source_close(&source);
    tmk_text_finish(&file);
}

TEST(entries_that_are_not_there_are_refused) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    compose_simple(&file);
    assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
    assert_int_equal(tmk_source_read(source, 0, 3, 2, &tensor, &diag), TMK_RANGE);
    assert_int_equal(tmk_source_read(source, 0, 5, 0, &tensor, &diag), TMK_RANGE);
    assert_int_equal(tmk_source_read(source, 0, UINT64_MAX, 2, &tensor, &diag), TMK_RANGE);
    assert_int_equal(tmk_source_read(source, 1, 0, 1, &tensor, &diag), TMK_ARGUMENT);
    assert_null(tensor.data);
    tmk_source_close(&source);
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd", 4);
    assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
    assert_int_equal(tmk_source_info(source)->arrays[0].n_entries, 0);
    assert_int_equal(tmk_source_read(source, 0, 0, 1, &tensor, &diag), TMK_RANGE);
    tmk_source_close(&source);
    tmk_text_finish(&file);
}

TEST(a_file_cut_anywhere_is_refused) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    compose_simple(&file);
    size_t whole = file.len;
    for (file.len = 0; file.len < whole; file.len++) {
        struct tmk_source *source = NULL;
        assert_int_equal(open_bytes("a.npy", &file, &source, &diag), TMK_FORMAT);
        assert_null(source);
        assert_says(&diag, folder);
    }
    assert_says(&diag, "truncated");
    assert_says(&diag, "160 bytes");
    assert_says(&diag, "159 are there");
    file.len = whole;
    append(&file, "", 1);
    struct tmk_source *source = NULL;
    assert_int_equal(open_bytes("a.npy", &file, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "more than one array");
    tmk_text_finish(&file);
}

TEST(no_byte_of_a_header_can_do_harm) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    compose_simple(&file);
    static const char replacements[] = "\0\xff()[]{}'\",:<>|-09LOTe\\\x80";
    for (size_t at = 0; at < 90; at++)
        for (size_t r = 0; r < sizeof replacements - 1; r++) {
            char kept = file.data[at];
            file.data[at] = replacements[r];
            struct tmk_source *source = NULL;
            if (open_bytes("a.npy", &file, &source, &diag) == TMK_OK) {
                const struct tmk_source_array *array = tmk_source_info(source)->arrays;
                struct tmk_tensor tensor = {0};
                if (array->shape.rank)
                    assert_ok(tmk_source_read(source, 0, 0, array->n_entries, &tensor, &diag),
                              &diag);
                assert_true(tmk_tensor_bytes(&tensor) <= 64);
                tmk_tensor_finish(&tensor);
                tmk_source_close(&source);
            } else {
                assert_true(diag.text[0]);
            }
            file.data[at] = kept;
        }
    tmk_text_finish(&file);
}

TEST(headers_that_are_wrong_say_where) {
    static const struct {
        const char *header, *says;
        enum tmk_status status;
    } cases[] = {
        {"", "byte 10: the header should have a dict", TMK_FORMAT},
        {"{}", "no 'descr'", TMK_FORMAT},
        {"{'descr': '<f4', 'shape': (1,)}", "no 'fortran_order'", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False}", "no 'shape'", TMK_FORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
         "byte 27: the key 'descr' occurs twice", TMK_FORMAT},
        {"{'more': 1}", "the key 'more' is none of", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "(n,)", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "a tuple", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "a dimension", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "','", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "negative", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "too large",
         TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "too large",
         TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
         "too large", TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "too large",
         TMK_FORMAT},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (6917529027641081856,)}", "too large",
         TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "nothing but blanks",
         TMK_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "'}'", TMK_FORMAT},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "',' or '}'", TMK_FORMAT},
        {"{'descr' '<f4'}", "':'", TMK_FORMAT},
        {"{'descr': '<f4", "the end of a string", TMK_FORMAT},
        {"{'descr': '\\x3cf4'}", "without escapes", TMK_FORMAT},
        {"{'descr': ''}", "element type", TMK_FORMAT},
        {"{'descr': [('a', '<f4'", "the end of a list", TMK_FORMAT},
        {"{'descr': [('a\\", "the end of a string", TMK_FORMAT},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "pickles are not read",
         TMK_UNSUPPORTED},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", "text is not read",
         TMK_UNSUPPORTED},
        {"{'descr': '|S5', 'fortran_order': False, 'shape': (1,)}", "text is not read",
         TMK_UNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "complex", TMK_UNSUPPORTED},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", "dates", TMK_UNSUPPORTED},
        {"{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}", "raw bytes", TMK_UNSUPPORTED},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", "'<f16'", TMK_UNSUPPORTED},
        {"{'descr': '<', 'fortran_order': False, 'shape': (1,)}", "'<'", TMK_UNSUPPORTED},
        {"{'descr': [('a\\']', '<f4'), ('b', [('c', '<i2', (2,))])], 'fortran_order': False, "
         "'shape': (1,)}",
         "structured", TMK_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}",
         "12 dimensions", TMK_UNSUPPORTED},
    };
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_source *source = NULL;
        compose(&file, 1, cases[i].header, "abcd", 4);
        if (open_bytes("a.npy", &file, &source, &diag) != cases[i].status)
            fail_msg("%s: status %d, '%s'", cases[i].header, diag.status, diag.text);
        assert_null(source);
        assert_says(&diag, cases[i].says);
        assert_says(&diag, "a.npy: ");
    }
    tmk_text_finish(&file);
}

TEST(odd_but_legal_headers_are_read) {
    static const char *const headers[] = {
        "{\"shape\":(1L,),\"descr\":\"<i4\",\"fortran_order\":True}",
        "\n{ 'fortran_order' :\tFalse , 'shape' : ( 1 , ) , 'descr' : '<i4' , } \n\n",
    };
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    for (size_t i = 0; i < TMK_COUNT(headers); i++) {
        struct tmk_source *source = NULL;
        struct tmk_tensor tensor = {0};
        compose(&file, 2, headers[i], "\2\0\0\0", 4);
        assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
        assert_ok(tmk_source_read(source, 0, 0, 1, &tensor, &diag), &diag);
        assert_true(number_at(&tensor, 0) == 2);
        tmk_tensor_finish(&tensor);
        tmk_source_close(&source);
    }
    tmk_text_finish(&file);
}

TEST(preambles_that_are_wrong_are_refused) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    compose(&file, 4, "{}", "", 0);
    assert_int_equal(open_bytes("a.npy", &file, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "version 4.0");
    compose(&file, 2, "{}", "", 0);
    memcpy(file.data + 8, "\xff\xff\xff\xff", 4);
    assert_int_equal(open_bytes("a.npy", &file, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "4294967295 bytes is too long");
    memcpy(file.data, "hello!", 6);
    assert_int_equal(open_bytes("a.npy", &file, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "byte 0");
    tmk_text_finish(&file);
}

TEST(bools_are_zero_or_one) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    compose(&file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\1\xff", 3);
    assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
    assert_ok(tmk_source_read(source, 0, 0, 3, &tensor, &diag), &diag);
    assert_memory_equal(tensor.data, "\0\1\1", 3);
    tmk_tensor_finish(&tensor);
    tmk_source_close(&source);
    tmk_text_finish(&file);
}

TEST(the_hash_is_that_of_the_file) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    char want[TMK_HASH128_HEX], hex[TMK_HASH128_HEX];
    const atomic_bool stop = true;
    compose_simple(&file);
    assert_ok(open_bytes("a.npy", &file, &source, &diag), &diag);
    assert_ok(tmk_file_hash128(in_folder("a.npy"), NULL, want, &diag), &diag);
    assert_ok(tmk_source_hash(source, NULL, hex, &diag), &diag);
    assert_string_equal(hex, want);
    assert_int_equal(tmk_source_hash(source, &stop, hex, &diag), TMK_INTERRUPTED);
    assert_says(&diag, "a.npy");
    tmk_diag_reset(&diag);
    assert_string_equal(tmk_source_info(source)->path, in_folder("a.npy"));
    tmk_source_close(&source);
    tmk_text_finish(&file);
}

TEST(what_is_no_source_hears_which_there_are) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    put("notes.rtf", "hello", 5);
    assert_int_equal(tmk_source_open(in_folder("notes.rtf"), NULL, &source, &diag),
                     TMK_UNSUPPORTED);
    assert_says(&diag, "notes.rtf");
    assert_says(&diag, "FILE.npy");
    assert_says(&diag, "FILE.npz");
    assert_says(&diag, "test_data_set_");
    tmk_diag_reset(&diag);
    assert_int_equal(mkdir(in_folder("empty"), 0700), 0);
    assert_int_equal(tmk_source_open(in_folder("empty"), NULL, &source, &diag), TMK_UNSUPPORTED);
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_source_open(in_folder("absent.npy"), NULL, &source, &diag), TMK_READ);
    assert_says(&diag, "absent.npy");
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_source_open("/dev/null", NULL, &source, &diag), TMK_READ);
    assert_null(source);
}

TEST(content_counts_more_than_the_extension) {
    struct tmk_text file = {0};
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    compose_simple(&file);
    assert_ok(open_bytes("no-extension", &file, &source, &diag), &diag);
    assert_string_equal(tmk_source_info(source)->kind, "npy");
    tmk_source_close(&source);
    assert_ok(open_bytes("really-npy.npz", &file, &source, &diag), &diag);
    assert_string_equal(tmk_source_info(source)->kind, "npy");
    tmk_source_close(&source);
    tmk_text_finish(&file);
}

GROUP_FIXTURE(make_folder, remove_folder)
