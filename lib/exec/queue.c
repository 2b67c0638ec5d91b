/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"

struct tmk_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tmk_batch *ring;
    uint32_t size, first, used;
    bool closed;
};

enum tmk_status tmk_queue_create(uint32_t size, struct tmk_queue **out, struct tmk_diag *diag) {
    struct tmk_queue *queue = calloc(1, sizeof *queue);
    struct tmk_batch *ring = calloc(size, sizeof *ring);
    if (!queue || !ring) {
        free(queue);
        free(ring);
        return tmk_nomem(diag);
    }
    queue->ring = ring;
    queue->size = size;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    *out = queue;
    return TMK_OK;
}

static void drop_all(struct tmk_queue *queue) {
    for (; queue->used; queue->used--) {
        tmk_batch_finish(&queue->ring[queue->first]);
        queue->first = (queue->first + 1) % queue->size;
    }
}

void tmk_queue_destroy(struct tmk_queue **slot) {
    struct tmk_queue *queue = slot ? *slot : NULL;
    if (!queue)
        return;
    *slot = NULL;
    drop_all(queue);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue->ring);
    free(queue);
}

bool tmk_queue_push(struct tmk_queue *queue, const struct tmk_batch *batch) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->closed && queue->used == queue->size)
        pthread_cond_wait(&queue->changed, &queue->lock);
    bool open = !queue->closed;
    if (open)
        queue->ring[(queue->first + queue->used++) % queue->size] = *batch;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return open;
}

bool tmk_queue_pop(struct tmk_queue *queue, struct tmk_batch *out) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->closed && !queue->used)
        pthread_cond_wait(&queue->changed, &queue->lock);
    bool got = queue->used > 0;
    if (got) {
        *out = queue->ring[queue->first];
        queue->first = (queue->first + 1) % queue->size;
        queue->used--;
    }
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return got;
}

void tmk_queue_close(struct tmk_queue *queue, bool drop) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    if (drop)
        drop_all(queue);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
