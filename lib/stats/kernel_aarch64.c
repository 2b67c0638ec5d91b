/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/kernel.h"

#include "base/size.h"

/* Every AArch64 processor has NEON. */
const struct tmk_stats_kernel *tmk_stats_kernel_at(size_t i) {
    static const struct tmk_stats_kernel *const usable[] = {&tmk_stats_kernel_neon,
                                                            &tmk_stats_kernel_plain};
    return i < TMK_COUNT(usable) ? usable[i] : NULL;
}
