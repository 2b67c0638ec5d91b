/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "data_files.h"

/* Reads files of the form "name value"; "- value" carries no name, "!" is refused. */
static enum tmk_status decode(const char *path, struct tmk_tensor *out, char **name,
                              struct tmk_diag *diag) {
    char text[64] = "", word[32] = "";
    float value = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return tmk_fail(diag, TMK_READ, "%s: cannot be read", path);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    if (!n || sscanf(text, "%31s %f", word, &value) != 2)
        return tmk_fail(diag, TMK_FORMAT, "%s: is no tensor", path);
    struct tmk_shape shape = {1, {(int64_t)value}};
    TMK_TRY(tmk_tensor_init(out, TMK_FLOAT32, &shape, diag));
    *name = strcmp(word, "-") ? strdup(word) : NULL;
    return TMK_OK;
}

static void make_set(const char *set, const char *input, const char *text) {
    char name[128];
    mkdir(in_folder(set), 0700);
    snprintf(name, sizeof name, "%s/%s", set, input);
    put(name, text, strlen(text));
}

static enum tmk_status open_folder(const char *name, struct tmk_source **out,
                                   struct tmk_diag *diag) {
    tmk_diag_reset(diag);
    return tmk_source_open(in_folder(name), &(struct tmk_source_options){.decode = decode}, out,
                           diag);
}

static int64_t size_of_entry(struct tmk_source *source, uint32_t array, uint64_t entry) {
    struct tmk_tensor tensor = {0};
    must(tmk_source_read(source, array, entry, 1, &tensor, DIAG));
    int64_t size = tensor.shape.dim[0];
    tmk_tensor_finish(&tensor);
    return size;
}

TEST(one_folder_of_inputs_is_one_entry) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    make_set("one", "input_0.pb", "image 5");
    make_set("one", "input_1.pb", "- 7");
    make_set("one", "output_0.pb", "!");
    make_set("one", "input_x.pb", "!");
    assert_ok(open_folder("one", &source, &diag), &diag);
    const struct tmk_source_info *info = tmk_source_info(source);
    assert_string_equal(info->kind, "onnx-sets");
    assert_int_equal(info->n_arrays, 2);
    assert_string_equal(info->arrays[0].name, "image");
    assert_string_equal(info->arrays[1].name, "");
    assert_true(info->arrays[0].whole && info->arrays[1].whole);
    assert_int_equal(info->arrays[0].n_entries, 1);
    assert_int_equal(size_of_entry(source, 0, 0), 5);
    assert_int_equal(size_of_entry(source, 1, 0), 7);
    assert_int_equal(tmk_source_read(source, 0, 1, 1, &tensor, &diag), TMK_RANGE);
    assert_int_equal(tmk_source_read(source, 0, 0, 2, &tensor, &diag), TMK_RANGE);
    assert_int_equal(tmk_source_read(source, 0, 0, 0, &tensor, &diag), TMK_RANGE);
    assert_null(tensor.data);
    tmk_source_close(&source);
}

TEST(sets_come_in_the_order_of_their_numbers) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    for (int i = 0; i < 12; i++) {
        char set[64], text[64];
        snprintf(set, sizeof set, "test_data_set_%d", i);
        snprintf(text, sizeof text, "x%d %d", i, i + 1);
        make_set(set, "input_0.pb", text);
    }
    make_set("test_data_set_last", "input_0.pb", "x 99");
    put("test_data_set_0.npz", "not a folder", 12);
    put("model.onnx", "model", 5);
    assert_ok(open_folder(".", &source, &diag), &diag);
    const struct tmk_source_info *info = tmk_source_info(source);
    assert_int_equal(info->n_arrays, 1);
    assert_string_equal(info->arrays[0].name, "x0");
    assert_int_equal(info->arrays[0].n_entries, 13);
    for (uint64_t i = 0; i < 12; i++)
        assert_int_equal(size_of_entry(source, 0, i), i + 1);
    assert_int_equal(size_of_entry(source, 0, 12), 99);
    tmk_source_close(&source);
}

TEST(gaps_and_unequal_sets_are_refused) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    make_set("gap", "input_0.pb", "a 1");
    make_set("gap", "input_2.pb", "a 1");
    assert_int_equal(open_folder("gap", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "input_2.pb");
    make_set("huge", "input_999999999999999999.pb", "a 1");
    assert_int_equal(open_folder("huge", &source, &diag), TMK_FORMAT);
    make_set("test_data_set_0", "input_0.pb", "a 1");
    make_set("test_data_set_0", "input_1.pb", "b 1");
    make_set("test_data_set_1", "input_0.pb", "a 1");
    assert_int_equal(open_folder(".", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "test_data_set_1");
    assert_says(&diag, "holds 1 inputs");
    mkdir(in_folder("test_data_set_2"), 0700);
    make_set("test_data_set_1", "input_1.pb", "b 1");
    assert_int_equal(open_folder(".", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "test_data_set_2: holds no input_0.pb");
    assert_null(source);
}

TEST(tensors_that_cannot_be_decoded_are_named) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct tmk_tensor tensor = {0};
    make_set("test_data_set_0", "input_0.pb", "a 1");
    make_set("test_data_set_1", "input_0.pb", "!");
    assert_ok(open_folder(".", &source, &diag), &diag);
    assert_int_equal(tmk_source_read(source, 0, 1, 1, &tensor, &diag), TMK_FORMAT);
    assert_says(&diag, "test_data_set_1/input_0.pb");
    tmk_source_close(&source);
    make_set("test_data_set_0", "input_0.pb", "!");
    assert_int_equal(open_folder(".", &source, &diag), TMK_FORMAT);
    assert_says(&diag, "test_data_set_0/input_0.pb");
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_source_open(in_folder("."), NULL, &source, &diag), TMK_UNSUPPORTED);
    assert_null(source);
}

static void hash_of(const char *name, char hex[TMK_HASH128_HEX]) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    assert_ok(open_folder(name, &source, &diag), &diag);
    assert_ok(tmk_source_hash(source, NULL, hex, &diag), &diag);
    assert_int_equal(strlen(hex), TMK_HASH128_HEX - 1);
    tmk_source_close(&source);
}

TEST(the_hash_follows_names_and_bytes_but_not_the_place) {
    char a[TMK_HASH128_HEX], b[TMK_HASH128_HEX];
    make_set("a", "input_0.pb", "a 1");
    make_set("a", "input_1.pb", "a 2");
    make_set("a", "output_0.pb", "a 3");
    make_set("b", "input_0.pb", "a 1");
    make_set("b", "input_1.pb", "a 2");
    hash_of("a", a);
    hash_of("b", b);
    assert_string_equal(a, b);
    make_set("b", "input_0.pb", "a 2");
    make_set("b", "input_1.pb", "a 1");
    hash_of("b", b);
    assert_string_not_equal(a, b);
    /* the same bytes in a row, cut elsewhere */
    make_set("c", "input_0.pb", "a 1b");
    make_set("c", "input_1.pb", "b 1");
    make_set("d", "input_0.pb", "a 1");
    make_set("d", "input_1.pb", "bb 1");
    hash_of("c", a);
    hash_of("d", b);
    assert_string_not_equal(a, b);
}

/* Else the folder would be of another kind, or of none. */
TEST(a_folder_that_cannot_be_listed_is_told) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    struct rlimit before, limit;
    make_set("sets", "input_0.pb", "image 5");
    const int next = dup(0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const enum tmk_status status = open_folder("sets", &source, &diag);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TMK_MACHINE);
    assert_non_null(strstr(diag.text, "sets: cannot be read: "));
}

TEST_FIXTURE(make_folder, remove_folder)
