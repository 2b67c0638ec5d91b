/* SPDX-License-Identifier: Apache-2.0 */
/* Results rounded to the half-precision types that a model's file gives them. */
#ifndef TMK_PASS_ROUND_HALF_H
#define TMK_PASS_ROUND_HALF_H

#include "graph/graph.h"

/* Puts `ai.tidemark::RoundTo` behind every input and result of the graph, its sub-graphs included,
 * that is float16 or bfloat16 in the file that it was imported from (tmk_type.origin, or by the
 * operands where the file does not declare it), and sends all uses through it, those by observers
 * too. Operators that only move elements get none. The graph is sorted and bound; its values are
 * numbered anew, and types that it lacks are filled in. *n: how many were put in. TMK_NOMEM. */
TMK_NODISCARD enum tmk_status tmk_round_half(struct tmk_graph *graph, uint32_t *n,
                                             struct tmk_diag *diag);

#endif
