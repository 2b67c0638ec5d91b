/* SPDX-License-Identifier: Apache-2.0 */
/* The packed table: what is counted element by element, until it moves to the wide counters. Most
 * of its pages are never touched, and looking at such a page costs a fault; so it is read from the
 * highest octaves down, and no further than there are elements. */
#include "stats/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/memory.h"

enum { SIGNS = 2, EXPONENTS = TMK_OCTAVES / SIGNS };

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

enum tmk_status tmk_stats_map(struct tmk_stats *stats, size_t elements, struct tmk_diag *diag) {
    const size_t counted = tmk_stats_table_bytes(elements);
    if (!tmk_memory_take(counted))
        return tmk_nomem(diag);
    void *table = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        tmk_memory_give(counted);
        return tmk_nomem(diag);
    }
#ifdef MADV_NOHUGEPAGE
    (void)madvise(table, table_bytes, MADV_NOHUGEPAGE); /* most of a table is never touched */
#endif
    stats->table = table;
    stats->table_counted = counted;
    stats->outside = tmk_stats_outside(stats);
    return TMK_OK;
}

void tmk_stats_unmap(struct tmk_stats *stats) {
    if (!stats->table)
        return;
    munmap(stats->table, table_bytes);
    tmk_memory_give(stats->table_counted);
    stats->table = NULL;
}

size_t tmk_stats_touched(const struct tmk_stats *stats) {
    const long page = sysconf(_SC_PAGESIZE);
    unsigned char resident[TMK_TABLE * sizeof(uint64_t) / 4096];
    size_t bytes = 0;
    if (!stats->table)
        return 0;
    if (page < 4096 || mincore(stats->table, table_bytes, resident) != 0)
        return table_bytes;
    for (size_t i = 0; i < (table_bytes + (size_t)page - 1) / (size_t)page; i++)
        bytes += resident[i] & 1 ? (size_t)page : 0;
    return bytes;
}

/* ---- reading ---- */

/* Of one sign, the octave up to which it can have elements; -1: none. */
static int highest(const struct tmk_stats *stats, unsigned sign) {
    const int32_t end = sign ? stats->min.key : stats->max.key;
    const uint32_t bits = tmk_bits_of_key(end);
    return tmk_key_is_finite(end) && bits >> 31 == sign ? (int)(bits >> 23) : -1;
}

static bool unpack_bin(const struct tmk_stats *stats, unsigned bin, struct tmk_wide *out) {
    const uint64_t entry = stats->table[bin], unit = tmk_pack_unit(bin);
    if (!entry)
        return false;
    /* A division of doubles, which is quicker, and exact here: quotients are below 2^24, and their
     * fractions multiples of 1 / (unit / 2^16), which is less than 2^25. */
    const double quotient = (double)(int64_t)(entry >> 16) / (double)(int64_t)(unit >> 16);
    const uint64_t count = (uint64_t)(int64_t)quotient;
    *out = (struct tmk_wide){count, entry - count * unit, (uint16_t)bin};
    return true;
}

void tmk_stats_unpack(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *to) {
    const bool fold = stats->level == TMK_STATS_RANGE;
    const unsigned first = octave * TMK_OCTAVE;
    struct tmk_wide one;
    if (!stats->in_table || (int)octave > highest(stats, octave / EXPONENTS) ||
        octave % EXPONENTS == TMK_SPECIAL)
        return;
    for (unsigned i = 0; i < TMK_OCTAVE; i++)
        if (unpack_bin(stats, first + i, &one)) {
            to->count[fold ? 0 : i] += one.count;
            to->low[fold ? 0 : i] += one.low + (fold ? one.count * i << 16 : 0);
        }
}

/* What the table has in use. */
struct extent {
    int low[SIGNS], high[SIGNS]; /* octaves; low > high: none */
    size_t bins;                 /* entries, at most */
};

static void find_extent(const struct tmk_stats *stats, struct extent *out) {
    uint64_t left = stats->in_table - (tmk_stats_outside(stats) - stats->outside);
    struct tmk_wide one;
    *out = (struct extent){.high = {highest(stats, 0), highest(stats, 1)}};
    for (int sign = 0; sign < SIGNS; sign++)
        out->low[sign] = out->high[sign] + 1;
    for (int exponent = TMK_SPECIAL; left > 0 && exponent-- > 0;)
        for (int sign = 0; sign < SIGNS; sign++) {
            const int octave = sign * EXPONENTS + exponent;
            size_t used = 0;
            if (octave > out->high[sign])
                continue;
            out->low[sign] = octave;
            for (unsigned i = 0; i < TMK_OCTAVE; i++)
                if (unpack_bin(stats, (unsigned)octave * TMK_OCTAVE + i, &one)) {
                    used++;
                    left -= one.count;
                }
            out->bins += stats->level == TMK_STATS_RANGE ? used > 0 : used;
        }
}

/* The used bins of one octave, ascending; how many. */
static size_t list_octave(const struct tmk_stats *stats, int octave, struct tmk_wide *out) {
    const unsigned first = (unsigned)octave * TMK_OCTAVE;
    struct tmk_wide one, all = {.bin = (uint16_t)first};
    size_t n = 0;
    for (unsigned i = 0; i < TMK_OCTAVE; i++)
        if (unpack_bin(stats, first + i, &one)) {
            all.count += one.count;
            all.low += one.low + (one.count * i << 16);
            if (stats->level != TMK_STATS_RANGE)
                out[n++] = one;
        }
    if (stats->level == TMK_STATS_RANGE && all.count)
        out[n++] = all;
    return n;
}

static size_t list(const struct tmk_stats *stats, const struct extent *extent,
                   struct tmk_wide *out) {
    size_t n = 0;
    for (int sign = 0; sign < SIGNS; sign++)
        for (int octave = extent->low[sign]; octave <= extent->high[sign]; octave++)
            n += list_octave(stats, octave, out + n);
    return n;
}

enum tmk_status tmk_stats_list(const struct tmk_stats *stats, struct tmk_wide **out, size_t *n,
                               struct tmk_diag *diag) {
    struct extent extent;
    find_extent(stats, &extent);
    struct tmk_wide *bins = malloc((extent.bins + 1) * sizeof *bins);
    if (!bins)
        return tmk_nomem(diag);
    *n = list(stats, &extent, bins);
    *out = bins;
    return TMK_OK;
}

/* ---- emptying ---- */

static enum tmk_status move_among(struct tmk_stats *stats, struct tmk_diag *diag) {
    struct tmk_wide *bins;
    size_t n;
    TMK_TRY(tmk_stats_list(stats, &bins, &n, diag));
    const bool ok = tmk_stats_reserve(stats, tmk_stats_fresh(stats, bins, n));
    if (ok)
        tmk_stats_add_bins(stats, bins, n, 1);
    free(bins);
    return ok ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status move(struct tmk_stats *stats, const struct extent *extent,
                            struct tmk_diag *diag) {
    if (stats->n_wide)
        return move_among(stats, diag);
    if (!tmk_stats_reserve(stats, extent->bins))
        return tmk_nomem(diag);
    stats->n_wide = (uint32_t)list(stats, extent, stats->wide);
    for (uint32_t i = 0; i < stats->n_wide; i++)
        tmk_stats_note_octave(stats, stats->wide[i].bin);
    return TMK_OK;
}

static void clear(uint64_t *table, int first, int last) {
    for (int octave = first; octave <= last; octave++)
        memset(table + (size_t)octave * TMK_OCTAVE, 0, TMK_OCTAVE * sizeof *table);
}

enum tmk_status tmk_stats_drain(struct tmk_stats *stats, struct tmk_diag *diag) {
    struct extent extent;
    if (!stats->in_table)
        return TMK_OK;
    find_extent(stats, &extent);
    TMK_TRY(move(stats, &extent, diag));
    for (int sign = 0; sign < SIGNS; sign++) {
        clear(stats->table, extent.low[sign], extent.high[sign]);
        const int special = sign * EXPONENTS + TMK_SPECIAL;
        if (stats->nan + stats->posinf + stats->neginf + stats->excluded > 0)
            clear(stats->table, special, special);
    }
    stats->in_table = 0;
    stats->outside = tmk_stats_outside(stats);
    return TMK_OK;
}

enum tmk_status tmk_stats_settle(struct tmk_stats *stats, struct tmk_diag *diag) {
    struct extent extent;
    if (stats->in_table) {
        find_extent(stats, &extent);
        TMK_TRY(move(stats, &extent, diag));
    }
    stats->in_table = 0;
    tmk_stats_unmap(stats);
    return TMK_OK;
}
