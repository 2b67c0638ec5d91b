/* SPDX-License-Identifier: Apache-2.0 */
/* Built where there is no oneDNN: every node runs on its plain kernel. */
#include <assert.h>

#include "kernel/accel.h"

enum tmk_status tmk_accel_create(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 const struct tmk_infer_result *out_types, struct tmk_accel **out,
                                 struct tmk_diag *diag) {
    (void)node, (void)in, (void)out_types, (void)diag;
    *out = NULL;
    return TMK_OK;
}

void tmk_accel_destroy(struct tmk_accel **accel) {
    (void)accel;
}

const char *tmk_accel_name(const struct tmk_accel *accel) {
    (void)accel;
    return tmk_kernel_library();
}

size_t tmk_accel_scratch(const struct tmk_accel *accel) {
    (void)accel;
    return 0;
}

enum tmk_status tmk_accel_run(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                              struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag) {
    (void)accel, (void)in, (void)out, (void)scratch, (void)diag;
    assert(!"nothing makes an accel here");
    return TMK_UNSUPPORTED;
}

void tmk_kernel_enter_thread(void) {}

const char *tmk_kernel_library(void) {
    return "plain C";
}
