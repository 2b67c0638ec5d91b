/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/samples.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"

static enum tmk_status reserve_samples(struct tmk_samples *samples, size_t n,
                                       struct tmk_diag *diag) {
    size_t size = samples->size + samples->size / 2, bytes;
    if (n <= samples->size)
        return TMK_OK;
    size = size < n ? n : size;
    size = size < 64 ? 64 : size;
    TMK_TRY_ALLOC(tmk_mul_size(size, sizeof *samples->range, &bytes), diag);
    uint64_t *sample = realloc(samples->sample, size * sizeof *sample);
    TMK_TRY_ALLOC(sample, diag);
    samples->sample = sample;
    struct tmk_minmax *range = realloc(samples->range, bytes);
    TMK_TRY_ALLOC(range, diag);
    samples->range = range;
    samples->size = size;
    return TMK_OK;
}

/* The position of the first that is not before this sample. */
static size_t lower_bound(const struct tmk_samples *samples, uint64_t sample) {
    size_t low = 0, high = samples->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (samples->sample[middle] < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum tmk_status tmk_samples_open(struct tmk_samples *samples, uint64_t first, uint64_t n,
                                 struct tmk_minmax **out, struct tmk_diag *diag) {
    size_t at = samples->n && samples->sample[samples->n - 1] >= first ? lower_bound(samples, first)
                                                                       : samples->n;
    size_t total;
    if (n > SIZE_MAX || !tmk_add_size(at, (size_t)n, &total))
        return tmk_nomem(diag);
    if (at == samples->n) {
        TMK_TRY(reserve_samples(samples, total, diag));
        for (uint64_t i = 0; i < n; i++) {
            samples->sample[at + i] = first + i;
            samples->range[at + i] = tmk_minmax_empty();
        }
        samples->n = total;
    } else if (total > samples->n || samples->sample[at] != first ||
               (n && samples->sample[total - 1] != first + n - 1)) {
        return tmk_fail(diag, TMK_ARGUMENT, "samples from %llu on come after later ones",
                        (unsigned long long)first);
    }
    *out = samples->range + at;
    return TMK_OK;
}

/* From the end, so that dst's own are moved before something takes their place. */
static void interleave_samples(struct tmk_samples *dst, const struct tmk_samples *src,
                               size_t together) {
    size_t a = dst->n, b = src->n, to = together;
    while (b > 0) {
        to--;
        if (a > 0 && dst->sample[a - 1] >= src->sample[b - 1]) {
            bool both = dst->sample[a - 1] == src->sample[b - 1];
            dst->sample[to] = dst->sample[a - 1];
            dst->range[to] = dst->range[--a];
            if (both)
                tmk_minmax_merge(&dst->range[to], &src->range[--b]);
        } else {
            dst->sample[to] = src->sample[b - 1];
            dst->range[to] = src->range[--b];
        }
    }
}

enum tmk_status tmk_samples_merge(struct tmk_samples *dst, const struct tmk_samples *src,
                                  struct tmk_diag *diag) {
    size_t common = 0, together;
    for (size_t a = 0, b = 0; a < dst->n && b < src->n;) {
        uint64_t x = dst->sample[a], y = src->sample[b];
        common += x == y;
        a += x <= y;
        b += y <= x;
    }
    TMK_TRY_ALLOC(tmk_add_size(dst->n, src->n - common, &together), diag);
    TMK_TRY(reserve_samples(dst, together, diag));
    interleave_samples(dst, src, together);
    dst->n = together;
    return TMK_OK;
}

void tmk_samples_clamp(struct tmk_samples *samples, const struct tmk_clamp *clamp) {
    for (size_t i = 0; i < samples->n; i++)
        tmk_minmax_clamp(&samples->range[i], clamp);
}

void tmk_samples_finish(struct tmk_samples *samples) {
    free(samples->sample);
    free(samples->range);
    *samples = (struct tmk_samples){0};
}
