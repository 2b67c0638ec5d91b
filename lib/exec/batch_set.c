/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/batch_set.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"

/* A batch, and what is kept of it between blocks. */
struct held {
    struct tmk_batch batch;
    struct tmk_saved *saved;
};

struct tmk_batch_set {
    uint32_t blocks, block; /* block: that they go through */
    uint64_t most;
    struct held *held; /* stays where it is while they run: workers point to `saved` */
    size_t n, size, given;
    struct tmk_batch waiting; /* the first of the next ones, where its shapes are others */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    size_t ran; /* of those that were given */
    bool stopped;
};

enum tmk_status tmk_batch_set_create(uint32_t blocks, uint64_t most, struct tmk_batch_set **out,
                                     struct tmk_diag *diag) {
    struct tmk_batch_set *set = calloc(1, sizeof *set);
    TMK_TRY_ALLOC(set, diag);
    set->blocks = blocks;
    set->most = most ? most : 1;
    pthread_mutex_init(&set->lock, NULL);
    pthread_cond_init(&set->changed, NULL);
    *out = set;
    return TMK_OK;
}

static void drop_held(struct tmk_batch_set *set) {
    for (size_t i = 0; i < set->n; i++) {
        tmk_batch_finish(&set->held[i].batch);
        tmk_saved_destroy(&set->held[i].saved);
    }
    set->n = set->given = set->ran = 0;
    set->block = 0;
}

void tmk_batch_set_destroy(struct tmk_batch_set **slot) {
    struct tmk_batch_set *set = slot ? *slot : NULL;
    if (!set)
        return;
    *slot = NULL;
    drop_held(set);
    tmk_batch_finish(&set->waiting);
    free(set->held);
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

static bool same_shapes(const struct tmk_batch *a, const struct tmk_batch *b) {
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (a->inputs[i].kind != b->inputs[i].kind || a->inputs[i].dtype != b->inputs[i].dtype ||
            !tmk_shape_equal(&a->inputs[i].shape, &b->inputs[i].shape))
            return false;
    return true;
}

static enum tmk_status hold_batch(struct tmk_batch_set *set, const struct tmk_batch *batch,
                                  struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_GROW(set->held, set->n, set->size), diag);
    set->held[set->n++] = (struct held){*batch, NULL};
    return TMK_OK;
}

/* All that are to run together, before the first does. */
static enum tmk_status fill_up(struct tmk_batch_set *set,
                               enum tmk_status (*load)(void *context, struct tmk_batch *batch,
                                                       bool *more, struct tmk_diag *diag),
                               void *context, struct tmk_diag *diag) {
    bool more = true;
    while (more && set->n < set->most) {
        struct tmk_batch *next = &set->waiting;
        if (!next->samples)
            TMK_TRY(load(context, next, &more, diag));
        if (!more || (set->n && !same_shapes(&set->held[0].batch, next)))
            break;
        TMK_TRY(hold_batch(set, next, diag));
        *next = (struct tmk_batch){0};
    }
    return TMK_OK;
}

static enum tmk_status give_next(struct tmk_batch_set *set, struct tmk_batch *out,
                                 struct tmk_diag *diag) {
    struct held *held = &set->held[set->given];
    struct tmk_batch batch = held->batch;
    batch.inputs = calloc(batch.n_inputs + 1u, sizeof *batch.inputs);
    TMK_TRY_ALLOC(batch.inputs, diag);
    for (uint32_t i = 0; i < batch.n_inputs; i++)
        tmk_tensor_share(&batch.inputs[i], &held->batch.inputs[i]);
    batch.part = (struct tmk_part){set->block, set->block + 1 < set->blocks, &held->saved};
    set->given++;
    *out = batch;
    return TMK_OK;
}

bool tmk_batch_set_loads(const struct tmk_batch_set *set) {
    return !set->n || (set->given == set->n && set->block + 1 == set->blocks);
}

/* False: the run fails. */
static bool wait_for_block(struct tmk_batch_set *set) {
    pthread_mutex_lock(&set->lock);
    while (set->ran < set->n && !set->stopped)
        pthread_cond_wait(&set->changed, &set->lock);
    const bool goes_on = !set->stopped;
    set->ran = 0;
    pthread_mutex_unlock(&set->lock);
    return goes_on;
}

enum tmk_status tmk_batch_set_next(struct tmk_batch_set *set,
                                   enum tmk_status (*load)(void *context, struct tmk_batch *batch,
                                                           bool *more, struct tmk_diag *diag),
                                   void *context, struct tmk_batch *out, bool *more,
                                   struct tmk_diag *diag) {
    *more = true;
    if (set->n && set->given == set->n) {
        *more = wait_for_block(set);
        set->given = 0;
        set->block++;
    }
    if (*more && set->block == set->blocks)
        drop_held(set);
    if (*more && !set->n) {
        TMK_TRY(fill_up(set, load, context, diag));
        *more = set->n > 0;
    }
    return *more ? give_next(set, out, diag) : TMK_OK;
}

void tmk_batch_set_ran(struct tmk_batch_set *set) {
    pthread_mutex_lock(&set->lock);
    set->ran++;
    pthread_cond_broadcast(&set->changed);
    pthread_mutex_unlock(&set->lock);
}

void tmk_batch_set_stop(struct tmk_batch_set *set) {
    if (!set)
        return;
    pthread_mutex_lock(&set->lock);
    set->stopped = true;
    pthread_cond_broadcast(&set->changed);
    pthread_mutex_unlock(&set->lock);
}
