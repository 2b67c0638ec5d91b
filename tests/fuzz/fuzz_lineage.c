/* SPDX-License-Identifier: Apache-2.0 */
/* Lineages: what reads can be written. */
#include <tidemark/lineage.h>

#include "base/diag.h"
#include "fuzz.h"

FUZZ_TARGET(lineage) {
    struct tmk_diag diag = {0};
    struct tmk_lineage_record *record = NULL;
    if (!fuzz_ok(tmk_lineage_record_read(fuzz_file("lineage.json", data, size), &record, &diag),
                 &diag))
        return 0;
    (void)fuzz_done(tmk_lineage_record_write(record, fuzz_file("again.json", NULL, 0), &diag),
                    &diag);
    tmk_lineage_record_destroy(&record);
    return 0;
}
