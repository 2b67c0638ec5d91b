/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of one step that are inputs of the next: recurrent states, caches. */
#ifndef TMK_EXEC_FEEDBACK_H
#define TMK_EXEC_FEEDBACK_H

#include "exec/worker.h"

/* Graph output number `output` of a step is graph input number `input` of the next. */
struct tmk_loop {
    uint32_t output, input;
    bool keeps; /* an output without elements leaves the state as it is */
};

struct tmk_feedback {
    const struct tmk_loop *loops; /* no input twice */
    uint32_t n;                   /* 0: nothing is fed back */
};

/* What one worker carries from a step to the next. Zero-initialised is nothing yet. */
struct tmk_loop_state {
    struct tmk_tensor *states; /* one a loop */
};

/* The inputs of a step that continues a sequence get the states; inputs[] of all other steps
 * have theirs. */
void tmk_loop_state_load(const struct tmk_loop_state *carried, const struct tmk_feedback *feedback,
                         struct tmk_tensor *inputs);
/* After a step: keeps the outputs that are fed back. TMK_TYPE, TMK_SHAPE: the input does not take
 * such a tensor. */
TMK_NODISCARD enum tmk_status tmk_loop_state_store(struct tmk_loop_state *carried,
                                                   const struct tmk_feedback *feedback,
                                                   const struct tmk_graph *graph,
                                                   const struct tmk_worker *worker,
                                                   struct tmk_diag *diag);
void tmk_loop_state_finish(struct tmk_loop_state *carried, const struct tmk_feedback *feedback);

#endif
