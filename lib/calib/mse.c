/* SPDX-License-Identifier: Apache-2.0 */
/* mse: the range whose grid has the least mean squared error on the histogram.
 *
 * Scales are tried from the one that covers everything downwards, 2 % apart, until what they clip
 * costs more than the best so far, then finer and finer around the best few. For grids of 8 bits
 * and less all zero points of a scale are tried, exactly (see excess.h); for wider ones the one
 * that clips least is. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "calib/range_cost.h"

enum {
    MOST_CODES = 256, /* of a grid whose zero points are all tried */
    FINAL_TRIALS = 4,
    STEPS = 24,     /* around a finalist */
    WIDE_STEPS = 8, /* where a trial goes through all bins */
    FARTHEST = 16,  /* tails beyond the extremes that are tried */
};

static const double coarse = 0.98, fine_enough = 0x1p-16;

struct scale_search {
    const struct tmk_spread *spread;
    const struct tmk_grid *grid;
    const struct tmk_range_cost *more; /* than the squared error; NULL: nothing */
    struct tmk_excess above, below;
    bool is_float8;
    int32_t lowest, highest;
    int32_t fixed; /* the zero point of symmetric grids */
    double codes;  /* highest - lowest */
};

/* A scale, its best zero point, and the sum of squared errors. */
struct trial {
    double scale, cost;
    int32_t zero_point;
};

static void sums_of(const struct tmk_excess *side, double step, int32_t n,
                    double cost[MOST_CODES]) {
    double sum = 0;
    cost[0] = side->square;
    for (int32_t j = 1; j <= n; j++) {
        double beyond = tmk_excess_beyond(side, ((double)j - 0.5) * step);
        sum += beyond;
        cost[j] = side->square - 2 * step * sum;
        if (beyond == 0) {
            while (++j <= n)
                cost[j] = cost[j - 1];
            return;
        }
    }
}

/* What a side costs beyond its squared error; convex in the reach. */
static double extra_cost(const struct scale_search *search, bool is_below, double reach) {
    const struct tmk_excess *side = is_below ? &search->below : &search->above;
    double tail = search->more->tail[is_below], inside = side->most - reach;
    double clipped = reach > 0 ? tmk_excess_square(side, reach) : side->square;
    double cost = (search->more->weight - 1) * clipped;
    if (!(tail > 0))
        return cost;
    double unseen = inside > 0 ? 2 * tail * (tail + inside) + inside * inside
                               : 2 * tail * tail * exp(inside / tail);
    return cost + search->more->unseen * unseen;
}

static double extra_costs(const struct scale_search *search, double up, double down) {
    return search->more ? extra_cost(search, false, up) + extra_cost(search, true, down) : 0;
}

/* Costs of `n` codes above zero, and so below, are a table each; all splits are tried. */
static struct trial try_narrow(const struct scale_search *search, double scale) {
    double above[MOST_CODES], below[MOST_CODES];
    int32_t codes = search->highest - search->lowest;
    int32_t from = search->lowest, to = search->highest;
    if (search->grid->symmetric)
        from = to = search->fixed;
    else if (search->below.most == 0)
        to = from;
    else if (search->above.most == 0)
        from = to;
    sums_of(&search->above, scale, search->highest - from, above);
    sums_of(&search->below, scale, to - search->lowest, below);
    struct trial best = {scale, HUGE_VAL, from};
    for (int32_t zero_point = from; zero_point <= to; zero_point++) {
        int32_t up = search->highest - zero_point;
        double cost =
            above[up] + below[codes - up] + extra_costs(search, up * scale, (codes - up) * scale);
        if (cost < best.cost) {
            best.cost = cost;
            best.zero_point = zero_point;
        }
    }
    best.cost = fmax(best.cost, 0); /* a difference of large sums */
    return best;
}

static double clipped_error(const struct scale_search *search, double up, double down) {
    return (up > 0 ? tmk_excess_square(&search->above, up) : search->above.square) +
           (down > 0 ? tmk_excess_square(&search->below, down) : search->below.square) +
           extra_costs(search, up, down);
}

/* The reach above zero that clips least of all ways to lay a range of this width; what is clipped
 * is convex in it. */
static double best_reach(const struct scale_search *search, double width) {
    double from = 0, to = width;
    for (int i = 0; i < 48; i++) {
        double a = from + (to - from) / 3, b = to - (to - from) / 3;
        if (clipped_error(search, a, width - a) <= clipped_error(search, b, width - b))
            to = b;
        else
            from = a;
    }
    return (from + to) / 2;
}

/* The least that a grid with this scale can clip. */
static double least_clipped(const struct scale_search *search, double scale) {
    if (search->is_float8)
        return clipped_error(search, search->codes / 2 * scale, search->codes / 2 * scale);
    if (search->grid->symmetric)
        return clipped_error(search, (search->highest - search->fixed + 0.5) * scale,
                             (search->fixed - search->lowest + 0.5) * scale);
    double width = (search->codes + 1) * scale, reach = best_reach(search, width);
    return clipped_error(search, reach, width - reach);
}

static struct trial try_wide(const struct scale_search *search, double scale) {
    struct trial trial = {scale, 0, search->fixed};
    if (!tmk_grid_is_centred(search->grid)) {
        double reach = best_reach(search, search->codes * scale);
        trial.zero_point = search->highest - (int32_t)rint(reach / scale);
    }
    trial.cost = tmk_expect_mse(search->spread, search->grid, scale, trial.zero_point) *
                     search->spread->finite +
                 extra_costs(search, scale * (search->highest - trial.zero_point),
                             scale * (trial.zero_point - search->lowest));
    return trial;
}

static bool is_narrow(const struct scale_search *search) {
    return !search->is_float8 && search->codes < MOST_CODES;
}

static struct trial try_scale(const struct scale_search *search, double scale) {
    return is_narrow(search) ? try_narrow(search, scale) : try_wide(search, scale);
}

/* Keeps the best in order; of equal ones the first. */
static void rank_trial(struct trial best[FINAL_TRIALS], const struct trial *trial) {
    struct trial next = *trial;
    for (int i = 0; i < FINAL_TRIALS; i++)
        if (next.cost < best[i].cost) {
            struct trial out = best[i];
            best[i] = next;
            next = out;
        }
}

/* Between the neighbours of a scale that was best so far, evenly. */
static struct trial refine_trial(const struct scale_search *search, struct trial best, double ratio,
                                 double widest) {
    double from = best.scale * ratio, to = fmin(best.scale / ratio, widest);
    int steps = is_narrow(search) ? STEPS : WIDE_STEPS;
    for (int i = 0; i <= steps; i++) {
        struct trial trial = try_scale(search, to - (to - from) * i / steps);
        if (trial.cost < best.cost)
            best = trial;
    }
    return best;
}

static struct trial search_scales(const struct scale_search *search, double widest) {
    struct trial best[FINAL_TRIALS];
    double ratio = search->grid->pow2 ? 0.5 : coarse;
    for (int i = 0; i < FINAL_TRIALS; i++)
        best[i] = (struct trial){widest, HUGE_VAL, search->fixed};
    for (double scale = widest; scale >= widest * fine_enough && scale >= (double)FLT_MIN;
         scale *= ratio) {
        if (least_clipped(search, scale) > best[0].cost)
            break;
        struct trial trial = try_scale(search, scale);
        rank_trial(best, &trial);
    }
    if (search->grid->pow2)
        return best[0];
    for (int i = 0; i < FINAL_TRIALS && best[i].cost < HUGE_VAL; i++)
        best[i] = refine_trial(search, best[i], coarse, widest);
    struct trial found = best[0];
    for (int i = 1; i < FINAL_TRIALS; i++)
        if (best[i].cost < found.cost)
            found = best[i];
    int steps = is_narrow(search) ? STEPS : WIDE_STEPS;
    return refine_trial(search, found, 1 - (1 - coarse) * 2 / steps, widest);
}

/* The largest magnitude that a grid has a code for. */
static double reach_of(const struct scale_search *search, const struct trial *trial) {
    if (search->is_float8)
        return search->codes / 2 * trial->scale;
    int32_t up = search->highest - trial->zero_point, down = trial->zero_point - search->lowest;
    return trial->scale * (up > down ? up : down);
}

/* The last scale on the way from the best to `end` until which all cost at most `allowed`. */
static struct trial walk_trials(const struct scale_search *search, const struct trial *best,
                                double ratio, double end, double allowed) {
    struct trial last = *best;
    while (ratio < 1 ? last.scale > end : last.scale < end) {
        double scale = last.scale * ratio;
        scale = ratio < 1 ? fmax(scale, end) : fmin(scale, end);
        struct trial next = try_scale(search, scale);
        if (next.cost > allowed)
            break;
        last = next;
    }
    return last;
}

static void find_flat(const struct scale_search *search, const struct trial *best, double widest,
                      struct tmk_clip_choice *out) {
    double allowed = best->cost * 1.01, step = search->grid->pow2 ? 0.5 : 0.99;
    struct trial low = walk_trials(search, best, step, widest * fine_enough, allowed);
    struct trial high = walk_trials(search, best, 1 / step, widest, allowed);
    double at = reach_of(search, best);
    out->flat_low = reach_of(search, &low);
    out->flat_high = reach_of(search, &high);
    out->flat = out->flat_low <= 0.95 * at || out->flat_high >= 1.05 * at;
}

static struct tmk_clip_choice range_of(const struct scale_search *search,
                                       const struct trial *trial) {
    struct tmk_clip_choice choice = {0};
    double low, high;
    if (tmk_grid_is_centred(search->grid)) {
        high = search->codes / 2 * trial->scale;
        low = -high;
    } else {
        low = ((double)search->lowest - trial->zero_point) * trial->scale;
        high = ((double)search->highest - trial->zero_point) * trial->scale;
    }
    choice.low = (float)low;
    choice.high = (float)high;
    return choice;
}

static double cost_of(const struct scale_search *search, const struct tmk_clip_choice *choice) {
    float scale;
    int32_t zero_point;
    if (tmk_grid_fit(search->grid, choice->low, choice->high, &scale, &zero_point, NULL) != TMK_OK)
        return HUGE_VAL;
    double up = search->codes / 2 * (double)scale, down = up;
    if (!search->is_float8) {
        up = (double)scale * (search->highest - zero_point);
        down = (double)scale * (zero_point - search->lowest);
    }
    return tmk_expect_mse(search->spread, search->grid, (double)scale, zero_point) *
               search->spread->finite +
           extra_costs(search, up, down);
}

/* Without `above` and `below`. */
static enum tmk_status start_search(struct scale_search *search, const struct tmk_spread *spread,
                                    const struct tmk_grid *grid, const struct tmk_range_cost *more,
                                    float *widest, struct tmk_diag *diag) {
    *search = (struct scale_search){.spread = spread, .grid = grid, .more = more};
    search->is_float8 = !tmk_grid_codes(grid, &search->lowest, &search->highest);
    search->codes = search->is_float8 ? 2 * tmk_grid_float8_max(grid->dtype)
                                      : (double)search->highest - search->lowest;
    return tmk_grid_fit(grid, spread->min, spread->max, widest, &search->fixed, diag);
}

/* How many times as wide as the range that covers everything the widest is that is tried. */
static double margin_of(const struct scale_search *search) {
    if (!search->more || !(search->more->unseen > 0))
        return 1;
    double above = search->above.most, below = search->below.most;
    double tails = FARTHEST * (search->more->tail[0] + search->more->tail[1]);
    double margin =
        1 + tails / (tmk_grid_is_centred(search->grid) ? fmax(above, below) : above + below);
    return search->grid->pow2 ? exp2(ceil(log2(margin))) : margin;
}

enum tmk_status tmk_search_range(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                 const struct tmk_range_cost *more, struct tmk_clip_choice *out,
                                 struct tmk_diag *diag) {
    struct scale_search search;
    struct tmk_clip_choice all = {.low = spread->min, .high = spread->max}, found = all;
    float widest;
    TMK_TRY(start_search(&search, spread, grid, more, &widest, diag));
    enum tmk_status status = tmk_excess_make(spread, false, &search.above, diag);
    TMK_THEN(status, tmk_excess_make(spread, true, &search.below, diag));
    if (status == TMK_OK && search.above.square + search.below.square > 0) {
        double from = (double)widest * margin_of(&search);
        struct trial best = search_scales(&search, from);
        found = range_of(&search, &best);
        find_flat(&search, &best, from, &found);
        if (cost_of(&search, &all) <= cost_of(&search, &found)) {
            found.low = all.low;
            found.high = all.high;
        }
    }
    if (status == TMK_OK) {
        found.low_from = found.low_to = (double)found.low;
        found.high_from = found.high_to = (double)found.high;
        *out = found;
    }
    tmk_excess_finish(&search.above);
    tmk_excess_finish(&search.below);
    return status;
}

static double cost_at(const struct scale_search *search, double threshold) {
    const struct tmk_clip_choice choice = {
        .low = (float)fmax((double)search->spread->min, -threshold),
        .high = (float)fmin((double)search->spread->max, threshold)};
    return cost_of(search, &choice);
}

static double widen_threshold(const struct scale_search *search, double from, double most) {
    const double whole = cost_at(search, most);
    double least = whole, at;
    for (at = from; at < most; at /= coarse)
        least = fmin(least, cost_at(search, at));
    const double allowed = sqrt(least) * sqrt(whole);
    for (at = from; at < most && cost_at(search, at) > allowed;)
        at /= coarse;
    return fmin(at, most);
}

enum tmk_status tmk_widen_thresholds(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                     const struct tmk_range_cost *more,
                                     const struct tmk_excess sides[2], double most, double *from,
                                     double *to, struct tmk_diag *diag) {
    struct scale_search search;
    float widest;
    TMK_TRY(start_search(&search, spread, grid, more, &widest, diag));
    search.above = sides[0];
    search.below = sides[1];
    *to = widen_threshold(&search, *to, most);
    *from = widen_threshold(&search, *from, *to);
    return TMK_OK;
}

static enum tmk_status choose_mse(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                  double parameter, struct tmk_clip_choice *out,
                                  struct tmk_diag *diag) {
    (void)parameter;
    return tmk_search_range(spread, grid, NULL, out, diag);
}

const struct tmk_method tmk_method_mse = {
    .name = "mse",
    .help = "the range with the least mean squared error, searched on the exact histogram",
    .wants_histogram = true,
    .searches = true,
    .parameter = 0,
    .choose = choose_mse,
};

/* ---- how far a histogram reaches beyond a threshold ---- */

/* Its elements lie evenly over mean +- half; those of all bins above it are added up. */
struct tmk_excess_bin {
    double count, mean, half;
    double above[3]; /* sums of x^0, x^1, x^2 */
};

enum { DROPPED = 45 }; /* mantissa bits of a double beyond bfloat16's */

static uint64_t bin_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> DROPPED;
}

/* The bins of one side, from the largest magnitude down. */
struct walk {
    const struct tmk_spread *spread;
    bool negative;
    uint32_t n;
};

static uint32_t bin_at(const struct walk *walk, uint32_t i) {
    return walk->negative ? i : walk->spread->n - 1 - i;
}

static struct walk walk_of(const struct tmk_spread *spread, bool negative) {
    struct walk walk = {spread, negative, 0};
    while (walk.n < spread->n && (spread->mean[bin_at(&walk, walk.n)] < 0) == negative)
        walk.n++;
    return walk;
}

static void add_up(const struct walk *walk, struct tmk_excess *out) {
    struct tmk_excess_bin next = {0};
    uint32_t slot = out->n;
    for (uint32_t i = 0; i < walk->n; i++) {
        uint32_t bin = bin_at(walk, i);
        double count = walk->spread->count[bin], mean = fabs(walk->spread->mean[bin]);
        double half = tmk_spread_half(walk->spread, bin);
        out->square += count * (mean * mean + half * half / 3);
        uint64_t number = bin_of(mean);
        if (number >= out->first) {
            assert(number - out->first < slot); /* means descend, a bin apart */
            while (slot > number - out->first + 1)
                out->bins[--slot] = next;
            next.count = count, next.mean = mean, next.half = half;
            out->bins[--slot] = next;
            next = (struct tmk_excess_bin){.above = {next.above[0], next.above[1], next.above[2]}};
        }
        next.above[0] += count;
        next.above[1] += count * mean;
        next.above[2] += count * (mean * mean + half * half / 3);
    }
    while (slot > 0)
        out->bins[--slot] = next;
}

enum tmk_status tmk_excess_make(const struct tmk_spread *spread, bool negative,
                                struct tmk_excess *out, struct tmk_diag *diag) {
    struct walk walk = walk_of(spread, negative);
    struct tmk_excess made = {0};
    if (walk.n) {
        made.most = negative ? -(double)spread->min : (double)spread->max;
        double least = fabs(spread->mean[bin_at(&walk, walk.n - 1)]);
        made.first = bin_of(fmax(least, made.most * TMK_EXCESS_MIN));
        made.n = (uint32_t)(bin_of(made.most) - made.first + 1);
        made.bins = calloc(made.n, sizeof *made.bins);
        TMK_TRY_ALLOC(made.bins, diag);
        add_up(&walk, &made);
    }
    *out = made;
    return TMK_OK;
}

void tmk_excess_finish(struct tmk_excess *excess) {
    free(excess->bins);
    *excess = (struct tmk_excess){0};
}

static const struct tmk_excess_bin *find_bin(const struct tmk_excess *excess, double b) {
    uint64_t number = bin_of(b);
    return &excess->bins[number > excess->first ? number - excess->first : 0];
}

double tmk_excess_beyond(const struct tmk_excess *excess, double b) {
    if (b >= excess->most)
        return 0;
    const struct tmk_excess_bin *bin = find_bin(excess, b);
    double reach = bin->mean + bin->half - b, inside = bin->count * (bin->mean - b);
    if (reach <= 0)
        inside = 0;
    else if (reach < 2 * bin->half)
        inside = bin->count * reach * reach / (4 * bin->half);
    return bin->above[1] - b * bin->above[0] + inside;
}

double tmk_excess_square(const struct tmk_excess *excess, double b) {
    if (b >= excess->most)
        return 0;
    const struct tmk_excess_bin *bin = find_bin(excess, b);
    double reach = bin->mean + bin->half - b, off = bin->mean - b;
    double inside = bin->count * (off * off + bin->half * bin->half / 3);
    if (reach <= 0)
        inside = 0;
    else if (reach < 2 * bin->half)
        inside = bin->count * reach * reach * reach / (6 * bin->half);
    return bin->above[2] - 2 * b * bin->above[1] + b * b * bin->above[0] + inside;
}

double tmk_excess_count(const struct tmk_excess *excess, double b) {
    if (b >= excess->most)
        return 0;
    const struct tmk_excess_bin *bin = find_bin(excess, b);
    double reach = bin->mean + bin->half - b, inside = bin->count;
    if (reach <= 0)
        inside = 0;
    else if (reach < 2 * bin->half)
        inside = bin->count * reach / (2 * bin->half);
    return bin->above[0] + inside;
}

/* auto: the range with the smallest expected error on samples like those that were seen. A clipped
 * element costs more than its squared error, the more so the fewer samples were seen, and the
 * samples with the largest and smallest elements tell how far a new one may reach.
 * docs/calibration.md has the formula and how its two numbers were validated. */

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
