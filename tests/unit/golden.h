/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a version of a format is judged by: $TMK_GOLDEN holds one for each that was ever
 * written. Needs test.h before it.
 *
 * TMK_GOLDEN_NEW=1 in the environment makes one that is not there yet, once; none is ever changed.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static inline const char *golden_path(const char *name, char out[512]) {
    const char *all = getenv("TMK_GOLDEN");
    assert_non_null(all);
    snprintf(out, 512, "%s/%s", all, name);
    return out;
}

/* The version that is written today must have its file; `bytes` are what it would hold. */
static inline void assert_has_golden(const char *name, const void *bytes, size_t len) {
    char path[512];
    golden_path(name, path);
    if (access(path, F_OK) != 0 && getenv("TMK_GOLDEN_NEW"))
        must(tmk_file_write(path, bytes, len, DIAG));
    if (access(path, F_OK) != 0)
        fail_msg("%s: this version of the format has no file; TMK_GOLDEN_NEW=1 makes it", path);
}

/* And what is written must be that, byte by byte: not for HDF5, whose library has versions too. */
static inline void assert_golden(const char *name, const void *bytes, size_t len) {
    char path[512];
    struct tmk_buf *file = NULL;
    assert_has_golden(name, bytes, len);
    must(tmk_file_map(golden_path(name, path), &file, DIAG));
    if (tmk_buf_size(file) != len || memcmp(tmk_buf_data(file), bytes, len) != 0)
        fail_msg("%s: what is written is not what this version was: a new version, or a mistake",
                 path);
    tmk_buf_unref(&file);
}
