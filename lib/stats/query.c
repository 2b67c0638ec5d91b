/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a histogram. Only + - * / floor and ldexp, in a fixed order. */
#include <math.h>
#include <string.h>

#include <tidemark/stats.h>

#include "base/diag.h"
#include "stats/exact.h"
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

/* Elements in bins. */
static uint64_t count_bins(const struct tmk_stats *stats) {
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    uint64_t sum = 0;
    if (!tmk_stats_is_thinned(stats))
        return tmk_stats_finite(stats) - stats->zeros - stats->negative_zeros;
    while (tmk_next_bin(&walk, &one))
        sum += one.count;
    return sum;
}

static double weight_of(const struct tmk_stats *stats, uint64_t counted) {
    const uint64_t all = tmk_stats_finite(stats) - stats->zeros - stats->negative_zeros;
    return counted == all ? 1 : counted ? (double)all / (double)counted : 0;
}

double tmk_stats_weight(const struct tmk_stats *stats) {
    return tmk_stats_is_thinned(stats) ? weight_of(stats, count_bins(stats)) : 1;
}

double tmk_stats_rank_error(const struct tmk_stats *stats, double confidence, bool runs) {
    const double finite = (double)tmk_stats_finite(stats),
                 others = finite - (double)(stats->zeros + stats->negative_zeros),
                 n = (double)count_bins(stats) / (runs ? TMK_RUN : 1);
    if (others == 0 || (!runs && n == others) || !tmk_stats_is_thinned(stats))
        return 0;
    return fmin(1, others / finite * sqrt(log(2 / (1 - confidence)) / (2 * n)));
}

/* Of how many elements, in order, the ends are looked for. Sums of counts are below 2^53, so exact
 * where the weight is 1. */
struct rank {
    double number; /* counted from 0 */
    double weight; /* of an element in a bin */
};

/* The element of this rank: its bin's ends. */
static void find_signed(const struct tmk_stats *stats, const struct rank *rank, double *lo,
                        double *hi) {
    struct cursor cursor = {stats, TMK_OCTAVES, false, {{0}, {0}}};
    double before = 0;
    for (unsigned bin = 0xff7f; bin >= 0x8000; bin--) {
        before += (double)count_at(&cursor, bin) * rank->weight;
        if (before > rank->number) {
            span_ends(stats, (uint16_t)bin, lo, hi);
            return;
        }
    }
    before += (double)(stats->zeros + stats->negative_zeros);
    if (before > rank->number) {
        *lo = *hi = 0;
        return;
    }
    for (unsigned bin = 0; bin < 0x7f80; bin++) {
        before += (double)count_at(&cursor, bin) * rank->weight;
        if (before > rank->number) {
            span_ends(stats, (uint16_t)bin, lo, hi);
            return;
        }
    }
}

static double largest_magnitude(const struct tmk_stats *stats) {
    return fmax(fabs((double)tmk_float_of_key(stats->min.key)),
                fabs((double)tmk_float_of_key(stats->max.key)));
}

static void find_absolute(const struct tmk_stats *stats, const struct rank *rank, double *lo,
                          double *hi) {
    struct cursor positive = {stats, TMK_OCTAVES, false, {{0}, {0}}}, negative = positive;
    const double largest = largest_magnitude(stats);
    double before = (double)(stats->zeros + stats->negative_zeros);
    if (before > rank->number) {
        *lo = *hi = 0;
        return;
    }
    for (unsigned bin = 0; bin < 0x7f80; bin++) {
        const uint64_t count = count_at(&positive, bin) + count_at(&negative, bin | 0x8000u);
        before += (double)count * rank->weight;
        if (before > rank->number) {
            uint32_t head = bin << 16;
            *lo = magnitude_of(head ? head : 1);
            *hi = fmin(magnitude_of(head + 0xffffu), largest);
            return;
        }
    }
}

/* Where no bin tells: an extreme, which is known of thinned states, too. */
static void find_end(const struct tmk_stats *stats, bool upper, bool absolute, double *lo,
                     double *hi) {
    *lo = *hi = absolute ? (upper ? largest_magnitude(stats) : 0)
                         : (double)tmk_float_of_key(upper ? stats->max.key : stats->min.key);
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
    uint64_t number = needed >= 1 ? (uint64_t)needed - 1 : 0;
    number = number < finite ? number : finite - 1;
    const struct rank rank = {(double)number, tmk_stats_weight(stats)};
    if (tmk_stats_is_thinned(stats)) {
        find_end(stats, q >= 0.5, absolute, &a, &b);
        if (number == 0 && !absolute)
            find_end(stats, false, false, &a, &b);
    }
    if (!tmk_stats_is_thinned(stats) || (number + 1 < finite && (number > 0 || absolute)))
        (absolute ? find_absolute : find_signed)(stats, &rank, &a, &b);
    *lo = a;
    *hi = b;
    /* the harmonic mean has the smallest worst relative error */
    *mid = a < b ? 2 * a * b / (a + b) : a;
    return TMK_OK;
}

struct linear {
    double lo, width; /* of a part */
    double weight;    /* of an element in a bin of ours */
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
static void spread_bin(const struct linear *h, const struct tmk_stats *stats,
                       const struct tmk_wide *bin, bool absolute) {
    double lo, hi, mean = tmk_bin_mean(bin->bin, bin->count, bin->low);
    span_ends(stats, bin->bin, &lo, &hi);
    double half = fmax(0, fmin(mean - lo, hi - mean));
    if (absolute)
        mean = fabs(mean);
    spread_count(h, mean - half, mean + half, (double)bin->count * h->weight);
}

enum tmk_status tmk_stats_linear(const struct tmk_stats *stats, bool absolute, double lo, double hi,
                                 size_t bins, double *out, struct tmk_diag *diag) {
    TMK_TRY(needs_histogram(stats, diag));
    struct linear h = {lo, (hi - lo) / (double)bins, tmk_stats_weight(stats), bins, out};
    if (!isfinite(lo) || !isfinite(hi) || !(lo < hi) || bins == 0 || !(h.width > 0) ||
        !isfinite(h.width))
        return tmk_fail(diag, TMK_ARGUMENT, "%zu bins over [%g, %g] are no histogram", bins, lo,
                        hi);
    for (size_t i = 0; i < bins; i++)
        out[i] = 0;
    spread_count(&h, 0, 0, (double)(stats->zeros + stats->negative_zeros));
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    while (tmk_next_bin(&walk, &one))
        spread_bin(&h, stats, &one, absolute);
    return TMK_OK;
}

struct moments {
    struct tmk_exact sum;                    /* in units of 2^-149 */
    struct tmk_exact squares_lo, squares_hi; /* in units of 2^-298 */
};

/* Of one octave, whose bins share sign and shift: a state's elements are too few to overflow. */
struct octave_moments {
    tmk_u128 sum, squares_lo, squares_hi;
};

/* The bracket of the standard deviation, from that of the squares. */
static void fill_spread(const struct moments *m, struct tmk_summary *s) {
    const double n = (double)s->finite, rounding = 0x1p-50; /* of what is below */
    const struct tmk_exact lo = tmk_exact_scatter(&m->sum, &m->squares_lo, s->finite),
                           hi = tmk_exact_scatter(&m->sum, &m->squares_hi, s->finite);
    const double min = tmk_exact_round(&lo, -298, TMK_DOWNWARDS),
                 most = tmk_exact_round(&hi, -298, TMK_UPWARDS);
    s->std_lo = sqrt(min) / n * (1 - rounding);
    s->std_hi = sqrt(most) / n * (1 + rounding);
    /* numbers spread evenly over a bin have a third of the variance of all at its ends */
    s->variance = (min + (most - min) / 3) / n / n;
    s->std = sqrt(s->variance);
}

/* Adds one bin: elements v = edge + l with edge = base + first, whole l in [0, width] and known sum
 * of l. Then sum v^2 = count edge^2 + 2 edge (sum l) + sum l^2, and the last term is smallest when
 * the l are as equal as whole numbers can be, and largest when all but one are 0 or width. */
static void add_bin(struct octave_moments *m, const struct tmk_span *span, uint64_t count,
                    uint64_t low, const uint64_t *squares) {
    uint64_t edge = (uint64_t)span->base + span->first;
    uint64_t l = low - count * span->first;
    m->sum += (tmk_u128)count * edge + l;
    tmk_u128 known = (tmk_u128)count * edge * edge + (tmk_u128)2 * edge * l;
    tmk_u128 min, max;
    tmk_span_squares(span, count, l, &min, &max);
    if (squares) /* of the dropped bits, which are l + first */
        min = max = *squares - span->first * (2 * (tmk_u128)l + (tmk_u128)count * span->first);
    m->squares_lo += known + min;
    m->squares_hi += known + max;
}

static void add_octave(struct moments *m, const struct octave_moments *more,
                       const struct tmk_span *span) {
    tmk_exact_add(&m->sum, more->sum, span->shift, span->negative);
    tmk_exact_add(&m->squares_lo, more->squares_lo, 2 * span->shift, false);
    tmk_exact_add(&m->squares_hi, more->squares_hi, 2 * span->shift, false);
}

static void fill_moments(const struct moments *m, struct tmk_summary *s) {
    s->sum = tmk_exact_round(&m->sum, -149, TMK_TO_NEAREST);
    s->sumsq_lo = tmk_exact_round(&m->squares_lo, -298, TMK_DOWNWARDS);
    s->sumsq_hi = tmk_exact_round(&m->squares_hi, -298, TMK_UPWARDS);
    s->sumsq_est = s->sumsq_lo + (s->sumsq_hi - s->sumsq_lo) / 3;
    if (s->finite == 0) {
        s->mean = s->variance = s->std = s->std_lo = s->std_hi = NAN;
        return;
    }
    s->mean = s->sum / (double)s->finite;
    fill_spread(m, s);
}

/* Of a thinned state, from those of the elements that were counted. The mean and the share of zeros
 * are of all, so only the spread of those that are no zeros is estimated. */
static void fill_thinned(const struct tmk_stats *stats, const struct moments *m,
                         struct tmk_summary *s) {
    const double n = (double)s->counted, all = (double)s->finite, others = all - (double)s->zeros,
                 rounding = 0x1p-40;
    const float most = -s->min > s->max ? -s->min : s->max;
    struct tmk_summary of_counted = {.finite = s->counted};
    struct moments bounds = *m;
    fill_moments(m, &of_counted);
    s->sum = tmk_exact_round(&stats->sum, -149, TMK_TO_NEAREST);
    if (s->finite == 0) {
        fill_moments(&bounds, s);
        return;
    }
    const uint32_t bits = tmk_bits_of_float(most) & 0x7fffffffu, exponent = bits >> 23;
    const uint64_t mantissa = (bits & 0x7fffffu) | (exponent ? 0x800000u : 0);
    tmk_exact_add(&bounds.squares_hi,
                  (tmk_u128)(mantissa * mantissa) * (s->finite - s->zeros - s->counted),
                  exponent ? 2 * (exponent - 1) : 0, false);
    s->sumsq_lo = tmk_exact_round(&bounds.squares_lo, -298, TMK_DOWNWARDS);
    s->sumsq_hi = tmk_exact_round(&bounds.squares_hi, -298, TMK_UPWARDS);
    s->mean = s->sum / all;
    const double of_others = others > 0 ? s->sum / others : 0, share = others / all,
                 inside = n > 0 ? of_counted.variance : 0,
                 slack = rounding * fmax(fabs((double)s->min), fabs((double)s->max));
    s->variance = share * (inside + (1 - share) * of_others * of_others);
    s->std = sqrt(s->variance);
    /* the counted ones' own scatter, and that of zeros, is there; and no numbers between two ends
     * scatter more than those at the ends only */
    const double inner = n > 0 ? of_counted.std_lo * of_counted.std_lo * n : 0;
    s->std_lo = sqrt((inner + (double)s->zeros * s->mean * s->mean) / all) * (1 - rounding);
    s->std_hi = sqrt(((double)s->max - s->mean + slack) * (s->mean - (double)s->min + slack));
    s->sumsq_est = fmin(fmax(all * (s->variance + s->mean * s->mean), s->sumsq_lo), s->sumsq_hi);
    s->std = fmin(fmax(s->std, s->std_lo), s->std_hi);
    s->variance = s->std * s->std;
}

static void fill_facts(const struct tmk_stats *stats, struct tmk_summary *s) {
    s->level = stats->level;
    s->count = stats->count;
    s->nan = stats->nan;
    s->posinf = stats->posinf;
    s->neginf = stats->neginf;
    s->excluded = stats->excluded;
    s->padding = stats->padding;
    s->zeros = stats->zeros + stats->negative_zeros;
    s->negative_zeros = stats->negative_zeros;
    s->samples = stats->samples;
    s->updates = stats->updates;
    s->share = tmk_stats_is_thinned(stats) ? stats->share : 0;
    memcpy(s->exact_sum, stats->sum.word, sizeof s->exact_sum);
    s->finite = tmk_stats_finite(stats);
    s->min = s->finite ? tmk_float_of_key(stats->min.key) : NAN;
    s->max = s->finite ? tmk_float_of_key(stats->max.key) : NAN;
    s->min_at = stats->min.at;
    s->max_at = stats->max.at;
    s->first_nonfinite = stats->first_nonfinite;
    const struct tmk_channels *channels = &stats->channels;
    bool known = channels->kind == TMK_CHANNELS_KNOWN;
    s->channel_conflict = channels->kind == TMK_CHANNELS_CONFLICT;
    s->channel_axis = known ? channels->axis : -1;
    s->channels = known ? channels->count : 0;
    s->channel_min = known ? channels->min : NULL;
    s->channel_max = known ? channels->max : NULL;
}

void tmk_stats_quick_summary(const struct tmk_stats *stats, struct tmk_summary *out) {
    struct tmk_summary s = {0};
    fill_facts(stats, &s);
    *out = s;
}

void tmk_stats_summary(const struct tmk_stats *stats, struct tmk_summary *out) {
    struct tmk_summary s = {0};
    struct moments moments = {0};
    struct tmk_octave octave;
    unsigned bins = tmk_stats_bins_an_octave(stats->level);
    const bool narrow = tmk_stats_is_narrow(stats);
    fill_facts(stats, &s);
    s.squares_kept = narrow;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(stats, o, &octave))
            continue;
        struct octave_moments together = {0};
        struct tmk_span span = {0};
        for (unsigned i = 0; i < bins; i++) {
            uint64_t count = octave.count[i];
            if (!count || !tmk_span_of(stats->level, (uint16_t)(o * TMK_OCTAVE + i), &stats->min,
                                       &stats->max, &span))
                continue;
            s.bins_used++;
            s.counted += count;
            s.denormals += o % (TMK_OCTAVES / 2) == 0 ? count : 0;
            s.negatives += span.negative ? count : 0;
            add_bin(&together, &span, count, octave.low[i], narrow ? &octave.squares[i] : NULL);
        }
        add_octave(&moments, &together, &span);
    }
    if (tmk_stats_is_thinned(stats))
        fill_thinned(stats, &moments, &s);
    else if (tmk_stats_has_bins(stats->level))
        fill_moments(&moments, &s);
    else
        s.sum = s.mean = s.sumsq_lo = s.sumsq_hi = s.sumsq_est = s.variance = s.std = s.std_lo =
            s.std_hi = NAN;
    *out = s;
}

bool tmk_summary_std_is_close(const struct tmk_summary *s) {
    const double slack = 1e-5 * s->std_lo;
    return !(s->std - s->std_lo > slack) && !(s->std_hi - s->std > slack);
}

void tmk_stats_bins(const struct tmk_stats *stats, uint16_t *bin, uint64_t *count, uint64_t *low) {
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    for (size_t i = 0; tmk_next_bin(&walk, &one); i++) {
        bin[i] = one.bin;
        count[i] = one.count;
        low[i] = one.low;
    }
}

bool tmk_stats_squares(const struct tmk_stats *stats, uint64_t *squares) {
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    if (!tmk_stats_is_narrow(stats))
        return false;
    for (size_t i = 0; tmk_next_bin(&walk, &one); i++)
        squares[i] = one.squares;
    return true;
}

/* The Jensen-Shannon distance of two histograms (Endres, Schindelin 2003: the root is a metric). */

struct part {
    const struct tmk_stats *stats;
    double weight; /* of a count */
    double all;    /* elements that are counted here */
    double others[4];
};

static enum tmk_status part_of(const struct tmk_stats *stats, struct part *out,
                               struct tmk_diag *diag) {
    *out = (struct part){stats,
                         tmk_stats_weight(stats),
                         (double)(stats->count - stats->excluded),
                         {(double)(stats->zeros + stats->negative_zeros), (double)stats->nan,
                          (double)stats->posinf, (double)stats->neginf}};
    return out->all > 0 ? TMK_OK : tmk_fail(diag, TMK_NOTFOUND, "there are no elements to compare");
}

/* A bin's part of twice the divergence, in bits. */
static double divergence_term(double p, double q) {
    const double m = (p + q) / 2;
    return (p > 0 ? p * log2(p / m) : 0) + (q > 0 ? q * log2(q / m) : 0);
}

static double sum_divergence(const struct part *a, const struct part *b) {
    struct tmk_bin_walk of_a = {.stats = a->stats}, of_b = {.stats = b->stats};
    struct tmk_wide x = {0}, y = {0};
    bool more_a = tmk_next_bin(&of_a, &x), more_b = tmk_next_bin(&of_b, &y);
    double sum = 0;
    while (more_a || more_b) {
        const bool take_a = more_a && (!more_b || x.bin <= y.bin);
        const bool take_b = more_b && (!more_a || y.bin <= x.bin);
        sum += divergence_term(take_a ? (double)x.count * a->weight / a->all : 0,
                               take_b ? (double)y.count * b->weight / b->all : 0);
        more_a = take_a ? tmk_next_bin(&of_a, &x) : more_a;
        more_b = take_b ? tmk_next_bin(&of_b, &y) : more_b;
    }
    for (int i = 0; i < 4; i++)
        sum += divergence_term(a->others[i] / a->all, b->others[i] / b->all);
    return sum / 2;
}

enum tmk_status tmk_stats_distance(const struct tmk_stats *a, const struct tmk_stats *b,
                                   double *out, struct tmk_diag *diag) {
    struct part x, y;
    if (a->level != b->level)
        return tmk_fail(diag, TMK_MISMATCH, "one has a histogram, the other extremes only");
    if (!tmk_stats_has_bins(a->level))
        return tmk_fail(diag, TMK_UNSUPPORTED, "without bins there is no distance");
    TMK_TRY(part_of(a, &x, diag));
    TMK_TRY(part_of(b, &y, diag));
    *out = sqrt(fmin(fmax(sum_divergence(&x, &y), 0), 1));
    return TMK_OK;
}
