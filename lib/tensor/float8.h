/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 8 bits, and of 4 (read only), as ONNX stores them: one a byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidemark/tensor.h>

/* Numbers at the exponent field e are multiples of 2^(e - bias - mantissa), as IEEE 754's. */
struct tmk_float8 {
    int bits, mantissa, bias;
    uint8_t most;   /* code of the largest number; the next is infinity or NaN, if there are such */
    double largest; /* that number */
    bool infinities, one_zero; /* one_zero: the code of -0 is the only NaN */
};
/* NULL for other types, and for float8_e8m0, which has no sign. */
const struct tmk_float8 *tmk_float8_layout(enum tmk_dtype dtype);

bool tmk_float8_is_read(enum tmk_dtype dtype);
bool tmk_float8_is_written(enum tmk_dtype dtype);
/* Of such a type only: */
float tmk_float8_value(enum tmk_dtype dtype, uint8_t code);
/* To nearest, ties to even. Beyond the largest number: that number, or without `saturate` infinity
 * where the type has it, else NaN. As ONNX's Cast. */
uint8_t tmk_float8_code(enum tmk_dtype dtype, float value, bool saturate);
