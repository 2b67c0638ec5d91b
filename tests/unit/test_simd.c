/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over blocks, of every processor that this machine can play, against sums and maxima taken
 * one by one. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "kernel/simd.h"

enum {
    AXES = 3,
    PLANES = 2,
    WIDEST = 24,
    MOST = WIDEST + 2,
    CAPACITY = PLANES * 5 * 7 * MOST * 16
};

static uint64_t random_state = 1;

static uint32_t below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static float element(uint32_t strange) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    if (below(100) < strange)
        return special[below(TMK_COUNT(special))];
    return (float)below(2000) / 64.0f - 15.0f;
}

struct axis {
    struct tmk_pool_span span[MOST];
    int64_t in, out, step;
};

/* Windows of `kernel` taps, some of whose outermost are in the padding. */
static void make_axis(struct axis *axis, int64_t in) {
    const int64_t kernel = 1 + below(3), stride = 1 + below(3), pad = below((uint32_t)kernel);
    axis->in = in;
    axis->step = 1 + below(2);
    axis->out = 0;
    for (int64_t first = -pad; first < in; first += stride) {
        struct tmk_pool_span span = {first, 0, 0};
        int64_t k = 0;
        for (; k < kernel && span.first < 0; k++, span.padded++)
            span.first += axis->step;
        for (; k < kernel && span.first + span.count * axis->step < in; k++, span.padded++)
            span.count++;
        if (span.count > 0)
            axis->span[axis->out++] = span;
    }
}

typedef float one_window(const struct tmk_pool_blocked *p, const struct tmk_pool_span *span,
                         const float *x, size_t block);

#define EACH_TAP                                                                                   \
    for (int64_t i = 0; i < span[0].count; i++)                                                    \
        for (int64_t j = 0; j < span[1].count; j++)                                                \
            for (int64_t k = 0; k < span[2].count; k++) {                                          \
                const int64_t at[AXES] = {span[0].first + i * p->step[0],                          \
                                          span[1].first + j * p->step[1],                          \
                                          span[2].first + k * p->step[2]};                         \
                float v = x[((at[0] * p->in[1] + at[1]) * p->in[2] + at[2]) * (int64_t)block];     \
                TAKE(v);                                                                           \
            }

static float maximum(const struct tmk_pool_blocked *p, const struct tmk_pool_span *span,
                     const float *x, size_t block) {
    float best = -INFINITY;
#define TAKE(v) best = v > best || v != v ? v : best
    EACH_TAP
#undef TAKE
    return best;
}

static float mean(const struct tmk_pool_blocked *p, const struct tmk_pool_span *span,
                  const float *x, size_t block) {
    double sum = 0, taps = 1;
#define TAKE(v) sum += v
    EACH_TAP
#undef TAKE
    for (int a = 0; a < AXES; a++)
        taps *= (double)(p->padding_counts ? span[a].padded : span[a].count);
    return (float)(sum / taps);
}

static bool same(float a, float b) {
    return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0;
}

static void check(const struct tmk_simd *lanes, const struct tmk_pool_blocked *p, const float *x,
                  const float *y, one_window *wanted) {
    const size_t block = lanes->block, places = (size_t)(p->in[0] * p->in[1] * p->in[2]);
    for (size_t plane = 0; plane < p->planes; plane++, x += places * block)
        for (int64_t a = 0; a < p->out[0]; a++)
            for (int64_t b = 0; b < p->out[1]; b++)
                for (int64_t c = 0; c < p->out[2]; c++, y += block) {
                    const struct tmk_pool_span span[AXES] = {p->span[0][a], p->span[1][b],
                                                             p->span[2][c]};
                    for (size_t lane = 0; lane < block; lane++)
                        if (!same(y[lane], wanted(p, span, x + lane, block)))
                            fail_msg("blocks of %zu, %s: %d,%d,%d lane %zu: %g, not %g", block,
                                     lanes->processor, (int)a, (int)b, (int)c, lane,
                                     (double)y[lane], (double)wanted(p, span, x + lane, block));
                }
}

/* Rows of up to 24 windows, of which several are taken together where they are alike. */
TEST(pools_take_every_tap_of_every_window) {
    static float x[CAPACITY], y[CAPACITY];
    for (uint32_t block = 8; block <= 16; block += 8)
        for (size_t i = 0; tmk_simd_at(block, i); i++)
            for (int round = 0; round < 300; round++) {
                const struct tmk_simd *lanes = tmk_simd_at(block, i);
                struct axis axis[AXES];
                struct tmk_pool_blocked pool = {.planes = PLANES, .padding_counts = round % 2};
                make_axis(&axis[0], 1 + below(3));
                make_axis(&axis[1], 1 + below(5));
                make_axis(&axis[2], 1 + below(WIDEST));
                for (int a = 0; a < AXES; a++) {
                    pool.in[a] = axis[a].in;
                    pool.out[a] = axis[a].out;
                    pool.step[a] = axis[a].step;
                    pool.span[a] = axis[a].span;
                }
                for (size_t k = 0; k < CAPACITY; k++)
                    x[k] = element(round % 3 ? 20 : 0);
                lanes->pool_max(&pool, x, y);
                check(lanes, &pool, x, y, maximum);
                lanes->pool_mean(&pool, x, y);
                check(lanes, &pool, x, y, mean);
            }
}
