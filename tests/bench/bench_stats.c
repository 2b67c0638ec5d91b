/* SPDX-License-Identifier: Apache-2.0 */
/* What observing costs: nanoseconds an element, the minimum of many runs, compared with a plain
 * read of the same memory. Usage: bench_stats */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidemark/stats.h>

#include "base/size.h"
#include "stats/state.h"

static const char *const data_names[] = {"gauss", "relu", "zeros", "constant", "lognormal"};

static const char *const level_names[] = {"", "range", "histogram", "minmax", "thinned"};

/* One more than the library's: a histogram of one run in SHARE. */
enum { THINNED = TMK_STATS_MINMAX + 1, SHARE = 8 };

static double uniform(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static void fill(float *x, size_t n, size_t data) {
    for (size_t i = 0; i < n; i++) {
        double v = sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
        const double values[] = {v, v > 0 ? v : 0, 0, 1.2345, exp(2 * v)};
        x[i] = (float)values[data];
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What is measured: a state and the shape that it observes, or neither for a plain read. */
struct job {
    struct tmk_stats *stats;
    struct tmk_shape shape;
    int32_t axis;
    uint32_t block;
};

static uint64_t read_all(const float *x, size_t n) {
    const tmk_loose_bits *bits = (const void *)x;
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= bits[i];
    return all;
}

static double measure(const struct job *job, const float *x, size_t n, uint64_t *sink) {
    double best = HUGE_VAL;
    int times = (int)(((size_t)1 << 19) / n) + 1;
    for (int round = 0; round < 25; round++) {
        double start = now();
        for (int i = 0; i < times; i++) {
            struct tmk_stats_at at = {(uint64_t)round, 1, job->axis, false, job->block};
            if (!job->stats)
                *sink += read_all(x, n);
            else if (tmk_stats_update(job->stats, x, &job->shape, &at, NULL) != TMK_OK)
                exit(1);
        }
        double each = (now() - start) / times / (double)n;
        best = each < best ? each : best;
    }
    return best;
}

static double cost(int level, const struct tmk_stats_kernel *kernel, const struct tmk_shape *shape,
                   int32_t axis, uint32_t block, const float *x, uint64_t *sink) {
    const enum tmk_stats_level of =
        level == THINNED ? TMK_STATS_HISTOGRAM : (enum tmk_stats_level)level;
    struct job job = {NULL, *shape, axis, block};
    size_t n;
    if (!tmk_shape_count(shape, &n) ||
        (kernel && tmk_stats_create_with(of, kernel, &job.stats, NULL) != TMK_OK) ||
        (level == THINNED && tmk_stats_thin(job.stats, SHARE, 1, NULL) != TMK_OK))
        exit(1);
    double best = measure(&job, x, n, sink);
    tmk_stats_destroy(&job.stats);
    return best;
}

static void whole_tensors(size_t n, const char *title, uint64_t *sink) {
    float *x = malloc(n * sizeof *x);
    if (!x)
        exit(1);
    printf("%s: %zu elements\n%-22s", title, n, "");
    struct tmk_shape shape = {1, {(int64_t)n}};
    for (size_t d = 0; d < TMK_COUNT(data_names); d++)
        printf("%10s", data_names[d]);
    printf("\n%-22s", "plain read");
    for (size_t d = 0; d < TMK_COUNT(data_names); d++) {
        fill(x, n, d);
        printf("%10.3f", cost(0, NULL, &shape, -1, 0, x, sink));
    }
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int l = TMK_STATS_RANGE; l <= THINNED; l++) {
            const struct tmk_stats_kernel *kernel = tmk_stats_kernel_at(k);
            printf("\n%-10s %-11s", level_names[l], kernel->name);
            for (size_t d = 0; d < TMK_COUNT(data_names); d++) {
                fill(x, n, d);
                printf("%10.3f", cost(l, kernel, &shape, -1, 0, x, sink));
            }
        }
    printf("\n\n");
    free(x);
}

/* Extremes by channel, row-major and in blocks, of what stays in the second-level cache. */
static void channels(uint64_t *sink) {
    static const struct {
        struct tmk_shape shape;
        int32_t axis;
        uint32_t block;
    } cases[] = {{{4, {1, 64, 56, 56}}, -1, 0},  {{4, {1, 64, 56, 56}}, 1, 0},
                 {{4, {1, 64, 56, 56}}, 1, 8},   {{4, {1, 64, 56, 56}}, 1, 16},
                 {{4, {1, 256, 14, 14}}, 1, 0},  {{4, {1, 256, 14, 14}}, 1, 8},
                 {{4, {1, 256, 14, 14}}, 1, 16}, {{4, {1, 1024, 7, 7}}, 1, 0},
                 {{4, {1, 1024, 7, 7}}, 1, 16},  {{4, {1, 56, 56, 64}}, 3, 0},
                 {{4, {1, 112, 112, 3}}, 3, 0},  {{2, {128, 768}}, 1, 0},
                 {{2, {1, 1000}}, 1, 0}};
    printf("channels, gauss and relu\n%-20s %4s %5s", "", "axis", "block");
    for (int l = TMK_STATS_HISTOGRAM; l <= THINNED; l++)
        for (size_t k = 0; tmk_stats_kernel_at(k + 1); k++)
            printf("  %9s %-7s", level_names[l], tmk_stats_kernel_at(k)->name);
    printf("\n");
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        char text[64];
        size_t n;
        if (!tmk_shape_count(&cases[i].shape, &n))
            exit(1);
        float *x[2] = {malloc(n * sizeof **x), malloc(n * sizeof **x)};
        if (!x[0] || !x[1])
            exit(1);
        fill(x[0], n, 0);
        fill(x[1], n, 1);
        printf("%-20s %4d %5u", tmk_shape_text(&cases[i].shape, text, sizeof text),
               (int)cases[i].axis, (unsigned)cases[i].block);
        for (int l = TMK_STATS_HISTOGRAM; l <= THINNED; l++)
            for (size_t k = 0; tmk_stats_kernel_at(k + 1); k++)
                for (size_t d = 0; d < 2; d++)
                    printf("%9.3f", cost(l, tmk_stats_kernel_at(k), &cases[i].shape, cases[i].axis,
                                         cases[i].block, x[d], sink));
        printf("\n");
        free(x[0]);
        free(x[1]);
    }
}

int main(void) {
    uint64_t sink = 0;
    printf("nanoseconds an element\n\n");
    whole_tensors((size_t)1 << 14, "in the second-level cache", &sink);
    whole_tensors((size_t)1 << 20, "in the third-level cache", &sink);
    whole_tensors((size_t)1 << 24, "from memory", &sink);
    channels(&sink);
    return sink == 1; /* the reads must happen */
}
