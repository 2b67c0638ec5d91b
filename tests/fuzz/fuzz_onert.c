/* SPDX-License-Identifier: Apache-2.0 */
/* onert's ranges, in HDF5. */
#include <tidemark/ranges.h>

#include "base/diag.h"
#include "fuzz.h"

FUZZ_TARGET(onert) {
    struct tmk_diag diag = {0};
    struct tmk_ranges *ranges = NULL;
    const char *path = fuzz_file("ranges.h5", data, size);
    if (fuzz_ok(tmk_ranges_read(path, "onert", &ranges, &diag), &diag))
        tmk_ranges_destroy(&ranges);
    return 0;
}
