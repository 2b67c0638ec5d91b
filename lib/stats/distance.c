/* SPDX-License-Identifier: Apache-2.0 */
/* The Jensen-Shannon distance of two histograms (Endres and Schindelin 2003: its root is a metric).
 */
#include <math.h>
#include <stdlib.h>

#include <tidemark/stats.h>

#include "base/diag.h"

struct rows {
    uint32_t n;
    uint16_t *bin;
    uint64_t *count, *low;
    double all; /* elements that are counted here */
    double others[4];
};

static enum tmk_status rows_of(const struct tmk_stats *stats, struct rows *out,
                               struct tmk_diag *diag) {
    struct tmk_summary s;
    tmk_stats_summary(stats, &s);
    out->n = s.bins_used;
    out->bin = malloc((s.bins_used + 1) * sizeof *out->bin);
    out->count = malloc((s.bins_used + 1) * sizeof *out->count);
    out->low = malloc((s.bins_used + 1) * sizeof *out->low);
    if (!out->bin || !out->count || !out->low)
        return tmk_nomem(diag);
    tmk_stats_bins(stats, out->bin, out->count, out->low);
    out->others[0] = (double)s.zeros;
    out->others[1] = (double)s.nan;
    out->others[2] = (double)s.posinf;
    out->others[3] = (double)s.neginf;
    out->all = (double)(s.count - s.excluded);
    return out->all > 0 ? TMK_OK : tmk_fail(diag, TMK_NOTFOUND, "there are no elements to compare");
}

static void rows_finish(struct rows *rows) {
    free(rows->bin);
    free(rows->count);
    free(rows->low);
}

/* A bin's part of twice the divergence, in bits. */
static double divergence_term(double p, double q) {
    const double m = (p + q) / 2;
    return (p > 0 ? p * log2(p / m) : 0) + (q > 0 ? q * log2(q / m) : 0);
}

static double sum_divergence(const struct rows *a, const struct rows *b) {
    double sum = 0;
    for (uint32_t i = 0, k = 0; i < a->n || k < b->n;) {
        const bool take_a = i < a->n && (k >= b->n || a->bin[i] <= b->bin[k]);
        const bool take_b = k < b->n && (i >= a->n || b->bin[k] <= a->bin[i]);
        sum += divergence_term(take_a ? (double)a->count[i] / a->all : 0,
                               take_b ? (double)b->count[k] / b->all : 0);
        i += take_a;
        k += take_b;
    }
    for (int i = 0; i < 4; i++)
        sum += divergence_term(a->others[i] / a->all, b->others[i] / b->all);
    return sum / 2;
}

enum tmk_status tmk_stats_distance(const struct tmk_stats *a, const struct tmk_stats *b,
                                   double *out, struct tmk_diag *diag) {
    struct rows x = {0}, y = {0};
    if (tmk_stats_level_of(a) != tmk_stats_level_of(b))
        return tmk_fail(diag, TMK_MISMATCH, "one has a histogram, the other extremes only");
    if (tmk_stats_level_of(a) == TMK_STATS_MINMAX)
        return tmk_fail(diag, TMK_UNSUPPORTED, "without bins there is no distance");
    enum tmk_status status = rows_of(a, &x, diag);
    if (status == TMK_OK)
        status = rows_of(b, &y, diag);
    if (status == TMK_OK)
        *out = sqrt(fmin(fmax(sum_divergence(&x, &y), 0), 1));
    rows_finish(&x);
    rows_finish(&y);
    return status;
}
