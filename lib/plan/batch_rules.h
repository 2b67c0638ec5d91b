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

#endif
