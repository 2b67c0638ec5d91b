/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"

struct item {
    struct tmk_batch batch;
    struct item *next;
};

struct tmk_queued_sequence {
    struct item *first, *last;
    uint64_t used;
    bool taken, over; /* over: the loader is behind it */
    struct tmk_queued_sequence *next;
};

struct tmk_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;           /* for workers; for the loader */
    struct tmk_queued_sequence *first, *last; /* in the order of their samples */
    uint32_t size, idle;                      /* idle: workers that wait for a sequence */
    uint64_t used, untaken;                   /* batches; sequences */
    size_t bytes;
    bool closed;
};

enum tmk_status tmk_queue_create(uint32_t size, struct tmk_queue **out, struct tmk_diag *diag) {
    struct tmk_queue *queue = calloc(1, sizeof *queue);
    TMK_TRY_ALLOC(queue, diag);
    queue->size = size;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
    pthread_cond_init(&queue->emptied, NULL);
    *out = queue;
    return TMK_OK;
}

static size_t bytes_of(const struct item *item) {
    size_t bytes = sizeof *item;
    for (uint32_t i = 0; i < item->batch.n_inputs; i++)
        bytes += tmk_tensor_bytes(&item->batch.inputs[i]);
    return bytes;
}

static void count_in(struct tmk_queue *queue, struct tmk_queued_sequence *sequence,
                     const struct item *item) {
    sequence->used++;
    queue->used++;
    queue->bytes += bytes_of(item);
}

static struct item *take_first(struct tmk_queue *queue, struct tmk_queued_sequence *sequence) {
    struct item *item = sequence->first;
    sequence->first = item->next;
    sequence->used--;
    queue->used--;
    queue->bytes -= bytes_of(item);
    return item;
}

static void drop_items(struct tmk_queue *queue, struct tmk_queued_sequence *sequence,
                       uint64_t from) {
    struct item *kept = NULL, **end = &kept;
    sequence->last = NULL;
    while (sequence->first) {
        struct item *item = take_first(queue, sequence);
        if (item->batch.sample >= from) {
            tmk_batch_finish(&item->batch);
            free(item);
            continue;
        }
        count_in(queue, sequence, item);
        sequence->last = *end = item;
        end = &item->next;
    }
    *end = NULL;
    sequence->first = kept;
}

static void drop_sequence(struct tmk_queue *queue, struct tmk_queued_sequence *sequence) {
    struct tmk_queued_sequence *before = NULL;
    for (struct tmk_queued_sequence *l = queue->first; l != sequence; l = l->next)
        before = l;
    *(before ? &before->next : &queue->first) = sequence->next;
    if (queue->last == sequence)
        queue->last = before;
    drop_items(queue, sequence, 0);
    free(sequence);
}

void tmk_queue_destroy(struct tmk_queue **slot) {
    struct tmk_queue *queue = slot ? *slot : NULL;
    if (!queue)
        return;
    *slot = NULL;
    while (queue->first)
        drop_sequence(queue, queue->first);
    pthread_cond_destroy(&queue->emptied);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* What waits for one worker must not keep batches from another that has nothing to do, or would
 * soon have nothing: the one whose sequence the loader is in. */
static bool has_room(const struct tmk_queue *queue) {
    const struct tmk_queued_sequence *sequence = queue->last;
    if (queue->used < queue->size)
        return true;
    return queue->bytes < TMK_QUEUE_AHEAD_BYTES &&
           (queue->idle > queue->untaken || (sequence->taken && sequence->used < queue->size));
}

/* The last sequence, if the batch continues it, or a new one. */
static void append_item(struct tmk_queue *queue, struct item *item,
                        struct tmk_queued_sequence *fresh) {
    struct tmk_queued_sequence *sequence = queue->last;
    if (fresh) {
        if (sequence)
            sequence->over = true;
        *(sequence ? &sequence->next : &queue->first) = fresh;
        queue->last = sequence = fresh;
        queue->untaken++;
    }
    assert(sequence); /* the first batch continues no sequence */
    *(sequence->first ? &sequence->last->next : &sequence->first) = item;
    sequence->last = item;
    count_in(queue, sequence, item);
}

enum tmk_status tmk_queue_push(struct tmk_queue *queue, const struct tmk_batch *batch, bool *taken,
                               struct tmk_diag *diag) {
    struct item *item = calloc(1, sizeof *item);
    struct tmk_queued_sequence *fresh = batch->continues_sequence ? NULL : calloc(1, sizeof *fresh);
    if (!item || (!fresh && !batch->continues_sequence)) {
        free(item);
        free(fresh);
        return tmk_nomem(diag);
    }
    item->batch = *batch;
    pthread_mutex_lock(&queue->lock);
    while (!queue->closed && !has_room(queue))
        pthread_cond_wait(&queue->emptied, &queue->lock);
    *taken = !queue->closed;
    if (*taken)
        append_item(queue, item, fresh);
    pthread_cond_broadcast(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    if (!*taken) {
        free(item);
        free(fresh);
    }
    return TMK_OK;
}

static struct tmk_queued_sequence *claim_sequence(struct tmk_queue *queue) {
    struct tmk_queued_sequence *sequence = queue->first;
    while (sequence && sequence->taken)
        sequence = sequence->next;
    if (sequence) {
        sequence->taken = true;
        queue->untaken--;
    }
    return sequence;
}

/* Waits until *mine has a batch; false when there is nothing more to wait for. */
static bool wait_for_batch(struct tmk_queue *queue, struct tmk_queued_sequence **mine) {
    for (;;) {
        if (*mine && (*mine)->first)
            return true;
        if (*mine && ((*mine)->over || queue->closed)) {
            drop_sequence(queue, *mine);
            *mine = NULL;
        }
        if (!*mine && (*mine = claim_sequence(queue)))
            continue;
        if (!*mine && queue->closed)
            return false;
        queue->idle += !*mine;
        pthread_cond_signal(&queue->emptied);
        pthread_cond_wait(&queue->filled, &queue->lock);
        queue->idle -= !*mine;
    }
}

bool tmk_queue_pop(struct tmk_queue *queue, struct tmk_queued_sequence **mine,
                   struct tmk_batch *out) {
    struct item *item = NULL;
    pthread_mutex_lock(&queue->lock);
    if (wait_for_batch(queue, mine))
        item = take_first(queue, *mine);
    pthread_cond_signal(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
    if (!item)
        return false;
    *out = item->batch;
    free(item);
    return true;
}

void tmk_queue_close(struct tmk_queue *queue, uint64_t drop_from) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    for (struct tmk_queued_sequence *sequence = queue->first; sequence; sequence = sequence->next)
        drop_items(queue, sequence, drop_from);
    pthread_cond_broadcast(&queue->filled);
    pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}
