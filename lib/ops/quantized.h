/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit integers with zero points and scales, as the integer operators of ONNX have them. */
#pragma once

#include "ops/ops.h"

/* TMK_TYPE unless the tensor is int8 or uint8 and its zero point (may be NULL) of the same type. */
enum tmk_status tmk_want_quantized(const struct tmk_tensor *tensor, const struct tmk_tensor *zero,
                                   const char *what, struct tmk_diag *diag);

/* Integers of at most 32 bits, not uint32: what the three functions below read and write. */
bool tmk_is_quantized(enum tmk_dtype dtype);
/* Element i of a tensor; NULL: 0. */
int32_t tmk_quantized_at(const struct tmk_tensor *tensor, size_t i);
/* to[i] = tensor[first + i] - zero for i < n, wrapping. */
void tmk_quantized_widen(const struct tmk_tensor *tensor, size_t first, size_t n, int32_t zero,
                         int32_t *to);
/* tensor[first + i] = from[i] for i < n; the type holds the numbers. */
void tmk_quantized_narrow(const int32_t *from, size_t n, struct tmk_tensor *tensor, size_t first);
/* Element i of y = saturate(round-half-even(sum * scale) + zero); y is int8 or uint8. NaN saturates
 * low. */
void tmk_quantized_put(struct tmk_tensor *y, size_t i, int32_t sum, float scale, int32_t zero);

/* DynamicQuantizeLinear: codes of uint8 for the range with 0 in it; y may be NULL. */
struct tmk_dynamic {
    float scale;
    int32_t zero; /* 0 to 255 */
};
struct tmk_dynamic tmk_quantize_dynamic(size_t n, const float *v, uint8_t *y);
