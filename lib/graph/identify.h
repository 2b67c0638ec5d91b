/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints and profile IDs: names for values that depend on the graph's structure only.
 *
 * Fingerprint of a value: xxHash64 over
 *   an input:        its dtype, rank and position among the inputs
 *   an initializer:  its dtype and shape (`content`: and its bytes); a Constant node's value counts
 * as one a result:        domain, operator, attributes in order of name, output position, operands'
 * fingerprints An attribute graph counts by the fingerprints of its outputs; its own inputs by
 * position and depth. Names of nodes, values and files have no part in it.
 *
 * IDs: graph inputs in their order; then from each graph output in order, depth first, operands in
 * order, a node's outputs after its operands, sub-graphs where their node stands (after its
 * operands, before its outputs); then what no output needs, in order of (fingerprint, content).
 * Dense from 0. */
#ifndef TMK_GRAPH_IDENTIFY_H
#define TMK_GRAPH_IDENTIFY_H

#include "graph/graph.h"

/* Gives every live value of a root and its sub-graphs its profile_id, fingerprint, content and
 * ordinal. The graph must be sorted. Done once, at import: an ID never changes. *n_ids (may be
 * NULL) receives their number. */
TMK_NODISCARD enum tmk_status tmk_graph_identify(struct tmk_graph *graph, uint32_t *n_ids,
                                                 struct tmk_diag *diag);

#endif
