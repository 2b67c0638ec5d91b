/* SPDX-License-Identifier: Apache-2.0 */
/* moving-average: exponential means of each sample's extremes, in their order, in float32, as
 * PyTorch's MovingAverageMinMaxObserver has them for batches of one. It depends on the order of the
 * data, and is here for comparison with tools that do so. */
#include <math.h>

#include "base/diag.h"
#include "calib/method.h"

static enum tmk_status choose_moving_average(const struct tmk_spread *spread,
                                             const struct tmk_grid *grid, double parameter,
                                             struct tmk_clip_choice *out, struct tmk_diag *diag) {
    (void)grid;
    float low = 0, high = 0, part = (float)parameter;
    bool any = false;
    if (!(parameter > 0 && parameter <= 1))
        return tmk_fail(diag, TMK_ARGUMENT, "a share of each sample lies in (0, 1]; %g does not",
                        parameter);
    if (!spread->sample_min || !spread->sample_max)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "a moving average needs each sample's extremes, which the profile does not "
                        "hold; make it with profile --per-sample -o FILE.h5");
    for (uint64_t i = 0; i < spread->n_samples; i++) {
        float min = spread->sample_min[i], max = spread->sample_max[i];
        if (isnan(min) || isnan(max))
            continue;
        low = any ? low + part * (min - low) : min;
        high = any ? high + part * (max - high) : max;
        any = true;
    }
    if (!any)
        return tmk_fail(diag, TMK_NOTFOUND, "no sample has a finite element");
    *out = (struct tmk_clip_choice){.low = low,
                                    .high = high,
                                    .low_from = (double)low,
                                    .low_to = (double)low,
                                    .high_from = (double)high,
                                    .high_to = (double)high};
    return TMK_OK;
}

const struct tmk_method tmk_method_moving_average = {
    .name = "moving-average",
    .help = "exponential means of the samples' extremes (a profile made with --per-sample)",
    .wants_histogram = false,
    .parameter = 0.01,
    .choose = choose_moving_average,
};
