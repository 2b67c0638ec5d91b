/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of float32 in double, with one fixed order: element i goes to lane i % TMK_SUM_LANES, and
 * the lanes are added in ascending order. */
#pragma once

#include <stddef.h>

enum { TMK_SUM_LANES = 8 };

/* The sum of (x[i] - mean)^power, power 1 or 2. */
static inline double tmk_sum_power(const float *x, size_t n, double mean, int power) {
    double lanes[TMK_SUM_LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + TMK_SUM_LANES <= n; i += TMK_SUM_LANES)
        for (size_t l = 0; l < TMK_SUM_LANES; l++) {
            double d = (double)x[i + l] - mean;
            lanes[l] += power == 2 ? d * d : d;
        }
    for (size_t l = 0; i + l < n; l++) {
        double d = (double)x[i + l] - mean;
        lanes[l] += power == 2 ? d * d : d;
    }
    for (size_t l = 0; l < TMK_SUM_LANES; l++)
        sum += lanes[l];
    return sum;
}

static inline double tmk_sum(const float *x, size_t n) {
    return tmk_sum_power(x, n, 0, 1);
}

static inline double tmk_sum_squares(const float *x, size_t n) {
    return tmk_sum_power(x, n, 0, 2);
}
