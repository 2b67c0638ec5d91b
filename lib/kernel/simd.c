/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/simd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Have these windows as many taps each, and lie equally far apart? */
static inline bool same_span(const struct tmk_pool_span *u, int n) {
    for (int i = 1; i < n; i++)
        if (u[i].count != u[0].count || u[i].first - u[i - 1].first != u[1].first - u[0].first)
            return false;
    return true;
}

#define TARGET
#define PROCESSOR "any processor"
#define FLOATS 4
#define BLOCK 8
#define NAME(of) of##_any_8
#include "kernel/simd_body.h"
#define BLOCK 16
#define NAME(of) of##_any_16
#include "kernel/simd_body.h"
#undef FLOATS
#undef PROCESSOR
#undef TARGET

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define PROCESSOR "avx2"
#define FLOATS 8
#define BLOCK 8
#define NAME(of) of##_avx2_8
#include "kernel/simd_body.h"
#define BLOCK 16
#define NAME(of) of##_avx2_16
#include "kernel/simd_body.h"
#undef FLOATS
#undef PROCESSOR
#undef TARGET

#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq")))
#define PROCESSOR "avx512"
#define FLOATS 16
#define BLOCK 8
#define NAME(of) of##_avx512_8
#include "kernel/simd_body.h"
#define BLOCK 16
#define NAME(of) of##_avx512_16
#include "kernel/simd_body.h"
#undef FLOATS
#undef PROCESSOR
#undef TARGET

#endif

const struct tmk_simd *tmk_simd_at(uint32_t block, size_t i) {
    const struct tmk_simd *usable[3];
    size_t n = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        usable[n++] = block == 8 ? &lanes_avx512_8 : &lanes_avx512_16;
    if (__builtin_cpu_supports("avx2"))
        usable[n++] = block == 8 ? &lanes_avx2_8 : &lanes_avx2_16;
#endif
    usable[n++] = block == 8 ? &lanes_any_8 : &lanes_any_16;
    return i < n ? usable[i] : NULL;
}

const struct tmk_simd *tmk_simd_find(uint32_t block) {
    return tmk_simd_at(block, 0);
}

void tmk_simd_name(const struct tmk_simd *lanes, char *text, size_t size) {
    snprintf(text, size, "blocks of %u, %s", lanes->block, lanes->processor);
}
