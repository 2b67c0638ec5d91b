/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a seed stands for, where no fuzzer makes them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MOST_GRAPH_BYTES = 320 };

/* Fills bytes [MOST_GRAPH_BYTES]; how many there are. */
static inline size_t graph_bytes(uint64_t seed, uint8_t *bytes) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < MOST_GRAPH_BYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(state >> 40);
    }
    return 24 + (size_t)(state >> 33) % (MOST_GRAPH_BYTES - 24);
}
