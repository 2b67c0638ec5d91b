/* SPDX-License-Identifier: Apache-2.0 */
/* Wide counters: one for each bin that was ever used, in the order of bins. */
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "stats/state.h"

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
        tmk_stats_note_octave(stats, more->bin);
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
        tmk_stats_note_octave(stats, more[n].bin);
    }
    if (!narrow)
        tmk_stats_coarsen(stats);
    return true;
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
