/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over blocks of channels, one vector a block, compiled for several processors. They add and
 * compare in the same order everywhere, so that all give the same bits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One window on one axis. */
struct tmk_pool_span {
    int64_t first;  /* position of the first tap inside the input */
    int64_t count;  /* taps inside the input */
    int64_t padded; /* taps inside the input and its explicit padding */
};

/* A window over three axes, the last fastest. */
struct tmk_pool_blocked {
    size_t planes;                       /* blocks of all batches */
    int64_t in[3], out[3], step[3];      /* step: elements from tap to tap along the axis */
    const struct tmk_pool_span *span[3]; /* one an output on the axis */
    bool padding_counts;                 /* in means */
};

/* x: [batch][blocks of channels][places][block]; y: [batch][channels] */
typedef void tmk_global_fn(const float *x, float *y, size_t batch, size_t channels, size_t places);
/* x, y: [planes][places][block] */
typedef void tmk_pool_fn(const struct tmk_pool_blocked *pool, const float *x, float *y);
/* Of n floats, wherever they are from: is none NaN or infinite? */
typedef bool tmk_finite_fn(const float *x, size_t n);

/* NaN counts as the largest number, and no window whose maximum is asked for is empty. Means are of
 * sums in double precision; 0 of nothing. */
struct tmk_simd {
    uint32_t block;
    const char *processor;
    tmk_global_fn *global_mean, *global_max;
    tmk_pool_fn *pool_mean, *pool_max;
    tmk_finite_fn *all_finite;
};

/* The i-th that this machine runs, best first; NULL after the last. block is 8 or 16. */
const struct tmk_simd *tmk_simd_at(uint32_t block, size_t i);
/* The best of them. */
const struct tmk_simd *tmk_simd_find(uint32_t block);
/* "blocks of 16, avx512" */
void tmk_simd_name(const struct tmk_simd *lanes, char *text, size_t size);
