/* SPDX-License-Identifier: Apache-2.0 */
/* The records that a sink makes of batches, merged in the order of the batches whichever worker
 * finishes first. No worker waits: a record that is early is kept. Thread-safe. */
#ifndef TMK_EXEC_ORDER_H
#define TMK_EXEC_ORDER_H

#include <pthread.h>

#include "exec/run.h"

struct tmk_record_entry;

/* Between tmk_order_init and tmk_order_finish. */
struct tmk_order {
    pthread_mutex_t lock;
    const struct tmk_sink *sink;
    struct tmk_record_entry *first; /* by place */
    uint64_t next;                  /* the place that is merged next */
};

void tmk_order_init(struct tmk_order *order, const struct tmk_sink *sink);
void tmk_order_finish(struct tmk_order *order);
/* Makes the record of a batch and merges what has come up. A failure is that of the batch that
 * *failed (never NULL) is set to, a copy without inputs; nothing is merged from there on. */
TMK_NODISCARD enum tmk_status tmk_order_add(struct tmk_order *order, const struct tmk_ran *ran,
                                            struct tmk_batch *failed, struct tmk_diag *diag);

#endif
