/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of codes: from a range to a scale and a zero point, by ONNX Runtime's formulas, bit for
 * bit. Pure functions; thread-safe. */
#ifndef TMK_CALIB_GRID_H
#define TMK_CALIB_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

struct tmk_grid {
    enum tmk_dtype dtype;
    bool symmetric;
    bool narrow; /* -127 ... 127 */
    bool pow2;   /* the scale is the least power of two that covers the range */
};

/* Codes of the type under this grid: false where the type has none (float32). float8 has none
 * either: scale = largest magnitude / largest finite number, zero point 0. */
bool tmk_grid_codes(const struct tmk_grid *grid, int32_t *lowest, int32_t *highest);
/* Largest finite number of a float8 type; 0 for others. */
double tmk_grid_float8_most(enum tmk_dtype dtype);

/* The scale and zero point that cover [low, high] (widened to hold 0; finite, low <= high). The
 * scale is at least FLT_MIN: a range of nothing gets scale 1. ORT 1.27+: asymmetric scale =
 * (float)((double)high - low) / codes), zero point rint(lowest - low / scale) with the double
 * scale; symmetric: largest magnitude * 2 / (highest - lowest) where narrow, ... (FORMATS 2.2). */
TMK_NODISCARD enum tmk_status tmk_grid_fit(const struct tmk_grid *grid, float low, float high,
                                           float *scale, int32_t *zero_point,
                                           struct tmk_diag *diag);
/* A weight's scale of ONNX Runtime: (float)(2 * absmax / (highest - lowest)). */
float tmk_grid_weight_scale(const struct tmk_grid *grid, float absmax);

/* clamp(rint(real / scale) + zero_point). */
int32_t tmk_grid_code(float real, float scale, int32_t zero_point, int32_t lowest, int32_t highest);

#endif
