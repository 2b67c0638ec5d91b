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

struct tmk_lane {
    struct item *first, *last;
    uint64_t used;
    bool taken, over; /* over: the loader is behind it */
    struct tmk_lane *next;
};

struct tmk_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied; /* for workers; for the loader */
    struct tmk_lane *first, *last;  /* in the order of their samples */
    uint32_t size, idle;            /* idle: workers that wait for a lane */
    uint64_t used, untaken;         /* batches; lanes */
    size_t bytes;
    bool closed;
};

enum tmk_status tmk_queue_create(uint32_t size, struct tmk_queue **out, struct tmk_diag *diag) {
    struct tmk_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return tmk_nomem(diag);
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

static void count_in(struct tmk_queue *queue, struct tmk_lane *lane, const struct item *item) {
    lane->used++;
    queue->used++;
    queue->bytes += bytes_of(item);
}

static struct item *take_first(struct tmk_queue *queue, struct tmk_lane *lane) {
    struct item *item = lane->first;
    lane->first = item->next;
    lane->used--;
    queue->used--;
    queue->bytes -= bytes_of(item);
    return item;
}

static void drop_items(struct tmk_queue *queue, struct tmk_lane *lane, uint64_t from) {
    struct item *kept = NULL, **end = &kept;
    lane->last = NULL;
    while (lane->first) {
        struct item *item = take_first(queue, lane);
        if (item->batch.sample >= from) {
            tmk_batch_finish(&item->batch);
            free(item);
            continue;
        }
        count_in(queue, lane, item);
        lane->last = *end = item;
        end = &item->next;
    }
    *end = NULL;
    lane->first = kept;
}

static void drop_lane(struct tmk_queue *queue, struct tmk_lane *lane) {
    struct tmk_lane *before = NULL;
    for (struct tmk_lane *l = queue->first; l != lane; l = l->next)
        before = l;
    *(before ? &before->next : &queue->first) = lane->next;
    if (queue->last == lane)
        queue->last = before;
    drop_items(queue, lane, 0);
    free(lane);
}

void tmk_queue_destroy(struct tmk_queue **slot) {
    struct tmk_queue *queue = slot ? *slot : NULL;
    if (!queue)
        return;
    *slot = NULL;
    while (queue->first)
        drop_lane(queue, queue->first);
    pthread_cond_destroy(&queue->emptied);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* What waits for one worker must not keep batches from another that has nothing to do, or would
 * soon have nothing: the one whose sequence the loader is in. */
static bool has_room(const struct tmk_queue *queue) {
    const struct tmk_lane *lane = queue->last;
    if (queue->used < queue->size)
        return true;
    return queue->bytes < TMK_QUEUE_AHEAD_BYTES &&
           (queue->idle > queue->untaken || (lane->taken && lane->used < queue->size));
}

/* The last lane, if the batch goes on with it, or a new one. */
static void append(struct tmk_queue *queue, struct item *item, struct tmk_lane *fresh) {
    struct tmk_lane *lane = queue->last;
    if (fresh) {
        if (lane)
            lane->over = true;
        *(lane ? &lane->next : &queue->first) = fresh;
        queue->last = lane = fresh;
        queue->untaken++;
    }
    assert(lane); /* the first batch of all goes on with nothing */
    *(lane->first ? &lane->last->next : &lane->first) = item;
    lane->last = item;
    count_in(queue, lane, item);
}

enum tmk_status tmk_queue_push(struct tmk_queue *queue, const struct tmk_batch *batch, bool *taken,
                               struct tmk_diag *diag) {
    struct item *item = calloc(1, sizeof *item);
    struct tmk_lane *fresh = batch->goes_on ? NULL : calloc(1, sizeof *fresh);
    if (!item || (!fresh && !batch->goes_on)) {
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
        append(queue, item, fresh);
    pthread_cond_broadcast(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    if (!*taken) {
        free(item);
        free(fresh);
    }
    return TMK_OK;
}

static struct tmk_lane *claim(struct tmk_queue *queue) {
    struct tmk_lane *lane = queue->first;
    while (lane && lane->taken)
        lane = lane->next;
    if (lane) {
        lane->taken = true;
        queue->untaken--;
    }
    return lane;
}

/* Waits until *mine has a batch; false when there is nothing more to wait for. */
static bool find(struct tmk_queue *queue, struct tmk_lane **mine) {
    for (;;) {
        if (*mine && (*mine)->first)
            return true;
        if (*mine && ((*mine)->over || queue->closed)) {
            drop_lane(queue, *mine);
            *mine = NULL;
        }
        if (!*mine && (*mine = claim(queue)))
            continue;
        if (!*mine && queue->closed)
            return false;
        queue->idle += !*mine;
        pthread_cond_signal(&queue->emptied);
        pthread_cond_wait(&queue->filled, &queue->lock);
        queue->idle -= !*mine;
    }
}

bool tmk_queue_pop(struct tmk_queue *queue, struct tmk_lane **mine, struct tmk_batch *out) {
    struct item *item = NULL;
    pthread_mutex_lock(&queue->lock);
    if (find(queue, mine))
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
    for (struct tmk_lane *lane = queue->first; lane; lane = lane->next)
        drop_items(queue, lane, drop_from);
    pthread_cond_broadcast(&queue->filled);
    pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}
