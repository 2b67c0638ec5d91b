/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of weights from the weights themselves, not from a histogram. Thread-safe. */
#pragma once

#include "calib/method.h"

/* For weights whose numbers are known; not in calib/list.inc. */
extern const struct tmk_method tmk_method_l4;

/* Ranges that were found, for tmk_calibrate_by: the same weight is searched once for several
 * encodings of one model. NULL: no memory. */
struct tmk_weight_ranges *tmk_weight_ranges_create(void);
/* NULL is allowed. */
void tmk_weight_ranges_destroy(struct tmk_weight_ranges **known);

/* The sum over the n numbers, which are finite, of |x - code(x)|^power, power 2 or 4, under the
 * grid's scale for [low, high]; HUGE_VAL where that is no range. The codes are those that
 * tmk_grid_code computes. */
double tmk_weight_error(const float *x, size_t n, const struct tmk_grid *grid, int power, float low,
                        float high);
/* The range with the least such error of about `tries` ranges, and more around the best. It is
 * never worse than the min and max of the numbers, which *low and *high must be. */
void tmk_weight_search(const float *x, size_t n, const struct tmk_grid *grid, int power,
                       uint32_t tries, float *low, float *high);
/* The largest magnitude whose range, under the symmetric integer grid, has the least mean squared
 * error of the sum of n products by factors of this mean and variance: of `tries` ranges around
 * *high, which must be that of the numbers. */
void tmk_weight_search_sums(const float *x, size_t n, const struct tmk_grid *grid, double mean,
                            double variance, uint32_t tries, float *high);
