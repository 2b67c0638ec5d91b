/* SPDX-License-Identifier: Apache-2.0 */
/* Random floats and guarded memory for the tests of chains. */
#pragma once

#include "test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { GUARD = 64 };

static uint64_t seed = 20240301;

static inline uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static inline int pick(int low, int high) {
    return low + (int)(random_bits() % (uint32_t)(high - low + 1));
}

static inline float random_float(void) {
    static const float special[] = {0.0f,      -0.0f,  1.0f,     -1.0f, NAN,  INFINITY,
                                    -INFINITY, 1e-41f, -3.4e38f, 3e38f, 6.0f, 0.5f};
    if (random_bits() % 16 == 0)
        return special[random_bits() % TMK_COUNT(special)];
    return (float)random_bits() * 0x1p-29f - 2;
}

/* Floats, 64-byte aligned, with guards before and behind; everything is 0xff: NaN. */
static inline float *guarded(size_t n) {
    size_t total = (n * sizeof(float) + 2 * GUARD + 63) & ~(size_t)63;
    unsigned char *block = aligned_alloc(64, total);
    assert_non_null(block);
    memset(block, 0xff, total);
    return (float *)(void *)(block + GUARD);
}

static inline void free_guarded(float *x, size_t n) {
    unsigned char *bytes = (unsigned char *)(void *)x;
    for (size_t i = 0; x && i < GUARD; i++) {
        assert_int_equal(bytes[-1 - (int)i], 0xff);
        assert_int_equal(bytes[n * sizeof *x + i], 0xff);
    }
    free(x ? bytes - GUARD : NULL);
}

/* Equal bits, or nearly equal; a NaN is any NaN. */
static inline bool same(float x, float y, bool exact) {
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    if (exact || isinf(x) || isinf(y))
        return memcmp(&x, &y, sizeof x) == 0;
    return fabs((double)x - (double)y) <= 1e-5 * fabs((double)y) + 1e-6;
}
