/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/arrange.h"

#include <stdlib.h>

#include "base/diag.h"

/* A graph inside a node finds outer values under their own index, row-major. */
static void fix_captures(struct tmk_graph *graph, void *context) {
    struct tmk_arranging *a = context;
    for (uint32_t i = 0; graph->parent && i < graph->n_outputs; i++)
        a->fixed[a->p->alias[graph->outputs[i]->index]] = true;
    for (const struct tmk_node *node = graph->first; graph->parent && node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                a->fixed[a->p->alias[node->inputs[i]->index]] = true;
}

static void fix_values(struct tmk_arranging *a) {
    struct tmk_planning *p = a->p;
    const struct tmk_graph *graph = p->plan->graph;
    tmk_graph_each(tmk_graph_root(graph), fix_captures, a);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        uint32_t value = p->alias[graph->outputs[i]->index];
        p->kept[value] = a->fixed[value] = true;
    }
    for (uint32_t t = 0; t < p->n_taps; t++) {
        uint8_t need = p->options->needs ? p->options->needs[p->taps[t].slot] : TMK_TAP_PIECES;
        a->fixed[p->taps[t].value] |= need == TMK_TAP_WHOLE;
        a->tapped[p->taps[t].value] |= need == TMK_TAP_PIECES;
    }
}

enum tmk_status tmk_plan_arrange(struct tmk_planning *p) {
    struct tmk_arranging a = {.p = p,
                              .choice = calloc(p->n_raw + 1u, sizeof *a.choice),
                              .groups = calloc(p->n_raw + 1u, sizeof *a.groups),
                              .made = calloc(p->values_size, sizeof *a.made),
                              .reader = calloc(p->values_size, sizeof *a.reader),
                              .fixed = calloc(p->values_size, sizeof *a.fixed),
                              .tapped = calloc(p->values_size, sizeof *a.tapped),
                              .tensors = calloc(TMK_MAX_INPUTS, sizeof *a.tensors),
                              .in = calloc(TMK_MAX_INPUTS, sizeof *a.in),
                              .results = calloc(TMK_MAX_OUTPUTS, sizeof *a.results)};
    enum tmk_status status = TMK_OK;
    if (!a.choice || !a.groups || !a.made || !a.reader || !a.fixed || !a.tapped || !a.tensors ||
        !a.in || !a.results)
        status = tmk_nomem(p->diag);
    if (status == TMK_OK) {
        fix_values(&a);
        status = tmk_arrange_choose(&a);
    }
    if (status == TMK_OK)
        status = tmk_arrange_emit(&a);
    for (uint32_t r = 0; a.choice && r < p->n_raw; r++)
        tmk_accel_destroy(&a.choice[r].accel);
    free(a.choice);
    free(a.groups);
    free(a.made);
    free(a.reader);
    free(a.fixed);
    free(a.tapped);
    free(a.tensors);
    free(a.in);
    free(a.results);
    return status;
}
