/* SPDX-License-Identifier: Apache-2.0 */
/* When an operator keeps samples apart. */
#ifndef TMK_PLAN_APART_RULES_H
#define TMK_PLAN_APART_RULES_H

#include "plan/plan.h"

enum { TMK_APART_BATCH = 2 }; /* samples of the batch for which the graph is typed */

/* A node of a typed plan, some of whose operands hold a sample at each index of axis 0 (`apart`, by
 * the values' indices); its other operands are constants. */
struct tmk_apart_node {
    const struct tmk_plan *plan;
    const struct tmk_node *node;
    const bool *apart;
};

/* By the operator's batch rule (traits/traits.h). NULL where every result holds samples so too,
 * index k made from index k of those operands alone, whatever their number; else what is in the
 * way, for people. */
const char *tmk_apart_refuse(const struct tmk_apart_node *n);

#endif
