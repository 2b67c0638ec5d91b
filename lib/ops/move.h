/* SPDX-License-Identifier: Apache-2.0 */
/* Copying elements of any size from one place to another: what the data-movement operators are made
 * of. */
#pragma once

#include "ops/kernel.h"

enum { TMK_MOVE_AXES = 2 * TMK_MAX_RANK };

/* A strided copy: for all i with 0 <= i[k] < dim[k],
 *     dst[sum of i[k] * to[k]] = src[sum of i[k] * from[k]]
 * Strides count elements and may be zero (`from`) or negative. Zero-initialised copies one element.
 */
struct tmk_move {
    int32_t rank;
    bool empty;
    int64_t dim[TMK_MOVE_AXES], to[TMK_MOVE_AXES], from[TMK_MOVE_AXES];
};

/* Adds an axis inside those there are, and merges it with its neighbour where the two walk memory
 * as one. */
void tmk_move_axis(struct tmk_move *move, int64_t dim, int64_t to, int64_t from);
/* Copies. `element` is in bytes; dst and src point to element 0 and do not overlap. */
void tmk_move_run(const struct tmk_move *move, size_t element, void *dst, const void *src);

/* Writes `count` copies of the element at `value`. */
void tmk_fill(void *dst, const void *value, size_t element, size_t count);

/* Concat's infer and run, which read the attribute `axis`: what is laid side by side need not be
 * the node's own operands. */
enum tmk_status tmk_concat_infer(struct tmk_infer *infer);
enum tmk_status tmk_concat_run(struct tmk_run *run);
/* Lays x, input i, behind the shape along the axis: TMK_SHAPE, TMK_RANGE. */
enum tmk_status tmk_concat_join(struct tmk_shape *shape, const struct tmk_shape *x, int32_t axis,
                                uint32_t i, struct tmk_diag *diag);

/* The run of a view: copies input 0 to output 0, unless they share memory. */
enum tmk_status tmk_run_view(struct tmk_run *run);

/* Element i of an int32 or int64 tensor. */
int64_t tmk_index_at(const struct tmk_tensor *indices, size_t i);
/* TMK_TYPE unless the tensor is int32 or int64; "what" names it. */
enum tmk_status tmk_want_indices(const struct tmk_tensor *indices, const char *what,
                                 struct tmk_diag *diag);
/* -extent <= index < extent becomes 0 <= *out < extent; TMK_RANGE otherwise. */
enum tmk_status tmk_index(int64_t index, int64_t extent, int64_t *out, struct tmk_diag *diag);

/* Negative, 0 or positive as item x comes before, with or after item y. */
typedef int tmk_order(const void *items, size_t x, size_t y);
/* Sorts the numbers 0..n-1 of items, equal ones in their order. `a` and `b` hold n each; one of
 * them is answered. */
size_t *tmk_sort(size_t n, tmk_order *order, const void *items, size_t *a, size_t *b);

/* The type that a graph holds numbers of this type in: float16, bfloat16 and float64 are held as
 * float32. */
enum tmk_dtype tmk_held_dtype(enum tmk_dtype dtype);

/* tmk_read_ints that takes float32 tensors of whole numbers too: the oldest operators ask for sizes
 * of their data's type. */
enum tmk_status tmk_read_sizes(const struct tmk_tensor *tensor, const char *what, size_t limit,
                               int64_t *out, size_t *n, struct tmk_diag *diag);
