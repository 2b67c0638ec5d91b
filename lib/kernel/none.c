/* SPDX-License-Identifier: Apache-2.0 */
/* Built where there is no library: only the families of our own are left. */
#include "kernel/family.h"

const struct tmk_family *const tmk_library_families[] = {NULL};

uint32_t tmk_kernel_block(void) {
    return 0;
}

void tmk_kernel_enter_thread(void) {}

const char *tmk_kernel_library(void) {
    return "plain C";
}
