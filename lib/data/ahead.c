/* SPDX-License-Identifier: Apache-2.0 */
#include "data/ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"

enum { WAITING_A_THREAD = 3, MOST_THREADS = 64 };

struct slot {
    uint64_t entry;
    bool made;
    enum tmk_status status;
    struct tmk_tensor tensor;
    struct tmk_diag diag; /* of a failure */
};

struct tmk_ahead {
    tmk_ahead_make make;
    const void *context;
    struct tmk_source_order order;
    pthread_t threads[MOST_THREADS];
    uint32_t n_threads;

    pthread_mutex_t lock; /* of what follows, except for slots that are being made */
    pthread_cond_t changed;
    struct slot *slots; /* a ring, in the order */
    size_t size, first, used;
    bool over; /* the order has no more */
    bool closing;
};

/* The next slot to be filled, with the number of its entry; NULL when nothing is left to do. */
static struct slot *next_slot(struct tmk_ahead *ahead) {
    while (!ahead->closing && !ahead->over && ahead->used == ahead->size)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    if (ahead->closing || ahead->over)
        return NULL;
    struct slot *slot = &ahead->slots[(ahead->first + ahead->used) % ahead->size];
    slot->made = false;
    if (!ahead->order.next(ahead->order.context, &slot->entry)) {
        ahead->over = true;
        pthread_cond_broadcast(&ahead->changed);
        return NULL;
    }
    ahead->used++;
    return slot;
}

static void *run_worker(void *argument) {
    struct tmk_ahead *ahead = argument;
    struct slot *slot;
    pthread_mutex_lock(&ahead->lock);
    while ((slot = next_slot(ahead))) {
        pthread_mutex_unlock(&ahead->lock);
        tmk_diag_reset(&slot->diag);
        slot->tensor = (struct tmk_tensor){0};
        slot->status = ahead->make(ahead->context, slot->entry, &slot->tensor, &slot->diag);
        pthread_mutex_lock(&ahead->lock);
        slot->made = true;
        pthread_cond_broadcast(&ahead->changed);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

enum tmk_status tmk_ahead_create(tmk_ahead_make make, const void *context,
                                 const struct tmk_source_order *order,
                                 struct tmk_source_threads *threads, struct tmk_ahead **out,
                                 struct tmk_diag *diag) {
    struct tmk_ahead *ahead = calloc(1, sizeof *ahead);
    const uint32_t n = threads->wanted < MOST_THREADS ? threads->wanted : MOST_THREADS;
    TMK_TRY_ALLOC(ahead, diag);
    ahead->make = make;
    ahead->context = context;
    ahead->order = *order;
    ahead->size = (size_t)n * WAITING_A_THREAD;
    ahead->slots = calloc(ahead->size + 1, sizeof *ahead->slots);
    if (!ahead->slots) {
        free(ahead);
        return tmk_nomem(diag);
    }
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    int error = 0;
    while (ahead->n_threads < n && (error = pthread_create(&ahead->threads[ahead->n_threads], NULL,
                                                           run_worker, ahead)) == 0)
        ahead->n_threads++;
    *threads = (struct tmk_source_threads){n, n - ahead->n_threads, error};
    if (!ahead->n_threads)
        tmk_ahead_destroy(&ahead);
    *out = ahead;
    return TMK_OK;
}

void tmk_ahead_destroy(struct tmk_ahead **slot) {
    struct tmk_ahead *ahead = slot ? *slot : NULL;
    if (!ahead)
        return;
    *slot = NULL;
    pthread_mutex_lock(&ahead->lock);
    ahead->closing = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    for (uint32_t i = 0; i < ahead->n_threads; i++)
        pthread_join(ahead->threads[i], NULL);
    for (size_t i = 0; i < ahead->used; i++)
        tmk_tensor_finish(&ahead->slots[(ahead->first + i) % ahead->size].tensor);
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead->slots);
    free(ahead);
}

/* Waits for the slot of the entry, and lets go of those before it. */
static struct slot *find_slot(struct tmk_ahead *ahead, uint64_t entry) {
    for (;;) {
        struct slot *slot = &ahead->slots[ahead->first];
        if (!ahead->used && ahead->over)
            return NULL;
        if (ahead->used && slot->entry > entry)
            return NULL;
        if (ahead->used && slot->made && slot->entry == entry)
            return slot;
        if (ahead->used && slot->made) {
            tmk_tensor_finish(&slot->tensor);
            ahead->first = (ahead->first + 1) % ahead->size;
            ahead->used--;
            pthread_cond_broadcast(&ahead->changed);
        } else {
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        }
    }
}

enum tmk_status tmk_ahead_take(struct tmk_ahead *ahead, uint64_t entry, bool *there,
                               struct tmk_tensor *out, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    pthread_mutex_lock(&ahead->lock);
    const struct slot *slot = find_slot(ahead, entry);
    *there = slot != NULL;
    if (slot && slot->status == TMK_OK)
        tmk_tensor_share(out, &slot->tensor);
    else if (slot)
        status = tmk_fail(diag, slot->status, "%s", slot->diag.text);
    pthread_mutex_unlock(&ahead->lock);
    return status;
}
