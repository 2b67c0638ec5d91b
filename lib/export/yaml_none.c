/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libyaml in a build without it. */
#include "base/diag.h"
#include "export/yaml.h"

static enum tmk_status fail_without_yaml(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "is YAML, but this build has no libyaml; build with -Dyaml=enabled");
}

enum tmk_status tmk_read_glow(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag) {
    (void)file, (void)out;
    return fail_without_yaml(diag);
}

enum tmk_status tmk_read_rknn(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag) {
    (void)file, (void)out;
    return fail_without_yaml(diag);
}
