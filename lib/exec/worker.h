/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: the memory that one thread runs plans in. */
#pragma once

#include <stdatomic.h>

#include "exec/blocks.h"
#include "exec/timing.h"
#include "plan/plan.h"

struct tmk_worker;

/* Looks at values as they are made. Called by the worker's thread. */
struct tmk_watch {
    /* The whole tensor, which lies in blocks of `block` channels (0: row-major). data may be NULL
     * where the plan needs only the shape of a slot. */
    enum tmk_status (*look)(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                            int32_t channel_axis, uint32_t block, struct tmk_diag *diag);
    /* The same in pieces, those of several slots in turn: `begin` (the tensor without data), then
     * every place of its memory once, then `end`. */
    enum tmk_status (*begin)(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                             int32_t channel_axis, uint32_t block, struct tmk_diag *diag);
    enum tmk_status (*piece)(void *context, uint32_t slot, const float *x, size_t first, size_t n,
                             struct tmk_diag *diag);
    enum tmk_status (*end)(void *context, uint32_t slot, struct tmk_diag *diag);
    void *context;
    /* Called before all others: the plan, and its inputs. NULL: not of interest. */
    enum tmk_status (*enter)(void *context, const struct tmk_plan *plan,
                             const struct tmk_tensor *inputs, struct tmk_diag *diag);
};

enum tmk_status tmk_worker_create(struct tmk_worker **out, struct tmk_diag *diag);
/* How often graphs inside nodes may run in one batch, all together; more is TMK_LIMIT. 0, as at the
 * start: TMK_MAX_ITERATIONS. */
enum { TMK_MAX_ITERATIONS = 10000000 };
void tmk_worker_limit(struct tmk_worker *worker, uint64_t iterations);
/* From now on a run ends with TMK_INTERRUPTED before the next node once *stop is true. It must
 * outlive the worker. */
void tmk_worker_heed(struct tmk_worker *worker, const atomic_bool *stop);
void tmk_worker_destroy(struct tmk_worker **worker);

/* Runs one batch. inputs: one a graph input, of the plan's dtypes and shapes; they must stay good
 * until the next run. watch NULL: taps are passed over. Errors name the node. */
enum tmk_status tmk_worker_run(struct tmk_worker *worker, const struct tmk_plan *plan,
                               const struct tmk_tensor *inputs, const struct tmk_watch *watch,
                               struct tmk_diag *diag);
/* The same for a block of the plan's; part: which, and what is kept of the batch. */
enum tmk_status tmk_worker_run_block(struct tmk_worker *worker, const struct tmk_plan *plan,
                                     const struct tmk_blocks *blocks, const struct tmk_part *part,
                                     const struct tmk_tensor *inputs, const struct tmk_watch *watch,
                                     struct tmk_diag *diag);
/* From now on each step's time is added to *timing (NULL: no more); the caller's, until the worker
 * is destroyed. */
void tmk_worker_time(struct tmk_worker *worker, struct tmk_timing *timing);
/* A value of the last run: a graph output, an input, or a constant; the worker's memory, good until
 * its next run. Of other values the bytes may have been reused: "no tensor" is answered for what is
 * gone (dynamic values). */
struct tmk_tensor tmk_worker_value(const struct tmk_worker *worker, const struct tmk_value *value);
/* Forgets the last plan, which may then be destroyed; until then, and while no other plan was run,
 * it may not. */
void tmk_worker_forget(struct tmk_worker *worker);
