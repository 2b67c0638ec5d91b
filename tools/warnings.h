/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile's numbers warn of, in a few lines on stderr. */
#pragma once

#include <tidemark/meter.h>
#include <tidemark/profile.h>

/* Where NaN or infinity began; how many values are saturated, have dead channels, reach a mask's
 * number or are often one number; nothing where there is none. */
void remark_on_numbers(const struct tmk_profile *profile);
/* That its histograms count a share of the elements, where they do. */
void remark_on_thinned(const struct tmk_profile *profile);
/* How far thresholds still moved in the last doubling; `stable`: that is why the run ended. */
void remark_on_meter(const struct tmk_meter *meter, bool stable);
