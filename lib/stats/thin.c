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

/* Elements of a row of the tile that are counted, one after another. */
struct span {
    uint32_t lane, first, n;
};

/* LANES: rows that are looked at together. */
enum { LANES = 16, SPANS = TMK_TILE / (2 * TMK_RUN) + 2 * LANES };

/* Of n elements of each of `lanes` rows, which are `stride` apart in the part: how many spans. What
 * is chosen cannot be predicted: so nothing here branches on it, and all that is copied is copied
 * after. That took most of the time of tiles in blocks, whose rows are short. */
static size_t find_spans(const struct part *part, size_t first, size_t stride, uint32_t lanes,
                         size_t n, struct span *out) {
    const size_t length = (size_t)part->share * TMK_RUN;
    uint32_t left[LANES], n_left = lanes; /* rows with elements in further groups */
    size_t m = 0;
    for (uint32_t lane = 0; lane < lanes; lane++)
        left[lane] = lane;
    for (size_t step = 0; n_left > 0; step++) {
        const uint32_t n_rows = n_left;
        n_left = 0;
        for (uint32_t i = 0; i < n_rows; i++) {
            const uint32_t lane = left[i];
            const size_t at = first + lane * stride, end = at + n,
                         group = group_of(part, at) + step;
            const uint64_t chosen = (mix(part->hash + group) >> 32) * part->share >> 32;
            const size_t run = group * length + (size_t)chosen * TMK_RUN,
                         from = run > at ? run : at, to = run + TMK_RUN < end ? run + TMK_RUN : end;
            out[m] = (struct span){lane, (uint32_t)(from - at), (uint32_t)(to - from)};
            m += from < to;
            left[n_left] = lane;
            n_left += (group + 1) * length < end;
        }
    }
    return m;
}

/* Those that are counted of the same elements, in rows of `width` at x. */
static size_t gather(const struct part *part, const tmk_loose_bits *x, size_t width, size_t first,
                     size_t stride, uint32_t lanes, size_t n, uint32_t *kept) {
    struct span spans[SPANS];
    size_t n_spans = lanes, m = 0;
    for (uint32_t lane = 0; part->whole && lane < lanes; lane++)
        spans[lane] = (struct span){lane, 0, (uint32_t)n};
    if (!part->whole)
        n_spans = find_spans(part, first, stride, lanes, n, spans);
    for (size_t s = 0; s < n_spans; s++) {
        const tmk_loose_bits *from = x + spans[s].first * width + spans[s].lane;
        if (width == 1)
            memcpy(kept + m, from, spans[s].n * sizeof *kept);
        else
            for (size_t i = 0; i < spans[s].n; i++)
                kept[m + i] = from[i * width];
        m += spans[s].n;
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
    const size_t width = tile->width, rows = tile->n / width, length = part_length(pass);
    size_t m = 0, begin = SIZE_MAX; /* of the current part */
    struct part part = {0};
    uint32_t lanes;
    for (size_t lane = 0; lane < width; lane += lanes) {
        lanes = width - lane < LANES ? (uint32_t)(width - lane) : LANES;
        size_t at = tile->first + lane * tile->stride;
        for (size_t done = 0, n; done < rows; done += n, at += n) {
            if (at < begin || at - begin >= length) {
                begin = at / length * length;
                part = part_of(pass->stats, pass->at.sample + at / length, length);
            }
            const size_t left = begin + length - at;
            if ((lanes - 1) * tile->stride + rows - done > left)
                lanes = 1; /* rows of several parts, one by one */
            n = left < rows - done ? left : rows - done;
            m += gather(&part, tile->x + done * width + lane, width, at - begin, tile->stride,
                        lanes, n, kept + m);
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
