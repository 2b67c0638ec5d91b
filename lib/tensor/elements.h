/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of constants, a block at a time. Weights are read so that no more than a block of a
 * mapped file is in memory at once. Thread-safe. */
#ifndef TMK_TENSOR_ELEMENTS_H
#define TMK_TENSOR_ELEMENTS_H

#include <tidemark/tensor.h>

/* Elements of a block where the reader has no reason for another size. */
enum { TMK_ELEMENTS_BLOCK = 1 << 18 };

/* Are the elements in a mapped file? Reading them in blocks saves memory then. */
bool tmk_elements_mapped(const struct tmk_tensor *tensor);
/* The elements [first, first + n). */
const void *tmk_elements(const struct tmk_tensor *tensor, size_t first, size_t n);
/* They are not needed soon. A system that maps whole folios may bring some of them back with the
 * next block: rest all of them in the end. */
void tmk_elements_rest(const struct tmk_tensor *tensor, size_t first, size_t n);

#endif
