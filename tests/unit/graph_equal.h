/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "graph/graph.h"

/* Same structure, types, attributes, weights (by bytes), profile IDs and names. On a difference
 * `why` (may be NULL) names the first. */
bool graph_equal(const struct tmk_graph *a, const struct tmk_graph *b, struct tmk_diag *why);
