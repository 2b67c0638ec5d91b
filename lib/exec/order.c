/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/diag.h"
#include "exec/run.h"
#include "exec/sink.h"

struct tmk_record_entry {
    struct tmk_record_entry *next;
    struct tmk_batch batch; /* without inputs */
    _Alignas(max_align_t) unsigned char record[];
};

void tmk_order_init(struct tmk_order *order, const struct tmk_sink *sink) {
    *order = (struct tmk_order){.sink = sink};
    pthread_mutex_init(&order->lock, NULL);
}

static void drop_entry(const struct tmk_order *order, struct tmk_record_entry *entry) {
    if (order->sink->drop)
        order->sink->drop(order->sink->context, entry->record);
    free(entry);
}

void tmk_order_finish(struct tmk_order *order) {
    while (order->first) {
        struct tmk_record_entry *entry = order->first;
        order->first = entry->next;
        drop_entry(order, entry);
    }
    pthread_mutex_destroy(&order->lock);
}

static enum tmk_status merge_next(struct tmk_order *order, struct tmk_batch *failed,
                                  struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    while (status == TMK_OK && order->first && order->first->batch.place == order->next) {
        struct tmk_record_entry *entry = order->first;
        order->first = entry->next;
        status = order->sink->merge(order->sink->context, entry->record, diag);
        *failed = entry->batch;
        order->next += status == TMK_OK;
        drop_entry(order, entry);
    }
    return status;
}

enum tmk_status tmk_order_add(struct tmk_order *order, const struct tmk_ran *ran,
                              struct tmk_batch *failed, struct tmk_diag *diag) {
    const struct tmk_sink *sink = order->sink;
    struct tmk_record_entry *entry = calloc(1, sizeof *entry + sink->record_bytes);
    *failed = *ran->batch;
    TMK_TRY_ALLOC(entry, diag);
    entry->batch = *ran->batch;
    entry->batch.inputs = NULL;
    entry->batch.n_inputs = 0;
    enum tmk_status status = sink->record(sink->context, ran, entry->record, diag);
    if (status != TMK_OK) {
        drop_entry(order, entry);
        return status;
    }
    pthread_mutex_lock(&order->lock);
    struct tmk_record_entry **at = &order->first;
    while (*at && (*at)->batch.place < entry->batch.place)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
    status = merge_next(order, failed, diag);
    pthread_mutex_unlock(&order->lock);
    return status;
}
