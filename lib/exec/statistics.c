/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/sink.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "exec/derive.h"
#include "exec/run.h"
#include "stats/state.h"
#include "tensor/elements.h"

/* One worker's. */
struct counter {
    struct tmk_statistics *all;
    uint32_t worker;
    struct tmk_counted counted;   /* tallies: of batches that were begun */
    struct tmk_account *accounts; /* of the current group */
    struct tmk_stats_at at;       /* of the current batch */
    struct tmk_watch watch;
    const struct tmk_plan *plan; /* of the current step */
    struct tmk_padding padding;  /* of it; of no length where nothing is padding */
    bool *padded;                /* what it points to, */
    size_t padded_size;          /* and for how many there is space */
};

struct tmk_statistics {
    struct tmk_statistics_config config;
    pthread_mutex_t printing;
    struct counter *counters;
    uint32_t n;
};

/* ---- a batch ---- */

static enum tmk_status reserve_padded(struct counter *counter, size_t n, struct tmk_diag *diag) {
    if (n <= counter->padded_size)
        return TMK_OK;
    bool *padded = realloc(counter->padded, n * sizeof *padded);
    TMK_TRY_ALLOC(padded, diag);
    counter->padded = padded;
    counter->padded_size = n;
    return TMK_OK;
}

/* What the mask says of the step that begins. */
static enum tmk_status enter_padded_plan(void *context, const struct tmk_plan *plan,
                                         const struct tmk_tensor *inputs, struct tmk_diag *diag) {
    struct counter *counter = context;
    const struct tmk_tensor *mask = &inputs[counter->all->config.seeds.mask];
    const size_t n = tmk_tensor_count(mask);
    bool any = false;
    counter->plan = plan;
    counter->padding = (struct tmk_padding){0};
    if (mask->shape.rank != 2 || !tmk_number_takes(mask->dtype))
        return tmk_fail(diag, TMK_SHAPE,
                        "the mask '%s' is not [batch, length] of numbers; padding cannot be told",
                        plan->graph->inputs[counter->all->config.seeds.mask]->name);
    TMK_TRY(reserve_padded(counter, n, diag));
    for (size_t i = 0; i < n; i++) {
        counter->padded[i] = tmk_number_get(mask, i) == 0;
        any |= counter->padded[i];
    }
    if (any)
        counter->padding = (struct tmk_padding){counter->padded, (size_t)mask->shape.dim[0],
                                                (size_t)mask->shape.dim[1]};
    return TMK_OK;
}

/* Where the current batch stands, for a tensor that lies so. */
static struct tmk_stats_at at_of(struct counter *counter, uint32_t slot, int32_t channel_axis,
                                 uint32_t block) {
    struct tmk_stats_at at = counter->at;
    at.channel_axis = channel_axis;
    at.block = block;
    if (!counter->padding.length)
        return at;
    if (slot < counter->plan->n_positions && counter->plan->positions[slot].n) {
        at.padding = &counter->padding;
        at.positions = &counter->plan->positions[slot];
    } else {
        counter->accounts[slot].whole = true;
    }
    return at;
}

static void print_tensor(struct counter *counter, uint32_t slot, const struct tmk_tensor *tensor) {
    const struct tmk_statistics_config *config = &counter->all->config;
    if (!config->slots[slot].print || !config->print.print)
        return;
    pthread_mutex_lock(&counter->all->printing);
    config->print.print(config->print.context, config->slots[slot].label, counter->at.sample,
                        tensor);
    pthread_mutex_unlock(&counter->all->printing);
}

/* What nodes make of constants was made while planning. */
static void print_constants(struct counter *counter, const struct tmk_plan *plan) {
    for (uint32_t i = 0; i < plan->n_constant_taps; i++) {
        const struct tmk_plan_tap *tap = &plan->constant_taps[i];
        struct tmk_tensor opened;
        if (plan->values[tap->value].initializer || !counter->all->config.slots[tap->slot].print ||
            tmk_tensor_open(&plan->values[tap->value].constant, &opened, NULL) != TMK_OK)
            continue;
        print_tensor(counter, tap->slot, &opened);
        tmk_tensor_finish(&opened);
    }
}

static enum tmk_status observe_tensor(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                                      int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct counter *counter = context;
    const struct tmk_statistics_config *config = &counter->all->config;
    if (tensor->kind !=
        TMK_TYPE_TENSOR) /* a sequence has no range, and what is absent none either */
        return TMK_OK;
    const struct tmk_slot_config *of_slot = &config->slots[slot];
    const struct tmk_stats_at at = at_of(counter, slot, channel_axis, block);
    print_tensor(counter, slot, tensor);
    if (of_slot->see && config->print.see) {
        const struct tmk_observation seen = {counter->worker, of_slot->id, at.sample, at.samples,
                                             tensor};
        TMK_TRY(config->print.see(config->print.see_context, &seen, diag));
    }
    return tmk_derive_look(counter->accounts, config->slots, slot, tensor, &at, diag);
}

static enum tmk_status begin_pieces(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                                    int32_t channel_axis, uint32_t block, struct tmk_diag *diag) {
    struct counter *counter = context;
    const struct tmk_stats_at at = at_of(counter, slot, channel_axis, block);
    return tmk_account_begin(&counter->accounts[slot], &counter->all->config.slots[slot], tensor,
                             &at, diag);
}

static enum tmk_status observe_piece(void *context, uint32_t slot, const float *x, size_t first,
                                     size_t n, struct tmk_diag *diag) {
    struct counter *counter = context;
    return tmk_account_piece(&counter->accounts[slot], &counter->all->config.slots[slot], x, first,
                             n, diag);
}

static enum tmk_status end_pieces(void *context, uint32_t slot, struct tmk_diag *diag) {
    struct counter *counter = context;
    return tmk_account_end(&counter->accounts[slot], &counter->all->config.slots[slot], diag);
}

static struct tmk_account *accounts_of(const struct tmk_counted *counted, uint32_t group) {
    return counted->accounts + (size_t)group * counted->n_slots;
}

static const struct tmk_watch *begin_counting(void *context, uint32_t worker,
                                              const struct tmk_batch *batch) {
    struct tmk_statistics *s = context;
    struct counter *counter = &s->counters[worker];
    struct tmk_exec_tally *tally = &counter->counted.tallies[batch->group];
    counter->at = (struct tmk_stats_at){batch->sample, batch->samples, -1, false, 0};
    counter->accounts = accounts_of(&counter->counted, batch->group);
    tally->ran = true;
    if (!batch->again && batch->part.block == 0) {
        tally->samples += batch->samples;
        tally->batches++;
    }
    return s->config.n_slots ? &counter->watch : NULL;
}

static enum tmk_status end_counting(void *context, const struct tmk_ran *ran,
                                    struct tmk_diag *diag) {
    struct tmk_statistics *s = context;
    struct counter *counter = &s->counters[ran->worker];
    (void)diag;
    if (!s->config.n_slots)
        return TMK_OK;
    print_constants(counter, ran->plan);
    tmk_derive_note(counter->accounts, s->config.slots, s->config.n_slots, &counter->at);
    return TMK_OK;
}

/* While others still work: what was counted takes its last form, which is quick to add up. */
static enum tmk_status leave_worker(void *context, uint32_t worker, struct tmk_diag *diag) {
    struct tmk_statistics *s = context;
    const struct tmk_counted *counted = &s->counters[worker].counted;
    for (uint32_t g = 0; g < counted->n_groups; g++) {
        struct tmk_account *accounts = accounts_of(counted, g);
        for (uint32_t i = 0; counted->tallies[g].ran && i < counted->n_slots; i++)
            if (accounts[i].floats)
                TMK_TRY(tmk_stats_finalize(accounts[i].floats, diag));
    }
    return TMK_OK;
}

/* ---- all batches of a segment ---- */

static enum tmk_status init_counted(const struct tmk_statistics_config *config,
                                    struct tmk_counted *out, struct tmk_diag *diag) {
    size_t n;
    TMK_TRY_ALLOC(tmk_mul_size(config->groups, config->n_slots, &n), diag);
    struct tmk_counted empty = {.accounts = calloc(n + 1, sizeof *empty.accounts),
                                .tallies = calloc(config->groups, sizeof *empty.tallies),
                                .n_slots = config->n_slots,
                                .n_groups = config->groups};
    if (!empty.accounts || !empty.tallies) {
        tmk_counted_finish(&empty);
        return tmk_nomem(diag);
    }
    *out = empty;
    return TMK_OK;
}

/* Accounts of groups that never ran are memory that was never touched, and stays so. */
void tmk_counted_finish(struct tmk_counted *counted) {
    for (uint32_t g = 0; counted->tallies && g < counted->n_groups; g++)
        for (uint32_t i = 0; counted->tallies[g].ran && i < counted->n_slots; i++)
            tmk_account_finish(&accounts_of(counted, g)[i]);
    free(counted->accounts);
    free(counted->tallies);
    *counted = (struct tmk_counted){0};
}

enum tmk_status tmk_statistics_create(const struct tmk_statistics_config *config, uint32_t workers,
                                      struct tmk_statistics **out, struct tmk_diag *diag) {
    struct tmk_statistics *s = calloc(1, sizeof *s);
    TMK_TRY_ALLOC(s, diag);
    s->config = *config;
    s->config.groups = config->groups ? config->groups : 1;
    s->n = workers;
    pthread_mutex_init(&s->printing, NULL);
    s->counters = calloc(workers, sizeof *s->counters);
    enum tmk_status status = s->counters ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < workers; i++) {
        struct counter *counter = &s->counters[i];
        *counter =
            (struct counter){.all = s,
                             .worker = i,
                             .watch = {observe_tensor, begin_pieces, observe_piece, end_pieces,
                                       counter, s->config.seeds.input ? enter_padded_plan : NULL}};
        status = init_counted(&s->config, &counter->counted, diag);
    }
    if (status == TMK_OK)
        *out = s;
    else
        tmk_statistics_destroy(&s);
    return status;
}

void tmk_statistics_destroy(struct tmk_statistics **slot) {
    struct tmk_statistics *s = slot ? *slot : NULL;
    if (!s)
        return;
    *slot = NULL;
    for (uint32_t i = 0; s->counters && i < s->n; i++) {
        tmk_counted_finish(&s->counters[i].counted);
        free(s->counters[i].padded);
    }
    free(s->counters);
    pthread_mutex_destroy(&s->printing);
    free(s);
}

struct tmk_sink tmk_statistics_sink(struct tmk_statistics *statistics) {
    return (struct tmk_sink){
        .watch = begin_counting, .end = end_counting, .leave = leave_worker, .context = statistics};
}

/* A group's accounts of all workers into the first's. */
static enum tmk_status add_up_group(struct tmk_statistics *s, uint32_t group,
                                    struct tmk_diag *diag) {
    const struct tmk_slot_config *slots = s->config.slots;
    const uint32_t n_slots = s->config.n_slots;
    struct tmk_account *sum = accounts_of(&s->counters[0].counted, group);
    struct tmk_exec_tally *tally = &s->counters[0].counted.tallies[group];
    for (uint32_t w = 1; w < s->n; w++) {
        struct tmk_account *accounts = accounts_of(&s->counters[w].counted, group);
        struct tmk_exec_tally *more = &s->counters[w].counted.tallies[group];
        for (uint32_t i = 0; more->ran && i < n_slots; i++) {
            TMK_TRY(tmk_account_merge(&sum[i], &accounts[i], 1, &slots[i], diag));
            tmk_account_finish(&accounts[i]);
        }
        tally->samples += more->samples;
        tally->batches += more->batches;
        tally->ran |= more->ran;
        *more = (struct tmk_exec_tally){0};
    }
    return TMK_OK;
}

/* What follows from those, and the constants. */
static enum tmk_status complete_group(struct tmk_statistics *s, struct tmk_cache *cache,
                                      uint32_t group, struct tmk_diag *diag) {
    const uint32_t n_slots = s->config.n_slots;
    struct tmk_account *sum = accounts_of(&s->counters[0].counted, group);
    if (!n_slots || !s->counters[0].counted.tallies[group].batches)
        return TMK_OK;
    TMK_TRY(tmk_derive_all(sum, s->config.slots, n_slots, diag));
    return tmk_cache_finalize(cache, group, sum, diag);
}

enum tmk_status tmk_statistics_take(struct tmk_statistics *statistics, struct tmk_cache *cache,
                                    struct tmk_counted *out, struct tmk_diag *diag) {
    struct tmk_counted *first = &statistics->counters[0].counted, empty;
    for (uint32_t g = 0; g < statistics->config.groups; g++)
        TMK_TRY(add_up_group(statistics, g, diag));
    tmk_memory_trim(); /* of the workers' heaps */
    for (uint32_t g = 0; g < statistics->config.groups; g++)
        TMK_TRY(complete_group(statistics, cache, g, diag));
    TMK_TRY(init_counted(&statistics->config, &empty, diag));
    *out = *first;
    *first = empty;
    return TMK_OK;
}
