/* SPDX-License-Identifier: Apache-2.0 */
/* The algebra: sums of states, and states that follow from others. */
#include "base/diag.h"
#include "stats/state.h"

static enum tmk_status check(const struct tmk_stats *dst, const struct tmk_stats *src,
                             uint64_t times, struct tmk_diag *diag) {
    uint64_t count, samples, updates;
    if (dst->level != src->level)
        return tmk_fail(diag, TMK_MISMATCH,
                        "statistics with a histogram do not add to statistics without");
    if (__builtin_mul_overflow(src->count, times, &count) ||
        __builtin_mul_overflow(src->samples, times, &samples) ||
        __builtin_mul_overflow(src->updates, times, &updates) ||
        __builtin_add_overflow(dst->samples, samples, &samples) ||
        __builtin_add_overflow(dst->updates, updates, &updates) ||
        count > tmk_stats_limit(dst->level) - dst->count)
        return tmk_fail(diag, TMK_RANGE, "more elements than statistics can count");
    return TMK_OK;
}

enum tmk_status tmk_stats_merge_times(struct tmk_stats *dst, const struct tmk_stats *src,
                                      uint64_t times, struct tmk_diag *diag) {
    struct tmk_octave octave;
    TMK_TRY(check(dst, src, times, diag));
    if (times == 0)
        return TMK_OK;
    /* memory first: empty counters and channels without elements change no state */
    for (unsigned o = 0; o < TMK_OCTAVES; o++)
        if (tmk_stats_octave(src, o, &octave) && !tmk_stats_wide(dst, o))
            return tmk_nomem(diag);
    const struct tmk_channels *channels = &src->channels;
    if (src->count > 0) {
        TMK_TRY(tmk_channels_join(&dst->channels, dst->count, channels->kind, channels->axis,
                                  channels->count, diag));
        if (dst->channels.kind == TMK_CHANNELS_KNOWN)
            tmk_channels_merge(&dst->channels, channels);
    }
    unsigned bins = tmk_stats_bins_an_octave(dst->level);
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(src, o, &octave))
            continue;
        uint64_t *wide = dst->octave[o];
        for (unsigned i = 0; i < bins; i++) {
            wide[i] += octave.count[i] * times;
            wide[bins + i] += octave.low[i] * times;
        }
    }
    dst->count += src->count * times;
    dst->nan += src->nan * times;
    dst->posinf += src->posinf * times;
    dst->neginf += src->neginf * times;
    dst->zeros += src->zeros * times;
    dst->negative_zeros += src->negative_zeros * times;
    dst->samples += src->samples * times;
    dst->updates += src->updates * times;
    tmk_extreme_lower(&dst->min, src->min);
    tmk_extreme_raise(&dst->max, src->max);
    tmk_where_earlier(&dst->first_nonfinite, src->first_nonfinite);
    return TMK_OK;
}

enum tmk_status tmk_stats_merge(struct tmk_stats *dst, const struct tmk_stats *src,
                                struct tmk_diag *diag) {
    return tmk_stats_merge_times(dst, src, 1, diag);
}

/* The positive octaves of src, copied; *negatives: the elements in the others. */
static enum tmk_status copy_positive(struct tmk_stats *dst, const struct tmk_stats *src,
                                     uint64_t *negatives, struct tmk_diag *diag) {
    struct tmk_octave octave;
    unsigned bins = tmk_stats_bins_an_octave(src->level);
    *negatives = 0;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        if (!tmk_stats_octave(src, o, &octave))
            continue;
        uint64_t *wide = o < TMK_OCTAVES / 2 ? tmk_stats_wide(dst, o) : NULL;
        if (o < TMK_OCTAVES / 2 && !wide)
            return tmk_nomem(diag);
        for (unsigned i = 0; i < bins; i++) {
            if (!wide) {
                *negatives += octave.count[i];
                continue;
            }
            wide[i] = octave.count[i];
            wide[bins + i] = octave.low[i];
        }
    }
    return TMK_OK;
}

/* An extreme of src after max(x, +0). A zero that stood for something lower may have an earlier one
 * before it. */
static struct tmk_extreme clamp(struct tmk_extreme extreme, bool lower_seen) {
    if (extreme.key > 0 || (extreme.key == 0 && !lower_seen))
        return extreme;
    return (struct tmk_extreme){0, tmk_nowhere};
}

static enum tmk_status relu(struct tmk_stats *dst, const struct tmk_stats *src,
                            struct tmk_diag *diag) {
    uint64_t negatives;
    TMK_TRY(copy_positive(dst, src, &negatives, diag));
    dst->count = src->count;
    dst->posinf = src->posinf;
    dst->zeros = src->zeros + src->negative_zeros + negatives + src->neginf;
    dst->samples = src->samples;
    dst->updates = src->updates;
    if (tmk_stats_finite(dst) > 0) {
        bool lower_seen = src->neginf > 0 || src->min.key < 0;
        if (tmk_stats_finite(src) > 0) {
            dst->min = clamp(src->min, lower_seen);
            dst->max = clamp(src->max, lower_seen);
        } else {
            dst->min = dst->max = (struct tmk_extreme){0, tmk_nowhere};
        }
        if (src->neginf > 0)
            dst->min = (struct tmk_extreme){0, tmk_nowhere};
    }
    dst->first_nonfinite = src->neginf ? tmk_nowhere : src->first_nonfinite;
    if (src->count == 0)
        return TMK_OK;
    const struct tmk_channels *channels = &src->channels;
    bool lost = channels->kind == TMK_CHANNELS_KNOWN && src->neginf > 0;
    TMK_TRY(tmk_channels_join(&dst->channels, 0, lost ? TMK_CHANNELS_CONFLICT : channels->kind,
                              channels->axis, channels->count, diag));
    for (size_t c = 0; c < dst->channels.count; c++) {
        int32_t min = tmk_key_of_float(channels->min[c]), max = tmk_key_of_float(channels->max[c]);
        if (min > max) /* nothing finite */
            continue;
        dst->channels.min[c] = tmk_float_of_key(min < 0 ? 0 : min);
        dst->channels.max[c] = tmk_float_of_key(max < 0 ? 0 : max);
    }
    return TMK_OK;
}

enum tmk_status tmk_stats_derive_relu(const struct tmk_stats *src, struct tmk_stats **out,
                                      struct tmk_diag *diag) {
    struct tmk_stats *dst;
    if (src->nan > 0)
        return tmk_fail(diag, TMK_RANGE, "the statistics of a Relu do not follow from NaN");
    TMK_TRY(tmk_stats_create_with(src->level, src->kernel, &dst, diag));
    enum tmk_status status = relu(dst, src, diag);
    if (status == TMK_OK)
        *out = dst;
    else
        tmk_stats_destroy(&dst);
    return status;
}
