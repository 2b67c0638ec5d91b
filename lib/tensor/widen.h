/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TMK_TENSOR_WIDEN_H
#define TMK_TENSOR_WIDEN_H

#include <tidemark/tensor.h>

/* n elements of float16, bfloat16 or float64, which need not be aligned, as float32. */
void tmk_widen(enum tmk_dtype dtype, const void *from, size_t n, float *to);

#endif
