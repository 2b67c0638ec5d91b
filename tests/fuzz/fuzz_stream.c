/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's records on standard input. The first byte: bits 0-1: what the inputs want, the others how
 * many entries are read at a time. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"
#include "read_source.h"

FUZZ_TARGET(stream) {
    uint8_t how = fuzz_take(&data, &size);
    struct tmk_source_input wants[2] = {
        {"x", TMK_FLOAT32, how & 1, {.rank = 2, .dim = {-1, 3}}},
        {"y", TMK_INT64, how & 1, {.rank = 1, .dim = {-1}}},
    };
    if (!freopen(fuzz_file("records", data, size), "rb", stdin))
        fuzz_fail(__FILE__, __LINE__, "standard input", NULL);
    fuzz_read_source("-", NULL, 1 + (how >> 2), wants, how & 2 ? 2 : 1);
    return 0;
}
