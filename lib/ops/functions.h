/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of functions_body.h of one float. Compilers turn loops over them into vector code.
 */
#pragma once

#include <stdint.h>

#include "base/bits.h"

static inline int32_t tmk_float_bits(float v) {
    return (int32_t)tmk_bits_of_float(v);
}
static inline float tmk_bits_float(int32_t bits) {
    return tmk_float_of_bits((uint32_t)bits);
}

#define PROCESSOR
#define FUNCTION(name) tmk_##name##f
#define VEC float
#define INTS int32_t
#define WORDS uint32_t
#define BITS tmk_float_bits
#define FLOATS tmk_bits_float
#define TO_FLOATS(i) ((float)(i))
#define LESS(a, b) (-((a) < (b)))
#define LIMIT tmk_limitf
#define SCALE tmk_scalef

#include "ops/functions_body.h"

float tmk_logf(float x);
/* The sine of x + quarters pi/2, quarters 0 or 1. */
float tmk_sinef(float x, int32_t quarters);
