/* SPDX-License-Identifier: Apache-2.0 */
/* Built where there is no library: only the families of our own are left. */
#include "kernel/family.h"

const struct tmk_family *const tmk_library_families[] = {NULL};

enum tmk_status tmk_packs_create(struct tmk_packs **out, struct tmk_diag *diag) {
    (void)diag;
    *out = NULL;
    return TMK_OK;
}

enum tmk_status tmk_packs_create_empty(struct tmk_packs **out, struct tmk_diag *diag) {
    return tmk_packs_create(out, diag);
}

void tmk_packs_destroy(struct tmk_packs **packs) {
    (void)packs;
}

void tmk_packs_open(struct tmk_packs *packs) {
    (void)packs;
}

enum tmk_status tmk_packs_close(struct tmk_packs *packs, struct tmk_diag *diag) {
    (void)packs;
    (void)diag;
    return TMK_OK;
}

void tmk_packs_help(struct tmk_packs *packs) {
    (void)packs;
}

uint32_t tmk_kernel_block(void) {
    return 0;
}

const char *tmk_kernel_library(void) {
    return "plain C";
}
