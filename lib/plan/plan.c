/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <stdlib.h>

#include "base/diag.h"
#include "plan/build.h"
#include "tensor/elements.h"

enum tmk_status tmk_observer_slots(const struct tmk_graph *graph, struct tmk_observer **out,
                                   uint32_t *n, struct tmk_diag *diag) {
    const struct tmk_graph *root = tmk_graph_root(graph);
    uint32_t all = 0, listed = 0;
    for (const struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        for (const struct tmk_node *node = g->first; node; node = node->next)
            all += tmk_node_is_observer(node);
    struct tmk_observer *observers = calloc(all + 1u, sizeof *observers);
    TMK_TRY_ALLOC(observers, diag);
    for (const struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        for (const struct tmk_node *node = g->first; node; node = node->next)
            if (tmk_node_is_observer(node))
                observers[listed++] =
                    (struct tmk_observer){node, tmk_node_string(node, "kind", "histogram"),
                                          tmk_node_string(node, "tensor_name", ""),
                                          tmk_node_int(node, "profile_id", -1), g->parent != NULL};
    *out = observers;
    *n = all;
    return TMK_OK;
}

static enum tmk_status index_slots(struct tmk_planning *p) {
    struct tmk_observer *observers;
    uint32_t n;
    TMK_TRY(tmk_observer_slots(p->plan->graph, &observers, &n, p->diag));
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = tmk_ptrmap_put(&p->plan->slots, observers[i].node, (void *)(uintptr_t)(i + 1));
    free(observers);
    return ok ? TMK_OK : tmk_nomem(p->diag);
}

/* Constants that only led to other constants are not needed while running. */
static void drop_unused_constants(struct tmk_planning *p) {
    struct tmk_plan *plan = p->plan;
    for (uint32_t t = 0; t < plan->n_constant_taps; t++)
        p->kept[plan->constant_taps[t].value] = true;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        uint32_t under = p->alias[i];
        if (!plan->values[under].initializer && p->last_use[under] == TMK_NO_STEP &&
            !p->kept[under])
            tmk_tensor_finish(&plan->values[i].constant);
    }
}

/* The tables, and what is typed in them. */
static enum tmk_status begin_plan(struct tmk_planning *p, const struct tmk_tensor *inputs) {
    uint32_t n = p->plan->n_values;
    if (n >= UINT32_MAX / 2)
        return tmk_fail(p->diag, TMK_RANGE, "the graph has too many values");
    p->values_size = 2 * n + 1;
    p->plan->values = calloc(p->values_size, sizeof *p->plan->values);
    p->alias = tmk_arena_array(&p->arena, p->values_size, sizeof *p->alias);
    p->last_use = p->plan->last_use = calloc(p->values_size, sizeof *p->last_use);
    p->made_by = tmk_arena_array(&p->arena, p->values_size, sizeof *p->made_by);
    p->kept = tmk_arena_array(&p->arena, p->values_size, sizeof *p->kept);
    p->tensors = tmk_arena_array(&p->arena, TMK_MAX_INPUTS, sizeof *p->tensors);
    p->in = tmk_arena_array(&p->arena, TMK_MAX_INPUTS, sizeof *p->in);
    p->results = tmk_arena_array(&p->arena, TMK_MAX_OUTPUTS, sizeof *p->results);
    TMK_TRY_ALLOC(p->plan->values && p->alias && p->last_use && p->made_by && p->kept &&
                      p->tensors && p->in && p->results,
                  p->diag);
    for (uint32_t i = 0; i < p->values_size; i++) {
        p->alias[i] = i;
        p->last_use[i] = p->made_by[i] = TMK_NO_STEP;
    }
    TMK_TRY(index_slots(p));
    return tmk_plan_type(p, inputs);
}

enum tmk_status tmk_planning_begin(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                                   const struct tmk_plan_options *options, struct tmk_planning *out,
                                   struct tmk_diag *diag) {
    static const struct tmk_plan_options none = {0};
    struct tmk_planning p = {
        .plan = calloc(1, sizeof *p.plan), .options = options ? options : &none, .diag = diag};
    TMK_TRY_ALLOC(p.plan, diag);
    p.plan->graph = graph;
    const struct tmk_graph *root = tmk_graph_root(graph);
    for (const struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]) && g->values[i]->index >= p.plan->n_values)
                p.plan->n_values = g->values[i]->index + 1;
    enum tmk_status status = begin_plan(&p, inputs);
    if (status == TMK_OK)
        *out = p;
    else
        tmk_planning_end(&p);
    return status;
}

void tmk_planning_end(struct tmk_planning *p) {
    free(p->raw);
    free(p->taps);
    tmk_arena_finish(&p->arena);
    tmk_plan_destroy(&p->plan);
}

/* Mapping a table's page again takes microseconds: of no weight where each row that is gathered has
 * a network's operations behind it, and most of the time where it has not. */
static bool gives_tables_back(const struct tmk_plan *plan) {
    enum { OPERATIONS_A_ROW = 1 << 24 };
    double rows = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct tmk_plan_step *step = &plan->steps[i];
        if (step->kind != TMK_STEP_NODE || !tmk_op_takes_lazy(step->node->row, 0))
            continue;
        const struct tmk_plan_value *table = &plan->values[plan->refs[step->first_in]],
                                    *by = &plan->values[plan->refs[step->first_in + 1]];
        size_t n;
        if (!tmk_elements_large(&table->constant))
            continue;
        if (by->place == TMK_PLACE_DYNAMIC || !tmk_shape_count(&by->shape, &n))
            return false;
        rows += (double)n;
    }
    return plan->operations >= rows * OPERATIONS_A_ROW;
}

/* There was room for every value in another layout. */
static void shrink_values(struct tmk_plan *plan) {
    struct tmk_plan_value *values =
        realloc(plan->values, (plan->n_values + 1u) * sizeof *plan->values);
    if (values)
        plan->values = values;
}

enum tmk_status tmk_plan_create(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                                const struct tmk_plan_options *options, struct tmk_plan **out,
                                struct tmk_diag *diag) {
    struct tmk_planning p;
    TMK_TRY(tmk_planning_begin(graph, inputs, options, &p, diag));
    enum tmk_status status = TMK_OK;
    if (p.options->seeds.input)
        status = tmk_plan_positions(p.plan, &p.options->seeds, diag);
    TMK_THEN(status, tmk_plan_arrange(&p));
    TMK_THEN(status, tmk_plan_memory(&p));
    if (status == TMK_OK) {
        drop_unused_constants(&p);
        shrink_values(p.plan);
        p.plan->gives_tables_back = gives_tables_back(p.plan);
        *out = p.plan;
        p.plan = NULL;
    }
    tmk_planning_end(&p);
    return status;
}

void tmk_plan_destroy(struct tmk_plan **slot) {
    struct tmk_plan *plan = slot ? *slot : NULL;
    if (!plan)
        return;
    *slot = NULL;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        tmk_accel_destroy(&plan->steps[i].accel);
        tmk_chain_destroy(&plan->steps[i].chain);
    }
    for (uint32_t i = 0; plan->values && i < plan->n_values; i++)
        tmk_tensor_finish(&plan->values[i].constant);
    free(plan->values);
    free(plan->steps);
    free(plan->refs);
    free(plan->which);
    free(plan->members);
    free(plan->taps);
    free(plan->input_taps);
    free(plan->constant_taps);
    free(plan->free_list);
    free(plan->positions);
    free(plan->last_use);
    tmk_ptrmap_finish(&plan->slots);
    free(plan);
}
