/* SPDX-License-Identifier: Apache-2.0 */
/* Layers whose input spans more than 8 bits hold: raw spectra, energies, values with rare and very
 * large elements. The best range leaves them so much noise that it is that of the outputs. */
#ifndef TMK_CALIB_WIDE_H
#define TMK_CALIB_WIDE_H

#include "calib/config.h"
#include "calib/net.h"
#include "calib/pattern.h"

/* Sets decibels[node] of products that better stay float for that, to what 8 bits leave of the
 * input; 0 of all other nodes. Those with the fewest decibels come first, as long as they have no
 * more than half of the multiplications that 8 bits are for. None with sensitive=quantize, and
 * where activations have more than 8 bits by default. */
TMK_NODISCARD enum tmk_status tmk_find_wide(const struct tmk_net *net,
                                            const struct tmk_config *config,
                                            const struct tmk_patterns *patterns, float *decibels,
                                            struct tmk_diag *diag);

#endif
