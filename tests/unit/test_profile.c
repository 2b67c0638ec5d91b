/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/profile.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "folder.h"
#include "profile/sample.h"

static size_t files_in_folder(void) {
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static struct tmk_profile *sample(void) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    assert_ok(sample_profile(false, &profile, &diag), &diag);
    return profile;
}

static char *sample_text(size_t *len) {
    char path[128];
    struct tmk_profile *profile = sample();
    must(tmk_profile_write(profile, in_folder("sample.json", path), DIAG));
    tmk_profile_destroy(&profile);
    return slurp(path, len);
}

static void assert_same_file(const char *a, const char *b) {
    size_t n, m;
    char *x = slurp(a, &n), *y = slurp(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void convert(const char *from, const char *to) {
    struct tmk_profile *profile = NULL;
    must(tmk_profile_read(from, &profile, DIAG));
    must(tmk_profile_write(profile, to, DIAG));
    tmk_profile_destroy(&profile);
}

TEST(reading_then_writing_gives_the_same_bytes) {
    char a[128], b[128], c[128];
    struct tmk_profile *profile = sample();
    must(tmk_profile_write(profile, in_folder("a.json", a), DIAG));
    convert(a, in_folder("b.json", b));
    assert_same_file(a, b);
    if (TMK_TEST_HDF5) {
        must(tmk_profile_write(profile, in_folder("c.h5", c), DIAG));
        convert(c, b);
        assert_same_file(a, b);
        convert(a, in_folder("d.hdf5", b));
        assert_same_file(c, b);
    }
    tmk_profile_destroy(&profile);
}

TEST(a_profile_without_values_is_one) {
    char a[128], b[128], c[128];
    struct tmk_profile *profile = NULL;
    must(tmk_profile_create(&profile, DIAG));
    must(tmk_profile_write(profile, in_folder("empty.json", a), DIAG));
    convert(a, in_folder("empty2.json", b));
    assert_same_file(a, b);
    if (TMK_TEST_HDF5) {
        must(tmk_profile_write(profile, in_folder("empty.h5", a), DIAG));
        convert(b, in_folder("empty3.h5", c));
        assert_same_file(a, c);
        convert(a, in_folder("empty4.json", c));
        assert_same_file(b, c);
    }
    tmk_profile_destroy(&profile);
    tmk_profile_destroy(&profile);
}

TEST(every_released_version_still_reads) {
    static const char *const versions[] = {"1.0", "1.1", "1.2", "1.3", "1.4"};
    char newest[16];
    snprintf(newest, sizeof newest, "%d.%d", TMK_PROFILE_MAJOR, TMK_PROFILE_MINOR);
    assert_string_equal(versions[TMK_COUNT(versions) - 1], newest);
    const char *golden = getenv("TMK_GOLDEN");
    assert_non_null(golden);
    for (size_t i = 0; i < TMK_COUNT(versions); i++) {
        char json[512], h5[512], out[128];
        snprintf(json, sizeof json, "%s/profile-%s.json", golden, versions[i]);
        snprintf(h5, sizeof h5, "%s/profile-%s.h5", golden, versions[i]);
        struct tmk_profile *profile = NULL;
        must(tmk_profile_read(json, &profile, DIAG));
        assert_int_equal(profile->n_tensors, i < 4 ? 10 : 11); /* thinned ones since 1.4 */
        const struct tmk_profile_tensor *t = tmk_profile_by_id(profile, 2);
        assert_non_null(t);
        assert_string_equal(t->name, "größe/тест\\1");
        struct tmk_summary is;
        tmk_stats_summary(t->stats, &is);
        assert_true(is.count == 24 && is.nan == 4 && is.max == 3e38f && is.channels == 2);
        tmk_profile_destroy(&profile);
        if (TMK_TEST_HDF5) {
            convert(json, in_folder("from_json.json", out));
            char other[128];
            convert(h5, in_folder("from_h5.json", other));
            assert_same_file(out, other);
        }
    }
}

TEST(the_format_is_told_by_content) {
    char json[128], named_h5[128], other[128];
    size_t len;
    struct tmk_profile *profile = NULL;
    free(sample_text(&len));
    in_folder("sample.json", json);
    in_folder("really.h5", named_h5);
    assert_int_equal(rename(json, named_h5), 0);
    must(tmk_profile_read(named_h5, &profile, DIAG));
    must_fail(tmk_profile_write(profile, in_folder("out.yaml", other), DIAG), TMK_ARGUMENT,
              ".json, .h5 or .hdf5");
    assert_int_not_equal(access(other, F_OK), 0);
    tmk_profile_destroy(&profile);
    assert_int_equal(tmk_profile_read(in_folder("absent", other), &profile, NULL), TMK_READ);
}

TEST(a_failed_write_leaves_nothing_behind) {
    char path[128];
    struct tmk_profile *profile = sample();
    size_t before = files_in_folder();
    profile->ledger.failed++;
    must_fail(tmk_profile_write(profile, in_folder("new.json", path), DIAG), TMK_MISMATCH,
              "6 samples offered");
    profile->ledger.failed--;
    assert_int_equal(files_in_folder(), before);
    assert_int_equal(tmk_profile_write(profile, "/nowhere/at/all.json", NULL), TMK_WRITE);
    if (TMK_TEST_HDF5)
        assert_int_equal(tmk_profile_write(profile, "/nowhere/at/all.h5", NULL), TMK_WRITE);
    tmk_profile_destroy(&profile);
}

/* One inconsistent field, and a word of the message that it must give. */
static void assert_inconsistent(struct tmk_profile *profile, const char *word) {
    assert_int_equal(tmk_profile_validate(profile, DIAG), TMK_MISMATCH);
    if (!strstr(test_diag.text, word))
        fail_msg("'%s' is not in: %s", word, test_diag.text);
}

#define WITH(lvalue, value, word)                                                                  \
    do {                                                                                           \
        __typeof__(lvalue) saved = (lvalue);                                                       \
        (lvalue) = (value);                                                                        \
        assert_inconsistent(profile, word);                                                        \
        (lvalue) = saved;                                                                          \
        assert_int_equal(tmk_profile_validate(profile, NULL), TMK_OK);                             \
    } while (0)

TEST(inconsistent_profiles_are_rejected) {
    struct tmk_profile *profile = sample();
    struct tmk_profile_tensor *t = profile->tensors;
    WITH(profile->ledger.offered, 7, "7 samples offered");
    WITH(profile->ledger.end_sample, 105, "from the range");
    WITH(profile->ledger.end_sample, 1, "from the range");
    WITH(profile->ledger.batches, 0, "batches");
    WITH(profile->ledger.batches, 5, "5 batches");
    WITH(profile->model.sha256, "12", "sha256");
    WITH(profile->model.file, "\xff", "UTF-8");
    WITH(profile->settings[2].key, "batch", "'batch' stands in two places");
    WITH(t[0].expected_count, 25, "p0 'input:0'");
    WITH(t[0].runs[0].runs, 3, "36 elements");
    WITH(t[0].name, "\xc0\x80", "UTF-8");
    WITH(t[0].dtype, TMK_INT8, "int8");
    WITH(t[0].status, TMK_PROFILE_NEVER, "24 elements ran");
    WITH(t[0].status, TMK_PROFILE_DEAD, "dead");
    WITH(t[0].status, TMK_PROFILE_INTEGER, "floats");
    WITH(t[0].has_int_stats, true, "as integers");
    WITH(t[0].n_samples, 4, "extremes for 4 samples");
    WITH(t[1].id, 0, "after p0");
    WITH(t[3].sources[0], 77, "p77");
    WITH(t[3].sources[0], 3, "itself");
    WITH(t[3].rule, "", "rule ''");
    WITH(t[3].status, TMK_PROFILE_OBSERVED, "from 1 values");
    WITH(t[4].int_stats.count, 5, "5 elements");
    WITH(t[4].int_stats.zeros, 5, "contradict");
    WITH(t[4].dtype, TMK_FLOAT32, "float32");
    WITH(t[4].has_int_stats, false, "no statistics");
    WITH(t[10].more_runs, false, "136");
    struct tmk_stats *stats = t[0].stats;
    t[0].stats = NULL;
    assert_inconsistent(profile, "no statistics");
    t[0].stats = stats;
    tmk_profile_destroy(&profile);
}

static enum tmk_status read_text(const char *text, size_t len, struct tmk_diag *diag) {
    char path[128];
    struct tmk_profile *profile = NULL;
    FILE *file = fopen(in_folder("hostile", path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    enum tmk_status status = tmk_profile_read(path, &profile, diag);
    tmk_profile_destroy(&profile);
    return status;
}

static const struct {
    const char *from, *to, *word;
    enum tmk_status status;
} replacements[] = {
    {"\"minor\":4", "\"minor\":3,\"x\":1", "unknown key 'x'", TMK_FORMAT},
    {"\"major\":1", "\"major\":2", "reads 1.x", TMK_UNSUPPORTED},
    {"tidemark-profile", "something", "'format'", TMK_FORMAT},
    {"\"offered\":6", "\"offered\":6,\"offered\":6", "stands twice", TMK_FORMAT},
    {"\"offered\":6", "\"offered\":-6", "'offered'", TMK_FORMAT},
    {"\"offered\":6", "\"offered\":6.5", "'offered'", TMK_FORMAT},
    {"\"offered\":6", "\"offered\":1e300", "'offered'", TMK_FORMAT},
    {"\"offered\":6", "\"offered\":\"99999999999999999999\"", "'offered'", TMK_FORMAT},
    {"\"total\":106", "\"total\":105", "of 105 in all", TMK_MISMATCH},
    {"[[100,106]]", "[[100,102],[104,106]]", "holds 4", TMK_MISMATCH},
    {"[[100,106]]", "[[100,104],[104,106]]", "touch", TMK_MISMATCH},
    {"[[100,106]]", "[[104,106],[100,103]]", "out of order", TMK_MISMATCH},
    {"[[100,106]]", "[[99,102],[103,106]]", "fill", TMK_MISMATCH},
    {"[[100,106]]", "[[100,105]]", "'ranges' is 100 to 105", TMK_MISMATCH},
    {"[[100,106]]", "[]", "'ranges'", TMK_MISMATCH},
    {"[[100,106]]", "[[100]]", "pair", TMK_FORMAT},
    {"[[100,106]]", "[[100,106,107]]", "pair", TMK_FORMAT},
    {"[[100,106]]", "[[100,-6]]", "pair", TMK_FORMAT},
    {"[[100,106]]", "7", "'ranges'", TMK_FORMAT},
    {"\"settings\":{", "\"settings\":{\"batch\":\"3\",", "'batch' stands twice", TMK_FORMAT},
    {"\"settings\":{", "\"settings\":{\"observe\":\"3\",", "two places", TMK_MISMATCH},
    {"\"settings\":{", "\"settings\":{\"list\":[\"3\"],", "less than two", TMK_FORMAT},
    {"\"settings\":{", "\"settings\":{\"n\":3,", "'n' is not a string", TMK_FORMAT},
    {"\"data\":[", "\"data\":[1,", "data[0]", TMK_FORMAT},
    {"\"tensors\":[", "\"tensors\":[],\"x-t\":[", "", TMK_OK},
    {"\"tensors\":[", "\"tensors\":[],\"tensors\":[", "'tensors' stands twice", TMK_FORMAT},
    {"\"tensors\":[", "\"x-t\":[", "'tensors' is missing", TMK_FORMAT},
    {"\"tensors\":[", "\"tensors\":[7,", "tensors[0]", TMK_FORMAT},
    {"\"id\":\"p1\"", "\"id\":\"p0\"", "tensors[1]", TMK_FORMAT},
    {"\"id\":\"p1\"", "\"id\":\"p01\"", "'id' is 'p01'", TMK_FORMAT},
    {"\"id\":\"p1\"", "\"id\":\"p99999999999\"", "'id'", TMK_FORMAT},
    {"\"ordinal\":0", "\"ordinal\":4294967296", "'ordinal'", TMK_FORMAT},
    {"\"name\":\"input:0\"", "\"name\":\"a\\u0000b\"", "zero character", TMK_FORMAT},
    {"\"name\":\"input:0\"", "\"name\":\"a\nb\"", "control character", TMK_FORMAT},
    {"\"name\":\"input:0\"", "\"name\":\"\xff\"", "UTF-8", TMK_FORMAT},
    {"\"kind\":\"input\"", "\"kind\":\"thing\"", "'kind'", TMK_FORMAT},
    {"\"shape\":[\"N\",2,3]", "\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1]", "12 dimensions", TMK_FORMAT},
    {"\"shape\":[\"N\",2,3]", "\"shape\":[\"N\",-2,3]", "dimension 1", TMK_FORMAT},
    {"{\"shape\":[2,2,3],\"runs\":2}", "{\"shape\":[4000000000,4000000000],\"runs\":2}", "overflow",
     TMK_RANGE},
    {"{\"shape\":[2,2,3],\"runs\":2}",
     "{\"shape\":[2,2,3],\"runs\":1},{\"shape\":[2,2,3],\"runs\":1}", "twice", TMK_FORMAT},
    {"{\"shape\":[2,2,3],\"runs\":2}", "{\"shape\":[2,2,3],\"runs\":0}", "never ran", TMK_FORMAT},
    {"\"producer\":null,", "", "'producer'", TMK_FORMAT},
    {"\"level\":\"histogram\"", "\"level\":\"exact\"", "'level'", TMK_FORMAT},
    {"\"level\":\"histogram\"", "\"level\":\"none\"", "unknown key", TMK_FORMAT},
    {"\"count\":24", "\"count\":25", "add up", TMK_FORMAT},
    {"\"min\":-3e+38", "\"min\":-3e+39", "'min'", TMK_FORMAT},
    {"\"min\":-3e+38", "\"min\":NaN", "JSON", TMK_FORMAT},
    {"\"min\":-3e+38", "\"min\":null", "invalid statistics", TMK_FORMAT},
    {"\"denormals\":1", "\"denormals\":2", "'denormals' is 2", TMK_MISMATCH},
    {"\"negatives\":7", "\"negatives\":8", "'negatives' is 8", TMK_MISMATCH},
    {"\"sum\":-9999999814.2", "\"sum\":-9999999814.3", "'sum'", TMK_MISMATCH},
    {"\"mean\":-", "\"mean\":-1", "'mean' is -1", TMK_MISMATCH},
    {"\"std\":", "\"std\":1", "'std' is 1", TMK_MISMATCH},
    {"\"sum_squares\":{\"low\":", "\"sum_squares\":{\"low\":1", "'sum_squares: low'", TMK_MISMATCH},
    {"\"sum_squares\":{\"low\":", "\"sum_squares\":{\"low\":\"\",\"x-l\":", "'low'", TMK_FORMAT},
    {"\"bins\":[1,7740", "\"bins\":[7740,1", "ascend", TMK_FORMAT},
    {"\"bins\":[1,7740", "\"bins\":[1,65536", "entry 1 is no bin", TMK_FORMAT},
    {"\"bins\":[1,7740", "\"bins\":[7740", "bins", TMK_FORMAT},
    {"\"low\":[5826,", "\"low\":[", "'low' has 20 entries for 21 bins", TMK_FORMAT},
    {"\"low\":[5826,", "\"low\":[\"x\",", "'low': entry 0", TMK_FORMAT},
    {"\"channels\":{\"axis\":1", "\"channels\":{\"axis\":12", "axis 12", TMK_FORMAT},
    {"\"min\":[-3e+38,", "\"min\":[-3e+38,0,", "3 minima and 2 maxima", TMK_FORMAT},
    {"\"min_at\":{\"sample\":103,", "\"min_at\":{", "'min_at'", TMK_FORMAT},
    {"\"from\":[\"p0\"]", "\"from\":[\"p77\"]", "p77", TMK_MISMATCH},
    {"\"from\":[\"p0\"]", "\"from\":[0]", "no ID", TMK_FORMAT},
    {"\"9223372036854775807\"", "\"9223372036854775808\"", "'max'", TMK_FORMAT},
    {"]\n}\n", "]\n}\n}", "follows", TMK_FORMAT},
    {"]\n}\n", "]\n", "',' or '}'", TMK_FORMAT},
    {"\n{\"id\":\"p1\"", "\n{\"id\":\"p0\"", "does not come after p0", TMK_FORMAT},
    {"\n{\"id\":\"p1\"", " x{\"id\":\"p1\"", "tensors[1]", TMK_FORMAT},
};

TEST(errors_name_the_field) {
    size_t len;
    char *text = sample_text(&len);
    for (size_t i = 0; i < TMK_COUNT(replacements); i++) {
        struct tmk_text changed = {0};
        const char *at = strstr(text, replacements[i].from);
        assert_non_null(at);
        tmk_text_append(&changed, text, (size_t)(at - text));
        tmk_text_puts(&changed, replacements[i].to);
        tmk_text_puts(&changed, at + strlen(replacements[i].from));
        enum tmk_status status = read_text(changed.data, changed.len, DIAG);
        if (status != replacements[i].status || !strstr(test_diag.text, replacements[i].word))
            fail_msg("%s -> %s: status %d, %s", replacements[i].from, replacements[i].to,
                     (int)status, test_diag.text);
        assert_int_equal(test_diag.status, status);
        if (status != TMK_OK && !strstr(test_diag.text, folder))
            fail_msg("no file in: %s", test_diag.text);
        tmk_text_finish(&changed);
    }
    free(text);
}

TEST(newer_minor_versions_may_know_more) {
    size_t len;
    char *text = sample_text(&len);
    char *at = strstr(text, "\"minor\":4"), *key = strstr(text, "\"path\":");
    assert_non_null(at);
    assert_non_null(key);
    memcpy(key, "\"pith\":", 7);
    assert_int_equal(read_text(text, len, DIAG), TMK_FORMAT);
    at[8] = '9';
    must(read_text(text, len, DIAG));
    free(text);
}

TEST(cut_files_are_errors) {
    size_t len;
    char *text = sample_text(&len);
    for (size_t n = 0; n + 2 < len; n += n < 1200 ? 7 : 61)
        assert_int_not_equal(read_text(text, n, NULL), TMK_OK);
    free(text);
}

/* Any bytes are read or refused; a memory checker reports invalid accesses. */
TEST(changed_bytes_never_crash) {
    size_t len;
    char *text = sample_text(&len);
    uint64_t seed = 42;
    for (int round = 0; round < 3000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(seed >> 33) % len;
        char saved = text[at];
        text[at] = "0123456789\"{}[]:,-.ep\\n \xff"[(seed >> 20) % 25];
        (void)read_text(text, len, NULL);
        text[at] = saved;
    }
    free(text);
}

TEST(deep_nesting_is_an_error) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{\"tensors\":[");
    for (int i = 0; i < 100000; i++)
        tmk_text_puts(&text, "[");
    assert_int_equal(read_text(text.data, text.len, NULL), TMK_FORMAT);
    for (int i = 0; i < 100000; i++)
        tmk_text_puts(&text, "]");
    tmk_text_puts(&text, "]}");
    assert_int_equal(read_text(text.data, text.len, NULL), TMK_FORMAT);
    tmk_text_finish(&text);
}

TEST(values_are_found_by_id_name_and_pattern) {
    struct tmk_profile *p = NULL;
    static const char *const names[] = {"a/conv", "b/conv", "p7", "we[ir]d*", "p1"};
    must(tmk_profile_create(&p, DIAG));
    for (uint32_t i = 0; i < TMK_COUNT(names); i++) {
        struct tmk_profile_tensor *t = NULL;
        must(tmk_profile_add_tensor(p, i * 3, &t, DIAG));
        t->name = names[i];
    }
    assert_int_equal(tmk_profile_find(p, "p3", 0), 1);
    assert_int_equal(tmk_profile_find(p, "p3", 2), p->n_tensors);
    assert_int_equal(tmk_profile_find(p, "p7", 0), 2); /* no such ID, but such a name */
    assert_int_equal(tmk_profile_find(p, "*conv", 0), 0);
    assert_int_equal(tmk_profile_find(p, "*conv", 1), 1);
    assert_int_equal(tmk_profile_find(p, "*conv", 2), p->n_tensors);
    assert_int_equal(tmk_profile_find(p, "we[ir]d*", 0), 3);
    assert_int_equal(tmk_profile_find(p, "nothing", 0), p->n_tensors);
    assert_ptr_equal(tmk_profile_by_id(p, 12), &p->tensors[4]);
    assert_null(tmk_profile_by_id(p, 1));
    struct tmk_profile_tensor *t;
    assert_int_equal(tmk_profile_add_tensor(p, 12, &t, NULL), TMK_ARGUMENT);
    uint32_t id;
    assert_true(tmk_profile_id_of_text("p4294967295", &id) && id == UINT32_MAX);
    assert_false(tmk_profile_id_of_text("p4294967296", &id));
    assert_false(tmk_profile_id_of_text("p", &id));
    assert_false(tmk_profile_id_of_text("12", &id));
    assert_false(tmk_profile_id_of_text("p-1", &id));
    tmk_profile_destroy(&p);
}

TEST(kept_shapes_do_not_depend_on_their_order) {
    struct tmk_profile *p = NULL;
    must(tmk_profile_create(&p, DIAG));
    struct tmk_profile_tensor *t = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        must(tmk_profile_add_tensor(p, i, &t, DIAG));
        for (int64_t k = 0; k < 200; k++) {
            int64_t n = (i ? 199 - k : k) * 7 % 40;
            const struct tmk_shape shape = {2, {n % 3, n}};
            must(tmk_profile_add_runs(t, &shape, (uint64_t)n + 1, DIAG));
        }
    }
    const struct tmk_profile_tensor *a = p->tensors, *b = a + 1;
    assert_int_equal(a->n_runs, TMK_PROFILE_MAX_RUNS);
    assert_int_equal(b->n_runs, TMK_PROFILE_MAX_RUNS);
    assert_true(a->more_runs && b->more_runs && a->expected_count == b->expected_count);
    for (uint32_t i = 0; i < TMK_PROFILE_MAX_RUNS; i++) {
        assert_true(tmk_shape_equal(&a->runs[i].shape, &b->runs[i].shape));
        assert_int_equal(a->runs[i].runs, 5 * (a->runs[i].shape.dim[1] + 1));
        assert_int_equal(a->runs[i].runs, b->runs[i].runs);
    }
    const struct tmk_shape large = {1, {INT64_MAX}};
    assert_int_equal(tmk_profile_add_runs(t, &large, 3, NULL), TMK_RANGE);
    tmk_profile_destroy(&p);
}

TEST(floats_read_back_directly_and_through_doubles) {
    uint32_t seed = 7;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 1664525u + 1013904223u;
        float f;
        memcpy(&f, &seed, sizeof f);
        if (!isfinite(f))
            continue;
        struct tmk_text text = {0};
        tmk_json_float_text(&text, f);
        float direct = strtof(text.data, NULL), through = (float)strtod(text.data, NULL);
        assert_memory_equal(&direct, &f, sizeof f);
        assert_memory_equal(&through, &f, sizeof f);
        tmk_text_finish(&text);
    }
    struct tmk_text text = {0};
    tmk_json_float_text(&text, NAN);
    tmk_json_float_text(&text, -0.0f);
    tmk_json_u64_text(&text, UINT64_C(1) << 53);
    tmk_json_u64_text(&text, UINT64_MAX);
    tmk_json_i64_text(&text, INT64_MIN);
    assert_string_equal(text.data,
                        "null-09007199254740992\"18446744073709551615\"\"-9223372036854775808\"");
    tmk_text_finish(&text);
}

TEST(the_programs_locale_has_no_part) {
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"};
    char a[128], b[128], c[128];
    struct tmk_profile *profile = sample();
    must(tmk_profile_write(profile, in_folder("plain.json", a), DIAG));
    for (size_t i = 0; i < TMK_COUNT(commas); i++)
        if (setlocale(LC_ALL, commas[i]))
            break;
    const char *before = localeconv()->decimal_point;
    must(tmk_profile_write(profile, in_folder("local.json", b), DIAG));
    convert(b, in_folder("local2.json", c));
    assert_string_equal(localeconv()->decimal_point, before);
    setlocale(LC_ALL, "C");
    assert_same_file(a, b);
    assert_same_file(a, c);
    tmk_profile_destroy(&profile);
}

TEST(only_wellformed_utf8_is_text) {
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",         "\xc0\x80",         "\xc1\xbf",
                                      "\xe0\x9f\xbf", "\xed\xa0\x80",     "\xf0\x8f\xbf\xbf",
                                      "\xf5\x80\x80", "\xf4\x90\x80\x80", "\xe2\x82",
                                      "\xc3(",        "a\xf0\x9f\x98"};
    for (size_t i = 0; i < TMK_COUNT(good); i++)
        assert_true(tmk_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < TMK_COUNT(bad); i++)
        assert_false(tmk_utf8_valid(bad[i], strlen(bad[i])));
}

TEST(hdf5_that_is_damaged_or_absent_is_an_error) {
    char path[128];
    struct tmk_profile *profile = sample();
    if (!TMK_TEST_HDF5) {
        must_fail(tmk_profile_write(profile, in_folder("x.h5", path), DIAG), TMK_UNSUPPORTED,
                  "-Dhdf5=enabled");
        tmk_profile_destroy(&profile);
        return;
    }
    must(tmk_profile_write(profile, in_folder("whole.h5", path), DIAG));
    tmk_profile_destroy(&profile);
    size_t len;
    char *bytes = slurp(path, &len);
    for (size_t n = 1; n < len; n += 977)
        assert_int_not_equal(read_text(bytes, n, NULL), TMK_OK);
    free(bytes);
}

GROUP_FIXTURE(make_folder, remove_folder)
