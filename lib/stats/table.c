/* SPDX-License-Identifier: Apache-2.0 */
/* The packed table: what is counted element by element, until it moves to the wide counters. Most
 * of its pages are never touched, and looking at such a page costs a fault; so it is read from the
 * highest octaves down, and no further than there are elements. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "stats/state.h"

enum {
    SIGNS = 2,
    EXPONENTS = TMK_OCTAVES / SIGNS,
    SQUARES_COUNTED = 16 << 10 /* bytes: pages that so few bins touch */
};

static const size_t table_bytes = TMK_TABLE * sizeof(uint64_t);

/* Estimates, as measured on convolutional networks and transformers of 2 to 2048 thousand elements
 * a value: each doubling of the elements reaches an octave more of either sign, and half a page. */

static unsigned log2_of(uint64_t n) {
    return n ? 63u - (unsigned)__builtin_clzll(n) : 0;
}

static size_t estimate_table_bytes(uint64_t elements) {
    enum { PAGE = 4096, FIRST = 8 };
    const size_t most = PAGE * (FIRST + log2_of(elements) / 2);
    return elements < most / PAGE ? PAGE * ((size_t)elements + 1) : most;
}

/* As many bins as normally distributed elements use: of few nearly each has one of its own. At
 * RANGE an octave of either sign has one. */
static size_t estimate_wide_bytes(enum tmk_stats_level level, uint64_t elements) {
    enum { OCTAVE_BINS = 283, RARE = 2 };
    const unsigned octave = log2_of(elements);
    if (level == TMK_STATS_RANGE)
        return (size_t)SIGNS * (octave + RARE) * sizeof(struct tmk_wide);
    const uint64_t bins =
        elements <= TMK_FEW
            ? elements * TMK_FEW / (elements + TMK_FEW)
            : TMK_FEW / 2 + OCTAVE_BINS * (octave - log2_of(TMK_FEW)) +
                  (uint64_t)(OCTAVE_BINS * ((double)elements / (double)(1ull << octave) - 1));
    return (size_t)bins * sizeof(struct tmk_wide);
}

static uint64_t count_all(size_t elements, uint64_t times) {
    uint64_t all;
    return __builtin_mul_overflow((uint64_t)elements, times, &all) ? UINT64_MAX : all;
}

size_t tmk_stats_bins_bytes(enum tmk_stats_level level, size_t elements, uint64_t times) {
    return estimate_wide_bytes(level, count_all(elements, times));
}

/* Of what comes before the table. */
static size_t estimate_early_bytes(enum tmk_stats_level level, size_t elements, uint64_t all) {
    return elements <= TMK_FEW && all > TMK_FEW ? estimate_wide_bytes(level, TMK_FEW) : 0;
}

/* Wide counters come before the table, and are made when it is full. */
size_t tmk_stats_counting_bytes(enum tmk_stats_level level, size_t elements, uint64_t times) {
    const uint64_t all = count_all(elements, times);
    return (all > TMK_FEW ? estimate_table_bytes(elements) : 0) +
           (all > TMK_PACK_MAX || all <= TMK_FEW ? estimate_wide_bytes(level, all)
                                                 : estimate_early_bytes(level, elements, all));
}

/* Those from before the table become larger, and leave gaps on the heap that others fill in part.
 */
size_t tmk_stats_finishing_bytes(enum tmk_stats_level level, size_t elements, uint64_t times) {
    const uint64_t all = count_all(elements, times);
    return estimate_wide_bytes(level, all) + estimate_early_bytes(level, elements, all) / 3;
}

/* NULL: no memory. */
static uint64_t *map_counted(size_t counted) {
    if (!tmk_memory_charge(counted))
        return NULL;
    void *table = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        tmk_memory_uncharge(counted);
        return NULL;
    }
#ifdef MADV_NOHUGEPAGE
    (void)madvise(table, table_bytes, MADV_NOHUGEPAGE); /* most of a table is never touched */
#endif
    return table;
}

enum tmk_status tmk_stats_map(struct tmk_stats *stats, size_t elements, struct tmk_diag *diag) {
    stats->table_counted = estimate_table_bytes(elements);
    stats->table = map_counted(stats->table_counted);
    TMK_TRY_ALLOC(stats->table, diag);
    stats->outside = tmk_stats_outside(stats);
    stats->taken = stats->look_at = 0;
    return TMK_OK;
}

static void drop_squares(struct tmk_stats *stats) {
    if (!stats->squares)
        return;
    munmap(stats->squares, table_bytes);
    tmk_memory_uncharge(SQUARES_COUNTED);
    stats->squares = NULL;
}

void tmk_stats_unmap(struct tmk_stats *stats) {
    if (!stats->table)
        return;
    munmap(stats->table, table_bytes);
    tmk_memory_uncharge(stats->table_counted);
    stats->table = NULL;
    drop_squares(stats);
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
static int max_octave(const struct tmk_stats *stats, unsigned sign) {
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
    *out = (struct tmk_wide){count, entry - count * unit, stats->squares ? stats->squares[bin] : 0,
                             (uint16_t)bin};
    return true;
}

/* The used bins of one octave, ascending; how many. */
static size_t list_octave(const struct tmk_stats *stats, unsigned octave, struct tmk_wide *out) {
    const unsigned first = octave * TMK_OCTAVE;
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

void tmk_stats_unpack(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *to) {
    struct tmk_wide bins[TMK_OCTAVE];
    if (!stats->in_table || (int)octave > max_octave(stats, octave / EXPONENTS) ||
        octave % EXPONENTS == TMK_SPECIAL)
        return;
    for (size_t n = list_octave(stats, octave, bins); n-- > 0;) {
        to->count[bins[n].bin % TMK_OCTAVE] += bins[n].count;
        to->low[bins[n].bin % TMK_OCTAVE] += bins[n].low;
        if (stats->squares)
            to->squares[bins[n].bin % TMK_OCTAVE] += bins[n].squares;
    }
}

/* What the table has in use. */
struct bin_range {
    int low[SIGNS], high[SIGNS]; /* octaves; low > high: none */
    size_t bins;                 /* counters for them */
};

static void find_bin_range(const struct tmk_stats *stats, struct bin_range *out) {
    /* a thinned state counts only what is in a bin */
    uint64_t left = stats->in_table -
                    (tmk_stats_is_thinned(stats) ? 0 : tmk_stats_outside(stats) - stats->outside);
    struct tmk_wide bins[TMK_OCTAVE];
    *out = (struct bin_range){.high = {max_octave(stats, 0), max_octave(stats, 1)}};
    for (int sign = 0; sign < SIGNS; sign++)
        out->low[sign] = out->high[sign] + 1;
    for (int exponent = TMK_SPECIAL; left > 0 && exponent-- > 0;)
        for (int sign = 0; sign < SIGNS; sign++) {
            const int octave = sign * EXPONENTS + exponent;
            if (octave > out->high[sign])
                continue;
            const size_t used = list_octave(stats, (unsigned)octave, bins);
            for (size_t i = 0; i < used; i++)
                left -= bins[i].count;
            out->low[sign] = octave;
            out->bins += used;
        }
}

/* All used bins, ascending. */
static void list_bins(const struct tmk_stats *stats, const struct bin_range *bin_range,
                      struct tmk_wide *out) {
    for (int sign = 0; sign < SIGNS; sign++)
        for (int octave = bin_range->low[sign]; octave <= bin_range->high[sign]; octave++)
            out += list_octave(stats, (unsigned)octave, out);
}

static struct tmk_wide *list_apart(const struct tmk_stats *stats,
                                   const struct bin_range *bin_range) {
    struct tmk_wide *bins = malloc((bin_range->bins + 1) * sizeof *bins);
    if (bins)
        list_bins(stats, bin_range, bins);
    return bins;
}

enum tmk_status tmk_stats_list(const struct tmk_stats *stats, struct tmk_wide **out, size_t *n,
                               struct tmk_diag *diag) {
    struct bin_range bin_range;
    find_bin_range(stats, &bin_range);
    *n = bin_range.bins;
    *out = list_apart(stats, &bin_range);
    return *out ? TMK_OK : tmk_nomem(diag);
}

/* ---- squares ---- */

void tmk_stats_coarsen(struct tmk_stats *stats) {
    stats->coarse = true;
    drop_squares(stats);
}

bool tmk_stats_is_narrow(const struct tmk_stats *stats) {
    struct tmk_bin_walk walk = {.stats = stats};
    struct tmk_wide one;
    struct bin_range bin_range;
    uint32_t used = 0;
    if (stats->coarse || !stats->in_table)
        return !stats->coarse;
    find_bin_range(stats, &bin_range);
    if (!stats->n_wide || bin_range.bins > TMK_NARROW)
        return bin_range.bins <= TMK_NARROW;
    while (used <= TMK_NARROW && tmk_next_bin(&walk, &one))
        used++;
    return used <= TMK_NARROW;
}

/* Most values use too many bins from their first tile on: so the bins are counted before there is
 * memory for squares, and again whenever the number of elements has doubled. */
enum tmk_status tmk_stats_add_squares(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n,
                                      struct tmk_diag *diag) {
    uint32_t dropped = 0;
    stats->taken += n;
    if (stats->taken > stats->look_at) {
        stats->look_at = 2 * stats->taken;
        if (!tmk_stats_is_narrow(stats)) {
            tmk_stats_coarsen(stats);
            return TMK_OK;
        }
    }
    if (!stats->squares)
        stats->squares = map_counted(SQUARES_COUNTED);
    TMK_TRY_ALLOC(stats->squares, diag);
    for (size_t i = 0; i < n; i++)
        dropped |= x[i];
    for (size_t i = 0; i < n && (dropped & 0xffffu); i++)
        stats->squares[x[i] >> 16] += (uint64_t)(x[i] & 0xffffu) * (x[i] & 0xffffu);
    return TMK_OK;
}

/* ---- emptying ---- */

static void note_octave(struct tmk_stats *stats, unsigned bin) {
    const unsigned octave = bin / TMK_OCTAVE;
    stats->octaves[octave / 64] |= UINT64_C(1) << octave % 64;
}

/* To the wide counters: right there, where there are none yet. */
static bool move_to_wide(struct tmk_stats *stats, const struct bin_range *bin_range) {
    if (stats->n_wide) {
        struct tmk_wide *bins = list_apart(stats, bin_range);
        const bool added = bins && tmk_stats_add_bins(stats, bins, bin_range->bins, 1);
        free(bins);
        return added;
    }
    if (!tmk_stats_reserve(stats, bin_range->bins))
        return false;
    list_bins(stats, bin_range, stats->wide);
    stats->n_wide = (uint32_t)bin_range->bins;
    for (uint32_t i = 0; i < stats->n_wide; i++)
        note_octave(stats, stats->wide[i].bin);
    if (stats->n_wide > TMK_NARROW)
        tmk_stats_coarsen(stats);
    return true;
}

static void clear_octaves(uint64_t *table, int first, int last) {
    for (int octave = first; octave <= last; octave++)
        memset(table + (size_t)octave * TMK_OCTAVE, 0, TMK_OCTAVE * sizeof *table);
}

enum tmk_status tmk_stats_drain(struct tmk_stats *stats, struct tmk_diag *diag) {
    struct bin_range bin_range;
    if (!stats->in_table)
        return TMK_OK;
    find_bin_range(stats, &bin_range);
    TMK_TRY_ALLOC(move_to_wide(stats, &bin_range), diag);
    for (int sign = 0; sign < SIGNS; sign++) {
        clear_octaves(stats->table, bin_range.low[sign], bin_range.high[sign]);
        if (stats->squares)
            clear_octaves(stats->squares, bin_range.low[sign], bin_range.high[sign]);
        const int special = sign * EXPONENTS + TMK_SPECIAL;
        if (stats->nan + stats->posinf + stats->neginf + stats->excluded > 0)
            clear_octaves(stats->table, special, special);
    }
    stats->in_table = 0;
    stats->outside = tmk_stats_outside(stats);
    return TMK_OK;
}

enum tmk_status tmk_stats_finalize(struct tmk_stats *stats, struct tmk_diag *diag) {
    struct bin_range bin_range;
    if (stats->in_table) {
        find_bin_range(stats, &bin_range);
        TMK_TRY_ALLOC(move_to_wide(stats, &bin_range), diag);
    }
    stats->in_table = 0;
    tmk_stats_unmap(stats);
    return TMK_OK;
}

/* Wide counters: one for each bin that was ever used, in the order of bins. */

bool tmk_stats_reserve(struct tmk_stats *stats, size_t more) {
    const bool shared = tmk_memory_is_shared(stats->wide);
    size_t need = stats->n_wide + more;
    if (need <= stats->wide_size && !shared)
        return true;
    size_t size = more > 1 ? need : need + need / 4 + 3;
    if (size > TMK_TABLE)
        size = TMK_TABLE;
    struct tmk_wide *wide = tmk_memory_resized(shared ? NULL : stats->wide, size * sizeof *wide);
    if (!wide)
        return false;
    if (shared) {
        memcpy(wide, stats->wide, stats->n_wide * sizeof *wide);
        tmk_memory_free(stats->wide);
    }
    stats->wide = wide;
    stats->wide_size = (uint32_t)size;
    return true;
}

uint32_t tmk_stats_place_of(const struct tmk_stats *stats, unsigned bin) {
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

/* False: the sum of squares has left 64 bits. */
static bool add_counts(struct tmk_wide *to, const struct tmk_wide *more, uint64_t times) {
    uint64_t squares;
    to->count += more->count * times;
    to->low += more->low * times;
    return !__builtin_mul_overflow(more->squares, times, &squares) &&
           !__builtin_add_overflow(to->squares, squares, &to->squares);
}

void tmk_stats_add_bin(struct tmk_stats *stats, const struct tmk_wide *more) {
    uint32_t at = tmk_stats_place_of(stats, more->bin);
    struct tmk_wide *wide = stats->wide + at;
    if (at == stats->n_wide || wide->bin != more->bin) {
        memmove(wide + 1, wide, (stats->n_wide++ - at) * sizeof *wide);
        *wide = (struct tmk_wide){.bin = more->bin};
        note_octave(stats, more->bin);
    }
    if (!add_counts(wide, more, 1) || stats->n_wide > TMK_NARROW)
        tmk_stats_coarsen(stats);
}

uint32_t tmk_stats_fresh(const struct tmk_stats *stats, const struct tmk_wide *more, size_t n) {
    uint32_t at = n ? tmk_stats_place_of(stats, more[0].bin) : 0, fresh = 0;
    for (size_t i = 0; i < n; i++) {
        while (at < stats->n_wide && stats->wide[at].bin < more[i].bin)
            at++;
        fresh += at == stats->n_wide || stats->wide[at].bin != more[i].bin;
    }
    return fresh;
}

bool tmk_stats_add_bins(struct tmk_stats *stats, const struct tmk_wide *more, size_t n,
                        uint64_t times) {
    const uint32_t fresh = tmk_stats_fresh(stats, more, n);
    if (!tmk_stats_reserve(stats, fresh))
        return false;
    struct tmk_wide *wide = stats->wide;
    uint32_t from = stats->n_wide, to = from + fresh;
    bool narrow = to <= TMK_NARROW;
    stats->n_wide = to;
    while (n-- > 0) { /* from the last, so that each is moved once */
        while (from > 0 && wide[from - 1].bin > more[n].bin)
            wide[--to] = wide[--from];
        if (from > 0 && wide[from - 1].bin == more[n].bin)
            wide[--to] = wide[--from];
        else
            wide[--to] = (struct tmk_wide){.bin = more[n].bin};
        narrow &= add_counts(&wide[to], &more[n], times);
        note_octave(stats, more[n].bin);
    }
    if (!narrow)
        tmk_stats_coarsen(stats);
    return true;
}

void tmk_stats_share_bins(struct tmk_stats *stats, const struct tmk_stats *with) {
    tmk_memory_free(stats->wide);
    stats->wide = tmk_memory_share(with->wide);
    stats->n_wide = with->n_wide;
    stats->wide_size = with->wide_size;
    memcpy(stats->octaves, with->octaves, sizeof stats->octaves);
}

/* ---- few elements ---- */

/* In the order of one of the two bytes that make a bin. */
static void sort_by_byte(const uint32_t *from, uint32_t *to, size_t n, unsigned shift) {
    uint32_t place[256] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        place[from[i] >> shift & 0xff]++;
    for (size_t b = 0; b < TMK_COUNT(place); b++) {
        const uint32_t some = place[b];
        place[b] = sum;
        sum += some;
    }
    for (size_t i = 0; i < n; i++)
        to[place[from[i] >> shift & 0xff]++] = from[i];
}

void tmk_sort_by_bin(uint32_t *bits, size_t n) {
    enum { A_FEW = 32 };
    uint32_t other[TMK_TILE];
    if (n > A_FEW) {
        sort_by_byte(bits, other, n, 16);
        sort_by_byte(other, bits, n, 24);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        const uint32_t one = bits[i];
        size_t at = i;
        for (; at > 0 && bits[at - 1] >> 16 > one >> 16; at--)
            bits[at] = bits[at - 1];
        bits[at] = one;
    }
}
