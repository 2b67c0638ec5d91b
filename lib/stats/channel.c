/* SPDX-License-Identifier: Apache-2.0 */
/* Extremes along one axis: the tensor is [outer, channels, inner]. */
#include "stats/state.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"

enum { LANES = 512, SHORT_RUN = 8 };

void tmk_channels_finish(struct tmk_channels *channels) {
    free(channels->min); /* max is in the same block */
    *channels = (struct tmk_channels){TMK_CHANNELS_NONE, -1, 0, NULL, NULL};
}

static enum tmk_status make_known(struct tmk_channels *channels, int32_t axis, size_t count,
                                  struct tmk_diag *diag) {
    size_t bytes;
    float *both = tmk_mul_size(count, 2 * sizeof *both, &bytes) ? malloc(bytes) : NULL;
    if (!both)
        return tmk_nomem(diag);
    for (size_t c = 0; c < count; c++) {
        both[c] = tmk_float_of_key(TMK_KEY_POSINF);
        both[count + c] = tmk_float_of_key(TMK_KEY_NEGINF);
    }
    *channels = (struct tmk_channels){TMK_CHANNELS_KNOWN, axis, count, both, both + count};
    return TMK_OK;
}

enum tmk_status tmk_channels_join(struct tmk_channels *channels, uint64_t seen,
                                  enum tmk_channel_kind kind, int32_t axis, size_t count,
                                  struct tmk_diag *diag) {
    if (seen == 0 && kind == TMK_CHANNELS_KNOWN)
        return make_known(channels, axis, count, diag);
    bool same = channels->kind == kind && (kind != TMK_CHANNELS_KNOWN ||
                                           (channels->axis == axis && channels->count == count));
    if ((seen == 0 && kind == TMK_CHANNELS_CONFLICT) || (seen > 0 && !same)) {
        tmk_channels_finish(channels);
        channels->kind = TMK_CHANNELS_CONFLICT;
    }
    return TMK_OK;
}

static void take(struct tmk_channels *channels, size_t c, int32_t min, int32_t max) {
    if (min < tmk_key_of_float(channels->min[c]))
        channels->min[c] = tmk_float_of_key(min);
    if (max > tmk_key_of_float(channels->max[c]))
        channels->max[c] = tmk_float_of_key(max);
}

/* A run of one channel's elements. */
static void take_run(struct tmk_channels *channels, size_t c, const tmk_loose_bits *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t key = tmk_key_of_bits(x[i]);
        if (tmk_key_is_finite(key))
            take(channels, c, key, key);
    }
}

/* Columns [first, first + width) of the rows, where column c belongs to channel c %
 * channels->count. */
static void take_columns(struct tmk_channels *channels, const struct tmk_stats_kernel *kernel,
                         const tmk_loose_bits *x, size_t rows, size_t stride, size_t first,
                         size_t width) {
    int32_t min[LANES], max[LANES];
    for (size_t i = 0; i < width; i++) {
        min[i] = TMK_KEY_POSINF;
        max[i] = TMK_KEY_NEGINF;
    }
    kernel->columns(x + first, rows, stride, width, min, max);
    for (size_t i = 0; i < width; i++)
        take(channels, (first + i) % channels->count, min[i], max[i]);
}

/* The channel is the innermost axis. With few channels, several rows make one wide row. */
static void take_rows(struct tmk_channels *channels, const struct tmk_stats_kernel *kernel,
                      const tmk_loose_bits *x, size_t rows) {
    size_t count = channels->count, joined = count < LANES / 4 ? LANES / 2 / count : 1;
    if (joined > rows)
        joined = rows;
    size_t width = joined * count, wide_rows = rows / joined;
    for (size_t c = 0; c < width; c += LANES)
        take_columns(channels, kernel, x, wide_rows, width, c,
                     width - c < LANES ? width - c : LANES);
    size_t done = wide_rows * joined;
    if (done < rows)
        take_columns(channels, kernel, x + done * count, 1, 0, 0, (rows - done) * count);
}

void tmk_channels_update(struct tmk_channels *channels, const struct tmk_stats_kernel *kernel,
                         const tmk_loose_bits *x, const struct tmk_shape *shape, bool all_finite) {
    size_t outer = 1, inner = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        outer *= i < channels->axis ? (size_t)shape->dim[i] : 1;
        inner *= i > channels->axis ? (size_t)shape->dim[i] : 1;
    }
    if (inner == 1) {
        take_rows(channels, kernel, x, outer);
        return;
    }
    for (size_t o = 0; o < outer; o++)
        for (size_t c = 0; c < channels->count; c++, x += inner) {
            if (!all_finite || inner < SHORT_RUN) {
                take_run(channels, c, x, inner);
                continue;
            }
            for (size_t done = 0, n; done < inner; done += n) {
                n = inner - done < UINT32_MAX ? inner - done : UINT32_MAX;
                struct tmk_facts facts;
                kernel->survey(x + done, n, &facts);
                take(channels, c, tmk_facts_min(&facts), tmk_facts_max(&facts));
            }
        }
}

void tmk_channels_merge(struct tmk_channels *channels, const struct tmk_channels *other) {
    for (size_t c = 0; c < channels->count; c++)
        take(channels, c, tmk_key_of_float(other->min[c]), tmk_key_of_float(other->max[c]));
}
