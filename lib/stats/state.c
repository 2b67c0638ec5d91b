/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"

enum tmk_status tmk_stats_create_with(enum tmk_stats_level level,
                                      const struct tmk_stats_kernel *kernel, struct tmk_stats **out,
                                      struct tmk_diag *diag) {
    if (level != TMK_STATS_RANGE && level != TMK_STATS_HISTOGRAM && level != TMK_STATS_MINMAX)
        return tmk_fail(diag, TMK_ARGUMENT, "%d is no level of statistics", (int)level);
    struct tmk_stats *stats = calloc(1, sizeof *stats);
    TMK_TRY_ALLOC(stats, diag);
    stats->level = level;
    stats->kernel = kernel;
    stats->share = 1;
    stats->coarse = level != TMK_STATS_HISTOGRAM;
    stats->min = (struct tmk_extreme){TMK_KEY_POSINF, tmk_nowhere};
    stats->max = (struct tmk_extreme){TMK_KEY_NEGINF, tmk_nowhere};
    stats->first_nonfinite = tmk_nowhere;
    *out = stats;
    return TMK_OK;
}

enum tmk_status tmk_stats_create(enum tmk_stats_level level, struct tmk_stats **out,
                                 struct tmk_diag *diag) {
    return tmk_stats_create_with(level, tmk_stats_kernel_at(0), out, diag);
}

enum tmk_status tmk_stats_thin(struct tmk_stats *stats, uint32_t share, uint64_t key,
                               struct tmk_diag *diag) {
    if (share == 0 || share > TMK_STATS_MOST_THINNED)
        return tmk_fail(diag, TMK_ARGUMENT, "a histogram counts 1/1 to 1/%d of the runs, not 1/%u",
                        TMK_STATS_MOST_THINNED, (unsigned)share);
    if (share > 1 && stats->level != TMK_STATS_HISTOGRAM)
        return tmk_fail(diag, TMK_ARGUMENT, "only histograms can be thinned");
    if (stats->updates || stats->count)
        return tmk_fail(diag, TMK_ARGUMENT, "a state that has seen data cannot be thinned");
    stats->share = share;
    stats->key = key;
    stats->coarse = share > 1 || stats->level != TMK_STATS_HISTOGRAM;
    return TMK_OK;
}

void tmk_stats_thin_as(struct tmk_stats *stats, const struct tmk_stats *other) {
    stats->share = other->share;
    stats->key = other->key;
    stats->coarse = tmk_stats_is_thinned(other) || stats->level != TMK_STATS_HISTOGRAM;
}

void tmk_stats_destroy(struct tmk_stats **stats) {
    struct tmk_stats *s = *stats;
    if (!s)
        return;
    tmk_memory_free(s->wide);
    tmk_stats_unmap(s);
    tmk_channels_finish(&s->channels);
    free(s);
    *stats = NULL;
}

bool tmk_stats_octave_held(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *out) {
    const unsigned bins = tmk_stats_bins_an_octave(stats->level), first = octave * TMK_OCTAVE;
    uint64_t used = 0;
    memset(out->count, 0, bins * sizeof *out->count);
    memset(out->low, 0, bins * sizeof *out->low);
    if (!stats->coarse)
        memset(out->squares, 0, bins * sizeof *out->squares);
    for (uint32_t at = tmk_stats_place_of(stats, first);
         at < stats->n_wide && stats->wide[at].bin < first + TMK_OCTAVE; at++) {
        out->count[stats->wide[at].bin - first] = stats->wide[at].count;
        out->low[stats->wide[at].bin - first] = stats->wide[at].low;
        if (!stats->coarse)
            out->squares[stats->wide[at].bin - first] = stats->wide[at].squares;
    }
    tmk_stats_unpack(stats, octave, out);
    for (unsigned i = 0; i < bins; i++)
        used |= out->count[i];
    return used != 0;
}

bool tmk_next_bin(struct tmk_bin_walk *walk, struct tmk_wide *out) {
    const struct tmk_stats *stats = walk->stats;
    for (; walk->octave < TMK_OCTAVES; walk->octave++, walk->next = 0) {
        if (walk->next == 0 && !tmk_stats_octave(stats, walk->octave, &walk->bins))
            continue;
        while (walk->next < tmk_stats_bins_an_octave(stats->level)) {
            const unsigned i = walk->next++;
            if (!walk->bins.count[i])
                continue;
            *out = (struct tmk_wide){walk->bins.count[i], walk->bins.low[i],
                                     stats->coarse ? 0 : walk->bins.squares[i],
                                     (uint16_t)(walk->octave * TMK_OCTAVE + i)};
            return true;
        }
    }
    return false;
}

enum tmk_stats_level tmk_stats_level_of(const struct tmk_stats *stats) {
    return stats->level;
}

size_t tmk_stats_bytes(const struct tmk_stats *stats) {
    return sizeof *stats + stats->channels.count * 2 * sizeof(float) +
           stats->wide_size * sizeof *stats->wide + tmk_stats_touched(stats);
}
