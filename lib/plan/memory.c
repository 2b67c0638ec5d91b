/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for values: which share a buffer, the lifetime and the offset of each buffer. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "plan/build.h"
#include "plan/plan.h"

/* The memory planner: greedy by size, as in Pisarchyk and Lee, "Efficient memory management for
 * deep neural net inference" (2020), section 5.2. */

enum { ALIGN = TMK_PLAN_ALIGN };

static int larger_first(const void *a, const void *b) {
    const struct tmk_block *x = *(struct tmk_block *const *)a, *y = *(struct tmk_block *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return TMK_ORDER(x, y); /* the caller's order decides between equals */
}

static bool overlap_in_time(const struct tmk_block *a, const struct tmk_block *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is sorted by offset. The lowest place where the block fits between those alive then. */
static bool lowest_gap(const struct tmk_block *block, struct tmk_block *const *placed, size_t n,
                       size_t bytes, size_t *offset) {
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (!overlap_in_time(block, placed[i]))
            continue;
        if (placed[i]->offset >= end && placed[i]->offset - end >= bytes)
            break;
        size_t after = placed[i]->offset + ((placed[i]->bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
        if (after > end)
            end = after;
    }
    *offset = end;
    return end <= SIZE_MAX / 2 - bytes;
}

static void insert_block(struct tmk_block **placed, size_t n, struct tmk_block *block) {
    size_t i = n;
    for (; i > 0 && placed[i - 1]->offset > block->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = block;
}

enum tmk_status tmk_place_blocks(struct tmk_block *blocks, size_t n, size_t *arena_bytes,
                                 struct tmk_diag *diag) {
    struct tmk_block **order = calloc(n + 1, sizeof(struct tmk_block *)),
                     **placed = calloc(n + 1, sizeof(struct tmk_block *));
    enum tmk_status status = order && placed ? TMK_OK : tmk_nomem(diag);
    size_t end = 0;
    if (status == TMK_OK) {
        for (size_t i = 0; i < n; i++)
            order[i] = &blocks[i];
        qsort(order, n, sizeof(struct tmk_block *), larger_first);
    }
    for (size_t i = 0; status == TMK_OK && i < n; i++) {
        size_t bytes;
        if (!tmk_add_size(order[i]->bytes, ALIGN - 1, &bytes) ||
            !lowest_gap(order[i], placed, i, bytes & ~(size_t)(ALIGN - 1), &order[i]->offset)) {
            status = tmk_fail(diag, TMK_RANGE, "the activations do not fit into memory");
            break;
        }
        bytes &= ~(size_t)(ALIGN - 1);
        insert_block(placed, i, order[i]);
        if (order[i]->offset + bytes > end)
            end = order[i]->offset + bytes;
    }
    free(order);
    free(placed);
    if (status == TMK_OK)
        *arena_bytes = end;
    return status;
}

enum { NO_BLOCK = UINT32_MAX, FOR_EVER = UINT32_MAX };

/* A value that is written to its place in a larger one: a Concat's operand. */
struct inside {
    uint32_t parent; /* value; TMK_NO_VALUE: none */
    size_t offset;   /* bytes, in each of its samples */
};

struct memory {
    struct tmk_planning *p;
    struct tmk_block *blocks;
    uint32_t n_blocks;
    uint32_t *block_of;    /* by value */
    size_t *offset_in;     /* by value: where in its block it begins */
    struct inside *inside; /* by value */
};

static const uint32_t *refs_in(const struct tmk_plan *plan, const struct tmk_plan_step *step) {
    return plan->refs + step->first_in;
}

static const uint32_t *refs_out(const struct tmk_plan *plan, const struct tmk_plan_step *step) {
    return plan->refs + step->first_out;
}

/* A graph inside a node reads outer values when the node runs. */
static void use_captures(struct tmk_planning *p, const struct tmk_graph *graph, uint32_t step) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        p->last_use[p->alias[graph->outputs[i]->index]] = step;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                p->last_use[p->alias[node->inputs[i]->index]] = step;
}

static void find_last_uses(struct tmk_planning *p) {
    for (uint32_t s = 0; s < p->plan->n_steps; s++) {
        const struct tmk_plan_step *step = &p->plan->steps[s];
        const struct tmk_node *node = step->node;
        const uint32_t *in = refs_in(p->plan, step);
        for (uint32_t i = 0; i < step->n_in; i++)
            if (in[i] != TMK_NO_VALUE)
                p->last_use[in[i]] = s;
        if (step->kind != TMK_STEP_NODE || !(node->row->flags & TMK_OP_RUNS_GRAPHS))
            continue;
        for (struct tmk_graph *top = NULL; (top = tmk_node_next_graph(node, top));)
            for (const struct tmk_graph *g = top; g; g = tmk_graph_next(top, g))
                use_captures(p, g, s);
    }
}

static size_t value_bytes(const struct tmk_plan_value *value) {
    size_t count = 0;
    return tmk_blocked_count(&value->shape, value->block, &count)
               ? count * tmk_dtype_size(value->dtype)
               : 0;
}

static uint32_t end_of(const struct tmk_planning *p, uint32_t value, uint32_t step) {
    if (p->kept[value])
        return FOR_EVER;
    return p->last_use[value] == TMK_NO_STEP ? step : p->last_use[value];
}

static void extend_life(struct memory *m, uint32_t value, uint32_t block, size_t offset,
                        uint32_t step) {
    uint32_t end = end_of(m->p, value, step);
    m->block_of[value] = block;
    m->offset_in[value] = offset;
    if (end > m->blocks[block].last)
        m->blocks[block].last = end;
}

static bool same_lie(const struct tmk_plan_value *a, const struct tmk_plan_value *b) {
    return a->dtype == b->dtype && a->block == b->block && a->pitch == b->pitch &&
           tmk_shape_equal(&a->shape, &b->shape);
}

/* Does a node have other operands in this block that are not used element by element? */
static bool others_fit(const struct memory *m, const struct tmk_plan_step *step, uint32_t in,
                       uint32_t out) {
    const struct tmk_plan_value *values = m->p->plan->values;
    const uint32_t *refs = refs_in(m->p->plan, step);
    for (uint32_t i = 1; i < step->n_in; i++)
        if (refs[i] != TMK_NO_VALUE && m->block_of[refs[i]] == m->block_of[in] &&
            (m->offset_in[refs[i]] != m->offset_in[in] ||
             !tmk_shape_equal(&values[refs[i]].shape, &values[out].shape)))
            return false;
    return true;
}

/* Is no other operand in its block, as a view of it would be? */
static bool is_only_reader(const struct memory *m, const struct tmk_plan_step *step,
                           uint32_t input) {
    const uint32_t *refs = refs_in(m->p->plan, step);
    for (uint32_t i = 0; i < step->n_in; i++)
        if (i != input && m->block_of[refs[i]] == m->block_of[refs[input]])
            return false;
    return true;
}

/* May result `output` reuse the memory of operand `input`? Only if that memory is not read again,
 * the step's other operands included. */
static bool can_overwrite(const struct memory *m, const struct tmk_plan_step *step, uint32_t s,
                          uint32_t input, uint32_t output) {
    const struct tmk_plan *plan = m->p->plan;
    uint32_t in = refs_in(plan, step)[input], out = refs_out(plan, step)[output];
    if (in == TMK_NO_VALUE || m->block_of[in] == NO_BLOCK || m->blocks[m->block_of[in]].last != s ||
        !same_lie(&plan->values[in], &plan->values[out]))
        return false;
    if (step->kind == TMK_STEP_CHAIN)
        return is_only_reader(m, step, input) &&
               tmk_chain_may_overwrite(step->chain, output, input);
    return step->kind == TMK_STEP_NODE && input == 0 && output == 0 &&
           (step->node->row->flags & TMK_OP_INPLACE) && others_fit(m, step, in, out);
}

/* The value that a value is made in, at last, and where. */
static uint32_t outermost_value(const struct memory *m, uint32_t value, size_t *offset) {
    *offset = 0;
    while (m->inside[value].parent != TMK_NO_VALUE) {
        *offset += m->inside[value].offset;
        value = m->inside[value].parent;
    }
    return value;
}

static bool shares_operand_block(struct memory *m, const struct tmk_plan_step *step, uint32_t s,
                                 uint32_t output, uint32_t out) {
    struct tmk_plan_value *values = m->p->plan->values;
    uint32_t in = step->n_in ? refs_in(m->p->plan, step)[0] : TMK_NO_VALUE;
    bool view = step->kind == TMK_STEP_NODE && output == 0 && in != TMK_NO_VALUE &&
                (step->node->row->flags & TMK_OP_VIEW);
    if (view && values[in].place == TMK_PLACE_INPUT) {
        values[out].place = TMK_PLACE_INPUT;
        values[out].offset = values[in].offset;
        return true;
    }
    if (view && m->block_of[in] != NO_BLOCK) {
        extend_life(m, out, m->block_of[in], m->offset_in[in], s);
        return true;
    }
    for (uint32_t i = 0; i < step->n_in; i++)
        if (can_overwrite(m, step, s, i, output)) {
            in = refs_in(m->p->plan, step)[i];
            extend_life(m, out, m->block_of[in], m->offset_in[in], s);
            return true;
        }
    return false;
}

static void place_output(struct memory *m, const struct tmk_plan_step *step, uint32_t s,
                         uint32_t output) {
    uint32_t out = refs_out(m->p->plan, step)[output];
    size_t offset;
    uint32_t whole = outermost_value(m, out, &offset);
    if (whole == out && m->block_of[out] == NO_BLOCK &&
        shares_operand_block(m, step, s, output, out))
        return;
    if (m->block_of[whole] == NO_BLOCK) {
        m->blocks[m->n_blocks] =
            (struct tmk_block){value_bytes(&m->p->plan->values[whole]), s, s, 0};
        m->block_of[whole] = m->n_blocks++;
        m->offset_in[whole] = 0;
    }
    extend_life(m, out, m->block_of[whole], offset, s);
}

/* ---- Concat ---- */

/* Made by a step that can write to any address, for the first Concat that reads it. */
static bool can_move(const struct memory *m, uint32_t value) {
    const struct tmk_plan *plan = m->p->plan;
    if (plan->values[value].place != TMK_PLACE_ARENA || m->inside[value].parent != TMK_NO_VALUE ||
        m->p->made_by[value] == TMK_NO_STEP)
        return false;
    const struct tmk_plan_step *step = &plan->steps[m->p->made_by[value]];
    return step->kind != TMK_STEP_NODE || !(step->node->row->flags & TMK_OP_VIEW);
}

static bool reads_once(const struct tmk_plan *plan, const struct tmk_plan_step *step, uint32_t at) {
    const uint32_t *in = refs_in(plan, step);
    for (uint32_t i = 0; i < step->n_in; i++)
        if (i != at && in[i] == in[at])
            return false;
    return true;
}

static bool reads_value(const struct tmk_plan *plan, const struct tmk_plan_step *step,
                        uint32_t value) {
    const uint32_t *in = refs_in(plan, step);
    for (uint32_t i = 0; i < step->n_in; i++)
        if (in[i] == value)
            return true;
    return false;
}

/* Is it looked at as a whole, with its elements? */
static bool is_observed(const struct tmk_planning *p, const struct tmk_plan_step *step,
                        uint32_t value) {
    for (uint32_t t = step->first_tap; t < step->first_tap + step->n_taps; t++) {
        const struct tmk_plan_tap *tap = &p->plan->taps[t];
        if (tap->value == value &&
            (!p->options->needs || p->options->needs[tap->slot] != TMK_TAP_SHAPE))
            return true;
    }
    return false;
}

/* May other values' elements be between its samples? Only if chains and joins alone make and read
 * it. */
static bool can_part(const struct memory *m, uint32_t value) {
    const struct tmk_planning *p = m->p;
    const enum tmk_step_kind maker = p->plan->steps[p->made_by[value]].kind;
    if (p->kept[value] || (maker != TMK_STEP_CHAIN && maker != TMK_STEP_JOIN))
        return false;
    for (uint32_t s = 0; s < p->plan->n_steps; s++) {
        const struct tmk_plan_step *step = &p->plan->steps[s];
        bool writes_strided = step->kind == TMK_STEP_CHAIN || step->kind == TMK_STEP_JOIN;
        if ((!writes_strided && reads_value(p->plan, step, value)) || is_observed(p, step, value) ||
            (step->kind == TMK_STEP_NODE && step->node->row->flags & TMK_OP_RUNS_GRAPHS))
            return false;
    }
    return true;
}

static void move_operands(struct memory *m, const struct tmk_plan_step *step) {
    const struct tmk_plan *plan = m->p->plan;
    const uint32_t *in = refs_in(plan, step);
    uint32_t out = refs_out(plan, step)[0];
    size_t offset = 0, rounds = tmk_plan_rounds(&plan->values[out]);
    for (uint32_t i = 0; i < step->n_in; offset += value_bytes(&plan->values[in[i++]]) / rounds)
        if (offset % TMK_PLAN_ALIGN == 0 && reads_once(plan, step, i) && can_move(m, in[i]) &&
            (rounds == 1 || can_part(m, in[i])))
            m->inside[in[i]] = (struct inside){out, offset};
}

static void find_pitches(struct memory *m) {
    struct tmk_plan *plan = m->p->plan;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        size_t unused;
        const struct tmk_plan_value *whole = &plan->values[outermost_value(m, i, &unused)];
        if (m->inside[i].parent != TMK_NO_VALUE && tmk_plan_rounds(whole) > 1)
            plan->values[i].pitch = value_bytes(whole) / tmk_plan_rounds(whole) / sizeof(float);
    }
}

/* ---- all ---- */

static enum tmk_status place_all(struct memory *m) {
    struct tmk_plan *plan = m->p->plan;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        m->block_of[i] = NO_BLOCK;
        m->inside[i].parent = TMK_NO_VALUE;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].kind == TMK_STEP_JOIN)
            move_operands(m, &plan->steps[s]);
    find_pitches(m);
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_out; i++) {
            uint32_t out = refs_out(plan, step)[i];
            if (out != TMK_NO_VALUE && plan->values[out].place == TMK_PLACE_ARENA)
                place_output(m, step, s, i);
        }
    }
    TMK_TRY(tmk_place_blocks(m->blocks, m->n_blocks, &plan->arena_bytes, m->p->diag));
    for (uint32_t i = 0; i < plan->n_values; i++)
        if (m->block_of[i] != NO_BLOCK)
            plan->values[i].offset = m->blocks[m->block_of[i]].offset + m->offset_in[i];
    for (uint32_t i = 0; i < plan->n_values;
         i++) /* what an observer forwards is where its operand is */
        if (m->p->alias[i] != i) {
            const struct tmk_plan_value *under = &plan->values[m->p->alias[i]];
            plan->values[i].place = under->place;
            plan->values[i].offset = under->offset;
            plan->values[i].block = under->block;
            plan->values[i].pitch = under->pitch;
        }
    return TMK_OK;
}

static enum tmk_status list_frees(struct tmk_planning *p) {
    struct tmk_plan *plan = p->plan;
    plan->free_list = calloc(plan->n_values + 1u, sizeof *plan->free_list);
    TMK_TRY_ALLOC(plan->free_list, p->diag);
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        plan->steps[s].first_free = n;
        /* operands last read here, and results without readers; each value once */
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_in + step->n_out; i++) {
            uint32_t index =
                i < step->n_in ? refs_in(plan, step)[i] : refs_out(plan, step)[i - step->n_in];
            if (index == TMK_NO_VALUE)
                continue;
            bool over = plan->values[index].place == TMK_PLACE_DYNAMIC && end_of(p, index, s) == s;
            for (uint32_t k = step->first_free; over && k < n; k++)
                over = plan->free_list[k] != index;
            if (over)
                plan->free_list[n++] = index;
        }
        plan->steps[s].n_free = n - plan->steps[s].first_free;
    }
    return TMK_OK;
}

enum tmk_status tmk_plan_memory(struct tmk_planning *p) {
    size_t n = p->plan->n_values + 1u;
    find_last_uses(p);
    struct memory m = {.p = p,
                       .blocks = tmk_arena_array(&p->arena, n, sizeof *m.blocks),
                       .block_of = tmk_arena_array(&p->arena, n, sizeof *m.block_of),
                       .offset_in = tmk_arena_array(&p->arena, n, sizeof *m.offset_in),
                       .inside = tmk_arena_array(&p->arena, n, sizeof *m.inside)};
    TMK_TRY_ALLOC(m.blocks && m.block_of && m.offset_in && m.inside, p->diag);
    TMK_TRY(place_all(&m));
    return list_frees(p);
}
