/* SPDX-License-Identifier: Apache-2.0 */
/* Floats as integers: bits, and the key whose integer order is the order of values (-0 just below
 * +0). */
#pragma once

#include <stdbool.h>

#include "base/bits.h"

enum {
    TMK_KEY_POSINF = 0x7f800000,      /* above every finite key */
    TMK_KEY_NEGINF = -0x7f800000 - 1, /* below every finite key */
};

/* Its own inverse. The shift of a negative integer is arithmetic with gcc and clang. */
static inline int32_t tmk_key_of_bits(uint32_t bits) {
    int32_t v = (int32_t)bits;
    return v ^ ((v >> 31) & 0x7fffffff);
}

static inline uint32_t tmk_bits_of_key(int32_t key) {
    return (uint32_t)(key ^ ((key >> 31) & 0x7fffffff));
}

static inline bool tmk_key_is_finite(int32_t key) {
    return key > TMK_KEY_NEGINF && key < TMK_KEY_POSINF;
}

static inline float tmk_float_of_key(int32_t key) {
    return tmk_float_of_bits(tmk_bits_of_key(key));
}

static inline int32_t tmk_key_of_float(float value) {
    return tmk_key_of_bits(tmk_bits_of_float(value));
}

/* A float at any address. */
typedef uint32_t __attribute__((aligned(1), may_alias)) tmk_loose_bits;
