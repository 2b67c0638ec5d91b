/* SPDX-License-Identifier: Apache-2.0 */
/* How many samples run in one call. */
#ifndef TMK_FEED_READ_H
#define TMK_FEED_READ_H

#include <tidemark/feed.h>

#include "feed/feed.h"

/* tmk_feed_open, with the batch that data->batch sets. Where that is 0: several
 * samples a call when one is too little work for it and the model is batch-independent
 * (plan/batch.h). What is chosen follows from the model and the shape of a sample alone, so that
 * every shard, rank and resumed run chooses the same. `why` receives, for people, why it is so
 * many; it may be NULL. */
TMK_NODISCARD enum tmk_status
tmk_feed_open_batched(const struct tmk_graph *graph, const struct tmk_data_options *data,
                      uint32_t threads, const struct tmk_notices *notices, struct tmk_feed **out,
                      char why[TMK_BATCH_WHY], struct tmk_diag *diag);

#endif
