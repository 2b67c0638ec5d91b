/* SPDX-License-Identifier: Apache-2.0 */
/* Values whose shapes depend on data, as the model declares them: for estimates. */
#pragma once

#include "exec/run.h"
#include "plan/plan.h"

/* Gives values that a plan for the batch does not know the types that its graph declares, free
 * dimensions as the inputs have them. Returns the bytes of those that are there together at most.
 */
uint64_t tmk_declare_values(struct tmk_plan *plan, const struct tmk_batch *batch);
