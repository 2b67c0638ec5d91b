/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN as a whole: which families it serves, and its version and settings. */
#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl_debug.h>

#include "kernel/onednn.h"

const struct tmk_family *const tmk_library_families[] = {
    &tmk_family_conv, &tmk_family_conv_transpose, &tmk_family_matmul,
    &tmk_family_gemm, &tmk_family_pool,           NULL,
};

uint32_t tmk_kernel_block(void) {
    bool wide =
        (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    return wide ? 16 : 8;
}

const char *tmk_kernel_library(void) {
    static _Thread_local char text[64];
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *version = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    if (strncmp(isa, prefix, sizeof prefix - 1) == 0)
        isa += sizeof prefix - 1;
    snprintf(text, sizeof text, "oneDNN %d.%d.%d (%s)", version->major, version->minor,
             version->patch, isa);
    return text;
}
