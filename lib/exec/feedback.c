/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/feedback.h"

#include <stdlib.h>

#include "base/diag.h"
#include "ops/stack.h"
#include "tensor/list.h"
#include "tensor/shape.h"

void tmk_loop_state_load(const struct tmk_loop_state *carried, const struct tmk_feedback *feedback,
                         struct tmk_tensor *inputs) {
    for (uint32_t i = 0; i < feedback->n; i++)
        tmk_tensor_share(&inputs[feedback->loops[i].input], &carried->states[i]);
}

static bool type_fits(const struct tmk_type *type, const struct tmk_shape *shape) {
    if (!type->has_shape)
        return true;
    if (type->shape.rank != shape->rank)
        return false;
    for (int32_t k = 0; k < shape->rank; k++)
        if (type->shape.dim[k] >= 0 && type->shape.dim[k] != shape->dim[k])
            return false;
    return true;
}

static enum tmk_status check_loop(const struct tmk_value *output, const struct tmk_value *input,
                                  const struct tmk_tensor *tensor, struct tmk_diag *diag) {
    if (tensor->kind != TMK_TYPE_TENSOR)
        return tmk_fail(diag, TMK_TYPE, "'%s' is %s; only arrays are fed back", output->name,
                        tmk_tensor_what(tensor));
    if (tensor->dtype == input->type.dtype && type_fits(&input->type, &tensor->shape))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE,
                    "'%s' is %s%s, but input '%s', to which it is fed back, is %s%s", output->name,
                    tmk_dtype_name(tensor->dtype), TMK_SHAPE_TEXT(&tensor->shape), input->name,
                    tmk_dtype_name(input->type.dtype), TMK_SHAPE_TEXT(&input->type.shape));
}

enum tmk_status tmk_loop_state_store(struct tmk_loop_state *carried,
                                     const struct tmk_feedback *feedback,
                                     const struct tmk_graph *graph, const struct tmk_worker *worker,
                                     struct tmk_diag *diag) {
    if (feedback->n && !carried->states) {
        carried->states = calloc(feedback->n, sizeof *carried->states);
        TMK_TRY_ALLOC(carried->states, diag);
    }
    for (uint32_t i = 0; i < feedback->n; i++) {
        const struct tmk_value *output = graph->outputs[feedback->loops[i].output];
        const struct tmk_tensor tensor = tmk_worker_value(worker, output);
        if (feedback->loops[i].keeps && tensor.kind == TMK_TYPE_TENSOR &&
            !tmk_tensor_count(&tensor) && tmk_tensor_count(&carried->states[i]))
            continue;
        TMK_TRY(check_loop(output, graph->inputs[feedback->loops[i].input], &tensor, diag));
        tmk_tensor_finish(&carried->states[i]);
        TMK_TRY(tmk_tensor_keep(&carried->states[i], &tensor, diag));
    }
    return TMK_OK;
}

void tmk_loop_state_finish(struct tmk_loop_state *carried, const struct tmk_feedback *feedback) {
    for (uint32_t i = 0; carried->states && i < feedback->n; i++)
        tmk_tensor_finish(&carried->states[i]);
    free(carried->states);
    *carried = (struct tmk_loop_state){0};
}
