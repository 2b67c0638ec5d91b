/* SPDX-License-Identifier: Apache-2.0 */
/* The range whose grid costs least on the histogram (calib/mse.c). */
#ifndef TMK_CALIB_RANGE_COST_H
#define TMK_CALIB_RANGE_COST_H

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
TMK_NODISCARD enum tmk_status tmk_search_range(const struct tmk_spread *spread,
                                               const struct tmk_grid *grid,
                                               const struct tmk_range_cost *more,
                                               struct tmk_clip_choice *out, struct tmk_diag *diag);
/* The least threshold at or above *threshold, in steps of 2 % and never above `most`, where
 * clipping magnitudes costs at most the geometric mean of what clipping at `most` costs and of the
 * least that any of these thresholds does. Errors: as above. */
TMK_NODISCARD enum tmk_status tmk_widen_threshold(const struct tmk_spread *spread,
                                                  const struct tmk_grid *grid,
                                                  const struct tmk_range_cost *more, double most,
                                                  double *threshold, struct tmk_diag *diag);
/* Of a range that is to suit more samples than those that were seen. */
double tmk_clip_weight(uint64_t samples);

#endif
