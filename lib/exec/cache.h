/* SPDX-License-Identifier: Apache-2.0 */
/* Plans by shape signature: made once, shared by all workers, and only so many kept.
 *
 * A planned entry also holds the accounts of values that are constant under its plan: they are
 * looked at once, and count as often as the plan ran. Batches may be of several groups, each with
 * accounts of its own. Thread-safe. */
#pragma once

#include "exec/account.h"
#include "exec/blocks.h"
#include "plan/plan.h"

struct tmk_cache;

/* How many a run keeps beyond those in use. */
enum { TMK_IDLE_PLANS = 8 };

struct tmk_planned {
    struct tmk_plan *plan;     /* shared, immutable */
    struct tmk_blocks *blocks; /* of it; NULL: it runs as a whole */
};

/* `slots` are the graph's n_slots observers' configs; both, the graph, the cuts and what `seeds`
 * points to must outlive the cache. `most` plans are kept beyond those in use. cuts NULL: plans run
 * as a whole. */
enum tmk_status tmk_cache_create(const struct tmk_graph *graph, const struct tmk_slot_config *slots,
                                 uint32_t n_slots, uint32_t groups, uint32_t most,
                                 const struct tmk_position_seeds *seeds,
                                 const struct tmk_cuts *cuts, struct tmk_cache **out,
                                 struct tmk_diag *diag);
void tmk_cache_destroy(struct tmk_cache **cache);

/* The plan for inputs of these dtypes and shapes, made if need be. It stays until released. */
enum tmk_status tmk_cache_get(struct tmk_cache *cache, const struct tmk_tensor *inputs,
                              struct tmk_planned **out, struct tmk_diag *diag);
/* Before a block of the plan runs: its weights are packed, by all who call meanwhile, and those of
 * the block before leave memory. Nothing of another block may be running. */
enum tmk_status tmk_cache_load(struct tmk_cache *cache, struct tmk_planned *planned, uint32_t block,
                               struct tmk_diag *diag);
/* Says that the plan ran for a batch of `samples` of the group that began at `sample`: its
 * constants count once more there; `again`: the same samples do not. Batches of one plan have one
 * size, since it is part of their shapes. */
void tmk_cache_ran(struct tmk_cache *cache, struct tmk_planned *planned, uint32_t group,
                   uint64_t sample, uint64_t samples, bool again);
/* Gives the plan back; NULL is allowed. TMK_NOMEM or TMK_RANGE where an old plan's constants cannot
 * be added up. */
enum tmk_status tmk_cache_release(struct tmk_cache *cache, struct tmk_planned *planned,
                                  struct tmk_diag *diag);
/* Adds the constants of all plans, as often as those ran for the group since the last call, to
 * `accounts` (n_slots of them). Only while no plan is in use. */
enum tmk_status tmk_cache_finalize(struct tmk_cache *cache, uint32_t group,
                                   struct tmk_account *accounts, struct tmk_diag *diag);

struct tmk_cache_figures {
    uint64_t plans;                    /* made */
    size_t arena_bytes, scratch_bytes; /* of the largest plan, a worker */
};
struct tmk_cache_figures tmk_cache_figures(struct tmk_cache *cache);
