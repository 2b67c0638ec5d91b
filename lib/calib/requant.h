/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplications by which engines of integers bring codes from one scale to another. */
#ifndef TMK_CALIB_REQUANT_H
#define TMK_CALIB_REQUANT_H

#include "calib/make.h"
#include "tensor/fixed.h"

/* Fills encodings->requants from make->items. `rounding` and `pow2_requant` of the encodings say
 * how. */
TMK_NODISCARD enum tmk_status tmk_make_requants(struct tmk_make *make);

/* How far fixed-point multiplication (tensor/fixed.h) is from multiplying by the real number. Pure
 * functions; thread-safe. */

/* At least |tmk_fixed_multiply - x * real| for every int32 x whose result lies in [lowest,
 * highest]: proven, and near what occurs. */
double tmk_fixed_error(int32_t q, int32_t shift, double real, enum tmk_rounding rounding,
                       int32_t lowest, int32_t highest);

#endif
