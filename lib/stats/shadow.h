/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an observed value so that the state of another follows from its own. */
#pragma once

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
    /* Concat, and what was moved: of the whole; clamp: what stays NaN or infinite only */
    struct tmk_extreme min, max;
    struct tmk_where first_nonfinite;
};

/* Where a value's extremes stand. */
struct tmk_places {
    struct tmk_extreme min, max; /* keys as of nothing, and nowhere, where there are none */
    struct tmk_where first_nonfinite;
};

/* A tile was observed, after its state took it in. */
enum tmk_status tmk_shadow_update(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                  const struct tmk_tile_summary *summary, struct tmk_diag *diag);

/* Of an operand's, those that this batch set. */
struct tmk_places tmk_places_set(const struct tmk_stats_operand *operand,
                                 const struct tmk_stats_at *at);

/* ---- values with the elements of another, which stand elsewhere ----
 *
 * Their shadow is one for which clamp is NULL. */

/* To be called once for each batch, after the operand was observed: the same elements in the same
 * order, in a tensor of shape `to` where the operand's was `from`. */
void tmk_stats_shadow_view(struct tmk_stats_shadow *shadow, const struct tmk_stats_operand *operand,
                           const struct tmk_shape *from, const struct tmk_shape *to,
                           const struct tmk_stats_at *at);

/* The same for elements in another order: is there something in `set`, the places that the batch
 * set of the operands, that the shadow doesn't know of? Then, or always, the tensor is to be looked
 * at, for places only. */
bool tmk_stats_shadow_needs_scan(const struct tmk_stats_shadow *shadow,
                                 const struct tmk_places *set, const struct tmk_stats_at *at);
enum tmk_status tmk_stats_shadow_scan(struct tmk_stats_shadow *shadow, const float *x,
                                      const struct tmk_shape *shape, const struct tmk_stats_at *at,
                                      const uint32_t *exclude, size_t n_exclude,
                                      struct tmk_diag *diag);

/* The state of such a value from x's, whole. Its channels are x's. */
enum tmk_status tmk_stats_derive_moved(const struct tmk_stats *x,
                                       const struct tmk_stats_shadow *shadow,
                                       struct tmk_stats **out, struct tmk_diag *diag);

/* What becomes of channels that were not kept in all batches, or in none. */
void tmk_stats_drop_channels(struct tmk_stats *stats, bool in_some);
