/* SPDX-License-Identifier: Apache-2.0 */
/* Observing piece by piece, in any layout, against observing the whole row-major by one pass. */
#include "stats_data.h"

/* A tensor as it lies in memory. */
struct layout {
    struct tmk_shape shape;
    uint32_t block;
    size_t outer, cut, inner, padded; /* around axis 1; its length with what fills up */
    size_t places;
};

static struct layout layout_of(const struct tmk_shape *shape, uint32_t block) {
    struct layout l = {.shape = *shape, .block = block, .outer = 1, .cut = 1, .inner = 1};
    size_t n;
    assert_true(tmk_shape_count(shape, &n));
    l.places = n;
    if (block < 2)
        return l;
    l.outer = (size_t)shape->dim[0];
    l.cut = (size_t)shape->dim[1];
    for (int32_t i = 2; i < shape->rank; i++)
        l.inner *= (size_t)shape->dim[i];
    l.padded = (l.cut + block - 1) / block * block;
    l.places = l.outer * l.padded * l.inner;
    return l;
}

/* Row-major elements in the layout's order; what fills up are traps. */
static float *lay_out(const struct layout *l, const float *x) {
    float *y = malloc((l->places + 1) * sizeof *y);
    assert_non_null(y);
    if (l->block < 2) {
        memcpy(y, x, l->places * sizeof *y);
        return y;
    }
    static const uint32_t traps[] = {0x7fc00000u, 0, 0x80000000u, 0xff800000u, 0x7f7fffffu};
    for (size_t o = 0; o < l->outer; o++)
        for (size_t c = 0; c < l->padded; c++)
            for (size_t i = 0; i < l->inner; i++)
                y[((o * l->padded + c / l->block * l->block) * l->inner) + i * l->block +
                  c % l->block] = c < l->cut ? x[(o * l->cut + c) * l->inner + i]
                                             : bits(traps[next() % TMK_COUNT(traps)]);
    return y;
}

/* The extremes, and so on, one element after the other. */
static struct tmk_stats *naive(enum tmk_stats_level level, const float *x,
                               const struct tmk_shape *shape, const struct tmk_stats_at *at) {
    struct tmk_stats *stats = empty(level), *counts = NULL;
    size_t n, inner = 1;
    assert_true(tmk_shape_count(shape, &n));
    must(tmk_stats_create_with(level, &tmk_stats_kernel_plain, &counts, DIAG));
    size_t part = shape->rank > 0 && at->samples > 1 && (uint64_t)shape->dim[0] == at->samples
                      ? n / (size_t)at->samples
                      : n;
    bool known = at->channel_axis >= 0 && at->channel_axis < shape->rank;
    for (int32_t i = at->channel_axis + 1; known && i < shape->rank; i++)
        inner *= (size_t)shape->dim[i];
    if (n > 0)
        must(tmk_channels_join(&counts->channels, 0, known ? TMK_CHANNELS_KNOWN : TMK_CHANNELS_NONE,
                               known ? at->channel_axis : -1,
                               known ? (size_t)shape->dim[at->channel_axis] : 0, DIAG));
    for (size_t i = 0; i < n; i++) {
        uint32_t v = tmk_bits_of_float(x[i]);
        int32_t key = tmk_key_of_bits(v);
        struct tmk_where here = {at->sample + i / part, i % part};
        counts->count++;
        if (!tmk_key_is_finite(key)) {
            counts->nan += isnan(x[i]) != 0;
            counts->posinf += key == TMK_KEY_POSINF;
            counts->neginf += key == TMK_KEY_NEGINF;
            tmk_where_earlier(&counts->first_nonfinite, here);
            continue;
        }
        tmk_extreme_lower(&counts->min, (struct tmk_extreme){key, here});
        tmk_extreme_update(&counts->max, (struct tmk_extreme){key, here});
        if (known)
            tmk_channels_update(&counts->channels, i / inner % counts->channels.count, key, key);
        if (key == 0 || key == -1) {
            counts->zeros += key == 0;
            counts->negative_zeros += key == -1;
        } else if (level != TMK_STATS_MINMAX) {
            const uint32_t dropped = level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
            assert_true(tmk_stats_reserve(counts, 1));
            const uint64_t low = v & dropped;
            const struct tmk_wide one = {1, low, low * low, (uint16_t)((v & ~dropped) >> 16)};
            tmk_stats_add_bin(counts, &one);
        }
    }
    counts->samples = at->again ? 0 : at->samples;
    counts->updates = 1;
    merge(stats, counts);
    tmk_stats_destroy(&counts);
    return stats;
}

static struct tmk_shape random_shape(void) {
    struct tmk_shape shape = {2 + (int32_t)(next() % 3), {0}};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = (int64_t)(1 + next() % (i == 1 ? 60 : i == 0 ? 4 : 14));
    if (next() % 12 == 0)
        shape.dim[next() % (uint64_t)shape.rank] = next() % 2 ? 1 : 900;
    if (next() % 40 == 0)
        shape.dim[next() % (uint64_t)shape.rank] = 0;
    return shape;
}

/* Pieces of random lengths in random order, each from a place of its own alignment. */
static void observe_pieces(struct tmk_stats *stats, const float *y, const struct layout *l,
                           const struct tmk_stats_at *at) {
    struct tmk_stats_pass pass;
    enum { MOST = 64 };
    size_t cut[MOST + 1], order[MOST], pieces = 1 + next() % MOST;
    cut[0] = 0;
    for (size_t i = 1; i < pieces; i++) {
        size_t rest = l->places - cut[i - 1], step = next() % 3 ? next() % 40 : next() % 5000;
        cut[i] = cut[i - 1] + (step < rest ? step : rest);
    }
    cut[pieces] = l->places;
    shuffle(order, pieces);
    must(tmk_stats_begin(stats, &l->shape, at, NULL, &pass, DIAG));
    for (size_t k = 0; k < pieces; k++) {
        size_t i = order[k], n = cut[i + 1] - cut[i];
        char *block = malloc(n * sizeof *y + 8);
        assert_non_null(block);
        char *there = block + next() % 8;
        if (n > 0)
            memcpy(there, y + cut[i], n * sizeof *y);
        must(tmk_stats_piece(&pass, (const void *)there, cut[i], n, DIAG));
        free(block);
    }
    must(tmk_stats_end(&pass, DIAG));
}

TEST(pieces_layouts_and_kernels_do_not_show) {
    static const uint32_t blocks[] = {0, 1, 2, 3, 4, 5, 8, 8, 16, 16, 16, 32, 100};
    for (int round = 0; round < 200; round++) {
        enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
        struct tmk_shape shape = random_shape();
        struct layout l = layout_of(&shape, blocks[next() % TMK_COUNT(blocks)]);
        size_t n;
        assert_true(tmk_shape_count(&shape, &n));
        float *x = data_of(next() % TMK_COUNT(families), n), *y = lay_out(&l, x);
        uint64_t samples = next() % 2 ? (uint64_t)shape.dim[0] : 1 + next() % 3;
        struct tmk_stats_at at = {next() % 100, samples, next() % 2 ? 1 : (int32_t)(next() % 5) - 1,
                                  next() % 5 == 0, 0};
        struct tmk_stats *truth = naive(level, x, &shape, &at);
        at.block = l.block;
        for (size_t k = 0; tmk_stats_kernel_at(k); k++)
            for (int whole = 0; whole < 2; whole++) {
                struct tmk_stats *stats = NULL;
                must(tmk_stats_create_with(level, tmk_stats_kernel_at(k), &stats, DIAG));
                if (whole)
                    must(tmk_stats_update(stats, y, &shape, &at, DIAG));
                else
                    observe_pieces(stats, y, &l, &at);
                assert_true(equal(truth, stats));
                if (round % 20 == 0)
                    reencode(&stats);
                tmk_stats_destroy(&stats);
            }
        tmk_stats_destroy(&truth);
        free(x);
        free(y);
    }
}

/* Several batches into one state, in any order: ties go to the earliest sample. */
TEST(batches_come_in_any_order) {
    enum { BATCHES = 9, SAMPLES = 2 };
    for (int round = 0; round < 100; round++) {
        enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
        struct tmk_shape shape = {4, {SAMPLES, (int64_t)(1 + next() % 40), 3, 5}};
        struct layout l = layout_of(&shape, round % 4 < 2 ? 0 : round % 4 == 2 ? 8 : 16);
        size_t n, order[BATCHES], f = next() % TMK_COUNT(families);
        assert_true(tmk_shape_count(&shape, &n));
        shuffle(order, BATCHES);
        struct tmk_stats *truth = empty(level), *stats = empty(level);
        for (size_t i = 0; i < BATCHES; i++) {
            float *x = data_of(f, n), *y = lay_out(&l, x);
            struct tmk_stats_at at = {SAMPLES * order[i], SAMPLES, 1, false, 0};
            struct tmk_stats *one = naive(level, x, &shape, &at);
            merge(truth, one);
            at.block = l.block;
            observe_pieces(stats, y, &l, &at);
            tmk_stats_destroy(&one);
            free(x);
            free(y);
        }
        assert_true(equal(truth, stats));
        tmk_stats_destroy(&truth);
        tmk_stats_destroy(&stats);
    }
}

/* Sums of what is in the table, what has left it and what never was there, of data with zeros and
 * infinities: however they come together, nothing is lost at the lower end. */
TEST(tables_give_back_all_they_hold) {
    enum { STEPS = 7, MOST = 6000 };
    for (int round = 0; round < 200; round++) {
        const enum tmk_stats_level level = levels[round % TMK_COUNT(levels)];
        struct tmk_stats *truth = empty(level), *stats = empty(level);
        for (uint64_t i = 0; i < STEPS; i++) {
            const size_t n = 1 + next() % MOST;
            float *x = data_of(next() % TMK_COUNT(families), n);
            const struct tmk_shape shape = flat(n);
            const struct tmk_stats_at at = {i, 1, -1, false, 0};
            struct tmk_stats *one = naive(level, x, &shape, &at), *other = empty(level);
            merge(truth, one);
            observe(next() % 3 ? stats : other, x, n, i);
            if (next() % 2)
                must(tmk_stats_drain(other, DIAG));
            if (next() % 3 == 0)
                must(tmk_stats_drain(stats, DIAG));
            merge(stats, other);
            if (next() % 5 == 0)
                must(tmk_stats_finalize(stats, DIAG));
            tmk_stats_destroy(&one);
            tmk_stats_destroy(&other);
            free(x);
        }
        assert_true(equal(truth, stats));
        must(tmk_stats_finalize(stats, DIAG));
        assert_true(equal(truth, stats));
        tmk_stats_destroy(&truth);
        tmk_stats_destroy(&stats);
    }
}

/* As many zeros from elsewhere as there are elements in the lowest octave: none of them are its
 * own.
 */
TEST(zeros_of_others_hide_nothing) {
    enum { N = 4000 };
    float x[N], zeros[N / 4] = {0};
    for (size_t i = 0; i < N; i++)
        x[i] = i % 4 ? 5 : 0.001f;
    struct tmk_stats *stats = state_of(TMK_STATS_HISTOGRAM, x, N),
                     *other = state_of(TMK_STATS_HISTOGRAM, zeros, N / 4);
    struct tmk_summary s;
    merge(stats, other);
    must(tmk_stats_drain(stats, DIAG));
    tmk_stats_summary(stats, &s);
    assert_int_equal(s.bins_used, 2);
    assert_int_equal(s.zeros, N / 4);
    tmk_stats_destroy(&stats);
    tmk_stats_destroy(&other);
}

TEST(extremes_alone_have_no_moments) {
    const float x[] = {3, -1, 0, -0.0f, 7, 3};
    struct tmk_stats *stats = state_of(TMK_STATS_MINMAX, x, TMK_COUNT(x));
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    assert_true(s.min == -1 && s.max == 7);
    assert_int_equal(s.max_at.index, 4);
    assert_int_equal(s.finite, 6);
    assert_int_equal(s.zeros, 2);
    assert_int_equal(s.bins_used, 0);
    assert_true(isnan(s.sum) && isnan(s.mean) && isnan(s.std) && isnan(s.sumsq_lo));
    assert_null(stats->table);
    double out[3];
    assert_int_equal(tmk_stats_quantile(stats, 0.5, false, out, out + 1, out + 2, NULL),
                     TMK_UNSUPPORTED);
    reencode(&stats);
    tmk_stats_destroy(&stats);
}

TEST(only_axis_1_is_cut) {
    struct tmk_shape line = {1, {16}};
    struct tmk_stats *stats = empty(TMK_STATS_MINMAX);
    struct tmk_stats_at at = {0, 1, -1, false, 8};
    const float x[16] = {0};
    assert_int_equal(tmk_stats_update(stats, x, &line, &at, NULL), TMK_SHAPE);
    tmk_stats_destroy(&stats);
}
