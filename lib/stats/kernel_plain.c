/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/kernel.h"

#define TARGET
#include "stats/kernel_body.h"

static size_t pack(const tmk_loose_bits *x, size_t n, uint32_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = x[i];
        out[kept] = v;
        kept += (v & 0x7fffffffu) != 0;
    }
    return kept;
}

const struct tmk_stats_kernel tmk_stats_kernel_plain = {"plain", tile, survey, columns};
