/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue between the loader and the workers. Thread-safe. */
#ifndef TMK_EXEC_QUEUE_H
#define TMK_EXEC_QUEUE_H

#include <stdbool.h>

#include "exec/run.h"

struct tmk_queue;

/* Holds up to `size` batches. */
TMK_NODISCARD enum tmk_status tmk_queue_create(uint32_t size, struct tmk_queue **out,
                                               struct tmk_diag *diag);
/* Finishes the batches that are still in it. */
void tmk_queue_destroy(struct tmk_queue **queue);
/* Waits for room; takes the batch over. False, and the batch is the caller's, once the queue was
 * closed. */
bool tmk_queue_push(struct tmk_queue *queue, const struct tmk_batch *batch);
/* Waits for a batch, which becomes the caller's. False when the queue is closed and empty. */
bool tmk_queue_pop(struct tmk_queue *queue, struct tmk_batch *out);
/* No more pushes; with `drop`, what is in it is thrown away too. */
void tmk_queue_close(struct tmk_queue *queue, bool drop);

#endif
