/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that an optimiser changed: reshaped, transposed, or scaled by channel. */
#ifndef TMK_LINK_WEIGHTS_H
#define TMK_LINK_WEIGHTS_H

#include "graph/graph.h"
#include "link/link.h"
#include "link/signature.h"

/* Adds signatures of float weights that are not matched, as if they were seen in each batch. */
TMK_NODISCARD enum tmk_status tmk_link_sample_weights(const struct tmk_linking *l,
                                                      struct tmk_graph *graph, bool originals,
                                                      struct tmk_signatures *out);
/* Matches float weights that are left. Both graphs are without observers. */
TMK_NODISCARD enum tmk_status tmk_link_weights(struct tmk_linking *l, struct tmk_graph *original,
                                               struct tmk_graph *model);

#endif
