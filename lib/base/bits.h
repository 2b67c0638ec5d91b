/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of a float32. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t tmk_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float tmk_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
