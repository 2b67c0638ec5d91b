/* SPDX-License-Identifier: Apache-2.0 */
/* Size arithmetic that reports overflow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* False, and *out untouched, on overflow. */
static inline bool tmk_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool tmk_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool tmk_mul_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool tmk_add_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

#define TMK_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* -1, 0 or 1, as qsort and bsearch want it. */
#define TMK_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Where the first of n structs of `size` bytes is whose ID, a uint32_t that they begin with, is
 * `id` or above; IDs ascend. */
static inline size_t tmk_lower_bound(const void *items, size_t n, size_t size, uint32_t id) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        uint32_t there;
        memcpy(&there, (const char *)items + middle * size, sizeof there);
        if (there < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
/* Orders numbers, and structs that begin with one. */
static inline int tmk_compare_u32(const void *a, const void *b) {
    return TMK_ORDER(*(const uint32_t *)a, *(const uint32_t *)b);
}
static inline int tmk_compare_u64(const void *a, const void *b) {
    return TMK_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}
