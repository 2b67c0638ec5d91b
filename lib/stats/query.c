/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a histogram. Only + - * / floor and ldexp, in a fixed order. */
#include <math.h>

#include "base/diag.h"
#include "stats/span.h"

static double magnitude_of(uint32_t bits) {
    return bits >= 0x7f800000u ? 0x1p128 : (double)tmk_float_of_bits(bits);
}

static void find_edges(uint16_t bin, uint32_t width, double *lo, double *hi) {
    uint32_t head = ((uint32_t)(bin & 0x7fffu) << 16) & ~(width - 1);
    if (head >= 0x7f800000u) {
        *lo = *hi = NAN;
        return;
    }
    double a = magnitude_of(head), b = magnitude_of(head + width);
    *lo = bin >> 15 ? -b : a;
    *hi = bin >> 15 ? -a : b;
}

void tmk_bin_edges(uint16_t bin, double *lo, double *hi) {
    find_edges(bin, 1u << 16, lo, hi);
}

void tmk_octave_edges(uint16_t bin, double *lo, double *hi) {
    find_edges(bin, 1u << 23, lo, hi);
}

double tmk_bin_mean(uint16_t bin, uint64_t count, uint64_t low) {
    uint32_t head = (uint32_t)(bin & 0x7fffu) << 16, exponent = head >> 23;
    double base = (double)((head & 0x7fffffu) | (exponent ? 0x800000u : 0));
    double mean =
        ldexp(base + (double)low / (double)count, (exponent ? (int)exponent - 1 : 0) - 149);
    return bin >> 15 ? -mean : mean;
}

static enum tmk_status needs_histogram(const struct tmk_stats *stats, struct tmk_diag *diag) {
    if (stats->level != TMK_STATS_HISTOGRAM)
        return tmk_fail(diag, TMK_UNSUPPORTED, "the statistics have no histogram");
    return TMK_OK;
}

/* The last octave that was asked for, kept. */
struct cursor {
    const struct tmk_stats *stats;
    unsigned octave;
    bool used;
    struct tmk_octave bins;
};

static uint64_t count_at(struct cursor *cursor, unsigned bin) {
    unsigned octave = bin / TMK_OCTAVE;
    if (octave != cursor->octave) {
        cursor->octave = octave;
        cursor->used = tmk_stats_octave(cursor->stats, octave, &cursor->bins);
    }
    return cursor->used ? cursor->bins.count[bin % TMK_OCTAVE] : 0;
}

/* The ends of a bin, as narrowed by the extremes, for signed values. */
static void span_ends(const struct tmk_stats *stats, uint16_t bin, double *lo, double *hi) {
    struct tmk_span span = {0};
    (void)tmk_span_of(stats->level, bin, &stats->min, &stats->max, &span); /* it is used */
    double a = magnitude_of(span.head + span.first), b = magnitude_of(span.head + span.last);
    *lo = span.negative ? -b : a;
    *hi = span.negative ? -a : b;
}

/* The element of this rank, counted from 0: its bin's ends. */
static void find_signed(const struct tmk_stats *stats, uint64_t rank, double *lo, double *hi) {
    struct cursor cursor = {stats, TMK_OCTAVES, false, {{0}, {0}}};
    uint64_t before = 0;
    for (unsigned bin = 0xff7f; bin >= 0x8000; bin--) {
        before += count_at(&cursor, bin);
        if (before > rank) {
            span_ends(stats, (uint16_t)bin, lo, hi);
            return;
        }
    }
    before += stats->zeros + stats->negative_zeros;
    if (before > rank) {
        *lo = *hi = 0;
        return;
    }
    for (unsigned bin = 0; bin < 0x7f80; bin++) {
        before += count_at(&cursor, bin);
        if (before > rank) {
            span_ends(stats, (uint16_t)bin, lo, hi);
            return;
        }
    }
}

static void find_absolute(const struct tmk_stats *stats, uint64_t rank, double *lo, double *hi) {
    struct cursor positive = {stats, TMK_OCTAVES, false, {{0}, {0}}}, negative = positive;
    double largest = fmax(fabs((double)tmk_float_of_key(stats->min.key)),
                          fabs((double)tmk_float_of_key(stats->max.key)));
    uint64_t before = stats->zeros + stats->negative_zeros;
    *lo = *hi = 0;
    if (before > rank)
        return;
    for (unsigned bin = 0; bin < 0x7f80; bin++) {
        before += count_at(&positive, bin) + count_at(&negative, bin | 0x8000u);
        if (before > rank) {
            uint32_t head = bin << 16;
            *lo = magnitude_of(head ? head : 1);
            *hi = fmin(magnitude_of(head + 0xffffu), largest);
            return;
        }
    }
}

enum tmk_status tmk_stats_quantile(const struct tmk_stats *stats, double q, bool absolute,
                                   double *lo, double *hi, double *mid, struct tmk_diag *diag) {
    uint64_t finite = tmk_stats_finite(stats);
    double a = 0, b = 0;
    TMK_TRY(needs_histogram(stats, diag));
    if (!(q >= 0 && q <= 1))
        return tmk_fail(diag, TMK_ARGUMENT, "a quantile lies in [0, 1]; %g does not", q);
    if (finite == 0)
        return tmk_fail(diag, TMK_NOTFOUND, "no finite element, so no quantile");
    double needed = ceil(q * (double)finite); /* exact below 2^53 but for the product's rounding */
    uint64_t rank = needed >= 1 ? (uint64_t)needed - 1 : 0;
    rank = rank < finite ? rank : finite - 1;
    (absolute ? find_absolute : find_signed)(stats, rank, &a, &b);
    *lo = a;
    *hi = b;
    /* the harmonic mean has the smallest worst relative error */
    *mid = a < b ? 2 * a * b / (a + b) : a;
    return TMK_OK;
}

struct linear {
    double lo, width; /* of a part */
    size_t bins;
    double *out;
};

/* Adds `count` elements, spread evenly over [a, b]. */
static void spread_count(const struct linear *h, double a, double b, double count) {
    double last = (double)h->bins, from = (a - h->lo) / h->width, to = (b - h->lo) / h->width;
    if (to < 0 || from > last)
        return;
    if (!(from < to)) { /* the upper end belongs to the last part */
        h->out[from < last ? (size_t)from : h->bins - 1] += count;
        return;
    }
    double density = count / (to - from);
    from = from > 0 ? from : 0;
    to = to < last ? to : last;
    for (size_t i = from < last ? (size_t)from : h->bins - 1; i < h->bins && (double)i < to; i++) {
        double left = from > (double)i ? from : (double)i;
        double right = to < (double)i + 1 ? to : (double)i + 1;
        h->out[i] += density * (right - left);
    }
}

/* The widest interval around the bin's mean that stays inside its ends. */
static void spread_bin(const struct linear *h, const struct tmk_stats *stats, uint16_t bin,
                       uint64_t count, uint64_t low, bool absolute) {
    double lo, hi, mean = tmk_bin_mean(bin, count, low);
    span_ends(stats, bin, &lo, &hi);
    double half = fmax(0, fmin(mean - lo, hi - mean));
    if (absolute)
        mean = fabs(mean);
    spread_count(h, mean - half, mean + half, (double)count);
}

enum tmk_status tmk_stats_linear(const struct tmk_stats *stats, bool absolute, double lo, double hi,
                                 size_t bins, double *out, struct tmk_diag *diag) {
    TMK_TRY(needs_histogram(stats, diag));
    struct linear h = {lo, (hi - lo) / (double)bins, bins, out};
    if (!isfinite(lo) || !isfinite(hi) || !(lo < hi) || bins == 0 || !(h.width > 0) ||
        !isfinite(h.width))
        return tmk_fail(diag, TMK_ARGUMENT, "%zu bins over [%g, %g] are no histogram", bins, lo,
                        hi);
    for (size_t i = 0; i < bins; i++)
        out[i] = 0;
    spread_count(&h, 0, 0, (double)(stats->zeros + stats->negative_zeros));
    struct tmk_octave octave;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(stats, o, &octave))
            continue;
        for (unsigned i = 0; i < TMK_OCTAVE; i++)
            if (octave.count[i])
                spread_bin(&h, stats, (uint16_t)(o * TMK_OCTAVE + i), octave.count[i],
                           octave.low[i], absolute);
    }
    return TMK_OK;
}
