/* SPDX-License-Identifier: Apache-2.0 */
/* auto: the range with the smallest expected error on samples like those that were seen. A clipped
 * element costs more than its squared error, the more so the fewer samples were seen, and the
 * samples with the largest and smallest elements tell how far a new one may reach.
 * docs/calibration.md has the formula and how its two numbers were validated. */
#include <math.h>

#include "calib/range_cost.h"

static const double clip_weight = 128, unseen_weight = 0.02;

/* The mean distance of the samples' extremes at one end from the smallest of them: by how much
 * samples exceed a high threshold. Extremes on the other side of zero count as 0. */
static double tail_of(const struct tmk_spread *spread, bool is_below) {
    double magnitude[TMK_TOPK], sum = 0;
    uint32_t n = spread->topk.n;
    for (uint32_t i = 0; i < n; i++) {
        double value = is_below ? -fmax((double)spread->topk.min[i].value, (double)spread->min)
                                : fmin((double)spread->topk.max[i].value, (double)spread->max);
        magnitude[i] = fmax(value, 0);
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        sum += magnitude[i] - magnitude[n - 1];
    return n > 1 ? sum / (n - 1) : 0;
}

double tmk_clip_weight(uint64_t samples) {
    return 1 + clip_weight / fmax((double)samples, 1);
}

static enum tmk_status choose_auto(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                   double parameter, struct tmk_clip_choice *out,
                                   struct tmk_diag *diag) {
    (void)parameter;
    const double n = (double)spread->samples;
    const struct tmk_range_cost cost = {.weight = tmk_clip_weight(spread->samples),
                                        .tail = {tail_of(spread, false), tail_of(spread, true)},
                                        .unseen = unseen_weight * n / (n + 1)};
    return tmk_search_range(spread, grid, &cost, out, diag);
}

const struct tmk_method tmk_method_auto = {
    .name = "auto",
    .help = "the range with the smallest squared error expected on samples that were not seen",
    .wants_histogram = true,
    .searches = true,
    .parameter = 0,
    .choose = choose_auto,
};
