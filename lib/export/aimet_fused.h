/* SPDX-License-Identifier: Apache-2.0 */
/* What AIMET's graph does not have: its simulation fuses normalizations that are spelled out, and a
 * MatMul with its bias, and refuses encodings of what lies within. */
#ifndef TMK_EXPORT_AIMET_FUSED_H
#define TMK_EXPORT_AIMET_FUSED_H

#include <stdint.h>

#include "graph/graph.h"

/* Adds to within[ID] how many of a value's uses are within, for IDs below n: all of them where
 * AIMET's graph does not have it. Follows aimet_onnx 2.42, graph_passes/fusions. */
void tmk_aimet_count_fused(const struct tmk_graph *graph, uint32_t *within, uint32_t n);

#endif
