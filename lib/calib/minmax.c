/* SPDX-License-Identifier: Apache-2.0 */
/* minmax: all that was seen. */
#include "calib/method.h"

static enum tmk_status choose_minmax(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                     double parameter, struct tmk_clip_choice *out,
                                     struct tmk_diag *diag) {
    (void)grid, (void)parameter, (void)diag;
    *out = (struct tmk_clip_choice){.low = spread->min,
                                    .high = spread->max,
                                    .low_from = (double)spread->min,
                                    .low_to = (double)spread->min,
                                    .high_from = (double)spread->max,
                                    .high_to = (double)spread->max};
    return TMK_OK;
}

const struct tmk_method tmk_method_minmax = {
    .name = "minmax",
    .help = "the least and the greatest element: nothing is clipped",
    .wants_histogram = false,
    .parameter = 0,
    .choose = choose_minmax,
};
