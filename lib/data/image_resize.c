/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "data/image_decode.h"

enum { BITS = 22, HALF = 1 << (BITS - 1) }; /* 255 times the weights' sum stays below 2^31 */

/* Along one axis: which pixels make pixel i, and with what weights in fixed point. */
struct axis {
    uint32_t *first, *n;
    int32_t *weight; /* `most` for each */
    size_t most;
};

static void finish_axis(struct axis *axis) {
    tmk_memory_free(axis->first);
    tmk_memory_free(axis->n);
    tmk_memory_free(axis->weight);
}

/* The weights of one pixel, whose centre is at `centre` among pixels of width 1. */
static uint32_t fill_weights(double centre, double reach, uint32_t from, uint32_t until,
                             double *weight, int32_t *fixed) {
    double sum = 0;
    uint32_t n = until - from;
    for (uint32_t i = 0; i < n; i++) {
        double distance = fabs(from + i + 0.5 - centre) / reach;
        weight[i] = distance < 1 ? 1 - distance : 0;
        sum += weight[i];
    }
    for (uint32_t i = 0; i < n; i++)
        fixed[i] = (int32_t)lround(weight[i] / sum * (1 << BITS));
    while (n && !fixed[n - 1])
        n--;
    return n;
}

/* `count` pixels from `from` on of `out`, made of `in`. */
static enum tmk_status init_axis(struct axis *axis, uint32_t in, uint32_t out, uint32_t from,
                                 uint32_t count, struct tmk_diag *diag) {
    double step = (double)in / out, reach = step > 1 ? step : 1;
    size_t bytes;
    *axis = (struct axis){.most = 2 * (size_t)ceil(reach) + 2};
    TMK_TRY_ALLOC(tmk_mul_size(axis->most, count, &bytes) &&
                      tmk_mul_size(bytes, sizeof(int32_t), &bytes),
                  diag);
    axis->first = tmk_memory_zeroed(count * sizeof *axis->first);
    axis->n = tmk_memory_zeroed(count * sizeof *axis->n);
    axis->weight = tmk_memory_aligned(bytes);
    if (!axis->weight)
        return tmk_memory_fail(diag, bytes, "resizing %u pixels to %u", in, out);
    double *weight = tmk_memory_aligned(axis->most * sizeof *weight);
    bool ok = axis->first && axis->n && axis->weight && weight;
    for (uint32_t i = 0; ok && i < count; i++) {
        double centre = (from + i + 0.5) * step;
        double low = floor(centre - reach), high = ceil(centre + reach);
        uint32_t begin = low > 0 ? (uint32_t)low : 0;
        uint32_t end = high < in ? (uint32_t)high : in;
        axis->first[i] = begin;
        axis->n[i] = fill_weights(centre, reach, begin, end, weight, axis->weight + i * axis->most);
    }
    tmk_memory_free(weight);
    return ok ? TMK_OK : tmk_nomem(diag);
}

static unsigned char round_sum(int32_t sum) {
    int32_t value = (sum + HALF) >> BITS;
    return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* One row of `in`, its columns resampled. */
static void resample_row(const unsigned char *in, const struct axis *axis, uint32_t columns,
                         uint32_t channels, unsigned char *out) {
    for (uint32_t x = 0; x < columns; x++) {
        const unsigned char *from = in + (size_t)axis->first[x] * channels;
        const int32_t *weight = axis->weight + x * axis->most;
        uint32_t n = axis->n[x];
        int32_t sum[3] = {0};
        if (channels == 3)
            for (uint32_t i = 0; i < n; i++) {
                sum[0] += weight[i] * from[3 * i];
                sum[1] += weight[i] * from[3 * i + 1];
                sum[2] += weight[i] * from[3 * i + 2];
            }
        else
            for (uint32_t i = 0; i < n; i++)
                sum[0] += weight[i] * from[i];
        for (uint32_t c = 0; c < channels; c++)
            out[x * channels + c] = round_sum(sum[c]);
    }
}

/* A row made of n others that follow each other. */
static void mix_rows(const unsigned char *in, size_t row, const int32_t *weight, uint32_t n,
                     int32_t *sum, unsigned char *out) {
    memset(sum, 0, row * sizeof *sum);
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < row; k++)
            sum[k] += weight[i] * in[i * row + k];
    for (size_t k = 0; k < row; k++)
        out[k] = round_sum(sum[k]);
}

static enum tmk_status resample_axes(const struct tmk_pixels *in, const struct tmk_image_view *view,
                                     const struct axis *across, const struct axis *down,
                                     struct tmk_pixels *out, struct tmk_diag *diag) {
    uint32_t top = down->first[0], last = view->rows - 1, channels = in->channels;
    uint32_t bottom = down->first[last] + down->n[last];
    size_t row = (size_t)view->columns * channels, wide = (size_t)in->width * channels;
    struct tmk_pixels half = {0};
    int32_t *sum = tmk_memory_aligned(row * sizeof *sum);
    enum tmk_status status =
        sum ? tmk_pixels_init(&half, view->columns, bottom - top, channels, diag) : tmk_nomem(diag);
    TMK_THEN(status, tmk_pixels_init(out, view->columns, view->rows, channels, diag));
    for (uint32_t y = top; status == TMK_OK && y < bottom; y++)
        resample_row(in->data + y * wide, across, view->columns, channels,
                     half.data + (y - top) * row);
    for (uint32_t y = 0; status == TMK_OK && y < view->rows; y++)
        mix_rows(half.data + (down->first[y] - top) * row, row, down->weight + y * down->most,
                 down->n[y], sum, out->data + y * row);
    tmk_memory_free(sum);
    tmk_pixels_finish(&half);
    return status;
}

enum tmk_status tmk_image_resize(const struct tmk_pixels *in, const struct tmk_image_view *view,
                                 struct tmk_pixels *out, struct tmk_diag *diag) {
    struct axis across = {0}, down = {0};
    enum tmk_status status =
        init_axis(&across, in->width, view->width, view->x, view->columns, diag);
    TMK_THEN(status, init_axis(&down, in->height, view->height, view->y, view->rows, diag));
    TMK_THEN(status, resample_axes(in, view, &across, &down, out, diag));
    finish_axis(&across);
    finish_axis(&down);
    return status;
}
