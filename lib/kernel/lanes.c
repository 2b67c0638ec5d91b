/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/lanes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TARGET
#define PROCESSOR "any processor"
#define FLOATS 4
#define BLOCK 8
#define NAME(of) of##_any_8
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#define BLOCK 16
#define NAME(of) of##_any_16
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#undef FLOATS
#undef PROCESSOR
#undef TARGET

#ifdef __x86_64__

#define TARGET __attribute__((target("avx2")))
#define PROCESSOR "avx2"
#define FLOATS 8
#define BLOCK 8
#define NAME(of) of##_avx2_8
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#define BLOCK 16
#define NAME(of) of##_avx2_16
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#undef FLOATS
#undef PROCESSOR
#undef TARGET

#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq")))
#define PROCESSOR "avx512"
#define FLOATS 16
#define BLOCK 8
#define NAME(of) of##_avx512_8
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#define BLOCK 16
#define NAME(of) of##_avx512_16
#include "kernel/lanes_body.h"
#undef BLOCK
#undef NAME
#undef FLOATS
#undef PROCESSOR
#undef TARGET

const struct tmk_lanes *tmk_lanes_find(uint32_t block) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return block == 8 ? &lanes_avx512_8 : &lanes_avx512_16;
    if (__builtin_cpu_supports("avx2"))
        return block == 8 ? &lanes_avx2_8 : &lanes_avx2_16;
    return block == 8 ? &lanes_any_8 : &lanes_any_16;
}

#else

const struct tmk_lanes *tmk_lanes_find(uint32_t block) {
    return block == 8 ? &lanes_any_8 : &lanes_any_16;
}

#endif

void tmk_lanes_name(const struct tmk_lanes *lanes, char *text, size_t size) {
    snprintf(text, size, "blocks of %u, %s", lanes->block, lanes->processor);
}
