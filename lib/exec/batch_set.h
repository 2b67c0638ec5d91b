/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that go through the blocks of a graph together: all of them through a block before the
 * first goes through the next. Thread-safe. */
#pragma once

#include "exec/run.h"

struct tmk_batch_set;

/* Up to `most` batches of the same shapes, through so many blocks. */
enum tmk_status tmk_batch_set_create(uint32_t blocks, uint64_t most, struct tmk_batch_set **out,
                                     struct tmk_diag *diag);
void tmk_batch_set_destroy(struct tmk_batch_set **set);
/* The next batch to run, with the block in its part; its inputs are shared. Waits for all batches
 * of a block to have run before it answers with one of the next. `load` makes further batches. Of
 * one thread. */
enum tmk_status tmk_batch_set_next(struct tmk_batch_set *set,
                                   enum tmk_status (*load)(void *context, struct tmk_batch *batch,
                                                           bool *more, struct tmk_diag *diag),
                                   void *context, struct tmk_batch *out, bool *more,
                                   struct tmk_diag *diag);
/* Does the next one go through the first block? Else it was loaded before. */
bool tmk_batch_set_loads(const struct tmk_batch_set *set);
/* A batch has run through its block. */
void tmk_batch_set_ran(struct tmk_batch_set *set);
/* The run fails: nobody is to wait, and there is no more. */
void tmk_batch_set_stop(struct tmk_batch_set *set);
