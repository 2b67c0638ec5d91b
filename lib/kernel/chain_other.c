/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/chain_loops.h"

const struct tmk_chain_loops *tmk_chain_loops_at(size_t i) {
    return i == 0 ? &tmk_chain_loops_plain : NULL;
}
