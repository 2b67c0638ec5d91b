/* SPDX-License-Identifier: Apache-2.0 */
/* A state as canonical bytes. After the magic and version (numbers from here on): the level, with 4
 * times the share if the histogram is thinned; count, nan, posinf, neginf, excluded, padding,
 * zeros, negative zeros, samples, updates; if it is thinned the sum's words; when something finite
 * was seen min, its place, max, its place; when something else was, its first place; channels (0
 * none, 2 conflict, or 1, axis, count and each one's min and max bits); used bins and, where there
 * are some, 1 if squares are kept, else 0; each with the distance from the one before (from -1 at
 * first), count, low and, if they are kept, squares. */
#include "stats/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "stats/state.h"

void tmk_put_number(struct tmk_text *out, uint64_t value) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 128; value >>= 7)
        bytes[n++] = (char)(value | 128);
    bytes[n++] = (char)value;
    tmk_text_append(out, bytes, n);
}

uint64_t tmk_get_number(struct tmk_byte_reader *in) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end && !in->failed; shift += 7) {
        uint8_t byte = *in->at++;
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0))
            break; /* more than 64 bits, or not the shortest form */
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    in->failed = true;
    return 0;
}

void tmk_put_bits(struct tmk_text *out, uint32_t bits) {
    char bytes[4] = {(char)bits, (char)(bits >> 8), (char)(bits >> 16), (char)(bits >> 24)};
    tmk_text_append(out, bytes, sizeof bytes);
}

uint32_t tmk_get_bits(struct tmk_byte_reader *in) {
    if (in->failed || in->end - in->at < 4) {
        in->failed = true;
        return 0;
    }
    const uint8_t *b = in->at;
    in->at += 4;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void tmk_put_where(struct tmk_text *out, struct tmk_where at) {
    tmk_put_number(out, at.sample + 1);
    tmk_put_number(out, at.index + 1);
}

struct tmk_where tmk_get_where(struct tmk_byte_reader *in) {
    uint64_t sample = tmk_get_number(in) - 1, index = tmk_get_number(in) - 1;
    return (struct tmk_where){sample, index};
}

void tmk_get_literal(struct tmk_byte_reader *in, const void *bytes, size_t len) {
    if (in->failed || (size_t)(in->end - in->at) < len || memcmp(in->at, bytes, len) != 0)
        in->failed = true;
    else
        in->at += len;
}

static const char magic[] = {'T', 'M', 'K', 'S', 3}; /* and the version */
enum { BIN_BYTES = 3 };                              /* a bin takes three bytes or more */
enum { SHARE_UNIT = 4 };                             /* above all levels */

static void put_channels(struct tmk_text *out, const struct tmk_channels *channels) {
    tmk_put_number(out, (uint64_t)channels->kind);
    if (channels->kind != TMK_CHANNELS_KNOWN)
        return;
    tmk_put_number(out, (uint64_t)channels->axis);
    tmk_put_number(out, channels->count);
    for (size_t c = 0; c < channels->count; c++) {
        tmk_put_bits(out, tmk_bits_of_float(channels->min[c]));
        tmk_put_bits(out, tmk_bits_of_float(channels->max[c]));
    }
}

static void put_bins(struct tmk_text *out, const struct tmk_stats *stats) {
    struct tmk_bin_walk walk = {.stats = stats}, again = walk;
    struct tmk_wide one;
    uint32_t used = 0;
    while (tmk_next_bin(&walk, &one))
        used++;
    tmk_put_number(out, used);
    const bool squares = used && tmk_stats_is_narrow(stats);
    if (used)
        tmk_put_number(out, squares);
    int before = -1;
    while (tmk_next_bin(&again, &one)) {
        tmk_put_number(out, (uint64_t)(one.bin - before));
        tmk_put_number(out, one.count);
        tmk_put_number(out, one.low);
        if (squares)
            tmk_put_number(out, one.squares);
        before = one.bin;
    }
}

void tmk_stats_encode(const struct tmk_stats *stats, struct tmk_text *out) {
    tmk_text_append(out, magic, sizeof magic);
    const uint32_t share = tmk_stats_is_thinned(stats) ? stats->share : 0;
    tmk_put_number(out, (uint64_t)stats->level + (uint64_t)share * SHARE_UNIT);
    tmk_put_number(out, stats->count);
    tmk_put_number(out, stats->nan);
    tmk_put_number(out, stats->posinf);
    tmk_put_number(out, stats->neginf);
    tmk_put_number(out, stats->excluded);
    tmk_put_number(out, stats->padding);
    tmk_put_number(out, stats->zeros + stats->negative_zeros);
    tmk_put_number(out, stats->negative_zeros);
    tmk_put_number(out, stats->samples);
    tmk_put_number(out, stats->updates);
    for (size_t i = 0; share && i < TMK_STATS_SUM_WORDS; i++)
        tmk_put_number(out, stats->sum.word[i]);
    uint64_t finite = tmk_stats_finite(stats);
    if (finite > 0) {
        tmk_put_bits(out, tmk_bits_of_key(stats->min.key));
        tmk_put_where(out, stats->min.at);
        tmk_put_bits(out, tmk_bits_of_key(stats->max.key));
        tmk_put_where(out, stats->max.at);
    }
    if (stats->nan + stats->posinf + stats->neginf > 0)
        tmk_put_where(out, stats->first_nonfinite);
    put_channels(out, &stats->channels);
    put_bins(out, stats);
}

/* What decoding allocates. */
struct rows {
    float *channel_min, *channel_max;
    uint64_t *count, *low, *squares;
    uint16_t *bin;
};

static void get_facts(struct tmk_byte_reader *in, struct tmk_summary *summary) {
    tmk_get_literal(in, magic, sizeof magic);
    const uint64_t both = tmk_get_number(in), level = both % SHARE_UNIT;
    summary->share = (uint32_t)(both / SHARE_UNIT);
    in->failed |= both / SHARE_UNIT > TMK_STATS_MOST_THINNED || summary->share == 1;
    summary->level = level == TMK_STATS_HISTOGRAM ? TMK_STATS_HISTOGRAM
                     : level == TMK_STATS_MINMAX  ? TMK_STATS_MINMAX
                                                  : TMK_STATS_RANGE;
    in->failed |= level != (uint64_t)summary->level;
    summary->count = tmk_get_number(in);
    summary->nan = tmk_get_number(in);
    summary->posinf = tmk_get_number(in);
    summary->neginf = tmk_get_number(in);
    summary->excluded = tmk_get_number(in);
    summary->padding = tmk_get_number(in);
    summary->zeros = tmk_get_number(in);
    summary->negative_zeros = tmk_get_number(in);
    summary->samples = tmk_get_number(in);
    summary->updates = tmk_get_number(in);
    for (size_t i = 0; summary->share && i < TMK_STATS_SUM_WORDS; i++)
        summary->exact_sum[i] = tmk_get_number(in);
    /* sums that overflow here are found by tmk_stats_restore */
    uint64_t special = summary->nan + summary->posinf + summary->neginf;
    summary->min_at = summary->max_at = summary->first_nonfinite = tmk_nowhere;
    if (summary->count != special + summary->excluded) {
        summary->min = tmk_float_of_bits(tmk_get_bits(in));
        summary->min_at = tmk_get_where(in);
        summary->max = tmk_float_of_bits(tmk_get_bits(in));
        summary->max_at = tmk_get_where(in);
    }
    if (special > 0)
        summary->first_nonfinite = tmk_get_where(in);
}

static enum tmk_status get_channels(struct tmk_byte_reader *in, struct tmk_summary *summary,
                                    struct rows *rows, struct tmk_diag *diag) {
    uint64_t kind = tmk_get_number(in);
    summary->channel_axis = -1;
    summary->channel_conflict = kind == TMK_CHANNELS_CONFLICT;
    if (kind != TMK_CHANNELS_KNOWN) {
        in->failed |= kind != TMK_CHANNELS_NONE && kind != TMK_CHANNELS_CONFLICT;
        return TMK_OK;
    }
    uint64_t axis = tmk_get_number(in), count = tmk_get_number(in);
    in->failed |= axis >= TMK_MAX_RANK || count == 0 || count > (uint64_t)(in->end - in->at) / 8;
    if (in->failed)
        return TMK_OK;
    summary->channel_axis = (int32_t)axis;
    summary->channels = (size_t)count;
    summary->channel_min = rows->channel_min = malloc(summary->channels * sizeof(float));
    summary->channel_max = rows->channel_max = malloc(summary->channels * sizeof(float));
    TMK_TRY_ALLOC(rows->channel_min && rows->channel_max, diag);
    for (size_t c = 0; c < summary->channels; c++) {
        rows->channel_min[c] = tmk_float_of_bits(tmk_get_bits(in));
        rows->channel_max[c] = tmk_float_of_bits(tmk_get_bits(in));
    }
    return TMK_OK;
}

static enum tmk_status get_bins(struct tmk_byte_reader *in, struct tmk_summary *summary,
                                struct rows *rows, struct tmk_diag *diag) {
    uint64_t used = tmk_get_number(in);
    in->failed |= used > TMK_TABLE || used > (uint64_t)(in->end - in->at) / BIN_BYTES;
    if (in->failed || used == 0)
        return TMK_OK;
    summary->bins_used = (uint32_t)used;
    rows->bin = malloc((size_t)used * sizeof *rows->bin);
    rows->count = malloc((size_t)used * sizeof *rows->count);
    rows->low = malloc((size_t)used * sizeof *rows->low);
    rows->squares = malloc((size_t)used * sizeof *rows->squares);
    TMK_TRY_ALLOC(rows->bin && rows->count && rows->low && rows->squares, diag);
    const uint64_t squares = tmk_get_number(in);
    in->failed |= squares > 1;
    summary->squares = squares ? rows->squares : NULL;
    int64_t bin = -1;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t distance = tmk_get_number(in);
        in->failed |= distance == 0 || distance > (uint64_t)(TMK_TABLE - 1 - bin);
        if (in->failed)
            return TMK_OK;
        bin += (int64_t)distance;
        rows->bin[i] = (uint16_t)bin;
        rows->count[i] = tmk_get_number(in);
        rows->low[i] = tmk_get_number(in);
        if (squares)
            rows->squares[i] = tmk_get_number(in);
    }
    return TMK_OK;
}

enum tmk_status tmk_stats_decode(const void *bytes, size_t len, struct tmk_stats **out,
                                 struct tmk_diag *diag) {
    const uint8_t *start = bytes;
    struct tmk_byte_reader in = {start, start + len, false};
    struct tmk_summary summary = {0};
    struct rows rows = {0};
    get_facts(&in, &summary);
    enum tmk_status status = get_channels(&in, &summary, &rows, diag);
    TMK_THEN(status, get_bins(&in, &summary, &rows, diag));
    if (status == TMK_OK && (in.failed || in.at != in.end))
        status = tmk_fail(diag, TMK_FORMAT, "byte %zu of the statistics: malformed",
                          (size_t)(in.at - start));
    TMK_THEN(status, tmk_stats_restore(&summary, rows.bin, rows.count, rows.low, out, diag));
    free(rows.channel_min);
    free(rows.channel_max);
    free(rows.bin);
    free(rows.count);
    free(rows.low);
    free(rows.squares);
    return status;
}
