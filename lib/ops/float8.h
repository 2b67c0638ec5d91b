/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 8 bits, and of 4 (read only), as ONNX stores them: one a byte. */
#ifndef TMK_OPS_FLOAT8_H
#define TMK_OPS_FLOAT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidemark/tensor.h>

/* The types with a sign; float8_e8m0 is none. */
bool tmk_float8_is_read(enum tmk_dtype dtype);
bool tmk_float8_is_written(enum tmk_dtype dtype);
float tmk_float8_value(enum tmk_dtype dtype, uint8_t code);
/* To nearest, ties to even. Beyond the largest number: that number, or without `saturate` infinity
 * where the type has it, else NaN. As ONNX's Cast. */
uint8_t tmk_float8_code(enum tmk_dtype dtype, float value, bool saturate);

#endif
