/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/chain_loops.h"

#include "base/size.h"

/* Every AArch64 processor has NEON. */
const struct tmk_chain_loops *tmk_chain_loops_at(size_t i) {
    static const struct tmk_chain_loops *const usable[] = {&tmk_chain_loops_neon,
                                                           &tmk_chain_loops_plain};
    return i < TMK_COUNT(usable) ? usable[i] : NULL;
}
