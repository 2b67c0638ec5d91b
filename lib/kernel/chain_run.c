/* SPDX-License-Identifier: Apache-2.0 */
/* Running a chain: the tiles, and in each of them the steps. */
#include <string.h>

#include "base/diag.h"
#include "kernel/chain_internal.h"

enum { SEGMENT = 64 }; /* from this length on, a run is worth a call of its own */

struct run {
    const struct tmk_chain *chain;
    const float *const *operands;
    float *const *results;
    float *slots, *windows, *spread[2], *live;
    size_t window; /* where the one at hand begins */
    const struct tmk_chain_watcher *watcher;
    struct tmk_diag *diag;
    size_t block; /* of channels, of the group that runs */
};

size_t tmk_chain_scratch(const struct tmk_chain *chain) {
    return ((size_t)chain->n_slots + (chain->spreads ? 2 : 0)) * TMK_CHAIN_TILE * sizeof(float) +
           (size_t)chain->n_windows * chain->window * sizeof(float) +
           (size_t)chain->n_live * TMK_CHAIN_LANES * sizeof(float);
}

static const float *operand_at(const struct run *run, uint32_t i) {
    return run->chain->constants[i] ? run->chain->constants[i] : run->operands[i];
}

static const float *arg_elements(const struct run *run, const struct tmk_chain_arg *arg) {
    return arg->data ? arg->data : run->operands[arg->at];
}

static float *in_window(const struct run *run, uint32_t at, size_t first) {
    return run->windows + (size_t)at * run->chain->window + (first - run->window);
}

/* The tile of an argument of the whole space; NULL: it is none. */
static const float *tile_of(const struct run *run, const struct tmk_chain_arg *arg, size_t first) {
    switch (arg->kind) {
    case TMK_CHAIN_ARG_SLOT:
        return run->slots + (size_t)arg->at * TMK_CHAIN_TILE;
    case TMK_CHAIN_ARG_WINDOW:
        return in_window(run, arg->at, first);
    case TMK_CHAIN_ARG_RESULT:
        return run->results[arg->at] + first;
    case TMK_CHAIN_ARG_OPERAND:
        return arg_elements(run, arg) + first;
    default:
        return NULL;
    }
}

static const float *lanes_of(const struct run *run, const struct tmk_chain_arg *arg) {
    if (arg->kind == TMK_CHAIN_ARG_LIVE)
        return run->live + (size_t)arg->live * TMK_CHAIN_LANES;
    return arg->data ? arg->data + arg->stride * run->block : NULL;
}

/* ---- operands that are broadcast over row-major tiles ---- */

static const float *spread_out(const float *data, const struct tmk_chain_arg *arg, size_t first,
                               size_t n, float *to) {
    size_t run = arg->spread.run, period = arg->spread.period, k = first / run % period,
           left = run - first % run;
    if (run == 1 && (arg->padded || k + n <= period))
        return data + k;
    for (size_t i = 0, length; i < n; i += length) {
        if (run == 1) {
            length = n - i < period - k ? n - i : period - k;
            memcpy(to + i, data + k, length * sizeof *to);
            k = 0;
            continue;
        }
        length = n - i < left ? n - i : left;
        for (size_t j = 0; j < length; j++)
            to[i + j] = data[k];
        k = k + 1 == period ? 0 : k + 1;
        left = run;
    }
    return to;
}

static void fill_lanes(float *lanes, float value) {
    for (size_t i = 0; i < TMK_CHAIN_LANES; i++)
        lanes[i] = value;
}

static void run_periodic(const struct run *run, const struct tmk_chain_step *step, size_t first,
                         size_t n, const float *x, float *y) {
    const struct tmk_chain_spread *spread = &step->p.spread; /* q's is the same */
    const float *p = arg_elements(run, &step->p),
                *q = step->q.kind == TMK_CHAIN_ARG_PERIODIC ? step->q.data : NULL;
    size_t left = spread->run - first % spread->run;
    if (left < n && spread->run < SEGMENT) {
        p = spread_out(p, &step->p, first, n, run->spread[0]);
        q = q ? spread_out(q, &step->q, first, n, run->spread[1]) : NULL;
        step->vary(n, x, p, q, y);
        return;
    }
    float lanes_p[TMK_CHAIN_LANES], lanes_q[TMK_CHAIN_LANES] = {0};
    for (size_t k = first / spread->run % spread->period; n > 0; left = spread->run) {
        size_t length = left < n ? left : n;
        fill_lanes(lanes_p, p[k]);
        if (q)
            fill_lanes(lanes_q, q[k]);
        step->lanes(length, x, lanes_p, lanes_q, y);
        k = k + 1 == spread->period ? 0 : k + 1;
        x += length;
        y += length;
        n -= length;
    }
}

/* ---- a tile ---- */

static void run_step(const struct run *run, const struct tmk_chain_step *step, size_t first,
                     size_t n, const float *x, float *y) {
    const float *p = tile_of(run, &step->p, first);
    if (p)
        step->vary(n, x, p, NULL, y);
    else if (step->p.kind == TMK_CHAIN_ARG_PERIODIC)
        run_periodic(run, step, first, n, x, y);
    else if (step->lanes)
        step->lanes(n, x, lanes_of(run, &step->p), lanes_of(run, &step->q), y);
    if (step->math)
        step->math(n, step->lanes ? y : x, step->param, y);
    else if (!step->lanes && x != y)
        memcpy(y, x, n * sizeof *y);
}

static float *result_of(const struct run *run, const struct tmk_chain_step *step, size_t first) {
    return step->stored     ? run->results[step->to] + first
           : step->windowed ? in_window(run, step->to, first)
                            : run->slots + (size_t)step->to * TMK_CHAIN_TILE;
}

static void run_tile(const struct run *run, size_t first, size_t n, bool filled) {
    const struct tmk_chain *chain = run->chain;
    for (uint32_t i = 0; i < chain->n_steps; i++) {
        const struct tmk_chain_step *step = &chain->steps[i];
        if (step->passes)
            continue;
        float *y = result_of(run, step, first);
        run_step(run, step, first, n, tile_of(run, &step->x, first), y);
        if (filled && step->clean)
            chain->mask(n, y, chain->lanes_used, NULL, y);
    }
}

/* ---- observing: a window at a time, since the tables of an observer have to stay in the
 * first-level cache for longer than a tile ---- */

static enum tmk_status pass_to_watcher(const struct run *run, uint32_t which, const float *x,
                                       size_t n) {
    return run->watcher->see(run->watcher->context, which, x, run->window, n, run->diag);
}

/* Before a result can overwrite them. */
static enum tmk_status see_operands(const struct run *run, size_t n) {
    const struct tmk_chain *chain = run->chain;
    for (uint32_t i = 0; run->watcher && i < chain->n_watched; i++)
        TMK_TRY(pass_to_watcher(run, chain->watched[i],
                                operand_at(run, chain->watched[i]) + run->window, n));
    return TMK_OK;
}

static enum tmk_status see_members(const struct run *run, size_t n) {
    const struct tmk_chain *chain = run->chain;
    for (uint32_t i = 0; run->watcher && i < chain->n_steps; i++) {
        const struct tmk_chain_step *step = &chain->steps[i];
        if (step->watched)
            TMK_TRY(pass_to_watcher(run, step->which,
                                    step->passes ? tile_of(run, &step->x, run->window)
                                                 : result_of(run, step, run->window),
                                    n));
    }
    return TMK_OK;
}

/* Patterns of operands that are known only now, for one index of dim 0 and one channel block. */
static void make_live(const struct run *run, const struct tmk_chain_arg *arg, size_t sample) {
    if (arg->kind != TMK_CHAIN_ARG_LIVE)
        return;
    const struct tmk_chain *chain = run->chain;
    const float *from = arg_elements(run, arg) + sample * arg->spread.per_sample;
    float *to = run->live + (size_t)arg->live * TMK_CHAIN_LANES;
    for (size_t i = 0; i < TMK_CHAIN_LANES; i++) {
        size_t c = run->block * chain->block + i % chain->block;
        to[i] = c < chain->channels ? from[c * arg->spread.per_channel] : 0;
    }
}

static void run_window(struct run *run, size_t n) {
    const struct tmk_chain *chain = run->chain;
    size_t length = chain->count / chain->groups, first = run->window, end = first + n;
    for (size_t group = first / length; first < end; group++) {
        size_t group_end = (group + 1) * length < end ? (group + 1) * length : end;
        run->block = group % chain->channel_blocks;
        bool filled =
            run->block + 1 == chain->channel_blocks && chain->channels % chain->block != 0;
        for (uint32_t i = 0; i < chain->n_steps && chain->n_live; i++)
            make_live(run, &chain->steps[i].p, group / chain->channel_blocks);
        for (size_t tile; first < group_end; first += tile) {
            tile = group_end - first < TMK_CHAIN_TILE ? group_end - first : TMK_CHAIN_TILE;
            run_tile(run, first, tile, filled);
        }
    }
}

size_t tmk_chain_count(const struct tmk_chain *chain) {
    return chain->count;
}

size_t tmk_chain_samples(const struct tmk_chain *chain) {
    return chain->groups / chain->channel_blocks;
}

enum tmk_status tmk_chain_run_part(const struct tmk_chain *chain, size_t first, size_t count,
                                   const float *const *operands, float *const *results,
                                   void *scratch, const struct tmk_chain_watcher *watcher,
                                   struct tmk_diag *diag) {
    struct run run = {.chain = chain,
                      .window = first,
                      .operands = operands,
                      .results = results,
                      .slots = scratch,
                      .watcher = watcher,
                      .diag = diag};
    float *after = scratch;
    if (scratch)
        after += (size_t)chain->n_slots * TMK_CHAIN_TILE;
    if (chain->spreads) {
        run.spread[0] = after;
        run.spread[1] = after + TMK_CHAIN_TILE;
        after += (size_t)2 * TMK_CHAIN_TILE;
    }
    if (scratch) {
        run.windows = after;
        after += (size_t)chain->n_windows * chain->window;
    }
    run.live = after;
    for (; run.window < first + count; run.window += chain->window) {
        size_t left = first + count - run.window, n = left < chain->window ? left : chain->window;
        TMK_TRY(see_operands(&run, n));
        run_window(&run, n);
        TMK_TRY(see_members(&run, n));
    }
    return TMK_OK;
}

enum tmk_status tmk_chain_run(const struct tmk_chain *chain, const float *const *operands,
                              float *const *results, void *scratch,
                              const struct tmk_chain_watcher *watcher, struct tmk_diag *diag) {
    return tmk_chain_run_part(chain, 0, chain->count, operands, results, scratch, watcher, diag);
}
