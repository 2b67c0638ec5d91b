/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernel.h in plain C, for the compiler to vectorise. A kernel's file defines TARGET
 * (the attribute that names its instruction set) and `pack`, then includes this once. */

/* 12 % of a tile: beyond it, packing costs less than the collisions of zeros in one table entry.
 * Only speed depends on it. */
enum { PACK_ABOVE = TMK_TILE * 12 / 100 };

/* Copies the nonzero elements to out[n + 16] in order; how many. */
TARGET static size_t pack(const tmk_loose_bits *x, size_t n, uint32_t *out);

TARGET static void survey(const tmk_loose_bits *x, size_t n, struct tmk_facts *facts) {
    int32_t signed_max = INT32_MIN;
    uint32_t unsigned_max = 0, unsigned_min = UINT32_MAX, zeros = 0, negative_zeros = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = x[i];
        signed_max = (int32_t)v > signed_max ? (int32_t)v : signed_max;
        unsigned_max = v > unsigned_max ? v : unsigned_max;
        unsigned_min = v < unsigned_min ? v : unsigned_min;
        zeros += v == 0;
        negative_zeros += v == 0x80000000u;
    }
    *facts = (struct tmk_facts){signed_max, unsigned_max, unsigned_min, zeros, negative_zeros};
}

TARGET static inline void add(uint64_t *table, uint32_t v) {
    table[v >> 16] += (UINT64_C(1) << TMK_COUNT_SHIFT) + (v & 0xffffu);
}

TARGET static void scatter(const tmk_loose_bits *x, size_t n, uint64_t *table) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        add(table, x[i]);
        add(table, x[i + 1]);
        add(table, x[i + 2]);
        add(table, x[i + 3]);
        add(table, x[i + 4]);
        add(table, x[i + 5]);
        add(table, x[i + 6]);
        add(table, x[i + 7]);
    }
    for (; i < n; i++)
        add(table, x[i]);
}

TARGET static void tile(const tmk_loose_bits *x, size_t n, uint64_t *table,
                        struct tmk_facts *facts) {
    survey(x, n, facts);
    size_t zeros = (size_t)facts->zeros + facts->negative_zeros;
    if (zeros == n)
        return;
    if (zeros > PACK_ABOVE) {
        uint32_t packed[TMK_TILE + 16];
        scatter(packed, pack(x, n, packed), table);
    } else {
        scatter(x, n, table);
        table[0] -= (uint64_t)facts->zeros << TMK_COUNT_SHIFT;
        table[0x8000] -= (uint64_t)facts->negative_zeros << TMK_COUNT_SHIFT;
    }
}

TARGET static inline void key_range(uint32_t v, int32_t *low, int32_t *high) {
    int32_t key = tmk_key_of_bits(v);
    bool finite = (v & 0x7fffffffu) < 0x7f800000u;
    *low = finite ? key : TMK_KEY_POSINF;
    *high = finite ? key : TMK_KEY_NEGINF;
}

TARGET static void columns(const tmk_loose_bits *x, size_t rows, size_t stride, size_t width,
                           int32_t *restrict min, int32_t *restrict max) {
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) { /* four rows for one round trip of min and max */
        const tmk_loose_bits *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        for (size_t i = 0; i < width; i++) {
            int32_t low[4], high[4];
            key_range(a[i], &low[0], &high[0]);
            key_range(b[i], &low[1], &high[1]);
            key_range(c[i], &low[2], &high[2]);
            key_range(d[i], &low[3], &high[3]);
            int32_t m = low[0] < low[1] ? low[0] : low[1], n = low[2] < low[3] ? low[2] : low[3];
            int32_t p = high[0] > high[1] ? high[0] : high[1],
                    q = high[2] > high[3] ? high[2] : high[3];
            m = m < n ? m : n;
            p = p > q ? p : q;
            min[i] = m < min[i] ? m : min[i];
            max[i] = p > max[i] ? p : max[i];
        }
    }
    for (; r < rows; r++)
        for (size_t i = 0; i < width; i++) {
            int32_t low, high;
            key_range(x[r * stride + i], &low, &high);
            min[i] = low < min[i] ? low : min[i];
            max[i] = high > max[i] ? high : max[i];
        }
}
