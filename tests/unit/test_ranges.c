/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers' files as ranges: what each form contains, what is refused, and how ranges are
 * compared. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/ranges.h>

#include "base/file.h"
#include "base/size.h"
#include "folder.h"

struct sample {
    const char *format, *text;
    uint32_t n;       /* entries */
    const char *name; /* of the first */
    enum tmk_range_meaning meaning;
    double low, high, step;
};

static const struct sample samples[] = {
    {"ort-cache",
     "{\"CLS\": \"TensorsData\", \"data\": {\"x:0\": {\"CLS\": \"TensorData\", \"lowest\": -1.5, "
     "\"highest\": {\"data\": [2.25], \"dtype\": \"float32\", \"CLS\": \"numpy.array\"}}}}",
     1, "x:0", TMK_RANGE_EXACT, -1.5, 2.25, 0},
    {"litert", "{\"model_qsvs\": {\"x\": {\"min\": [-1.5], \"max\": [2.25]}}, \"metadata\": {}}", 1,
     "x", TMK_RANGE_EXACT, -1.5, 2.25, 0},
    {"quark", "{\"tensors_range\": {\"x\": [-1.5, 2.25], \"y\": [0, 1]}}", 2, "x", TMK_RANGE_EXACT,
     -1.5, 2.25, 0},
    {"aimet",
     "{\"version\": \"0.6.1\", \"activation_encodings\": {\"x\": [{\"bitwidth\": 8, \"dtype\": "
     "\"int\", \"scale\": 0.5, \"offset\": -85, \"min\": 0, \"max\": 0}]}, \"param_encodings\": "
     "{}}",
     1, "x", TMK_RANGE_STEP, -42.5, 85, 0.5},
    {"aimet",
     "{\"version\": \"1.0.0\", \"activation_encodings\": [{\"name\": \"x\", \"dtype\": \"INT\", "
     "\"bw\": 8, \"scale\": [0.5], \"offset\": [-128]}], \"param_encodings\": [{\"name\": \"w\", "
     "\"dtype\": \"INT\", \"bw\": 4, \"scale\": [1, 2], \"offset\": [-8, -8]}]}",
     2, "x", TMK_RANGE_STEP, -64, 63.5, 0.5},
    {"aimet",
     "{\"version\": \"2.0.0\", \"encodings\": [{\"name\": \"x\", \"output_dtype\": \"uint8\", "
     "\"y_scale\": 0.5, \"y_zero_point\": 85}, {\"name\": \"w\", \"output_dtype\": \"int8\", "
     "\"y_scale\": [1, 2], \"axis\": 0}]}",
     2, "x", TMK_RANGE_STEP, -42.5, 85, 0.5},
    {"tensorrt", "TRT-8601-EntropyCalibration2\na:b: 3f800000\ny: 40000000\n", 2, "a:b",
     TMK_RANGE_LARGEST, -127, 127, 0},
    {"tensorrt-ranges", "a:b: 1.5\ny: 2", 2, "a:b", TMK_RANGE_LARGEST, -1.5, 1.5, 0},
    {"ncnn", "# a remark\nconv1_param_0 127 63.5\r\nconv1 254", 2, "conv1", TMK_RANGE_LARGEST, -1,
     1, 0},
};

static const char *put(const char *name, const char *text, size_t len) {
    static char path[128];
    must(tmk_file_write(in_folder(name, path), text, len, DIAG));
    return path;
}

TEST(test_what_each_says) {
    for (size_t i = 0; i < TMK_COUNT(samples); i++) {
        const struct sample *s = &samples[i];
        struct tmk_ranges *ranges = NULL;
        must(tmk_ranges_read(put("file", s->text, strlen(s->text)), NULL, &ranges, DIAG));
        assert_string_equal(ranges->format, s->format);
        assert_int_equal(ranges->n, s->n);
        const struct tmk_range *r = &ranges->items[0];
        assert_string_equal(r->name, s->name);
        assert_int_equal(r->meaning, s->meaning);
        assert_float_equal(r->low[0], s->low, 0);
        assert_float_equal(r->high[0], s->high, 0);
        assert_float_equal(r->step[0], s->step, 0);
        tmk_ranges_destroy(&ranges);
    }
}

TEST(test_what_is_refused) {
    static const struct {
        const char *text, *told;
    } bad[] = {
        {"{\"data\": {\"x\": {\"lowest\": 3, \"highest\": 2}}}", "is no range"},
        {"{\"data\": {\"x\": {\"lowest\": 1e400, \"highest\": 2}}}", "'x'"},
        {"{\"data\": {\"x\": {\"lowest\": [1, 2], \"highest\": 2}}}", "'x'"},
        {"{\"model_qsvs\": []}", "model_qsvs"},
        {"{\"tensors_range\": {\"x\": [1]}}", "'x'"},
        {"{\"version\": \"1.0.0\", \"activation_encodings\": [{\"name\": \"x\", \"bw\": 8, "
         "\"scale\": [0], \"offset\": [0]}]}",
         "scale above 0"},
        {"{\"version\": \"1.0.0\", \"activation_encodings\": [{\"name\": \"x\", \"bw\": 99, "
         "\"scale\": [1], \"offset\": [0]}]}",
         "bits"},
        {"{\"version\": \"1.0.0\", \"activation_encodings\": 3}", "activation_encodings"},
        {"TRT-8601-EntropyCalibration2\nx: 7f800000\n", "line 2"},
        {"TRT-8601-EntropyCalibration2\nx: 3f80000g\n", "line 2"},
        {"TRT-8601-EntropyCalibration2\nx 3f800000\n", "line 2"},
        {"conv1_param_0 1 2\n\nconv1 3\n", "line 2: is blank"},
        {"conv1_param_0 1 -2\n", "line 1"},
        {"conv1_param_0 1 inf\n", "line 1"},
        {"x: 1\ny: nan\n", "line 2"},
        {"nothing that anybody writes", "in a form that is known"},
        {"", "in a form that is known"},
    };
    for (size_t i = 0; i < TMK_COUNT(bad); i++) {
        struct tmk_ranges *ranges = NULL;
        const char *path = put("bad", bad[i].text, strlen(bad[i].text));
        assert_int_not_equal(tmk_ranges_read(path, NULL, &ranges, DIAG), TMK_OK);
        assert_null(ranges);
        assert_non_null(strstr(test_diag.text, path));
        if (!strstr(test_diag.text, bad[i].told))
            fail_msg("'%s' is not in '%s'", bad[i].told, test_diag.text);
    }
}

/* Any bytes give ranges or one line, and no number that is not finite. */
TEST(test_damaged) {
    uint32_t random = 1;
    for (size_t i = 0; i < TMK_COUNT(samples); i++)
        for (int round = 0; round < 250; round++) {
            char text[600];
            size_t len = strlen(samples[i].text);
            memcpy(text, samples[i].text, len);
            for (int change = 0; change < 3; change++) {
                random = random * 1664525 + 1013904223;
                text[(random >> 8) % len] = (char)(random >> 3);
            }
            struct tmk_ranges *ranges = NULL;
            const char *path = put("damaged", text, random % 5 ? len : random % len);
            if (tmk_ranges_read(path, NULL, &ranges, DIAG) != TMK_OK) {
                assert_non_null(strstr(test_diag.text, path));
                continue;
            }
            for (uint32_t k = 0; k < ranges->n; k++)
                for (uint32_t c = 0; c < ranges->items[k].n; c++)
                    assert_true(isfinite(ranges->items[k].low[c]) &&
                                isfinite(ranges->items[k].high[c]));
            tmk_ranges_destroy(&ranges);
        }
}

static struct tmk_range_difference compare(enum tmk_range_meaning meaning, double low, double high,
                                           double step) {
    double al = -1, ah = 2, as = 0;
    struct tmk_range a = {"x", TMK_RANGE_OF_TENSOR, TMK_RANGE_EXACT, 1, &al, &ah, &as};
    struct tmk_range b = {"x", TMK_RANGE_OF_TENSOR, meaning, 1, &low, &high, &step};
    struct tmk_range_difference difference;
    must(tmk_range_compare(&a, &b, &difference, DIAG));
    return difference;
}

TEST(test_comparing) {
    assert_true(compare(TMK_RANGE_EXACT, -1, 2, 0).equal);
    assert_false(compare(TMK_RANGE_EXACT, -1, 2.00002, 0).equal);
    assert_float_equal(compare(TMK_RANGE_EXACT, -1.3, 2, 0).share, 0.1, 1e-12);
    assert_float_equal(compare(TMK_RANGE_EXACT, -1.3, 2, 0).beyond, 0.1, 1e-12);
    assert_float_equal(compare(TMK_RANGE_EXACT, -0.7, 2, 0).beyond, 0, 0);
    assert_true(compare(TMK_RANGE_STEP, -1.01, 1.99, 0.0118).equal);
    assert_false(compare(TMK_RANGE_STEP, -1.02, 1.98, 0.0118).equal);
    assert_float_equal(compare(TMK_RANGE_STEP, -1, 1.98, 0.01).steps, 2, 1e-9);
    assert_true(compare(TMK_RANGE_LARGEST, -2, 2, 0).equal);
    assert_false(compare(TMK_RANGE_LARGEST, -1, 1, 0).equal);
    assert_float_equal(compare(TMK_RANGE_LARGEST, -1, 1, 0).share, 0.5, 0);
}

TEST(test_channels) {
    double low[3] = {-1, -2, -3}, high[3] = {1, 2, 3}, step[3] = {0};
    double other_low[3] = {-1, -2, -6}, other_high[3] = {1, 2, 3};
    struct tmk_range a = {"w", TMK_RANGE_OF_TENSOR, TMK_RANGE_EXACT, 3, low, high, step};
    struct tmk_range b = {"w", TMK_RANGE_OF_TENSOR, TMK_RANGE_EXACT, 3, other_low, other_high,
                          step};
    struct tmk_range_difference difference;
    must(tmk_range_compare(&a, &b, &difference, DIAG));
    assert_int_equal(difference.channel, 2);
    assert_float_equal(difference.share, 0.5, 0);
    assert_false(difference.equal);
    b.n = 2;
    assert_int_equal(tmk_range_compare(&a, &b, &difference, DIAG), TMK_SHAPE);
    b.n = 1;
    assert_int_equal(tmk_range_compare(&a, &b, &difference, NULL), TMK_OK);
}

static struct tmk_stats *state_of(const float *x, int64_t n) {
    struct tmk_stats *stats = NULL;
    struct tmk_shape shape = {1, {n}};
    struct tmk_stats_at at = {0, 1, -1, false};
    must(tmk_stats_create(TMK_STATS_HISTOGRAM, &stats, DIAG));
    must(tmk_stats_update(stats, x, &shape, &at, DIAG));
    return stats;
}

TEST(test_distance) {
    static const float a[] = {1, 2, 0, -3}, twice[] = {1, 1, 2, 2, 0, 0, -3, -3},
                       apart[] = {5, 6, 7}, half[] = {1, 2, 9, 10};
    struct tmk_stats *x = state_of(a, 4), *y = state_of(twice, 8), *z = state_of(apart, 3),
                     *h = state_of(half, 4);
    double distance = -1;
    must(tmk_stats_distance(x, y, &distance, DIAG));
    assert_float_equal(distance, 0, 1e-9);
    must(tmk_stats_distance(x, z, &distance, DIAG));
    assert_float_equal(distance, 1, 1e-12);
    /* half the mass is shared: the divergence is 1/2 bit */
    must(tmk_stats_distance(x, h, &distance, DIAG));
    assert_float_equal(distance, sqrt(0.5), 1e-12);
    tmk_stats_destroy(&x);
    tmk_stats_destroy(&y);
    tmk_stats_destroy(&z);
    tmk_stats_destroy(&h);
}

GROUP_FIXTURE(make_folder, remove_folder)
