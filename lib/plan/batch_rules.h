/* SPDX-License-Identifier: Apache-2.0 */
/* When an operator is batch-independent. */
#ifndef TMK_PLAN_BATCH_RULES_H
#define TMK_PLAN_BATCH_RULES_H

#include "plan/plan.h"

enum { TMK_TYPED_SAMPLES = 2 }; /* samples of the batch for which the graph is typed */

/* A node of a typed plan, some of whose operands hold a sample at each index of axis 0 (`batched`,
 * by the values' indices); its other operands are constants. */
struct tmk_batch_node {
    const struct tmk_plan *plan;
    const struct tmk_node *node;
    const bool *batched;
};

/* By the operator's batch rule (traits/traits.h). NULL where every result holds samples so too,
 * index k made from index k of those operands alone, whatever their number; else what is in the
 * way, for people. */
const char *tmk_batch_refuse(const struct tmk_batch_node *n);

/* ---- of a node, also for others (`batched` is not looked at) ---- */

enum { TMK_BATCH_INTEGERS = 2 * TMK_MAX_RANK }; /* at most */
/* The integers of an attribute or, where the operator has none of that name, of a constant operand;
 * at least one. */
bool tmk_batch_integers(const struct tmk_batch_node *n, const char *name, uint32_t input,
                        int64_t out[TMK_BATCH_INTEGERS], size_t *count);
/* Of operand i, which is there. */
int32_t tmk_batch_rank(const struct tmk_batch_node *n, uint32_t i);

#endif
