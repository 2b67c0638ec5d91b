/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/state.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/memory.h"

static const size_t table_bytes = TMK_TABLE * sizeof(uint64_t);
static const uint64_t low_mask = (UINT64_C(1) << TMK_COUNT_SHIFT) - 1;

size_t tmk_stats_table_bytes(size_t elements) {
    enum { MOST = 160 << 10, PAGE = 4096 };
    return elements < MOST / PAGE - 1 ? PAGE * (elements + 1) : MOST;
}

enum tmk_status tmk_stats_create_with(enum tmk_stats_level level,
                                      const struct tmk_stats_kernel *kernel, struct tmk_stats **out,
                                      struct tmk_diag *diag) {
    if (level != TMK_STATS_RANGE && level != TMK_STATS_HISTOGRAM && level != TMK_STATS_MINMAX)
        return tmk_fail(diag, TMK_ARGUMENT, "%d is no level of statistics", (int)level);
    struct tmk_stats *stats = calloc(1, sizeof *stats);
    if (!stats)
        return tmk_nomem(diag);
    stats->level = level;
    stats->kernel = kernel;
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

void tmk_stats_destroy(struct tmk_stats **stats) {
    struct tmk_stats *s = *stats;
    if (!s)
        return;
    for (unsigned o = 0; o < TMK_OCTAVES; o++)
        tmk_memory_free(s->octave[o]);
    if (s->table) {
        munmap(s->table, table_bytes);
        tmk_memory_give(s->table_counted);
    }
    tmk_channels_finish(&s->channels);
    free(s);
    *stats = NULL;
}

uint64_t *tmk_stats_wide(struct tmk_stats *stats, unsigned octave) {
    uint64_t **wide = &stats->octave[octave];
    if (!*wide)
        *wide =
            tmk_memory_zeroed(2 * (size_t)tmk_stats_bins_an_octave(stats->level) * sizeof **wide);
    return *wide;
}

static bool is_used(const uint64_t *entries) {
    uint64_t any = 0;
    for (unsigned i = 0; i < TMK_OCTAVE; i++)
        any |= entries[i];
    return any != 0;
}

/* Adds the packed entries of one octave to counters of the level's resolution. */
static void unpack(enum tmk_stats_level level, const uint64_t *entries, uint64_t *count,
                   uint64_t *low) {
    bool fold = level == TMK_STATS_RANGE;
    for (unsigned i = 0; i < TMK_OCTAVE; i++) {
        uint64_t n = entries[i] >> TMK_COUNT_SHIFT, dropped = entries[i] & low_mask;
        count[fold ? 0 : i] += n;
        low[fold ? 0 : i] += dropped + (fold ? n * i << 16 : 0);
    }
}

bool tmk_stats_octave(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *out) {
    if (octave % 256 == TMK_SPECIAL)
        return false;
    const uint64_t *entries = stats->in_table ? stats->table + (size_t)octave * TMK_OCTAVE : NULL;
    const uint64_t *wide = stats->octave[octave];
    bool packed = entries && is_used(entries);
    if (!packed && !wide)
        return false;
    unsigned bins = tmk_stats_bins_an_octave(stats->level);
    for (unsigned i = 0; i < bins; i++) {
        out->count[i] = wide ? wide[i] : 0;
        out->low[i] = wide ? wide[bins + i] : 0;
    }
    if (packed)
        unpack(stats->level, entries, out->count, out->low);
    return true;
}

enum tmk_status tmk_stats_drain(struct tmk_stats *stats, struct tmk_diag *diag) {
    if (!stats->in_table)
        return TMK_OK;
    unsigned bins = tmk_stats_bins_an_octave(stats->level);
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        uint64_t *entries = stats->table + (size_t)o * TMK_OCTAVE;
        if (!is_used(entries))
            continue;
        if (o % 256 != TMK_SPECIAL) {
            uint64_t *wide = tmk_stats_wide(stats, o);
            if (!wide)
                return tmk_nomem(diag);
            unpack(stats->level, entries, wide, wide + bins);
        }
        for (unsigned i = 0; i < TMK_OCTAVE; i++)
            entries[i] = 0;
    }
    stats->in_table = 0;
    return TMK_OK;
}

enum tmk_stats_level tmk_stats_level_of(const struct tmk_stats *stats) {
    return stats->level;
}

size_t tmk_stats_bytes(const struct tmk_stats *stats) {
    size_t bytes = sizeof *stats + stats->channels.count * 2 * sizeof(float);
    for (unsigned o = 0; o < TMK_OCTAVES; o++)
        if (stats->octave[o])
            bytes += 2 * (size_t)tmk_stats_bins_an_octave(stats->level) * sizeof(uint64_t);
    long page = sysconf(_SC_PAGESIZE);
    unsigned char resident[TMK_TABLE * sizeof(uint64_t) / 4096];
    if (!stats->table)
        return bytes;
    if (page < 4096 || mincore(stats->table, table_bytes, resident) != 0)
        return bytes + table_bytes;
    for (size_t i = 0; i < (table_bytes + (size_t)page - 1) / (size_t)page; i++)
        bytes += resident[i] & 1 ? (size_t)page : 0;
    return bytes;
}
