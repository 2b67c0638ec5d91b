/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/vmath_kernel.h"

const struct tmk_vmath *tmk_vmath_at(size_t i) {
    bool avx2 = __builtin_cpu_supports("avx2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    const struct tmk_vmath *usable[4] = {NULL};
    size_t n = 0;
    if (avx512)
        usable[n++] = &tmk_vmath_avx512;
    if (avx2)
        usable[n++] = &tmk_vmath_avx2;
    usable[n] = &tmk_vmath_plain;
    return i < TMK_COUNT(usable) ? usable[i] : NULL;
}
