/* SPDX-License-Identifier: Apache-2.0 */
/* Values that hold another's elements: all that is counted is the same, only places differ. */
#include "base/diag.h"
#include "stats/shadow.h"
#include "tensor/shape.h"

/* ---- places that a batch set ---- */

static bool is_of(struct tmk_where where, const struct tmk_stats_at *at) {
    return where.sample - at->sample < at->samples;
}

static struct tmk_places places_of(const struct tmk_stats_operand *operand) {
    const struct tmk_stats *x = operand->x;
    const struct tmk_stats_shadow *shadow = operand->shadow;
    struct tmk_places places;
    if (!shadow)
        return (struct tmk_places){x->min, x->max, x->first_nonfinite};
    places = (struct tmk_places){shadow->min, shadow->max, shadow->first_nonfinite};
    if (x)
        tmk_shadow_extremes(shadow, x, &places.min, &places.max);
    return places;
}

struct tmk_places tmk_places_set(const struct tmk_stats_operand *operand,
                                 const struct tmk_stats_at *at) {
    struct tmk_places places = places_of(operand);
    /* those of an earlier batch were mapped then, by that batch's shapes */
    if (!is_of(places.min.at, at))
        places.min = (struct tmk_extreme){TMK_KEY_POSINF, tmk_nowhere};
    if (!is_of(places.max.at, at))
        places.max = (struct tmk_extreme){TMK_KEY_NEGINF, tmk_nowhere};
    if (!is_of(places.first_nonfinite, at))
        places.first_nonfinite = tmk_nowhere;
    return places;
}

void tmk_shadow_join(struct tmk_stats_shadow *shadow, const struct tmk_places *places) {
    tmk_extreme_lower(&shadow->min, places->min);
    tmk_extreme_update(&shadow->max, places->max);
    tmk_where_earlier(&shadow->first_nonfinite, places->first_nonfinite);
}

/* ---- the same order ---- */

/* Elements that a place counts within. */
static size_t part_of(const struct tmk_shape *shape, size_t elements,
                      const struct tmk_stats_at *at) {
    return tmk_stats_cuts(shape, at) ? elements / (size_t)at->samples : elements;
}

static void move_place(struct tmk_where *where, size_t from, size_t to,
                       const struct tmk_stats_at *at) {
    if (where->sample == TMK_NOWHERE)
        return;
    const uint64_t element = (where->sample - at->sample) * from + where->index;
    *where = (struct tmk_where){at->sample + element / to, element % to};
}

void tmk_stats_shadow_view(struct tmk_stats_shadow *shadow, const struct tmk_stats_operand *operand,
                           const struct tmk_shape *from, const struct tmk_shape *to,
                           const struct tmk_stats_at *at) {
    struct tmk_places set = tmk_places_set(operand, at);
    size_t elements = 0;
    (void)tmk_shape_count(to, &elements);
    if (elements == 0)
        return;
    const size_t before = part_of(from, elements, at), after = part_of(to, elements, at);
    move_place(&set.min.at, before, after, at);
    move_place(&set.max.at, before, after, at);
    move_place(&set.first_nonfinite, before, after, at);
    tmk_shadow_join(shadow, &set);
}

/* ---- another order ---- */

bool tmk_stats_shadow_needs_scan(const struct tmk_stats_shadow *shadow,
                                 const struct tmk_places *set, const struct tmk_stats_at *at) {
    const bool lower = set->min.key < shadow->min.key ||
                       (set->min.key == shadow->min.key && at->sample < shadow->min.at.sample);
    const bool higher = set->max.key > shadow->max.key ||
                        (set->max.key == shadow->max.key && at->sample < shadow->max.at.sample);
    return (set->min.at.sample != TMK_NOWHERE && lower) ||
           (set->max.at.sample != TMK_NOWHERE && higher) ||
           (set->first_nonfinite.sample != TMK_NOWHERE &&
            at->sample < shadow->first_nonfinite.sample);
}

enum tmk_status tmk_stats_shadow_scan(struct tmk_stats_shadow *shadow, const float *x,
                                      const struct tmk_shape *shape, const struct tmk_stats_at *at,
                                      const uint32_t *exclude, size_t n_exclude,
                                      struct tmk_diag *diag) {
    struct tmk_stats *here;
    TMK_TRY(tmk_stats_create(TMK_STATS_MINMAX, &here, diag));
    struct tmk_stats_at bare = *at;
    bare.channel_axis = -1;
    enum tmk_status status =
        tmk_stats_update_excluding(here, x, shape, &bare, exclude, n_exclude, diag);
    const struct tmk_places places = {here->min, here->max, here->first_nonfinite};
    if (status == TMK_OK)
        tmk_shadow_join(shadow, &places);
    tmk_stats_destroy(&here);
    return status;
}

/* ---- the state ---- */

static enum tmk_status derive_moved(struct tmk_stats *dst, const struct tmk_stats *x,
                                    const struct tmk_stats_shadow *shadow, struct tmk_diag *diag) {
    TMK_TRY(tmk_stats_merge(dst, x, diag));
    dst->min = shadow->min;
    dst->max = shadow->max;
    dst->first_nonfinite = shadow->first_nonfinite;
    return TMK_OK;
}

enum tmk_status tmk_stats_derive_moved(const struct tmk_stats *x,
                                       const struct tmk_stats_shadow *shadow,
                                       struct tmk_stats **out, struct tmk_diag *diag) {
    struct tmk_stats *dst;
    TMK_TRY(tmk_stats_create_with(x->level, x->kernel, &dst, diag));
    enum tmk_status status = derive_moved(dst, x, shadow, diag);
    if (status == TMK_OK)
        *out = dst;
    else
        tmk_stats_destroy(&dst);
    return status;
}

void tmk_stats_drop_channels(struct tmk_stats *stats, bool in_some) {
    tmk_channels_finish(&stats->channels);
    if (in_some)
        stats->channels.kind = TMK_CHANNELS_CONFLICT;
}
