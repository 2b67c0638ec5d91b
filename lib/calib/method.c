/* SPDX-License-Identifier: Apache-2.0 */
/* The list of methods, and those that search nothing. */
#include "calib/method.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "calib/weights.h"

#define TMK_METHOD(symbol) extern const struct tmk_method symbol;
#include "calib/list.inc"
#undef TMK_METHOD

const struct tmk_method *const *tmk_method_list(void) {
    static const struct tmk_method *const rows[] = {
#define TMK_METHOD(symbol) &symbol,
#include "calib/list.inc"
#undef TMK_METHOD
        NULL,
    };
    return rows;
}

const struct tmk_method *tmk_method_find(const char *name) {
    for (const struct tmk_method *const *row = tmk_method_list(); *row; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return strcmp(tmk_method_l4.name, name) == 0 ? &tmk_method_l4 : NULL;
}

/* minmax: all that was seen. */

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

/* moving-average: exponential means of each sample's extremes, in their order, in float32, as
 * PyTorch's MovingAverageMinMaxObserver has them for batches of one. It depends on the order of the
 * data, and is here for comparison with tools that do so. */

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

/* percentile: leaves out the largest and smallest elements.
 *
 * Of N elements, N - ceil(share * N) are left out: on symmetric grids of the magnitudes, on others
 * half as many at each end. The last one that is kept lies in a known bin: a proven interval, of
 * which the harmonic mean is taken; where nothing is left out it is the extreme itself. */

/* Bins and the zeros, from an end (or both, by magnitude) inwards. */
struct inward {
    const struct tmk_spread *spread;
    int64_t low, high; /* the next bins */
    bool is_low, is_high;
    bool zeros_are_done;
};

struct bin_group {
    double from, to, count;
};

static struct bin_group take_group(struct inward *inward, bool low) {
    const struct tmk_spread *spread = inward->spread;
    int64_t i = low ? inward->low++ : inward->high--;
    return (struct bin_group){spread->lo[i], spread->hi[i], spread->count[i]};
}

static struct bin_group mirror_group(struct bin_group group) {
    return (struct bin_group){-group.to, -group.from, group.count};
}

/* From one end: zeros come when the sign changes. */
static struct bin_group next_signed(struct inward *inward) {
    const struct tmk_spread *spread = inward->spread;
    int64_t i = inward->is_low ? inward->low : inward->high;
    bool is_beyond = i < 0 || i >= (int64_t)spread->n ||
                     (inward->is_low ? spread->mean[i] > 0 : spread->mean[i] < 0);
    if (is_beyond && !inward->zeros_are_done) {
        inward->zeros_are_done = true;
        return (struct bin_group){0, 0, spread->zeros};
    }
    return take_group(inward, inward->is_low);
}

/* By magnitude: of a bin and its mirror image both. */
static struct bin_group next_absolute(struct inward *inward) {
    const struct tmk_spread *spread = inward->spread;
    bool has_low = inward->low <= inward->high && spread->mean[inward->low] < 0;
    bool has_high = inward->high >= inward->low && spread->mean[inward->high] > 0;
    if (!has_low && !has_high)
        return (struct bin_group){0, 0, spread->zeros};
    struct bin_group low = {0}, high = {0};
    if (has_low)
        low = mirror_group((struct bin_group){spread->lo[inward->low], spread->hi[inward->low], 0});
    if (has_high)
        high = (struct bin_group){spread->lo[inward->high], spread->hi[inward->high], 0};
    if (!has_low || (has_high && high.from >= low.to))
        return take_group(inward, false);
    if (!has_high || low.from >= high.to)
        return mirror_group(take_group(inward, true));
    low = mirror_group(take_group(inward, true));
    high = take_group(inward, false);
    return (struct bin_group){fmin(low.from, high.from), fmax(low.to, high.to),
                              low.count + high.count};
}

/* The group that holds the element with `beyond` elements further out. */
static struct bin_group find_group(struct inward *inward, double beyond) {
    struct bin_group group;
    double seen = 0;
    do {
        group = inward->is_low && inward->is_high ? next_absolute(inward) : next_signed(inward);
        seen += group.count;
    } while (seen <= beyond);
    return group;
}

static double group_middle(const struct bin_group *group) {
    double sum = group->from + group->to;
    return group->from < group->to && sum != 0 ? 2 * group->from * group->to / sum : group->from;
}

/* A threshold, and the interval that it is proven to lie in. */
static double find_threshold(const struct tmk_spread *spread, bool low, bool high, double share,
                             double extreme, double *from, double *to) {
    struct inward inward = {
        .spread = spread, .low = 0, .high = (int64_t)spread->n - 1, .is_low = low, .is_high = high};
    double beyond = spread->finite - fmax(1, ceil(share * spread->finite));
    struct bin_group group = {extreme, extreme, 0};
    if (beyond >= 1)
        group = find_group(&inward, beyond);
    *from = group.from;
    *to = group.to;
    return group_middle(&group);
}

static enum tmk_status choose_percentile(const struct tmk_spread *spread,
                                         const struct tmk_grid *grid, double parameter,
                                         struct tmk_clip_choice *out, struct tmk_diag *diag) {
    struct tmk_clip_choice choice = {0};
    double share = parameter / 100, min = (double)spread->min, max = (double)spread->max;
    if (!(parameter > 0 && parameter <= 100))
        return tmk_fail(diag, TMK_ARGUMENT, "a percentile lies in (0, 100]; %g does not",
                        parameter);
    if (tmk_grid_is_centred(grid)) {
        double from, to, most = fmax(-min, max);
        double at = find_threshold(spread, true, true, share, most, &from, &to);
        choice = (struct tmk_clip_choice){.low = (float)fmax(-at, min),
                                          .high = (float)fmin(at, max),
                                          .low_from = fmax(-to, min),
                                          .low_to = fmax(-from, min),
                                          .high_from = fmin(from, max),
                                          .high_to = fmin(to, max)};
    } else {
        share = 1 - (1 - share) / 2;
        choice.low = (float)find_threshold(spread, true, false, share, min, &choice.low_from,
                                           &choice.low_to);
        choice.high = (float)find_threshold(spread, false, true, share, max, &choice.high_from,
                                            &choice.high_to);
    }
    *out = choice;
    return TMK_OK;
}

const struct tmk_method tmk_method_percentile = {
    .name = "percentile",
    .help = "the range without the outermost elements, in all 100 - PARAMETER per cent of them",
    .wants_histogram = true,
    .parameter = 99.99,
    .wide_parameter = 100, /* what is clipped costs more than codes that are finer still gain */
    .choose = choose_percentile,
};
