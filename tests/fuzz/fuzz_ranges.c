/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers' files of ranges, but for onert's, which HDF5 itself reads: that crashes when a file is
 * damaged. The first byte: a format's number from 1 on, as the library lists them, else the bytes
 * tell. */
#include <string.h>

#include <tidemark/ranges.h>

#include "base/diag.h"
#include "fuzz.h"

FUZZ_TARGET(ranges) {
    uint8_t number = fuzz_take(&data, &size);
    static const uint8_t hdf5[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    const char *format = NULL, *help;
    if (number && !tmk_ranges_format(number - 1u, &format, &help))
        format = NULL;
    if (size >= sizeof hdf5 && memcmp(data, hdf5, sizeof hdf5) == 0)
        return 0;
    if (format && strcmp(format, "onert") == 0)
        return 0;
    struct tmk_diag diag = {0};
    struct tmk_ranges *ranges = NULL;
    if (!fuzz_ok(tmk_ranges_read(fuzz_file("ranges", data, size), format, &ranges, &diag), &diag))
        return 0;
    for (uint32_t i = 0; i < ranges->n; i++)
        for (uint32_t c = 0; c < ranges->items[i].n; c++)
            fuzz_check(ranges->items[i].low[c] <= ranges->items[i].high[c], &diag);
    tmk_ranges_destroy(&ranges);
    return 0;
}
