/* SPDX-License-Identifier: Apache-2.0 */
/* Choices as steps: a chain at its last member's position, a reorder right before the first step
 * that needs it, and taps where their value can be seen. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "plan/choose.h"

enum { NO_WHICH = UINT32_MAX };

/* Where a value is seen in pieces: a chain's step, and its number there. */
struct observation {
    uint32_t step, which;
};

/* One tap on its way to its step. */
struct mark {
    uint32_t step, which; /* NO_WHICH: whole */
    struct tmk_plan_tap tap;
};

struct emitting {
    struct tmk_arranging *a;
    struct tmk_plan *plan;
    struct tmk_diag *diag;
    uint32_t *other;                 /* by value: itself in the other layout, or TMK_NO_VALUE */
    struct observation *observation; /* by value; step TMK_NO_STEP: none yet */
    uint32_t *position;              /* by raw step: its place in its chain */
    size_t steps_size, refs_size, which_size, members_size;
    uint32_t n_refs, n_members;
};

static enum tmk_status add_ref(struct emitting *e, uint32_t value) {
    TMK_TRY_ALLOC(TMK_GROW(e->plan->refs, e->n_refs, e->refs_size), e->diag);
    e->plan->refs[e->n_refs++] = value;
    return TMK_OK;
}

static enum tmk_status add_step(struct emitting *e, enum tmk_step_kind kind,
                                const struct tmk_node *node, struct tmk_plan_step **out) {
    struct tmk_plan *plan = e->plan;
    TMK_TRY_ALLOC(TMK_GROW(plan->steps, plan->n_steps, e->steps_size), e->diag);
    *out = &plan->steps[plan->n_steps++];
    **out = (struct tmk_plan_step){.kind = kind, .node = node, .first_in = e->n_refs};
    return TMK_OK;
}

static void need_scratch(struct emitting *e, size_t bytes) {
    if (bytes > e->plan->scratch_bytes)
        e->plan->scratch_bytes = bytes;
}

/* ---- layouts ---- */

/* The value's second layout, allocated if needed; not written yet. */
static uint32_t second_form(struct emitting *e, uint32_t value, uint32_t block) {
    if (e->other[value] != TMK_NO_VALUE)
        return e->other[value];
    uint32_t index = e->plan->n_values++;
    e->plan->values[index] = e->plan->values[value];
    e->plan->values[index].block = block;
    e->other[value] = index;
    return index;
}

static enum tmk_status add_reorder(struct emitting *e, uint32_t from, uint32_t to,
                                   const struct tmk_node *node) {
    struct tmk_plan_step *step;
    bool blocks = e->plan->values[to].block != 0;
    TMK_TRY(add_step(e, blocks ? TMK_STEP_TO_BLOCKS : TMK_STEP_FROM_BLOCKS, node, &step));
    TMK_TRY(add_ref(e, from));
    step->n_in = 1;
    step->first_out = e->n_refs;
    TMK_TRY(add_ref(e, to));
    step->n_out = 1;
    e->a->p->made_by[to] = e->plan->n_steps - 1;
    return TMK_OK;
}

/* The value in this layout, after a reorder if it must be. */
static enum tmk_status in_layout(struct emitting *e, uint32_t value, uint32_t block,
                                 const struct tmk_node *node, uint32_t *out) {
    const struct tmk_plan_value *v = &e->plan->values[value];
    *out = value;
    if (v->place != TMK_PLACE_ARENA && v->place != TMK_PLACE_INPUT)
        return TMK_OK;
    if (block && tmk_blocked_same(&v->shape, block))
        block = 0;
    if (v->block == block)
        return TMK_OK;
    if (e->other[value] != TMK_NO_VALUE) {
        *out = e->other[value];
        return TMK_OK;
    }
    *out = second_form(e, value, block);
    e->plan->values[*out].place = TMK_PLACE_ARENA;
    return add_reorder(e, value, *out, node);
}

/* Where a result that comes in this layout is to be written. */
static uint32_t result_in(struct emitting *e, uint32_t value, uint32_t block) {
    if (block && e->a->fixed[value])
        return second_form(e, value, block);
    e->plan->values[value].block = block;
    return value;
}

/* Those that were asked for row-major, but came in blocks. */
static enum tmk_status settle_fixed(struct emitting *e, const struct tmk_node *node,
                                    uint32_t value) {
    uint32_t other = e->other[value];
    if (!e->a->fixed[value] || other == TMK_NO_VALUE)
        return TMK_OK;
    return add_reorder(e, other, value, node);
}

/* ---- single nodes ---- */

/* An inner value that nobody needs whole has no memory, and is seen in pieces. */
static void show_result(struct emitting *e, uint32_t value, uint32_t output) {
    const uint32_t number = e->plan->n_steps - 1;
    e->plan->values[value].place = TMK_PLACE_NOWHERE;
    e->a->p->made_by[value] = number;
    e->observation[value] = (struct observation){number, output};
}

static enum tmk_status emit_node(struct emitting *e, uint32_t raw) {
    static const enum tmk_step_kind kinds[] = {[TMK_HOW_NODE] = TMK_STEP_NODE,
                                               [TMK_HOW_ACCEL] = TMK_STEP_ACCEL,
                                               [TMK_HOW_JOIN] = TMK_STEP_JOIN};
    struct tmk_planning *p = e->a->p;
    struct tmk_step_choice *choice = &e->a->choice[raw];
    const struct tmk_node *node = p->raw[raw].node;
    uint32_t in[TMK_MAX_INPUTS];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        bool blocked = i == 0 || choice->how == TMK_HOW_JOIN;
        in[i] = TMK_NO_VALUE;
        if (node->inputs[i])
            TMK_TRY(in_layout(e, p->alias[node->inputs[i]->index], blocked ? choice->in_block : 0,
                              node, &in[i]));
    }
    struct tmk_plan_step *step;
    TMK_TRY(add_step(e, kinds[choice->how], node, &step));
    step->accel = choice->accel;
    choice->accel = NULL;
    if (step->accel)
        need_scratch(e, tmk_accel_scratch(step->accel));
    step->dynamic = p->raw[raw].dynamic;
    step->n_in = node->n_inputs;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        TMK_TRY(add_ref(e, in[i]));
    step->first_out = e->n_refs;
    step->n_out = node->n_outputs;
    uint32_t number = e->plan->n_steps - 1;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t value = TMK_NO_VALUE;
        if (node->outputs[i] && tmk_is_shown(node, i) && !e->a->fixed[node->outputs[i]->index]) {
            if (e->a->tapped[node->outputs[i]->index])
                value = node->outputs[i]->index;
            show_result(e, node->outputs[i]->index, i);
        } else if (node->outputs[i]) {
            value = result_in(e, node->outputs[i]->index, i == 0 ? choice->out_block : 0);
            p->made_by[value] = number;
        }
        TMK_TRY(add_ref(e, value));
    }
    if (node->n_outputs && node->outputs[0])
        TMK_TRY(settle_fixed(e, node, node->outputs[0]->index));
    return TMK_OK;
}

/* ---- chains ---- */

struct chaining {
    const struct tmk_group *group;
    uint32_t number; /* of the group */
    struct tmk_chain_operand operands[TMK_MAX_OPERANDS];
    uint32_t refs[TMK_MAX_OPERANDS];    /* the value that each of them is */
    uint32_t seen_as[TMK_MAX_OPERANDS]; /* the same, whatever its layout */
    uint32_t n_operands, n_members, n_stored;
    struct tmk_chain_member members[TMK_MAX_MEMBERS];
    int32_t from[TMK_MAX_OPERANDS];
    uint32_t n_from;
    uint32_t stored[TMK_MAX_MEMBERS]; /* values */
};

static enum tmk_status add_operand(struct emitting *e, struct chaining *c, uint32_t value,
                                   const struct tmk_node *node, int32_t *from) {
    const struct tmk_plan_value *v = &e->plan->values[value];
    bool whole = v->dtype == TMK_FLOAT32 && tmk_shape_equal(&v->shape, &c->group->space);
    uint32_t ref;
    TMK_TRY(in_layout(e, value, whole ? c->group->block : 0, node, &ref));
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (c->refs[i] == ref) {
            *from = (int32_t)i;
            return TMK_OK;
        }
    v = &e->plan->values[ref];
    bool watch = whole && v->place == TMK_PLACE_ARENA && e->a->tapped[value] &&
                 e->observation[value].step == TMK_NO_STEP;
    c->operands[c->n_operands] = (struct tmk_chain_operand){
        &v->shape, v->place == TMK_PLACE_CONSTANT ? v->constant.data : NULL, watch};
    c->refs[c->n_operands] = ref;
    c->seen_as[c->n_operands] = value;
    *from = (int32_t)c->n_operands++;
    return TMK_OK;
}

/* Does anybody but the chain read it? */
static bool is_needed(const struct emitting *e, const struct chaining *c, uint32_t value) {
    uint32_t reader = e->a->reader[value];
    return e->a->fixed[value] || reader == TMK_READ_BY_MANY ||
           (reader != TMK_NO_GROUP && tmk_group_of(e->a, reader) != c->number);
}

static enum tmk_status add_member(struct emitting *e, struct chaining *c, uint32_t raw) {
    struct tmk_planning *p = e->a->p;
    const struct tmk_node *node = p->raw[raw].node;
    uint32_t result = node->outputs[0]->index;
    int32_t *from = c->from + c->n_from;
    c->n_from += node->n_inputs;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        from[i] = TMK_CHAIN_ABSENT;
        if (!node->inputs[i])
            continue;
        uint32_t value = p->alias[node->inputs[i]->index], maker = p->made_by[value];
        bool inside = p->plan->values[value].place == TMK_PLACE_NOWHERE;
        for (uint32_t m = 0; !inside && m < c->n_members; m++)
            inside = c->members[m].node->outputs[0]->index == value;
        if (inside)
            from[i] = -1 - (int32_t)e->position[maker];
        else
            TMK_TRY(add_operand(e, c, value, node, &from[i]));
    }
    bool stored = is_needed(e, c, result);
    c->members[c->n_members] = (struct tmk_chain_member){node, from, stored, e->a->tapped[result]};
    e->position[raw] = c->n_members++;
    if (stored)
        c->stored[c->n_stored++] = result;
    else
        p->plan->values[result].place = TMK_PLACE_NOWHERE;
    return TMK_OK;
}

static void fix_observations(struct emitting *e, const struct chaining *c, uint32_t number) {
    for (uint32_t i = 0; i < c->n_operands; i++)
        if (c->operands[i].watched)
            e->observation[c->seen_as[i]] = (struct observation){number, i};
    for (uint32_t m = 0; m < c->n_members; m++)
        if (c->members[m].watched)
            e->observation[c->members[m].node->outputs[0]->index] =
                (struct observation){number, c->n_operands + m};
}

static enum tmk_status add_members(struct emitting *e, const struct chaining *c,
                                   struct tmk_plan_step *step) {
    step->first_node = e->n_members;
    step->n_nodes = c->n_members;
    for (uint32_t m = 0; m < c->n_members; m++) {
        TMK_TRY_ALLOC(TMK_GROW(e->plan->members, e->n_members, e->members_size), e->diag);
        e->plan->members[e->n_members++] = c->members[m].node;
    }
    return TMK_OK;
}

static enum tmk_status write_chain(struct emitting *e, struct chaining *c) {
    struct tmk_planning *p = e->a->p;
    const struct tmk_node *last = c->members[c->n_members - 1].node;
    struct tmk_plan_step *step;
    TMK_TRY(add_step(e, TMK_STEP_CHAIN, last, &step));
    TMK_TRY(tmk_chain_create(&c->group->space, c->group->block, c->operands, c->n_operands,
                             c->members, c->n_members, &step->chain, e->diag));
    need_scratch(e, tmk_chain_scratch(step->chain));
    uint32_t number = e->plan->n_steps - 1;
    step->block = c->group->block;
    step->n_in = c->n_operands;
    for (uint32_t i = 0; i < c->n_operands; i++)
        TMK_TRY(add_ref(e, c->refs[i]));
    step->first_out = e->n_refs;
    step->n_out = c->n_stored;
    for (uint32_t i = 0; i < c->n_stored; i++) {
        uint32_t value = result_in(e, c->stored[i], c->group->block);
        p->made_by[value] = number;
        TMK_TRY(add_ref(e, value));
    }
    TMK_TRY(add_members(e, c, step));
    fix_observations(e, c, number);
    for (uint32_t m = 0; m < c->n_members; m++) /* shape taps of what is not stored are here too */
        if (p->plan->values[c->members[m].node->outputs[0]->index].place == TMK_PLACE_NOWHERE)
            p->made_by[c->members[m].node->outputs[0]->index] = number;
    for (uint32_t i = 0; i < c->n_stored; i++)
        TMK_TRY(settle_fixed(e, last, c->stored[i]));
    return TMK_OK;
}

static enum tmk_status emit_chain(struct emitting *e, uint32_t number) {
    struct chaining *c = calloc(1, sizeof *c);
    TMK_TRY_ALLOC(c, e->diag);
    c->group = &e->a->groups[number];
    c->number = number;
    enum tmk_status status = TMK_OK;
    for (uint32_t r = c->group->first; status == TMK_OK && r != TMK_NO_STEP;
         r = e->a->choice[r].next)
        status = add_member(e, c, r);
    TMK_THEN(status, write_chain(e, c));
    free(c);
    return status;
}

/* ---- taps ---- */

static int by_place(const void *x, const void *y) {
    const struct mark *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->which != b->which ? TMK_ORDER(a->which, b->which)
                                : TMK_ORDER(a->tap.slot, b->tap.slot);
}

static enum tmk_status index_seen(struct emitting *e, struct tmk_plan_step *step,
                                  const struct mark *marks, uint32_t *n_which) {
    uint32_t n = step->kind == TMK_STEP_CHAIN ? step->n_in + step->n_nodes : step->n_out, t = 0;
    step->first_which = *n_which;
    for (uint32_t w = 0; w <= n; w++) {
        TMK_TRY_ALLOC(TMK_GROW(e->plan->which, *n_which, e->which_size), e->diag);
        while (t < step->n_seen && marks[t].which < w)
            t++;
        e->plan->which[(*n_which)++] = t;
    }
    return TMK_OK;
}

static enum tmk_status place_taps(struct emitting *e, const struct mark *marks, uint32_t n) {
    uint32_t n_which = 0, t = 0;
    for (uint32_t s = 0; s < e->plan->n_steps; s++) {
        struct tmk_plan_step *step = &e->plan->steps[s];
        step->first_seen = t;
        for (; t < n && marks[t].step == s && marks[t].which != NO_WHICH; t++)
            step->n_seen++;
        step->first_tap = t;
        for (; t < n && marks[t].step == s; t++)
            step->n_taps++;
        if (step->kind == TMK_STEP_CHAIN || step->n_seen)
            TMK_TRY(index_seen(e, step, marks + step->first_seen, &n_which));
    }
    return TMK_OK;
}

static enum tmk_status emit_taps(struct emitting *e) {
    struct tmk_planning *p = e->a->p;
    struct tmk_plan *plan = e->plan;
    struct mark *marks = tmk_arena_array(&p->arena, p->n_taps, sizeof *marks);
    plan->taps = calloc(p->n_taps + 1u, sizeof *plan->taps);
    TMK_TRY_ALLOC(marks && plan->taps, e->diag);
    for (uint32_t t = 0; t < p->n_taps; t++) {
        struct tmk_plan_tap tap = p->taps[t];
        uint8_t need = p->options->needs ? p->options->needs[tap.slot] : TMK_TAP_PIECES;
        struct observation observation = e->observation[tap.value];
        bool pieces = need == TMK_TAP_PIECES && observation.step != TMK_NO_STEP;
        marks[t] = (struct mark){pieces ? observation.step : p->made_by[tap.value],
                                 pieces ? observation.which : NO_WHICH, tap};
    }
    qsort(marks, p->n_taps, sizeof *marks, by_place);
    TMK_TRY(place_taps(e, marks, p->n_taps));
    plan->n_taps = p->n_taps;
    for (uint32_t t = 0; t < p->n_taps; t++)
        plan->taps[t] = marks[t].tap;
    return TMK_OK;
}

static enum tmk_status emit_all(struct emitting *e) {
    struct tmk_planning *p = e->a->p;
    for (uint32_t r = 0; r < p->n_raw; r++) {
        const struct tmk_step_choice *choice = &e->a->choice[r];
        if (choice->how != TMK_HOW_CHAIN) {
            TMK_TRY(emit_node(e, r));
            continue;
        }
        uint32_t group = tmk_group_of(e->a, choice->group);
        if (e->a->groups[group].last == r)
            TMK_TRY(emit_chain(e, group));
    }
    return emit_taps(e);
}

enum tmk_status tmk_arrange_emit(struct tmk_arranging *a) {
    struct tmk_planning *p = a->p;
    struct emitting e = {.a = a,
                         .plan = p->plan,
                         .diag = p->diag,
                         .other = tmk_arena_array(&p->arena, p->values_size, sizeof *e.other),
                         .observation =
                             tmk_arena_array(&p->arena, p->values_size, sizeof *e.observation),
                         .position = tmk_arena_array(&p->arena, p->n_raw, sizeof *e.position)};
    TMK_TRY_ALLOC(e.other && e.observation && e.position, p->diag);
    for (uint32_t i = 0; i < p->values_size; i++) {
        e.other[i] = TMK_NO_VALUE;
        e.observation[i].step = TMK_NO_STEP;
    }
    return emit_all(&e);
}
