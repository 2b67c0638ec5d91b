/* SPDX-License-Identifier: Apache-2.0 */
/* One walk in the order of the graph: each node takes the layout of its operands, or another where
 * its kernel is so much faster that a reorder pays. Convolutions decide, and the nodes behind them
 * follow. */
#include "plan/choose.h"

#include "base/diag.h"
#include "tensor/elements.h"
#include "tensor/shape.h"

static const struct tmk_plan_value *value_of(const struct tmk_arranging *a, uint32_t index) {
    return &a->p->plan->values[index];
}

/* The i-th operand under its observers, or TMK_NO_VALUE. */
static uint32_t operand_group(const struct tmk_arranging *a, const struct tmk_node *node,
                              uint32_t i) {
    return i < node->n_inputs && node->inputs[i] ? a->p->alias[node->inputs[i]->index]
                                                 : TMK_NO_VALUE;
}

static bool is_empty(const struct tmk_shape *shape) {
    size_t count;
    return !tmk_shape_count(shape, &count) || count == 0;
}

static bool only_output(const struct tmk_node *node) {
    if (!node->n_outputs || !node->outputs[0])
        return false;
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (node->outputs[i])
            return false;
    return true;
}

static void fill_results(struct tmk_arranging *a, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        a->p->results[i] = (struct tmk_infer_result){0};
        if (!node->outputs[i])
            continue;
        const struct tmk_plan_value *value = value_of(a, node->outputs[i]->index);
        a->p->results[i] = (struct tmk_infer_result){true, value->dtype, value->shape};
    }
}

/* ---- chains ---- */

/* An operand that is there element for element, and is made while the plan runs. */
static bool is_whole(const struct tmk_arranging *a, uint32_t value, const struct tmk_shape *space) {
    const struct tmk_plan_value *v = value == TMK_NO_VALUE ? NULL : value_of(a, value);
    return v && v->dtype == TMK_FLOAT32 && v->place != TMK_PLACE_CONSTANT &&
           tmk_shape_equal(&v->shape, space);
}

/* The layout that a chain member would have: blocks, where a whole operand comes in blocks. */
static uint32_t common_block(const struct tmk_arranging *a, const struct tmk_node *node,
                             const struct tmk_shape *space) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = operand_group(a, node, i);
        if (is_whole(a, value, space) && a->made[value])
            return a->made[value];
    }
    return 0;
}

static uint32_t group_making(const struct tmk_arranging *a, uint32_t value) {
    uint32_t raw = value == TMK_NO_VALUE ? TMK_NO_STEP : a->p->made_by[value];
    if (raw == TMK_NO_STEP || a->choice[raw].how != TMK_HOW_CHAIN)
        return TMK_NO_GROUP;
    return tmk_group_of(a, a->choice[raw].group);
}

/* The groups that a new member would join into one. */
struct joining {
    uint32_t groups[TMK_MAX_MEMBERS], n, members, operands;
};

static bool is_among(const struct joining *j, uint32_t group) {
    for (uint32_t i = 0; i < j->n; i++)
        if (j->groups[i] == group)
            return true;
    return false;
}

/* A group runs at its last member's position. So it can take a later one only when nothing else has
 * read its result until there. */
static bool can_wait(const struct tmk_arranging *a, uint32_t group, const struct joining *j) {
    for (uint32_t r = a->groups[group].first; r != TMK_NO_STEP; r = a->choice[r].next) {
        uint32_t reader = a->reader[a->p->raw[r].node->outputs[0]->index];
        if (reader == TMK_READ_BY_MANY ||
            (reader != TMK_NO_GROUP && !is_among(j, tmk_group_of(a, reader))))
            return false;
    }
    return true;
}

static void find_groups(const struct tmk_arranging *a, const struct tmk_node *node, uint32_t block,
                        const struct tmk_shape *space, struct joining *j) {
    *j = (struct joining){.members = 1, .operands = node->n_inputs};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t group = group_making(a, operand_group(a, node, i));
        if (group == TMK_NO_GROUP || is_among(j, group) || a->groups[group].block != block ||
            !tmk_shape_equal(&a->groups[group].space, space) ||
            j->members + a->groups[group].n > TMK_MAX_MEMBERS ||
            j->operands + a->groups[group].n_operands > TMK_MAX_OPERANDS)
            continue;
        j->groups[j->n++] = group;
        j->members += a->groups[group].n;
        j->operands += a->groups[group].n_operands;
    }
    for (uint32_t i = 0; i < j->n;) { /* one that drops out may hold up another */
        if (can_wait(a, j->groups[i], j)) {
            i++;
            continue;
        }
        j->members -= a->groups[j->groups[i]].n;
        j->operands -= a->groups[j->groups[i]].n_operands;
        j->groups[i] = j->groups[--j->n];
        i = 0;
    }
}

/* Members stay in the order of the graph. */
static void merge_members(struct tmk_arranging *a, struct tmk_group *into, struct tmk_group *from) {
    uint32_t x = into->first, y = from->first, *link = &into->first;
    while (x != TMK_NO_STEP || y != TMK_NO_STEP) {
        uint32_t *first = y == TMK_NO_STEP || (x != TMK_NO_STEP && x < y) ? &x : &y;
        *link = *first;
        link = &a->choice[*first].next;
        into->last = *first;
        *first = *link;
    }
    *link = TMK_NO_STEP;
    into->n += from->n;
    into->n_operands += from->n_operands;
}

static void join_groups(struct tmk_arranging *a, uint32_t raw, uint32_t block,
                        const struct tmk_shape *space, const struct joining *j) {
    uint32_t group = a->n_groups++;
    a->groups[group] =
        (struct tmk_group){group, block, *space, raw, raw, 1, a->p->raw[raw].node->n_inputs};
    for (uint32_t i = 0; i < j->n; i++) {
        merge_members(a, &a->groups[group], &a->groups[j->groups[i]]);
        a->groups[j->groups[i]].into = group;
    }
    a->choice[raw].group = group;
}

static bool try_chain(struct tmk_arranging *a, uint32_t raw) {
    const struct tmk_node *node = a->p->raw[raw].node;
    if (!only_output(node) || (node->row->flags & TMK_OP_VIEW))
        return false;
    const struct tmk_plan_value *result = value_of(a, node->outputs[0]->index);
    const struct tmk_shape *space = &result->shape;
    if (result->dtype != TMK_FLOAT32 || is_empty(space))
        return false;
    uint32_t block = common_block(a, node, space);
    if (!tmk_chain_supports(node, a->p->in, space, block))
        return false;
    struct joining j;
    find_groups(a, node, block, space, &j);
    a->choice[raw] = (struct tmk_step_choice){
        .how = TMK_HOW_CHAIN, .in_block = block, .out_block = block, .next = TMK_NO_STEP};
    join_groups(a, raw, block, space, &j);
    return true;
}

/* ---- Concat ---- */

/* In blocks when all operands fill theirs; else row-major, when every operand is one stretch. */
static bool try_join(struct tmk_arranging *a, uint32_t raw) {
    const struct tmk_node *node = a->p->raw[raw].node;
    if (tmk_node_traits(node)->class != TMK_OP_CONCAT || !only_output(node))
        return false;
    const struct tmk_plan_value *result = value_of(a, node->outputs[0]->index);
    int64_t axis = tmk_node_int(node, "axis", 1);
    axis += axis < 0 ? result->shape.rank : 0;
    if (is_empty(&result->shape) || axis < 0 || axis >= result->shape.rank)
        return false;
    uint32_t block = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = operand_group(a, node, i);
        if (value == TMK_NO_VALUE || value_of(a, value)->place == TMK_PLACE_CONSTANT)
            return false;
        block = a->made[value] ? a->made[value] : block;
    }
    for (uint32_t i = 0; block && i < node->n_inputs; i++)
        if (axis != 1 || value_of(a, operand_group(a, node, i))->shape.dim[1] % block != 0)
            block = 0;
    if (!block && tmk_shape_product(&result->shape, 0, (int32_t)axis) != 1)
        return false;
    a->choice[raw] =
        (struct tmk_step_choice){.how = TMK_HOW_JOIN, .in_block = block, .out_block = block};
    return true;
}

/* ---- all others ---- */

/* A view of the same shape needs no other layout. */
static bool try_view(struct tmk_arranging *a, uint32_t raw) {
    const struct tmk_node *node = a->p->raw[raw].node;
    uint32_t in = operand_group(a, node, 0);
    if (!(node->row->flags & TMK_OP_VIEW) || in == TMK_NO_VALUE || !a->made[in] ||
        !only_output(node))
        return false;
    const struct tmk_plan_value *result = value_of(a, node->outputs[0]->index);
    if (!tmk_shape_equal(&result->shape, &value_of(a, in)->shape) ||
        result->shape.dim[1] % a->made[in] != 0)
        return false;
    a->choice[raw] = (struct tmk_step_choice){
        .how = TMK_HOW_NODE, .in_block = a->made[in], .out_block = a->made[in]};
    return true;
}

/* The operand and, where it is observed, what is under its observers; not one that the operator
 * itself reads where it lies. */
static enum tmk_status open_operand(struct tmk_arranging *a, const struct tmk_node *node,
                                    uint32_t i) {
    if (!node->inputs[i] || tmk_op_takes_lazy(node->row, i))
        return TMK_OK;
    TMK_TRY(tmk_plan_open(a->p->plan, operand_group(a, node, i), a->p->diag));
    return tmk_plan_open(a->p->plan, node->inputs[i]->index, a->p->diag);
}

/* Those that no kernel packs are read while the plan runs. */
static enum tmk_status open_others(struct tmk_arranging *a, const struct tmk_node *node,
                                   bool free_choice) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!free_choice || !tmk_accel_takes_lazy(node, i))
            TMK_TRY(open_operand(a, node, i));
    return TMK_OK;
}

static enum tmk_status open_unpacked(struct tmk_arranging *a, const struct tmk_node *node,
                                     const struct tmk_accel *accel) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!accel || !tmk_accel_has_packed(accel, i))
            TMK_TRY(open_operand(a, node, i));
    return TMK_OK;
}

/* Weights lie where they are as long as the graph; what a plan has computed goes with the plan. */
static struct tmk_packs *shared_packs(const struct tmk_arranging *a, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = operand_group(a, node, i);
        if (value != TMK_NO_VALUE && value_of(a, value)->place == TMK_PLACE_CONSTANT &&
            !value_of(a, value)->initializer && !tmk_tensor_is_lazy(&value_of(a, value)->constant))
            return NULL;
    }
    return a->p->options->packs;
}

static enum tmk_status choose_kernel(struct tmk_arranging *a, uint32_t raw) {
    struct tmk_step_choice *choice = &a->choice[raw];
    const struct tmk_node *node = a->p->raw[raw].node;
    uint32_t in = operand_group(a, node, 0);
    struct tmk_packs *packs = shared_packs(a, node);
    fill_results(a, node);
    struct tmk_accel_layout layout;
    TMK_TRY(tmk_accel_preferred_layout(node, a->p->in, a->p->results,
                                       in == TMK_NO_VALUE ? 0 : a->made[in], &layout, a->p->diag));
    TMK_TRY(
        tmk_accel_create(node, a->p->in, a->p->results, layout, packs, &choice->accel, a->p->diag));
    if (!choice->accel && (layout.in || layout.out)) {
        layout = (struct tmk_accel_layout){0, 0};
        TMK_TRY(tmk_accel_create(node, a->p->in, a->p->results, layout, packs, &choice->accel,
                                 a->p->diag));
    }
    choice->how = choice->accel ? TMK_HOW_ACCEL : TMK_HOW_NODE;
    choice->in_block = choice->accel ? layout.in : 0;
    choice->out_block = choice->accel ? layout.out : 0;
    return open_unpacked(a, node, choice->accel);
}

/* Who reads what, for can_wait and for what is to be stored. */
static void note_readers(struct tmk_arranging *a, uint32_t raw) {
    const struct tmk_node *node = a->p->raw[raw].node;
    uint32_t reader = a->choice[raw].how == TMK_HOW_CHAIN ? tmk_group_of(a, a->choice[raw].group)
                                                          : TMK_READ_BY_MANY;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = operand_group(a, node, i);
        if (value == TMK_NO_VALUE)
            continue;
        uint32_t *known = &a->reader[value];
        if (*known == TMK_NO_GROUP)
            *known = reader;
        else if (*known == TMK_READ_BY_MANY || reader == TMK_READ_BY_MANY ||
                 tmk_group_of(a, *known) != reader)
            *known = TMK_READ_BY_MANY;
    }
}

static enum tmk_status choose_one(struct tmk_arranging *a, uint32_t raw) {
    const struct tmk_raw_step *step = &a->p->raw[raw];
    bool free_choice =
        !step->dynamic && !a->p->options->plain && !(step->node->row->flags & TMK_OP_RUNS_GRAPHS);
    TMK_TRY(open_others(a, step->node, free_choice));
    if (!free_choice)
        return TMK_OK;
    tmk_plan_operands(a->p, step->node);
    if (try_chain(a, raw) || try_join(a, raw) || try_view(a, raw))
        return open_unpacked(a, step->node, NULL);
    return choose_kernel(a, raw);
}

/* Fills choice, groups, made and reader. */
static enum tmk_status arrange_choose(struct tmk_arranging *a) {
    for (uint32_t i = 0; i < a->p->values_size; i++)
        a->reader[i] = a->fixed[i] ? TMK_READ_BY_MANY : TMK_NO_GROUP;
    for (uint32_t i = 0; i < a->p->plan->n_values; i++)
        if (a->fixed[i])
            TMK_TRY(tmk_plan_open(a->p->plan, i, a->p->diag));
    for (uint32_t r = 0; r < a->p->n_raw; r++) {
        const struct tmk_node *node = a->p->raw[r].node;
        enum tmk_status status = choose_one(a, r);
        if (status != TMK_OK)
            return tmk_in(a->p->diag, status, "node %s", TMK_NODE_LABEL(node));
        if (a->choice[r].out_block) {
            uint32_t value = node->outputs[0]->index;
            if (tmk_blocked_same(&value_of(a, value)->shape, a->choice[r].out_block))
                a->choice[r].out_block = 0;
            a->made[value] = a->choice[r].out_block;
        }
        note_readers(a, r);
    }
    return TMK_OK;
}

/* A graph inside a node finds outer values under their own index, row-major. */
static void fix_captures(struct tmk_arranging *a, const struct tmk_graph *graph) {
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
    const struct tmk_graph *root = tmk_graph_root(graph);
    for (const struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        fix_captures(a, g);
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
    struct tmk_arena *arena = &p->arena;
    const size_t values = p->values_size;
    struct tmk_arranging a = {.p = p,
                              .choice = tmk_arena_array(arena, p->n_raw, sizeof *a.choice),
                              .groups = tmk_arena_array(arena, p->n_raw, sizeof *a.groups),
                              .made = tmk_arena_array(arena, values, sizeof *a.made),
                              .reader = tmk_arena_array(arena, values, sizeof *a.reader),
                              .fixed = tmk_arena_array(arena, values, sizeof *a.fixed),
                              .tapped = tmk_arena_array(arena, values, sizeof *a.tapped)};
    TMK_TRY_ALLOC(a.choice && a.groups && a.made && a.reader && a.fixed && a.tapped, p->diag);
    fix_values(&a);
    enum tmk_status status = arrange_choose(&a);
    TMK_THEN(status, tmk_arrange_emit(&a));
    for (uint32_t r = 0; r < p->n_raw; r++)
        tmk_accel_destroy(&a.choice[r].accel);
    return status;
}
