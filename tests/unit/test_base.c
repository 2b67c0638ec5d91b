/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/guess.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

TEST(the_first_error_wins_and_gathers_places) {
    struct tmk_diag diag = {0};
    assert_int_equal(tmk_fail(&diag, TMK_SHAPE, "dim %d", 3), TMK_SHAPE);
    assert_int_equal(tmk_fail(&diag, TMK_TYPE, "later"), TMK_TYPE);
    assert_int_equal(tmk_in(&diag, TMK_SHAPE, "node '%s'", "a\nb"), TMK_SHAPE);
    assert_string_equal(diag.text, "node 'a?b': dim 3");
    assert_int_equal(tmk_in(&diag, TMK_OK, "not a failure"), TMK_OK);
    assert_string_equal(diag.text, "node 'a?b': dim 3");
}

/* Of what is too long the middle goes, of the place or of the words; never one of them as a whole.
 */
TEST(long_places_and_words_both_keep_their_ends) {
    struct tmk_diag diag = {0};
    const size_t most = sizeof diag.text - 1;
    char place[2 * sizeof diag.text], words[sizeof place];
    memset(place, 'p', sizeof place);
    memset(words, 'w', sizeof words);
    place[sizeof place - 1] = words[sizeof words - 1] = '\0';
    assert_int_equal(tmk_fail(&diag, TMK_FORMAT, "first %s last", words), TMK_FORMAT);
    assert_int_equal(strlen(diag.text), most);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tmk_in(&diag, TMK_FORMAT, "model.onnx"), TMK_FORMAT);
        assert_int_equal(strlen(diag.text), most);
        assert_memory_equal(diag.text, "model.onnx: ", 12);
        assert_memory_equal(diag.text + 10, ": first w", 9); /* a place is named once */
        assert_string_equal(diag.text + most - 6, "w last");
    }
    assert_int_equal(tmk_in(&diag, TMK_FORMAT, "file %s end", place), TMK_FORMAT);
    assert_int_equal(strlen(diag.text), most);
    assert_memory_equal(diag.text, "file p", 6);
    assert_non_null(strstr(diag.text, "p end: model.onnx: "));
    assert_string_equal(diag.text + most - 6, "w last");
    diag = (struct tmk_diag){0};
    assert_int_equal(tmk_fail(&diag, TMK_FORMAT, "short"), TMK_FORMAT);
    assert_int_equal(tmk_in(&diag, TMK_FORMAT, "file %s end", place), TMK_FORMAT);
    assert_string_equal(diag.text + strlen(diag.text) - 12, "p end: short");
}

TEST(what_stands_in_front_is_not_put_there_again) {
    struct tmk_diag diag = {0};
    assert_int_equal(tmk_fail(&diag, TMK_READ, "a.json: cannot be read"), TMK_READ);
    (void)tmk_in(&diag, TMK_READ, "a.json");
    assert_string_equal(diag.text, "a.json: cannot be read");
    (void)tmk_in(&diag, TMK_READ, "a.js");
    assert_string_equal(diag.text, "a.js: a.json: cannot be read");
    diag = (struct tmk_diag){0};
    assert_int_equal(tmk_fail(&diag, TMK_READ, "a.json: cut short: here"), TMK_READ);
    (void)tmk_in(&diag, TMK_READ, "a.json (profile)");
    assert_string_equal(diag.text, "a.json (profile): cut short: here");
    (void)tmk_in(&diag, TMK_READ, "a.json");
    assert_string_equal(diag.text, "a.json: a.json (profile): cut short: here");
}

TEST(the_nearest_name_is_guessed) {
    static const char *const known[] = {"entropy",    "percentile", "minmax",     "mse",
                                        "/relu1/out", "rknn",       "ncnn-table", ""};
    static const struct {
        const char *wanted, *best;
    } cases[] = {{"entrop", "entropy"},   {"precentile", "percentile"},
                 {"MinMax", "minmax"},    {"mes", "mse"},
                 {"relu1", "/relu1/out"}, {"x", NULL},
                 {"quantize", NULL},      {"", NULL},
                 {"minmax", "minmax"},    {"NCNN", "ncnn-table"}};
    char text[TMK_GUESS_SIZE], longest[300];
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        struct tmk_guess guess = {.wanted = cases[i].wanted};
        for (size_t k = 0; k < TMK_COUNT(known); k++)
            tmk_guess_try(&guess, known[k]);
        if (!cases[i].best) {
            assert_null(guess.best);
            assert_string_equal(tmk_guess_text(&guess, text), "");
            continue;
        }
        assert_non_null(guess.best);
        assert_string_equal(guess.best, cases[i].best);
        assert_non_null(strstr(tmk_guess_text(&guess, text), cases[i].best));
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct tmk_guess guess = {.wanted = longest};
    tmk_guess_try(&guess, longest);
    assert_null(guess.best);
}

/* Up to the name of an archive's first file, with the length of that. */
#define ZIP_HEADER(length)                                                                         \
    "PK\x03\x04"                                                                                   \
    "0123456789012345678901" length "\0\0\0"

TEST(files_are_known_by_their_first_bytes) {
    static const struct {
        const char *bytes;
        size_t n;
        enum tmk_file_kind kind;
    } cases[] = {
        {"\x08\x08\x12\x01p\x3a\x05graph", 11, TMK_FILE_MODEL},
        {"\x08\x08\x12\x7fp", 5, TMK_FILE_OTHER},              /* ends inside a field */
        {"\x08\x02\x10\x01\x3a\x05graph", 11, TMK_FILE_OTHER}, /* a tensor's fields */
        {"\x08\xff\xff", 3, TMK_FILE_OTHER},
        {"\x93NUMPY\x01", 7, TMK_FILE_NPY},
        {"PK\x03\x04", 4, TMK_FILE_ZIP},
        {ZIP_HEADER("\x0a") "a/data.pkl", 40, TMK_FILE_TORCH},
        {ZIP_HEADER("\x08") "b/data/0", 38, TMK_FILE_TORCH},
        {ZIP_HEADER("\x0a") "a/data.npy", 40, TMK_FILE_ZIP},
        {ZIP_HEADER("\x0b") "a/data.pkl", 40, TMK_FILE_ZIP}, /* the name is cut off */
        {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j", 11, TMK_FILE_TORCH},
        {"version https://git-lfs.github.com/spec/v1\n", 43, TMK_FILE_POINTER},
        {"<!DOCTYPE html>", 15, TMK_FILE_HTML},
        {"\x1c\0\0\0TFL3\0", 9, TMK_FILE_TFLITE},
        {"\x0a\x09\x0a\x01x\x12\x04Relu", 11, TMK_FILE_TENSORFLOW},
        {"\x0a\x09\x0a\x01x\x1a\x04Relu", 11, TMK_FILE_OTHER}, /* no operator */
        {"\x0a\x09\x0a\x7fx", 5, TMK_FILE_OTHER},
        {"\x0a", 1, TMK_FILE_OTHER},
        {"\x08\x01\x12\x05\x0a\x03xyz", 9, TMK_FILE_TENSORFLOW}, /* SavedModel */
        {"\x08\x01\x12\x85", 4, TMK_FILE_OTHER},
        {"\x08\0\0\0\0\0\0\0{\"w\":{}}", 16, TMK_FILE_WEIGHTS},
        {"\x08\0\0\0\0\0\0\0{", 9, TMK_FILE_OTHER},
        {"GGUF\x03", 5, TMK_FILE_WEIGHTS},
        {"\x80\x04\x95", 3, TMK_FILE_PICKLE},
        {"<?xml version=\"1.0\"?><net name=\"a\">", 35, TMK_FILE_OPENVINO},
        {"PK\x03", 3, TMK_FILE_OTHER},
        {"{\"format\": \"tidemark-profile\"", 29, TMK_FILE_PROFILE},
        {"{\"format\": \"tidemark-encodings\"", 31, TMK_FILE_ENCODINGS},
        {"#[version = \"0.0.5\"]", 20, TMK_FILE_RELAY},
        {"", 0, TMK_FILE_OTHER},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++)
        assert_int_equal(tmk_file_kind_of(cases[i].bytes, cases[i].n), cases[i].kind);
    assert_int_equal(tmk_file_kind("/nowhere/at/all"), TMK_FILE_OTHER);
    assert_int_equal(tmk_file_kind("/dev/zero"), TMK_FILE_OTHER);
}

TEST(arena_memory_is_zeroed_and_aligned) {
    struct tmk_arena arena = {0};
    for (size_t i = 1; i < 5000; i += 37) {
        unsigned char *p = tmk_arena_alloc(&arena, i);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < i; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xff, i);
    }
    assert_null(tmk_arena_array(&arena, SIZE_MAX / 2, 3));
    assert_string_equal(tmk_arena_strndup(&arena, "abc", 2), "ab");
    assert_string_equal(tmk_arena_printf(&arena, "%s_%d", "abc", 2), "abc_2");
    tmk_arena_finish(&arena);
}

TEST(maps_find_what_was_put) {
    struct tmk_map map = {0};
    static char keys[1000][8];
    for (int i = 0; i < 1000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        assert_true(tmk_map_put(&map, keys[i], keys[i]));
    }
    for (int i = 0; i < 1000; i++)
        assert_ptr_equal(tmk_map_get(&map, keys[i]), keys[i]);
    assert_null(tmk_map_get(&map, "absent"));
    tmk_map_finish(&map);
    assert_null(tmk_map_get(&map, "k1"));
}

TEST(sizes_say_when_they_overflow) {
    size_t r = 7;
    assert_false(tmk_mul_size(SIZE_MAX, 2, &r));
    assert_false(tmk_add_size(SIZE_MAX, 1, &r));
    assert_int_equal(r, 7);
    assert_true(tmk_mul_size(6, 7, &r));
    assert_int_equal(r, 42);
}

TEST(sha256_is_the_standards) {
    char hex[TMK_SHA256_HEX];
    struct tmk_sha256 *hash = tmk_sha256_create();
    assert_non_null(hash);
    tmk_sha256_update(hash, "abc", 3);
    tmk_sha256_finish(&hash, hex);
    /* FIPS 180-4, example B.1 */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* As xxHash's own xxh128sum prints them: of nothing, and of 1,000 bytes, here one by one. */
TEST(hash128_is_that_of_xxh128sum) {
    char hex[TMK_HASH128_HEX];
    struct tmk_hash128 *hash = tmk_hash128_create();
    assert_non_null(hash);
    tmk_hash128_finish(&hash, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
    hash = tmk_hash128_create();
    assert_non_null(hash);
    for (int i = 0; i < 1000; i++)
        tmk_hash128_update(hash, &"tidemark"[i % 8], 1);
    tmk_hash128_finish(&hash, hex);
    assert_string_equal(hex, "d0e4b61f3f678ff3c6ff0506f31c0f43");
}

TEST(floats_print_so_that_they_read_back) {
    uint32_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1664525u + 1013904223u;
        float f;
        memcpy(&f, &seed, sizeof f);
        if (!isfinite(f))
            continue;
        char text[32];
        (void)tmk_format_float(f, text);
        float back = strtof(text, NULL);
        assert_memory_equal(&back, &f, sizeof f);
    }
    char text[32];
    (void)tmk_format_float(0.1f, text);
    assert_string_equal(text, "0.1");
    tmk_format_double(0.1, text);
    assert_string_equal(text, "0.1");
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The loop that the quick way stands for. */
static void expect_digits_of(float f) {
    char text[32], want[32];
    const bool same = tmk_format_float(f, text);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(want, sizeof want, "%.*g", digits, (double)f);
        if (strtof(want, NULL) == f)
            break;
    }
    assert_string_equal(text, want);
    assert_int_equal(same, (float)strtod(want, NULL) == f);
}

TEST(floats_have_the_digits_that_printf_finds) {
    uint32_t seed = 12345;
    for (int exponent = -46; exponent <= 38; exponent++) /* powers of ten, and their neighbours */
        for (int digits = 1; digits < 1000; digits = digits * 3 + 1) {
            const float f = (float)(digits * pow(10, exponent));
            if (!isfinite(f))
                continue;
            expect_digits_of(f);
            expect_digits_of(nextafterf(f, 0));
            expect_digits_of(-f);
        }
    for (int i = 0; i < 40000; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t bits = seed ^ seed >> 9, usual = (bits & 0x807fffffu) | (90 + bits % 70)
                                                                                   << 23;
        const float f[] = {float_of(i % 4 ? usual : bits), (float)(bits % 100000) / 1000,
                           (float)(bits % 4096) / 4096};
        for (size_t k = 0; k < 3; k++)
            if (isfinite(f[k]))
                expect_digits_of(f[k]);
    }
}

TEST(globs_treat_slashes_as_letters) {
    assert_true(tmk_glob("*/conv?", "/layer1/0/conv2"));
    assert_false(tmk_glob("conv", "conv1"));
    assert_true(tmk_glob("a[0-9]*", "a7:0"));
}

static size_t files_in(const char *directory) {
    size_t n = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

TEST(files_appear_whole_or_not_at_all) {
    struct tmk_diag diag = {0};
    char directory[] = "/tmp/tidemark-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/out", directory);
    struct tmk_outfile out;
    assert_ok(tmk_outfile_begin(path, &out, &diag), &diag);
    assert_ok(tmk_outfile_write(&out, "half", 4, &diag), &diag);
    assert_int_not_equal(access(path, F_OK), 0);
    tmk_outfile_abort(&out);
    tmk_outfile_abort(&out);
    assert_int_equal(files_in(directory), 0);
    assert_ok(tmk_file_write(path, "whole", 5, &diag), &diag);
    assert_int_equal(files_in(directory), 1);
    struct tmk_buf *buf;
    assert_ok(tmk_file_map(path, &buf, &diag), &diag);
    assert_int_equal(tmk_buf_size(buf), 5);
    assert_memory_equal(tmk_buf_data(buf), "whole", 5);
    tmk_buf_unref(&buf);
    assert_int_equal(tmk_file_map(directory, &buf, &diag), TMK_READ);
    assert_non_null(strstr(diag.text, "a folder, not a file"));
    unlink(path);
    rmdir(directory);
    assert_int_equal(tmk_file_write(path, "x", 1, NULL), TMK_WRITE);
}

TEST(a_memory_limit_is_kept_and_named) {
    struct tmk_diag diag = {0};
    const uint64_t before = tmk_memory_used();
    assert_int_equal(tmk_nomem(NULL), TMK_NOMEM);
    tmk_memory_set_limit(before + 4096);
    unsigned char *small = tmk_memory_zeroed(1000);
    assert_non_null(small);
    assert_true(tmk_memory_used() >= before + 1000 && small[999] == 0);
    small = tmk_memory_resized(small, 2000);
    assert_non_null(small);
    assert_false(tmk_memory_fits(4096));
    assert_null(tmk_memory_aligned(4096));
    assert_null(tmk_buf_create(SIZE_MAX / 4));
    assert_int_equal(tmk_memory_fail(&diag, 4096, "the %s", "block"), TMK_LIMIT);
    assert_non_null(strstr(diag.text, "the block takes 4096 bytes"));
    assert_int_equal(tmk_nomem(NULL), TMK_LIMIT);
    tmk_memory_free(small);
    assert_int_equal(tmk_memory_used(), before);
    void *aligned = tmk_memory_aligned(3000);
    assert_non_null(aligned);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    tmk_memory_free(aligned);
    struct tmk_text text = {0};
    while (!text.failed)
        tmk_text_puts(&text, "0123456789abcdef");
    assert_true(text.len > 1000 && text.len < 4096);
    assert_int_equal(tmk_memory_used(), before + text.size);
    assert_int_equal(tmk_nomem(NULL), TMK_LIMIT);
    free(tmk_text_release(&text));
    assert_int_equal(tmk_memory_used(), before);
    tmk_memory_set_limit(0);
    assert_int_equal(tmk_nomem(NULL), TMK_NOMEM);
}

TEST(json_is_known_without_a_tree) {
    static const char *const valid[] = {"0",
                                        "-1.5e+07",
                                        " [1, -0.5, 1E9]\n",
                                        "\"a\\u00e9\\ud83d\\ude00\\n\"",
                                        "{}",
                                        "[[],{}]",
                                        "{\"a\": null, \"b\": [true, false]}"};
    static const char *const others[] = {
        "",        "01",          "-",           "1.",          ".5",     "1e",   "\"a",
        "\"\\x\"", "\"\\ud83d\"", "\"\\udc00\"", "\"\\u12g4\"", "\"\n\"", "[1,]", "[1 2]",
        "[1}",     "{\"a\"}",     "{1: 2}",      "{\"a\":1,}",  "nul",    "1 2",  "[",
        "]"};
    for (size_t i = 0; i < TMK_COUNT(valid); i++) {
        cJSON *tree = NULL;
        assert_true(tmk_json_is_valid(valid[i], strlen(valid[i])));
        assert_int_equal(tmk_json_parse(valid[i], strlen(valid[i]), &tree, NULL), TMK_OK);
        cJSON_Delete(tree);
    }
    for (size_t i = 0; i < TMK_COUNT(others); i++)
        assert_false(tmk_json_is_valid(others[i], strlen(others[i])));
    char deep[2 * CJSON_NESTING_LIMIT + 2];
    memset(deep, '[', CJSON_NESTING_LIMIT + 1);
    memset(deep + CJSON_NESTING_LIMIT + 1, ']', CJSON_NESTING_LIMIT + 1);
    assert_true(tmk_json_is_valid(deep + 1, sizeof deep - 2));
    assert_false(tmk_json_is_valid(deep, sizeof deep));
}

/* Without AddressSanitizer, that is. */
TEST(large_blocks_are_used_again_and_count_until_they_go) {
    enum { LARGE = 1 << 20, MORE = 3 << 19, HUGE_ONE = 1 << 25 };
    (void)tmk_spare_drop();
    const uint64_t before = tmk_memory_used();
    struct tmk_buf *buf = tmk_buf_create(LARGE);
    assert_non_null(buf);
    memset(tmk_buf_data(buf), 7, LARGE);
    tmk_buf_unref(&buf);
    const uint64_t kept = tmk_memory_used() - before;
    assert_true(kept == 0 || kept >= LARGE);
    buf = tmk_buf_create(LARGE);
    assert_non_null(buf);
    const unsigned char *bytes = tmk_buf_data(buf);
    for (size_t i = 0; i < LARGE; i++)
        assert_int_equal(bytes[i], 0);
    assert_true(!kept || tmk_memory_used() == before + kept);
    tmk_buf_unref(&buf);
    /* what is kept gives way to others, of other sizes too */
    tmk_memory_set_limit(before + MORE + 4096);
    buf = tmk_buf_create(MORE);
    assert_non_null(buf);
    assert_null(tmk_buf_create(LARGE));
    assert_int_equal(tmk_memory_refused(), LARGE + 64);
    tmk_buf_unref(&buf);
    assert_true(tmk_memory_fits(MORE));
    tmk_memory_set_limit(0);
    /* many sizes, of which a few are kept, and nothing too large */
    for (size_t i = 0; i < 20; i++) {
        buf = tmk_buf_create(LARGE + i * 4096);
        assert_non_null(buf);
        tmk_buf_unref(&buf);
        assert_true(tmk_memory_used() <= before + 5 * MORE);
    }
    (void)tmk_spare_drop();
    buf = tmk_buf_create(HUGE_ONE);
    assert_non_null(buf);
    tmk_buf_unref(&buf);
    assert_int_equal(tmk_memory_used(), before);
    assert_false(tmk_spare_drop());
}

/* Once malloc has seen a large block freed it takes those up to that size from its heap, where what
 * is freed below what is not stays. */
TEST(what_large_blocks_took_the_system_has_again) {
    enum { SEEN_FREED = 24 << 20, BLOCK = 8 << 20, BLOCKS = 8 };
    void *blocks[BLOCKS];
    /* cmocka's skip() is a failure to those who read TAP */
    if (TMK_UNDER_ASAN || !tmk_memory_resident())
        return;
    void *volatile first = malloc(SEEN_FREED);
    assert_non_null(first);
    free(first);
    const uint64_t before = tmk_memory_resident();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = tmk_memory_mapped(BLOCK);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        assert_int_equal(((const char *)blocks[i])[BLOCK - 1], 0);
        memset(blocks[i], 1, BLOCK);
    }
    void *volatile above = malloc(1000);
    assert_true(tmk_memory_resident() >= before + (uint64_t)BLOCKS * BLOCK);
    for (size_t i = 0; i < BLOCKS; i++)
        tmk_memory_free(blocks[i]);
    assert_true(tmk_memory_resident() < before + BLOCK);
    free(above);
}
