/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "tensor/elements.h"
#include "tensor/float8.h"

bool tmk_grid_codes(const struct tmk_grid *grid, int32_t *lowest, int32_t *highest) {
    const unsigned bits = tmk_dtype_bits(grid->dtype);
    const bool is_signed = tmk_dtype_is_signed(grid->dtype);
    if (!tmk_dtype_is_integer(grid->dtype) || bits < 4 || bits > (is_signed ? 32 : 16))
        return false;
    if (is_signed) {
        *highest = (int32_t)((UINT32_C(1) << (bits - 1)) - 1);
        *lowest = -*highest - (grid->narrow ? 0 : 1);
    } else {
        *lowest = 0;
        *highest = (int32_t)((UINT32_C(1) << bits) - 1);
    }
    return true;
}

double tmk_grid_float8_max(enum tmk_dtype dtype) {
    return tmk_float8_is_written(dtype) ? tmk_float8_layout(dtype)->largest : 0;
}

bool tmk_grid_is_centred(const struct tmk_grid *grid) {
    return grid->symmetric || tmk_grid_float8_max(grid->dtype) > 0;
}

double tmk_grid_float8_last_step(enum tmk_dtype dtype) {
    const struct tmk_float8 *type = tmk_float8_layout(dtype);
    return ldexp(1, ilogb(type->largest) - type->mantissa);
}

double tmk_grid_float8_nearest(enum tmk_dtype dtype, double x) {
    const struct tmk_float8 *type = tmk_float8_layout(dtype);
    double magnitude = fabs(x), step;
    if (magnitude >= type->largest)
        return copysign(type->largest, x);
    /* the power of two that is not above x, or the type's least one, from the bits of the double */
    uint64_t bits, least = (uint64_t)(1023 + 1 - type->bias);
    memcpy(&bits, &magnitude, sizeof bits);
    bits >>= DBL_MANT_DIG - 1;
    bits = (bits > least ? bits : least) - (uint64_t)type->mantissa;
    bits <<= DBL_MANT_DIG - 1;
    memcpy(&step, &bits, sizeof step);
    return rint(x / step) * step;
}

static double power_of_two_from(double scale) {
    int exponent;
    return frexp(scale, &exponent) == 0.5 ? scale : ldexp(1, exponent);
}

enum tmk_status tmk_grid_fit(const struct tmk_grid *grid, float low, float high, float *scale,
                             int32_t *zero_point, struct tmk_diag *diag) {
    int32_t lowest = 0, highest = 0;
    bool is_integer = tmk_grid_codes(grid, &lowest, &highest);
    double most = tmk_grid_float8_max(grid->dtype);
    if (!is_integer && !(most > 0))
        return tmk_fail(diag, TMK_ARGUMENT, "%s has no codes", tmk_dtype_name(grid->dtype));
    if (!isfinite(low) || !isfinite(high) || !(low <= high))
        return tmk_fail(diag, TMK_ARGUMENT, "[%g, %g] is no range to fit codes to", (double)low,
                        (double)high);
    double from = low < 0 ? (double)low : 0, to = high > 0 ? (double)high : 0;
    double magnitude = fmax(-from, to), codes = (double)highest - lowest, made;
    if (!is_integer)
        made = magnitude / most;
    else
        made = (grid->symmetric ? 2 * magnitude : to - from) / codes;
    const bool empty = made < (double)FLT_MIN;
    if (grid->pow2 && !empty)
        made = power_of_two_from(made);
    if (is_integer && grid->symmetric)
        *zero_point = (int32_t)rint(((double)lowest + highest) / 2);
    else
        *zero_point = is_integer && !empty ? (int32_t)rint(lowest - from / made) : 0;
    *scale = empty ? 1 : (float)made;
    return TMK_OK;
}

int32_t tmk_grid_code(float real, float scale, int32_t zero_point, int32_t lowest,
                      int32_t highest) {
    double code = (double)rintf(real / scale) + zero_point;
    if (isnan(code))
        return zero_point;
    if (code <= lowest)
        return lowest;
    return code >= highest ? highest : (int32_t)code;
}
