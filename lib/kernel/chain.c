/* SPDX-License-Identifier: Apache-2.0 */
/* A chain is made of steps: what a member computes, where its operands are and where its result
 * goes. Results that are not stored share few tiles of scratch memory; members that only pass a
 * value on are no steps. */
#include "kernel/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "kernel/chain_internal.h"

enum {
    SPREAD_BELOW = 64,     /* shorter runs are written out where the operand is known */
    SPREAD_MOST = 1 << 17, /* elements of such a table */
    NO_READER = -1
};

struct maker {
    struct tmk_chain *chain;
    const struct tmk_shape *space;
    uint32_t block;
    const struct tmk_chain_operand *operands;
    uint32_t n_operands;
    const struct tmk_chain_member *members;
    uint32_t n_members;
    struct tmk_chain_spec *spec;
    struct tmk_tensor *tensors; /* of one member's inputs */
    const struct tmk_tensor **in;
    bool *needed;
    bool *windowed;
    int64_t *last_use; /* by member: the last member that reads its value */
    uint32_t *place;   /* by member: its slot or its result's position */
    uint32_t *free_slots;
    uint32_t n_free;
    struct tmk_arena arena; /* what is not the chain's */
    struct tmk_diag *diag;
};

/* ---- tables of what is known ---- */

static float *new_table(struct maker *m, size_t n) {
    struct tmk_chain *chain = m->chain;
    size_t bytes;
    if (!tmk_add_size(n, TMK_CHAIN_LANES - 1, &n) || !tmk_mul_size(n, sizeof(float), &bytes))
        return NULL;
    bytes -= bytes % 64;
    float *table = aligned_alloc(64, bytes ? bytes : 64);
    if (table)
        chain->tables[chain->n_tables++] = table;
    return table;
}

/* Patterns for every channel block, or one for all. */
static enum tmk_status make_lanes(struct maker *m, const float *data, bool per_channel,
                                  struct tmk_chain_arg *out) {
    const struct tmk_chain *chain = m->chain;
    size_t blocks = per_channel ? chain->channel_blocks : 1, n;
    float *table = tmk_mul_size(blocks, TMK_CHAIN_LANES, &n) ? new_table(m, n) : NULL;
    TMK_TRY_ALLOC(table, m->diag);
    for (size_t i = 0; i < n; i++) {
        size_t c = i / TMK_CHAIN_LANES * chain->block + i % TMK_CHAIN_LANES % chain->block;
        table[i] = !per_channel ? data[0] : c < chain->channels ? data[c] : 0;
    }
    *out = (struct tmk_chain_arg){
        .kind = TMK_CHAIN_ARG_LANES, .data = table, .stride = per_channel ? TMK_CHAIN_LANES : 0};
    return TMK_OK;
}

/* Row-major elements of short runs become runs of one, and a tile more of them saves the wrapping.
 */
static enum tmk_status write_out(struct maker *m, struct tmk_chain_arg *arg) {
    const struct tmk_chain_spread s = arg->spread;
    size_t n;
    if (s.run >= SPREAD_BELOW || !tmk_mul_size(s.run, s.period, &n) || n > SPREAD_MOST)
        return TMK_OK;
    float *table = new_table(m, n + TMK_CHAIN_TILE);
    TMK_TRY_ALLOC(table, m->diag);
    for (size_t i = 0; i < n + TMK_CHAIN_TILE; i++)
        table[i] = arg->data[i / s.run % s.period];
    arg->data = table;
    arg->spread.run = 1;
    arg->spread.period = n;
    arg->padded = true;
    return TMK_OK;
}

/* The argument for an operand that is not whole. data NULL: known in the run only. */
static enum tmk_status make_spread(struct maker *m, const float *data, uint32_t operand,
                                   const struct tmk_chain_spread *spread,
                                   struct tmk_chain_arg *out) {
    struct tmk_chain *chain = m->chain;
    struct tmk_chain_arg arg = {.at = operand, .data = data, .spread = *spread};
    bool blocked = m->block > 1;
    if (data && (blocked ? !spread->per_sample : spread->period == 1))
        return make_lanes(m, data, blocked && spread->per_channel, out);
    if (blocked) {
        arg.kind = TMK_CHAIN_ARG_LIVE;
        arg.live = chain->n_live++;
    } else {
        arg.kind = TMK_CHAIN_ARG_PERIODIC;
        if (data)
            TMK_TRY(write_out(m, &arg));
        chain->spreads |= !arg.padded;
    }
    *out = arg;
    return TMK_OK;
}

static enum tmk_status make_batch_norm(struct maker *m, uint32_t member,
                                       struct tmk_chain_step *step) {
    const struct tmk_chain_member *from = &m->members[member];
    const float *data[4] = {NULL}; /* scale, bias, mean, variance */
    size_t n = m->block > 1 ? m->chain->channels : m->spec[member].spread.period;
    float *factor = new_table(m, n), *offset = factor ? new_table(m, n) : NULL;
    TMK_TRY_ALLOC(offset, m->diag);
    for (size_t i = 0; i < TMK_COUNT(data); i++)
        data[i] = m->operands[from->from[i + 1]].constant;
    float epsilon = tmk_node_float(from->node, "epsilon", 1e-5f);
    for (size_t i = 0; i < n; i++) {
        factor[i] = 1 / sqrtf(data[3][i] + epsilon) * data[0][i];
        offset[i] = data[1][i] - data[2][i] * factor[i];
    }
    TMK_TRY(make_spread(m, factor, 0, &m->spec[member].spread, &step->p));
    return make_spread(m, offset, 0, &m->spec[member].spread, &step->q);
}

/* ---- where values are ---- */

static bool can_pass(const struct maker *m, uint32_t member) {
    return m->spec[member].loop == TMK_CHAIN_COPY && m->spec[member].math == TMK_CHAIN_COPY &&
           !m->members[member].stored;
}

/* What is behind members that only pass it on. */
static int32_t origin_of(const struct maker *m, int32_t from) {
    while (from < 0 && can_pass(m, (uint32_t)(-1 - from))) {
        uint32_t member = (uint32_t)(-1 - from);
        from = m->members[member].from[m->spec[member].x];
    }
    return from;
}

/* The sources of x and, where it is an input, of p. */
static uint32_t sources_of(const struct maker *m, uint32_t member, int32_t out[2]) {
    const struct tmk_chain_spec *spec = &m->spec[member];
    const int32_t *from = m->members[member].from;
    out[0] = origin_of(m, from[spec->x]);
    if (spec->p_from != TMK_CHAIN_P_INPUT)
        return 1;
    out[1] = origin_of(m, from[spec->p]);
    return 2;
}

static void find_uses(struct maker *m) {
    struct tmk_chain *chain = m->chain;
    int32_t source[2];
    for (uint32_t i = 0; i < m->n_members; i++)
        m->last_use[i] = NO_READER;
    for (uint32_t i = m->n_members; i-- > 0;) {
        const struct tmk_chain_member *member = &m->members[i];
        if (!(m->needed[i] |= member->stored || member->watched))
            continue;
        for (uint32_t k = sources_of(m, i, source); k-- > 0;)
            if (source[k] < 0) {
                uint32_t by = (uint32_t)(-1 - source[k]);
                m->needed[by] = true;
                if (m->last_use[by] == NO_READER)
                    m->last_use[by] = i;
            } else if (can_pass(m, i)) { /* shown when all others have run */
                chain->last_read[source[k]] = NO_READER;
            } else if (chain->last_read[source[k]] == 0) {
                chain->last_read[source[k]] = i;
            }
    }
}

/* Which members are seen, or seen through one that only passes them on, and are not in memory. */
static void find_windows(struct maker *m) {
    for (uint32_t i = 0; i < m->n_members; i++) {
        int32_t shown = -1 - (int32_t)i;
        if (!m->members[i].watched)
            continue;
        if (can_pass(m, i))
            shown = origin_of(m, shown);
        if (shown < 0 && !m->members[-1 - shown].stored)
            m->windowed[-1 - shown] = true;
    }
}

/* What all windows may take together, in elements: they stay in the second-level cache. */
enum { WINDOWS = 48 * 1024, LONGEST_WINDOW = 16 * 1024 };

static size_t window_for(uint32_t n_windows) {
    size_t each = n_windows ? WINDOWS / n_windows / TMK_CHAIN_TILE * TMK_CHAIN_TILE : WINDOWS;
    return each > LONGEST_WINDOW ? LONGEST_WINDOW : each > 0 ? each : TMK_CHAIN_TILE;
}

static struct tmk_chain_arg whole_arg(const struct maker *m, int32_t source) {
    struct tmk_chain_arg arg = {.kind = TMK_CHAIN_ARG_OPERAND};
    if (source >= 0) {
        arg.at = (uint32_t)source;
        arg.data = m->operands[source].constant;
        m->chain->whole[source] = !arg.data;
    } else {
        uint32_t member = (uint32_t)(-1 - source);
        arg.kind = m->members[member].stored ? TMK_CHAIN_ARG_RESULT
                   : m->windowed[member]     ? TMK_CHAIN_ARG_WINDOW
                                             : TMK_CHAIN_ARG_SLOT;
        arg.at = m->place[member];
    }
    return arg;
}

static enum tmk_status make_p(struct maker *m, uint32_t member, struct tmk_chain_step *step) {
    const struct tmk_chain_spec *spec = &m->spec[member];
    int32_t source[2];
    if (spec->p_from == TMK_CHAIN_P_CHANNELS)
        return make_batch_norm(m, member, step);
    if (spec->p_from == TMK_CHAIN_P_SCALARS) {
        TMK_TRY(make_lanes(m, &spec->scalar[0], false, &step->p));
        return make_lanes(m, &spec->scalar[1], false, &step->q);
    }
    if (spec->p_from == TMK_CHAIN_P_NONE)
        return TMK_OK;
    sources_of(m, member, source);
    if (!spec->spread.whole)
        return make_spread(m, m->operands[source[1]].constant, (uint32_t)source[1], &spec->spread,
                           &step->p);
    step->p = whole_arg(m, source[1]);
    return TMK_OK;
}

/* After its operands' last use a slot may take the result of that very member. */
static void release_slots(struct maker *m, uint32_t member) {
    int32_t source[2];
    uint32_t n = sources_of(m, member, source);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t by = (uint32_t)(-1 - source[k]);
        if (source[k] < 0 && !m->members[by].stored && !m->windowed[by] &&
            m->last_use[by] == member && !(k == 1 && source[0] == source[1]))
            m->free_slots[m->n_free++] = m->place[by];
    }
}

static enum tmk_status make_step(struct maker *m, uint32_t i, uint32_t *n_results) {
    struct tmk_chain *chain = m->chain;
    const struct tmk_chain_spec *spec = &m->spec[i];
    const struct tmk_chain_member *member = &m->members[i];
    const struct tmk_chain_loops *loops = tmk_chain_loops_at(0);
    int32_t source[2];
    struct tmk_chain_step *step = &chain->steps[chain->n_steps];
    if (member->stored) {
        chain->stored_by[*n_results] = i;
        m->place[i] = (*n_results)++;
    }
    if (!m->needed[i] || (can_pass(m, i) && !member->watched))
        return TMK_OK;
    chain->n_steps++;
    sources_of(m, i, source);
    *step = (struct tmk_chain_step){.param = spec->param,
                                    .x = whole_arg(m, source[0]),
                                    .passes = can_pass(m, i),
                                    .stored = member->stored,
                                    .windowed = m->windowed[i],
                                    .clean = member->stored || member->watched,
                                    .watched = member->watched,
                                    .which = m->n_operands + i,
                                    .member = i};
    if (spec->loop < TMK_CHAIN_LOOPS) {
        step->lanes = loops->lanes[spec->loop];
        step->vary = loops->vary[spec->loop];
    }
    step->math = tmk_chain_maths[spec->math];
    TMK_TRY(make_p(m, i, step));
    release_slots(m, i);
    if (m->windowed[i]) {
        m->place[i] = chain->n_windows++;
    } else if (!member->stored && !step->passes) {
        m->place[i] = m->n_free ? m->free_slots[--m->n_free] : chain->n_slots++;
        if (m->last_use[i] == NO_READER)
            m->free_slots[m->n_free++] = m->place[i];
    }
    step->to = m->place[i];
    for (uint32_t k = 0; k + 1 < chain->n_steps && step->passes && source[0] < 0; k++)
        if (chain->steps[k].member == (uint32_t)(-1 - source[0]))
            chain->steps[k].clean = true;
    return TMK_OK;
}

/* ---- the whole ---- */

static enum tmk_status read_members(struct maker *m) {
    for (uint32_t i = 0; i < m->n_members; i++) {
        const struct tmk_chain_member *member = &m->members[i];
        for (uint32_t k = 0; k < member->node->n_inputs; k++) {
            int32_t from = member->from[k];
            const struct tmk_chain_operand *operand =
                from >= 0 && from != TMK_CHAIN_ABSENT ? &m->operands[from] : NULL;
            m->in[k] = from == TMK_CHAIN_ABSENT ? NULL : &m->tensors[k];
            tmk_tensor_borrow(&m->tensors[k], TMK_FLOAT32, operand ? operand->shape : m->space,
                              operand ? (void *)(uintptr_t)operand->constant : NULL);
        }
        if (!tmk_chain_spec(member->node, m->in, m->space, m->block, &m->spec[i]))
            return tmk_fail(m->diag, TMK_ARGUMENT, "member %u is not for a chain", i);
    }
    return TMK_OK;
}

static enum tmk_status describe_steps(struct maker *m) {
    struct tmk_chain *chain = m->chain;
    chain->groups = chain->channels = chain->block = chain->channel_blocks = 1;
    if (!tmk_blocked_count(m->space, m->block, &chain->count))
        return tmk_fail(m->diag, TMK_RANGE, "the size of a chain overflows");
    if (m->block > 1) {
        chain->block = m->block;
        chain->channels = (size_t)m->space->dim[1];
        chain->channel_blocks = (chain->channels + m->block - 1) / m->block;
        chain->groups = (size_t)m->space->dim[0] * chain->channel_blocks;
    }
    size_t used = chain->channels % chain->block;
    memset(chain->lanes_used, 0xff, sizeof chain->lanes_used);
    for (size_t i = 0; i < TMK_CHAIN_LANES && used; i++)
        if (i % chain->block >= used)
            chain->lanes_used[i] = 0;
    chain->mask = tmk_chain_loops_at(0)->lanes[TMK_CHAIN_MASK];
    for (uint32_t i = 0; i < m->n_operands; i++) {
        chain->constants[i] = m->operands[i].constant;
        if (m->operands[i].watched)
            chain->watched[chain->n_watched++] = i;
    }
    return TMK_OK;
}

static enum tmk_status make_chain(struct maker *m) {
    uint32_t n_results = 0;
    TMK_TRY(describe_steps(m));
    TMK_TRY(read_members(m));
    find_uses(m);
    find_windows(m);
    for (uint32_t i = 0; i < m->n_members; i++)
        TMK_TRY(make_step(m, i, &n_results));
    m->chain->window = window_for(m->chain->n_windows);
    return TMK_OK;
}

static enum tmk_status allocate_chain(struct maker *m) {
    struct tmk_chain *chain = m->chain;
    size_t members = m->n_members, operands = m->n_operands, inputs = 0;
    for (uint32_t i = 0; i < m->n_members; i++)
        if (m->members[i].node->n_inputs > inputs)
            inputs = m->members[i].node->n_inputs;
    m->spec = tmk_arena_array(&m->arena, members, sizeof *m->spec);
    m->tensors = tmk_arena_array(&m->arena, inputs, sizeof *m->tensors);
    m->in = tmk_arena_array(&m->arena, inputs, sizeof *m->in);
    m->needed = tmk_arena_array(&m->arena, members, sizeof *m->needed);
    m->last_use = tmk_arena_array(&m->arena, members, sizeof *m->last_use);
    m->windowed = tmk_arena_array(&m->arena, members, sizeof *m->windowed);
    m->place = tmk_arena_array(&m->arena, members, sizeof *m->place);
    m->free_slots = tmk_arena_array(&m->arena, members, sizeof *m->free_slots);
    chain->steps = tmk_arena_array(&chain->arena, members, sizeof *chain->steps);
    chain->constants = tmk_arena_array(&chain->arena, operands, sizeof *chain->constants);
    chain->watched = tmk_arena_array(&chain->arena, operands, sizeof *chain->watched);
    chain->whole = tmk_arena_array(&chain->arena, operands, sizeof *chain->whole);
    chain->last_read = tmk_arena_array(&chain->arena, operands, sizeof *chain->last_read);
    chain->stored_by = tmk_arena_array(&chain->arena, members, sizeof *chain->stored_by);
    chain->tables = tmk_arena_array(&chain->arena, 4 * members, sizeof *chain->tables);
    return m->spec && m->tensors && m->in && m->needed && m->last_use && m->windowed && m->place &&
                   m->free_slots && chain->steps && chain->constants && chain->watched &&
                   chain->whole && chain->last_read && chain->stored_by && chain->tables
               ? TMK_OK
               : tmk_nomem(m->diag);
}

enum tmk_status tmk_chain_create(const struct tmk_shape *space, uint32_t block,
                                 const struct tmk_chain_operand *operands, uint32_t n_operands,
                                 const struct tmk_chain_member *members, uint32_t n_members,
                                 struct tmk_chain **out, struct tmk_diag *diag) {
    struct maker m = {.chain = calloc(1, sizeof *m.chain),
                      .space = space,
                      .block = block > 1 ? block : 0,
                      .operands = operands,
                      .n_operands = n_operands,
                      .members = members,
                      .n_members = n_members,
                      .diag = diag};
    TMK_TRY_ALLOC(m.chain, diag);
    m.chain->n_operands = n_operands;
    enum tmk_status status = allocate_chain(&m);
    TMK_THEN(status, make_chain(&m));
    tmk_arena_finish(&m.arena);
    if (status == TMK_OK)
        *out = m.chain;
    else
        tmk_chain_destroy(&m.chain);
    return status;
}

void tmk_chain_destroy(struct tmk_chain **chain) {
    struct tmk_chain *c = chain ? *chain : NULL;
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n_tables; i++)
        free(c->tables[i]);
    tmk_arena_finish(&c->arena);
    free(c);
    *chain = NULL;
}

bool tmk_chain_may_overwrite(const struct tmk_chain *chain, uint32_t result, uint32_t operand) {
    return chain->whole[operand] && chain->last_read[operand] <= chain->stored_by[result];
}
