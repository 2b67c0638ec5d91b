/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that can keep samples apart, and when they do. */
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

enum tmk_apart_product {
    TMK_NO_PRODUCT,
    TMK_CONVOLUTION,            /* weights [M, C / group, kernel...] */
    TMK_CONVOLUTION_TRANSPOSED, /* weights [C, M / group, kernel...] */
    TMK_MATRIX_PRODUCT          /* over the last axis of operand 0 */
};

struct tmk_apart_rule {
    const char *domain, *op;
    /* NULL where every result holds samples so too, index k made from index k of those operands
     * alone, whatever their number; else what is in the way, for people. */
    const char *(*refuse)(const struct tmk_apart_node *n);
    enum tmk_apart_product product;
    uint32_t factor; /* of a product: the operand with the weights, or with the other matrices */
};

/* NULL: nothing is known of the operator. */
const struct tmk_apart_rule *tmk_apart_rule_of(const struct tmk_node *node);

#endif
