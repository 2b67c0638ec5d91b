/* SPDX-License-Identifier: Apache-2.0 */
/* The range with the least error of given numbers.
 *
 * Of a symmetric grid one number is searched, the largest magnitude; of an asymmetric one both ends
 * together, then each by itself. Of few numbers the error jumps from one range to the next, so that
 * ranges are tried evenly spaced, and then between the neighbours of the best. */
#include <math.h>

#include "calib/weights.h"

enum {
    LANES = 8,
    CHUNK = 32,  /* numbers a float sums up */
    AROUND = 16, /* ranges between a range's neighbours */
    ROUNDS = 2,  /* of looking there; of taking turns at the ends */
};
/* Ranges are tried from `widest` times the extremes to `evenly`, then, each `ratio` times as long
 * as the one before, to `narrowest`. */
static const double evenly = 0.2, ratio = 0.9, narrowest = 1.0 / 64;

/* In codes, |x| at most 2^22: adding this rounds to nearest even. */
static const float rounder = 0x1.8p23f;

static inline double error_of_codes(const float *x, size_t n, float scale, float from, float to,
                                    bool fourth) {
    double sum = 0;
    for (size_t first = 0; first < n; first += CHUNK) {
        float part[LANES] = {0};
        const size_t end = n - first < CHUNK ? n - first : CHUNK;
        size_t i = 0;
        for (; i + LANES <= end; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                const float real = x[first + i + l] / scale;
                float code = real < from ? from : real;
                code = code > to ? to : code;
                const float error = real - ((code + rounder) - rounder);
                part[l] += fourth ? (error * error) * (error * error) : error * error;
            }
        for (; i < end; i++) {
            const float real = x[first + i] / scale;
            const float error = real - rintf(fminf(fmaxf(real, from), to));
            part[0] += fourth ? (error * error) * (error * error) : error * error;
        }
        for (size_t l = 0; l < LANES; l++)
            sum += (double)part[l];
    }
    return sum;
}

static double error_of_float8(const float *x, size_t n, const struct tmk_grid *grid, double scale,
                              int power) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double real = (double)x[i] / scale;
        const double error = real - tmk_grid_float8_nearest(grid->dtype, real);
        sum += power == 4 ? error * error * error * error : error * error;
    }
    return sum;
}

double tmk_weight_error(const float *x, size_t n, const struct tmk_grid *grid, int power, float low,
                        float high) {
    int32_t lowest, highest, zero;
    float scale;
    double sum;
    if (tmk_grid_fit(grid, low, high, &scale, &zero, NULL) != TMK_OK)
        return HUGE_VAL;
    if (!tmk_grid_codes(grid, &lowest, &highest)) {
        sum = error_of_float8(x, n, grid, (double)scale, power);
    } else {
        const float from = (float)(lowest - zero), to = (float)(highest - zero);
        sum = power == 4 ? error_of_codes(x, n, scale, from, to, true)
                         : error_of_codes(x, n, scale, from, to, false);
    }
    return sum * pow((double)scale, power);
}

struct search {
    const float *x;
    size_t n;
    const struct tmk_grid *grid;
    int power;
    double low, high; /* the extremes, zero included; of a centred grid the largest magnitude */
    double down, up;  /* the best range as parts of these */
    double error;
};

static void try_range(struct search *s, double down, double up) {
    const double error = tmk_weight_error(s->x, s->n, s->grid, s->power, (float)(s->low * down),
                                          (float)(s->high * up));
    if (error < s->error) {
        s->error = error;
        s->down = down;
        s->up = up;
    }
}

enum { BOTH, LOW, HIGH };

static void try_part(struct search *s, int end, double part, double down, double up) {
    try_range(s, end == HIGH ? down : part, end == LOW ? up : part);
}

/* Between the neighbours of the best, which are `step` off. */
static void refine_range(struct search *s, int end, double step) {
    for (int round = 0; round < ROUNDS; round++, step = 2 * step / AROUND) {
        const double down = s->down, up = s->up, from = (end == HIGH ? up : down) - step;
        for (int i = 0; i <= AROUND; i++)
            if (from + 2 * step * i / AROUND > 0)
                try_part(s, end, from + 2 * step * i / AROUND, down, up);
    }
}

static void search_end(struct search *s, int end, double widest, uint32_t tries) {
    const double down = s->down, up = s->up, step = (widest - evenly) / tries;
    for (uint32_t i = 0; i <= tries; i++)
        try_part(s, end, widest - step * i, down, up);
    for (double part = evenly; part > narrowest; part *= ratio)
        try_part(s, end, part, down, up);
    const double best = end == HIGH ? s->up : s->down;
    refine_range(s, end, best < evenly ? best * (1 - ratio) : step);
}

void tmk_weight_search(const float *x, size_t n, const struct tmk_grid *grid, int power,
                       uint32_t tries, float *low, float *high) {
    struct search s = {.x = x, .n = n, .grid = grid, .power = power, .down = 1, .up = 1};
    const bool centred = tmk_grid_is_centred(grid);
    int32_t lowest, highest;
    double widest = 1;
    s.error = tmk_weight_error(x, n, grid, power, *low, *high);
    s.low = fmin((double)*low, 0);
    s.high = fmax((double)*high, 0);
    if (centred) {
        s.high = fmax(-s.low, s.high);
        s.low = -s.high;
        /* so that no number is beyond the highest code, of which there are fewer than lower ones */
        if (tmk_grid_codes(grid, &lowest, &highest))
            widest =
                ((double)highest - lowest) / (2 * (highest - rint(((double)lowest + highest) / 2)));
    }
    const double before = s.error;
    search_end(&s, BOTH, widest, tries);
    for (int round = 0; !centred && round < ROUNDS; round++) {
        if (s.low < 0)
            search_end(&s, LOW, 1, tries);
        if (s.high > 0)
            search_end(&s, HIGH, 1, tries);
    }
    if (s.error < before) {
        *low = (float)(s.low * s.down);
        *high = (float)(s.high * s.up);
    }
}
