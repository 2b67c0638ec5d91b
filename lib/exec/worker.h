/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: the memory that one thread runs plans in. */
#ifndef TMK_EXEC_WORKER_H
#define TMK_EXEC_WORKER_H

#include "plan/plan.h"

struct tmk_worker;

/* Looks at a value right after it was made. Called by the worker's thread, slots in the plan's
 * order. */
struct tmk_watch {
    enum tmk_status (*look)(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                            int32_t channel_axis, struct tmk_diag *diag);
    void *context;
};

TMK_NODISCARD enum tmk_status tmk_worker_create(struct tmk_worker **out, struct tmk_diag *diag);
void tmk_worker_destroy(struct tmk_worker **worker);

/* Runs one batch. inputs: one a graph input, of the plan's dtypes and shapes; they must stay good
 * until the next run. watch NULL: taps are passed over. Errors name the node. */
TMK_NODISCARD enum tmk_status tmk_worker_run(struct tmk_worker *worker, const struct tmk_plan *plan,
                                             const struct tmk_tensor *inputs,
                                             const struct tmk_watch *watch, struct tmk_diag *diag);
/* A value of the last run: a graph output, an input, or a constant; the worker's memory, good until
 * its next run. Of other values the bytes may have been reused: "no tensor" is answered for what is
 * gone (dynamic values). */
struct tmk_tensor tmk_worker_value(const struct tmk_worker *worker, const struct tmk_value *value);
/* Forgets the last plan, which may then be destroyed; until then, and while no other plan was run,
 * it may not. */
void tmk_worker_forget(struct tmk_worker *worker);

#endif
