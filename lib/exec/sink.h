/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the values of a run. The executor hands every batch to its sinks; statistics,
 * comparisons and collected outputs are sinks. */
#ifndef TMK_EXEC_SINK_H
#define TMK_EXEC_SINK_H

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

#endif
