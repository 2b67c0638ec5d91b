/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/together.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"

/* A batch, and what is kept of it between blocks. */
struct held {
    struct tmk_batch batch;
    struct tmk_parked *parked;
};

struct tmk_together {
    uint32_t blocks, block; /* block: that they go through */
    uint64_t most;
    struct held *held; /* stays where it is while they run: workers point to `parked` */
    size_t n, size, given;
    struct tmk_batch waiting; /* the first of the next ones, where its shapes are others */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    size_t ran; /* of those that were given */
    bool stopped;
};

enum tmk_status tmk_together_create(uint32_t blocks, uint64_t most, struct tmk_together **out,
                                    struct tmk_diag *diag) {
    struct tmk_together *together = calloc(1, sizeof *together);
    if (!together)
        return tmk_nomem(diag);
    together->blocks = blocks;
    together->most = most ? most : 1;
    pthread_mutex_init(&together->lock, NULL);
    pthread_cond_init(&together->changed, NULL);
    *out = together;
    return TMK_OK;
}

static void drop_held(struct tmk_together *together) {
    for (size_t i = 0; i < together->n; i++) {
        tmk_batch_finish(&together->held[i].batch);
        tmk_parked_destroy(&together->held[i].parked);
    }
    together->n = together->given = together->ran = 0;
    together->block = 0;
}

void tmk_together_destroy(struct tmk_together **slot) {
    struct tmk_together *together = slot ? *slot : NULL;
    if (!together)
        return;
    *slot = NULL;
    drop_held(together);
    tmk_batch_finish(&together->waiting);
    free(together->held);
    pthread_cond_destroy(&together->changed);
    pthread_mutex_destroy(&together->lock);
    free(together);
}

static bool same_shapes(const struct tmk_batch *a, const struct tmk_batch *b) {
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (a->inputs[i].kind != b->inputs[i].kind || a->inputs[i].dtype != b->inputs[i].dtype ||
            !tmk_shape_equal(&a->inputs[i].shape, &b->inputs[i].shape))
            return false;
    return true;
}

static enum tmk_status hold_batch(struct tmk_together *together, const struct tmk_batch *batch,
                                  struct tmk_diag *diag) {
    if (!TMK_GROW(together->held, together->n, together->size))
        return tmk_nomem(diag);
    together->held[together->n++] = (struct held){*batch, NULL};
    return TMK_OK;
}

/* All that are to run together, before the first does. */
static enum tmk_status fill_up(struct tmk_together *together,
                               enum tmk_status (*load)(void *context, struct tmk_batch *batch,
                                                       bool *more, struct tmk_diag *diag),
                               void *context, struct tmk_diag *diag) {
    bool more = true;
    while (more && together->n < together->most) {
        struct tmk_batch *next = &together->waiting;
        if (!next->samples)
            TMK_TRY(load(context, next, &more, diag));
        if (!more || (together->n && !same_shapes(&together->held[0].batch, next)))
            break;
        TMK_TRY(hold_batch(together, next, diag));
        *next = (struct tmk_batch){0};
    }
    return TMK_OK;
}

static enum tmk_status give_next(struct tmk_together *together, struct tmk_batch *out,
                                 struct tmk_diag *diag) {
    struct held *held = &together->held[together->given];
    struct tmk_batch batch = held->batch;
    batch.inputs = calloc(batch.n_inputs + 1u, sizeof *batch.inputs);
    if (!batch.inputs)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < batch.n_inputs; i++)
        tmk_tensor_share(&batch.inputs[i], &held->batch.inputs[i]);
    batch.part =
        (struct tmk_part){together->block, together->block + 1 < together->blocks, &held->parked};
    together->given++;
    *out = batch;
    return TMK_OK;
}

bool tmk_together_loads(const struct tmk_together *together) {
    return !together->n ||
           (together->given == together->n && together->block + 1 == together->blocks);
}

/* False: the run fails. */
static bool wait_for_block(struct tmk_together *together) {
    pthread_mutex_lock(&together->lock);
    while (together->ran < together->n && !together->stopped)
        pthread_cond_wait(&together->changed, &together->lock);
    const bool goes_on = !together->stopped;
    together->ran = 0;
    pthread_mutex_unlock(&together->lock);
    return goes_on;
}

enum tmk_status tmk_together_next(struct tmk_together *together,
                                  enum tmk_status (*load)(void *context, struct tmk_batch *batch,
                                                          bool *more, struct tmk_diag *diag),
                                  void *context, struct tmk_batch *out, bool *more,
                                  struct tmk_diag *diag) {
    *more = true;
    if (together->n && together->given == together->n) {
        *more = wait_for_block(together);
        together->given = 0;
        together->block++;
    }
    if (*more && together->block == together->blocks)
        drop_held(together);
    if (*more && !together->n) {
        TMK_TRY(fill_up(together, load, context, diag));
        *more = together->n > 0;
    }
    return *more ? give_next(together, out, diag) : TMK_OK;
}

void tmk_together_ran(struct tmk_together *together) {
    pthread_mutex_lock(&together->lock);
    together->ran++;
    pthread_cond_broadcast(&together->changed);
    pthread_mutex_unlock(&together->lock);
}

void tmk_together_stop(struct tmk_together *together) {
    if (!together)
        return;
    pthread_mutex_lock(&together->lock);
    together->stopped = true;
    pthread_cond_broadcast(&together->changed);
    pthread_mutex_unlock(&together->lock);
}
