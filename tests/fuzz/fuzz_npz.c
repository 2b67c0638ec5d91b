/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's archives. The first byte: how many entries are read at a time. */
#include "fuzz.h"
#include "read_source.h"

FUZZ_TARGET(npz) {
    uint8_t step = fuzz_take(&data, &size);
    fuzz_read_source(fuzz_file("data.npz", data, size), NULL, step ? step : 1, NULL, 0);
    return 0;
}
