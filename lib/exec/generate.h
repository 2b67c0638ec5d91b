/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy decoding: the inputs of a step that follow from the step before. */
#ifndef TMK_EXEC_GENERATE_H
#define TMK_EXEC_GENERATE_H

#include "data/role.h"
#include "exec/worker.h"

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
TMK_NODISCARD enum tmk_status tmk_generation_step(const struct tmk_generation *generation,
                                                  const struct tmk_graph *graph,
                                                  const struct tmk_worker *worker,
                                                  struct tmk_tensor *inputs, bool **stopped,
                                                  bool *more, struct tmk_diag *diag);

#endif
