/* SPDX-License-Identifier: Apache-2.0 */
/* Checked under emulation only: its speed was not measured on hardware. */
#include <arm_neon.h>

#include "stats/kernel.h"

#define TARGET

enum { PARTS = TMK_LANES / 4 };

struct minmax {
    int32x4_t signed_max[PARTS];
    uint32x4_t unsigned_max[PARTS];
    uint32x4_t nonzero[PARTS]; /* their number, negative */
    uint32_t taken;
};

static inline uint32x4_t load_vector(const tmk_loose_bits *x) {
    uint32x4_t v;
    memcpy(&v, x, sizeof v); /* at any address */
    return v;
}

/* All ones where the element is not zero. Integers: floating-point modes may flush denormals. */
static inline uint32x4_t nonzero_lanes(uint32x4_t v) {
    uint32x4_t magnitude = vshlq_n_u32(v, 1);
    return vtstq_u32(magnitude, magnitude);
}

static inline void minmax_init(struct minmax *g) {
    for (int part = 0; part < PARTS; part++) {
        g->signed_max[part] = vdupq_n_s32(INT32_MIN);
        g->unsigned_max[part] = g->nonzero[part] = vdupq_n_u32(0);
    }
    g->taken = 0;
}

static inline void minmax_add(struct minmax *g, const tmk_loose_bits *x) {
    for (int part = 0; part < PARTS; part++) {
        uint32x4_t v = load_vector(x + 4 * part);
        g->signed_max[part] = vmaxq_s32(g->signed_max[part], vreinterpretq_s32_u32(v));
        g->unsigned_max[part] = vmaxq_u32(g->unsigned_max[part], v);
        g->nonzero[part] = vaddq_u32(g->nonzero[part], nonzero_lanes(v));
    }
    g->taken += TMK_LANES;
}

static inline void minmax_add_some(struct minmax *g, const tmk_loose_bits *x, size_t n) {
    int32_t smallest[TMK_LANES];
    uint32_t zeros[TMK_LANES] = {0};
    for (size_t i = 0; i < TMK_LANES; i++)
        smallest[i] = INT32_MIN;
    memcpy(smallest, x, n * sizeof *smallest);
    memcpy(zeros, x, n * sizeof *zeros);
    for (int part = 0; part < PARTS; part++) {
        uint32x4_t v = vld1q_u32(zeros + 4 * part);
        g->signed_max[part] = vmaxq_s32(g->signed_max[part], vld1q_s32(smallest + 4 * part));
        g->unsigned_max[part] = vmaxq_u32(g->unsigned_max[part], v);
        g->nonzero[part] = vaddq_u32(g->nonzero[part], nonzero_lanes(v));
    }
    g->taken += (uint32_t)n;
}

static inline void minmax_reduce(const struct minmax *g, struct tmk_tile_summary *summary) {
    int32x4_t s = g->signed_max[0];
    uint32x4_t u = g->unsigned_max[0], nonzero = g->nonzero[0];
    for (int part = 1; part < PARTS; part++) {
        s = vmaxq_s32(s, g->signed_max[part]);
        u = vmaxq_u32(u, g->unsigned_max[part]);
        nonzero = vaddq_u32(nonzero, g->nonzero[part]);
    }
    summary->signed_max = vmaxvq_s32(s);
    summary->unsigned_max = vmaxvq_u32(u);
    summary->zeros = g->taken + vaddvq_u32(nonzero);
}

static inline void minmax_columns(const struct minmax *g, int32_t *signed_max,
                                  uint32_t *unsigned_max) {
    for (int part = 0; part < PARTS; part++) {
        vst1q_s32(signed_max + 4 * part, g->signed_max[part]);
        vst1q_u32(unsigned_max + 4 * part, g->unsigned_max[part]);
    }
}

static uint32_t min_unsigned(const tmk_loose_bits *x, size_t n, uint32_t *columns) {
    uint32x4_t min[PARTS];
    for (int part = 0; part < PARTS; part++)
        min[part] = vdupq_n_u32(UINT32_MAX);
    size_t i = 0;
    for (; i + TMK_LANES <= n; i += TMK_LANES)
        for (int part = 0; part < PARTS; part++)
            min[part] = vminq_u32(min[part], load_vector(x + i + 4 * part));
    for (int part = 0; part < PARTS; part++)
        vst1q_u32(columns + 4 * part, min[part]);
    for (size_t lane = 0; i < n; i++, lane++)
        columns[lane] = x[i] < columns[lane] ? x[i] : columns[lane];
    uint32_t all = UINT32_MAX;
    for (size_t lane = 0; lane < TMK_LANES; lane++)
        all = columns[lane] < all ? columns[lane] : all;
    return all;
}

/* orders[m]: the bytes of those elements whose bit in m is set, lowest first, then byte 0: the
 * table lookup that packs four elements. */
#define WORD(e) 4 * (e), 4 * (e) + 1, 4 * (e) + 2, 4 * (e) + 3
#define ORDER(a, b, c, d)                                                                          \
    { WORD(a), WORD(b), WORD(c), WORD(d) }
static const uint8_t orders[16][16] = {
    ORDER(0, 0, 0, 0), ORDER(0, 0, 0, 0), ORDER(1, 0, 0, 0), ORDER(0, 1, 0, 0),
    ORDER(2, 0, 0, 0), ORDER(0, 2, 0, 0), ORDER(1, 2, 0, 0), ORDER(0, 1, 2, 0),
    ORDER(3, 0, 0, 0), ORDER(0, 3, 0, 0), ORDER(1, 3, 0, 0), ORDER(0, 1, 3, 0),
    ORDER(2, 3, 0, 0), ORDER(0, 2, 3, 0), ORDER(1, 2, 3, 0), ORDER(0, 1, 2, 3),
};

/* Digit m: the number of bits in m. A processor without the newest extensions counts bits in vector
 * registers only: too far away. */
#define BIT_COUNTS UINT64_C(0x4332322132212110)

/* The masks of all parts cross over from the vectors as one number: each crossing takes long. */
static inline size_t pack_nonzero(const tmk_loose_bits *x, uint32_t *out) {
    static const uint16_t weights[TMK_LANES] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                                1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                                1 << 12, 1 << 13, 1 << 14, 1 << 15};
    uint32x4_t v[PARTS];
    uint16x8_t mask[PARTS];
    for (int part = 0; part < PARTS; part++) {
        v[part] = load_vector(x + 4 * part);
        mask[part] = vreinterpretq_u16_u32(nonzero_lanes(v[part]));
    }
    uint16x8_t low = vandq_u16(vuzp1q_u16(mask[0], mask[1]), vld1q_u16(weights));
    uint16x8_t high = vandq_u16(vuzp1q_u16(mask[2], mask[3]), vld1q_u16(weights + 8));
    unsigned keep = vaddvq_u16(vorrq_u16(low, high));
    size_t kept = 0;
    for (int part = 0; part < PARTS; part++) {
        unsigned some = keep >> 4 * part & 15u;
        uint8x16_t packed = vqtbl1q_u8(vreinterpretq_u8_u32(v[part]), vld1q_u8(orders[some]));
        vst1q_u32(out + kept, vreinterpretq_u32_u8(packed));
        kept += BIT_COUNTS >> 4 * some & 15u;
    }
    return kept;
}

#include "stats/kernel_body.h"

const struct tmk_stats_kernel tmk_stats_kernel_neon = {
    "neon",         scan_elements,  add_tile, scatter_elements, count_sign_bits, columns,
    finite_columns, update_columns, sum,      sum_window};
