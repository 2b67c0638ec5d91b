/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "stats/exact.h"
#include "stats/span.h"

struct moments {
    struct tmk_exact sum;                    /* in units of 2^-149 */
    struct tmk_exact squares_lo, squares_hi; /* in units of 2^-298 */
};

/* Of one octave, whose bins share sign and shift: a state holds too few elements for an overflow.
 */
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
    /* numbers spread evenly over a bin have a third of the variance that all at its ends would have
     */
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

static void fill_facts(const struct tmk_stats *stats, struct tmk_summary *s) {
    s->level = stats->level;
    s->count = stats->count;
    s->nan = stats->nan;
    s->posinf = stats->posinf;
    s->neginf = stats->neginf;
    s->excluded = stats->excluded;
    s->zeros = stats->zeros + stats->negative_zeros;
    s->negative_zeros = stats->negative_zeros;
    s->samples = stats->samples;
    s->updates = stats->updates;
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
            s.denormals += o % (TMK_OCTAVES / 2) == 0 ? count : 0;
            s.negatives += span.negative ? count : 0;
            add_bin(&together, &span, count, octave.low[i], narrow ? &octave.squares[i] : NULL);
        }
        add_octave(&moments, &together, &span);
    }
    if (tmk_stats_has_bins(stats->level))
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
    struct tmk_octave octave;
    size_t used = 0;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(stats, o, &octave))
            continue;
        for (unsigned i = 0; i < tmk_stats_bins_an_octave(stats->level); i++) {
            if (!octave.count[i])
                continue;
            bin[used] = (uint16_t)(o * TMK_OCTAVE + i);
            count[used] = octave.count[i];
            low[used++] = octave.low[i];
        }
    }
}

bool tmk_stats_squares(const struct tmk_stats *stats, uint64_t *squares) {
    struct tmk_octave octave;
    size_t used = 0;
    if (!tmk_stats_is_narrow(stats))
        return false;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(stats, o, &octave))
            continue;
        for (unsigned i = 0; i < TMK_OCTAVE; i++)
            if (octave.count[i])
                squares[used++] = octave.squares[i];
    }
    return true;
}
