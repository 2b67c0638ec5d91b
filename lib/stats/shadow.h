/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an observed value so that the state of another follows from its own. */
#ifndef TMK_STATS_SHADOW_H
#define TMK_STATS_SHADOW_H

#include "stats/tile.h"

struct tmk_stats_shadow {
    bool concat;
    /* clamp: x <= lo is key <= low, x >= hi is key >= high, for every x but NaN */
    struct tmk_clamp clamp;
    int32_t low, high;
    bool low_finite, high_finite;           /* whether the clamp's ends are */
    bool counts_signs;                      /* an end is zero */
    struct tmk_where first_low, first_high; /* the earliest that becomes lo, hi */
    uint64_t negatives;           /* counts_signs, at MINMAX: elements with the sign bit, but NaN */
    struct tmk_channels infinite; /* the ends that infinities became, by channel; known or none */
    /* Concat: of the whole; clamp: what stays NaN or infinite only */
    struct tmk_extreme min, max;
    struct tmk_where first_nonfinite;
};

/* A tile was observed, after its state took it in. */
TMK_NODISCARD enum tmk_status tmk_shadow_take(const struct tmk_stats_pass *pass,
                                              const struct tmk_tile *tile,
                                              const struct tmk_facts *facts, struct tmk_diag *diag);

/* The extremes of the clamped value; keys as of nothing when no element is finite. */
void tmk_shadow_extremes(const struct tmk_stats_shadow *shadow, const struct tmk_stats *x,
                         struct tmk_extreme *min, struct tmk_extreme *max);

#endif
