/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration methods: from a histogram to the range that the codes should cover. One row a method,
 * named once in calib/list.inc. Pure; thread-safe. */
#ifndef TMK_CALIB_METHOD_H
#define TMK_CALIB_METHOD_H

#include <tidemark/encodings.h>
#include <tidemark/stats.h>

#include "calib/grid.h"

/* A state as methods want it: its used bins, ascending by value. Made once a value, shared by all
 * methods and by tmk_expect. */
struct tmk_spread {
    uint32_t n;
    const double *lo, *hi, *mean; /* [n]: a bin's ends (tightened by min and max), its exact mean */
    const double *count;          /* [n] */
    double finite, zeros;         /* elements; zeros are in no bin, and are counted in `finite` */
    float min, max;
    double square; /* the mean square */
};
/* From one state, or several that share a scale (their exact merge). TMK_UNSUPPORTED: a state
 * without a histogram; TMK_NOTFOUND: no finite element. End with finish. */
TMK_NODISCARD enum tmk_status tmk_spread_make(const struct tmk_stats *const *stats, uint32_t n,
                                              struct tmk_spread *out, struct tmk_diag *diag);
void tmk_spread_finish(struct tmk_spread *spread);

/* What a method answers. */
struct tmk_choice {
    float low, high;
    bool flat; /* see tmk_encoding.expected */
    double flat_low, flat_high;
};

struct tmk_method {
    const char *name, *help;
    bool wants_histogram;
    double parameter; /* the default; 0: it takes none */
    /* spread may have n = 0 (a constant 0, or no histogram) where the method wants none. */
    enum tmk_status (*choose)(const struct tmk_spread *spread, const struct tmk_grid *grid,
                              double parameter, struct tmk_choice *out, struct tmk_diag *diag);
};

const struct tmk_method *tmk_method_find(const char *name);
/* NULL at the end. */
const struct tmk_method *const *tmk_method_list(void);

/* What this scale and zero point do to the numbers, with the proven interval of the mean squared
 * error: elements of a bin lie anywhere in it around their exact mean. */
struct tmk_expectation {
    double mse, mse_low, mse_high, sqnr, clipped;
    uint32_t codes;
};
void tmk_expect(const struct tmk_spread *spread, const struct tmk_grid *grid, float scale,
                int32_t zero_point, struct tmk_expectation *out);

#endif
