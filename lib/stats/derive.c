/* SPDX-License-Identifier: Apache-2.0 */
/* States that follow from others and their shadows. */
#include "base/diag.h"
#include "stats/shadow.h"

bool tmk_clamp_follows(const struct tmk_clamp *clamp, enum tmk_stats_level level) {
    uint32_t mask = level == TMK_STATS_HISTOGRAM ? 0xffffu
                    : level == TMK_STATS_RANGE   ? 0x7fffffu
                                                 : 0;
    return clamp->lo < clamp->hi &&
           ((tmk_bits_of_float(clamp->lo) | tmk_bits_of_float(clamp->hi)) & mask) == 0;
}

/* The extremes of the clamped value; keys as of nothing when no element is finite. */
static void shadow_extremes(const struct tmk_stats_shadow *shadow, const struct tmk_stats *x,
                            struct tmk_extreme *min, struct tmk_extreme *max) {
    bool finite = tmk_stats_finite(x) > 0;
    const struct tmk_extreme low = {tmk_key_of_float(shadow->clamp.lo), shadow->first_low};
    const struct tmk_extreme high = {tmk_key_of_float(shadow->clamp.hi), shadow->first_high};
    bool low_seen = shadow->low_finite && (x->neginf > 0 || (finite && x->min.key <= shadow->low));
    bool high_seen =
        shadow->high_finite && (x->posinf > 0 || (finite && x->max.key >= shadow->high));
    *min = (struct tmk_extreme){TMK_KEY_POSINF, tmk_nowhere};
    *max = (struct tmk_extreme){TMK_KEY_NEGINF, tmk_nowhere};
    if (low_seen)
        *min = low;
    else if (finite && x->min.key < shadow->high)
        *min = x->min;
    else if (high_seen)
        *min = high;
    if (high_seen)
        *max = high;
    else if (finite && x->max.key > shadow->low)
        *max = x->max;
    else if (low_seen)
        *max = low;
}

static enum tmk_status add_value(struct tmk_stats *stats, float value, uint64_t count,
                                 struct tmk_diag *diag) {
    uint32_t bits = tmk_bits_of_float(value), bin = bits >> 16;
    if (count == 0)
        return TMK_OK;
    if ((bits & 0x7fffffffu) == 0) {
        *(bits ? &stats->negative_zeros : &stats->zeros) += count;
        return TMK_OK;
    }
    if (!tmk_stats_has_bins(stats->level))
        return TMK_OK;
    TMK_TRY_ALLOC(tmk_stats_reserve(stats, 1), diag);
    bin -= bin % (TMK_OCTAVE / tmk_stats_bins_an_octave(stats->level));
    tmk_stats_add_bin(stats, &(struct tmk_wide){.count = count, .bin = (uint16_t)bin});
    return TMK_OK;
}

/* What becomes of `count` elements whose keys are in [smallest, largest], a part of the line that
 * the clamp does not cut: true when they stay, else they are added to *low or *high. */
static bool stays_inside(const struct tmk_stats_shadow *shadow, int32_t smallest, int32_t largest,
                         uint64_t count, uint64_t *low, uint64_t *high) {
    if (shadow->low_finite && largest <= shadow->low)
        *low += count;
    else if (shadow->high_finite && smallest >= shadow->high)
        *high += count;
    else
        return true;
    return false;
}

static enum tmk_status clamp_bins(struct tmk_stats *dst, const struct tmk_stats *src,
                                  const struct tmk_stats_shadow *shadow, uint64_t *low,
                                  uint64_t *high, struct tmk_diag *diag) {
    struct tmk_bin_walk walk = {.stats = src};
    struct tmk_wide one;
    const int32_t mask = src->level == TMK_STATS_HISTOGRAM ? 0xffff : 0x7fffff;
    while (tmk_next_bin(&walk, &one)) {
        /* zeros are in no bin */
        const int32_t head = (one.bin & 0x7fff) << 16, first = head ? head : 1, last = head + mask;
        const bool negative = one.bin >> 15;
        if (!stays_inside(shadow, negative ? -last - 1 : first, negative ? -first - 1 : last,
                          one.count, low, high))
            continue;
        TMK_TRY_ALLOC(tmk_stats_reserve(dst, 1), diag);
        tmk_stats_add_bin(dst, &one);
    }
    return TMK_OK;
}

static int32_t clamp_key(const struct tmk_stats_shadow *shadow, int32_t key) {
    return shadow->low_finite && key <= shadow->low     ? tmk_key_of_float(shadow->clamp.lo)
           : shadow->high_finite && key >= shadow->high ? tmk_key_of_float(shadow->clamp.hi)
                                                        : key;
}

static enum tmk_status clamp_channels(struct tmk_stats *dst, const struct tmk_stats *src,
                                      const struct tmk_stats_shadow *shadow,
                                      struct tmk_diag *diag) {
    const struct tmk_channels *channels = &src->channels, *infinite = &shadow->infinite;
    if (src->count == 0)
        return TMK_OK;
    TMK_TRY(tmk_channels_join(&dst->channels, 0, channels->kind, channels->axis, channels->count,
                              diag));
    if (channels->kind != TMK_CHANNELS_KNOWN)
        return TMK_OK;
    for (size_t c = 0; c < channels->count; c++) {
        int32_t min = tmk_key_of_float(channels->min[c]), max = tmk_key_of_float(channels->max[c]);
        if (min <= max)
            tmk_channels_update(&dst->channels, c, clamp_key(shadow, min), clamp_key(shadow, max));
    }
    if (infinite->kind == TMK_CHANNELS_KNOWN && infinite->count == channels->count)
        tmk_channels_merge(&dst->channels, infinite);
    return TMK_OK;
}

static enum tmk_status clamp_state(struct tmk_stats *dst, const struct tmk_stats *src,
                                   const struct tmk_stats_shadow *shadow, struct tmk_diag *diag) {
    uint64_t low = 0, high = 0;
    TMK_TRY(clamp_bins(dst, src, shadow, &low, &high, diag));
    if (stays_inside(shadow, 0, 0, src->zeros, &low, &high))
        dst->zeros = src->zeros;
    if (stays_inside(shadow, -1, -1, src->negative_zeros, &low, &high))
        dst->negative_zeros = src->negative_zeros;
    if (!tmk_stats_has_bins(src->level) && shadow->clamp.lo == 0)
        low = src->zeros + shadow->negatives;
    else if (!tmk_stats_has_bins(src->level) && shadow->clamp.hi == 0)
        high = src->count - src->nan - shadow->negatives + src->negative_zeros;
    else {
        low += src->neginf;
        high += src->posinf;
    }
    dst->neginf = shadow->low_finite ? 0 : src->neginf;
    dst->posinf = shadow->high_finite ? 0 : src->posinf;
    if (shadow->low_finite)
        TMK_TRY(add_value(dst, shadow->clamp.lo, low, diag));
    if (shadow->high_finite)
        TMK_TRY(add_value(dst, shadow->clamp.hi, high, diag));
    dst->count = src->count;
    dst->nan = src->nan;
    dst->samples = src->samples;
    dst->updates = src->updates;
    dst->first_nonfinite = shadow->first_nonfinite;
    shadow_extremes(shadow, src, &dst->min, &dst->max);
    if (dst->n_wide && !tmk_stats_is_narrow(src))
        tmk_stats_coarsen(dst);
    return clamp_channels(dst, src, shadow, diag);
}

enum tmk_status tmk_stats_derive_clamp(const struct tmk_stats *x,
                                       const struct tmk_stats_shadow *shadow,
                                       struct tmk_stats **out, struct tmk_diag *diag) {
    struct tmk_stats *dst;
    if (shadow->concat || !tmk_clamp_follows(&shadow->clamp, x->level))
        return tmk_fail(diag, TMK_UNSUPPORTED, "a clamp whose ends do not begin a bin");
    if (x->excluded)
        return tmk_fail(diag, TMK_UNSUPPORTED, "what was excluded cannot be clamped");
    if (tmk_stats_is_thinned(x))
        return tmk_fail(diag, TMK_UNSUPPORTED, "a thinned histogram does not tell what is clamped");
    TMK_TRY(tmk_stats_create_with(x->level, x->kernel, &dst, diag));
    enum tmk_status status = clamp_state(dst, x, shadow, diag);
    if (status == TMK_OK)
        *out = dst;
    else
        tmk_stats_destroy(&dst);
    return status;
}

static void map_place(struct tmk_where *at, const struct tmk_stats_operand *operand) {
    if (at->sample != TMK_NOWHERE)
        at->index = at->index / operand->elements * operand->stride + operand->offset +
                    at->index % operand->elements;
}

/* Widens the shadow's by these. */
static void shadow_join(struct tmk_stats_shadow *shadow, const struct tmk_places *places) {
    tmk_extreme_lower(&shadow->min, places->min);
    tmk_extreme_update(&shadow->max, places->max);
    tmk_where_earlier(&shadow->first_nonfinite, places->first_nonfinite);
}

void tmk_stats_shadow_concat(struct tmk_stats_shadow *shadow,
                             const struct tmk_stats_operand *operands, size_t n,
                             const struct tmk_stats_at *at) {
    for (size_t i = 0; i < n; i++) {
        if (operands[i].elements == 0)
            continue;
        struct tmk_places set = tmk_places_set(&operands[i], at);
        map_place(&set.min.at, &operands[i]);
        map_place(&set.max.at, &operands[i]);
        map_place(&set.first_nonfinite, &operands[i]);
        shadow_join(shadow, &set);
    }
}

/* The sum of the states, with the shadow's places. */
static enum tmk_status sum_states(const struct tmk_stats *const *operands, size_t n,
                                  const struct tmk_stats_shadow *shadow, struct tmk_stats **out,
                                  struct tmk_diag *diag) {
    struct tmk_stats *dst;
    TMK_TRY(tmk_stats_create_with(operands[0]->level, operands[0]->kernel, &dst, diag));
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < n && status == TMK_OK; i++)
        status = tmk_stats_merge(dst, operands[i], diag);
    if (status != TMK_OK) {
        tmk_stats_destroy(&dst);
        return status;
    }
    dst->min = shadow->min;
    dst->max = shadow->max;
    dst->first_nonfinite = shadow->first_nonfinite;
    *out = dst;
    return TMK_OK;
}

enum tmk_status tmk_stats_derive_concat(const struct tmk_stats *const *operands, size_t n,
                                        const struct tmk_stats_shadow *shadow,
                                        struct tmk_stats **out, struct tmk_diag *diag) {
    if (n == 0 || !shadow->concat)
        return tmk_fail(diag, TMK_ARGUMENT, "no operands, or not the shadow of a Concat");
    TMK_TRY(sum_states(operands, n, shadow, out, diag));
    tmk_channels_finish(&(*out)->channels);
    (*out)->samples = operands[0]->samples;
    (*out)->updates = operands[0]->updates;
    return TMK_OK;
}

/* Values that hold another's elements: all that is counted is the same, only places differ. */

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
        shadow_extremes(shadow, x, &places.min, &places.max);
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
    shadow_join(shadow, &set);
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
        shadow_join(shadow, &places);
    tmk_stats_destroy(&here);
    return status;
}

/* ---- the state ---- */

enum tmk_status tmk_stats_derive_moved(const struct tmk_stats *x,
                                       const struct tmk_stats_shadow *shadow,
                                       struct tmk_stats **out, struct tmk_diag *diag) {
    return sum_states(&x, 1, shadow, out, diag);
}

void tmk_stats_drop_channels(struct tmk_stats *stats, bool in_some) {
    tmk_channels_finish(&stats->channels);
    if (in_some)
        stats->channels.kind = TMK_CHANNELS_CONFLICT;
}
