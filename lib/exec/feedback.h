/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of one step that are inputs of the next: recurrent states, caches. */
#pragma once

#include "data/role.h"
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
enum tmk_status tmk_loop_state_store(struct tmk_loop_state *carried,
                                     const struct tmk_feedback *feedback,
                                     const struct tmk_graph *graph, const struct tmk_worker *worker,
                                     struct tmk_diag *diag);
void tmk_loop_state_finish(struct tmk_loop_state *carried, const struct tmk_feedback *feedback);

/* Greedy decoding: the inputs of a step that follow from the step before. */

struct tmk_generation {
    uint32_t steps;            /* after each batch; 0: nothing is generated */
    uint32_t logits, tokens;   /* graph output and input: the argmax of the one is the other's */
    const enum tmk_role *role; /* by graph input; NONE: it stays as it is, or is fed back */
    bool appends;              /* tokens are appended to those before: there is no cache */
    const int64_t *stop;       /* tokens that end a prompt */
    size_t n_stop;
};

/* Makes the inputs of the next step from those of the step that the worker ran last, except those
 * that are fed back. *stopped, NULL before the first step of a batch, notes which prompts have
 * ended; free() it. *more is false once all have: inputs are then as they were. TMK_SHAPE,
 * TMK_TYPE: an input or the logits are not as decoding needs them; inputs are then only good for
 * finishing. */
enum tmk_status tmk_generation_step(const struct tmk_generation *generation,
                                    const struct tmk_graph *graph, const struct tmk_worker *worker,
                                    struct tmk_tensor *inputs, bool **stopped, bool *more,
                                    struct tmk_diag *diag);
