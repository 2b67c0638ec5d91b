/* SPDX-License-Identifier: Apache-2.0 */
#include "link/fit.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"

enum { LEAST_POINTS = 10 }; /* 8 more than unknowns */

/* What float32 arithmetic leaves of a number, of the largest that took part. */
static const double rounding = 4e-7;

/* ---- equal ---- */

bool tmk_link_same(const float *x, const float *y, size_t n, double *residual) {
    double min = INFINITY, most = -INFINITY, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        if (!isfinite(a) || !isfinite(b)) {
            if (!(a == b || (isnan(a) && isnan(b))))
                return false;
            continue;
        }
        min = fmin(min, a);
        most = fmax(most, a);
        worst = fmax(worst, fabs(a - b));
    }
    double range = most - min, largest = fmax(fabs(min), fabs(most));
    if (!(range > 0) || worst > fmax(TMK_LINK_TOLERANCE * range, rounding * largest))
        return false;
    *residual = worst / range;
    return true;
}

bool tmk_link_near(const float *x, const float *y, size_t n, double tolerance, double *residual) {
    double first = NAN, sum = 0, squares = 0, off = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        if (!isfinite(a) || !isfinite(b)) {
            if (!(a == b || (isnan(a) && isnan(b))))
                return false;
            continue;
        }
        first = isnan(first) ? a : first; /* near the mean: squares keep their digits */
        sum += a - first;
        squares += (a - first) * (a - first);
        off += (a - b) * (a - b);
        count++;
    }
    double variance = count > 0 ? (squares - sum * sum / count) / count : 0;
    if (!(variance > 0))
        return false;
    *residual = sqrt(off / count / variance);
    return *residual <= tolerance;
}

/* ---- affine ---- */

struct channel {
    double scale, shift, residual;
    bool seen; /* something was to be seen */
    bool lost;
};

struct extent {
    double min, most;
};

static struct extent extent_of(const float *x, size_t n, size_t step) {
    struct extent e = {INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        double a = (double)x[i * step];
        if (!isfinite(a))
            return (struct extent){NAN, NAN};
        e.min = fmin(e.min, a);
        e.most = fmax(e.most, a);
    }
    return e;
}

static double largest_of(struct extent e) {
    return fmax(fabs(e.min), fabs(e.most));
}

bool tmk_link_varies(double min, double most, double largest) {
    double own = fmax(fabs(min), fabs(most));
    return most - min > 1e-4 * own && most - min > 1e-5 * largest;
}

static double worst_of(const float *x, const float *y, size_t n, size_t step, double scale,
                       double shift) {
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(scale * (double)x[i * step] + shift - (double)y[i * step]));
    return worst;
}

/* n points, `step` apart; x_largest and y_largest of all channels. */
static bool fit_channel(const float *x, const float *y, size_t n, size_t step, double x_largest,
                        double y_largest, struct channel *out) {
    struct extent ex = extent_of(x, n, step), ey = extent_of(y, n, step);
    if (isnan(ex.min) || isnan(ey.min))
        return false;
    bool x_varies = tmk_link_varies(ex.min, ex.most, x_largest),
         y_varies = tmk_link_varies(ey.min, ey.most, y_largest);
    if (!x_varies) {
        *out = (struct channel){.scale = 1, .shift = (ey.min + ey.most - ex.min - ex.most) / 2};
        return !y_varies;
    }
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += (double)x[i * step];
        mean_y += (double)y[i * step];
    }
    mean_x /= (double)n;
    mean_y /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double dx = (double)x[i * step] - mean_x;
        xx += dx * dx;
        xy += dx * ((double)y[i * step] - mean_y);
    }
    double scale = y_varies ? xy / xx : 0, shift = mean_y - scale * mean_x;
    double worst = worst_of(x, y, n, step, scale, shift), range = ey.most - ey.min;
    double noise = rounding * (largest_of(ey) + fabs(scale) * largest_of(ex));
    *out = (struct channel){scale, shift, y_varies ? worst / range : 0, true, !y_varies};
    return !y_varies || worst <= TMK_LINK_TOLERANCE * range + noise;
}

/* One scale and one shift for all, if that fits as well. */
static void collapse_fit(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y, size_t n,
                         struct tmk_link_fit *fit) {
    struct channel all;
    size_t count = n * x->channels;
    struct extent ex = extent_of(x->x, count, 1), ey = extent_of(y->x, count, 1);
    if (fit->n == 1 || fit->lost ||
        !fit_channel(x->x, y->x, count, 1, largest_of(ex), largest_of(ey), &all) || !all.seen)
        return;
    for (uint32_t c = 0; c < fit->n; c++)
        if (fabs(fit->scale[c] - all.scale) > 1e-3 * fabs(all.scale))
            return;
    fit->n = 1;
    fit->seen[0] = true;
    fit->scale[0] = all.scale;
    fit->shift[0] = all.shift;
    fit->residual = all.residual;
}

static bool fit_all(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y, size_t n,
                    struct tmk_link_fit *fit) {
    size_t channels = x->channels, seen = 0, count = n * channels;
    double x_largest = largest_of(extent_of(x->x, count, 1)),
           y_largest = largest_of(extent_of(y->x, count, 1));
    for (size_t c = 0; c < channels; c++) {
        struct channel channel;
        if (!fit_channel(x->x + c, y->x + c, n, channels, x_largest, y_largest, &channel))
            return false;
        seen += channel.seen && !channel.lost;
        fit->lost = fit->lost || channel.lost;
        fit->seen[c] = channel.seen;
        fit->scale[c] = channel.scale;
        fit->shift[c] = channel.shift;
        fit->residual = fmax(fit->residual, channel.residual);
    }
    return seen > 0 && seen * 2 >= channels;
}

/* The same numbers, of which one side computes less exactly: no optimiser scales by so little. A
 * bias may be as small, but leaves the scale at 1. */
static bool is_nearly_same(const struct tmk_link_matrix *y, size_t n,
                           const struct tmk_link_fit *fit) {
    const double little = 1e-3, exact = 1e-6;
    struct extent e = extent_of(y->x, n * y->channels, 1);
    bool scaled = false;
    for (uint32_t c = 0; c < fit->n; c++) {
        if (fit->seen[c] && !(fabs(fit->scale[c] - 1) <= little &&
                              fabs(fit->shift[c]) <= little * (e.most - e.min)))
            return false;
        scaled = scaled || (fit->seen[c] && fabs(fit->scale[c] - 1) > exact);
    }
    return scaled;
}

enum tmk_status tmk_link_fit(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y,
                             uint32_t batches, struct tmk_link_fit *out, struct tmk_diag *diag) {
    size_t n = (size_t)x->kept * batches, channels = x->channels;
    if (!channels || channels != y->channels || x->rows != y->rows || n < LEAST_POINTS)
        return TMK_NOTFOUND;
    struct tmk_link_fit fit = {.n = (uint32_t)channels, .points = n * channels};
    fit.scale = calloc(channels, sizeof *fit.scale);
    fit.shift = calloc(channels, sizeof *fit.shift);
    fit.seen = calloc(channels, sizeof *fit.seen);
    bool there = fit.scale && fit.shift && fit.seen,
         fits = there && fit_all(x, y, n, &fit) && !is_nearly_same(y, n, &fit);
    if (!fits) {
        tmk_link_fit_finish(&fit);
        return there ? TMK_NOTFOUND : tmk_nomem(diag);
    }
    collapse_fit(x, y, n, &fit);
    *out = fit;
    return TMK_OK;
}

void tmk_link_fit_finish(struct tmk_link_fit *fit) {
    free(fit->scale);
    free(fit->shift);
    free(fit->seen);
    *fit = (struct tmk_link_fit){0};
}
