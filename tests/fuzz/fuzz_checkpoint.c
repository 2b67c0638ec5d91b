/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints. The first byte: bit 0 gives them the length and the checksum that they should have,
 * without which hardly any mutation is looked at. Nothing decodes that encoding does not write. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/diag.h"
#include "fuzz.h"
#include "profile/checkpoint.h"

enum { LENGTH_AT = 12, HEAD = 20, SUM = 8 };

static void put_number(uint8_t *at, uint64_t number) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

FUZZ_TARGET(checkpoint) {
    bool mend = fuzz_take(&data, &size) & 1;
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    if (mend && size >= HEAD + SUM) {
        put_number(bytes + LENGTH_AT, size - HEAD - SUM);
        put_number(bytes + size - SUM, XXH64(bytes, size - SUM, 0));
    }
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    if (fuzz_ok(tmk_checkpoint_decode(bytes, size, &profile, &diag), &diag)) {
        struct tmk_text text = {0};
        if (fuzz_done(tmk_checkpoint_encode(profile, &text, &diag), &diag))
            fuzz_check(text.len == size && memcmp(text.data, bytes, size) == 0, &diag);
        tmk_text_finish(&text);
        tmk_profile_destroy(&profile);
    }
    free(bytes);
    return 0;
}
