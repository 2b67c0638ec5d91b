/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the file: the values' own where these are there and free. */

#include "model/onnx_parts.h"

static bool is_taken(const struct tmk_onnx_names *names, const char *name) {
    for (; names; names = names->outer)
        if (tmk_map_get(&names->taken, name))
            return true;
    return false;
}

const char *tmk_onnx_free_name(struct tmk_onnx_writer *w, struct tmk_onnx_names *names,
                               const char *wanted) {
    const char *name = wanted;
    while (!*name || is_taken(names, name)) {
        name = tmk_arena_printf(&w->arena, "%s_%zu", *wanted ? wanted : "value", ++w->n_renamed);
        if (!name)
            return NULL;
    }
    return tmk_map_put(&names->taken, name, w) ? name : NULL;
}

static enum tmk_status name_value(struct tmk_onnx_writer *w, struct tmk_onnx_names *names,
                                  const struct tmk_value *value) {
    if (!value || tmk_ptrmap_get(&w->names, value))
        return TMK_OK;
    const char *name = tmk_onnx_free_name(w, names, value->name);
    return name && tmk_ptrmap_put(&w->names, value, (void *)(uintptr_t)name) ? TMK_OK
                                                                             : tmk_nomem(w->diag);
}

/* Inputs and outputs first: their names are what callers know. */
enum tmk_status tmk_onnx_name_values(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                     struct tmk_onnx_names *names) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(name_value(w, names, graph->inputs[i]));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i]->graph == graph)
            TMK_TRY(name_value(w, names, graph->outputs[i]));
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            TMK_TRY(name_value(w, names, graph->values[i]));
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            TMK_TRY(name_value(w, names, node->outputs[i]));
    return TMK_OK;
}

const char *tmk_onnx_name_of(const struct tmk_onnx_writer *w, const struct tmk_value *value) {
    const char *name = value ? tmk_ptrmap_get(&w->names, value) : NULL;
    return name ? name : "";
}
