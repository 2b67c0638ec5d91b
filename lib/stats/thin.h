/* SPDX-License-Identifier: Apache-2.0 */
/* Thinned histograms: one run of TMK_RUN elements in `share` is counted, and the sum of all
 * elements is kept apart, since the bins do not give it.
 *
 * A sample's part of the tensor, row-major, is cut into groups of `share` runs. In group g, the run
 * of the number floor(h * share / 2^32) is counted, where h is the upper half of
 *     mix(mix(mix(key) + sample) + g)
 * and mix is SplitMix64's output function of its argument plus 0x9e3779b97f4a7c15. A part of at
 * most one group is counted whole: small values would have too few elements otherwise. */
#ifndef TMK_STATS_THIN_H
#define TMK_STATS_THIN_H

#include "stats/tile.h"

/* Copies the tile's elements that are to be counted, which may be zeros, and no NaN or infinity, to
 * kept[TMK_TILE]; how many. */
size_t tmk_thin_gather(const struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                       const struct tmk_tile_summary *summary, uint32_t *kept);

/* Adds the tile's finite elements to the state's sum. */
void tmk_thin_sum(struct tmk_stats *stats, const struct tmk_tile *tile,
                  const struct tmk_tile_summary *summary);

#endif
