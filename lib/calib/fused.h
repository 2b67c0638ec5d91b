/* SPDX-License-Identifier: Apache-2.0 */
/* Values inside of what a target computes in one step. */
#ifndef TMK_CALIB_FUSED_H
#define TMK_CALIB_FUSED_H

#include "calib/config.h"
#include "calib/net.h"

/* Where the config has a target that fuses an operator with the only one that reads its result,
 * that result has no codes: sets reason[v] of values that have none. reason: [n_tensors]; texts
 * live in the arena. */
TMK_NODISCARD enum tmk_status tmk_fused_values(const struct tmk_net *net,
                                               const struct tmk_config *config, const char **reason,
                                               struct tmk_arena *arena, struct tmk_diag *diag);

#endif
