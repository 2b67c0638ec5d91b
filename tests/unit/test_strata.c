/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "data/strata.h"
#include "data_files.h"

static enum tmk_status read_bytes(const char *bytes, size_t len, struct tmk_strata **out,
                                  struct tmk_diag *diag) {
    tmk_diag_reset(diag);
    put("labels.csv", bytes, len);
    return tmk_strata_read(in_folder("labels.csv"), out, diag);
}

static struct tmk_strata *read_text(const char *text) {
    struct tmk_strata *strata;
    struct tmk_diag diag = {0};
    assert_ok(read_bytes(text, strlen(text), &strata, &diag), &diag);
    return strata;
}

static void assert_label(const struct tmk_strata *strata, uint64_t sample, const char *label) {
    uint32_t i;
    must(tmk_strata_of(strata, sample, sample + 1, &i, DIAG));
    assert_string_equal(tmk_strata_label(strata, i), label);
}

TEST(lines_are_samples_in_order) {
    static const char *const files[] = {"b\na\n\"b\"\na\n", "b\r\na\r\nb\r\na",
                                        "\357\273\277b\na\nb\na\r"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tmk_strata *strata = read_text(files[i]);
        assert_int_equal(tmk_strata_count(strata), 2);
        assert_string_equal(tmk_strata_label(strata, 0), "b");
        assert_int_equal(tmk_strata_end(strata), 4);
        for (uint64_t s = 0; s < 4; s++)
            assert_label(strata, s, s % 2 ? "a" : "b");
        tmk_strata_destroy(&strata);
    }
}

TEST(indexed_lines_may_stand_in_any_order) {
    struct tmk_strata *strata = read_text("sample,label\n18446744073709551614,last\n"
                                          "007,\"say \"\"hi\"\", twice\"\n0,x\n");
    struct tmk_diag diag = {0};
    uint32_t i;
    assert_int_equal(tmk_strata_count(strata), 3);
    assert_true(tmk_strata_end(strata) == UINT64_MAX);
    assert_label(strata, 0, "x");
    assert_label(strata, 7, "say \"hi\", twice");
    assert_label(strata, UINT64_MAX - 1, "last");
    assert_int_equal(tmk_strata_of(strata, 3, 4, &i, &diag), TMK_NOTFOUND);
    assert_says(&diag, "labels.csv: sample 3 has no label");
    tmk_strata_destroy(&strata);
}

TEST(a_batch_is_of_one_stratum) {
    struct tmk_strata *strata = read_text("a\na\na\nb\nb\n");
    struct tmk_diag diag = {0};
    uint32_t i;
    assert_ok(tmk_strata_of(strata, 0, 3, &i, &diag), &diag);
    assert_int_equal(i, 0);
    assert_ok(tmk_strata_of(strata, 3, 5, &i, &diag), &diag);
    assert_int_equal(i, 1);
    assert_int_equal(tmk_strata_of(strata, 1, 5, &i, &diag), TMK_MISMATCH);
    assert_says(&diag, "samples 2 ('a') and 3 ('b') are of one batch");
    tmk_diag_reset(&diag);
    assert_int_equal(tmk_strata_of(strata, 3, 6, &i, &diag), TMK_NOTFOUND);
    assert_says(&diag, "sample 5 has no label");
    tmk_strata_destroy(&strata);
}

/* Whatever the bytes are, the answer is strata or a line, and what is cut short is read within its
 * bounds (sanitizers look). */
TEST(damaged_files_are_refused_or_read) {
    static const char whole[] = "sample,label\r\n1,\"a \"\"b\"\", c\"\r\n0,d\r\n2,\"e\nf\"\r\n";
    struct tmk_diag diag = {0};
    uint32_t refused = 0;
    for (size_t len = 0; len < sizeof whole; len++)
        for (int change = 0; change < 5; change++) {
            char bytes[sizeof whole];
            memcpy(bytes, whole, len);
            if (len && change)
                bytes[len / 2] = "\",\n\0"[change - 1];
            struct tmk_strata *strata = NULL;
            if (read_bytes(bytes, len, &strata, &diag) == TMK_OK) {
                assert_true(tmk_strata_count(strata) > 0);
                tmk_strata_destroy(&strata);
            } else {
                assert_int_equal(diag.status, TMK_FORMAT);
                assert_says(&diag, "labels.csv");
                refused++;
            }
        }
    assert_in_range(refused, sizeof whole, 5 * sizeof whole - 10);
}

GROUP_FIXTURE(make_folder, remove_folder)
