/* SPDX-License-Identifier: Apache-2.0 */
/* The padded positions that a run leaves out. */
#ifndef TMK_SESSION_PADDING_H
#define TMK_SESSION_PADDING_H

#include "graph/graph.h"
#include "tensor/positions.h"

/* What is known of the graph's inputs, by the names of their dimensions, which are the mask's, or
 * by their own names. TMK_ARGUMENT: no input of this name is a mask. *out is malloc'ed. */
TMK_NODISCARD enum tmk_status tmk_padding_seeds(const struct tmk_graph *graph, const char *mask,
                                                struct tmk_position_seed **out, uint32_t *input,
                                                struct tmk_diag *diag);

#endif
