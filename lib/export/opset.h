/* SPDX-License-Identifier: Apache-2.0 */
/* Raising a graph's operator set: nodes whose operator means something else under the newer one
 * become nodes that mean the same there. */
#ifndef TMK_EXPORT_OPSET_H
#define TMK_EXPORT_OPSET_H

#include "graph/graph.h"

/* Changes the graph, sub-graphs included, to version `to` of ONNX's own operators: values keep
 * names, IDs and fingerprints; nodes may get others of their inputs as initializers. No change
 * where it is of that version or a newer one. TMK_UNSUPPORTED names every node that has no form
 * there. The graph is bound, and bound again. */
TMK_NODISCARD enum tmk_status tmk_opset_upgrade(struct tmk_graph *graph, int64_t to,
                                                struct tmk_diag *diag);

#endif
