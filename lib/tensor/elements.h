/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of constants, which may stay in a mapped file until they are read.
 *
 * A lazy tensor is float32, but its elements lie in the file as float16, bfloat16 or float64, or
 * not aligned, and `data` is NULL. Readers take a block at a time (tmk_elements), or open the
 * tensor: then all its elements are there as long as anybody has it open. Only graphs that are to
 * be run have lazy tensors, apart from a model's own graph: tmk_graph_clone opens them.
 * Thread-safe. */
#pragma once

#include <tidemark/tensor.h>

/* LAZY_LEAST: elements from which on it is worth it to be lazy. BLOCK: elements of a block where
 * the reader has no reason for another size. */
enum { TMK_LAZY_LEAST = 1 << 14, TMK_ELEMENTS_BLOCK = 1 << 18 };

/* A tensor over the bytes of `owner`, of which it takes a reference, in the type `dtype`. */
enum tmk_status tmk_lazy_create(enum tmk_dtype dtype, const struct tmk_shape *shape,
                                const void *bytes, struct tmk_buf *owner, struct tmk_tensor *out,
                                struct tmk_diag *diag);
bool tmk_tensor_is_lazy(const struct tmk_tensor *tensor);
/* Does it have elements, be they here or in a file? */
bool tmk_tensor_has_elements(const struct tmk_tensor *tensor);
/* The same tensor with its elements in memory; end with tmk_tensor_finish. All who open a lazy
 * tensor share them. */
enum tmk_status tmk_tensor_open(const struct tmk_tensor *tensor, struct tmk_tensor *out,
                                struct tmk_diag *diag);
/* Was it lazy before it was opened? */
bool tmk_tensor_is_opened(const struct tmk_tensor *tensor);

/* Where the elements lie, in whatever type: an identity. */
const void *tmk_elements_address(const struct tmk_tensor *tensor);
/* Are the elements in a mapped file? Reading them in blocks saves memory then. */
bool tmk_elements_mapped(const struct tmk_tensor *tensor);
/* Bytes of scratch memory for reading n elements; may be 0. */
size_t tmk_elements_scratch(const struct tmk_tensor *tensor, size_t n);
/* The elements [first, first + n): where they are, or in the scratch memory. */
const void *tmk_elements(const struct tmk_tensor *tensor, size_t first, size_t n, void *scratch);
/* They are not needed soon. A system that maps whole folios may bring some of them back with the
 * next block: rest all of them in the end. */
void tmk_elements_rest(const struct tmk_tensor *tensor, size_t first, size_t n);
/* In a mapped file, and so many that it is worth it to let them rest between reads of a few rows: a
 * system that maps whole folios would bring in most of a table for some hundred rows. */
bool tmk_elements_large(const struct tmk_tensor *tensor);

/* An integer type with a sign? */
bool tmk_dtype_is_signed(enum tmk_dtype dtype);

/* Single elements, as numbers of any type. */

/* Can both functions below take the type? It is one that feeds inputs with tokens, masks, lengths:
 * float32, int64, int32, bool. */
bool tmk_number_takes(enum tmk_dtype dtype);
/* Element `at`. */
double tmk_number_get(const struct tmk_tensor *tensor, size_t at);
/* Sets it. TMK_FORMAT: the type has no such number; TMK_TYPE: it is none of these types. */
enum tmk_status tmk_number_put(struct tmk_tensor *tensor, size_t at, double value,
                               struct tmk_diag *diag);
