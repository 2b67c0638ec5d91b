/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/memory.h"

static const size_t table_bytes = TMK_TABLE * sizeof(uint64_t);

size_t tmk_stats_table_bytes(size_t elements) {
    enum { MOST = 160 << 10, PAGE = 4096 };
    return elements < MOST / PAGE - 1 ? PAGE * (elements + 1) : MOST;
}

size_t tmk_stats_bins_bytes(size_t elements, uint64_t times) {
    uint64_t all;
    if (__builtin_mul_overflow((uint64_t)elements, times, &all) || all > TMK_FEW)
        return tmk_stats_table_bytes(elements);
    return (size_t)all * sizeof(struct tmk_wide);
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

static void unmap_table(struct tmk_stats *stats) {
    if (!stats->table)
        return;
    munmap(stats->table, table_bytes);
    tmk_memory_give(stats->table_counted);
    stats->table = NULL;
}

void tmk_stats_destroy(struct tmk_stats **stats) {
    struct tmk_stats *s = *stats;
    if (!s)
        return;
    tmk_memory_free(s->wide);
    unmap_table(s);
    tmk_channels_finish(&s->channels);
    free(s);
    *stats = NULL;
}

/* ---- wide counters ---- */

bool tmk_stats_reserve(struct tmk_stats *stats, size_t more) {
    size_t need = stats->n_wide + more;
    if (need <= stats->wide_size)
        return true;
    size_t size = more > 1 ? need : need + need / 4 + 3;
    if (size > TMK_TABLE)
        size = TMK_TABLE;
    struct tmk_wide *wide = tmk_memory_resized(stats->wide, size * sizeof *wide);
    if (!wide)
        return false;
    stats->wide = wide;
    stats->wide_size = (uint32_t)size;
    return true;
}

/* The first counter that is not before the bin's place. */
static uint32_t place_of(const struct tmk_stats *stats, unsigned bin) {
    uint32_t low = 0, high = stats->n_wide;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stats->wide[middle].bin < bin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many wide counters are missing for the used bins of an octave. */
static uint32_t fresh_in(const struct tmk_stats *stats, unsigned octave,
                         const struct tmk_octave *from) {
    const unsigned bins = tmk_stats_bins_an_octave(stats->level), first = octave * TMK_OCTAVE;
    uint32_t at = place_of(stats, first), fresh = 0;
    for (unsigned i = 0; i < bins; i++) {
        while (at < stats->n_wide && stats->wide[at].bin < first + i)
            at++;
        fresh += from->count[i] && (at == stats->n_wide || stats->wide[at].bin != first + i);
    }
    return fresh;
}

static void note_octave(struct tmk_stats *stats, unsigned octave) {
    stats->octaves[octave / 64] |= UINT64_C(1) << octave % 64;
}

void tmk_stats_add_bin(struct tmk_stats *stats, unsigned bin, uint64_t count, uint64_t low) {
    uint32_t at = place_of(stats, bin);
    struct tmk_wide *wide = stats->wide + at;
    if (at == stats->n_wide || wide->bin != bin) {
        memmove(wide + 1, wide, (stats->n_wide++ - at) * sizeof *wide);
        *wide = (struct tmk_wide){.bin = (uint16_t)bin};
        note_octave(stats, bin / TMK_OCTAVE);
    }
    wide->count += count;
    wide->low += low;
}

void tmk_stats_add_octave(struct tmk_stats *stats, unsigned octave, const struct tmk_octave *from,
                          uint64_t times) {
    const unsigned bins = tmk_stats_bins_an_octave(stats->level), first = octave * TMK_OCTAVE;
    const uint32_t begin = place_of(stats, first), fresh = fresh_in(stats, octave, from);
    uint32_t end = place_of(stats, first + TMK_OCTAVE);
    struct tmk_wide *wide = stats->wide;
    if (end < stats->n_wide)
        memmove(wide + end + fresh, wide + end, (stats->n_wide - end) * sizeof *wide);
    stats->n_wide += fresh;
    for (unsigned i = bins, to = end + fresh;
         i-- > 0;) { /* from the last, so that each is moved once */
        if (!from->count[i])
            continue;
        while (end > begin && wide[end - 1].bin > first + i)
            wide[--to] = wide[--end];
        if (end > begin && wide[end - 1].bin == first + i)
            wide[--to] = wide[--end];
        else
            wide[--to] = (struct tmk_wide){.bin = (uint16_t)(first + i)};
        wide[to].count += from->count[i] * times;
        wide[to].low += from->low[i] * times;
        note_octave(stats, octave);
    }
}

/* ---- the table ---- */

static bool is_used(const uint64_t *entries) {
    uint64_t any = 0;
    for (unsigned i = 0; i < TMK_OCTAVE; i++)
        any |= entries[i];
    return any != 0;
}

/* Adds the packed entries of one octave to counters of the level's resolution. */
static void unpack(const struct tmk_stats *stats, unsigned octave, const uint64_t *entries,
                   struct tmk_octave *to) {
    bool fold = stats->level == TMK_STATS_RANGE;
    for (unsigned i = 0; i < TMK_OCTAVE; i++) {
        uint64_t unit = tmk_pack_unit(octave * TMK_OCTAVE + i), n = entries[i] / unit,
                 dropped = entries[i] % unit;
        to->count[fold ? 0 : i] += n;
        to->low[fold ? 0 : i] += dropped + (fold ? n * i << 16 : 0);
    }
}

/* Whether finite elements so far can lie there: looking at what was never touched costs a fault a
 * page. */
static bool is_within(const struct tmk_stats *stats, unsigned octave) {
    if (octave % 256 == TMK_SPECIAL)
        return false;
    const int32_t end = octave < 256 ? stats->max.key : stats->min.key;
    if (!tmk_key_is_finite(end))
        return false;
    const uint32_t bits = tmk_bits_of_key(end);
    return bits >> 31 == octave / 256 && octave <= bits >> 23;
}

/* Of the table, where it holds something in the octave. */
static const uint64_t *packed_of(const struct tmk_stats *stats, unsigned octave) {
    const uint64_t *entries = stats->in_table && is_within(stats, octave)
                                  ? stats->table + (size_t)octave * TMK_OCTAVE
                                  : NULL;
    return entries && is_used(entries) ? entries : NULL;
}

bool tmk_stats_octave_held(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *out) {
    const uint64_t *packed = packed_of(stats, octave);
    bool wide = tmk_stats_has_octave(stats, octave);
    if (!packed && !wide)
        return false;
    unsigned bins = tmk_stats_bins_an_octave(stats->level);
    memset(out->count, 0, bins * sizeof *out->count);
    memset(out->low, 0, bins * sizeof *out->low);
    for (uint32_t at = wide ? place_of(stats, octave * TMK_OCTAVE) : stats->n_wide;
         at < stats->n_wide && stats->wide[at].bin / TMK_OCTAVE == octave; at++) {
        out->count[stats->wide[at].bin % TMK_OCTAVE] = stats->wide[at].count;
        out->low[stats->wide[at].bin % TMK_OCTAVE] = stats->wide[at].low;
    }
    if (packed)
        unpack(stats, octave, packed, out);
    return true;
}

size_t tmk_stats_fresh(const struct tmk_stats *dst, const struct tmk_stats *src) {
    struct tmk_octave octave;
    size_t fresh = 0;
    for (unsigned o = 0; o < TMK_OCTAVES; o++)
        if (tmk_stats_octave(src, o, &octave))
            fresh += fresh_in(dst, o, &octave);
    return fresh;
}

/* How many wide counters the table's entries will need that are not there. */
static size_t fresh_of_table(const struct tmk_stats *stats) {
    size_t fresh = 0;
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        struct tmk_octave octave = {{0}, {0}};
        const uint64_t *entries = packed_of(stats, o);
        if (!entries)
            continue;
        unpack(stats, o, entries, &octave);
        fresh += fresh_in(stats, o, &octave);
    }
    return fresh;
}

enum tmk_status tmk_stats_drain(struct tmk_stats *stats, struct tmk_diag *diag) {
    if (!stats->in_table)
        return TMK_OK;
    if (!tmk_stats_reserve(stats, fresh_of_table(stats)))
        return tmk_nomem(diag);
    for (unsigned o = 0; o < TMK_OCTAVES; o++) {
        uint64_t *entries = stats->table + (size_t)o * TMK_OCTAVE;
        if (packed_of(stats, o)) {
            struct tmk_octave octave = {{0}, {0}};
            unpack(stats, o, entries, &octave);
            tmk_stats_add_octave(stats, o, &octave, 1);
        } else if (o % 256 != TMK_SPECIAL || !is_used(entries)) {
            continue;
        }
        memset(entries, 0, TMK_OCTAVE * sizeof *entries);
    }
    stats->in_table = 0;
    return TMK_OK;
}

enum tmk_status tmk_stats_settle(struct tmk_stats *stats, struct tmk_diag *diag) {
    TMK_TRY(tmk_stats_drain(stats, diag));
    unmap_table(stats);
    return TMK_OK;
}

enum tmk_stats_level tmk_stats_level_of(const struct tmk_stats *stats) {
    return stats->level;
}

size_t tmk_stats_bytes(const struct tmk_stats *stats) {
    size_t bytes = sizeof *stats + stats->channels.count * 2 * sizeof(float) +
                   stats->wide_size * sizeof *stats->wide;
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
