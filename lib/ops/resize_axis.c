/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/resize.h"

bool tmk_resize_moves(const struct tmk_resize *resize, int32_t axis) {
    bool cropped = resize->place == TMK_PLACE_TF_CROP_AND_RESIZE &&
                   (resize->start[axis] != 0 || resize->end[axis] != 1);
    return cropped || resize->in[axis] != resize->out[axis] || resize->scale[axis] != 1;
}

/* The place in the input of output `i`. */
static float place_of(const struct tmk_resize *r, int32_t axis, int64_t i) {
    float x = (float)i, scale = r->scale[axis], in = (float)r->in[axis], out = r->length[axis];
    switch (r->place) {
    case TMK_PLACE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (float)r->out[axis] / (scale * in)) + (x + 0.5f) / scale - 0.5f;
    case TMK_PLACE_PYTORCH_HALF_PIXEL:
        return out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case TMK_PLACE_ALIGN_CORNERS:
        return out > 1 ? x * (in - 1) / (out - 1) : 0;
    case TMK_PLACE_ASYMMETRIC:
        return x / scale;
    case TMK_PLACE_TF_HALF_PIXEL_FOR_NN:
        return (x + 0.5f) / scale;
    case TMK_PLACE_TF_CROP_AND_RESIZE:
        return out > 1 ? r->start[axis] * (in - 1) +
                             x * (r->end[axis] - r->start[axis]) * (in - 1) / (out - 1)
                       : 0.5f * (r->start[axis] + r->end[axis]) * (in - 1);
    default:
        return (x + 0.5f) / scale - 0.5f;
    }
}

static float round_to(const struct tmk_resize *r, int32_t axis, float x) {
    switch (r->nearest) {
    case TMK_NEAREST_ROUND_PREFER_FLOOR:
        return x == truncf(x) + 0.5f ? floorf(x) : roundf(x);
    case TMK_NEAREST_ROUND_PREFER_CEIL:
        return roundf(x); /* below 0 all is one */
    case TMK_NEAREST_CEIL:
        return ceilf(x);
    case TMK_NEAREST_SIMPLE:
        return r->scale[axis] < 1 ? ceilf(x) : floorf(x);
    default:
        return floorf(x);
    }
}

/* Also of NaN and of numbers beyond int64. */
static int64_t clamp_position(float x, int64_t in) {
    if (!(x > 0))
        return 0;
    return x >= (float)(in - 1) ? in - 1 : (int64_t)x;
}

/* The kernel at a distance of x elements; `shrink` <= 1 stretches it when antialiasing. */
static double kernel_weight(const struct tmk_resize *r, double x, double shrink) {
    double a = (double)r->cubic_a;
    x = fabs(x * shrink);
    if (r->mode == TMK_RESIZE_LINEAR)
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static double shrink_of(const struct tmk_resize *r, int32_t axis) {
    return r->antialias && r->scale[axis] < 1 ? (double)r->scale[axis] : 1;
}

/* The first tap, from the element at or before the place: the first that the kernel can reach. */
static int64_t first_tap(const struct tmk_resize *r, int32_t axis) {
    double reach = r->mode == TMK_RESIZE_LINEAR ? 1 : 2;
    return (int64_t)floor(-reach / shrink_of(r, axis)) + 1;
}

size_t tmk_resize_taps(const struct tmk_resize *resize, int32_t axis) {
    if (resize->mode == TMK_RESIZE_NEAREST)
        return 1;
    return (size_t)(2 - 2 * first_tap(resize, axis));
}

static void fill_output(const struct tmk_resize *r, int32_t axis, float place, size_t taps,
                        int64_t *index, float *weight) {
    int64_t in = r->in[axis], first = first_tap(r, axis);
    double shrink = shrink_of(r, axis), sum = 0;
    /* far outside all taps meet the border, wherever exactly */
    float limit = (float)in + (float)taps, x = fminf(fmaxf(place, -limit), limit);
    int64_t base = (int64_t)ceilf(x) - 1; /* so that 0 < x - base <= 1 */
    for (size_t t = 0; t < taps; t++) {
        int64_t at = base + first + (int64_t)t;
        bool outside = at < 0 || at >= in;
        weight[t] =
            outside && r->exclude_outside
                ? 0
                : (float)kernel_weight(r, (double)(at - base) - ((double)x - (double)base), shrink);
        sum += (double)weight[t];
        index[t] = at < 0 ? 0 : at >= in ? in - 1 : at;
    }
    for (size_t t = 0; t < taps && sum != 0; t++)
        weight[t] = (float)((double)weight[t] / sum);
}

void tmk_resize_fill(const struct tmk_resize *resize, int32_t axis, struct tmk_resize_axis *table) {
    size_t taps = table->taps;
    for (int64_t i = 0; i < resize->out[axis]; i++) {
        float place = place_of(resize, axis, i);
        int64_t *index = table->index + (size_t)i * taps;
        float *weight = table->weight + (size_t)i * taps;
        if (table->outside)
            table->outside[i] = !(place >= 0 && place <= (float)(resize->in[axis] - 1));
        if (resize->mode == TMK_RESIZE_NEAREST) {
            *index = clamp_position(round_to(resize, axis, place), resize->in[axis]);
            *weight = 1;
        } else {
            fill_output(resize, axis, place, taps, index, weight);
        }
    }
}
