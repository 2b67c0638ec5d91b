/* SPDX-License-Identifier: Apache-2.0 */
/* Extremes along one axis: the tensor is [outer, channels, inner], row-major. */
#include "stats/state.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"

enum { WIDTH = TMK_COLUMNS }; /* in one go */

void tmk_channels_finish(struct tmk_channels *channels) {
    free(channels->min); /* max is in the same block */
    *channels = (struct tmk_channels){TMK_CHANNELS_NONE, -1, 0, NULL, NULL};
}

static enum tmk_status make_known(struct tmk_channels *channels, int32_t axis, size_t count,
                                  struct tmk_diag *diag) {
    size_t bytes;
    float *both = tmk_mul_size(count, 2 * sizeof *both, &bytes) ? malloc(bytes) : NULL;
    TMK_TRY_ALLOC(both, diag);
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

void tmk_channels_update(struct tmk_channels *channels, size_t channel, int32_t min, int32_t max) {
    if (min < tmk_key_of_float(channels->min[channel]))
        channels->min[channel] = tmk_float_of_key(min);
    if (max > tmk_key_of_float(channels->max[channel]))
        channels->max[channel] = tmk_float_of_key(max);
}

struct columns {
    const struct tmk_stats_kernel *kernel;
    bool all_finite; /* the elements */
};

/* Columns of the rows, from column `first` on, at which x stands; column c is of channel c / inner
 * % channels->count. */
static void take_columns(struct tmk_channels *channels, struct columns columns,
                         const tmk_loose_bits *x, size_t rows, size_t stride, size_t inner,
                         size_t first, size_t width) {
    bool direct = inner == 1 && first + width <= channels->count;
    tmk_loose_bits *low = direct ? (void *)(channels->min + first) : NULL,
                   *high = direct ? (void *)(channels->max + first) : NULL;
    int32_t min[WIDTH], max[WIDTH];
    if (direct && columns.all_finite) {
        columns.kernel->update_columns(x, rows, stride, width, low, high);
        return;
    }
    for (size_t i = 0; i < width; i++) {
        min[i] = TMK_KEY_POSINF;
        max[i] = TMK_KEY_NEGINF;
    }
    (columns.all_finite ? columns.kernel->finite_columns
                        : columns.kernel->columns)(x, rows, stride, width, min, max);
    for (size_t row = channels->count * inner; first == 0 && width % (2 * row) == 0;) {
        width /= 2; /* rows that were joined, one on the other */
        for (size_t i = 0; i < width; i++) {
            min[i] = min[i + width] < min[i] ? min[i + width] : min[i];
            max[i] = max[i + width] > max[i] ? max[i + width] : max[i];
        }
    }
    if (direct) {
        tmk_minmax_merge_keys(low, high, min, max, width);
        return;
    }
    size_t channel = first / inner % channels->count, left = inner - first % inner;
    for (size_t i = 0; i < width; i++) {
        tmk_channels_update(channels, channel, min[i], max[i]);
        if (--left == 0) {
            left = inner;
            channel = channel + 1 < channels->count ? channel + 1 : 0;
        }
    }
}

/* Elements from column `first` on, of a few rows. */
static void take_row(struct tmk_channels *channels, struct columns columns, const tmk_loose_bits *x,
                     size_t n, size_t inner, size_t first) {
    for (size_t done = 0, width; done < n; done += width) {
        width = n - done < WIDTH ? n - done : WIDTH;
        take_columns(channels, columns, x + done, 1, 0, inner, first + done, width);
    }
}

/* Rows of channels * inner elements; several short ones make one wide row. */
void tmk_channels_add(struct tmk_channels *channels, const struct tmk_stats_kernel *kernel,
                      const tmk_loose_bits *x, size_t first, size_t n, size_t inner,
                      bool all_finite) {
    const struct columns columns = {kernel, all_finite};
    size_t row = channels->count * inner, begin = first % row;
    if (begin > 0) {
        size_t head = row - begin < n ? row - begin : n;
        take_row(channels, columns, x, head, inner, begin);
        x += head;
        n -= head;
    }
    size_t rows = n / row, joined = 1;
    while (joined * row < WIDTH / 4 && joined * 16 < rows)
        joined *= 2;
    if (rows > 0) {
        size_t width = joined * row, wide_rows = rows / joined;
        for (size_t c = 0; c < width; c += WIDTH)
            take_columns(channels, columns, x + c, wide_rows, width, inner, c,
                         width - c < WIDTH ? width - c : WIDTH);
        x += wide_rows * width;
        n -= wide_rows * width;
    }
    take_row(channels, columns, x, n, inner, 0);
}

void tmk_channels_merge(struct tmk_channels *channels, const struct tmk_channels *other) {
    for (size_t c = 0; c < channels->count; c++)
        tmk_channels_update(channels, c, tmk_key_of_float(other->min[c]),
                            tmk_key_of_float(other->max[c]));
}
