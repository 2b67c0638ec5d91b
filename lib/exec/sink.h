/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the values of a run. The executor hands every batch to its sinks; statistics,
 * comparisons and collected outputs are sinks. */
#pragma once

#include <pthread.h>

#include "exec/account.h"
#include "exec/cache.h"
#include "exec/worker.h"

struct tmk_batch;

/* A batch that ran; good during the call. */
struct tmk_ran {
    uint32_t worker; /* number of the worker, from 0 */
    const struct tmk_batch *batch;
    /* One a graph: tmk_worker_value has the graph outputs, inputs and constants of the batch. */
    struct tmk_worker *const *workers;
    const struct tmk_plan *plan; /* of the first graph */
};

/* Every member but `context` may be NULL. A failure of one ends the run. */
struct tmk_sink {
    /* ---- in any order, by workers at the same time ---- */

    /* Before a batch: what gets the first graph's values as they are computed; NULL: nothing. */
    const struct tmk_watch *(*watch)(void *context, uint32_t worker, const struct tmk_batch *batch);
    /* After it. */
    enum tmk_status (*end)(void *context, const struct tmk_ran *ran, struct tmk_diag *diag);
    /* The worker has no more batches in this segment. */
    enum tmk_status (*leave)(void *context, uint32_t worker, struct tmk_diag *diag);

    /* ---- in the order of the batches ---- */

    /* Makes a record of the batch, in any order; *record has record_bytes, zeroed. */
    enum tmk_status (*record)(void *context, const struct tmk_ran *ran, void *record,
                              struct tmk_diag *diag);
    size_t record_bytes;
    /* Merges the records in the order of the batches, one at a time; by any worker. */
    enum tmk_status (*merge)(void *context, const void *record, struct tmk_diag *diag);
    /* Frees what a record holds, merged or not. */
    void (*drop)(void *context, void *record);

    void *context;
};

/* The sink that counts what observers see: every worker has accounts of its own, by group, which
 * are added up at the end of a segment. */

struct tmk_statistics_config {
    const struct tmk_slot_config *slots;
    uint32_t n_slots;
    uint32_t groups;                 /* of batches that are counted apart; 0: 1 */
    struct tmk_print print;          /* for slots with `print`; .print NULL: none */
    struct tmk_position_seeds seeds; /* with them, elements are excluded where the mask is 0 */
};

/* What ran of a group. */
struct tmk_exec_tally {
    uint64_t samples, batches;
    bool ran; /* a batch, or a block of one: there may be accounts */
};

/* The accounts of all groups. */
struct tmk_counted {
    struct tmk_account *accounts;   /* [n_groups][n_slots] */
    struct tmk_exec_tally *tallies; /* [n_groups] */
    uint32_t n_slots, n_groups;
};
void tmk_counted_finish(struct tmk_counted *counted);

struct tmk_statistics;
/* The slots must outlive it. */
enum tmk_status tmk_statistics_create(const struct tmk_statistics_config *config, uint32_t workers,
                                      struct tmk_statistics **out, struct tmk_diag *diag);
void tmk_statistics_destroy(struct tmk_statistics **statistics);
struct tmk_sink tmk_statistics_sink(struct tmk_statistics *statistics);
/* Adds up what all workers counted, and the constants of the cache's plans; the workers begin anew.
 * On success finish *out. */
enum tmk_status tmk_statistics_take(struct tmk_statistics *statistics, struct tmk_cache *cache,
                                    struct tmk_counted *out, struct tmk_diag *diag);

/* The records that a sink makes of batches, merged in the order of the batches whichever worker
 * finishes first. No worker waits: a record that is early is kept. Thread-safe. */

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
enum tmk_status tmk_order_add(struct tmk_order *order, const struct tmk_ran *ran,
                              struct tmk_batch *failed, struct tmk_diag *diag);
