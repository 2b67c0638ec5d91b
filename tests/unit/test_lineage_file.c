/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/lineage.h>

#include "base/file.h"
#include "folder.h"
#include "golden.h"

static void name_of(struct tmk_lineage_record *record, struct tmk_lineage_identity *is,
                    const char *name, int32_t rank, const int64_t *dims) {
    is->name = tmk_lineage_record_text(record, name);
    assert_non_null(is->name);
    is->dtype = TMK_FLOAT32;
    is->kind = TMK_PROFILE_ACTIVATION;
    is->fingerprint = UINT64_C(0x8000000000000001);
    is->has_shape = rank >= 0;
    is->shape.rank = rank < 0 ? 0 : rank;
    for (int32_t i = 0; i < rank; i++)
        is->shape.dim[i] = dims[i];
}

/* An original of each verdict, and each kind of number. */
static struct tmk_lineage_record *sample(void) {
    static const int64_t nchw[] = {-1, 3, 4, 4}, nhwc[] = {-1, 4, 4, 3};
    struct tmk_lineage_record *record = NULL;
    must(tmk_lineage_record_create(TMK_LINEAGE_VERDICTS + 1, 4, &record, DIAG));
    record->producer = "0.1.0";
    record->original = (struct tmk_lineage_model){"a \"b\".onnx", "00ff", 7};
    record->transformed = (struct tmk_lineage_model){"c.onnx", "", UINT64_MAX};
    for (int i = 0; i < 5; i++)
        must(tmk_lineage_record_add_pass(record, i % 2 ? "odd" : "even", DIAG));
    for (uint32_t i = 0; i < record->n_originals; i++) {
        struct tmk_lineage_original *o = &record->originals[i];
        name_of(record, &o->is, i ? "o/ü" : "", i % 2 ? 4 : -1, nchw);
        o->is.ordinal = i;
        o->verdict = i < TMK_LINEAGE_VERDICTS ? (enum tmk_lineage_verdict)i : TMK_LINEAGE_AFFINE;
        o->pass = "even";
        o->remark = i % 2 ? "not fused into \"Softmax\"" : "";
    }
    for (uint32_t i = 0; i < record->n_values; i++)
        name_of(record, &record->values[i].is, "v", i == 1 ? 4 : -1, nhwc);
    struct tmk_lineage_original *o = record->originals;
    o[TMK_LINEAGE_SAME].value = o[TMK_LINEAGE_MERGED].value = 0;
    o[TMK_LINEAGE_VIEW].value = 2;
    o[TMK_LINEAGE_VIEW].view.reshaped = true;
    o[TMK_LINEAGE_QUANTIZED].value = o[TMK_LINEAGE_AFFINE].value = 1;
    o[TMK_LINEAGE_ABSORBED].value = 3;
    o[TMK_LINEAGE_VERDICTS].value = 3;
    double *scale = tmk_lineage_record_array(record, 3, sizeof *scale),
           *shift = tmk_lineage_record_array(record, 3, sizeof *shift);
    int64_t *zero = tmk_lineage_record_array(record, 3, sizeof *zero);
    uint32_t *edges = tmk_lineage_record_array(record, 2, sizeof *edges);
    assert_true(scale && shift && zero && edges);
    scale[0] = 0.1;
    scale[1] = -0x1.fffffffffffffp-900;
    shift[1] = -0.0;
    shift[2] = 0x1p1000;
    zero[0] = INT64_MIN;
    zero[2] = INT64_MAX;
    o[TMK_LINEAGE_AFFINE].affine = (struct tmk_lineage_affine){3, 3, scale, shift};
    o[TMK_LINEAGE_AFFINE].view = (struct tmk_lineage_view){.rank = 4, .perm = {0, 2, 3, 1}};
    o[TMK_LINEAGE_AFFINE].is.has_shape = true;
    o[TMK_LINEAGE_AFFINE].is.shape = (struct tmk_shape){4, {-1, 3, 4, 4}};
    o[TMK_LINEAGE_VERDICTS].affine = (struct tmk_lineage_affine){1, 0, scale, shift};
    o[TMK_LINEAGE_QUANTIZED].quantized =
        (struct tmk_lineage_quantized){TMK_INT8, 3, 3, scale, zero};
    edges[0] = 1;
    edges[1] = 4;
    o[TMK_LINEAGE_ABSORBED].absorber =
        (struct tmk_lineage_absorber){"conv", "Conv", "", edges, edges + 1, 2, 1};
    must(tmk_lineage_record_finalize(record, DIAG));
    return record;
}

TEST(each_original_has_one_verdict) {
    uint32_t counts[TMK_LINEAGE_VERDICTS], all = 0;
    struct tmk_lineage_record *record = sample();
    tmk_lineage_record_count(record, counts);
    for (int i = 0; i < TMK_LINEAGE_VERDICTS; i++) {
        assert_int_equal(counts[i], i == TMK_LINEAGE_AFFINE ? 2 : 1);
        all += counts[i];
    }
    assert_int_equal(all, record->n_originals);
    assert_int_equal(record->values[0].n_originals, 2);
    assert_int_equal(record->values[0].originals[1], TMK_LINEAGE_MERGED);
    assert_int_equal(record->values[3].n_originals, 1); /* without the absorbed one */
    tmk_lineage_record_destroy(&record);
    assert_null(record);
}

static struct tmk_buf *bytes_of(const char *path) {
    struct tmk_buf *buf = NULL;
    must(tmk_file_map(path, &buf, DIAG));
    return buf;
}

static void assert_same_bytes(const char *a, const char *b) {
    struct tmk_buf *x = bytes_of(a), *y = bytes_of(b);
    assert_int_equal(tmk_buf_size(x), tmk_buf_size(y));
    assert_memory_equal(tmk_buf_data(x), tmk_buf_data(y), tmk_buf_size(x));
    tmk_buf_unref(&x);
    tmk_buf_unref(&y);
}

/* Written, read and written again, also by way of the other format. */
TEST(files_read_back_to_the_same_bytes) {
    static const char *const names[] = {"a.json", "b.json", "a.h5", "c.json", "b.h5"};
    char path[5][128];
    struct tmk_lineage_record *record = sample();
    struct tmk_lineage_identity *huge = &record->originals[TMK_LINEAGE_VIEW].is;
    (void)state;
    huge->has_shape = true;
    huge->shape = (struct tmk_shape){2, {INT64_MAX, 1}}; /* more than a double holds */
    for (size_t i = 0; i < (TMK_TEST_HDF5 ? 5 : 2); i++) {
        must(tmk_lineage_record_write(record, in_folder(names[i], path[i]), DIAG));
        tmk_lineage_record_destroy(&record);
        must(tmk_lineage_record_read(path[i], &record, DIAG));
        must(tmk_lineage_record_check(record, DIAG));
    }
    assert_true(record->originals[TMK_LINEAGE_AFFINE].affine.shift[2] == 0x1p1000);
    assert_true(signbit(record->originals[TMK_LINEAGE_AFFINE].affine.shift[1]));
    assert_true(record->originals[TMK_LINEAGE_QUANTIZED].quantized.zero_point[0] == INT64_MIN);
    assert_int_equal(record->originals[TMK_LINEAGE_AFFINE].view.perm[1], 2);
    assert_true(record->originals[TMK_LINEAGE_VIEW].is.shape.dim[0] == INT64_MAX);
    assert_string_equal(record->originals[1].is.name, "o/ü");
    assert_int_equal(record->n_passes, 5);
    tmk_lineage_record_destroy(&record);
    assert_same_bytes(path[0], path[1]);
    if (TMK_TEST_HDF5) {
        assert_same_bytes(path[0], path[3]);
        assert_same_bytes(path[2], path[4]);
    }
}

TEST(the_golden_files_are_what_we_write_and_read) {
    static const char *const endings[] = {"json", "h5"};
    char path[128], name[64], golden[512], again[128];
    (void)state;
    in_folder("golden.json", path);
    for (int i = 0; i < (TMK_TEST_HDF5 ? 2 : 1); i++) {
        struct tmk_lineage_record *record = sample();
        snprintf(name, sizeof name, "lineage-%d.%d.%s", TMK_LINEAGE_MAJOR, TMK_LINEAGE_MINOR,
                 endings[i]);
        in_folder(name, again);
        must(tmk_lineage_record_write(record, i ? again : path, DIAG));
        tmk_lineage_record_destroy(&record);
        struct tmk_buf *buf = bytes_of(i ? again : path);
        (i ? assert_has_golden : assert_golden)(name, tmk_buf_data(buf), tmk_buf_size(buf));
        tmk_buf_unref(&buf);
        must(tmk_lineage_record_read(golden_path(name, golden), &record, DIAG));
        must(tmk_lineage_record_write(record, in_folder("again.json", again), DIAG));
        assert_same_bytes(path, again);
        tmk_lineage_record_destroy(&record);
    }
}

/* The text of the sample with the first `from` replaced, as a file that must not read. */
static void refuse(const char *from, const char *to, enum tmk_status status, const char *says) {
    char path[128];
    struct tmk_lineage_record *record = sample();
    must(tmk_lineage_record_write(record, in_folder("bad.json", path), DIAG));
    tmk_lineage_record_destroy(&record);
    struct tmk_buf *buf = bytes_of(path);
    const size_t len = tmk_buf_size(buf), size = len + strlen(to) + 1;
    char *text = calloc(1, size);
    assert_non_null(text);
    memcpy(text, tmk_buf_data(buf), len);
    tmk_buf_unref(&buf);
    char *at = strstr(text, from);
    assert_non_null(at);
    memmove(at + strlen(to), at + strlen(from), len + 1 - (size_t)(at - text) - strlen(from));
    memcpy(at, to, strlen(to));
    must(tmk_file_write(path, text, strlen(text), DIAG));
    free(text);
    assert_int_equal(tmk_lineage_record_read(path, &record, DIAG), status);
    assert_null(record);
    assert_non_null(strstr(test_diag.text, path));
    if (!strstr(test_diag.text, says))
        fail_msg("'%s' does not say '%s'", test_diag.text, says);
}

TEST(hostile_files_are_refused_with_the_place) {
    refuse("tidemark-lineage", "tidemark-profile", TMK_FORMAT, "is a profile, not a lineage");
    refuse("\"major\":1", "\"major\":2", TMK_UNSUPPORTED, "2.0");
    refuse("\"passes\"", "\"pusses\"", TMK_FORMAT, "unknown key 'pusses'");
    refuse("\"id\":\"p3\"", "\"id\":\"p4\"", TMK_FORMAT, "originals[3]");
    refuse("\"verdict\":\"same\"", "\"verdict\":\"some\"", TMK_FORMAT, "'some'");
    refuse("\"verdict\":\"same\"", "\"verdict\":\"dead\"", TMK_MISMATCH, "original p0");
    refuse("\"verdict\":\"merged\"", "\"verdict\":\"same\"", TMK_MISMATCH, "two originals");
    refuse("\"value\":\"p2\"", "\"value\":\"p4\"", TMK_MISMATCH, "not there");
    refuse("\"value\":\"p2\"", "\"value\":\"p3\"", TMK_MISMATCH, "value p2");
    refuse("[0,2,3,1]", "[0,2,2,1]", TMK_MISMATCH, "twice");
    refuse("[0,2,3,1]", "[0,2,3,99]", TMK_FORMAT, "no permutation");
    refuse("[0,2,3,1]", "[0,2,1]", TMK_MISMATCH, "rank");
    refuse("\"axis\":3", "\"axis\":2", TMK_MISMATCH, "another size");
    refuse("\"axis\":3", "\"axis\":-3", TMK_FORMAT, "axis");
    refuse("\"scale\":[0.1,", "\"scale\":[1e999,", TMK_FORMAT, "finite");
    refuse("\"scale\":[0.1,", "\"scale\":[", TMK_FORMAT, "'shift'");
    refuse("\"shift\":[0]", "\"shift\":[]", TMK_FORMAT, "'shift'");
    refuse("\"-9223372036854775808\"", "\"-9223372036854775809\"", TMK_FORMAT, "'zero_point'");
    refuse("\"verdict\":\"absorbed\"", "\"verdict\":\"merged\"", TMK_MISMATCH, "absorber");
    refuse("\"inputs\":[\"p1\",", "\"inputs\":[\"p5\",", TMK_MISMATCH, "ascend");
    refuse("\"outputs\":[\"p4\"", "\"outputs\":[\"p9\"", TMK_MISMATCH, "not there");
    refuse("\"originals\":[\"p0\",\"p4\"]", "\"originals\":[\"p0\"]", TMK_MISMATCH, "list");
    refuse("\"name\":\"\"", "\"name\":\"\\u0000\"", TMK_FORMAT, "zero character");
    refuse("\n]\n}\n", "\n]\n", TMK_FORMAT, "cut short");
    refuse("{", "{\"a\tb\":1,", TMK_FORMAT, "byte 3: a control character");
    refuse("{", "{\"a\" 1,", TMK_FORMAT, "byte 5: a member's name without");
    refuse("{", "{\"\xff\":1,", TMK_FORMAT, "byte 2: not UTF-8");
}

TEST(newer_minor_versions_may_know_more) {
    char path[128];
    struct tmk_lineage_record *record = sample();
    (void)state;
    must(tmk_lineage_record_write(record, in_folder("newer.json", path), DIAG));
    tmk_lineage_record_destroy(&record);
    struct tmk_buf *buf = bytes_of(path);
    const size_t len = tmk_buf_size(buf);
    char *text = calloc(1, len + 1);
    assert_non_null(text);
    memcpy(text, tmk_buf_data(buf), len);
    tmk_buf_unref(&buf);
    char *key = strstr(text, "\"remark\""), *minor = strstr(text, "\"minor\":");
    assert_true(key && minor);
    memcpy(key, "\"hitch\"", 8);
    for (int newer = 0; newer < 2; newer++) {
        minor[8] = newer ? '9' : '0' + TMK_LINEAGE_MINOR;
        must(tmk_file_write(path, text, len, DIAG));
        assert_int_equal(tmk_lineage_record_read(path, &record, DIAG), newer ? TMK_OK : TMK_FORMAT);
        tmk_lineage_record_destroy(&record);
    }
    free(text);
}

TEST(only_known_names_are_written) {
    char path[128];
    (void)state;
    must_fail(tmk_lineage_record_can_write(in_folder("l.txt", path), DIAG), TMK_ARGUMENT,
              "a lineage is written as .json");
    must(tmk_lineage_record_can_write(in_folder("l.json", path), DIAG));
    assert_int_not_equal(access(path, F_OK), 0);
}

/* What cannot be read must not be written either. */
TEST(wrong_records_are_not_written) {
    char path[128];
    struct tmk_lineage_record *record = sample();
    (void)state;
    record->originals[TMK_LINEAGE_SAME].value = -1;
    must_fail(tmk_lineage_record_write(record, in_folder("w.json", path), DIAG), TMK_MISMATCH,
              "p0");
    assert_int_not_equal(access(path, F_OK), 0);
    tmk_lineage_record_destroy(&record);
}

/* Every byte of an HDF5 file that is damaged reads to a record that makes sense, or not at all. */
TEST(damaged_hdf5_is_no_harm) {
    char path[128], bad[128];
    (void)state;
    if (!TMK_TEST_HDF5) /* cmocka's skip() is a failure to those who read TAP */
        return;
    struct tmk_lineage_record *record = sample();
    must(tmk_lineage_record_write(record, in_folder("d.h5", path), DIAG));
    tmk_lineage_record_destroy(&record);
    struct tmk_buf *buf = bytes_of(path);
    const size_t len = tmk_buf_size(buf);
    char *bytes = malloc(len);
    assert_non_null(bytes);
    in_folder("bad.h5", bad);
    for (size_t at = 8; at < len; at += 97) {
        memcpy(bytes, tmk_buf_data(buf), len);
        bytes[at] = (char)(bytes[at] ^ 0x41);
        must(tmk_file_write(bad, bytes, len, DIAG));
        if (tmk_lineage_record_read(bad, &record, DIAG) == TMK_OK)
            must(tmk_lineage_record_check(record, DIAG));
        tmk_lineage_record_destroy(&record);
    }
    free(bytes);
    tmk_buf_unref(&buf);
}

GROUP_FIXTURE(make_folder, remove_folder)
