/* SPDX-License-Identifier: Apache-2.0 */
/* Records that the program itself gives: cut into entries, used in place, released once. */
#include "test.h"

#include <string.h>

#include "base/diag.h"
#include "data/source.h"

enum { MOST = 8 };

struct given {
    const struct tmk_record *records;
    size_t n, at;
    const char *asked[MOST];
    struct tmk_diag failure; /* .status other than TMK_OK: at the end */
};

static enum tmk_status next(void *context, const char *input, struct tmk_record *out, bool *end,
                            struct tmk_diag *diag) {
    struct given *given = context;
    if (given->at == given->n) {
        *end = true;
        return given->failure.status == TMK_OK
                   ? TMK_OK
                   : tmk_fail(diag, given->failure.status, "%s", given->failure.text);
    }
    given->asked[given->at] = input;
    *out = given->records[given->at++];
    return TMK_OK;
}

static void count_release(void *owner) {
    ++*(int *)owner;
}

static struct tmk_source *open_source(struct given *given, const struct tmk_source_input *wants,
                                      uint32_t n, enum tmk_status expected, struct tmk_diag *diag) {
    static struct tmk_pull pull;
    struct tmk_source *source = NULL;
    pull = (struct tmk_pull){next, given, "camera"};
    const struct tmk_source_options options = {.pull = &pull};
    assert_ok(tmk_source_open("-", &options, &source, diag), diag);
    assert_string_equal(tmk_source_info(source)->label, "camera");
    assert_int_equal(tmk_source_bind(source, wants, n, diag), expected);
    return source;
}

static const struct tmk_source_input pull_want = {"x", TMK_FLOAT32, true, {2, {-1, 3}}};
static const float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

TEST(test_entries_are_where_they_lie) {
    int released = 0;
    const struct tmk_record records[] = {
        {TMK_FLOAT32, {2, {3, 3}}, numbers, count_release, &released},
        {TMK_FLOAT32, {1, {3}}, numbers + 9, count_release, &released}};
    struct given given = {.records = records, .n = 1};
    struct tmk_tensor got = {0};
    struct tmk_source *source = open_source(&given, &pull_want, 1, TMK_OK, DIAG);
    must(tmk_source_read(source, 0, 1, 2, &got, DIAG));
    assert_ptr_equal(got.data, numbers + 3);
    assert_int_equal(got.shape.dim[0], 2);
    tmk_source_close(&source);
    assert_int_equal(released, 0); /* what was handed out stays */
    tmk_tensor_finish(&got);
    assert_int_equal(released, 1);
}

TEST(test_records_are_joined) {
    int released = 0;
    const struct tmk_record records[] = {
        {TMK_FLOAT32, {2, {1, 3}}, numbers, count_release, &released},
        {TMK_FLOAT32, {2, {2, 3}}, numbers + 3, count_release, &released},
        {TMK_FLOAT32, {2, {1, 3}}, numbers + 9, count_release, &released}};
    struct given given = {.records = records, .n = 3};
    struct tmk_tensor got = {0};
    struct tmk_source *source = open_source(&given, &pull_want, 1, TMK_OK, DIAG);
    must(tmk_source_read(source, 0, 0, 2, &got, DIAG));
    assert_memory_equal(got.data, numbers, 6 * sizeof(float));
    tmk_tensor_finish(&got);
    must(tmk_source_read(source, 0, 2, 5, &got, DIAG));
    assert_int_equal(got.shape.dim[0], 2);
    assert_memory_equal(got.data, numbers + 6, 6 * sizeof(float));
    tmk_tensor_finish(&got);
    tmk_source_end(source);
    assert_int_equal(tmk_source_info(source)->arrays[0].n_entries, 4);
    tmk_source_close(&source);
    assert_int_equal(released, 3);
}

TEST(test_types_are_made_float32) {
    static const double wide[3] = {1, 2, 1e300};
    int released = 0;
    const struct tmk_record record = {TMK_FLOAT64, {1, {3}}, wide, count_release, &released};
    struct given given = {.records = &record, .n = 1};
    struct tmk_tensor got = {0};
    struct tmk_source *source = open_source(&given, &pull_want, 1, TMK_OK, DIAG);
    assert_int_equal(released, 1);
    must(tmk_source_read(source, 0, 0, 1, &got, DIAG));
    assert_int_equal(got.dtype, TMK_FLOAT32);
    assert_int_equal(got.shape.rank, 2);
    assert_true(((const float *)got.data)[1] == 2);
    tmk_tensor_finish(&got);
    tmk_source_close(&source);
}

TEST(test_inputs_take_turns) {
    const struct tmk_source_input wants[] = {pull_want, {"y", TMK_FLOAT32, true, {2, {-1, 2}}}};
    const struct tmk_record records[] = {{TMK_FLOAT32, {2, {1, 3}}, numbers, NULL, NULL},
                                         {TMK_FLOAT32, {2, {1, 2}}, numbers, NULL, NULL},
                                         {TMK_FLOAT32, {2, {1, 3}}, numbers, NULL, NULL}};
    struct given given = {.records = records, .n = 2};
    struct tmk_source *source = open_source(&given, wants, 2, TMK_OK, DIAG);
    assert_string_equal(given.asked[0], "x");
    assert_string_equal(given.asked[1], "y");
    tmk_source_close(&source);
    given = (struct given){.records = records, .n = 3};
    source = open_source(&given, wants, 2, TMK_OK, DIAG);
    struct tmk_tensor got = {0};
    must(tmk_source_read(source, 0, 0, 1, &got, DIAG));
    tmk_tensor_finish(&got);
    must_fail(tmk_source_read(source, 0, 1, 1, &got, DIAG), TMK_FORMAT,
              "camera: ends after record 3, without one for 'y'");
    tmk_source_close(&source);
}

TEST(test_whole_records_are_samples) {
    const struct tmk_record records[] = {{TMK_FLOAT32, {2, {4, 3}}, numbers, NULL, NULL},
                                         {TMK_FLOAT32, {2, {1, 3}}, numbers + 3, NULL, NULL},
                                         {TMK_FLOAT32, {2, {0, 3}}, NULL, NULL, NULL}};
    struct given given = {.records = records, .n = 3};
    struct tmk_pull pull = {next, &given, "camera", .whole = true};
    const struct tmk_source_options options = {.pull = &pull};
    struct tmk_source *source = NULL;
    struct tmk_tensor got = {0};
    must(tmk_source_open("-", &options, &source, DIAG));
    must(tmk_source_bind(source, &pull_want, 1, DIAG));
    assert_true(tmk_source_info(source)->arrays[0].entries);
    for (int i = 0; i < 3; i++) {
        must(tmk_source_read(source, 0, (uint64_t)i, 1, &got, DIAG));
        assert_int_equal(got.shape.rank, 3);
        assert_int_equal(got.shape.dim[0], 1);
        assert_int_equal(got.shape.dim[1], records[i].shape.dim[0]);
        assert_ptr_equal(got.data, records[i].data);
        tmk_tensor_finish(&got);
    }
    tmk_source_close(&source);
}

TEST(test_what_is_refused) {
    int released = 0;
    const struct {
        struct tmk_record record;
        enum tmk_status status;
    } bad[] = {
        {{TMK_STRING, {1, {3}}, numbers, count_release, &released}, TMK_TYPE},
        {{TMK_FLOAT32, {2, {INT64_MAX, 3}}, numbers, count_release, &released}, TMK_SHAPE},
        {{TMK_FLOAT32, {1, {-3}}, numbers, count_release, &released}, TMK_SHAPE},
        {{TMK_FLOAT32, {99, {1}}, numbers, count_release, &released}, TMK_SHAPE},
        {{TMK_FLOAT32, {1, {3}}, NULL, count_release, &released}, TMK_SHAPE},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct given given = {.records = &bad[i].record, .n = 1};
        released = 0;
        struct tmk_source *source = open_source(&given, &pull_want, 1, bad[i].status, DIAG);
        assert_non_null(strstr(test_diag.text, "camera: record 1"));
        tmk_source_close(&source);
        assert_int_equal(released, 1);
    }
}

TEST(test_a_failure_is_the_runs) {
    const struct tmk_record record = {TMK_FLOAT32, {2, {1, 3}}, numbers, NULL, NULL};
    struct given given = {.records = &record, .n = 1, .failure = {TMK_READ, "lens cap on"}};
    struct tmk_tensor got = {0};
    struct tmk_source *source = open_source(&given, &pull_want, 1, TMK_OK, DIAG);
    must_fail(tmk_source_read(source, 0, 0, 2, &got, DIAG), TMK_READ,
              "camera: record 2: lens cap on");
    tmk_source_close(&source);
    given = (struct given){.records = &record, .n = 0};
    source = open_source(&given, &pull_want, 1, TMK_FORMAT, DIAG);
    assert_non_null(strstr(test_diag.text, "camera: is empty"));
    tmk_source_close(&source);
}
