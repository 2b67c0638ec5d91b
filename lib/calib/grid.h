/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of codes: from a range to a scale and a zero point, by ONNX Runtime's formulas
 * (onnxruntime.quantization.quant_utils.compute_scale_zp), bit for bit. Pure functions;
 * thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

struct tmk_grid {
    enum tmk_dtype dtype;
    bool symmetric;
    bool narrow; /* -127 ... 127: what ONNX Runtime takes for symmetric int8 and int16 */
    bool pow2;   /* the scale is the least power of two that covers the range */
};

/* Codes of an integer type under this grid; false, and nothing written, for other types. */
bool tmk_grid_codes(const struct tmk_grid *grid, int32_t *lowest, int32_t *highest);
/* Is zero in its middle: symmetric, or float8? */
bool tmk_grid_is_centred(const struct tmk_grid *grid);
/* Largest finite number of a float8 type; 0 for others. */
double tmk_grid_float8_max(enum tmk_dtype dtype);
/* How far the number before the largest is from it. */
double tmk_grid_float8_last_step(enum tmk_dtype dtype);
/* The float8 number nearest to x, ties to even, with what is larger clamped to the largest; the
 * type must be a float8 type. */
double tmk_grid_float8_nearest(enum tmk_dtype dtype, double x);

/* The scale and zero point that cover [low, high], widened to hold 0. In double, rounded to float
 * at the end:
 *   asymmetric: scale = (high - low) / (highest - lowest), zero point = rint(lowest - low / scale);
 *   symmetric:  scale = 2 * largest magnitude / (highest - lowest),
 *               zero point = rint((lowest + highest) / 2): 0, or 128 for uint8;
 *   float8:     scale = largest magnitude / largest finite number, zero point 0;
 *   pow2:       the least power of two that is not below that scale, with its zero point.
 * A scale below FLT_MIN, as of a range of nothing, becomes 1, and an asymmetric zero point 0 (ONNX
 * Runtime's symmetric one, too). TMK_ARGUMENT: low <= high does not hold, or they are not finite,
 * or the type has no codes. */
enum tmk_status tmk_grid_fit(const struct tmk_grid *grid, float low, float high, float *scale,
                             int32_t *zero_point, struct tmk_diag *diag);

/* clamp(rint(real / scale) + zero_point), real / scale in float32; NaN gives the zero point. */
int32_t tmk_grid_code(float real, float scale, int32_t zero_point, int32_t lowest, int32_t highest);
