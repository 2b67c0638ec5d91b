/* SPDX-License-Identifier: Apache-2.0 */
#include "session/declared.h"

#include <string.h>

/* -1: no input has it. */
static int64_t size_of_symbol(const struct tmk_graph *graph, const struct tmk_batch *batch,
                              const char *symbol) {
    for (uint32_t i = 0; symbol && i < graph->n_inputs && i < batch->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        const struct tmk_shape *shape = &batch->inputs[i].shape;
        for (int32_t k = 0; type->has_shape && k < type->shape.rank && k < shape->rank; k++)
            if (type->symbol[k] && strcmp(type->symbol[k], symbol) == 0)
                return shape->dim[k];
    }
    return -1;
}

static void declare_value(struct tmk_plan *plan, const struct tmk_batch *batch,
                          const struct tmk_value *value) {
    struct tmk_plan_value *planned = &plan->values[value->index];
    const struct tmk_type *type = &value->type;
    struct tmk_shape shape = type->shape;
    size_t count;
    if (planned->place != TMK_PLACE_DYNAMIC || !type->has_shape || type->kind != TMK_TYPE_TENSOR)
        return;
    for (int32_t k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            shape.dim[k] = size_of_symbol(plan->graph, batch, type->symbol[k]);
    if (!tmk_shape_count(&shape, &count))
        return;
    planned->dtype = type->dtype;
    planned->shape = shape;
}

static uint64_t bytes_of_value(const struct tmk_plan *plan, uint32_t at) {
    const struct tmk_plan_value *value = &plan->values[at];
    size_t count = 0;
    if (value->place != TMK_PLACE_DYNAMIC || !value->dtype)
        return 0;
    (void)tmk_shape_count(&value->shape, &count);
    return count * tmk_dtype_size(value->dtype);
}

uint64_t tmk_declare_values(struct tmk_plan *plan, const struct tmk_batch *batch) {
    uint64_t now = 0, most = 0;
    for (const struct tmk_node *node = plan->graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                declare_value(plan, batch, node->outputs[i]);
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_out; i++)
            if (plan->refs[step->first_out + i] != TMK_NO_VALUE)
                now += bytes_of_value(plan, plan->refs[step->first_out + i]);
        most = now > most ? now : most;
        for (uint32_t i = 0; i < step->n_free; i++)
            now -= bytes_of_value(plan, plan->free_list[step->first_free + i]);
    }
    return most;
}
