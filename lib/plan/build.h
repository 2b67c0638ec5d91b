/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's two halves share: typing (which values exist, of what shape, which are known)
 * and memory. */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "plan/plan.h"

enum { TMK_NO_STEP = UINT32_MAX };

/* A node that runs, before it is known how. */
struct tmk_raw_step {
    const struct tmk_node *node;
    bool dynamic;
};

struct tmk_planning {
    struct tmk_plan *plan;
    const struct tmk_plan_options *options; /* never NULL */
    struct tmk_diag *diag;
    struct tmk_raw_step *raw;
    uint32_t n_raw;
    struct tmk_plan_tap *taps; /* of results, not yet given to steps */
    uint32_t n_taps;
    uint32_t
        values_size;    /* of plan->values and of the tables here: space for a second layout each */
    uint32_t *alias;    /* by value: the value under its observers (itself: none) */
    uint32_t *last_use; /* by value under its observers: last step that reads it, or TMK_NO_STEP */
    uint32_t *made_by;  /* by value: the raw step that makes it, later the step, or TMK_NO_STEP */
    bool *kept;         /* by value under its observers: a graph output */
    size_t raw_size, taps_size, input_taps_size, constant_taps_size;
    /* Of the node that is being looked at: [TMK_MAX_INPUTS] and [TMK_MAX_OUTPUTS]. */
    struct tmk_tensor *tensors;
    const struct tmk_tensor **in;
    struct tmk_infer_result *results;
    struct tmk_arena arena; /* what is not the plan's */
};

/* Makes a plan whose values are typed (tmk_plan_type) and whose tables are filled; end with
 * tmk_planning_end, which destroys `plan` too, unless it was taken out (NULL). */
enum tmk_status tmk_planning_begin(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                                   const struct tmk_plan_options *options, struct tmk_planning *out,
                                   struct tmk_diag *diag);
void tmk_planning_end(struct tmk_planning *p);

/* Fills values (but neither layouts nor arena offsets), raw steps, taps and the tables above. */
enum tmk_status tmk_plan_type(struct tmk_planning *p, const struct tmk_tensor *inputs);
/* Chooses kernels, layouts and chains; makes the steps, hands them the taps, sets made_by anew. */
enum tmk_status tmk_plan_arrange(struct tmk_planning *p);
/* Gives every arena value its offset and dynamic values their end. */
enum tmk_status tmk_plan_memory(struct tmk_planning *p);

/* Fills p->in with a node's operands as infer takes them: data where it is known. */
void tmk_plan_operands(const struct tmk_planning *p, const struct tmk_node *node);

/* Opens a value's constant, where it is lazy, for as long as the plan lives. */
enum tmk_status tmk_plan_open(struct tmk_plan *plan, uint32_t value, struct tmk_diag *diag);

/* The axis along which a weight has one slice an output channel, from its first consumer (Conv 0,
 * ConvTranspose 1, Gemm and MatMul the output features' axis), or -1. */
int32_t tmk_weight_axis(const struct tmk_value *weight);

/* Which values of a plan hold something for each position of each prompt, and where.
 *
 * It is known of graph inputs (seeds), and followed from operands to results by what an operator
 * does to axes (its batch rule, traits/traits.h): a result's element is of the positions of the
 * elements that it is computed from index by index. Along an axis that is summed, gathered or cut
 * nothing is known any more. */

/* Fills plan->positions, by slot, of a typed plan. */
enum tmk_status tmk_plan_positions(struct tmk_plan *plan, const struct tmk_position_seeds *seeds,
                                   struct tmk_diag *diag);

/* The same for values, by their indices: fills those of results from those that are known. */
void tmk_positions_follow(const struct tmk_plan *plan, struct tmk_positions *values);
