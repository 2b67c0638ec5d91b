/* SPDX-License-Identifier: Apache-2.0 */
/* Row-major tensors, and the same in blocks of axis 1. */
#include <string.h>

#include "base/size.h"
#include "kernel/chain.h"
#include "ops/kernel.h"

typedef float four __attribute__((vector_size(16)));
typedef float loose_four __attribute__((vector_size(16), aligned(4), may_alias));

#define LOAD(at) (*(const loose_four *)(at))
#define STORE(at, v) (*(loose_four *)(at) = (v))
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Four rows of four. */
static inline void turn_four(const float *from, size_t from_step, float *to, size_t to_step) {
    four a = LOAD(from), b = LOAD(from + from_step), c = LOAD(from + 2 * from_step),
         d = LOAD(from + 3 * from_step);
    four ac = LOWER(a, c), bd = LOWER(b, d), upper_ac = UPPER(a, c), upper_bd = UPPER(b, d);
    STORE(to, LOWER(ac, bd));
    STORE(to + to_step, UPPER(ac, bd));
    STORE(to + 2 * to_step, LOWER(upper_ac, upper_bd));
    STORE(to + 3 * to_step, UPPER(upper_ac, upper_bd));
}

/* to[c * to_step + r] = from[r * from_step + c], for four rows and columns, or as many as there
 * are. */
static inline void transpose_tile(const float *from, size_t from_step, float *to, size_t to_step,
                                  size_t row, size_t column, size_t rows, size_t columns) {
    if (rows - row >= 4 && columns - column >= 4) {
        turn_four(from + row * from_step + column, from_step, to + column * to_step + row, to_step);
        return;
    }
    for (size_t r = row; r < rows && r < row + 4; r++)
        for (size_t c = column; c < columns && c < column + 4; c++)
            to[c * to_step + r] = from[r * from_step + c];
}

struct extents {
    size_t samples, channels, blocks, area, block;
};

static struct extents extents_of(const struct tmk_shape *shape, uint32_t block) {
    size_t channels = (size_t)shape->dim[1];
    return (struct extents){(size_t)shape->dim[0], channels, (channels + block - 1) / block,
                            tmk_shape_product(shape, 2, shape->rank), block};
}

bool tmk_blocked_count(const struct tmk_shape *shape, uint32_t block, size_t *out) {
    struct tmk_shape whole = *shape;
    if (block > 1 && shape->rank >= 2 && shape->rank <= TMK_MAX_RANK) {
        if (__builtin_add_overflow(whole.dim[1], (int64_t)block - 1, &whole.dim[1]))
            return false;
        whole.dim[1] -= whole.dim[1] % block;
    }
    return tmk_shape_count(&whole, out);
}

bool tmk_blocked_same(const struct tmk_shape *shape, uint32_t block) {
    if (block <= 1 || shape->rank < 2)
        return true;
    struct extents e = extents_of(shape, block);
    if (e.channels % block != 0)
        return e.samples == 0 || e.channels == 0 || e.area == 0;
    return e.area <= 1 || e.samples == 0 || e.channels == 0;
}

void tmk_to_blocks(const float *src, float *dst, const struct tmk_shape *shape, uint32_t block) {
    struct extents e = extents_of(shape, block > 1 ? block : 1);
    for (size_t group = 0; group < e.samples * e.blocks; group++) {
        size_t first = group % e.blocks * e.block, left = e.channels - first,
               n = left < e.block ? left : e.block;
        const float *from = src + (group / e.blocks * e.channels + first) * e.area;
        for (size_t at = 0; at < e.area; at += 4)
            for (size_t c = 0; c < n; c += 4)
                transpose_tile(from, e.area, dst, e.block, c, at, n, e.area);
        for (size_t i = 0; i < e.area && n < e.block; i++)
            memset(dst + i * e.block + n, 0, (e.block - n) * sizeof *dst);
        dst += e.area * e.block;
    }
}

void tmk_from_blocks(const float *src, float *dst, const struct tmk_shape *shape, uint32_t block) {
    struct extents e = extents_of(shape, block > 1 ? block : 1);
    for (size_t group = 0; group < e.samples * e.blocks; group++) {
        size_t first = group % e.blocks * e.block, left = e.channels - first,
               n = left < e.block ? left : e.block;
        float *to = dst + (group / e.blocks * e.channels + first) * e.area;
        for (size_t at = 0; at < e.area; at += 4)
            for (size_t c = 0; c < n; c += 4)
                transpose_tile(src, e.block, to, e.area, at, c, e.area, n);
        src += e.area * e.block;
    }
}
