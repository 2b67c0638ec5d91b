/* SPDX-License-Identifier: Apache-2.0 */
/* What operators share that run graphs, or make sequences: calling a graph, handing out what is
 * made already, and stacking what a graph makes time after time. */
#pragma once

#include "ops/kernel.h"

/* Calls run->call after checking the number of inputs. outputs: body->n_outputs of them, zeroed;
 * the caller finishes them, whatever the status. */
enum tmk_status tmk_call_body(struct tmk_run *run, const struct tmk_graph *body,
                              const struct tmk_tensor *inputs, uint32_t n_inputs,
                              struct tmk_tensor *outputs);
/* Output i becomes the tensor, which is taken (or finished, when the output is not wanted). */
void tmk_give(struct tmk_run *run, uint32_t i, struct tmk_tensor *tensor);
/* infer for operators all of whose outputs are known only after running. */
enum tmk_status tmk_infer_nothing(struct tmk_infer *infer);

/* A tensor, or whatever it is, that stays good on its own: shares counted bytes and lists, copies
 * borrowed bytes. */
enum tmk_status tmk_tensor_keep(struct tmk_tensor *out, const struct tmk_tensor *from,
                                struct tmk_diag *diag);

/* What a graph makes for one output time after time, to be stacked: tensors of one type and shape.
 * Zero-initialised: there was none. */
struct tmk_items {
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* of one */
    size_t n;
};
/* One more; the first decides on type and shape. TMK_SHAPE, TMK_TYPE when the tensor is unlike
 * those before, or is none. */
enum tmk_status tmk_items_add(struct tmk_items *items, const struct tmk_tensor *tensor,
                              struct tmk_diag *diag);
/* Where there was none they are of this type; unknown dimensions are 0. */
enum tmk_status tmk_items_end(struct tmk_items *items, const struct tmk_type *type,
                              struct tmk_diag *diag);

/* Tensors of one type and shape, one behind the other. Zero-initialised is empty. */
struct tmk_stack {
    struct tmk_items items;
    size_t used, size;
    unsigned char *bytes;
};

/* As tmk_items_add. */
enum tmk_status tmk_stack_push(struct tmk_stack *stack, const struct tmk_tensor *tensor,
                               struct tmk_diag *diag);
/* Makes output i of the stacked tensors, along a new axis (negative counts from the end), the last
 * one first when `reversed`. An empty stack makes a tensor of no slices: tmk_items_end. */
enum tmk_status tmk_stack_finish_into(struct tmk_stack *stack, struct tmk_run *run, uint32_t i,
                                      const struct tmk_type *type, int64_t axis, bool reversed);

/* A graph that runs time after time. Its inputs and last outputs are owned (tmk_repeat_end). */
struct tmk_repeat {
    struct tmk_run *run;
    const struct tmk_graph *body; /* attribute 'body' */
    struct tmk_tensor *inputs, *made;
    struct tmk_stack *stacks;
    uint32_t n_inputs, n_stacks;
};
struct tmk_repeat tmk_repeat_of(struct tmk_run *run);
enum tmk_status tmk_repeat_begin(struct tmk_repeat *repeat, uint32_t n_inputs, uint32_t n_stacks);
/* The n tensors made from `from` on become inputs from `to` on. */
void tmk_repeat_carry(struct tmk_repeat *repeat, uint32_t to, uint32_t from, uint32_t n);
/* Drops what the graph made and nothing has taken. */
void tmk_repeat_drop_made(struct tmk_repeat *repeat);
/* Also after a failure of tmk_repeat_begin, or before it. */
void tmk_repeat_end(struct tmk_repeat *repeat);
