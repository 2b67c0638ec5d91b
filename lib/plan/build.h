/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's two halves share: typing (which values exist, of what shape, which are known)
 * and memory. */
#ifndef TMK_PLAN_BUILD_H
#define TMK_PLAN_BUILD_H

#include "base/ptrmap.h"
#include "plan/plan.h"

enum { TMK_NO_STEP = UINT32_MAX };

struct tmk_planning {
    struct tmk_plan *plan;
    struct tmk_diag *diag;
    uint32_t *alias;    /* by value: the value under its observers (itself: none) */
    uint32_t *last_use; /* by value under its observers: last step that reads it, or TMK_NO_STEP */
    uint32_t *made_by;  /* by value: the step that makes it, or TMK_NO_STEP */
    bool *kept;         /* by value under its observers: a graph output */
    size_t taps_size, input_taps_size, constant_taps_size, steps_size;
};

/* Fills values (but not arena offsets), steps, taps and the tables above. */
enum tmk_status tmk_plan_type(struct tmk_planning *p, const struct tmk_tensor *inputs);
/* Gives every arena value its offset and dynamic values their end. */
enum tmk_status tmk_plan_memory(struct tmk_planning *p);

/* The axis along which a weight has one slice an output channel, from its first consumer (Conv 0,
 * ConvTranspose 1, Gemm and MatMul the output features' axis), or -1. */
int32_t tmk_weight_axis(const struct tmk_value *weight);

#endif
