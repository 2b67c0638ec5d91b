/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles as JSON and as HDF5: what reads is a profile that can be written, and a checkpoint. */
#include "base/diag.h"
#include "fuzz.h"
#include "profile/checkpoint.h"

FUZZ_TARGET(profile) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    if (!fuzz_ok(tmk_profile_read(fuzz_file("profile", data, size), &profile, &diag), &diag))
        return 0;
    struct tmk_text text = {0};
    (void)fuzz_done(tmk_checkpoint_encode(profile, &text, &diag), &diag);
    tmk_text_finish(&text);
    (void)fuzz_done(tmk_profile_write(profile, fuzz_file("again.json", NULL, 0), &diag), &diag);
    tmk_profile_destroy(&profile);
    return 0;
}
