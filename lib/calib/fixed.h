/* SPDX-License-Identifier: Apache-2.0 */
/* How far fixed-point multiplication (tensor/fixed.h) is from multiplying by the real number. Pure
 * functions; thread-safe. */
#ifndef TMK_CALIB_FIXED_H
#define TMK_CALIB_FIXED_H

#include "tensor/fixed.h"

/* At least |tmk_fixed_multiply - x * real| for every int32 x whose result lies in [lowest,
 * highest]: proven, and near what occurs. */
double tmk_fixed_error(int32_t q, int32_t shift, double real, enum tmk_rounding rounding,
                       int32_t lowest, int32_t highest);

#endif
