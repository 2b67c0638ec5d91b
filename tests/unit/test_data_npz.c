/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <zip.h>

#include "base/diag.h"
#include "base/size.h"
#include "data/npz_write.h"
#include "data_files.h"

static void read_all(const char *name, struct tmk_text *out) {
    char chunk[4096];
    size_t n;
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    tmk_text_finish(out);
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
        append(out, chunk, n);
    fclose(file);
}

/* An archive made by libzip itself. Members with a NULL header are the elements alone. */
struct part {
    const char *name, *header, *elements;
    size_t size;
    bool deflate;
};

static void make_archive(const char *name, const struct part *parts, size_t n) {
    struct tmk_text bytes[8] = {0};
    int error = 0;
    assert_true(n <= TMK_COUNT(bytes));
    zip_t *zip = zip_open(in_folder(name), ZIP_CREATE | ZIP_TRUNCATE, &error);
    assert_non_null(zip);
    for (size_t i = 0; i < n; i++) {
        if (parts[i].header)
            compose(&bytes[i], 1, parts[i].header, parts[i].elements, parts[i].size);
        else
            append(&bytes[i], parts[i].elements, parts[i].size);
        zip_source_t *from = zip_source_buffer(zip, bytes[i].data, bytes[i].len, 0);
        zip_int64_t index = zip_file_add(zip, parts[i].name, from, 0);
        assert_true(index >= 0);
        zip_set_file_compression(zip, (zip_uint64_t)index,
                                 parts[i].deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    assert_int_equal(zip_close(zip), 0);
    for (size_t i = 0; i < n; i++)
        tmk_text_finish(&bytes[i]);
}

static enum tmk_status open_archive(const char *name, struct tmk_source **out,
                                    struct tmk_diag *diag) {
    tmk_diag_reset(diag);
    return tmk_source_open(in_folder(name), NULL, out, diag);
}

/* Puts `to` in the place of each `from` of the same length; how many there were. */
static size_t replace(struct tmk_text *bytes, const void *from, const void *to, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i + len <= bytes->len; i++)
        if (memcmp(bytes->data + i, from, len) == 0) {
            memcpy(bytes->data + i, to, len);
            n++;
        }
    return n;
}

TEST(what_was_written_reads_back) {
    static const enum tmk_dtype dtypes[] = {TMK_FLOAT32, TMK_BOOL,  TMK_INT8,  TMK_INT16,
                                            TMK_INT32,   TMK_INT64, TMK_UINT8, TMK_UINT16,
                                            TMK_UINT32,  TMK_UINT64};
    static const char *const names[] = {"x",    "/block/conv 1/Conv_output_0",
                                        "a:0",  "\xc3\xa9t\xc3\xa9",
                                        "a..b", "y.npz",
                                        "...",  "0",
                                        "a\\b", "{'shape'}"};
    struct tmk_diag diag = {0};
    struct tmk_tensor tensors[TMK_COUNT(dtypes)] = {0};
    struct tmk_npz_entry entries[TMK_COUNT(dtypes)];
    for (size_t i = 0; i < TMK_COUNT(dtypes); i++) {
        struct tmk_shape shape = {(int32_t)(i % 3 + 1), {(int64_t)i, 2, 3}};
        assert_ok(tmk_tensor_init(&tensors[i], dtypes[i], &shape, &diag), &diag);
        for (size_t b = 0; b < tmk_tensor_bytes(&tensors[i]); b++)
            ((char *)tensors[i].data)[b] = (char)(dtypes[i] == TMK_BOOL ? b & 1 : b * 7 + i);
        entries[i] = (struct tmk_npz_entry){names[i], &tensors[i]};
    }
    assert_ok(tmk_npz_write(in_folder("a.npz"), entries, TMK_COUNT(entries), &diag), &diag);
    struct tmk_source *source = NULL;
    assert_ok(open_archive("a.npz", &source, &diag), &diag);
    const struct tmk_source_info *info = tmk_source_info(source);
    assert_string_equal(info->kind, "npz");
    assert_int_equal(info->n_arrays, TMK_COUNT(entries));
    for (uint32_t i = 0; i < info->n_arrays; i++) {
        struct tmk_tensor back = {0};
        assert_string_equal(info->arrays[i].name, names[i]);
        assert_int_equal(info->arrays[i].n_entries, i);
        assert_ok(tmk_source_read(source, i, 0, i, &back, &diag), &diag);
        assert_int_equal(back.dtype, dtypes[i]);
        assert_true(tmk_shape_equal(&back.shape, &tensors[i].shape));
        assert_memory_equal(back.data, tensors[i].data, tmk_tensor_bytes(&tensors[i]));
        tmk_tensor_finish(&back);
    }
    tmk_source_close(&source);
    for (size_t i = 0; i < TMK_COUNT(tensors); i++)
        tmk_tensor_finish(&tensors[i]);
}

TEST(the_same_arrays_make_the_same_bytes) {
    float values[3] = {1, 2, 3};
    struct tmk_shape shape = {1, {3}};
    struct tmk_tensor tensor;
    struct tmk_text first = {0}, second = {0};
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &shape, values);
    struct tmk_npz_entry entries[] = {{"b", &tensor}, {"a", &tensor}};
    must(tmk_npz_write(in_folder("a.npz"), entries, 2, DIAG));
    read_all("a.npz", &first);
    must(tmk_npz_write(in_folder("b.npz"), entries, 2, DIAG));
    read_all("b.npz", &second);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
    assert_memory_equal(first.data, "PK\3\4", 4);
    assert_memory_equal(first.data + 8, "\0\0\0\0\x21\0", 6); /* stored, 1980-01-01 00:00 */
    tmk_text_finish(&first);
    tmk_text_finish(&second);
}

TEST(a_path_in_npy_takes_one_array) {
    struct tmk_diag diag = {0};
    int32_t values[4] = {1, 2, 3, 4};
    struct tmk_shape shape = {2, {2, 2}};
    struct tmk_tensor tensor, back = {0};
    struct tmk_source *source = NULL;
    tmk_tensor_borrow(&tensor, TMK_INT32, &shape, values);
    struct tmk_npz_entry entries[] = {{"a", &tensor}, {"b", &tensor}};
    assert_int_equal(tmk_npz_write(in_folder("a.npy"), entries, 2, &diag), TMK_ARGUMENT);
    assert_int_equal(tmk_npz_write(in_folder("a.npy"), entries, 0, &diag), TMK_ARGUMENT);
    tmk_diag_reset(&diag);
    assert_ok(tmk_npz_write(in_folder("a.npy"), entries, 1, &diag), &diag);
    assert_ok(open_archive("a.npy", &source, &diag), &diag);
    assert_string_equal(tmk_source_info(source)->kind, "npy");
    assert_ok(tmk_source_read(source, 0, 0, 2, &back, &diag), &diag);
    assert_memory_equal(back.data, values, sizeof values);
    tmk_tensor_finish(&back);
    tmk_source_close(&source);
}

static size_t files_there(void) {
    size_t n = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n - 2;
}

TEST(names_that_collide_or_climb_are_refused) {
    static const struct {
        const char *first, *second, *says;
    } cases[] = {
        {"a", "a", "two arrays named 'a'"},
        {"a.npy", "a", "'a' and 'a.npy'"},
        {"a", "a.npy", "'a' and 'a.npy'"},
        {"a", "", "is empty"},
        {"..", "a", "'..'"},
        {"a/../b", "a", "'..'"},
        {"a", "../b", "'..'"},
        {"a", "b/..", "'..'"},
        {"a", "..\\b", "'..'"},
        {"a\nb", "a", "control character"},
        {"a", "\xff", "UTF-8"},
    };
    float value = 1;
    struct tmk_shape shape = {1, {1}};
    struct tmk_tensor tensor;
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &shape, &value);
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_diag diag = {0};
        struct tmk_npz_entry entries[] = {{cases[i].first, &tensor}, {cases[i].second, &tensor}};
        assert_int_equal(tmk_npz_write(in_folder("a.npz"), entries, 2, &diag), TMK_UNSUPPORTED);
        assert_says(&diag, cases[i].says);
        assert_says(&diag, "a.npz");
    }
    struct tmk_diag diag = {0};
    assert_int_equal(tmk_npz_write(in_folder("a.npz"), NULL, 0, &diag), TMK_ARGUMENT);
    tmk_tensor_borrow(&tensor, TMK_BFLOAT16, &shape, &value);
    struct tmk_npz_entry entry = {"a", &tensor};
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_npz_write(in_folder("a.npz"), &entry, 1, &diag), TMK_TYPE);
    assert_says(&diag, "bfloat16");
    assert_int_equal(tmk_npz_write(in_folder("a.npy"), &entry, 1, &diag), TMK_TYPE);
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_npz_write(in_folder("no/such/a.npz"), &entry, 1, &diag), TMK_WRITE);
    assert_int_equal(files_there(), 0);
}

#define F4 "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"
#define I2 "{'descr': '>i2', 'fortran_order': False, 'shape': (3,)}"

TEST(unreadable_members_fail_only_when_wanted) {
    const struct part parts[] = {
        {"names.npy", "{'descr': '|O', 'fortran_order': False, 'shape': (9,)}", "pickle", 6, true},
        {"x.npy", F4, "\0\0\x80\x3f\0\0\0\x40", 8, true},
        {"README", NULL, "hello", 5, false},
        {"fields.npy", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd",
         4, false},
        {"dir/y.npy", I2, "\0\1\0\2\0\3", 6, false},
    };
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    make_archive("a.npz", parts, TMK_COUNT(parts));
    assert_ok(open_archive("a.npz", &source, &diag), &diag);
    const struct tmk_source_info *info = tmk_source_info(source);
    assert_int_equal(info->n_arrays, 4);
    assert_int_equal(info->arrays[0].dtype, TMK_UNDEFINED);
    assert_int_equal(info->arrays[0].n_entries, 9);
    assert_int_equal(info->arrays[2].dtype, TMK_UNDEFINED);
    assert_int_equal(tmk_source_read(source, 0, 0, 1, &tensor, &diag), TMK_UNSUPPORTED);
    assert_says(&diag, "a.npz: 'names': it holds Python objects, and pickles are not read");
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_source_read(source, 2, 0, 1, &tensor, &diag), TMK_UNSUPPORTED);
    assert_ok(tmk_source_read(source, 1, 1, 1, &tensor, &diag), &diag);
    assert_true(*(float *)tensor.data == 2);
    tmk_tensor_finish(&tensor);
    assert_string_equal(info->arrays[3].name, "dir/y");
    assert_int_equal(info->arrays[3].n_entries, 3);
    assert_ok(tmk_source_read(source, 3, 0, 3, &tensor, &diag), &diag);
    tmk_source_close(&source);
    assert_int_equal(((int16_t *)tensor.data)[2], 3);
    tmk_tensor_finish(&tensor);
}

TEST(archives_that_lie_are_refused) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_text bytes = {0};
    const struct part two[] = {{"a.npy", F4, "abcdefgh", 8, false},
                               {"b.npy", F4, "abcdefgh", 8, false}};
    make_archive("two.npz", two, 2);
    read_all("two.npz", &bytes);
    assert_int_equal(replace(&bytes, "b.npy", "a.npy", 5), 2);
    assert_int_equal(open_bytes("a.npz", &bytes, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "'a.npy': there are two arrays of this name");

    const struct part shorter[] = {{"a.npy", F4, "abcdefg", 7, true}};
    make_archive("a.npz", shorter, 1);
    assert_int_equal(open_archive("a.npz", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "truncated");
    const struct part longer[] = {{"a.npy", F4, "abcdefghi", 9, true}};
    make_archive("a.npz", longer, 1);
    assert_int_equal(open_archive("a.npz", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "more than one array");

    /* 4 GB announced by header and directory alike, from a few bytes */
    const struct part bomb[] = {
        {"a.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4000000000,)}", "", 0, true}};
    make_archive("a.npz", bomb, 1);
    read_all("a.npz", &bytes);
    const uint32_t size = 10 + 64, announced = size + 4000000000u;
    assert_true(replace(&bytes, &size, &announced, sizeof size) >= 1);
    assert_int_equal(open_bytes("a.npz", &bytes, &source, &diag), TMK_FORMAT);
    assert_says(&diag, "4000000074");

    const struct part nothing[] = {{"README", NULL, "hello", 5, false}};
    make_archive("a.npz", nothing, 1);
    assert_int_equal(open_archive("a.npz", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "holds no arrays");
    const struct part stub[] = {{"a.npy", NULL, "\x93NUM", 4, false}};
    make_archive("a.npz", stub, 1);
    assert_int_equal(open_archive("a.npz", &source, &diag), TMK_FORMAT);
    put("a.npz", "no zip", 6);
    assert_int_equal(open_archive("a.npz", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "zip archive");
    assert_null(source);
    tmk_text_finish(&bytes);
}

TEST(damaged_elements_are_noticed) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    struct tmk_text bytes = {0};
    const struct part two[] = {{"a.npy", F4, "abcdefgh", 8, false},
                               {"b.npy", F4, "ABCDEFGH", 8, false}};
    make_archive("a.npz", two, 2);
    read_all("a.npz", &bytes);
    assert_int_equal(replace(&bytes, "ABCDEFGH", "ABCDEFGX", 8), 1);
    assert_ok(open_bytes("a.npz", &bytes, &source, &diag), &diag);
    assert_ok(tmk_source_read(source, 0, 0, 2, &tensor, &diag), &diag);
    tmk_tensor_finish(&tensor);
    assert_int_equal(tmk_source_read(source, 1, 0, 2, &tensor, &diag), TMK_FORMAT);
    assert_says(&diag, "'b'");
    assert_null(tensor.data);
    tmk_source_close(&source);
    tmk_text_finish(&bytes);
}

/* Opens and reads everything; whatever happens, it ends with a status. */
static bool survives(const struct tmk_text *bytes) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    bool good = open_bytes("damaged.npz", bytes, &source, &diag) == TMK_OK;
    for (uint32_t i = 0; good && i < tmk_source_info(source)->n_arrays; i++) {
        struct tmk_tensor tensor = {0};
        good = tmk_source_read(source, i, 0, tmk_source_info(source)->arrays[i].n_entries, &tensor,
                               &diag) == TMK_OK;
        tmk_tensor_finish(&tensor);
    }
    assert_true(good || diag.text[0]);
    tmk_source_close(&source);
    return good;
}

TEST(no_damage_to_an_archive_can_do_harm) {
    struct tmk_text bytes = {0};
    const struct part two[] = {{"a.npy", F4, "abcdefgh", 8, true},
                               {"b.npy", I2, "ABCDEF", 6, false}};
    make_archive("a.npz", two, 2);
    read_all("a.npz", &bytes);
    assert_true(survives(&bytes));
    size_t whole = bytes.len;
    for (bytes.len = 0; bytes.len < whole; bytes.len++)
        assert_false(survives(&bytes));
    static const unsigned char flips[] = {0x01, 0x80};
    for (size_t at = 0; at < whole; at++)
        for (size_t f = 0; f < sizeof flips; f++) {
            bytes.data[at] = (char)(bytes.data[at] ^ flips[f]);
            (void)survives(&bytes);
            bytes.data[at] = (char)(bytes.data[at] ^ flips[f]);
        }
    tmk_text_finish(&bytes);
}

TEST_FIXTURE(make_folder, remove_folder)
