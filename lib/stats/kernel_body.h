/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernel.h over a minmax of TMK_LANES columns. A kernel's file defines TARGET (the
 * attribute that names its instruction set) and what follows, then includes this once.
 *
 * struct minmax: the largest of each column, as signed and as unsigned integers (element i belongs
 * to column i % TMK_LANES), and the zeros of either sign. minmax_init; minmax_add, of TMK_LANES
 * elements; minmax_add_some, of fewer. minmax_reduce: fills signed_max, unsigned_max, and both
 * signs' zeros as `zeros`. minmax_columns: the columns. lowest: the smallest of each column, and of
 * all, as unsigned integers. pack: copies the nonzero ones of TMK_LANES elements to out[TMK_LANES]
 * in order; how many. OWN_MINMAX_ADD_ALL: defined where the file has a minmax_add_all of its own,
 * which takes whole rows of TMK_LANES. OWN_UPDATE_COLUMNS, OWN_SUM: where it has an update_columns,
 * a sum of its own. */

#ifndef OWN_MINMAX_ADD_ALL
TARGET static inline void minmax_add_all(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    for (size_t i = 0; i < n; i += TMK_LANES)
        minmax_add(g, x + i);
}
#endif

/* A column of one sign has its other extreme nearest to zero, which takes another pass over the
 * elements: only worth it where that could widen what is known. */
TARGET static inline void update_columns_of(const tmk_loose_bits *x, size_t n, int32_t *signed_max,
                                            uint32_t *unsigned_max, tmk_loose_bits *min,
                                            tmk_loose_bits *max, size_t width) {
    int32_t low[TMK_LANES], high[TMK_LANES];
    uint32_t unsigned_min[TMK_LANES], asked = 0;
    for (size_t i = 0; i < width; i++) {
        const uint32_t positive = unsigned_max[i] < 0x80000000u, negative = signed_max[i] < 0;
        const uint32_t above = tmk_key_of_bits(min[i]) > tmk_key_of_bits(0),
                       beneath = tmk_key_of_bits(max[i]) < tmk_key_of_bits(0x80000000u);
        asked |= (positive & above) | (negative & beneath);
        unsigned_min[i] = negative ? 0x80000000u : 0;
    }
    if (asked) {
        (void)min_unsigned(x, n, unsigned_min);
        for (size_t i = width; i < TMK_LANES; i++)
            unsigned_min[i - width] = unsigned_min[i] < unsigned_min[i - width]
                                          ? unsigned_min[i]
                                          : unsigned_min[i - width];
    }
    for (size_t i = 0; i < width; i++) {
        const uint32_t a = unsigned_max[i] >> 31 ? unsigned_max[i] : unsigned_min[i];
        const uint32_t b = signed_max[i] >= 0 ? (uint32_t)signed_max[i] : unsigned_min[i];
        low[i] = tmk_key_of_bits(a);
        high[i] = tmk_key_of_bits(b);
    }
    tmk_minmax_merge_keys(min, max, low, high, width);
}

TARGET static void update_all_columns(const tmk_loose_bits *x, size_t n, int32_t *signed_max,
                                      uint32_t *unsigned_max, const struct tmk_columns *columns) {
    if (columns->width == TMK_LANES) {
        update_columns_of(x, n, signed_max, unsigned_max, columns->min, columns->max, TMK_LANES);
        return;
    }
    for (size_t i = 0, j = TMK_LANES / 2; j < TMK_LANES; i++, j++) {
        signed_max[i] = signed_max[j] > signed_max[i] ? signed_max[j] : signed_max[i];
        unsigned_max[i] = unsigned_max[j] > unsigned_max[i] ? unsigned_max[j] : unsigned_max[i];
    }
    update_columns_of(x, n, signed_max, unsigned_max, columns->min, columns->max, TMK_LANES / 2);
}

/* How many of n elements have `one`, which is 0 or 1 of each; in sums that don't wait for
 * each other. */
#define COUNT(name, one)                                                                           \
    TARGET static uint32_t name(const tmk_loose_bits *x, size_t n) {                               \
        enum { SUMS = 2 * TMK_LANES };                                                             \
        uint32_t sums[SUMS] = {0}, count = 0;                                                      \
        size_t i = 0;                                                                              \
        for (; i + SUMS <= n; i += SUMS)                                                           \
            for (size_t k = 0; k < SUMS; k++)                                                      \
                sums[k] += one(x[i + k]);                                                          \
        for (; i < n; i++)                                                                         \
            count += one(x[i]);                                                                    \
        for (size_t k = 0; k < SUMS; k++)                                                          \
            count += sums[k];                                                                      \
        return count;                                                                              \
    }
#define SIGN(v) ((v) >> 31)
#define NEGATIVE_ZERO(v) ((v) == 0x80000000u)
COUNT(count_sign_bits, SIGN)
COUNT(count_negative_zeros, NEGATIVE_ZERO)

/* What the minmax does not determine: computed only when needed. Never called: a minmax whose
 * address is given away would be kept in memory, which costs stores where these are dear. */
TARGET static inline __attribute__((always_inline)) void
finish_summary(const tmk_loose_bits *x, size_t n, const struct minmax *g,
               const struct tmk_columns *columns, struct tmk_tile_summary *summary) {
    minmax_reduce(g, summary);
    bool positives = summary->signed_max >= 0, negatives = summary->unsigned_max >> 31;
    summary->unsigned_min = 0;
    summary->negative_zeros = 0;
    if (summary->zeros && negatives) {
        summary->negative_zeros = positives ? count_negative_zeros(x, n) : summary->zeros;
        summary->zeros -= summary->negative_zeros;
    }
    if (!tmk_tile_all_finite(summary))
        return;
    if (positives != negatives) {
        uint32_t mins[TMK_LANES], zero = negatives ? 0x80000000u : 0;
        summary->unsigned_min =
            summary->zeros + summary->negative_zeros ? zero : min_unsigned(x, n, mins);
    }
    if (columns) {
        int32_t signed_max[TMK_LANES];
        uint32_t unsigned_max[TMK_LANES];
        minmax_columns(g, signed_max, unsigned_max);
        update_all_columns(x, n, signed_max, unsigned_max, columns);
    }
}

TARGET static void scan_elements(const tmk_loose_bits *x, size_t n,
                                 const struct tmk_columns *columns,
                                 struct tmk_tile_summary *summary) {
    struct minmax g;
    minmax_init(&g);
    const size_t rest = n % TMK_LANES, whole = n - rest;
    minmax_add_all(&g, x, whole);
    if (rest)
        minmax_add_some(&g, x + whole, rest);
    finish_summary(x, n, &g, columns, summary);
}

/* One instruction: left alone, gcc keeps the addresses of a whole row on the stack. */
static inline void increase_entry(uint64_t *entry, uint64_t by) {
#ifdef __x86_64__
    __asm__("addq %1, %0" : "+m"(*entry) : "r"(by) : "cc");
#else
    *entry += by;
#endif
}

TARGET static inline void add_element(uint64_t *table, const tmk_loose_bits *x) {
    uint64_t bits = *x;
    increase_entry(&table[bits >> 16], tmk_pack_unit(0) + bits);
}

TARGET static inline void add_row(const tmk_loose_bits *x, uint64_t *table) {
    add_element(table, x), add_element(table, x + 1), add_element(table, x + 2),
        add_element(table, x + 3);
    add_element(table, x + 4), add_element(table, x + 5), add_element(table, x + 6),
        add_element(table, x + 7);
    add_element(table, x + 8), add_element(table, x + 9), add_element(table, x + 10),
        add_element(table, x + 11);
    add_element(table, x + 12), add_element(table, x + 13), add_element(table, x + 14),
        add_element(table, x + 15);
}

TARGET static void add_all(const tmk_loose_bits *x, size_t n, uint64_t *table) {
    size_t i = 0;
    for (; i + TMK_LANES <= n; i += TMK_LANES)
        add_row(x + i, table);
    for (; i < n; i++)
        add_element(table, x + i);
}

TARGET static inline void take_zeros_back(const struct tmk_tile_summary *summary, uint64_t *table) {
    table[0] -= summary->zeros * tmk_pack_unit(0);
    table[0x8000] -= summary->negative_zeros * tmk_pack_unit(0x8000);
}

TARGET static inline size_t pack_rest(const tmk_loose_bits *x, size_t n, uint32_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = x[i];
        out[kept] = v;
        kept += (v & 0x7fffffffu) != 0;
    }
    return kept;
}

/* Additions to the table fill the processor's queue after some hundred bytes of elements: too few
 * to find those in memory early enough. May point behind the elements. */
static inline void fetch_ahead(const tmk_loose_bits *x) {
    enum { AHEAD = 2048 };
    __builtin_prefetch((const char *)x + AHEAD);
}

TARGET static void add_tile(const tmk_loose_bits *x, size_t n, bool sparse,
                            const struct tmk_columns *columns, uint64_t *table,
                            struct tmk_tile_summary *summary) {
    struct minmax g;
    minmax_init(&g);
    size_t i = 0;
    if (sparse) {
        uint32_t packed[TMK_TILE + TMK_LANES];
        size_t kept = 0;
        for (; i + TMK_LANES <= n; i += TMK_LANES) {
            fetch_ahead(x + i);
            minmax_add(&g, x + i);
            kept += pack_nonzero(x + i, packed + kept);
        }
        kept += pack_rest(x + i, n - i, packed + kept);
        add_all(packed, kept, table);
    } else {
        for (; i + TMK_LANES <= n; i += TMK_LANES) {
            fetch_ahead(x + i);
            minmax_add(&g, x + i);
            add_row(x + i, table);
        }
        add_all(x + i, n - i, table);
    }
    if (i < n)
        minmax_add_some(&g, x + i, n - i);
    finish_summary(x, n, &g, columns, summary);
    if (!sparse)
        take_zeros_back(summary, table);
}

TARGET static void scatter_elements(const tmk_loose_bits *x, size_t n,
                                    const struct tmk_tile_summary *summary, uint64_t *table) {
    if (tmk_tile_sparse(summary, n)) {
        uint32_t packed[TMK_TILE + TMK_LANES];
        size_t kept = 0, i = 0;
        for (; i + TMK_LANES <= n; i += TMK_LANES)
            kept += pack_nonzero(x + i, packed + kept);
        kept += pack_rest(x + i, n - i, packed + kept);
        add_all(packed, kept, table);
    } else {
        add_all(x, n, table);
        take_zeros_back(summary, table);
    }
}

#ifndef OWN_SUM
TARGET static uint32_t sum(const tmk_loose_bits *x, size_t n, double *sums) {
    double lane[TMK_SUM_LANES] = {0};
    uint32_t least[TMK_SUM_LANES], all = UINT32_MAX;
    size_t i = 0;
    for (size_t k = 0; k < TMK_SUM_LANES; k++)
        least[k] = UINT32_MAX;
    for (; i + TMK_SUM_LANES <= n; i += TMK_SUM_LANES)
        for (size_t k = 0; k < TMK_SUM_LANES; k++) {
            const uint32_t v = x[i + k], magnitude = (v & 0x7fffffffu) - 1; /* zeros are large */
            lane[k] += (double)tmk_float_of_bits(v);
            least[k] = magnitude < least[k] ? magnitude : least[k];
        }
    for (size_t k = 0; i < n; i++, k++) {
        const uint32_t v = x[i], magnitude = (v & 0x7fffffffu) - 1;
        lane[k] += (double)tmk_float_of_bits(v);
        least[k] = magnitude < least[k] ? magnitude : least[k];
    }
    for (size_t k = 0; k < TMK_SUM_LANES; k++)
        all = least[k] < all ? least[k] : all;
    memcpy(sums, lane, sizeof lane);
    return all + 1; /* 0: there is none */
}
TARGET static uint32_t sum_window(const tmk_loose_bits *x, size_t n, uint32_t from, uint32_t to,
                                  double *sums) {
    const uint32_t span = to - from;
    double lane[TMK_SUM_LANES] = {0};
    uint32_t below[TMK_SUM_LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + TMK_SUM_LANES <= n; i += TMK_SUM_LANES)
        for (size_t k = 0; k < TMK_SUM_LANES; k++) {
            const uint32_t v = x[i + k], magnitude = v & 0x7fffffffu;
            const uint32_t less = magnitude < from ? magnitude : 0;
            lane[k] += (double)tmk_float_of_bits(magnitude - from < span ? v : 0);
            below[k] = less > below[k] ? less : below[k];
        }
    for (size_t k = 0; i < n; i++, k++) {
        const uint32_t v = x[i], magnitude = v & 0x7fffffffu;
        const uint32_t less = magnitude < from ? magnitude : 0;
        lane[k] += (double)tmk_float_of_bits(magnitude - from < span ? v : 0);
        below[k] = less > below[k] ? less : below[k];
    }
    for (size_t k = 0; k < TMK_SUM_LANES; k++)
        all = below[k] > all ? below[k] : all;
    memcpy(sums, lane, sizeof lane);
    return all;
}
#endif

/* Extremes of keys, column by column, four rows for one round trip of min and max. */
#define COLUMNS(name, RANGE)                                                                       \
    TARGET static void name(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,     \
                            int32_t *restrict min, int32_t *restrict max) {                        \
        size_t r = 0;                                                                              \
        for (; r + 4 <= rows; r += 4) {                                                            \
            const tmk_loose_bits *a = x + r * stride, *b = a + stride, *c = b + stride,            \
                                 *d = c + stride;                                                  \
            for (size_t i = 0; i < width; i++) {                                                   \
                int32_t low[4], high[4];                                                           \
                RANGE(a[i], &low[0], &high[0]);                                                    \
                RANGE(b[i], &low[1], &high[1]);                                                    \
                RANGE(c[i], &low[2], &high[2]);                                                    \
                RANGE(d[i], &low[3], &high[3]);                                                    \
                int32_t m = low[0] < low[1] ? low[0] : low[1],                                     \
                        n = low[2] < low[3] ? low[2] : low[3];                                     \
                int32_t p = high[0] > high[1] ? high[0] : high[1],                                 \
                        q = high[2] > high[3] ? high[2] : high[3];                                 \
                m = m < n ? m : n;                                                                 \
                p = p > q ? p : q;                                                                 \
                min[i] = m < min[i] ? m : min[i];                                                  \
                max[i] = p > max[i] ? p : max[i];                                                  \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++)                                                                      \
            for (size_t i = 0; i < width; i++) {                                                   \
                int32_t low, high;                                                                 \
                RANGE(x[r * stride + i], &low, &high);                                             \
                min[i] = low < min[i] ? low : min[i];                                              \
                max[i] = high > max[i] ? high : max[i];                                            \
            }                                                                                      \
    }

TARGET static inline void key_range(uint32_t v, int32_t *low, int32_t *high) {
    int32_t key = tmk_key_of_bits(v);
    bool finite = (v & 0x7fffffffu) < 0x7f800000u;
    *low = finite ? key : TMK_KEY_POSINF;
    *high = finite ? key : TMK_KEY_NEGINF;
}

TARGET static inline void finite_key(uint32_t v, int32_t *low, int32_t *high) {
    *low = *high = tmk_key_of_bits(v);
}

COLUMNS(columns, key_range)
COLUMNS(finite_columns, finite_key)

#ifndef OWN_UPDATE_COLUMNS
/* Floats become keys on the way in and back on the way out, by this kernel's vectors. */
TARGET static void update_columns(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,
                                  tmk_loose_bits *min, tmk_loose_bits *max) {
    int32_t low[TMK_COLUMNS], high[TMK_COLUMNS];
    for (size_t i = 0; i < width; i++) {
        low[i] = tmk_key_of_bits(min[i]);
        high[i] = tmk_key_of_bits(max[i]);
    }
    finite_columns(x, rows, stride, width, low, high);
    for (size_t i = 0; i < width; i++) {
        min[i] = tmk_bits_of_key(low[i]);
        max[i] = tmk_bits_of_key(high[i]);
    }
}
#endif
