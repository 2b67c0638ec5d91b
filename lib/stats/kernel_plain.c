/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/kernel.h"

#define TARGET

struct minmax {
    int32_t signed_max[TMK_LANES];
    uint32_t unsigned_max[TMK_LANES];
    uint32_t zeros;
};

static inline void minmax_init(struct minmax *g) {
    for (size_t i = 0; i < TMK_LANES; i++) {
        g->signed_max[i] = INT32_MIN;
        g->unsigned_max[i] = 0;
    }
    g->zeros = 0;
}

static inline void minmax_add_some(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t v = x[i];
        g->signed_max[i] = (int32_t)v > g->signed_max[i] ? (int32_t)v : g->signed_max[i];
        g->unsigned_max[i] = v > g->unsigned_max[i] ? v : g->unsigned_max[i];
        g->zeros += (v & 0x7fffffffu) == 0;
    }
}

static inline void minmax_add(struct minmax *g, const tmk_loose_bits *x) {
    minmax_add_some(g, x, TMK_LANES);
}

static inline void minmax_reduce(const struct minmax *g, struct tmk_tile_summary *summary) {
    summary->signed_max = INT32_MIN;
    summary->unsigned_max = 0;
    for (size_t i = 0; i < TMK_LANES; i++) {
        if (g->signed_max[i] > summary->signed_max)
            summary->signed_max = g->signed_max[i];
        if (g->unsigned_max[i] > summary->unsigned_max)
            summary->unsigned_max = g->unsigned_max[i];
    }
    summary->zeros = g->zeros;
}

static inline void minmax_columns(const struct minmax *g, int32_t *signed_max,
                                  uint32_t *unsigned_max) {
    memcpy(signed_max, g->signed_max, sizeof g->signed_max);
    memcpy(unsigned_max, g->unsigned_max, sizeof g->unsigned_max);
}

static uint32_t min_unsigned(const tmk_loose_bits *x, size_t n, uint32_t *columns) {
    uint32_t all = UINT32_MAX;
    for (size_t i = 0; i < TMK_LANES; i++)
        columns[i] = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        uint32_t *column = &columns[i % TMK_LANES];
        *column = x[i] < *column ? x[i] : *column;
    }
    for (size_t i = 0; i < TMK_LANES; i++)
        all = columns[i] < all ? columns[i] : all;
    return all;
}

static inline size_t pack_nonzero(const tmk_loose_bits *x, uint32_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < TMK_LANES; i++) {
        uint32_t v = x[i];
        out[kept] = v;
        kept += (v & 0x7fffffffu) != 0;
    }
    return kept;
}

#include "stats/kernel_body.h"

const struct tmk_stats_kernel tmk_stats_kernel_plain = {
    "plain",        scan_elements,  add_tile, scatter_elements, count_sign_bits, columns,
    finite_columns, update_columns, sum,      sum_window};
