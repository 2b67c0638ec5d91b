/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/profile.h>

#include "command.h"

enum tmk_status write_profiles(const struct tmk_profile *profile, const struct words *files,
                               struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < files->n; i++) {
        enum tmk_status one =
            tmk_profile_write(profile, files->items[i], status == TMK_OK ? diag : NULL);
        status = status == TMK_OK ? one : status;
    }
    return status;
}
