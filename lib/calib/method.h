/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration methods: from a histogram to the range that the codes should cover. One row a method,
 * named once in calib/list.inc. Pure; thread-safe. docs/calibration.md has the formulas. */
#pragma once

#include <tidemark/stats.h>

#include "calib/grid.h"

/* A state as methods want it: its used bins, ascending by value. Made once a value, shared by all
 * methods and by tmk_expect. */
struct tmk_spread {
    uint32_t n;
    const double *lo, *hi, *mean; /* [n]: a bin's ends (tightened by min and max), its exact mean */
    const double *count;          /* [n] */
    double *columns;              /* owned: where these four lie */
    double finite, zeros;         /* elements; zeros are in no bin, and are counted in `finite` */
    float min, max;               /* of the finite elements */
    double square;                /* the mean square; elements of a bin: see tmk_spread_half */
    /* Of each sample, for moving-average; NULL: not known. NaN in both: a sample without finite
     * elements. */
    float *sample_min, *sample_max;
    uint64_t n_samples;
    struct tmk_topk topk; /* the samples with the largest and smallest elements; n = 0: not known */
    uint64_t samples;     /* how many samples were seen */
};
/* From one state, or several that share a scale (their exact merge). Of thinned histograms the
 * counts are estimates for all elements, and the extremes are there even if they were not counted.
 * n > 0. TMK_UNSUPPORTED: a state without a histogram; TMK_NOTFOUND: no finite element. End with
 * finish. */
enum tmk_status tmk_spread_make(const struct tmk_stats *const *stats, uint32_t n,
                                struct tmk_spread *out, struct tmk_diag *diag);
/* A zero-initialised one is allowed. */
void tmk_spread_finish(struct tmk_spread *spread);
/* Takes in the extremes of each sample of one more of its values (min, max [n]). Those of all must
 * be taken in, and n must be that of the others: TMK_ARGUMENT. */
enum tmk_status tmk_spread_take_samples(struct tmk_spread *spread, const float *min,
                                        const float *max, uint64_t n, struct tmk_diag *diag);
struct tmk_profile;
struct tmk_profile_tensor;
/* Adds the largest and smallest samples of one more of its values, those of a derived one from what
 * it was derived from; false: they are not known, and topk is of no use. */
bool tmk_spread_take_topk(struct tmk_spread *spread, const struct tmk_profile *profile,
                          const struct tmk_profile_tensor *tensor);
/* Where a single number is wanted, a bin's elements are taken to lie evenly over mean +- half: the
 * widest interval around their mean that stays in the bin. */
static inline double tmk_spread_half(const struct tmk_spread *spread, uint32_t i) {
    double below = spread->mean[i] - spread->lo[i], above = spread->hi[i] - spread->mean[i];
    double half = below < above ? below : above;
    return half > 0 ? half : 0;
}

/* What a method answers. */
struct tmk_clip_choice {
    float low, high;
    /* A quantile of the raw numbers is proven to lie in [from, to]. Other methods: low and high. */
    double low_from, low_to, high_from, high_to;
    bool flat;                  /* other thresholds, 5 % off and more, are as good within 1 % */
    double flat_low, flat_high; /* between which largest magnitudes that holds; mse and entropy */
};

struct tmk_method {
    const char *name, *help;
    bool wants_histogram;
    bool searches;         /* among many ranges: slower than the others by far */
    double parameter;      /* the default; 0: it takes none */
    double wide_parameter; /* the default for types of more than 8 bits; 0: the same */
    /* spread may have n = 0 (a constant 0, or no histogram: only min and max are set) where the
     * method wants none. TMK_ARGUMENT: the parameter. TMK_UNSUPPORTED: the profile does not hold
     * what the method needs. */
    enum tmk_status (*choose)(const struct tmk_spread *spread, const struct tmk_grid *grid,
                              double parameter, struct tmk_clip_choice *out, struct tmk_diag *diag);
};

/* Those of the list, and "l4", which is for weights alone (calib/weights.h). */
const struct tmk_method *tmk_method_find(const char *name);
/* NULL at the end. */
const struct tmk_method *const *tmk_method_list(void);

/* What this scale and zero point do to the numbers. The low and high of an interval are proven:
 * wherever in its bin an element lies, with all elements of a bin around their exact mean, and with
 * the codes computed in float32 as tmk_grid_code does. */
struct tmk_expectation {
    double mse, mse_low, mse_high; /* mean squared error */
    double sqnr;                   /* decibels: 10 log10(mean square / mse); HUGE_VAL: no error */
    /* share of the elements beyond the lowest and highest code by more than half a step */
    double clipped, clipped_low, clipped_high;
    uint32_t codes; /* at least so many different ones are used */
};
/* The grid is of integers or float8; scale > 0; zero_point one of its codes. */
void tmk_expect(const struct tmk_spread *spread, const struct tmk_grid *grid, float scale,
                int32_t zero_point, struct tmk_expectation *out);
/* Only the mean squared error, and the scale in double. */
double tmk_expect_mse(const struct tmk_spread *spread, const struct tmk_grid *grid, double scale,
                      int32_t zero_point);
