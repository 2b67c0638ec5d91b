/* SPDX-License-Identifier: Apache-2.0 */
/* What every reader does with its graph in the end. */
#ifndef TMK_MODEL_FINISH_H
#define TMK_MODEL_FINISH_H

#include "graph/graph.h"

/* Binds rows (tmk_ops_bind), gives profile IDs and verifies. The graph is sorted. keep_unknown:
 * take operators that have no row. */
TMK_NODISCARD enum tmk_status tmk_model_finish(struct tmk_graph *graph, bool keep_unknown,
                                               struct tmk_diag *diag);

#endif
