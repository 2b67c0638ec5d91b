/* SPDX-License-Identifier: Apache-2.0 */
#include "session/running.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"
#include "exec/cache.h"
#include "exec/queue.h"
#include "feed/feed.h"
#include "kernel/accel.h"
#include "plan/plan.h"
#include "profile/format.h"
#include "session/statistics_bytes.h"
#include "stats/state.h"
#include "tensor/elements.h"

/* ACCOUNT: what leads to a value's statistics, of each worker. WORKER: its stack, its heap and what
 * it has of its own. CHAIN: at least, of a plan. RECORDED: a value in a profile. RUNNING: what
 * running touches of the program and its libraries, beyond planning; GENERATORS: oneDNN's of code
 * for products by its "gemm:jit", which run with the first one, and that code, for 8 lanes;
 * OF_VECTORS: those for products with vectors alone.
 * WRITING: what HDF5 takes to write a file, beyond being loaded. LOOKED_AT: batches of which the
 * largest is planned. */
enum {
    ACCOUNT = 640,
    WORKER = 1 << 18,
    CHAIN = 4096,
    RECORDED = 1792,
    READ_AHEAD_A_WORKER = 3,
    RUNNING = 3 << 18,
    LANES = 8,
    GENERATORS = 3 << 20,
    OF_VECTORS = 3 << 19,
    WRITING = 7 << 20,
    LOOKED_AT = 8
};

/* What a step holds of a weight in a mapped file: all, or nothing of a table that is given back. */
static uint64_t bytes_read(const struct tmk_plan *plan, const struct tmk_plan_step *step,
                           uint32_t input, const struct tmk_tensor *weight) {
    const bool lazy = tmk_tensor_is_lazy(weight),
               rests = plan->gives_tables_back && step->kind == TMK_STEP_NODE &&
                       tmk_op_takes_lazy(step->node->row, input) && tmk_elements_large(weight);
    return rests ? 0
                 : tmk_tensor_count(weight) * tmk_dtype_size(lazy ? weight->origin : weight->dtype);
}

/* What a run takes, and how it is to be divided. */
struct planning {
    struct tmk_memory_plan m;
    struct tmk_cuts *cuts; /* NULL: the graph runs as a whole */
    uint64_t limit;        /* of a run in blocks; 0: none */
    uint64_t *read;        /* by step: weights that it reads, packed or from the file */
    uint64_t held;         /* of m.packed: what is there all the time */
    /* Of the batches looked at: different shapes, each of which has a plan, which is kept; and the
     * bytes of one, in the mean. */
    uint32_t shapes;
    uint64_t mean;
    struct tmk_reach reach;
    uint64_t activations; /* of the largest batch, and its scratch */
    uint64_t dynamic;     /* of these, whose shapes depend on data */
    /* The inputs' bytes of all batches, descending, where all were looked at; else n_largest 0. */
    uint64_t largest[LOOKED_AT];
    uint32_t n_largest;
    /* Statistics of a worker when it ends; what those that they are added to grow by, while what
     * others have freed stays with these. */
    uint64_t finishing, growth;
    uint64_t written; /* what writing the profile takes; 0: no file of HDF5 */
    uint64_t plans;   /* of m.program: plans, which are gone by then, as accounts are */
    uint64_t accounts;
    uint64_t
        program; /* the least m.program so far: what a plan leaves on the heap is none; 0: none */
    /* Of m.packed: what is there all the time, and, of a graph in blocks, its block at a moment. */
    uint64_t packed, block[TMK_MEMORY_MERGING + 1];
};

/* Weights that steps read themselves, as they lie in the file or widened: pages of those that are
 * packed leave memory again; copies of others the process holds by now. */
static enum tmk_status add_weights(const struct tmk_plan *plan, struct planning *p,
                                   struct tmk_diag *diag) {
    bool *seen = calloc(plan->n_values + 1u, sizeof *seen);
    TMK_TRY_ALLOC(seen, diag);
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_in; i++) {
            const uint32_t at = plan->refs[step->first_in + i];
            if (at == TMK_NO_VALUE || seen[at] || !plan->values[at].initializer ||
                (step->accel && tmk_accel_has_packed(step->accel, i)))
                continue;
            const struct tmk_tensor *weight = &plan->values[at].constant;
            seen[at] = true;
            const uint64_t bytes =
                tmk_elements_mapped(weight) ? bytes_read(plan, step, i, weight) : 0;
            p->m.model += bytes;
            p->read[s] += bytes;
            p->held += tmk_tensor_is_opened(weight) ? tmk_tensor_bytes(weight) : 0;
        }
        const uint64_t packed =
            step->accel ? tmk_accel_bytes(step->accel) - tmk_accel_code(step->accel) : 0;
        p->packed += packed;
        p->read[s] += packed;
    }
    free(seen);
    return TMK_OK;
}

/* Until every worker has a sequence of its own, the loader reads on. */
static void add_sequences(const struct tmk_feed *source, struct tmk_memory_plan *m) {
    uint64_t steps = tmk_feed_steps(source), most = TMK_QUEUE_AHEAD_BYTES / m->threads;
    if (m->threads == 1 || steps <= READ_AHEAD_A_WORKER)
        return;
    uint64_t step = m->read_ahead / READ_AHEAD_A_WORKER, bytes;
    if (__builtin_mul_overflow(step, steps, &bytes) || bytes > most)
        bytes = most;
    if (bytes > m->read_ahead)
        m->read_ahead = bytes;
}

/* Activations of the workers together, if each gets one of the largest batches. */
static uint64_t activations_of(const struct planning *p) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->m.threads; i++)
        sum += p->n_largest ? p->largest[i < p->n_largest ? i : p->n_largest - 1] : 1;
    return p->n_largest && p->largest[0] ? p->activations / p->largest[0] * sum
                                         : p->activations * p->m.threads;
}

static void add_up(struct planning *p) {
    struct tmk_memory_plan *m = &p->m;
    m->worker = WORKER + activations_of(p) / m->threads;
    m->statistics = p->finishing + (m->threads > 1 ? p->growth / m->threads : 0);
    const uint64_t gone = m->threads * m->worker + p->packed + p->plans + p->accounts,
                   *block = p->block;
    m->writing = p->written > gone ? p->written - gone : 0;
    const uint64_t moments[] = {
        [TMK_MEMORY_RUNNING] =
            block[TMK_MEMORY_RUNNING] + m->threads * (m->counting + m->read_ahead),
        [TMK_MEMORY_FINISHING] = block[TMK_MEMORY_FINISHING] + m->threads * m->statistics,
        [TMK_MEMORY_MERGING] = m->summed + m->constants + m->derived + m->writing};
    m->moment = TMK_MEMORY_RUNNING;
    for (int i = TMK_MEMORY_FINISHING; i <= TMK_MEMORY_MERGING; i++)
        if (moments[i] > moments[m->moment])
            m->moment = (enum tmk_memory_moment)i;
    m->packed = p->packed + block[m->moment];
    m->total = m->program + m->model + p->packed + m->whole + m->per_sample + m->kept +
               m->threads * m->worker + moments[m->moment];
}

/* End `packs` after the plan; both may be NULL on failure. */
static enum tmk_status plan_batch(const struct tmk_memory_request *r,
                                  const struct tmk_slot_config *slots,
                                  const struct tmk_tensor *inputs, struct tmk_packs **packs,
                                  struct tmk_plan **out, struct tmk_diag *diag) {
    uint8_t *needs = calloc(r->n_slots + 1u, sizeof *needs);
    TMK_TRY_ALLOC(needs, diag);
    for (uint32_t i = 0; i < r->n_slots; i++)
        needs[i] = tmk_slot_need(&slots[i]);
    enum tmk_status status = tmk_packs_create_empty(packs, diag);
    const struct tmk_plan_options options = {.needs = r->n_slots ? needs : NULL, .packs = *packs};
    if (status == TMK_OK && !tmk_kernel_enter_thread())
        status = tmk_nomem(diag);
    TMK_THEN(status, tmk_plan_create(r->graph, inputs, &options, out, diag));
    free(needs);
    return status;
}

static uint64_t floats_among(const struct tmk_plan *plan, const struct tmk_plan_tap *taps,
                             uint32_t n) {
    uint64_t floats = 0;
    for (uint32_t i = 0; i < n; i++)
        floats += plan->values[taps[i].value].dtype == TMK_FLOAT32;
    return floats;
}

/* As workers keep them, and as profiles do: those have space for every sample from their first to
 * their last. A stratum is made a profile and added to the whole, one at a time; checkpoints hold
 * all of them. */
static uint64_t per_sample_bytes(const struct tmk_memory_request *r, const struct tmk_plan *plan,
                                 const struct tmk_feed *feed) {
    const struct tmk_run_options *options = r->options;
    const uint64_t strata = tmk_feed_strata(feed),
                   parts = options->shard.count ? options->shard.count : 1;
    const uint64_t span = tmk_feed_begin(feed, UINT64_MAX) - options->data.skip;
    const uint64_t profiles = strata == 1 ? 1 : options->checkpoint.path ? strata + 1 : 2;
    const uint64_t values = floats_among(plan, plan->taps, plan->n_taps) +
                            floats_among(plan, plan->input_taps, plan->n_input_taps);
    if (!options->statistics.per_sample)
        return 0;
    return values *
           (tmk_feed_plan(feed).run * (sizeof(uint64_t) + sizeof(struct tmk_minmax)) +
            span * profiles * 2 * sizeof(float)) /
           parts;
}

static uint64_t bytes_of_block(const struct tmk_blocks *blocks, uint32_t block,
                               const uint64_t *bytes) {
    uint32_t first, end;
    uint64_t sum = 0;
    tmk_blocks_steps(blocks, block, &first, &end);
    for (uint32_t s = first; s < end; s++)
        sum += bytes[s];
    return sum;
}

/* Statistics of a value are there from the block on that makes it: the block that needs most while
 * batches run, by its weights and by what all up to it have. `runs` of a tensor in a worker. */
static void find_fullest_block(const struct tmk_planned_taps *o, const struct tmk_blocks *blocks,
                               uint64_t runs, uint64_t strata, struct planning *p) {
    const struct tmk_plan *plan = o->plan;
    struct tmk_memory_plan *m = &p->m;
    const uint64_t other =
        m->counting - strata * tmk_statistics_bytes_of(o, plan->taps, plan->n_taps, runs).counting;
    uint64_t most = 0;
    for (uint32_t b = 0; b < p->cuts->n; b++) {
        uint32_t first, end;
        tmk_blocks_steps(blocks, b, &first, &end);
        const uint32_t taps =
            end ? plan->steps[end - 1].first_tap + plan->steps[end - 1].n_taps : 0;
        const uint64_t weights = bytes_of_block(blocks, b, p->read),
                       counting =
                           other +
                           strata * tmk_statistics_bytes_of(o, plan->taps, taps, runs).counting;
        if (weights + m->threads * counting >= most) {
            most = weights + m->threads * counting;
            p->block[TMK_MEMORY_RUNNING] = weights;
            m->counting = counting;
        }
    }
    p->block[TMK_MEMORY_FINISHING] = bytes_of_block(blocks, p->cuts->n - 1, p->read);
}

/* Three quarters of what is left of the limit are for weights, the rest for what is kept between
 * blocks; fewer workers where that is too little. Without a limit, eight blocks or so. */
static enum tmk_status divide_graph(const struct tmk_planned_taps *o, uint64_t calls, uint64_t runs,
                                    uint64_t strata, uint64_t inputs, struct planning *p,
                                    struct tmk_diag *diag) {
    const struct tmk_plan *plan = o->plan;
    enum { BLOCKS = 8, KEPT = 1 << 30 };
    struct tmk_memory_plan *m = &p->m;
    const uint64_t all = m->model + p->packed - p->held;
    struct tmk_blocks *blocks = NULL;
    uint64_t left, largest = 0, each = 0;
    m->model = 0;
    p->packed = p->held;
    do {
        m->threads -= m->blocks > 0 && m->threads > 1; /* of the round before */
        m->kept = 0;
        add_up(p);
        left = !p->limit ? UINT64_MAX : p->limit > m->total ? p->limit - m->total : 0;
        tmk_cuts_finish(p->cuts);
        tmk_blocks_destroy(&blocks);
        TMK_TRY(tmk_cuts_choose(plan, p->read, p->limit ? left - left / 4 : all / BLOCKS, p->cuts,
                                &largest, diag));
        TMK_TRY(tmk_blocks_create(plan, p->cuts, &blocks, diag));
        each = tmk_blocks_kept(blocks) + inputs;
        m->blocks = p->cuts->n;
    } while (m->threads > 1 && (left < largest || left - largest < each));
    const uint64_t kept = !p->limit        ? KEPT
                          : left > largest ? left - largest
                                           : 0,
                   most = each ? kept / each : calls;
    m->together = most > calls ? calls : most ? most : 1;
    m->kept = m->together * each;
    find_fullest_block(o, blocks, runs, strata, p);
    tmk_blocks_destroy(&blocks);
    return TMK_OK;
}

/* One of the operands is a vector: oneDNN's gemm:jit then needs few of its generators. */
static bool multiplies_vector(const struct tmk_plan *plan, const struct tmk_plan_step *step) {
    const struct tmk_shape *made = &plan->values[plan->refs[step->first_out]].shape;
    size_t count;
    if (tmk_node_traits(step->node)->product != TMK_PRODUCT_MATRIX || made->rank == 0 ||
        !tmk_shape_count(made, &count))
        return false;
    const int64_t columns = made->dim[made->rank - 1];
    return columns == 1 || (uint64_t)columns == count;
}

/* What running touches of the program and its libraries. */
static uint64_t running_bytes(const struct tmk_plan *plan) {
    uint64_t most = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        if (!step->accel || !strstr(tmk_accel_name(step->accel), "gemm:jit"))
            continue;
        if (!multiplies_vector(plan, step))
            return RUNNING + (uint64_t)GENERATORS * tmk_kernel_block() / LANES;
        most = OF_VECTORS;
    }
    return RUNNING + most;
}

/* How many a run has at once. Each step of decoding has a shape of its own. */
static uint64_t plans_of(const struct tmk_memory_request *r, const struct planning *p,
                         uint64_t calls) {
    const uint64_t steps = r->options->data.generate.steps, most = TMK_IDLE_PLANS + p->m.threads;
    /* as many shapes as batches were looked at: others follow */
    const uint64_t shapes = p->shapes == LOOKED_AT ? calls : p->shapes, all = shapes * (steps + 1);
    return all && all < most ? all : most;
}

/* Of a plan beside the largest: itself, its chains, and its primitives; some of their code is
 * shared. */
static uint64_t plan_bytes(const struct tmk_plan *plan) {
    uint64_t code = 0, chains = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        code += plan->steps[s].accel ? tmk_accel_code(plan->steps[s].accel) : 0;
        chains += plan->steps[s].chain != NULL;
    }
    return code / 2 + chains * CHAIN + plan->n_values * sizeof *plan->values +
           plan->n_steps * sizeof *plan->steps;
}

static uint64_t input_bytes(const struct tmk_batch *batch) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        bytes += tmk_tensor_bytes(&batch->inputs[i]);
    return bytes;
}

/* What is in memory of the largest weight in a file while it is looked at, a block at a time. */
static uint64_t largest_look(const struct tmk_plan *plan) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->n_constant_taps; i++) {
        const struct tmk_tensor *constant = &plan->values[plan->constant_taps[i].value].constant;
        const uint64_t count = tmk_elements_mapped(constant) ? tmk_tensor_count(constant) : 0;
        most = count > most ? count : most;
    }
    return sizeof(float) * (most < TMK_ELEMENTS_BLOCK ? most : TMK_ELEMENTS_BLOCK);
}

/* Pages of weights that planning read, or that the system brought in with them, are none of the
 * program. */
static uint64_t resident_without_weights(const struct tmk_plan *plan) {
    for (uint32_t i = 0; i < plan->n_values; i++)
        if (plan->values[i].initializer)
            tmk_elements_rest(&plan->values[i].constant, 0,
                              tmk_tensor_count(&plan->values[i].constant));
    return tmk_memory_resident();
}

static enum tmk_status measure_plan(const struct tmk_memory_request *r, const struct tmk_feed *feed,
                                    const struct tmk_batch *batch, const struct tmk_planned_taps *o,
                                    struct planning *p, struct tmk_diag *diag) {
    const struct tmk_plan *plan = o->plan;
    struct tmk_memory_plan *m = &p->m;
    const uint64_t calls = tmk_feed_batches(feed);
    const uint64_t inputs = input_bytes(batch), resident = resident_without_weights(plan);
    TMK_TRY(add_weights(plan, p, diag));
    for (uint32_t i = 0; i < plan->n_values; i++)
        if (plan->values[i].place == TMK_PLACE_CONSTANT && !plan->values[i].initializer &&
            plan->values[i].constant.data)
            p->held += tmk_tensor_bytes(&plan->values[i].constant);
    /* the plan and the opened data are part of it */
    p->plans = plans_of(r, p, calls) * plan_bytes(plan);
    m->program = running_bytes(plan) + p->plans - plan_bytes(plan) +
                 (resident > p->held + inputs ? resident - p->held - inputs : 0);
    p->packed += p->held;
    if (p->program && m->program > p->program)
        m->program = p->program;
    p->program = m->program;
    p->activations = plan->arena_bytes + plan->scratch_bytes + p->dynamic;
    const uint64_t own = (calls + m->threads - 1) / m->threads; /* of a worker */
    const uint64_t ahead = tmk_feed_steps(feed) == 1 && own < READ_AHEAD_A_WORKER
                               ? own - (own > 0)
                               : READ_AHEAD_A_WORKER - 1;
    m->read_ahead = inputs + ahead * p->mean;
    const uint64_t steps = 1 + (uint64_t)r->options->data.generate.steps,
                   runs = own * steps; /* at most so large */
    const struct tmk_statistics_bytes
        one = tmk_statistics_bytes_of(o, plan->taps, plan->n_taps, runs),
        one_in = tmk_statistics_bytes_of(o, plan->input_taps, plan->n_input_taps, own),
        all = tmk_statistics_bytes_of(o, plan->taps, plan->n_taps, calls * steps),
        all_in = tmk_statistics_bytes_of(o, plan->input_taps, plan->n_input_taps, calls),
        constants = tmk_statistics_bytes_of(o, plan->constant_taps, plan->n_constant_taps, 1);
    const uint64_t strata = tmk_feed_strata(feed), accounts = (uint64_t)ACCOUNT * r->n_slots;
    p->accounts = strata * accounts;
    m->counting = strata * (accounts + one.counting + one_in.counting);
    p->finishing = strata * (accounts + one.finishing + one_in.finishing);
    const uint64_t ends = one.finishing + one_in.finishing, sums = all.done + all_in.done;
    p->growth = sums > ends ? strata * (sums - ends) : 0;
    m->summed = strata * (accounts + (uint64_t)RECORDED * r->n_slots + all.done + all_in.done);
    m->constants = strata * constants.done + largest_look(plan);
    m->derived = strata * all.derived;
    m->whole = strata > 1 ? (m->summed + m->constants + m->derived) / strata : 0;
    /* a file is made in memory, with an eighth of what it holds */
    p->written =
        tmk_profile_hdf5_is_loaded() ? WRITING + (m->summed + m->constants + m->derived) / 8 : 0;
    m->per_sample = per_sample_bytes(r, plan, feed);
    return p->cuts ? divide_graph(o, calls, runs, strata, inputs, p, diag) : TMK_OK;
}

static enum tmk_status measure_batch(const struct tmk_memory_request *r,
                                     const struct tmk_feed *feed, const struct tmk_batch *batch,
                                     struct planning *p, struct tmk_diag *diag) {
    const struct tmk_slot_config *slots = p->cuts ? r->unruled : r->slots;
    struct tmk_packs *packs = NULL;
    struct tmk_plan *plan = NULL;
    float *reach = NULL;
    enum tmk_status status = tmk_in(diag, plan_batch(r, slots, batch->inputs, &packs, &plan, diag),
                                    "%s: sample %llu", r->path, (unsigned long long)batch->sample);
    TMK_THEN(status, tmk_find_dynamic_types(plan, batch, &p->dynamic, diag));
    TMK_THEN(status, tmk_reach_of(&p->reach, r->graph, batch, tmk_feed_batches(feed),
                                  plan->n_values, &reach, diag));
    if (status == TMK_OK) {
        p->read = calloc(plan->n_steps + 1u, sizeof *p->read);
        const struct tmk_planned_taps o = {plan, slots, reach};
        status = p->read ? measure_plan(r, feed, batch, &o, p, diag) : tmk_nomem(diag);
        free(p->read);
    }
    free(reach);
    tmk_plan_destroy(&plan);
    tmk_packs_destroy(&packs);
    return status;
}

static uint64_t hash_shapes(const struct tmk_batch *batch) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < batch->n_inputs; i++) {
        const struct tmk_shape *shape = &batch->inputs[i].shape;
        hash = tmk_hash64(shape->dim, (size_t)shape->rank * sizeof *shape->dim, hash + 1);
    }
    return hash;
}

/* Counts the shapes of a batch, unless they are among the first p->shapes of `seen`. */
static void count_shapes(const struct tmk_batch *batch, uint64_t seen[LOOKED_AT],
                         struct planning *p) {
    const uint64_t hash = hash_shapes(batch);
    for (uint32_t i = 0; i < p->shapes; i++)
        if (seen[i] == hash)
            return;
    seen[p->shapes++] = hash;
}

/* Among `n` sizes. */
static void note_size(uint64_t bytes, uint32_t n, struct planning *p) {
    uint32_t at = n;
    for (; at > 0 && p->largest[at - 1] < bytes; at--)
        p->largest[at] = p->largest[at - 1];
    p->largest[at] = bytes;
}

/* The largest of the first batches that continue no sequence: samples may differ in shape. */
static enum tmk_status look_at_batches(struct tmk_feed *source, struct tmk_batch *out,
                                       struct planning *p, struct tmk_diag *diag) {
    uint64_t seen[LOOKED_AT] = {0}, bytes = 0;
    const struct tmk_batch_source feed = tmk_feed_batch_source(source);
    enum tmk_status status = TMK_OK;
    uint32_t n = 0;
    bool more = true, sequences = false;
    p->shapes = 0;
    while (status == TMK_OK && more && n < LOOKED_AT) {
        struct tmk_batch batch = {0};
        status = feed.next(feed.context, &batch, &more, diag);
        if (batch.samples) {
            note_size(input_bytes(&batch), n++, p);
            sequences |= batch.continues_sequence;
            bytes += input_bytes(&batch);
            count_shapes(&batch, seen, p);
            TMK_THEN(status, tmk_reach_note(&p->reach, &batch, diag));
        }
        if (batch.samples && (!out->samples || (!batch.continues_sequence &&
                                                input_bytes(&batch) > input_bytes(out)))) {
            const struct tmk_batch smaller = *out;
            *out = batch;
            batch = smaller;
        }
        tmk_batch_finish(&batch);
    }
    p->mean = n ? bytes / n : 0;
    p->n_largest = more || sequences ? 0 : n;
    if (status == TMK_OK && !out->samples)
        status = tmk_fail(diag, TMK_ARGUMENT, "there is no data to plan for");
    return status;
}

static enum tmk_status plan_once(const struct tmk_memory_request *r,
                                 const struct tmk_run_options *options, struct planning *p,
                                 struct tmk_diag *diag) {
    struct tmk_feed *source = NULL;
    struct tmk_batch batch = {0};
    struct tmk_memory_plan *m = &p->m;
    p->held = p->packed = 0;
    memset(p->block, 0, sizeof p->block);
    *m = (struct tmk_memory_plan){0};
    TMK_TRY(tmk_feed_open_batched(r->graph, &options->data, r->threads, &options->notices, &source,
                                  m->batch_why, diag));
    const uint64_t calls = tmk_feed_batches(source);
    m->threads = tmk_feed_workers(source, r->threads);
    if (calls && calls < m->threads) /* the others have nothing to do */
        m->threads = (uint32_t)calls;
    m->batch = tmk_feed_plan(source).batch;
    enum tmk_status status = look_at_batches(source, &batch, p, diag);
    TMK_THEN(status, measure_batch(r, source, &batch, p, diag));
    add_sequences(source, m);
    tmk_batch_finish(&batch);
    tmk_reach_finish(&p->reach);
    tmk_feed_close(&source);
    add_up(p);
    return status;
}

bool tmk_data_is_stream(const char *source) {
    const char *eq = strrchr(source, '=');
    return strcmp(eq ? eq + 1 : source, "-") == 0;
}

enum tmk_status tmk_data_can_repeat(const struct tmk_data_options *data, struct tmk_diag *diag) {
    for (size_t i = 0; i < data->n_sources; i++)
        if (tmk_data_is_stream(data->sources[i]))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "the data is read more than once, which a stream cannot be; give "
                            "files");
    return TMK_OK;
}

/* Fewer workers, then smaller batches, until it fits. */
static enum tmk_status fit(const struct tmk_memory_request *request, struct planning *p,
                           struct tmk_diag *diag) {
    struct tmk_run_options options = *request->options;
    const uint64_t limit = options.limits.memory;
    struct tmk_memory_plan *m = &p->m;
    p->limit = limit;
    TMK_TRY(plan_once(request, &options, p, diag));
    for (;;) {
        while (!p->cuts && limit && m->total > limit && m->threads > 1) {
            m->threads--;
            add_up(p);
        }
        uint64_t batch = m->batch;
        if (!limit || m->total <= limit)
            return TMK_OK;
        options.data.batch = (uint32_t)(batch / 2);
        if (batch > 1)
            TMK_TRY(plan_once(request, &options, p, diag));
        snprintf(m->batch_why, sizeof m->batch_why, "more would not keep the limit");
        if (batch <= 1 || m->batch >= batch)
            return tmk_fail(diag, TMK_LIMIT,
                            "%s: one worker is expected to need %llu MiB%s, more than the limit of "
                            "%llu",
                            request->path, (unsigned long long)(m->total >> 20),
                            p->cuts ? " layer by layer" : "", (unsigned long long)(limit >> 20));
    }
}

enum tmk_status tmk_memory_planned(const struct tmk_memory_request *request,
                                   struct tmk_memory_plan *out, struct tmk_cuts *cuts,
                                   struct tmk_diag *diag) {
    const struct tmk_run_options *options = request->options;
    struct tmk_cuts own = {0};
    struct planning p = {.cuts = options->limits.stream_layers ? &own : NULL};
    for (size_t i = 0; i < options->data.n_sources; i++)
        if (tmk_data_is_stream(options->data.sources[i]))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "memory can't be planned for data that comes as a stream");
    enum tmk_status status = fit(request, &p, diag);
    const bool over = status == TMK_LIMIT && p.m.total > p.limit; /* else the data alone are */
    if (over && !p.cuts && request->unruled) {
        p.cuts = &own;
        *diag = (struct tmk_diag){0};
        status = fit(request, &p, diag);
    }
    if (status == TMK_OK)
        *out = p.m;
    if (status == TMK_OK && cuts) {
        *cuts = own;
        own = (struct tmk_cuts){0};
    }
    tmk_cuts_finish(&own);
    return status;
}
