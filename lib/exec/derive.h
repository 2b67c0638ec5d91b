/* SPDX-License-Identifier: Apache-2.0 */
/* Values whose statistics follow exactly from others': they are not looked at while the graph runs.
 *
 * Relu and Clip, views (Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout) and Transpose from
 * their operand, Concat from all of its operands; top-level nodes only, where result and operands
 * are observed at the same level; no Relu and Clip where numbers are left out, and nothing that
 * might put samples elsewhere where the extremes of each are kept. Which values those are depends
 * on the graph and on what is observed, never on how the graph runs. */
#pragma once

#include "exec/account.h"
#include "plan/plan.h"

/* Gives configs (one a slot of the bound, sorted graph; level, guard and print are set) their
 * rules, sources and shadows. The caller frees each `sources`. */
enum tmk_status tmk_derive_rules(const struct tmk_graph *graph,
                                 const struct tmk_observer *observers,
                                 struct tmk_slot_config *configs, uint32_t n,
                                 struct tmk_diag *diag);

/* As tmk_account_look for a slot, and what its rule wants to know of the tensor: of a transposed
 * one where the extremes stand, where the batch has new ones. Its data must then be there. */
enum tmk_status tmk_derive_look(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                                uint32_t slot, const struct tmk_tensor *tensor,
                                const struct tmk_stats_at *at, struct tmk_diag *diag);

/* To be called when a batch has run, by the worker whose accounts these are. */
void tmk_derive_note(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                     uint32_t n, const struct tmk_stats_at *at);

/* Gives the values with a rule their statistics, from all workers' accounts added up, but without
 * what constants add. */
enum tmk_status tmk_derive_all(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                               uint32_t n, struct tmk_diag *diag);
