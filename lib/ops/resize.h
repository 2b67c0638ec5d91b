/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample: what the attributes and inputs ask for, and how one axis is resampled.
 *
 * Formulas are those of ONNX's Resize page. Coordinates are computed in float32, as in ONNX
 * Runtime: which element is the nearest hangs on their last bit. */
#pragma once

#include "graph/graph.h"

enum tmk_resize_mode { TMK_RESIZE_NEAREST, TMK_RESIZE_LINEAR, TMK_RESIZE_CUBIC };

enum tmk_resize_place {
    TMK_PLACE_HALF_PIXEL,
    TMK_PLACE_HALF_PIXEL_SYMMETRIC,
    TMK_PLACE_PYTORCH_HALF_PIXEL,
    TMK_PLACE_ALIGN_CORNERS,
    TMK_PLACE_ASYMMETRIC,
    TMK_PLACE_TF_HALF_PIXEL_FOR_NN,
    TMK_PLACE_TF_CROP_AND_RESIZE
};

enum tmk_resize_nearest {
    TMK_NEAREST_ROUND_PREFER_FLOOR,
    TMK_NEAREST_ROUND_PREFER_CEIL,
    TMK_NEAREST_FLOOR,
    TMK_NEAREST_CEIL,
    /* Upsample, and Resize of operator set 10, which do not set it: down when enlarging, up when
     * shrinking (as ONNX Runtime) */
    TMK_NEAREST_SIMPLE
};

struct tmk_resize {
    enum tmk_resize_mode mode;
    enum tmk_resize_place place;
    enum tmk_resize_nearest nearest;
    bool antialias, exclude_outside;
    float cubic_a, extrapolation;
    int32_t rank;
    int64_t in[TMK_MAX_RANK], out[TMK_MAX_RANK];
    float scale[TMK_MAX_RANK];
    float length[TMK_MAX_RANK]; /* of the output, for coordinates: not whole where a scale makes it
                                   so */
    float start[TMK_MAX_RANK], end[TMK_MAX_RANK]; /* region of interest, in parts of the axis */
};

/* Output i of an axis is the sum over t < taps of weight[i * taps + t] * x[index[i * taps + t]]. */
struct tmk_resize_axis {
    size_t taps;
    int64_t *index; /* 0 <= index < in */
    float *weight;
    bool *outside; /* output i lies outside the input and is extrapolated; NULL: none can */
};

/* False when the axis stays as it is. */
bool tmk_resize_moves(const struct tmk_resize *resize, int32_t axis);
/* Taps of every output of the axis; 1 for nearest. */
size_t tmk_resize_taps(const struct tmk_resize *resize, int32_t axis);
/* Fills index, weight and outside, which hold taps * out, taps * out and out entries; taps is set.
 * in and out are not 0. */
void tmk_resize_fill(const struct tmk_resize *resize, int32_t axis, struct tmk_resize_axis *table);
