/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: what reads can be written. */
#include <tidemark/encodings.h>

#include "base/diag.h"
#include "fuzz.h"

FUZZ_TARGET(encodings) {
    struct tmk_diag diag = {0};
    struct tmk_encodings *encodings = NULL;
    if (!fuzz_ok(tmk_encodings_read(fuzz_file("enc.json", data, size), &encodings, &diag), &diag))
        return 0;
    (void)fuzz_done(tmk_encodings_write(encodings, fuzz_file("again.json", NULL, 0), &diag), &diag);
    tmk_encodings_destroy(&encodings);
    return 0;
}
