/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of names, for encodings of four values. */
#include "base/diag.h"
#include "export/exporter.h"
#include "fuzz.h"

FUZZ_TARGET(names) {
    struct tmk_left_float values[] = {
        {.id = 0, .name = "x", .reason = ""},
        {.id = 1, .name = "conv/out:0", .reason = ""},
        {.id = 2, .name = "", .reason = ""},
        {.id = 12, .name = "p1", .reason = ""},
    };
    const struct tmk_encodings encodings = {.left = values,
                                            .n_left = sizeof values / sizeof *values};
    struct tmk_export_names names = {0};
    struct tmk_diag diag = {0};
    const char *path = fuzz_file("names.json", data, size);
    (void)fuzz_ok(tmk_export_names_read(path, &encodings, &names, &diag), &diag);
    tmk_export_names_finish(&names);
    return 0;
}
