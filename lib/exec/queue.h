/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue between the loader and the workers, of sequences: a batch that continues a
 * sequence (see struct tmk_batch) is for the worker that has the one before. Thread-safe. */
#pragma once

#include <stdbool.h>

#include "exec/run.h"

struct tmk_queue;
struct tmk_queued_sequence; /* a sequence in the queue */

/* What may wait in the queue at most, in bytes of inputs, so that no worker is idle while the
 * loader is still in a sequence that another one has. */
enum { TMK_QUEUE_AHEAD_BYTES = 256 << 20 };

/* Holds up to `size` batches; more, up to TMK_QUEUE_AHEAD_BYTES, while workers wait for a sequence
 * of their own, and `size` of the one that the loader is in, if a worker has it. */
enum tmk_status tmk_queue_create(uint32_t size, struct tmk_queue **out, struct tmk_diag *diag);
/* Finishes the batches that are still in it. */
void tmk_queue_destroy(struct tmk_queue **queue);
/* Waits until the queue has space; takes the batch over. Once the queue was closed *taken is false,
 * and the batch is the caller's, as it is after a failure. */
enum tmk_status tmk_queue_push(struct tmk_queue *queue, const struct tmk_batch *batch, bool *taken,
                               struct tmk_diag *diag);
/* Waits for a batch, which becomes the caller's: the next one of the sequence *mine or, where that
 * is over, of the earliest that no worker has, which becomes *mine (NULL: none). False, and *mine
 * NULL, when the queue is closed and nothing is left for the caller. */
bool tmk_queue_pop(struct tmk_queue *queue, struct tmk_queued_sequence **mine,
                   struct tmk_batch *out);
/* No more pushes; what is in it from sample `drop_from` on (UINT64_MAX: nothing) is thrown away. */
void tmk_queue_close(struct tmk_queue *queue, uint64_t drop_from);
