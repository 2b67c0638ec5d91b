/* SPDX-License-Identifier: Apache-2.0 */
/* How far a histogram reaches beyond a threshold: what makes the mean squared error of a grid a
 * short sum.
 *
 * One side of zero, magnitudes x. Rounding x to the numbers 0, s, 2s ... Js, with borders b_j =
 * (j - 1/2) s between them, costs
 *     x^2 - sum over j <= J of 2s * max(0, x - b_j)
 * as one sees by adding up; so all elements together cost
 *     square - 2s * sum over j <= J of excess(b_j),   excess(b) = sum of max(0, x - b).
 * `excess` is a function of the histogram alone: it is looked up, for every s and J. */
#ifndef TMK_CALIB_EXCESS_H
#define TMK_CALIB_EXCESS_H

#include "calib/method.h"

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
TMK_NODISCARD enum tmk_status tmk_excess_make(const struct tmk_spread *spread, bool negative,
                                              struct tmk_excess *out, struct tmk_diag *diag);
void tmk_excess_finish(struct tmk_excess *excess);

/* Sums of max(0, x - b)^2, of max(0, x - b), and the number of x > b; b > 0. */
double tmk_excess_square(const struct tmk_excess *excess, double b);
double tmk_excess_beyond(const struct tmk_excess *excess, double b);
double tmk_excess_count(const struct tmk_excess *excess, double b);

#endif
