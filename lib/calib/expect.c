/* SPDX-License-Identifier: Apache-2.0 */
/* What a scale and a zero point do to a histogram.
 *
 * The error of rounding x to the nearest number v of the grid, e(x) = (x - v)^2, is a parabola in
 * the cell of each v; the outermost cells have no end. Elements of a bin with mean m have a sum of
 * errors between count * (convex hull of e below) and count * (concave hull above) at m: the hulls
 * over the bin are made of e at the bin's ends and at the borders of cells in it. */
#include <math.h>

#include "calib/method.h"

/* A grid of reals. Integers k have the numbers step * k, float8 the type's own times step. */
struct lattice {
    enum tmk_dtype dtype;
    bool is_float8;
    double step, least, most; /* least <= k <= most */
};

static struct lattice lattice_of(const struct tmk_grid *grid, double scale, int32_t zero_point) {
    struct lattice lattice = {.dtype = grid->dtype, .step = scale};
    int32_t lowest, highest;
    lattice.is_float8 = !tmk_grid_codes(grid, &lowest, &highest);
    if (lattice.is_float8) {
        lattice.most = tmk_grid_float8_max(grid->dtype);
        lattice.least = -lattice.most;
    } else {
        lattice.most = (double)highest - zero_point;
        lattice.least = (double)lowest - zero_point;
    }
    return lattice;
}

static double nearest_code(const struct lattice *lattice, double x) {
    double k = x / lattice->step;
    if (lattice->is_float8)
        return tmk_grid_float8_nearest(lattice->dtype, k) * lattice->step;
    k = k < lattice->least ? lattice->least : k;
    k = k > lattice->most ? lattice->most : k;
    return rint(k) * lattice->step;
}

static double square_of(double x) {
    return x * x;
}

/* The cells that [a, b] meets. */
struct cells {
    double from, to;    /* the numbers that a and b become; equal: one cell */
    double first, last; /* borders behind the cell of `from` and before that of `to` */
    double inner;       /* the integral of e from first to last */
};

/* Of float8, whose steps are wider than bins everywhere, no more than two cells are met. */
static struct cells cells_of(const struct lattice *lattice, double a, double b) {
    struct cells cells = {.from = nearest_code(lattice, a), .to = nearest_code(lattice, b)};
    if (lattice->is_float8) {
        cells.first = cells.last = (cells.from + cells.to) / 2;
    } else {
        cells.first = cells.from + lattice->step / 2;
        cells.last = cells.to - lattice->step / 2;
        cells.inner = (cells.last - cells.first) * square_of(lattice->step) / 12;
    }
    return cells;
}

/* The mean of e over mean +- half. */
static double mean_error(const struct lattice *lattice, double mean, double half) {
    double a = mean - half, b = mean + half;
    struct cells cells = cells_of(lattice, a, b);
    if (cells.from == cells.to)
        return square_of(mean - cells.from) + half * half / 3;
    double start = cells.first - cells.from, end = cells.last - cells.to;
    double a_off = a - cells.from, b_off = b - cells.to;
    double ends = (start * start * start - a_off * a_off * a_off) / 3 +
                  (b_off * b_off * b_off - end * end * end) / 3;
    return (ends + cells.inner) / (2 * half);
}

static double chord_at(double x0, double y0, double x1, double y1, double x) {
    return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : fmax(y0, y1);
}

static double hull_above(const struct cells *cells, double lo, double hi, double mean) {
    double at_lo = square_of(lo - cells->from), at_hi = square_of(hi - cells->to);
    if (cells->from == cells->to)
        return chord_at(lo, at_lo, hi, at_hi, mean);
    double peak = square_of(cells->first - cells->from);
    peak = fmax(peak, square_of(cells->last - cells->to));
    /* an end far out in a cell without end: max(peak, e) is convex */
    if (at_lo > peak || at_hi > peak)
        return chord_at(lo, fmax(at_lo, peak), hi, fmax(at_hi, peak), mean);
    if (mean < cells->first)
        return chord_at(lo, at_lo, cells->first, peak, mean);
    if (mean > cells->last)
        return chord_at(cells->last, peak, hi, at_hi, mean);
    return peak;
}

/* A convex function below e; not always the largest. */
static double hull_below(const struct cells *cells, double lo, double hi, double mean) {
    if (cells->from == cells->to || mean < cells->from)
        return square_of(mean - cells->from);
    if (mean > cells->to)
        return square_of(mean - cells->to);
    bool holds_number = lo <= cells->from || hi >= cells->to ||
                        cells->last - cells->first > cells->first - cells->from;
    return holds_number ? 0 : fmin(square_of(lo - cells->from), square_of(hi - cells->to));
}

double tmk_expect_mse(const struct tmk_spread *spread, const struct tmk_grid *grid, double scale,
                      int32_t zero_point) {
    struct lattice lattice = lattice_of(grid, scale, zero_point);
    double sum = 0;
    for (uint32_t i = 0; i < spread->n; i++)
        sum += spread->count[i] * mean_error(&lattice, spread->mean[i], tmk_spread_half(spread, i));
    return sum / spread->finite;
}

/* Elements with more than half a step of error, or what the bins say of how many they are. */
struct clipped {
    double end; /* a magnitude: those beyond it, towards larger ones */
    double expected, least, most;
};

/* A bin [lo, hi], mirrored where the end is on the negative side. */
static void add_clipped(struct clipped *clipped, double lo, double hi, double mean, double half,
                        double count) {
    double end = clipped->end;
    if (hi <= end)
        return;
    if (lo > end) {
        clipped->expected += count;
        clipped->least += count;
        clipped->most += count;
        return;
    }
    /* a share f at hi and the rest at `end` has at least this mean; a share f at `end`, the rest
     * at lo, at most */
    clipped->least += mean > end ? count * (mean - end) / (hi - end) : 0;
    clipped->most += mean < end ? count * (mean - lo) / (end - lo) : count;
    double share = half > 0 ? (mean + half - end) / (2 * half) : mean > end;
    clipped->expected += count * (share < 0 ? 0 : share > 1 ? 1 : share);
}

/* How many disjoint ranges of codes there are, from left to right. */
struct used {
    double last;
    uint32_t n;
};

static void mark_used(struct used *used, double from, double to) {
    if (used->n && from <= used->last)
        return;
    used->n++;
    used->last = to;
}

void tmk_expect(const struct tmk_spread *spread, const struct tmk_grid *grid, float scale,
                int32_t zero_point, struct tmk_expectation *out) {
    struct lattice lattice = lattice_of(grid, (double)scale, zero_point);
    double least = lattice.least * lattice.step, most = lattice.most * lattice.step;
    double step = lattice.step;
    if (lattice.is_float8)
        step *= tmk_grid_float8_last_step(grid->dtype);
    struct clipped above = {.end = most + step / 2}, below = {.end = step / 2 - least};
    struct used used = {0};
    double sum = 0, low = 0, high = 0, finite = spread->finite;
    bool zeros_are_due = spread->zeros > 0;
    for (uint32_t i = 0; i < spread->n; i++) {
        double lo = spread->lo[i], hi = spread->hi[i], mean = spread->mean[i];
        double count = spread->count[i], half = tmk_spread_half(spread, i);
        struct cells cells = cells_of(&lattice, lo, hi);
        sum += count * mean_error(&lattice, mean, half);
        low += count * hull_below(&cells, lo, hi, mean);
        high += count * hull_above(&cells, lo, hi, mean);
        add_clipped(&above, lo, hi, mean, half, count);
        add_clipped(&below, -hi, -lo, -mean, half, count);
        if (zeros_are_due && lo >= 0) {
            mark_used(&used, 0, 0);
            zeros_are_due = false;
        }
        mark_used(&used, cells.from, cells.to);
    }
    if (zeros_are_due)
        mark_used(&used, 0, 0);
    /* Dividing and multiplying in float32 moves each element's error by no more than this; so the
     * root of the mean square too. The last factor stands for the sums above. */
    double most_off = fmax(fabs((double)spread->min), fabs((double)spread->max)) * 0x1p-22;
    double root_low = fmax(0, sqrt(low / finite) - most_off);
    double root_high = sqrt(high / finite) + most_off;
    *out = (struct tmk_expectation){
        .mse = sum / finite,
        .mse_low = root_low * root_low * (1 - 0x1p-36),
        .mse_high = root_high * root_high * (1 + 0x1p-36),
        .clipped = (above.expected + below.expected) / finite,
        .clipped_low = (above.least + below.least) / finite,
        .clipped_high = (above.most + below.most) / finite,
        .codes = used.n,
    };
    out->sqnr = out->mse > 0 ? 10 * log10(spread->square / out->mse) : HUGE_VAL;
}
