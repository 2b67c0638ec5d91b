/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"
#include "tensor/elements.h"

/* How often a plan ran for a group; `again`: of those runs, for samples that had run before. */
struct ran {
    uint64_t runs, again, first_sample;
};

struct entry {
    struct tmk_planned planned;   /* first: a planned is its entry */
    struct entry *next;           /* most recently used first */
    struct tmk_tensor *signature; /* kinds, dtypes and shapes, no data */
    struct ran *ran;              /* [groups] */
    uint64_t samples_a_run;
    uint32_t users;
};

/* Of a group: constants of plans that were dropped, and initializers. */
struct finalized {
    struct tmk_account *accounts; /* [n_slots]; NULL: nothing yet */
    bool initializers_done;
};

struct tmk_cache {
    pthread_mutex_t lock;
    const struct tmk_graph *graph;
    const struct tmk_slot_config *slots;
    uint32_t n_slots, groups, most, idle;
    uint8_t *needs; /* what plans know of the slots */
    struct tmk_position_seeds seeds;
    struct tmk_packs *packs; /* of all plans */
    const struct tmk_cuts *cuts;
    const struct entry *loaded; /* one of whose blocks has its weights; NULL: none */
    uint32_t block;             /* that one */
    bool failed;                /* to load a block */
    struct entry *first;
    struct finalized *finalized; /* [groups] */
    struct tmk_cache_figures figures;
};

static void free_entry(struct entry *entry) {
    if (!entry)
        return;
    tmk_blocks_destroy(&entry->planned.blocks);
    tmk_plan_destroy(&entry->planned.plan);
    free(entry->signature);
    free(entry->ran);
    free(entry);
}

enum tmk_status tmk_cache_create(const struct tmk_graph *graph, const struct tmk_slot_config *slots,
                                 uint32_t n_slots, uint32_t groups, uint32_t most,
                                 const struct tmk_position_seeds *seeds,
                                 const struct tmk_cuts *cuts, struct tmk_cache **out,
                                 struct tmk_diag *diag) {
    struct tmk_cache *cache = calloc(1, sizeof *cache);
    struct finalized *finalized = calloc(groups, sizeof *finalized);
    uint8_t *needs = calloc(n_slots + 1u, sizeof *needs);
    enum tmk_status status = cache && finalized && needs ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, cuts ? tmk_packs_create_empty(&cache->packs, diag)
                          : tmk_packs_create(&cache->packs, diag));
    if (status != TMK_OK) {
        free(cache);
        free(finalized);
        free(needs);
        return status;
    }
    for (uint32_t i = 0; i < n_slots; i++)
        needs[i] = tmk_slot_need(&slots[i]);
    pthread_mutex_init(&cache->lock, NULL);
    cache->graph = graph;
    cache->slots = slots;
    cache->n_slots = n_slots;
    cache->groups = groups;
    cache->most = most;
    cache->seeds = *seeds;
    cache->cuts = cuts;
    cache->finalized = finalized;
    cache->needs = needs;
    *out = cache;
    return TMK_OK;
}

static void drop_finalized(struct tmk_cache *cache, uint32_t group) {
    struct finalized *finalized = &cache->finalized[group];
    for (uint32_t i = 0; finalized->accounts && i < cache->n_slots; i++)
        tmk_account_finish(&finalized->accounts[i]);
    free(finalized->accounts);
    finalized->accounts = NULL;
}

void tmk_cache_destroy(struct tmk_cache **slot) {
    struct tmk_cache *cache = slot ? *slot : NULL;
    if (!cache)
        return;
    *slot = NULL;
    while (cache->first) {
        struct entry *entry = cache->first;
        cache->first = entry->next;
        free_entry(entry);
    }
    for (uint32_t g = 0; g < cache->groups; g++)
        drop_finalized(cache, g);
    free(cache->finalized);
    free(cache->needs);
    tmk_packs_destroy(&cache->packs);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static bool same_signature(const struct tmk_cache *cache, const struct entry *entry,
                           const struct tmk_tensor *inputs) {
    for (uint32_t i = 0; i < cache->graph->n_inputs; i++)
        if (entry->signature[i].kind != inputs[i].kind ||
            entry->signature[i].dtype != inputs[i].dtype ||
            !tmk_shape_equal(&entry->signature[i].shape, &inputs[i].shape))
            return false;
    return true;
}

static enum tmk_status make_entry(struct tmk_cache *cache, const struct tmk_tensor *inputs,
                                  struct entry **out, struct tmk_diag *diag) {
    struct entry *entry = calloc(1, sizeof *entry);
    uint32_t n = cache->graph->n_inputs;
    if (entry) {
        entry->signature = calloc(n + 1u, sizeof *entry->signature);
        entry->ran = calloc(cache->groups, sizeof *entry->ran);
    }
    if (!entry || !entry->signature || !entry->ran) {
        free_entry(entry);
        return tmk_nomem(diag);
    }
    for (uint32_t i = 0; i < n; i++) {
        tmk_tensor_borrow(&entry->signature[i], inputs[i].dtype, &inputs[i].shape, NULL);
        entry->signature[i].kind = inputs[i].kind;
    }
    /* without slots nothing is watched, though the graph may have observers */
    const struct tmk_plan_options options = {.needs = cache->n_slots ? cache->needs : NULL,
                                             .packs = cache->packs,
                                             .seeds = cache->seeds};
    struct tmk_diag closing = {0};
    tmk_packs_open(cache->packs);
    enum tmk_status status =
        tmk_plan_create(cache->graph, entry->signature, &options, &entry->planned.plan, diag);
    enum tmk_status closed = tmk_packs_close(cache->packs, &closing);
    if (status == TMK_OK && closed != TMK_OK)
        status = tmk_fail(diag, closed, "%s", closing.text);
    if (status == TMK_OK && cache->cuts)
        status = tmk_blocks_create(entry->planned.plan, cache->cuts, &entry->planned.blocks, diag);
    if (status != TMK_OK) {
        free_entry(entry);
        return status;
    }
    const struct tmk_plan *plan = entry->planned.plan;
    cache->figures.plans++;
    if (plan->arena_bytes > cache->figures.arena_bytes)
        cache->figures.arena_bytes = plan->arena_bytes;
    if (plan->scratch_bytes > cache->figures.scratch_bytes)
        cache->figures.scratch_bytes = plan->scratch_bytes;
    *out = entry;
    return TMK_OK;
}

/* A constant is looked at, whatever rule its value has elsewhere. */
static struct tmk_slot_config config_of_constant(const struct tmk_cache *cache, uint32_t slot) {
    struct tmk_slot_config config = cache->slots[slot];
    config.rule = TMK_DERIVE_NONE;
    config.shadowed = false;
    config.per_sample = config.topk = false; /* it is the same in all samples */
    return config;
}

static enum tmk_status look_at_constant(const struct tmk_cache *cache, const struct entry *entry,
                                        const struct tmk_plan_tap *tap, const struct ran *ran,
                                        bool again, struct tmk_account *out,
                                        struct tmk_diag *diag) {
    const struct tmk_plan_value *value = &entry->planned.plan->values[tap->value];
    const struct tmk_stats_at at = {value->initializer ? 0 : ran->first_sample,
                                    value->initializer ? 1 : entry->samples_a_run,
                                    value->channel_axis,
                                    again,
                                    0,
                                    true};
    const struct tmk_slot_config config = config_of_constant(cache, tap->slot);
    tmk_account_finish(out);
    return tmk_account_look(out, &config, &value->constant, &at, diag);
}

static enum tmk_status finalize_slot(struct tmk_cache *cache, uint32_t group, uint32_t slot,
                                     const struct tmk_account *once, uint64_t times,
                                     struct tmk_diag *diag) {
    struct finalized *finalized = &cache->finalized[group];
    if (!finalized->accounts)
        finalized->accounts = calloc(cache->n_slots + 1u, sizeof *finalized->accounts);
    TMK_TRY_ALLOC(finalized->accounts, diag);
    const struct tmk_slot_config config = config_of_constant(cache, slot);
    return tmk_account_merge(&finalized->accounts[slot], once, times, &config, diag);
}

/* One constant, which counts once a run; an initializer, which is there once whatever runs, only
 * the first time. */
static enum tmk_status finalize_constant(struct tmk_cache *cache, const struct entry *entry,
                                         const struct tmk_plan_tap *tap, struct tmk_account *once,
                                         struct tmk_diag *diag) {
    const bool initializer = entry->planned.plan->values[tap->value].initializer;
    bool looked = false;
    for (uint32_t g = 0; g < cache->groups; g++) {
        const struct ran *ran = &entry->ran[g];
        const bool first = initializer && ran->runs && !cache->finalized[g].initializers_done;
        const uint64_t times[] = {initializer ? first : ran->runs - ran->again,
                                  initializer ? 0 : ran->again};
        for (int again = 0; again < 2; again++) {
            if (!times[again])
                continue;
            if (!looked || !initializer) /* others stand where the group's first run was */
                TMK_TRY(look_at_constant(cache, entry, tap, ran, again, once, diag));
            looked = true;
            TMK_TRY(finalize_slot(cache, g, tap->slot, once, times[again], diag));
        }
    }
    return TMK_OK;
}

static enum tmk_status finalize_entry(struct tmk_cache *cache, struct entry *entry,
                                      struct tmk_diag *diag) {
    const struct tmk_plan *plan = entry->planned.plan;
    struct tmk_account once = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t t = 0; status == TMK_OK && t < plan->n_constant_taps; t++) {
        status = finalize_constant(cache, entry, &plan->constant_taps[t], &once, diag);
        tmk_account_finish(&once);
    }
    for (uint32_t g = 0; g < cache->groups; g++) {
        cache->finalized[g].initializers_done |= entry->ran[g].runs > 0;
        entry->ran[g] = (struct ran){0};
    }
    return status;
}

/* ---- blocks ---- */

/* Weights that a step reads as they lie in a mapped file. */
static void rest_weights(const struct tmk_plan *plan, const struct tmk_plan_step *step) {
    for (uint32_t i = 0; i < step->n_in; i++) {
        const uint32_t at = plan->refs[step->first_in + i];
        if (at != TMK_NO_VALUE && plan->values[at].initializer)
            tmk_elements_rest(&plan->values[at].constant, 0,
                              tmk_tensor_count(&plan->values[at].constant));
    }
}

static void unload_block(struct tmk_cache *cache) {
    const struct entry *entry = cache->loaded;
    uint32_t first, end;
    if (!entry)
        return;
    cache->loaded = NULL;
    tmk_blocks_steps(entry->planned.blocks, cache->block, &first, &end);
    for (uint32_t s = first; s < end; s++) {
        if (entry->planned.plan->steps[s].accel)
            tmk_accel_unload(entry->planned.plan->steps[s].accel);
        rest_weights(entry->planned.plan, &entry->planned.plan->steps[s]);
    }
}

static enum tmk_status load_block(struct tmk_cache *cache, const struct entry *entry,
                                  uint32_t block, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    struct tmk_diag closing = {0};
    uint32_t first, end;
    tmk_blocks_steps(entry->planned.blocks, block, &first, &end);
    tmk_packs_open(cache->packs);
    for (uint32_t s = first; status == TMK_OK && s < end; s++)
        if (entry->planned.plan->steps[s].accel)
            status = tmk_accel_load(entry->planned.plan->steps[s].accel, diag);
    enum tmk_status closed = tmk_packs_close(cache->packs, &closing);
    if (status == TMK_OK && closed != TMK_OK)
        status = tmk_fail(diag, closed, "%s", closing.text);
    if (status == TMK_OK) {
        cache->loaded = entry;
        cache->block = block;
    }
    return status;
}

enum tmk_status tmk_cache_load(struct tmk_cache *cache, struct tmk_planned *planned, uint32_t block,
                               struct tmk_diag *diag) {
    const struct entry *entry = (const struct entry *)planned;
    enum tmk_status status = TMK_OK;
    tmk_packs_help(cache->packs);
    pthread_mutex_lock(&cache->lock);
    if (cache->failed) {
        status = tmk_fail(diag, TMK_MACHINE, "the weights of a block could not be loaded");
    } else if (cache->loaded != entry || cache->block != block) {
        unload_block(cache);
        status = load_block(cache, entry, block, diag);
        cache->failed = status != TMK_OK;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* Drops the least recently used entry without users, while there are too many of them. */
static enum tmk_status trim_cache(struct tmk_cache *cache, struct tmk_diag *diag) {
    while (cache->idle > cache->most) {
        struct entry **oldest = NULL;
        for (struct entry **e = &cache->first; *e; e = &(*e)->next)
            if (!(*e)->users)
                oldest = e;
        struct entry *entry = *oldest;
        if (entry == cache->loaded)
            unload_block(cache);
        TMK_TRY(finalize_entry(cache, entry, diag));
        *oldest = entry->next;
        cache->idle--;
        free_entry(entry);
    }
    return TMK_OK;
}

static struct entry *take_entry(struct tmk_cache *cache, const struct tmk_tensor *inputs) {
    for (struct entry **e = &cache->first; *e; e = &(*e)->next)
        if (same_signature(cache, *e, inputs)) {
            struct entry *entry = *e;
            *e = entry->next;
            return entry;
        }
    return NULL;
}

enum tmk_status tmk_cache_get(struct tmk_cache *cache, const struct tmk_tensor *inputs,
                              struct tmk_planned **out, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    tmk_packs_help(cache->packs); /* instead of waiting for the thread that makes a plan */
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = take_entry(cache, inputs);
    if (!entry) {
        status = make_entry(cache, inputs, &entry, diag);
        cache->idle += status == TMK_OK;
    }
    if (status == TMK_OK) {
        entry->next = cache->first;
        cache->first = entry;
        cache->idle -= entry->users++ == 0;
        *out = &entry->planned;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void tmk_cache_ran(struct tmk_cache *cache, struct tmk_planned *planned, uint32_t group,
                   uint64_t sample, uint64_t samples, bool again) {
    struct entry *entry = (struct entry *)planned;
    pthread_mutex_lock(&cache->lock);
    struct ran *ran = &entry->ran[group];
    if (!ran->runs || sample < ran->first_sample)
        ran->first_sample = sample;
    ran->runs++;
    ran->again += again;
    entry->samples_a_run = samples;
    pthread_mutex_unlock(&cache->lock);
}

enum tmk_status tmk_cache_release(struct tmk_cache *cache, struct tmk_planned *planned,
                                  struct tmk_diag *diag) {
    struct entry *entry = (struct entry *)planned;
    if (!entry)
        return TMK_OK;
    pthread_mutex_lock(&cache->lock);
    cache->idle += --entry->users == 0;
    enum tmk_status status = trim_cache(cache, diag);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

enum tmk_status tmk_cache_finalize(struct tmk_cache *cache, uint32_t group,
                                   struct tmk_account *accounts, struct tmk_diag *diag) {
    unload_block(cache);
    for (struct entry *entry = cache->first; entry; entry = entry->next)
        TMK_TRY(finalize_entry(cache, entry, diag));
    struct tmk_account *finalized = cache->finalized[group].accounts;
    for (uint32_t i = 0; finalized && i < cache->n_slots; i++) {
        TMK_TRY(tmk_account_merge(&accounts[i], &finalized[i], 1, &cache->slots[i], diag));
        tmk_account_finish(&finalized[i]); /* so that all are there once */
    }
    drop_finalized(cache, group);
    return TMK_OK;
}

struct tmk_cache_figures tmk_cache_figures(struct tmk_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    struct tmk_cache_figures figures = cache->figures;
    pthread_mutex_unlock(&cache->lock);
    return figures;
}
