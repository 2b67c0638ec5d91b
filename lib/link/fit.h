/* SPDX-License-Identifier: Apache-2.0 */
/* How the numbers of two signatures are related. Pure. */
#ifndef TMK_LINK_FIT_H
#define TMK_LINK_FIT_H

#include "link/signature.h"

/* Of the range: up to here numbers are the same, computed in another way. */
#define TMK_LINK_TOLERANCE 1e-4

/* The largest |x - y| of n numbers, of the range of x. False: they are not the same numbers, or x
 * is constant, which matches anything. */
bool tmk_link_same(const float *x, const float *y, size_t n, double *residual);

/* As tmk_link_same where numbers were rounded to narrow types on the way: *residual is the root
 * mean square of x - y, of the standard deviation of x, and at most `tolerance`. */
bool tmk_link_near(const float *x, const float *y, size_t n, double tolerance, double *residual);

/* y = scale * x + shift. */
struct tmk_link_fit {
    uint32_t n; /* 1: all channels alike */
    double *scale, *shift;
    bool *seen;      /* x varies there */
    double residual; /* the largest, of the range of its channel */
    uint64_t points;
    bool lost; /* a channel of y is constant where x is not */
};
/* Least squares, channel by channel, over so many batches. TMK_NOTFOUND, without a text in diag:
 * it does not fit in every channel, there are too few points for two unknowns, or in less than half
 * of the channels there is anything to be seen, or y is x but for a thousandth. Channels of which
 * nothing is to be seen have scale 1, as good as any other if they never vary. On success end with
 * tmk_link_fit_finish. */
TMK_NODISCARD enum tmk_status tmk_link_fit(const struct tmk_link_matrix *x,
                                           const struct tmk_link_matrix *y, uint32_t batches,
                                           struct tmk_link_fit *out, struct tmk_diag *diag);
void tmk_link_fit_finish(struct tmk_link_fit *fit);

#endif
