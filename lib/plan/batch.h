/* SPDX-License-Identifier: Apache-2.0 */
/* Is a graph batch-independent, and what does one sample cost?
 *
 * Batch-independent: the first dimension of every input is free and counts samples, and every value
 * that depends on an input has that first dimension too, where index k is made from sample k alone.
 * So a sample gives what it gives without the others, but for the order in which a kernel sums. The
 * answer is no wherever that is not known for certain: an operator has to have a batch rule
 * (traits/traits.h), with attributes and constant operands that leave the first axis alone. */
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

/* What one sample of a batch takes. Numbers too large for the type are its largest. */
struct tmk_sample_cost {
    uint64_t products; /* multiply-adds of convolutions and matrix products */
    uint64_t weights;  /* elements of the constants that they multiply with */
    uint64_t elements; /* of all values that depend on the input, the inputs too */
    uint64_t largest;  /* of those of one value */
    uint32_t nodes;    /* that run */
};

struct tmk_batch_independence {
    bool independent;
    char why[200];               /* not independent: because of which node, or of what */
    struct tmk_sample_cost cost; /* independent: of one sample */
};

/* The answer for a bound, sorted and numbered graph, which is only read. `sample`: one tensor a
 * graph input, in order, of its dtype and the shape of one sample, the first dimension being 1
 * (data NULL). It depends on the graph and on these shapes, on nothing else. A graph that cannot be
 * typed with them is not independent. TMK_NOMEM. Thread-safe. */
enum tmk_status tmk_plan_batch_independence(const struct tmk_graph *graph,
                                            const struct tmk_tensor *sample,
                                            struct tmk_batch_independence *out,
                                            struct tmk_diag *diag);

enum { TMK_MAX_A_CALL = 32 };

/* How many samples make a call that is worth it: the smallest power of two, up to TMK_MAX_A_CALL,
 * for which the work outweighs what a call and its nodes cost besides it, and each weight that is
 * brought into the cache is used often enough there. Fewer where the largest value of such a call
 * would leave the cache of one core; but up to four of a model with so many weights that each call
 * brings them from memory, as long as its values are few compared to them, and two of one with so
 * many values that it brings their tables. *enough (may be NULL): whether that many are worth
 * it. */
uint32_t tmk_samples_a_call(const struct tmk_sample_cost *cost, bool *enough);

/* When an operator is batch-independent. */

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
