/* SPDX-License-Identifier: Apache-2.0 */
/* Extremes of each sample of a batch, while it is observed. */
#ifndef TMK_STATS_MINMAX_H
#define TMK_STATS_MINMAX_H

#include "stats/tile.h"

/* A tile was observed, after its state took it in; pass->each is there. */
void tmk_minmax_add_tile(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                         const struct tmk_tile_summary *summary);

#endif
