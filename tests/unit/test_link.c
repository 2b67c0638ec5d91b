/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "link/signature.h"
#include "test.h"

enum { ROWS = 12, CHANNELS = 4, NUMBERS = ROWS * CHANNELS };

/* Numbers without a pattern, between -1 and 1. */
static void scatter(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

static struct tmk_link_matrix matrix(float *x) {
    return (struct tmk_link_matrix){.rows = ROWS, .channels = CHANNELS, .kept = ROWS, .x = x};
}

/* y = scale[c] * x + shift[c] */
static void relate(const float *x, float *y, const float *scale, const float *shift) {
    for (size_t i = 0; i < NUMBERS; i++)
        y[i] = scale[i % CHANNELS] * x[i] + shift[i % CHANNELS];
}

static enum tmk_status fit(float *x, float *y, struct tmk_link_fit *out) {
    const struct tmk_link_matrix a = matrix(x), b = matrix(y);
    return tmk_link_fit(&a, &b, 1, out, NULL);
}

/* ---- equal ---- */

TEST(numbers_are_the_same_up_to_rounding) {
    float x[NUMBERS], y[NUMBERS];
    double residual = -1;
    scatter(x, NUMBERS, 1);
    memcpy(y, x, sizeof x);
    assert_true(tmk_link_same(x, y, NUMBERS, &residual));
    assert_true(residual == 0);
    y[3] += 1e-5f;
    assert_true(tmk_link_same(x, y, NUMBERS, &residual));
    assert_true(residual > 0 && residual < TMK_LINK_TOLERANCE);
    y[3] += 1e-2f;
    assert_false(tmk_link_same(x, y, NUMBERS, &residual));
}

TEST(one_number_all_the_time_is_no_evidence) {
    float x[NUMBERS], y[NUMBERS];
    double residual;
    for (size_t i = 0; i < NUMBERS; i++)
        x[i] = y[i] = 0.25f;
    assert_false(tmk_link_same(x, y, NUMBERS, &residual));
}

TEST(infinities_must_be_the_same) {
    float x[NUMBERS], y[NUMBERS];
    double residual;
    scatter(x, NUMBERS, 2);
    x[5] = -INFINITY;
    x[6] = NAN;
    memcpy(y, x, sizeof x);
    assert_true(tmk_link_same(x, y, NUMBERS, &residual));
    y[5] = -3e38f;
    assert_false(tmk_link_same(x, y, NUMBERS, &residual));
}

TEST(rounded_numbers_are_near) {
    float x[NUMBERS], y[NUMBERS];
    double residual = -1;
    scatter(x, NUMBERS, 8);
    for (size_t i = 0; i < NUMBERS; i++)
        y[i] = roundf(x[i] * 128) / 128;
    assert_false(tmk_link_same(x, y, NUMBERS, &residual));
    assert_true(tmk_link_near(x, y, NUMBERS, 0.01, &residual));
    assert_true(residual > 0.001);
    assert_false(tmk_link_near(x, y, NUMBERS, 0.001, &residual));
    for (size_t i = 0; i < NUMBERS; i++) { /* of the deviation, not of the numbers */
        x[i] += 4096;
        y[i] += 4096;
    }
    assert_false(tmk_link_near(x, y, NUMBERS, 0.001, &residual));
    y[5] = x[5] = NAN;
    assert_true(tmk_link_near(x, y, NUMBERS, 0.01, &residual));
    y[6] = INFINITY;
    assert_false(tmk_link_near(x, y, NUMBERS, 0.01, &residual));
    for (size_t i = 0; i < NUMBERS; i++)
        x[i] = y[i] = 1;
    assert_false(tmk_link_near(x, y, NUMBERS, 0.01, &residual));
}

/* ---- affine ---- */

TEST(channels_have_scales_of_their_own) {
    static const float scale[] = {0.5f, -2, 3, 1}, shift[] = {1, 0, -4, 0.25f};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 3);
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_OK);
    assert_int_equal(found.n, CHANNELS);
    assert_int_equal(found.points, NUMBERS);
    assert_false(found.lost);
    for (int c = 0; c < CHANNELS; c++) {
        assert_true(fabs(found.scale[c] - (double)scale[c]) < 1e-5);
        assert_true(fabs(found.shift[c] - (double)shift[c]) < 1e-5);
        assert_true(found.seen[c]);
    }
    tmk_link_fit_finish(&found);
    y[7] += 0.01f;
    assert_int_equal(fit(x, y, &found), TMK_NOTFOUND);
}

TEST(almost_the_same_is_no_scale) {
    static const float scale[] = {1.0005f, 0.9995f, 1, 1}, shift[] = {0, 1e-4f, -1e-4f, 5e-4f};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 9);
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_NOTFOUND);
}

TEST(one_scale_for_all_is_said_once) {
    static const float scale[] = {-1.5f, -1.5f, -1.5f, -1.5f}, shift[] = {2, 2, 2, 2};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 4);
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_OK);
    assert_int_equal(found.n, 1);
    assert_true(fabs(found.scale[0] + 1.5) < 1e-5 && fabs(found.shift[0] - 2) < 1e-5);
    tmk_link_fit_finish(&found);
}

TEST(half_of_the_channels_must_show_something) {
    static const float scale[] = {2, 3, 4, 5}, shift[] = {1, 1, 1, 1};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 5);
    for (size_t i = 0; i < NUMBERS; i++)
        if (i % CHANNELS < 2)
            x[i] = 0.5f;
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_OK);
    assert_false(found.seen[0] || found.seen[1]);
    assert_true(found.seen[2] && found.seen[3]);
    assert_true(found.scale[0] == 1 && fabs(found.shift[0] - 1.5) < 1e-6);
    tmk_link_fit_finish(&found);
    for (size_t i = 2; i < NUMBERS; i += CHANNELS)
        x[i] = 0.5f;
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_NOTFOUND);
}

TEST(what_comes_of_nothing_is_no_match) {
    static const float scale[] = {2, 0, 4, 5}, shift[] = {1, 1, 1, 1};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 6);
    relate(x, y, scale, shift);
    assert_int_equal(fit(x, y, &found), TMK_OK); /* a channel is gone, and said to be */
    assert_true(found.lost && found.scale[1] == 0);
    tmk_link_fit_finish(&found);
    assert_int_equal(fit(y, x, &found), TMK_NOTFOUND); /* it does not come back */
}

TEST(two_unknowns_need_ten_points) {
    static const float scale[] = {2, 3, 4, 5}, shift[] = {1, 1, 1, 1};
    float x[NUMBERS], y[NUMBERS];
    struct tmk_link_fit found;
    scatter(x, NUMBERS, 7);
    relate(x, y, scale, shift);
    struct tmk_link_matrix a = matrix(x), b = matrix(y);
    a.kept = b.kept = 9;
    assert_int_equal(tmk_link_fit(&a, &b, 1, &found, NULL), TMK_NOTFOUND);
    a.kept = b.kept = 10;
    assert_int_equal(tmk_link_fit(&a, &b, 1, &found, NULL), TMK_OK);
    tmk_link_fit_finish(&found);
    b.rows++;
    assert_int_equal(tmk_link_fit(&a, &b, 1, &found, NULL), TMK_NOTFOUND);
}

/* ---- signatures ---- */

enum { HEIGHT = 40, WIDTH = 30, PIXELS = HEIGHT * WIDTH, IMAGE = CHANNELS * PIXELS };

static void add(struct tmk_signatures *s, uint32_t id, uint32_t batch, struct tmk_shape shape,
                float *x) {
    struct tmk_tensor tensor;
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, &shape, x);
    assert_int_equal(tmk_signature_add(s, id, batch, &tensor, NULL), TMK_OK);
}

static const struct tmk_shape first = {4, {1, CHANNELS, HEIGHT, WIDTH}},
                              last = {4, {1, HEIGHT, WIDTH, CHANNELS}}, flat = {2, {1, IMAGE}};

TEST(layouts_share_their_rows) {
    static float x[IMAGE], y[IMAGE];
    struct tmk_signatures s;
    assert_int_equal(tmk_signatures_init(&s, 3, 2, NULL), TMK_OK);
    for (uint32_t batch = 0; batch < 2; batch++) {
        scatter(x, IMAGE, batch);
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < PIXELS; i++)
                y[i * CHANNELS + c] = x[c * PIXELS + i];
        add(&s, 0, batch, first, x);
        add(&s, 1, batch, last, y);
        add(&s, 2, batch, flat, x);
    }
    const struct tmk_link_matrix *a = &s.all[0].by[TMK_LINK_CHANNELS_FIRST],
                                 *b = &s.all[1].by[TMK_LINK_CHANNELS_LAST];
    assert_int_equal(a->channels, CHANNELS);
    assert_int_equal(a->rows, PIXELS);
    assert_int_equal(a->kept, b->kept);
    assert_true(a->kept >= 10 && a->kept < PIXELS);
    assert_memory_equal(a->x, b->x, (size_t)a->kept * CHANNELS * 2 * sizeof *a->x);
    assert_int_equal(s.all[0].n_flat, s.all[2].n_flat);
    assert_memory_equal(s.all[0].flat, s.all[2].flat, s.all[0].n_flat * 2 * sizeof(float));
    assert_memory_not_equal(s.all[0].flat, s.all[1].flat, s.all[0].n_flat * 2 * sizeof(float));
    assert_true(s.all[0].hash == s.all[2].hash && s.all[0].hash != s.all[1].hash);
    tmk_signatures_finish(&s);
}

TEST(what_changes_its_shape_or_comes_twice_has_none) {
    static float x[IMAGE];
    struct tmk_signatures s;
    scatter(x, IMAGE, 9);
    assert_int_equal(tmk_signatures_init(&s, 3, 2, NULL), TMK_OK);
    add(&s, 0, 0, first, x);
    add(&s, 0, 1, last, x);
    add(&s, 1, 0, first, x);
    add(&s, 1, 0, first, x);
    add(&s, 2, 1, first, x);
    for (int i = 0; i < 3; i++) {
        assert_true(s.all[i].uneven);
        assert_null(s.all[i].flat);
    }
    tmk_signatures_finish(&s);
}
