/* SPDX-License-Identifier: Apache-2.0 */
/* Observing a tensor: tile by tile through the kernel; a tile is looked at again only when it holds
 * a NaN or an infinity, or a better extreme than any before (then to find where). */
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "stats/shadow.h"
#include "stats/tile.h"
#include "tensor/positions.h"
#include "tensor/shape.h"

/* Since the batch before, other values' tables were in the caches. What is rare costs most then:
 * it misses a line at a time, and waits each time. So all octaves in which a batch is likely to
 * have elements are asked for at once, those below the extremes so far; of a wider value the rest
 * is only slower. Measured on DenseNet-121 and MobileNetV2: 5 to 7 % of a profile. */
static void fetch_table(const struct tmk_stats *stats) {
    enum { DEPTH = 24, LINE = 64 };
    const int32_t ends[2] = {stats->max.key, stats->min.key};
    for (uint32_t sign = 0; sign < TMK_COUNT(ends); sign++) {
        const uint32_t bits = tmk_bits_of_key(ends[sign]), exponent = bits >> 23 & 0xff;
        if (!tmk_key_is_finite(ends[sign]) || bits >> 31 != sign)
            continue;
        const uint32_t last = sign << 8 | exponent, n = exponent < DEPTH ? exponent + 1 : DEPTH;
        const char *end = (const char *)(stats->table + (size_t)(last + 1) * TMK_OCTAVE);
        for (const char *line = end - (size_t)n * TMK_OCTAVE * sizeof *stats->table; line < end;
             line += LINE)
            __builtin_prefetch(line, 1);
    }
    __asm__ volatile("" ::: "memory"); /* gcc leaves out calls of what does nothing but prefetch */
}

/* The lowest in the tensor of those with these bits; there is one. */
static size_t find_element(const struct tmk_tile *tile, uint32_t bits) {
    for (size_t lane = 0; lane < tile->width; lane++)
        for (size_t k = lane; k < tile->n; k += tile->width)
            if (tile->x[k] == bits)
                return tmk_tile_logical(tile, k);
    return tile->first;
}

/* The extremes of a tile of finite elements. */
static void take_extremes(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                          const struct tmk_tile_summary *summary) {
    struct tmk_stats *stats = pass->stats;
    int32_t min = tmk_tile_min(summary), max = tmk_tile_max(summary);
    pass->min_key = min < pass->min_key ? min : pass->min_key;
    pass->max_key = max > pass->max_key ? max : pass->max_key;
    if (min < stats->min.key ||
        (min == stats->min.key &&
         tmk_where_before(tmk_tile_where(pass, tile->first), stats->min.at)))
        tmk_extreme_lower(&stats->min,
                          (struct tmk_extreme){
                              min, tmk_tile_where(pass, find_element(tile, tmk_bits_of_key(min)))});
    if (max > stats->max.key ||
        (max == stats->max.key &&
         tmk_where_before(tmk_tile_where(pass, tile->first), stats->max.at)))
        tmk_extreme_update(
            &stats->max, (struct tmk_extreme){
                             max, tmk_tile_where(pass, find_element(tile, tmk_bits_of_key(max)))});
}

/* What stands in for elements that are left out, and the NaN that all others become meanwhile. */
enum { LEFT_OUT = 0x7fffffff, OTHER_NAN = 0x7fc00000 };

static bool leaves_out(const struct tmk_stats_pass *pass) {
    return pass->n_excluded || pass->at.padding;
}

/* A tile that holds NaN or infinities, element by element. */
static void take_special(struct tmk_stats_pass *pass, const struct tmk_tile *tile) {
    struct tmk_stats *stats = pass->stats;
    for (size_t k = 0; k < tile->n; k++) {
        int32_t key = tmk_key_of_bits(tile->x[k]);
        if (tmk_key_is_finite(key)) {
            pass->min_key = key < pass->min_key ? key : pass->min_key;
            pass->max_key = key > pass->max_key ? key : pass->max_key;
            if (key > stats->min.key && key < stats->max.key)
                continue;
            struct tmk_extreme extreme = {key, tmk_tile_where(pass, tmk_tile_logical(tile, k))};
            tmk_extreme_lower(&stats->min, extreme);
            tmk_extreme_update(&stats->max, extreme);
            continue;
        }
        if (leaves_out(pass) && tile->x[k] == LEFT_OUT) {
            stats->excluded++;
            continue;
        }
        stats->posinf += key == TMK_KEY_POSINF;
        stats->neginf += key == TMK_KEY_NEGINF;
        stats->nan += key != TMK_KEY_POSINF && key != TMK_KEY_NEGINF;
        tmk_where_earlier(&stats->first_nonfinite, tmk_tile_where(pass, tmk_tile_logical(tile, k)));
    }
}

static enum tmk_status take_facts(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                  const struct tmk_tile_summary *summary, struct tmk_diag *diag) {
    struct tmk_stats *stats = pass->stats;
    stats->zeros += summary->zeros;
    stats->negative_zeros += summary->negative_zeros;
    stats->sparse = tmk_tile_sparse(summary, tile->n);
    if (tmk_tile_all_finite(summary))
        take_extremes(pass, tile, summary);
    else
        take_special(pass, tile);
    if (pass->each)
        tmk_minmax_add_tile(pass, tile, summary);
    if (stats->table && !stats->coarse)
        TMK_TRY(tmk_stats_add_squares(stats, tile->x, tile->n, diag));
    return pass->shadow ? tmk_shadow_update(pass, tile, summary, diag) : TMK_OK;
}

static enum tmk_status reserve_counters(struct tmk_stats *stats, size_t n, struct tmk_diag *diag) {
    if (!stats->table)
        return TMK_OK;
    if (n > TMK_PACK_MAX - stats->in_table)
        TMK_TRY(tmk_stats_drain(stats, diag));
    stats->in_table += (uint32_t)n;
    return TMK_OK;
}

/* Into the wide counters: a table would cost far more than so few elements. At most TMK_TILE. */
static enum tmk_status take_few(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n,
                                struct tmk_diag *diag) {
    const uint32_t dropped = stats->level == TMK_STATS_HISTOGRAM ? 0xffffu : 0x7fffffu;
    uint32_t kept[TMK_TILE];
    struct tmk_wide bins[TMK_TILE];
    size_t n_kept = 0, n_bins = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = x[i];
        kept[n_kept] = bits;
        n_kept += (bits & 0x7fffffffu) != 0 && (bits & 0x7f800000u) != 0x7f800000u;
    }
    tmk_sort_by_bin(kept, n_kept);
    for (size_t i = 0; i < n_kept; i++) {
        const uint16_t bin = (uint16_t)((kept[i] & ~dropped) >> 16);
        if (n_bins == 0 || bins[n_bins - 1].bin != bin)
            bins[n_bins++] = (struct tmk_wide){.bin = bin};
        bins[n_bins - 1].count++;
        const uint64_t low = kept[i] & dropped;
        bins[n_bins - 1].low += low;
        bins[n_bins - 1].squares += low * low;
    }
    return tmk_stats_add_bins(stats, bins, n_bins, 1) ? TMK_OK : tmk_nomem(diag);
}

static bool takes_few(const struct tmk_stats *stats) {
    return tmk_stats_has_bins(stats->level) && !stats->table;
}

/* Of a thinned state, whose tile was scanned. */
static enum tmk_status take_thinned(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                    const struct tmk_tile_summary *summary, struct tmk_diag *diag) {
    struct tmk_stats *stats = pass->stats;
    struct tmk_tile_summary of_kept;
    uint32_t kept[TMK_TILE];
    tmk_thin_sum(stats, tile, summary);
    const size_t n = tmk_thin_gather(pass, tile, summary, kept);
    if (n == 0)
        return TMK_OK;
    if (!stats->table)
        return take_few(stats, kept, n, diag);
    TMK_TRY(reserve_counters(stats, n, diag));
    if (!summary->zeros && !summary->negative_zeros) {
        stats->kernel->scatter(kept, n, summary, stats->table);
        return TMK_OK;
    }
    stats->kernel->tile(kept, n, stats->sparse, NULL, stats->table, &of_kept);
    stats->in_table -= of_kept.zeros + of_kept.negative_zeros;
    return TMK_OK;
}

/* At most TMK_TILE elements. */
static enum tmk_status measure_tile(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                    const struct tmk_columns *lanes,
                                    struct tmk_tile_summary *summary, struct tmk_diag *diag) {
    struct tmk_stats *stats = pass->stats;
    if (tmk_stats_is_thinned(stats)) {
        stats->kernel->scan(tile->x, tile->n, lanes, summary);
        TMK_TRY(take_thinned(pass, tile, summary, diag));
        return take_facts(pass, tile, summary, diag);
    }
    TMK_TRY(reserve_counters(stats, tile->n, diag));
    if (stats->table)
        stats->kernel->tile(tile->x, tile->n, stats->sparse, lanes, stats->table, summary);
    else
        stats->kernel->scan(tile->x, tile->n, lanes, summary);
    if (takes_few(stats))
        TMK_TRY(take_few(stats, tile->x, tile->n, diag));
    return take_facts(pass, tile, summary, diag);
}

/* ---- row-major ---- */

/* Runs of one channel this long are measured one by one; shorter ones column by column. */
enum { LONG_RUN = 24 };

static void take_run(struct tmk_channels *channels, size_t channel, const tmk_loose_bits *x,
                     size_t n, const struct tmk_tile_summary *summary) {
    if (tmk_tile_all_finite(summary)) {
        tmk_channels_update(channels, channel, tmk_tile_min(summary), tmk_tile_max(summary));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t key = tmk_key_of_bits(x[i]);
        if (tmk_key_is_finite(key))
            tmk_channels_update(channels, channel, key, key);
    }
}

/* unsigned_min comes out right when all are of one sign, which is where it is asked. */
static void add_facts(struct tmk_tile_summary *all, const struct tmk_tile_summary *one) {
    all->signed_max = one->signed_max > all->signed_max ? one->signed_max : all->signed_max;
    all->unsigned_max =
        one->unsigned_max > all->unsigned_max ? one->unsigned_max : all->unsigned_max;
    all->unsigned_min =
        one->unsigned_min < all->unsigned_min ? one->unsigned_min : all->unsigned_min;
    all->zeros += one->zeros;
    all->negative_zeros += one->negative_zeros;
}

/* A tile of whole and broken runs: all runs' summary together are the tile's. */
static enum tmk_status take_runs(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                 struct tmk_diag *diag) {
    struct tmk_stats *stats = pass->stats;
    size_t inner = pass->inner, run = tile->first / inner, left = inner - tile->first % inner;
    size_t channel = run % pass->channels;
    struct tmk_tile_summary summary, all = {INT32_MIN, 0, UINT32_MAX, 0, 0};
    if (left >= tile->n) {
        TMK_TRY(measure_tile(pass, tile, NULL, &summary, diag));
        take_run(&stats->channels, channel, tile->x, tile->n, &summary);
        return TMK_OK;
    }
    for (size_t done = 0, n; done < tile->n; done += n, left = inner) {
        n = left < tile->n - done ? left : tile->n - done;
        stats->kernel->scan(tile->x + done, n, NULL, &summary);
        take_run(&stats->channels, channel, tile->x + done, n, &summary);
        add_facts(&all, &summary);
        channel = channel + 1 < pass->channels ? channel + 1 : 0;
    }
    if (tmk_stats_is_thinned(stats)) {
        TMK_TRY(take_thinned(pass, tile, &all, diag));
        return take_facts(pass, tile, &all, diag);
    }
    TMK_TRY(reserve_counters(stats, tile->n, diag));
    if (stats->table)
        stats->kernel->scatter(tile->x, tile->n, &all, stats->table);
    if (takes_few(stats))
        TMK_TRY(take_few(stats, tile->x, tile->n, diag));
    return take_facts(pass, tile, &all, diag);
}

static enum tmk_status take_row_major(struct tmk_stats_pass *pass, const tmk_loose_bits *x,
                                      size_t first, size_t n, struct tmk_diag *diag) {
    bool by_run = pass->channels > 0 && pass->inner >= LONG_RUN, all_finite = true;
    for (size_t done = 0; done < n;) {
        size_t m = n - done < TMK_TILE ? n - done : TMK_TILE;
        struct tmk_tile tile = {x + done, m, first + done, 1, 0};
        struct tmk_tile_summary summary;
        if (by_run)
            TMK_TRY(take_runs(pass, &tile, diag));
        else
            TMK_TRY(measure_tile(pass, &tile, NULL, &summary, diag));
        all_finite = all_finite && (by_run || tmk_tile_all_finite(&summary));
        done += m;
    }
    if (pass->channels > 0 && !by_run)
        tmk_channels_add(&pass->stats->channels, pass->stats->kernel, x, first, n, pass->inner,
                         all_finite);
    return TMK_OK;
}

/* ---- blocked ---- */

/* Channels of a tile, element by element. */
static void take_channels(const struct tmk_stats_pass *pass, const struct tmk_tile *tile) {
    for (size_t k = 0; k < tile->n; k++) {
        int32_t key = tmk_key_of_bits(tile->x[k]);
        if (tmk_key_is_finite(key))
            tmk_channels_update(&pass->stats->channels,
                                tmk_tile_logical(tile, k) / pass->inner % pass->channels, key, key);
    }
}

/* A tile of whole rows; its first element is of index `first_lane` of the axis that is cut. */
static enum tmk_status take_lanes(struct tmk_stats_pass *pass, const struct tmk_tile *tile,
                                  size_t first_lane, struct tmk_diag *diag) {
    struct tmk_channels *channels = &pass->stats->channels;
    struct tmk_tile_summary summary;
    bool fast = pass->channels > 0 && pass->at.channel_axis == 1 &&
                (tile->width == TMK_LANES || tile->width == TMK_LANES / 2);
    struct tmk_columns lanes = {0, NULL, NULL};
    if (fast)
        lanes = (struct tmk_columns){tile->width, (void *)(channels->min + first_lane),
                                     (void *)(channels->max + first_lane)};
    TMK_TRY(measure_tile(pass, tile, fast ? &lanes : NULL, &summary, diag));
    if (pass->channels > 0 && !(fast && tmk_tile_all_finite(&summary)))
        take_channels(pass, tile);
    return TMK_OK;
}

static void gather_rows(const tmk_loose_bits *x, size_t rows, size_t block, size_t lanes,
                        uint32_t *to) {
    if (lanes == TMK_LANES / 2) /* of a size that is known: some instructions instead of a call */
        for (size_t r = 0; r < rows; r++)
            memcpy(to + r * (TMK_LANES / 2), x + r * block, TMK_LANES / 2 * sizeof *to);
    else
        for (size_t r = 0; r < rows; r++)
            memcpy(to + r * lanes, x + r * block, lanes * sizeof *to);
}

/* Rows of which only the first `valid` of `block` elements count. */
static enum tmk_status take_padded(struct tmk_stats_pass *pass, const tmk_loose_bits *x,
                                   size_t rows, size_t valid, size_t first, size_t first_lane,
                                   struct tmk_diag *diag) {
    uint32_t kept[TMK_TILE];
    size_t block = pass->at.block;
    for (size_t done = 0, lanes; done < valid; done += lanes) {
        lanes = valid - done < TMK_TILE ? valid - done : TMK_TILE;
        size_t most = TMK_TILE / lanes;
        for (size_t row = 0, m; row < rows; row += m) {
            m = rows - row < most ? rows - row : most;
            gather_rows(x + row * block + done, m, block, lanes, kept);
            struct tmk_tile tile = {kept, m * lanes, first + done * pass->rows + row, lanes,
                                    pass->rows};
            TMK_TRY(take_lanes(pass, &tile, first_lane + done, diag));
        }
    }
    return TMK_OK;
}

/* Whole rows of one block. */
static enum tmk_status take_rows(struct tmk_stats_pass *pass, const tmk_loose_bits *x, size_t rows,
                                 size_t valid, size_t first, size_t first_lane,
                                 struct tmk_diag *diag) {
    size_t block = pass->at.block, most = TMK_TILE / block;
    if (valid < block || block > TMK_TILE)
        return take_padded(pass, x, rows, valid, first, first_lane, diag);
    for (size_t row = 0, m; row < rows; row += m) {
        m = rows - row < most ? rows - row : most;
        struct tmk_tile tile = {x + row * block, m * block, first + row, block, pass->rows};
        TMK_TRY(take_lanes(pass, &tile, first_lane, diag));
    }
    return TMK_OK;
}

/* A part of a row, from this lane on. */
static enum tmk_status take_part(struct tmk_stats_pass *pass, const tmk_loose_bits *x, size_t n,
                                 size_t lane, size_t valid, size_t first, size_t first_lane,
                                 struct tmk_diag *diag) {
    if (lane >= valid)
        return TMK_OK;
    n = n < valid - lane ? n : valid - lane;
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < TMK_TILE ? n - done : TMK_TILE;
        struct tmk_tile tile = {x + done, m, first + (lane + done) * pass->rows, m, pass->rows};
        TMK_TRY(take_lanes(pass, &tile, first_lane + lane + done, diag));
    }
    return TMK_OK;
}

/* What a piece holds of one block of the cut axis: places [place, place + n) of it. */
static enum tmk_status take_block(struct tmk_stats_pass *pass, const tmk_loose_bits *x,
                                  size_t place, size_t n, size_t valid, size_t first,
                                  size_t first_lane, struct tmk_diag *diag) {
    size_t block = pass->at.block, row = place / block, lane = place % block;
    if (lane > 0) {
        size_t head = block - lane < n ? block - lane : n;
        TMK_TRY(take_part(pass, x, head, lane, valid, first + row, first_lane, diag));
        x += head;
        n -= head;
        row++;
    }
    size_t rows = n / block;
    TMK_TRY(take_rows(pass, x, rows, valid, first + row, first_lane, diag));
    return take_part(pass, x + rows * block, n % block, 0, valid, first + row + rows, first_lane,
                     diag);
}

static enum tmk_status take_blocked(struct tmk_stats_pass *pass, const tmk_loose_bits *x,
                                    size_t first, size_t n, struct tmk_diag *diag) {
    size_t block = pass->at.block, blocks = (pass->blocked + block - 1) / block;
    size_t whole = pass->rows * block, number = first / whole, place = first % whole;
    while (n > 0) {
        size_t m = whole - place < n ? whole - place : n;
        size_t lane = number % blocks * block, left = pass->blocked - lane;
        size_t begin = (number / blocks * pass->blocked + lane) * pass->rows;
        TMK_TRY(take_block(pass, x, place, m, left < block ? left : block, begin, lane, diag));
        x += m;
        n -= m;
        number++;
        place = 0;
    }
    return TMK_OK;
}

/* One row a block: the elements lie row-major, but for what fills up after the last of each. */
static enum tmk_status take_gapped(struct tmk_stats_pass *pass, const tmk_loose_bits *x,
                                   size_t first, size_t n, struct tmk_diag *diag) {
    size_t block = pass->at.block, filled = (pass->blocked + block - 1) / block * block;
    size_t outer = first / filled, place = first % filled;
    while (n > 0) {
        size_t m = filled - place < n ? filled - place : n;
        if (place < pass->blocked) {
            size_t valid = pass->blocked - place < m ? pass->blocked - place : m;
            TMK_TRY(take_row_major(pass, x, outer * pass->blocked + place, valid, diag));
        }
        x += m;
        n -= m;
        outer++;
        place = 0;
    }
    return TMK_OK;
}

/* ---- the whole ---- */

static enum tmk_status check_update(const struct tmk_stats *stats, const struct tmk_shape *shape,
                                    const struct tmk_stats_at *at, size_t *n,
                                    struct tmk_diag *diag) {
    uint64_t unused;
    if (!tmk_shape_count(shape, n))
        return tmk_fail(diag, TMK_SHAPE, "a tensor of shape %s cannot be observed",
                        TMK_SHAPE_TEXT(shape));
    if (at->block > 1 && shape->rank < 2)
        return tmk_fail(diag, TMK_SHAPE, "a tensor of shape %s has no blocks",
                        TMK_SHAPE_TEXT(shape));
    if (at->channel_axis < -1)
        return tmk_fail(diag, TMK_ARGUMENT, "%d is no channel axis", (int)at->channel_axis);
    if (__builtin_add_overflow(at->sample, at->samples, &unused) ||
        __builtin_add_overflow(stats->samples, at->samples, &unused))
        return tmk_fail(diag, TMK_ARGUMENT, "sample indices overflow");
    if (*n > tmk_stats_limit(stats->level) - stats->count)
        return tmk_fail(diag, TMK_RANGE, "more elements than statistics can count");
    return TMK_OK;
}

static size_t elements_behind(const struct tmk_shape *shape, int32_t axis) {
    size_t n = 1;
    for (int32_t i = axis + 1; i < shape->rank; i++)
        n *= (size_t)shape->dim[i];
    return n;
}

enum tmk_status tmk_stats_begin(struct tmk_stats *stats, const struct tmk_shape *shape,
                                const struct tmk_stats_at *at, struct tmk_stats_shadow *shadow,
                                struct tmk_stats_pass *pass, struct tmk_diag *diag) {
    size_t n;
    TMK_TRY(check_update(stats, shape, at, &n, diag));
    *pass = (struct tmk_stats_pass){.stats = stats,
                                    .shadow = shadow,
                                    .at = *at,
                                    .elements = n,
                                    .part = n,
                                    .min_key = TMK_KEY_POSINF,
                                    .max_key = TMK_KEY_NEGINF};
    if (n == 0)
        return TMK_OK;
    bool by_channel = at->channel_axis >= 0 && at->channel_axis < shape->rank;
    if (tmk_stats_cuts(shape, at))
        pass->part = n / (size_t)at->samples;
    if (by_channel) {
        pass->channels = (size_t)shape->dim[at->channel_axis];
        pass->inner = elements_behind(shape, at->channel_axis);
    }
    if (at->block > 1) {
        pass->blocked = (size_t)shape->dim[1];
        pass->rows = elements_behind(shape, 1);
    }
    if (tmk_stats_has_bins(stats->level) && !stats->table &&
        (n > TMK_FEW || stats->count > TMK_FEW - n))
        TMK_TRY(tmk_stats_map(stats, n, diag));
    if (stats->table && n / stats->share >= TMK_TILE)
        fetch_table(stats);
    TMK_TRY(tmk_channels_join(&stats->channels, stats->count,
                              by_channel ? TMK_CHANNELS_KNOWN : TMK_CHANNELS_NONE,
                              by_channel ? at->channel_axis : -1, pass->channels, diag));
    if (stats->channels.kind != TMK_CHANNELS_KNOWN)
        pass->channels = 0;
    return TMK_OK;
}

void tmk_stats_exclude(struct tmk_stats_pass *pass, const uint32_t *bits, size_t n) {
    pass->excluded = bits;
    pass->n_excluded = n;
}

static enum tmk_status add_elements(struct tmk_stats_pass *pass, const tmk_loose_bits *bits,
                                    size_t first, size_t n, struct tmk_diag *diag) {
    if (pass->at.block < 2)
        return take_row_major(pass, bits, first, n, diag);
    if (pass->rows == 1)
        return take_gapped(pass, bits, first, n, diag);
    return take_blocked(pass, bits, first, n, diag);
}

static void leave_out(const struct tmk_stats_pass *pass, const tmk_loose_bits *x, size_t first,
                      size_t n, uint32_t *to) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = x[i];
        to[i] = (bits & 0x7fffffffu) > 0x7f800000u ? (uint32_t)OTHER_NAN : bits;
        for (size_t e = 0; e < pass->n_excluded; e++)
            to[i] = bits == pass->excluded[e] ? (uint32_t)LEFT_OUT : to[i];
    }
    for (size_t i = 0; pass->at.padding && i < n; i++) {
        const size_t place = tmk_place_of(pass, first + i);
        if (place == SIZE_MAX || !tmk_is_padding(pass->at.padding, pass->at.positions, place))
            continue;
        to[i] = (uint32_t)LEFT_OUT;
        pass->stats->padding++;
    }
}

enum tmk_status tmk_stats_piece(struct tmk_stats_pass *pass, const float *x, size_t first, size_t n,
                                struct tmk_diag *diag) {
    const tmk_loose_bits *bits = (const void *)x;
    uint32_t kept[TMK_TILE];
    if (pass->elements == 0)
        return TMK_OK;
    if (!leaves_out(pass))
        return add_elements(pass, bits, first, n, diag);
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < TMK_TILE ? n - done : TMK_TILE;
        leave_out(pass, bits + done, first + done, m, kept);
        TMK_TRY(add_elements(pass, kept, first + done, m, diag));
    }
    return TMK_OK;
}

enum tmk_status tmk_stats_end(struct tmk_stats_pass *pass, struct tmk_diag *diag) {
    (void)diag;
    struct tmk_stats *stats = pass->stats;
    stats->count += pass->elements;
    stats->samples += pass->at.again ? 0 : pass->at.samples;
    stats->updates++;
    return TMK_OK;
}

enum tmk_status tmk_stats_update_excluding(struct tmk_stats *stats, const float *x,
                                           const struct tmk_shape *shape,
                                           const struct tmk_stats_at *at, const uint32_t *exclude,
                                           size_t n_exclude, struct tmk_diag *diag) {
    struct tmk_stats_pass pass;
    TMK_TRY(tmk_stats_begin(stats, shape, at, NULL, &pass, diag));
    tmk_stats_exclude(&pass, exclude, n_exclude);
    size_t places = pass.elements;
    if (at->block > 1 && places > 0)
        places = places / pass.blocked * ((pass.blocked + at->block - 1) / at->block * at->block);
    if (places > 0)
        TMK_TRY(tmk_stats_piece(&pass, x, 0, places, diag));
    return tmk_stats_end(&pass, diag);
}

enum tmk_status tmk_stats_update(struct tmk_stats *stats, const float *x,
                                 const struct tmk_shape *shape, const struct tmk_stats_at *at,
                                 struct tmk_diag *diag) {
    return tmk_stats_update_excluding(stats, x, shape, at, NULL, 0, diag);
}
