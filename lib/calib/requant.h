/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplications by which engines of integers bring codes from one scale to another. */
#ifndef TMK_CALIB_REQUANT_H
#define TMK_CALIB_REQUANT_H

#include "calib/make.h"

/* Fills encodings->requants from make->items. `rounding` and `pow2_requant` of the encodings say
 * how. */
TMK_NODISCARD enum tmk_status tmk_make_requants(struct tmk_make *make);

#endif
