/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/excess.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

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
