/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum tmk_status tmk_tensor_keep(struct tmk_tensor *out, const struct tmk_tensor *from,
                                struct tmk_diag *diag) {
    if (from->buf || from->kind != TMK_TYPE_TENSOR) {
        tmk_tensor_share(out, from);
        return TMK_OK;
    }
    TMK_TRY(tmk_tensor_init(out, from->dtype, &from->shape, diag));
    if (tmk_tensor_bytes(from))
        memcpy(out->data, from->data, tmk_tensor_bytes(from));
    return TMK_OK;
}

enum tmk_status tmk_items_add(struct tmk_items *items, const struct tmk_tensor *tensor,
                              struct tmk_diag *diag) {
    TMK_TRY(tmk_want_tensor(tensor, "what its graph makes to be stacked", diag));
    if (!items->n++) {
        items->dtype = tensor->dtype;
        items->shape = tensor->shape;
    } else if (items->dtype != tensor->dtype || !tmk_shape_equal(&items->shape, &tensor->shape)) {
        return tmk_fail(diag, TMK_SHAPE,
                        "its graph made %s%s and then %s%s where equal ones are stacked",
                        tmk_dtype_name(items->dtype), TMK_SHAPE_TEXT(&items->shape),
                        tmk_dtype_name(tensor->dtype), TMK_SHAPE_TEXT(&tensor->shape));
    }
    return TMK_OK;
}

enum tmk_status tmk_items_end(struct tmk_items *items, const struct tmk_type *type,
                              struct tmk_diag *diag) {
    if (items->n)
        return TMK_OK;
    if (!tmk_dtype_size(type->dtype) || !type->has_shape)
        return tmk_fail(diag, TMK_SHAPE,
                        "its graph never ran, and the type of what it would have made is not "
                        "declared");
    items->dtype = type->dtype;
    items->shape = type->shape;
    for (int32_t k = 0; k < items->shape.rank; k++)
        if (items->shape.dim[k] < 0)
            items->shape.dim[k] = 0;
    return TMK_OK;
}

enum tmk_status tmk_stack_push(struct tmk_stack *stack, const struct tmk_tensor *tensor,
                               struct tmk_diag *diag) {
    TMK_TRY(tmk_items_add(&stack->items, tensor, diag));
    size_t bytes = tmk_tensor_bytes(tensor), need;
    TMK_TRY_ALLOC(tmk_add_size(stack->used, bytes, &need), diag);
    if (need > stack->size) {
        size_t size = stack->size ? stack->size : 1024;
        while (size < need && tmk_mul_size(size, 2, &size)) {
        }
        unsigned char *grown = size >= need ? tmk_memory_resized(stack->bytes, size) : NULL;
        if (!grown)
            return tmk_memory_fail(diag, size, "what is stacked of %zu iterations", stack->items.n);
        stack->bytes = grown;
        stack->size = size;
    }
    if (bytes)
        memcpy(stack->bytes + stack->used, tensor->data, bytes);
    stack->used = need;
    return TMK_OK;
}

enum tmk_status tmk_stack_finish_into(struct tmk_stack *stack, struct tmk_run *run, uint32_t i,
                                      const struct tmk_type *type, int64_t axis, bool reversed) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    struct tmk_items *items = &stack->items;
    int32_t at;
    if (!out)
        return TMK_OK;
    TMK_TRY(tmk_items_end(items, type, run->diag));
    struct tmk_shape shape = items->shape;
    if (shape.rank == TMK_MAX_RANK)
        return tmk_fail(run->diag, TMK_SHAPE, "too many axes to stack on another");
    TMK_TRY(tmk_axis(axis, shape.rank + 1, &at, run->diag));
    tmk_shape_insert(&shape, at, (int64_t)items->n);
    TMK_TRY(tmk_run_alloc(run, i, items->dtype, &shape));
    if (!stack->used)
        return TMK_OK;
    /* one tensor is [outer, inner]; slice t goes to [outer, t, inner] */
    size_t outer = tmk_shape_product(&items->shape, 0, at);
    size_t inner =
        tmk_shape_product(&items->shape, at, items->shape.rank) * tmk_dtype_size(items->dtype);
    for (size_t t = 0; t < items->n; t++) {
        size_t to = reversed ? items->n - 1 - t : t;
        for (size_t o = 0; o < outer; o++)
            memcpy((unsigned char *)out->data + (o * items->n + to) * inner,
                   stack->bytes + (t * outer + o) * inner, inner);
    }
    return TMK_OK;
}

static void drop_stack(struct tmk_stack *stack) {
    tmk_memory_free(stack->bytes);
    *stack = (struct tmk_stack){0};
}

struct tmk_repeat tmk_repeat_of(struct tmk_run *run) {
    return (struct tmk_repeat){.run = run, .body = tmk_node_attr(run->node, "body")->graphs[0]};
}

enum tmk_status tmk_repeat_begin(struct tmk_repeat *repeat, uint32_t n_inputs, uint32_t n_stacks) {
    repeat->n_inputs = n_inputs;
    repeat->n_stacks = n_stacks;
    repeat->inputs = calloc(n_inputs + 1u, sizeof *repeat->inputs);
    repeat->made = calloc(repeat->body->n_outputs + 1u, sizeof *repeat->made);
    repeat->stacks = calloc(n_stacks + 1u, sizeof *repeat->stacks);
    TMK_TRY_ALLOC(repeat->inputs && repeat->made && repeat->stacks, repeat->run->diag);
    return TMK_OK;
}

void tmk_repeat_carry(struct tmk_repeat *repeat, uint32_t to, uint32_t from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        tmk_tensor_finish(&repeat->inputs[to + i]);
        repeat->inputs[to + i] = repeat->made[from + i];
        repeat->made[from + i] = (struct tmk_tensor){0};
    }
}

void tmk_repeat_drop_made(struct tmk_repeat *repeat) {
    for (uint32_t i = 0; repeat->made && i < repeat->body->n_outputs; i++)
        tmk_tensor_finish(&repeat->made[i]);
}

void tmk_repeat_end(struct tmk_repeat *repeat) {
    tmk_repeat_drop_made(repeat);
    for (uint32_t i = 0; repeat->inputs && i < repeat->n_inputs; i++)
        tmk_tensor_finish(&repeat->inputs[i]);
    for (uint32_t i = 0; repeat->stacks && i < repeat->n_stacks; i++)
        drop_stack(&repeat->stacks[i]);
    free(repeat->inputs);
    free(repeat->made);
    free(repeat->stacks);
}
