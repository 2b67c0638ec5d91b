/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 as data. The first byte: how many entries are read at a time. */
#include "fuzz.h"
#include "read_source.h"

FUZZ_TARGET(hdf5_data) {
    uint8_t step = fuzz_take(&data, &size);
    fuzz_read_source(fuzz_file("data.h5", data, size), NULL, step ? step : 1, NULL, 0);
    return 0;
}
