/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/tile.h"

#include <math.h>
#include <string.h>

/* ---- which elements are counted ---- */

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The elements of one sample in one value. */
struct part {
    uint64_t hash; /* of the value and the sample */
    uint32_t share;
    uint32_t reciprocal; /* 2^32 / share, rounded up */
    bool whole;          /* all are counted */
};

static struct part part_of(const struct tmk_stats *stats, uint64_t sample, size_t elements) {
    return (struct part){mix(mix(stats->key) + sample), stats->share,
                         (uint32_t)(((UINT64_C(1) << 32) + stats->share - 1) / stats->share),
                         elements <= (size_t)stats->share * TMK_RUN};
}

/* Of the group that the element is in. A product instead of a division: exact for runs below 2^32 /
 * share, since the reciprocal is off by less than 1. */
static size_t group_of(const struct part *part, size_t element) {
    const size_t run = element / TMK_RUN;
    return run < UINT32_MAX / TMK_STATS_MOST_THINNED ? run * part->reciprocal >> 32
                                                     : run / part->share;
}

/* Elements [first, first + n) of the part, `stride` apart at x. */
static size_t gather(const struct part *part, const tmk_loose_bits *x, size_t stride, size_t first,
                     size_t n, uint32_t *kept) {
    const size_t length = (size_t)part->share * TMK_RUN, end = first + n;
    size_t m = 0;
    if (part->whole) {
        for (; m < n; m++)
            kept[m] = x[m * stride];
        return m;
    }
    for (size_t group = group_of(part, first), at = group * length; at < end;
         group++, at += length) {
        const uint64_t chosen = (mix(part->hash + group) >> 32) * part->share >> 32;
        const size_t run = at + (size_t)chosen * TMK_RUN, from = run > first ? run : first,
                     to = run + TMK_RUN < end ? run + TMK_RUN : end;
        if (from >= to)
            continue;
        if (stride == 1) {
            memcpy(kept + m, x + (from - first), (to - from) * sizeof *kept);
            m += to - from;
        } else {
            for (size_t i = from; i < to; i++)
                kept[m++] = x[(i - first) * stride];
        }
    }
    return m;
}

static size_t drop_specials(uint32_t *x, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = x[i];
        x[kept] = bits;
        kept += (bits & 0x7f800000u) != 0x7f800000u;
    }
    return kept;
}

/* Elements of a sample: also where another axis counts samples and more, as [samples * heads, ...]
 * does, whose places are of the whole batch. */
static size_t part_length(const struct tmk_stats_pass *pass) {
    const uint64_t samples = pass->at.samples;
    return pass->part == pass->elements && !pass->at.whole && samples > 1 &&
                   pass->elements % samples == 0
               ? pass->elements / (size_t)samples
               : pass->part;
}

size_t tmk_thin_gather(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                       const struct tmk_tile_summary *summary, uint32_t *kept) {
    const size_t rows = tile->n / tile->width, length = part_length(pass);
    size_t m = 0, begin = SIZE_MAX; /* of the current part */
    struct part part = {0};
    for (size_t lane = 0; lane < tile->width; lane++) {
        size_t at = tile->first + lane * tile->stride;
        for (size_t done = 0, n; done < rows; done += n, at += n) {
            if (at < begin || at - begin >= length) {
                begin = at / length * length;
                part = part_of(pass->stats, pass->at.sample + at / length, length);
            }
            const size_t left = begin + length - at;
            n = left < rows - done ? left : rows - done;
            m += gather(&part, tile->x + done * tile->width + lane, tile->width, at - begin, n,
                        kept + m);
        }
    }
    return tmk_tile_all_finite(summary) ? m : drop_specials(kept, m);
}

/* ---- the sum of all ---- */

/* sums, in units of 2^(exponent - 150), which they are multiples of. */
static void add_lanes(struct tmk_exact *sum, const double *sums, uint32_t exponent) {
    const double scale = ldexp(1, 150 - (int)exponent);
    int64_t all = 0;
    for (size_t k = 0; k < TMK_SUM_LANES; k++)
        all += (int64_t)(sums[k] * scale);
    tmk_exact_add(sum, all < 0 ? (tmk_u128)-all : (tmk_u128)all, exponent - 1, all < 0);
}

/* Arithmetic of floats might take them for zeros. */
static void add_denormals(struct tmk_exact *sum, const tmk_loose_bits *x, size_t n) {
    int64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t magnitude = x[i] & 0x7fffffffu;
        if (magnitude < 0x800000)
            all += x[i] >> 31 ? -magnitude : magnitude;
    }
    tmk_exact_add(sum, all < 0 ? (tmk_u128)-all : (tmk_u128)all, 0, all < 0);
}

/* Of finite elements, the largest of which has these bits but the sign. */
static void add_finite(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n,
                       uint32_t largest) {
    double sums[TMK_SUM_LANES];
    bool first = true;
    while (largest >= 0x800000u) {
        const uint32_t top = largest >> 23,
                       exponent = top > TMK_SUM_OCTAVES ? top - TMK_SUM_OCTAVES + 1 : 1;
        /* most tiles are of few octaves, and done by a quicker loop */
        if (first && stats->kernel->sum(x, n, sums) >= exponent << 23)
            largest = 0;
        else
            largest = stats->kernel->sum_window(x, n, exponent << 23, (top + 1) << 23, sums);
        add_lanes(&stats->sum, sums, exponent);
        first = false;
    }
    if (largest)
        add_denormals(&stats->sum, x, n);
}

static uint32_t largest_of(const struct tmk_tile_summary *summary) {
    const uint32_t positive = summary->signed_max > 0 ? (uint32_t)summary->signed_max : 0,
                   negative = summary->unsigned_max >> 31 ? summary->unsigned_max & 0x7fffffffu : 0;
    return positive > negative ? positive : negative;
}

void tmk_thin_sum(struct tmk_stats *stats, const struct tmk_tile *tile,
                  const struct tmk_tile_summary *summary) {
    uint32_t kept[TMK_TILE];
    struct tmk_tile_summary of_kept;
    if (tmk_tile_all_finite(summary)) {
        add_finite(stats, tile->x, tile->n, largest_of(summary));
        return;
    }
    memcpy(kept, tile->x, tile->n * sizeof *kept);
    const size_t n = drop_specials(kept, tile->n);
    if (n == 0)
        return;
    stats->kernel->scan(kept, n, NULL, &of_kept);
    add_finite(stats, kept, n, largest_of(&of_kept));
}
