/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for values: which share a buffer, how long each buffer lives, where it stands. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "plan/build.h"

enum { NO_BLOCK = UINT32_MAX, FOR_EVER = UINT32_MAX };

struct memory {
    struct tmk_planning *p;
    struct tmk_block *blocks;
    uint32_t n_blocks;
    uint32_t *block_of; /* by value */
};

struct capturing {
    struct tmk_planning *p;
    uint32_t step;
};

/* A graph inside a node reads outer values when the node runs. */
static void use_captures(struct tmk_graph *graph, void *context) {
    struct capturing *c = context;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        c->p->last_use[c->p->alias[graph->outputs[i]->index]] = c->step;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                c->p->last_use[c->p->alias[node->inputs[i]->index]] = c->step;
}

static void find_last_uses(struct tmk_planning *p) {
    for (uint32_t s = 0; s < p->plan->n_steps; s++) {
        const struct tmk_node *node = p->plan->steps[s].node;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                p->last_use[p->alias[node->inputs[i]->index]] = s;
        if (!(node->row->flags & TMK_OP_RUNS_GRAPHS))
            continue;
        struct capturing c = {p, s};
        for (uint32_t i = 0; i < node->n_attrs; i++)
            for (size_t k = 0; node->attrs[i].kind == TMK_ATTR_GRAPH && k < node->attrs[i].n; k++)
                tmk_graph_each(node->attrs[i].graphs[k], use_captures, &c);
    }
    const struct tmk_graph *graph = p->plan->graph;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        p->kept[p->alias[graph->outputs[i]->index]] = true;
}

static size_t bytes_of(const struct tmk_plan_value *value) {
    size_t count = 0;
    return tmk_shape_count(&value->shape, &count) ? count * tmk_dtype_size(value->dtype) : 0;
}

static uint32_t end_of(const struct tmk_planning *p, uint32_t value, uint32_t step) {
    if (p->kept[value])
        return FOR_EVER;
    return p->last_use[value] == TMK_NO_STEP ? step : p->last_use[value];
}

static void join(struct memory *m, uint32_t value, uint32_t block, uint32_t step) {
    uint32_t end = end_of(m->p, value, step);
    m->block_of[value] = block;
    if (end > m->blocks[block].last)
        m->blocks[block].last = end;
}

/* May output 0 stand where input 0 stands? Only if nobody reads that memory again, the step's other
 * operands included. */
static bool can_overwrite(const struct memory *m, const struct tmk_plan_step *step, uint32_t s,
                          uint32_t in, uint32_t out) {
    const struct tmk_plan_value *values = m->p->plan->values;
    uint32_t block = m->block_of[in];
    if (step->accel || !(step->node->row->flags & TMK_OP_INPLACE) || block == NO_BLOCK ||
        m->blocks[block].last != s || values[in].dtype != values[out].dtype ||
        !tmk_shape_equal(&values[in].shape, &values[out].shape))
        return false;
    for (uint32_t i = 1; i < step->node->n_inputs; i++) {
        if (!step->node->inputs[i])
            continue;
        uint32_t other = m->p->alias[step->node->inputs[i]->index];
        if (m->block_of[other] == block &&
            !tmk_shape_equal(&values[other].shape, &values[out].shape))
            return false;
    }
    return true;
}

static void place_output(struct memory *m, const struct tmk_plan_step *step, uint32_t s,
                         uint32_t output) {
    struct tmk_plan_value *values = m->p->plan->values;
    uint32_t out = step->node->outputs[output]->index;
    const struct tmk_value *operand = step->node->n_inputs ? step->node->inputs[0] : NULL;
    if (output == 0 && operand) {
        uint32_t in = m->p->alias[operand->index];
        bool view = step->node->row->flags & TMK_OP_VIEW;
        if (view && values[in].place == TMK_PLACE_INPUT) {
            values[out].place = TMK_PLACE_INPUT;
            values[out].offset = values[in].offset;
            return;
        }
        if ((view && m->block_of[in] != NO_BLOCK) || can_overwrite(m, step, s, in, out)) {
            join(m, out, m->block_of[in], s);
            return;
        }
    }
    uint32_t block = m->n_blocks++;
    m->blocks[block] = (struct tmk_block){bytes_of(&values[out]), s, s, 0};
    join(m, out, block, s);
}

static enum tmk_status place_all(struct memory *m) {
    struct tmk_plan *plan = m->p->plan;
    for (uint32_t i = 0; i < plan->n_values; i++)
        m->block_of[i] = NO_BLOCK;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->node->n_outputs; i++)
            if (step->node->outputs[i] &&
                plan->values[step->node->outputs[i]->index].place == TMK_PLACE_ARENA)
                place_output(m, step, s, i);
    }
    TMK_TRY(tmk_place_blocks(m->blocks, m->n_blocks, &plan->arena_bytes, m->p->diag));
    for (uint32_t i = 0; i < plan->n_values; i++)
        if (m->block_of[i] != NO_BLOCK)
            plan->values[i].offset = m->blocks[m->block_of[i]].offset;
    for (uint32_t i = 0; i < plan->n_values;
         i++) /* what an observer forwards stands where its operand does */
        if (m->p->alias[i] != i) {
            plan->values[i].place = plan->values[m->p->alias[i]].place;
            plan->values[i].offset = plan->values[m->p->alias[i]].offset;
        }
    return TMK_OK;
}

static enum tmk_status list_frees(struct tmk_planning *p) {
    struct tmk_plan *plan = p->plan;
    plan->free_list = calloc(plan->n_values + 1u, sizeof *plan->free_list);
    if (!plan->free_list)
        return tmk_nomem(p->diag);
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        plan->steps[s].first_free = n;
        /* operands last read here, and results that nobody reads; each value once */
        const struct tmk_node *node = plan->steps[s].node;
        for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
            const struct tmk_value *value =
                i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
            if (!value)
                continue;
            uint32_t index = p->alias[value->index];
            bool over = plan->values[index].place == TMK_PLACE_DYNAMIC && end_of(p, index, s) == s;
            for (uint32_t k = plan->steps[s].first_free; over && k < n; k++)
                over = plan->free_list[k] != index;
            if (over)
                plan->free_list[n++] = index;
        }
        plan->steps[s].n_free = n - plan->steps[s].first_free;
    }
    return TMK_OK;
}

enum tmk_status tmk_plan_memory(struct tmk_planning *p) {
    find_last_uses(p);
    struct memory m = {p, calloc(p->plan->n_values + 1u, sizeof *m.blocks), 0,
                       calloc(p->plan->n_values + 1u, sizeof *m.block_of)};
    enum tmk_status status = m.blocks && m.block_of ? place_all(&m) : tmk_nomem(p->diag);
    free(m.blocks);
    free(m.block_of);
    return status == TMK_OK ? list_frees(p) : status;
}
