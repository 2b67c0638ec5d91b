/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/chain_loops.h"

#include "base/size.h"

const struct tmk_chain_loops *tmk_chain_loops_at(size_t i) {
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    const struct tmk_chain_loops *usable[4] = {NULL};
    size_t n = 0;
    if (avx512)
        usable[n++] = &tmk_chain_loops_avx512;
    if (avx2)
        usable[n++] = &tmk_chain_loops_avx2;
    usable[n] = &tmk_chain_loops_plain;
    return i < TMK_COUNT(usable) ? usable[i] : NULL;
}
