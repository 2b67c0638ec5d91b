/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that an optimiser changed: reshaped, transposed, or scaled by channel. */
#ifndef TMK_SESSION_LINK_WEIGHTS_H
#define TMK_SESSION_LINK_WEIGHTS_H

#include "graph/graph.h"
#include "profile/link.h"
#include "session/model.h"

/* Matches float weights that are left. `original` is without observers. */
TMK_NODISCARD enum tmk_status tmk_link_weights(struct tmk_linking *l, struct tmk_graph *original,
                                               const struct tmk_model *model);

#endif
