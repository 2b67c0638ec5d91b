/* SPDX-License-Identifier: Apache-2.0 */
/* The range whose grid costs least on the histogram (calib/mse.c). */
#pragma once

#include "calib/method.h"

/* What a range costs beyond the squared error of all elements. */
struct tmk_range_cost {
    double weight; /* at least 1: the squared error of clipped elements counts so many times */
    /* Samples that were not seen are expected to exceed the max (0), and the min (1), by an
     * exponentially distributed distance with this mean, and this costs `unseen` times its mean
     * square beyond the range. 0: no such elements; also where max is not above, or min not below
     * zero. */
    double tail[2];
    double unseen;
};

/* more: NULL, only the squared error. Errors: TMK_NOMEM, those of tmk_grid_fit. */
enum tmk_status tmk_search_range(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                 const struct tmk_range_cost *more, struct tmk_clip_choice *out,
                                 struct tmk_diag *diag);
/* Of a range that is to suit more samples than those that were seen. */
double tmk_clip_weight(uint64_t samples);

/* How far a histogram reaches beyond a threshold: what makes the mean squared error of a grid a
 * short sum.
 *
 * One side of zero, magnitudes x. Rounding x to the numbers 0, s, 2s ... Js, with borders b_j =
 * (j - 1/2) s between them, costs
 *     x^2 - sum over j <= J of 2s * max(0, x - b_j)
 * as one sees by adding up; so all elements together cost
 *     square - 2s * sum over j <= J of excess(b_j),   excess(b) = sum of max(0, x - b).
 * `excess` is a function of the histogram alone: it is looked up, for every s and J. */

struct tmk_excess_bin;

struct tmk_excess {
    double square; /* the sum of x^2 */
    double most;   /* no element is larger; 0: there is none */
    /* bin numbers of doubles (upper bits: sign, exponent, 7 of the mantissa) first ... first + n */
    uint64_t first;
    uint32_t n;
    struct tmk_excess_bin *bins;
};

/* Thresholds below this part of the largest magnitude are not looked up exactly. */
#define TMK_EXCESS_MIN 0x1p-25

/* Of the positive elements, or of the negative ones. End with finish. */
enum tmk_status tmk_excess_make(const struct tmk_spread *spread, bool negative,
                                struct tmk_excess *out, struct tmk_diag *diag);
void tmk_excess_finish(struct tmk_excess *excess);

/* Sums of max(0, x - b)^2, of max(0, x - b), and the number of x > b; b > 0. */
double tmk_excess_square(const struct tmk_excess *excess, double b);
double tmk_excess_beyond(const struct tmk_excess *excess, double b);
double tmk_excess_count(const struct tmk_excess *excess, double b);

/* *to becomes the least threshold at or above it, in steps of 2 % and never above `most`, where
 * clipping magnitudes costs at most the geometric mean of what clipping at `most` costs and of the
 * least that any of these thresholds does; then *from, below *to. `sides` are made of the positive
 * and of the negative elements. Errors: those of tmk_grid_fit. */
enum tmk_status tmk_widen_thresholds(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                     const struct tmk_range_cost *more,
                                     const struct tmk_excess sides[2], double most, double *from,
                                     double *to, struct tmk_diag *diag);
