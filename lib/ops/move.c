/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/move.h"

#include <math.h>
#include <string.h>

#include "ops/vmath.h"

/* Elements are copied as bits, whatever their type is. */
typedef uint8_t __attribute__((may_alias)) bits8;
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

enum {
    TILE = 16
}; /* of a transposed plane: 16 lines of at most 128 bytes stay in the first cache */

void tmk_move_axis(struct tmk_move *move, int64_t dim, int64_t to, int64_t from) {
    if (dim == 0)
        move->empty = true;
    if (dim == 1 || move->empty)
        return;
    int32_t last = move->rank - 1;
    if (last >= 0 && move->to[last] == dim * to && move->from[last] == dim * from) {
        move->dim[last] *= dim;
        move->to[last] = to;
        move->from[last] = from;
        return;
    }
    move->dim[move->rank] = dim;
    move->to[move->rank] = to;
    move->from[move->rank] = from;
    move->rank++;
}

#define COPY_LINE(type)                                                                            \
    do {                                                                                           \
        type *d = dst;                                                                             \
        const type *s = src;                                                                       \
        if (to == 1 && from == 0) {                                                                \
            type v = *s;                                                                           \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = v;                                                                          \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i * to] = s[i * from];                                                           \
        }                                                                                          \
    } while (0)

static void copy_line(size_t element, void *dst, const void *src, int64_t n, int64_t to,
                      int64_t from) {
    if (to == 1 && from == 1) {
        memcpy(dst, src, (size_t)n * element);
        return;
    }
    switch (element) {
    case 1:
        COPY_LINE(bits8);
        return;
    case 2:
        COPY_LINE(bits16);
        return;
    case 4:
        COPY_LINE(bits32);
        return;
    case 8:
        COPY_LINE(bits64);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)dst + i * to * (int64_t)element,
                   (const char *)src + i * from * (int64_t)element, element);
    }
}

/* A plane whose rows are contiguous in dst and whose columns are contiguous in src. */
struct plane {
    int64_t rows, columns, to, from; /* strides of a row in dst, of a column in src */
};

#define COPY_PLANE(type)                                                                           \
    do {                                                                                           \
        type *d = dst;                                                                             \
        const type *s = src;                                                                       \
        for (int64_t r0 = 0; r0 < p->rows; r0 += TILE)                                             \
            for (int64_t c0 = 0; c0 < p->columns; c0 += TILE) {                                    \
                int64_t r1 = p->rows - r0 < TILE ? p->rows : r0 + TILE;                            \
                int64_t c1 = p->columns - c0 < TILE ? p->columns : c0 + TILE;                      \
                for (int64_t r = r0; r < r1; r++)                                                  \
                    for (int64_t c = c0; c < c1; c++)                                              \
                        d[r * p->to + c] = s[r + c * p->from];                                     \
            }                                                                                      \
    } while (0)

static void copy_plane(size_t element, void *dst, const void *src, const struct plane *p) {
    switch (element) {
    case 1:
        COPY_PLANE(bits8);
        return;
    case 2:
        COPY_PLANE(bits16);
        return;
    case 4:
        if (p->to > 0 && p->from > 0)
            tmk_vtranspose(src, (size_t)p->from, dst, (size_t)p->to, (size_t)p->rows,
                           (size_t)p->columns);
        else
            COPY_PLANE(bits32);
        return;
    case 8:
        COPY_PLANE(bits64);
        return;
    default:
        for (int64_t r = 0; r < p->rows; r++)
            copy_line(element, (char *)dst + r * p->to * (int64_t)element,
                      (const char *)src + r * (int64_t)element, p->columns, 1, p->from);
    }
}

/* The axis that makes a transposed plane with the innermost one, or -1. */
static int32_t plane_axis(const struct tmk_move *move) {
    int32_t last = move->rank - 1;
    if (last < 1 || move->to[last] != 1 || move->from[last] == 0 || move->from[last] == 1)
        return -1;
    for (int32_t k = last - 1; k >= 0; k--)
        if (move->from[k] == 1)
            return k;
    return -1;
}

void tmk_move_run(const struct tmk_move *move, size_t element, void *dst, const void *src) {
    if (move->empty)
        return;
    if (move->rank == 0) {
        memcpy(dst, src, element);
        return;
    }
    int32_t last = move->rank - 1, rows = plane_axis(move);
    struct plane plane = {0};
    if (rows >= 0)
        plane = (struct plane){move->dim[rows], move->dim[last], move->to[rows], move->from[last]};
    int64_t at[TMK_MOVE_AXES] = {0}, size = (int64_t)element;
    char *d = dst;
    const char *s = src;
    for (;;) {
        if (rows >= 0)
            copy_plane(element, d, s, &plane);
        else
            copy_line(element, d, s, move->dim[last], move->to[last], move->from[last]);
        int32_t k = last - 1;
        for (; k >= 0; k--) {
            if (k == rows)
                continue;
            d += move->to[k] * size;
            s += move->from[k] * size;
            if (++at[k] < move->dim[k])
                break;
            d -= move->dim[k] * move->to[k] * size;
            s -= move->dim[k] * move->from[k] * size;
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

void tmk_fill(void *dst, const void *value, size_t element, size_t count) {
    copy_line(element, dst, value, (int64_t)count, 1, 0);
}

enum tmk_status tmk_run_view(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out && out->data != run->in[0]->data)
        memcpy(out->data, run->in[0]->data, tmk_tensor_bytes(out));
    return TMK_OK;
}

int64_t tmk_index_at(const struct tmk_tensor *indices, size_t i) {
    return indices->dtype == TMK_INT32 ? ((const int32_t *)indices->data)[i]
                                       : ((const int64_t *)indices->data)[i];
}

enum tmk_status tmk_want_indices(const struct tmk_tensor *indices, const char *what,
                                 struct tmk_diag *diag) {
    if (indices->dtype == TMK_INT32 || indices->dtype == TMK_INT64)
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "%s are %s; int32 or int64 is wanted", what,
                    tmk_dtype_name(indices->dtype));
}

enum tmk_status tmk_index(int64_t index, int64_t extent, int64_t *out, struct tmk_diag *diag) {
    if (index < -extent || index >= extent)
        return tmk_fail(diag, TMK_RANGE, "index %lld is out of range for a dimension of %lld",
                        (long long)index, (long long)extent);
    *out = index < 0 ? index + extent : index;
    return TMK_OK;
}

/* Merge sort, from runs of one item up. */
size_t *tmk_sort(size_t n, tmk_order *order, const void *items, size_t *a, size_t *b) {
    for (size_t i = 0; i < n; i++)
        a[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            size_t middle = n - left < width ? n : left + width;
            size_t end = n - middle < width ? n : middle + width;
            for (size_t i = left, j = middle, to = left; to < end; to++)
                if (i < middle && (j >= end || order(items, a[i], a[j]) <= 0))
                    b[to] = a[i++];
                else
                    b[to] = a[j++];
        }
        size_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

enum tmk_dtype tmk_held_dtype(enum tmk_dtype dtype) {
    bool wide = dtype == TMK_FLOAT16 || dtype == TMK_BFLOAT16 || dtype == TMK_FLOAT64;
    return wide ? TMK_FLOAT32 : dtype;
}

enum tmk_status tmk_read_sizes(const struct tmk_tensor *tensor, const char *what, size_t limit,
                               int64_t *out, size_t *n, struct tmk_diag *diag) {
    if (tensor->dtype != TMK_FLOAT32)
        return tmk_read_ints(tensor, what, limit, out, n, diag);
    size_t count = tmk_tensor_count(tensor);
    if (tensor->shape.rank > 1 || count > limit)
        return tmk_fail(diag, TMK_SHAPE, "%s hold %zu elements; at most %zu in one dimension fit",
                        what, count, limit);
    const float *values = tensor->data;
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(values[i]) <= 0x1p53f) || values[i] != truncf(values[i]))
            return tmk_fail(diag, TMK_RANGE, "%s hold %g, which is no whole number", what,
                            (double)values[i]);
        out[i] = (int64_t)values[i];
    }
    *n = count;
    return TMK_OK;
}
