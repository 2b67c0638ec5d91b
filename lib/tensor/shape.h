/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a shape. */
#pragma once

#include <tidemark/tensor.h>

/* The product of dimensions [from, to) of a shape that tmk_shape_count accepts; it may wrap where
 * the shape's count is 0. */
static inline size_t tmk_shape_product(const struct tmk_shape *shape, int32_t from, int32_t to) {
    size_t n = 1;
    for (int32_t i = from; i < to; i++)
        n *= (size_t)shape->dim[i];
    return n;
}

/* tmk_shape_text, for the length of a block. */
#define TMK_SHAPE_TEXT(shape) tmk_shape_text((shape), (char[256]){0}, 256)

/* Leaves out an axis. */
static inline void tmk_shape_drop(struct tmk_shape *shape, int32_t axis) {
    shape->rank--;
    for (int32_t i = axis; i < shape->rank; i++)
        shape->dim[i] = shape->dim[i + 1];
}

/* Puts an axis there; there are less than TMK_MAX_RANK. */
static inline void tmk_shape_insert(struct tmk_shape *shape, int32_t axis, int64_t dim) {
    for (int32_t i = shape->rank++; i > axis; i--)
        shape->dim[i] = shape->dim[i - 1];
    shape->dim[axis] = dim;
}

/* By ranks, then by dimensions: -1, 0 or 1. */
static inline int tmk_compare_shapes(const struct tmk_shape *a, const struct tmk_shape *b) {
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return a->dim[i] < b->dim[i] ? -1 : 1;
    return 0;
}
