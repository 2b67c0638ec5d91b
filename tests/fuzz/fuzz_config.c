/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file of calibrate. */
#include "base/diag.h"
#include "calib/config.h"
#include "fuzz.h"

FUZZ_TARGET(config) {
    struct tmk_diag diag = {0};
    struct tmk_config config;
    tmk_config_init(&config);
    (void)fuzz_ok(tmk_config_add_file(&config, fuzz_file("config.json", data, size), &diag), &diag);
    tmk_config_finish(&config);
    return 0;
}
