/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's params: what was read is written again as the same bytes. */
#include <string.h>

#include "base/diag.h"
#include "fuzz.h"
#include "relay/relay.h"

FUZZ_TARGET(params) {
    struct tmk_relay_params *params = NULL;
    struct tmk_diag diag = {0};
    if (!fuzz_ok(tmk_relay_params_parse(data, size, "fuzz.params", &params, &diag), &diag))
        return 0;
    struct tmk_text text = {0};
    if (fuzz_done(tmk_relay_params_print(params, &text, &diag), &diag))
        fuzz_check(text.len == size && memcmp(text.data, data, size) == 0, &diag);
    tmk_text_finish(&text);
    tmk_relay_params_destroy(&params);
    return 0;
}
