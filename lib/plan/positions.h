/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of a plan hold something for each position of each prompt, and where.
 *
 * It is known of graph inputs (seeds), and followed from operands to results by what an operator
 * does to axes (its batch rule, traits/traits.h): a result's element is of the positions of the
 * elements that it is computed from index by index. Along an axis that is summed, gathered or cut
 * nothing is known any more. */
#ifndef TMK_PLAN_POSITIONS_H
#define TMK_PLAN_POSITIONS_H

#include "plan/plan.h"

/* Fills plan->positions, by slot, of a typed plan. */
TMK_NODISCARD enum tmk_status tmk_plan_positions(struct tmk_plan *plan,
                                                 const struct tmk_position_seeds *seeds,
                                                 struct tmk_diag *diag);

/* The same for values, by their indices: fills those of results from those that are known. */
void tmk_positions_follow(const struct tmk_plan *plan, struct tmk_positions *values);

#endif
