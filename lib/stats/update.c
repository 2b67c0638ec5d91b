/* SPDX-License-Identifier: Apache-2.0 */
/* Observing a tensor: tile by tile through the kernel; a tile is looked at again only when it holds
 * a NaN or an infinity, or a better extreme than any before (then to find where). */
#include "stats/state.h"

#include <sys/mman.h>

#include "base/diag.h"

/* Where the tensor's elements stand. */
struct place {
    uint64_t sample;
    size_t part; /* elements a sample */
};

static struct tmk_where where(const struct place *place, size_t element) {
    return (struct tmk_where){place->sample + element / place->part, element % place->part};
}

static enum tmk_status map_table(struct tmk_stats *stats, struct tmk_diag *diag) {
    if (stats->table)
        return TMK_OK;
    size_t bytes = TMK_TABLE * sizeof *stats->table;
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return tmk_nomem(diag);
#ifdef MADV_NOHUGEPAGE
    (void)madvise(table, bytes, MADV_NOHUGEPAGE); /* most of a table is never touched */
#endif
    stats->table = table;
    return TMK_OK;
}

static size_t find(const tmk_loose_bits *x, size_t n, uint32_t bits) {
    size_t i = 0;
    while (i + 1 < n && x[i] != bits)
        i++;
    return i;
}

/* The extremes of a tile of finite elements; `first` is its first element's index in the tensor. */
static void take_extremes(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n, size_t first,
                          const struct place *place, const struct tmk_facts *facts) {
    int32_t min = tmk_facts_min(facts), max = tmk_facts_max(facts);
    if (min < stats->min.key ||
        (min == stats->min.key && tmk_where_before(where(place, first), stats->min.at)))
        tmk_extreme_lower(
            &stats->min,
            (struct tmk_extreme){min, where(place, first + find(x, n, tmk_bits_of_key(min)))});
    if (max > stats->max.key ||
        (max == stats->max.key && tmk_where_before(where(place, first), stats->max.at)))
        tmk_extreme_raise(
            &stats->max,
            (struct tmk_extreme){max, where(place, first + find(x, n, tmk_bits_of_key(max)))});
}

/* A tile that holds NaN or infinities, element by element. */
static void take_special(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n, size_t first,
                         const struct place *place) {
    for (size_t i = 0; i < n; i++) {
        int32_t key = tmk_key_of_bits(x[i]);
        if (tmk_key_is_finite(key)) {
            if (key <= stats->min.key)
                tmk_extreme_lower(&stats->min, (struct tmk_extreme){key, where(place, first + i)});
            if (key >= stats->max.key)
                tmk_extreme_raise(&stats->max, (struct tmk_extreme){key, where(place, first + i)});
            continue;
        }
        stats->posinf += key == TMK_KEY_POSINF;
        stats->neginf += key == TMK_KEY_NEGINF;
        stats->nan += key != TMK_KEY_POSINF && key != TMK_KEY_NEGINF;
        tmk_where_earlier(&stats->first_nonfinite, where(place, first + i));
    }
}

/* *all_finite: of this tensor. */
static enum tmk_status take_tiles(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n,
                                  const struct place *place, bool *all_finite,
                                  struct tmk_diag *diag) {
    *all_finite = true;
    for (size_t done = 0; done < n;) {
        size_t m = n - done < TMK_TILE ? n - done : TMK_TILE;
        if (m > TMK_PACK_MAX - stats->in_table)
            TMK_TRY(tmk_stats_drain(stats, diag));
        struct tmk_facts facts;
        stats->kernel->tile(x + done, m, stats->table, &facts);
        stats->in_table += (uint32_t)m;
        stats->zeros += facts.zeros;
        stats->negative_zeros += facts.negative_zeros;
        if (tmk_facts_all_finite(&facts)) {
            take_extremes(stats, x + done, m, done, place, &facts);
        } else {
            *all_finite = false;
            take_special(stats, x + done, m, done, place);
        }
        done += m;
    }
    return TMK_OK;
}

static enum tmk_status check(const struct tmk_stats *stats, const struct tmk_shape *shape,
                             const struct tmk_stats_at *at, size_t *n, struct tmk_diag *diag) {
    char text[256];
    uint64_t unused;
    if (!tmk_shape_count(shape, n))
        return tmk_fail(diag, TMK_SHAPE, "a tensor of shape %s cannot be observed",
                        tmk_shape_text(shape, text, sizeof text));
    if (at->channel_axis < -1)
        return tmk_fail(diag, TMK_ARGUMENT, "%d is no channel axis", (int)at->channel_axis);
    if (__builtin_add_overflow(at->sample, at->samples, &unused) ||
        __builtin_add_overflow(stats->samples, at->samples, &unused))
        return tmk_fail(diag, TMK_ARGUMENT, "sample indices overflow");
    if (*n > tmk_stats_limit(stats->level) - stats->count)
        return tmk_fail(diag, TMK_RANGE, "more elements than statistics can count");
    return TMK_OK;
}

enum tmk_status tmk_stats_update(struct tmk_stats *stats, const float *x,
                                 const struct tmk_shape *shape, const struct tmk_stats_at *at,
                                 struct tmk_diag *diag) {
    size_t n;
    TMK_TRY(check(stats, shape, at, &n, diag));
    if (n > 0) {
        const tmk_loose_bits *bits = (const void *)x;
        bool by_channel = at->channel_axis >= 0 && at->channel_axis < shape->rank, all_finite;
        size_t channels = by_channel ? (size_t)shape->dim[at->channel_axis] : 0;
        bool by_sample =
            shape->rank > 0 && at->samples > 1 && (uint64_t)shape->dim[0] == at->samples;
        struct place place = {at->sample, by_sample ? n / (size_t)at->samples : n};
        TMK_TRY(map_table(stats, diag));
        TMK_TRY(tmk_channels_join(&stats->channels, stats->count,
                                  by_channel ? TMK_CHANNELS_KNOWN : TMK_CHANNELS_NONE,
                                  by_channel ? at->channel_axis : -1, channels, diag));
        TMK_TRY(take_tiles(stats, bits, n, &place, &all_finite, diag));
        if (stats->channels.kind == TMK_CHANNELS_KNOWN)
            tmk_channels_update(&stats->channels, stats->kernel, bits, shape, all_finite);
        stats->count += n;
    }
    stats->samples += at->again ? 0 : at->samples;
    stats->updates++;
    return TMK_OK;
}
